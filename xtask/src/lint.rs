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
    for outside in ["leaky-ebpf/Cargo.toml", "tests/fuzz/Cargo.toml"] {
        visible(&mut cargo(&["fmt", "--manifest-path", outside, "--check"]))?;
    }
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
    if warnings(&objects.messages).next().is_some() {
        bail!("the eBPF programs build with warnings, see above");
    }
    shell_scripts(workspace)
}

/// Headlines of the compiler's warnings. `-Dwarnings` would be another build of `core`; cargo repeats the warnings of
/// earlier builds, so they can be looked for.
fn warnings(messages: &str) -> impl Iterator<Item = String> {
    messages
        .lines()
        .map(without_colours)
        .filter(|line| line.starts_with("warning"))
        // Not the count at the end.
        .filter(|line| !line.contains("generated"))
}

fn without_colours(line: &str) -> String {
    let mut pieces = line.split('\u{1b}');
    let mut plain = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        plain.push_str(piece.split_once('m').map_or("", |(_, text)| text));
    }
    plain
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
    fn warnings_are_found_with_and_without_colours() {
        let messages = "   Compiling core v0.0.0\n\
            warning: unused import: `x`\n\
            \u{1b}[1m\u{1b}[33mwarning\u{1b}[0m\u{1b}[1m: unused variable: `y`\u{1b}[0m\n\
            warning: `leaky-ebpf` (lib) generated 2 warnings\n    Finished `release` profile\n";
        assert_eq!(
            warnings(messages).collect::<Vec<_>>(),
            [
                "warning: unused import: `x`",
                "warning: unused variable: `y`"
            ]
        );
        assert_eq!(warnings("    Finished `release` profile\n").count(), 0);
    }
}
