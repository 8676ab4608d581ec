//! At most one leaky at an interface: a lock that ends with the process that holds it.

use super::Error;
use super::record::with_suffix;
use std::fs::{self, File, TryLockError};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The right to change an interface. Dropping it gives it up.
#[derive(Debug)]
pub(super) struct Claim {
    path: PathBuf,
    _lock: File,
}

impl Claim {
    /// Takes the claim that goes with the record at `record`, making its folder.
    ///
    /// # Errors
    /// [`Error::Busy`] while another process has it; [`Error::Record`] if there can be no file.
    pub(super) fn take(record: &Path) -> Result<Claim, Error> {
        let path = with_suffix(record, ".lock");
        let failed = |source| Error::Record {
            doing: "lock",
            path: path.clone(),
            source,
        };
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).map_err(failed)?;
        }
        loop {
            let file = File::options()
                .write(true)
                .create(true)
                .truncate(false)
                .open(&path)
                .map_err(failed)?;
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => return Err(Error::Busy { path }),
                Err(TryLockError::Error(source)) => return Err(failed(source)),
            }
            // The one who had it may have removed the file between our opening and locking it;
            // then the lock is on a file that nobody else will see.
            if same_file(&file, &path).map_err(failed)? {
                return Ok(Claim { path, _lock: file });
            }
        }
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        // Removed while still locked. A file that stays is no harm: it is not locked any more.
        let _ = fs::remove_file(&self.path);
    }
}

fn same_file(file: &File, path: &Path) -> io::Result<bool> {
    let ours = file.metadata()?;
    match fs::metadata(path) {
        Ok(there) => Ok((ours.dev(), ours.ino()) == (there.dev(), there.ino())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}
