//! `cargo xtask demo` and `cargo xtask bench`: programs of the test package that take root.

use std::process::Command;

use anyhow::{Result, bail};

use crate::command::{become_command, is_root, note, shell_line};
use crate::product;
use crate::setup;
use crate::workspace::Workspace;

/// Builds everything and becomes the program `name` of the test package.
///
/// # Errors
/// When something does not build; and without root, with the command to run instead.
pub(crate) fn run(workspace: &Workspace, name: &str, arguments: &[String]) -> Result<()> {
    setup::programs()?;
    let product = product::build(workspace)?;
    let program = product::build_test_binary(workspace, &product, name)?;
    let mut command = Command::new(program);
    command.args(arguments).envs(product.environment());
    if !is_root() {
        // Not through cargo: root may have no Rust toolchain, and should not own files in the target folder.
        bail!(
            "all is built, but the {name} loads eBPF programs into the kernel and makes network namespaces, \
             which takes root. Run:\n  sudo {}\n\
             The tests that need no root: cargo xtask test unit",
            shell_line(&command)
        );
    }
    note(&format!("starting the {name}"));
    become_command(&mut command)
}
