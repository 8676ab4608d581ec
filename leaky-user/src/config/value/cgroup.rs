//! Control groups.

use super::ValueError;
use crate::config::error::quoted;
use leaky_core::abi::CGROUP_LEVELS;
use std::path::PathBuf;

/// Where the hierarchy of cgroup v2 is mounted (file-hierarchy(7) and systemd).
const MOUNT: &str = "/sys/fs/cgroup";

/// The path of a cgroup below the root of the cgroup v2 hierarchy, such as
/// `/system.slice/backup.service`: what stands behind `0::` in `/proc/PID/cgroup`.
///
/// # Errors
/// Paths that are not absolute, have `.` or `..` or empty parts, name the mount point, or are more than 7
/// levels deep.
pub fn cgroup(text: &str) -> Result<PathBuf, ValueError> {
    let refused = |why: &str| {
        let given = quoted(text);
        Err(ValueError::new(format!(
            "cgroup {given} {why}: write its path from the root of the cgroup hierarchy, such as \
             \"/system.slice/backup.service\""
        )))
    };
    if let Some(below) = text.strip_prefix(MOUNT)
        && (below.is_empty() || below.starts_with('/'))
    {
        return refused("contains the mount point");
    }
    let Some(path) = text.strip_prefix('/') else {
        return refused("is not absolute");
    };
    if path.contains('\0') {
        return refused("contains a NUL");
    }
    // The root itself is "/", every other path has no empty part, also not at its end.
    let parts = || path.split('/');
    if parts().any(|part| matches!(part, "." | "..")) {
        return refused("contains . or ..");
    }
    if !path.is_empty() && parts().any(str::is_empty) {
        return refused("contains an empty name");
    }
    if parts().filter(|part| !part.is_empty()).count() >= CGROUP_LEVELS as usize {
        return refused("is more than 7 levels deep, further than the kernel program looks");
    }
    Ok(PathBuf::from(text))
}
