//! Programs of the host that demo and tests call.

use anyhow::{Result, bail};

use super::apt;
use crate::command::{find_program, is_root};

/// Program and the Debian package that has it.
const NEEDED: [(&str, &str); 4] = [
    ("ip", "iproute2"),
    ("tc", "iproute2"),
    // A router's address translation, and WireGuard's keys, in the tests of kinds of devices.
    ("nft", "nftables"),
    ("wg", "wireguard-tools"),
];

/// Makes sure that every needed program is here.
///
/// # Errors
/// Says which ones are missing and how to get them, when they cannot be installed right now.
pub(crate) fn ensure() -> Result<()> {
    let missing: Vec<(&str, &str)> = NEEDED
        .into_iter()
        .filter(|(program, _)| find_program(program).is_none())
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    let mut packages: Vec<&str> = missing.iter().map(|(_, package)| *package).collect();
    packages.dedup();
    if !apt::exists() {
        bail!(
            "the tests need {}: install the packages that have them (Debian calls them {})",
            missing
                .iter()
                .map(|(program, _)| format!("`{program}`"))
                .collect::<Vec<_>>()
                .join(", "),
            packages.join(", ")
        );
    }
    if !is_root() {
        bail!(
            "the tests need {}: {}",
            packages.join(", "),
            apt::install_command(&packages)
        );
    }
    apt::install(&packages)
}
