//! Why something was not copied between the database of the node and that of the fleet.

use crate::database::DatabaseError;

/// Why something was not copied.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CopyError {
    #[error(transparent)]
    Database(#[from] DatabaseError),
    #[error("the database of this node cannot be read or written: {0}")]
    Store(#[from] rusqlite::Error),
}

impl From<tokio_postgres::Error> for CopyError {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Database(error.into())
    }
}
