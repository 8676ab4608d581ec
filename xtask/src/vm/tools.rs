//! Programs of this machine that booting a guest needs, installed when that is possible.

use anyhow::{Result, bail};

use crate::command::{find_program, is_root};
use crate::setup::apt;

/// Program and the Debian and Ubuntu package that has it.
const NEEDED: [(&str, &str); 6] = [
    ("qemu-system-x86_64", "qemu-system-x86"),
    ("busybox", "busybox-static"),
    ("depmod", "kmod"),
    ("xz", "xz-utils"),
    ("ip", "iproute2"),
    ("setpriv", "util-linux"),
];

/// Makes sure that every needed program is here.
///
/// # Errors
/// When one is missing and cannot be installed from here; says which, and the command.
pub(super) fn ensure() -> Result<()> {
    if std::env::consts::ARCH != "x86_64" {
        // The guest runs this machine's programs, so it must be of the same kind.
        bail!("kernels can be booted on x86_64 machines only");
    }
    let missing: Vec<&str> = NEEDED
        .into_iter()
        .filter(|(program, _)| find_program(program).is_none())
        .map(|(_, package)| package)
        .collect();
    if !apt::exists() || find_program("dpkg").is_none() {
        bail!(
            "booting Debian's kernels needs apt and dpkg to fetch them (Debian or Ubuntu){}{}",
            if missing.is_empty() { "" } else { ", and " },
            missing.join(", ")
        );
    }
    if missing.is_empty() {
        return Ok(());
    }
    if !is_root() {
        bail!(
            "booting a kernel needs {}: {}",
            missing.join(", "),
            apt::install_command(&missing)
        );
    }
    apt::install(&missing)
}
