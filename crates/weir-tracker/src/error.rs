//! Errors of the index.

use std::io;
use std::path::{Path, PathBuf};

/// Why the index cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file could not be created, read or written.
    #[error("{path}: {source}")]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// The error of the file system.
        source: io::Error,
    },
    /// The journal could not be read.
    #[error("the journal cannot be read: {0}")]
    Journal(#[source] io::Error),
    /// A part of the index is damaged; it will be built again from the journal.
    #[error("{path}: damaged: {what}")]
    Damaged {
        /// The folder of the part.
        path: PathBuf,
        /// The damage.
        what: String,
    },
    /// Something could not be fetched; the text names the object.
    #[error("{0}")]
    Remote(#[source] io::Error),
    /// The index has not reached the end of the journal, or is being repaired, and the rest of the
    /// journal is too long to be read instead.
    #[error("the index is behind")]
    Behind,
}

impl Error {
    pub(crate) fn io(path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { path: path.to_owned(), source }
    }

    /// Whether the part has to be built again.
    pub(crate) fn is_damage(&self) -> bool {
        match self {
            Self::Damaged { .. } => true,
            Self::Io { source, .. } => source.kind() == io::ErrorKind::NotFound,
            Self::Journal(_) | Self::Remote(_) | Self::Behind => false,
        }
    }

    pub(crate) fn damaged(path: &Path, what: impl Into<String>) -> Self {
        Self::Damaged { path: path.to_owned(), what: what.into() }
    }
}
