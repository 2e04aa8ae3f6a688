//! Feeders: rows of values that virtual users consume, from a file, generated or as signed tokens. All
//! rows are read or created before the load.

mod csv;
pub mod generator;
mod json_lines;
mod tokens;

pub use csv::CsvFile;
pub use json_lines::JsonLines;
pub use tokens::{Algorithm, Signed, Tokens};

use crate::bounded_file::FileError;
use std::path::PathBuf;

/// Largest CSV file.
pub const MAX_FILE_BYTES: u64 = 512 << 20;
/// Largest number of rows of a feeder.
pub const MAX_ROWS: usize = 10_000_000;
/// Largest number of columns.
pub const MAX_COLUMNS: usize = 1000;

/// Rows of values, one value per column.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Table {
    /// Names of the columns.
    pub columns: Vec<String>,
    /// The rows, in their order.
    pub rows: Vec<Vec<Box<str>>>,
}

/// Why rows cannot be provided.
#[derive(Debug, thiserror::Error)]
pub enum FeederError {
    /// The file cannot be read.
    #[error(transparent)]
    File(#[from] FileError),
    /// An invalid row.
    #[error("`{}`, line {line}: {reason}", path.display())]
    Row {
        /// The file.
        path: PathBuf,
        /// First line of the row, from 1.
        line: u64,
        /// The error.
        reason: String,
    },
    /// The file has no row.
    #[error("`{}` has no row", path.display())]
    Empty {
        /// The file.
        path: PathBuf,
    },
    /// A column cannot be generated.
    #[error("column `{name}`: {reason}")]
    Column {
        /// Its name.
        name: String,
        /// The error.
        reason: String,
    },
    /// More than [`MAX_ROWS`].
    #[error("a feeder may have at most {MAX_ROWS} rows")]
    TooMany,
    /// An invalid signing key.
    #[error("the signing key of the tokens is invalid: {0}")]
    Key(String),
}

#[cfg(test)]
mod tests;
