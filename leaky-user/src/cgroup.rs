//! cgroups by path: what the kernel program compares is their id.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

/// A cgroup as the kernel program knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cgroup {
    /// Its id, which is the inode number of its folder (kernfs on 64-bit machines).
    pub id: u64,
    /// How many levels it is below the root.
    pub level: u32,
}

/// Why a cgroup cannot be found.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No cgroup2 file system is mounted.
    #[error(
        "no cgroup2 file system is mounted here, so no class can ask for cgroups; mount one at \
         /sys/fs/cgroup"
    )]
    NotMounted,
    /// The path cannot be looked at.
    #[error("cannot look at the cgroup {path}: {reason}")]
    Unreadable {
        /// As in the config file.
        path: String,
        /// The system's error.
        reason: io::Error,
    },
}

/// Finds the cgroup at `path`, from the root of the hierarchy; `None` if there is none.
///
/// # Errors
/// [`Error`].
pub fn find(path: &Path) -> Result<Option<Cgroup>, Error> {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let root = mount_point(&mounts).ok_or(Error::NotMounted)?;
    let below = path.strip_prefix("/").unwrap_or(path);
    let level = below
        .components()
        .filter(|part| matches!(part, Component::Normal(_)))
        .count();
    match fs::metadata(root.join(below)) {
        Ok(found) if !found.is_dir() => Ok(None),
        Ok(folder) => Ok(Some(Cgroup {
            id: folder.ino(),
            level: u32::try_from(level).unwrap_or(u32::MAX),
        })),
        Err(reason) if reason.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(reason) => Err(Error::Unreadable {
            path: path.display().to_string(),
            reason,
        }),
    }
}

/// Where the first cgroup2 file system is mounted.
fn mount_point(mounts: &str) -> Option<PathBuf> {
    mounts.lines().find_map(|line| {
        let mut words = line.split(' ');
        let (place, kind) = (words.nth(1)?, words.next()?);
        (kind == "cgroup2").then(|| PathBuf::from(place))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mount_is_found_among_others() {
        let mounts = "proc /proc proc rw 0 0\ncgroup /sys/fs/cgroup/cpu cgroup rw 0 0\n\
                      cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n";
        assert_eq!(
            mount_point(mounts),
            Some(PathBuf::from("/sys/fs/cgroup/unified"))
        );
        assert_eq!(mount_point("proc /proc proc rw 0 0\n"), None);
    }
}
