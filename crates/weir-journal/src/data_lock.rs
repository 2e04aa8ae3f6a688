//! The lock of a data folder: one weir per folder.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _};
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
pub struct DataLock(File);

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
        let file = options.open(&path).map_err(at(&path))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let pid = fs::read_to_string(&path).unwrap_or_default();
                let pid = if pid.is_empty() { "?".to_owned() } else { pid };
                return Err(Error::InUse { pid });
            }
            Err(TryLockError::Error(source)) => return Err(at(&path)(source)),
        }
        write_process_id(&file).map_err(at(&path))?;
        Ok(Self(file))
    }

    /// A descriptor of the lock for another process: the folder stays locked until both processes
    /// have dropped theirs.
    ///
    /// # Errors
    /// No descriptor is free.
    pub fn share(&self) -> io::Result<OwnedFd> {
        Ok(self.0.try_clone()?.into())
    }

    /// The lock of a data folder, from a descriptor that its holder has shared.
    ///
    /// # Errors
    /// [`Error::InUse`] if the descriptor is not that of this folder's lock; [`Error::Io`] if files
    /// fail.
    pub fn inherit(data: &Path, shared: OwnedFd) -> Result<Self, Error> {
        let path = data.join("journal").join("lock");
        let file = File::from(shared);
        let shared = file.metadata().map_err(at(&path))?;
        let own = fs::metadata(&path).map_err(at(&path))?;
        if (shared.dev(), shared.ino()) != (own.dev(), own.ino()) {
            return Err(Error::InUse { pid: fs::read_to_string(&path).unwrap_or_default() });
        }
        write_process_id(&file).map_err(at(&path))?;
        Ok(Self(file))
    }
}

fn write_process_id(file: &File) -> io::Result<()> {
    file.set_len(0)?;
    // Not at the offset of the file, which all holders of a shared lock have in common.
    file.write_all_at(std::process::id().to_string().as_bytes(), 0)
}
