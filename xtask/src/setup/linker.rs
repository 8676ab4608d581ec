//! bpf-linker: links what rustc makes into one BPF object. It reads rustc's LLVM bitcode, so both need the same LLVM.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use super::toolchain::Toolchain;
use crate::command::{find_program, host_cargo, note, quiet};
use crate::workspace::Workspace;

/// The version that is built when none is found.
const VERSION: &str = "0.13.0";

/// LLVM majors that this version of bpf-linker can be built for (its cargo features `llvm-…`), less those that do not
/// have all the CPU features that the eBPF build asks for.
pub(crate) const LLVM_MAJORS: [u32; 2] = [22, 23];

/// Finds a bpf-linker with the toolchain's LLVM: the one built before, else one in PATH, else builds it.
///
/// # Errors
/// When it cannot be built, with the end of cargo's output.
pub(crate) fn ensure(workspace: &Workspace, toolchain: &Toolchain) -> Result<PathBuf> {
    let tools = workspace.tools();
    let ours = tools.join("bin/bpf-linker");
    let stamp = tools.join("bpf-linker.stamp");
    let wanted = stamp_text(toolchain);
    if fs::read_to_string(&stamp).is_ok_and(|text| text == wanted) && works(&ours) {
        return Ok(ours);
    }
    if let Some(found) = find_program("bpf-linker")
        && fs::read(&found).is_ok_and(|binary| is_linked_with(&binary, toolchain.version.llvm))
        && works(&found)
    {
        return Ok(found);
    }
    build(&tools, toolchain)?;
    fs::write(&stamp, wanted).with_context(|| format!("cannot write {}", stamp.display()))?;
    Ok(ours)
}

/// What our bpf-linker was built for: an LLVM that moved or changed its name makes it useless.
fn stamp_text(toolchain: &Toolchain) -> String {
    format!("bpf-linker {VERSION}, {}\n", toolchain.libllvm.display())
}

/// Whether it starts (its libraries are there) and is a version whose options we know.
fn works(linker: &Path) -> bool {
    quiet(Command::new(linker).arg("--version")).is_ok_and(|said| version_is_known(&said))
}

fn version_is_known(said: &str) -> bool {
    said.strip_prefix("bpf-linker 0.")
        .and_then(|rest| rest.split('.').next())
        .and_then(|minor| minor.parse::<u32>().ok())
        .is_some_and(|minor| minor >= 13)
}

/// Whether the binary asks the loader for this major of libLLVM. bpf-linker does not tell its LLVM, and in a binary
/// with LLVM inside it cannot be known: such a one is not used.
fn is_linked_with(binary: &[u8], llvm: u32) -> bool {
    let name = format!("libLLVM.so.{llvm}.");
    binary
        .windows(name.len())
        .any(|window| window == name.as_bytes())
}

fn build(tools: &Path, toolchain: &Toolchain) -> Result<()> {
    let llvm = toolchain.version.llvm;
    note(&format!(
        "building bpf-linker {VERSION} for LLVM {llvm}, about a minute"
    ));
    // Its build script wants a folder with a libLLVM.so; no LLVM development package has exactly rustc's.
    let prefix = tools.join(format!("llvm-{llvm}"));
    let lib = prefix.join("lib");
    fs::create_dir_all(&lib).with_context(|| format!("cannot create {}", lib.display()))?;
    let link = lib.join("libLLVM.so");
    let _ = fs::remove_file(&link);
    std::os::unix::fs::symlink(&toolchain.libllvm, &link)
        .with_context(|| format!("cannot link {}", link.display()))?;
    let folder = toolchain
        .libllvm
        .parent()
        .context("libLLVM.so has no folder")?;

    let mut command = host_cargo();
    command
        .args([
            "install",
            "bpf-linker",
            "--version",
            VERSION,
            "--locked",
            "--force",
        ])
        .args([
            "--no-default-features",
            "--features",
            &format!("llvm-{llvm}"),
        ])
        .arg("--root")
        .arg(tools)
        .arg("--target-dir")
        .arg(tools.join("build"))
        .env("LLVM_PREFIX", &prefix)
        // Found again at run time without LD_LIBRARY_PATH.
        .env(
            "CARGO_ENCODED_RUSTFLAGS",
            format!("-Clink-arg=-Wl,-rpath,{}", folder.display()),
        )
        .env_remove("RUSTFLAGS");
    quiet(&mut command).context(
        "bpf-linker could not be built: it needs a C compiler and the crate registry; \
         when those are there, run `cargo xtask setup` again",
    )?;
    // 200 MB of intermediate files that nobody needs again.
    let _ = fs::remove_dir_all(tools.join("build"));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_known_versions_are_used() {
        assert!(version_is_known("bpf-linker 0.13.0\n"));
        assert!(version_is_known("bpf-linker 0.14.1"));
        assert!(!version_is_known("bpf-linker 0.9.15"));
        assert!(!version_is_known("something else"));
    }

    #[test]
    fn the_llvm_of_a_binary_is_read_from_its_library_names() {
        let binary = b"\x7fELF..\0libc.so.6\0libLLVM.so.22.1\0".as_slice();
        assert!(is_linked_with(binary, 22));
        assert!(!is_linked_with(binary, 21));
        assert!(!is_linked_with(b"static LLVM 22.1.0", 22));
    }
}
