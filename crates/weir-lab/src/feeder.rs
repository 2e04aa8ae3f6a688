//! Feeders: rows of values that virtual users take one after the other, from a CSV file or as
//! signed tokens. Everything is read or made before the load begins.

mod csv;
mod tokens;

pub use csv::CsvFile;
pub use tokens::{Algorithm, Signed, Tokens};

use std::path::PathBuf;

/// Largest file of rows.
pub const FILE_BYTES: u64 = 512 << 20;
/// Most rows of one feeder.
pub const ROWS: usize = 10_000_000;

/// Rows of values, all as long as there are columns.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Table {
    /// Names of the columns.
    pub columns: Vec<String>,
    /// The rows, in their order.
    pub rows: Vec<Vec<String>>,
}

/// What comes after the last row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AtEnd {
    /// The first one again.
    #[default]
    Recycle,
    /// The virtual user ends.
    Stop,
    /// Every value is `<EOF>`: what JMeter does when it neither recycles nor stops.
    Mark,
}

/// Who takes rows from one place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Share {
    /// All virtual users together: each row goes to one of them.
    #[default]
    All,
    /// The virtual users of a thread group together.
    Group,
    /// Every virtual user for itself: each sees all rows.
    User,
}

/// Why there are no rows.
#[derive(Debug, thiserror::Error)]
pub enum FeederError {
    /// The file cannot be read.
    #[error("`{}` cannot be read: {error}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        error: std::io::Error,
    },
    /// A row that cannot be taken apart.
    #[error("`{}`, line {line}: {reason}", path.display())]
    Row {
        /// In which file.
        path: PathBuf,
        /// Its first line, from 1.
        line: u64,
        /// What is wrong.
        reason: String,
    },
    /// There is no row.
    #[error("`{}` has no row", path.display())]
    Empty {
        /// Which file.
        path: PathBuf,
    },
    /// More than [`ROWS`].
    #[error("a feeder may have {ROWS} rows")]
    TooMany,
    /// A key that cannot sign.
    #[error("the key of the tokens cannot sign: {0}")]
    Key(String),
}

#[cfg(test)]
mod tests;
