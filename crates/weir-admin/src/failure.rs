//! Why a query of the admin API failed.

/// Why a query failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// Files cannot be read; the text says which and why.
    #[error("{0}")]
    Unreadable(String),
    /// There is no index.
    #[error("indexing is off: `tracker.index` is none")]
    NotIndexed,
    /// The index is too far behind, or is being rebuilt.
    #[error("the index lags behind, so it is unknown whether the transaction exists")]
    Behind,
}

/// Why a search failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SearchFailure {
    /// The query is invalid.
    Query {
        /// Start of the wrong part in bytes, and its end (exclusive).
        place: [usize; 2],
        /// The error, and the suggested fix.
        message: String,
    },
    /// The cursor is invalid.
    Cursor,
    /// The query searches payloads without the required role.
    NeedsPayload,
    /// Data could not be read.
    Failed(Failure),
}

/// A query that may block.
pub type Door<Q, A, E> = Box<dyn Fn(&Q) -> Result<A, E> + Send + Sync>;
