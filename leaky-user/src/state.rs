//! Where leaky keeps what it must remember while it runs.

use std::io;
use std::os::linux::fs::MetadataExt;
use std::path::PathBuf;

/// Emptied when the machine starts, as qdiscs and programs are.
const FOLDER: &str = "/run/leaky";

/// The record of the interface with this index in this network namespace. Namespaces have
/// interfaces of the same index, so theirs is in the name.
///
/// # Errors
/// Where /proc is not mounted.
pub fn record_path(ifindex: u32) -> Result<PathBuf, crate::run::Error> {
    let namespace = std::fs::metadata("/proc/self/ns/net")
        .map(|namespace| namespace.st_ino())
        .map_err(|error: io::Error| {
            crate::run::Error::Process("read /proc/self/ns/net (mount /proc)", error)
        })?;
    Ok(PathBuf::from(FOLDER).join(format!("{namespace}-{ifindex}.json")))
}
