//! Finds, or gets, what building and testing needs. Every other command calls this without being asked; when all is
//! there it takes a fraction of a second and says nothing.

pub(crate) mod apt;
mod linker;
mod programs;
mod toolchain;
mod version;

use std::path::PathBuf;

use anyhow::Result;

pub(crate) use programs::ensure as programs;
pub(crate) use toolchain::{Toolchain, rustup_nightlies};

use crate::workspace::Workspace;

/// What builds the eBPF programs.
#[derive(Debug, Clone)]
pub(crate) struct Tools {
    /// Compiler and cargo with the sources of `core`.
    pub(crate) toolchain: Toolchain,
    /// The linker for its LLVM.
    pub(crate) linker: PathBuf,
}

/// Makes sure that the eBPF toolchain is here.
///
/// # Errors
/// Says what is missing and the command that gets it.
pub(crate) fn tools(workspace: &Workspace) -> Result<Tools> {
    let toolchain = toolchain::ensure()?;
    let linker = linker::ensure(workspace, &toolchain)?;
    Ok(Tools { toolchain, linker })
}

/// Sets everything up and says what was found.
///
/// # Errors
/// As [`tools`], and when a program that the tests need is missing.
pub(crate) fn show(workspace: &Workspace) -> Result<()> {
    let Tools { toolchain, linker } = tools(workspace)?;
    programs()?;
    println!(
        "eBPF compiler: {} ({})",
        toolchain.rustc.display(),
        toolchain.version.text
    );
    println!(
        "bpf-linker:    {} (LLVM {})",
        linker.display(),
        toolchain.version.llvm
    );
    Ok(())
}
