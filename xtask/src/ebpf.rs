//! Builds the eBPF programs, a Cargo workspace of their own (`leaky-ebpf/`), for the BPF target.

use std::env;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Result, bail};

use crate::command::{Stream, copied, remove_package_variables};
use crate::setup::Tools;
use crate::workspace::Workspace;

/// Little-endian BPF: the byte order of every host that leaky is built for.
const TARGET: &str = "bpfel-unknown-none";

/// Variables that choose or steer a compiler; meant for the host's they would break this one.
pub(crate) const FOREIGN_VARIABLES: [&str; 14] = [
    "CARGO",
    "CARGO_BUILD_RUSTC",
    "CARGO_BUILD_RUSTFLAGS",
    "CARGO_BUILD_TARGET",
    "CARGO_TARGET_DIR",
    "LD_LIBRARY_PATH",
    "RUSTC",
    "RUSTC_WORKSPACE_WRAPPER",
    "RUSTC_WRAPPER",
    "RUSTDOC",
    "RUSTDOCFLAGS",
    "RUSTFLAGS",
    "RUSTUP_TOOLCHAIN",
    "__CARGO_TEST_CHANNEL_OVERRIDE_DO_NOT_USE_THIS",
];

/// The objects that a build makes.
#[derive(Debug, Clone)]
pub(crate) struct Objects {
    /// What leaky embeds and loads.
    pub(crate) leaky: PathBuf,
    /// An empty program and the like, only for measuring.
    pub(crate) bench: PathBuf,
    /// What the compiler said, for `lint`.
    pub(crate) messages: String,
}

/// Builds all eBPF programs in release mode: the verifier accepts nothing else.
///
/// # Errors
/// When the build fails; the compiler's messages have been shown by then.
pub(crate) fn build(workspace: &Workspace, tools: &Tools) -> Result<Objects> {
    let target = workspace.target.join("bpf");
    let (status, messages) = copied(&mut cargo(workspace, tools, &target), Stream::Stderr)?;
    if !status.success() {
        bail!(
            "the eBPF programs in leaky-ebpf do not build with {}",
            tools.toolchain.version.text
        );
    }
    let out = target.join(TARGET).join("release");
    let objects = Objects {
        leaky: out.join("leaky"),
        bench: out.join("bench"),
        messages,
    };
    for object in [&objects.leaky, &objects.bench] {
        if !object.is_file() {
            bail!(
                "the build of leaky-ebpf succeeded but made no {}",
                object.display()
            );
        }
    }
    Ok(objects)
}

fn cargo(workspace: &Workspace, tools: &Tools, target: &std::path::Path) -> Command {
    let mut command = Command::new(&tools.toolchain.cargo);
    remove_package_variables(&mut command);
    for name in FOREIGN_VARIABLES {
        command.env_remove(name);
    }
    let linker = format!("-Clinker={}", tools.linker.display());
    // v3 has the atomic instructions with fetch; BTF and debug info let the verifier name the source line it refuses.
    let flags = [
        "-Ctarget-cpu=v3",
        // Packet headers are not aligned; the kernel's verifier allows that where the CPU does. Without it every field
        // is put together from single bytes. Told to the linker, which makes the code: rustc would warn each time.
        "-Clink-arg=--cpu-features=+allows-misaligned-mem-access",
        "-Cdebuginfo=2",
        "-Clink-arg=--btf",
        &linker,
    ];
    command
        .current_dir(workspace.root.join("leaky-ebpf"))
        .args([
            "build",
            "--release",
            "--bins",
            "--target",
            TARGET,
            "-Zbuild-std=core",
        ])
        .arg("--target-dir")
        .arg(target)
        .env("RUSTC", &tools.toolchain.rustc)
        // -Zbuild-std and the intrinsics are unstable; a distribution's compiler is a stable one.
        .env("RUSTC_BOOTSTRAP", "1")
        .env("CARGO_ENCODED_RUSTFLAGS", flags.join("\u{1f}"));
    // With colours only when a person sees them: standard error goes through a pipe here.
    if env::var_os("NO_COLOR").is_none() && std::io::IsTerminal::is_terminal(&std::io::stderr()) {
        command.arg("--color=always");
    }
    command
}
