//! Errors of the Monitor.

use std::io;
use weir_store::StoreError;

/// Errors of the Monitor.
#[derive(Debug, thiserror::Error)]
pub enum MonitorError {
    /// The database could not be opened.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The database could not be read or written.
    #[error("the database of counts: {}", weir_store::describe(.0))]
    Database(#[from] rusqlite::Error),
    /// The journal could not be read.
    #[error("the journal cannot be read: {0}")]
    Journal(#[source] io::Error),
}
