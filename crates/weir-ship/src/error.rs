//! Errors.

use std::io;

use weir_store::StoreError;

/// Why transactions cannot be shipped.
#[derive(Debug, thiserror::Error)]
pub enum ShipError {
    /// The journal cannot be read, or its checkpoint not be written.
    #[error("the journal cannot be read: {0}")]
    Journal(#[source] io::Error),
    /// The database cannot be opened.
    #[error("the database cannot be opened: {0}")]
    Store(#[from] StoreError),
    /// The database cannot be read or written.
    #[error("the database cannot be used: {0}")]
    Database(#[from] rusqlite::Error),
    /// A backfill of Kafka: OpenSearch leaves a document alone that exists, a topic gets it twice.
    #[error("a sink of Kafka has no backfill: its topic could get transactions twice")]
    NoBackfill,
}
