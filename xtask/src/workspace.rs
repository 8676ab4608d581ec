//! Where the project and its build output are.

use std::env;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// The folders that every command works in.
#[derive(Debug, Clone)]
pub(crate) struct Workspace {
    /// The folder with the workspace's `Cargo.toml`.
    pub(crate) root: PathBuf,
    /// Cargo's target folder, the one this very program was built into.
    pub(crate) target: PathBuf,
}

impl Workspace {
    /// Finds the workspace. Cargo says where it is when it runs this program; the place it was built in serves when
    /// the program is started by hand.
    pub(crate) fn find() -> Result<Self> {
        let manifest = env::var_os("CARGO_MANIFEST_DIR")
            .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
        let root = manifest
            .parent()
            .with_context(|| format!("{} has no parent folder", manifest.display()))?
            .to_path_buf();
        let program = env::current_exe().context("cannot find out where xtask itself is")?;
        let target = target_of(&program).unwrap_or_else(|| root.join("target"));
        Ok(Self { root, target })
    }

    /// Where tools that xtask builds for itself live.
    pub(crate) fn tools(&self) -> PathBuf {
        self.target.join("tools")
    }
}

/// Cargo marks its target folder with this file, whichever way (environment, configuration, default) it was chosen.
fn target_of(program: &Path) -> Option<PathBuf> {
    program
        .ancestors()
        .find(|folder| folder.join("CACHEDIR.TAG").is_file())
        .map(Path::to_path_buf)
}
