//! The lock of a data folder: one weir per folder.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use crate::os::atomic_file::create_folder;

/// Why a journal could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Another process has locked the data folder.
    #[error("the data folder is in use by process {pid}")]
    InUse {
        /// Process id that the other process wrote, or `?`.
        pid: String,
    },
    /// A file could not be created, read or written.
    #[error("{path}: {source}")]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
}

/// Adds the path to an error of the system.
pub(crate) fn at(path: &Path) -> impl FnOnce(io::Error) -> Error {
    let path = path.to_owned();
    move |source| Error::Io { path, source }
}

/// A locked data folder: no other process can open its journal until this is dropped.
#[derive(Debug)]
pub struct DataLock(
    #[expect(dead_code, reason = "the lock lasts as long as the file is open")] File,
);

impl DataLock {
    /// Locks a data folder.
    ///
    /// # Errors
    /// [`Error::InUse`] if another process has locked it; [`Error::Io`] if files fail.
    pub fn acquire(data: &Path) -> Result<Self, Error> {
        let folder = data.join("journal");
        create_folder(&folder).map_err(at(&folder))?;
        let path = folder.join("lock");
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let mut file = options.open(&path).map_err(at(&path))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let pid = fs::read_to_string(&path).unwrap_or_default();
                let pid = if pid.is_empty() { "?".to_owned() } else { pid };
                return Err(Error::InUse { pid });
            }
            Err(TryLockError::Error(source)) => return Err(at(&path)(source)),
        }
        file.set_len(0).map_err(at(&path))?;
        write!(file, "{}", std::process::id()).map_err(at(&path))?;
        Ok(Self(file))
    }
}
