//! Why the Monitor could not do something.

use crate::store::{self, StoreError};
use std::io;

/// Why the Monitor could not do something.
#[derive(Debug, thiserror::Error)]
pub enum MonitorError {
    /// The database could not be opened.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The database refused.
    #[error("the database of counts: {}", said(.0))]
    Database(#[from] rusqlite::Error),
    /// The journal could not be read.
    #[error("the journal cannot be read: {0}")]
    Journal(#[source] io::Error),
}

/// What the database says, and how to go on where it is damaged.
fn said(error: &rusqlite::Error) -> String {
    if store::is_damage(error) { format!("{error}; {}", store::HINT) } else { error.to_string() }
}
