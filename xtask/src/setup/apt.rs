//! Packages of Debian and its descendants.

use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result};

use crate::command::{find_program, is_root, note, quiet};

/// One `apt-get update` is enough for a run.
static UPDATED: AtomicBool = AtomicBool::new(false);

/// Whether this host has apt at all.
pub(crate) fn exists() -> bool {
    find_program("apt-get").is_some() && find_program("apt-cache").is_some()
}

/// The command that installs `packages`, for a message to a person.
pub(crate) fn install_command(packages: &[&str]) -> String {
    let sudo = if is_root() { "" } else { "sudo " };
    format!(
        "{sudo}apt-get install -y --no-install-recommends {}",
        packages.join(" ")
    )
}

/// Installs `packages`. Never removes another package to get there.
///
/// # Errors
/// When apt-get fails, with the end of its output. Root is needed: the caller asks [`is_root`] first.
pub(crate) fn install(packages: &[&str]) -> Result<()> {
    note(&format!(
        "installing {} with apt-get, this may take a minute",
        packages.join(", ")
    ));
    match try_install(packages) {
        Ok(()) => Ok(()),
        // Old package lists name files that the mirror no longer has; fresh ones are the usual remedy.
        Err(_) if !UPDATED.load(Ordering::Relaxed) => {
            update()?;
            try_install(packages)
        }
        Err(error) => Err(error),
    }
    .with_context(|| {
        format!(
            "could not install; try it by hand: {}",
            install_command(packages)
        )
    })
}

fn try_install(packages: &[&str]) -> Result<()> {
    let mut command = apt_get();
    command
        .args(["install", "-y", "--no-install-recommends", "--no-remove"])
        .args(packages);
    quiet(&mut command).map(drop)
}

/// Fetches the package lists, at most once in a run.
///
/// # Errors
/// When apt-get cannot reach its sources.
pub(crate) fn update() -> Result<()> {
    if UPDATED.swap(true, Ordering::Relaxed) {
        return Ok(());
    }
    note("fetching the package lists (apt-get update)");
    quiet(apt_get().arg("update")).map(drop)
}

fn apt_get() -> Command {
    let mut command = Command::new("apt-get");
    // Another apt may be at work on a machine that has just started: wait for it instead of failing.
    command
        .args(["-q", "-oDPkg::Lock::Timeout=300", "-oAcquire::Retries=3"])
        .env("DEBIAN_FRONTEND", "noninteractive");
    command
}

/// The version that would be installed for `package`, if the package lists know one.
pub(crate) fn candidate(package: &str) -> Option<String> {
    let text = quiet(
        Command::new("apt-cache")
            .args(["policy", package])
            .env("LC_ALL", "C"),
    )
    .ok()?;
    candidate_in(&text)
}

/// Names of packages that match a regular expression.
pub(crate) fn search(pattern: &str) -> Vec<String> {
    quiet(
        Command::new("apt-cache")
            .args(["search", "--names-only", pattern])
            .env("LC_ALL", "C"),
    )
    .unwrap_or_default()
    .lines()
    .filter_map(|line| line.split_whitespace().next())
    .map(str::to_owned)
    .collect()
}

fn candidate_in(policy: &str) -> Option<String> {
    policy
        .lines()
        .find_map(|line| line.trim().strip_prefix("Candidate:"))
        .map(str::trim)
        .filter(|version| *version != "(none)")
        .map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn candidate_is_read_from_the_policy() {
        let text = "rustc-web:\n  Installed: (none)\n  Candidate: 1.96.0+dfsg1-1~deb12u2\n";
        assert_eq!(
            candidate_in(text).as_deref(),
            Some("1.96.0+dfsg1-1~deb12u2")
        );
        assert_eq!(
            candidate_in("x:\n  Installed: (none)\n  Candidate: (none)\n"),
            None
        );
        assert_eq!(candidate_in(""), None);
    }
}
