//! `cargo xtask lint`: format and warnings, of the host crates and of the eBPF programs.

use std::process::Command;

use anyhow::{Result, bail};

use crate::command::{host_cargo, note, visible};
use crate::ebpf;
use crate::setup;
use crate::workspace::Workspace;

/// Checks everything, cheapest first.
///
/// # Errors
/// At the first check that fails; its own output has been shown.
pub(crate) fn run(workspace: &Workspace) -> Result<()> {
    let cargo = |args: &[&str]| {
        let mut command = host_cargo();
        command
            .current_dir(&workspace.root)
            .args(args)
            .env_remove("LEAKY_EBPF_OBJECT");
        command
    };
    note("checking the format");
    visible(&mut cargo(&["fmt", "--all", "--check"]))?;
    visible(&mut cargo(&[
        "fmt",
        "--manifest-path",
        "leaky-ebpf/Cargo.toml",
        "--check",
    ]))?;
    note("looking for warnings (clippy)");
    visible(&mut cargo(&[
        "clippy",
        "--workspace",
        "--all-targets",
        "--",
        "-Dwarnings",
    ]))?;
    note("looking for warnings in the documentation");
    let mut doc = cargo(&[
        "doc",
        "--workspace",
        "--no-deps",
        "--document-private-items",
    ]);
    visible(doc.env("RUSTDOCFLAGS", "-Dwarnings"))?;
    note("looking for warnings in the eBPF programs");
    let objects = ebpf::build(workspace, &setup::tools(workspace)?)?;
    if has_warnings(&objects.messages) {
        bail!("the eBPF programs build with warnings, see above");
    }
    shell_scripts(workspace)
}

/// `-Dwarnings` would be another build of `core`; cargo repeats warnings of earlier builds, so they can be looked for.
fn has_warnings(messages: &str) -> bool {
    messages
        .lines()
        .any(|line| line.contains("warning") && line.contains("generated"))
}

fn shell_scripts(workspace: &Workspace) -> Result<()> {
    visible(
        Command::new("bash")
            .arg("-n")
            .arg(workspace.root.join(".ci/run")),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warnings_of_a_crate_are_found_in_cargos_messages() {
        assert!(has_warnings(
            "warning: unused\n\nwarning: `leaky-ebpf` (bin \"leaky\") generated 1 warning\n"
        ));
        assert!(!has_warnings(
            "   Compiling core v0.0.0\n    Finished `release` profile\n"
        ));
    }
}
