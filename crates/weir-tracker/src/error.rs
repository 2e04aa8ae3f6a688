//! Why the index could not do something.

use std::io;
use std::path::{Path, PathBuf};

/// Why the index could not do something.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file could not be made, read or written.
    #[error("{path}: {source}")]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// What happened.
        source: io::Error,
    },
    /// The journal could not be read.
    #[error("the journal cannot be read: {0}")]
    Journal(#[source] io::Error),
    /// A part of the index is damaged; it will be made again from the journal.
    #[error("{path}: damaged: {what}")]
    Damaged {
        /// The folder of the part.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
    /// The index has not come to the end of the journal, or is being made again, and the rest was
    /// too much to be read in its place.
    #[error("the index is behind")]
    Behind,
}

impl Error {
    pub(crate) fn io(path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { path: path.to_owned(), source }
    }

    /// Whether a piece has to be made again.
    pub(crate) fn is_damage(&self) -> bool {
        match self {
            Self::Damaged { .. } => true,
            Self::Io { source, .. } => source.kind() == io::ErrorKind::NotFound,
            Self::Journal(_) | Self::Behind => false,
        }
    }

    pub(crate) fn damaged(path: &Path, what: impl Into<String>) -> Self {
        Self::Damaged { path: path.to_owned(), what: what.into() }
    }
}
