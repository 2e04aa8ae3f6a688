//! Errors.

use std::io;
use std::path::{Path, PathBuf};

/// Why an archive cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    /// The journal cannot be read, or its checkpoint not be written.
    #[error("the journal cannot be read: {0}")]
    Journal(#[source] io::Error),
    /// A local file cannot be read or written.
    #[error("{path}: {source}")]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// The error.
        source: io::Error,
    },
    /// A segment cannot be indexed.
    #[error(transparent)]
    Index(#[from] weir_tracker::Error),
    /// The object storage rejected a request, or did not respond.
    #[error("{object}: {reason}")]
    Storage {
        /// URL of the object or folder.
        object: String,
        /// The reason.
        reason: String,
    },
    /// An object is not what its manifest says.
    #[error("{object}: {reason}")]
    Damaged {
        /// URL of the object.
        object: String,
        /// The difference.
        reason: String,
    },
    /// The settings are invalid.
    #[error("{0}")]
    Settings(String),
}

impl ArchiveError {
    pub(crate) fn io(path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { path: path.to_owned(), source }
    }
}

impl From<ArchiveError> for io::Error {
    fn from(error: ArchiveError) -> Self {
        Self::other(error.to_string())
    }
}
