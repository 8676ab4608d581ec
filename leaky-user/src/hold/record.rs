//! What must be put back, on disk, so that it can be put back after a crash.

use super::{Error, Previous};
use crate::net::{Link, Op, Qdisc};
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

/// The form of the file.
const VERSION: u32 = 1;

/// How an interface was before leaky.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    version: u32,
    /// The interface's index.
    pub ifindex: u32,
    /// Its name then.
    pub interface: String,
    /// Its root qdisc.
    pub previous: Previous,
    /// Its `gso_max_segs`, if leaky changed it: before, and what leaky set.
    pub gso_max_segs: Option<(u32, u32)>,
}

impl Record {
    /// A record for this interface.
    pub fn new(link: &Link, previous: Previous, gso_max_segs: Option<u32>) -> Record {
        Record {
            version: VERSION,
            ifindex: link.index,
            interface: link.name.clone(),
            previous,
            gso_max_segs: gso_max_segs.map(|set| (link.gso_max_segs, set)),
        }
    }

    /// The record at `path`; `None` if there is none, or none that this leaky understands.
    ///
    /// # Errors
    /// [`Error::Record`] if it cannot be read.
    pub fn read(path: &Path) -> Result<Option<Record>, Error> {
        match fs::read(path) {
            Ok(bytes) => Ok(serde_json::from_slice(&bytes)
                .ok()
                .filter(|record: &Record| record.version == VERSION)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(source) => Err(Error::Record {
                doing: "read",
                path: path.to_owned(),
                source,
            }),
        }
    }

    /// Writes it so that after a crash there is either the old file or the whole new one.
    ///
    /// # Errors
    /// [`Error::Record`] if it cannot be written.
    pub fn write(&self, path: &Path) -> Result<(), Error> {
        let failed = |source| Error::Record {
            doing: "write",
            path: path.to_owned(),
            source,
        };
        let text = serde_json::to_vec(self).map_err(|e| failed(e.into()))?;
        let temporary = with_suffix(path, ".new");
        let mut file = File::create(&temporary).map_err(failed)?;
        file.write_all(&text)
            .and_then(|()| file.sync_all())
            .map_err(failed)?;
        fs::rename(&temporary, path).map_err(failed)?;
        // The new name is on disk once the folder is.
        let folder = path.parent().unwrap_or(Path::new("."));
        File::open(folder)
            .and_then(|folder| folder.sync_all())
            .map_err(failed)
    }

    /// Removes the file, if it is there.
    ///
    /// # Errors
    /// [`Error::Record`] if it cannot be removed.
    pub fn remove(path: &Path) -> Result<(), Error> {
        // What a leaky left that was killed while it wrote.
        let _ = fs::remove_file(with_suffix(path, ".new"));
        match fs::remove_file(path) {
            Err(source) if source.kind() != ErrorKind::NotFound => Err(Error::Record {
                doing: "remove",
                path: path.to_owned(),
                source,
            }),
            _ => Ok(()),
        }
    }

    /// The operations that bring the interface back to how it was, given how it is now. What
    /// somebody else changed since is left alone.
    pub fn restore(&self, link: &Link, qdiscs: &[Qdisc]) -> Vec<Op> {
        let mut ops = self.previous.restore(qdiscs);
        if let Some((before, set)) = self.gso_max_segs
            && link.gso_max_segs == set
        {
            ops.push(Op::SetGsoMaxSegs(before));
        }
        ops
    }
}

/// `path` with something added to its last part.
pub(super) fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}
