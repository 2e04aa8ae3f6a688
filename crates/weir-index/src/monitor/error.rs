//! Why the Monitor could not do something.

use crate::store::StoreError;
use std::io;

/// Why the Monitor could not do something.
#[derive(Debug, thiserror::Error)]
pub enum MonitorError {
    /// The database could not be opened.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The database refused.
    #[error("the database of counts: {0}")]
    Database(#[from] rusqlite::Error),
    /// The journal could not be read.
    #[error("the journal cannot be read: {0}")]
    Journal(#[source] io::Error),
}
