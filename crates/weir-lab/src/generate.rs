//! Bodies made for a test: what a request sends is decided before the load begins, so that making
//! it costs the generator nothing.

mod corpus;

pub use corpus::Corpus;

use bytes::Bytes;
use std::path::{Path, PathBuf};

/// Largest body, and largest sum of the bodies of one pool.
pub const LARGEST: u64 = 1 << 30;

/// What to make.
#[derive(Clone, Debug, PartialEq)]
pub enum Payload {
    /// The JSON of WSO2's public tests, exactly so many bytes: [`array`].
    Array {
        /// Its length in bytes.
        size: u64,
    },
    /// Rows of fields in JSON: [`grid`].
    Grid {
        /// How many objects.
        rows: u32,
        /// How many members each.
        fields: u32,
    },
    /// Many different documents of words, some of them frequent: [`Corpus`].
    Corpus(Corpus),
    /// The content of a file.
    File(PathBuf),
    /// So many bytes of `x`: for what only counts bytes.
    Filler {
        /// Its length in bytes.
        size: u64,
    },
}

/// Why a payload cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum GenerateError {
    /// An array cannot be that short.
    #[error("an array payload of {size} bytes is not possible: the shortest has {shortest}")]
    TooShort {
        /// What was asked for.
        size: u64,
        /// The shortest there is.
        shortest: usize,
    },
    /// More than [`LARGEST`].
    #[error("payloads may have {LARGEST} bytes in all")]
    TooLarge,
    /// The file cannot be read.
    #[error("`{}` cannot be read: {error}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        error: std::io::Error,
    },
}

impl Payload {
    /// Makes the bodies: one, or as many as a corpus has documents. The same every time.
    ///
    /// # Errors
    /// It is too large, too short for its kind, or its file cannot be read.
    pub fn make(&self) -> Result<Vec<Bytes>, GenerateError> {
        Ok(match self {
            Self::Array { size } => vec![array(*size)?.into()],
            Self::Grid { rows, fields } => vec![grid(*rows, *fields)?.into()],
            Self::Corpus(corpus) => corpus.documents()?,
            Self::File(path) => vec![file(path)?.into()],
            Self::Filler { size } => vec![vec![b'x'; checked(*size)?].into()],
        })
    }
}

fn checked(size: u64) -> Result<usize, GenerateError> {
    let fits = usize::try_from(size).ok().filter(|_| size <= LARGEST);
    fits.ok_or(GenerateError::TooLarge)
}

fn file(path: &Path) -> Result<Vec<u8>, GenerateError> {
    let fault = |error| GenerateError::File { path: path.to_owned(), error };
    let metadata = std::fs::metadata(path).map_err(fault)?;
    // A pipe or a device has no end.
    if !metadata.is_file() {
        return Err(fault(std::io::Error::other("it is no file")));
    }
    checked(metadata.len())?;
    std::fs::read(path).map_err(fault)
}

/// Characters of an item of an array payload.
const ITEM: usize = 10;
/// What items of an array payload are made of, over and over.
const CYCLE: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// `{"size":"50B","payload":["0123456789","ABCDEFGHIJ",…]}`, exactly `size` bytes: items of ten
/// characters, the last one longer (up to 13) where a further item would not fit. It is the format
/// of WSO2's published performance tests (their payload generator, type `array`).
///
/// # Errors
/// `size` is less than the frame takes, or more than [`LARGEST`].
pub fn array(size: u64) -> Result<Vec<u8>, GenerateError> {
    let length = checked(size)?;
    let mut body = format!("{{\"size\":\"{size}B\",\"payload\":[\"").into_bytes();
    let (between, end) = (b"\",\"", b"\"]}");
    let shortest = body.len() + end.len();
    let Some(mut left) = length.checked_sub(shortest) else {
        return Err(GenerateError::TooShort { size, shortest });
    };
    body.reserve_exact(left + end.len());
    let mut characters = CYCLE.iter().cycle();
    let mut in_item = 0;
    while left > 0 {
        body.extend(characters.next());
        left -= 1;
        in_item += 1;
        if in_item == ITEM {
            in_item = 0;
            if left > between.len() {
                body.extend_from_slice(between);
                left -= between.len();
            }
        }
    }
    body.extend_from_slice(end);
    Ok(body)
}

/// Characters of a grid's value: a field takes 44 bytes with its name, so that 10 × 10 fields are
/// 4.4 KB, as in the published tests with dynamic grids.
const VALUE: usize = 34;

/// `[{"f001":"…",…},…]`: so many rows of so many fields, each value 34 characters long and
/// different from its neighbours.
///
/// # Errors
/// It would be more than [`LARGEST`].
pub fn grid(rows: u32, fields: u32) -> Result<Vec<u8>, GenerateError> {
    checked(u64::from(rows).saturating_mul(u64::from(fields)).saturating_mul(50))?;
    let mut body = vec![b'['];
    for row in 0..rows {
        body.extend_from_slice(if row > 0 { b",{" } else { b"{" });
        for field in 0..fields {
            let start = row as usize * 7 + field as usize;
            let value: String = CYCLE
                .iter()
                .cycle()
                .skip(start % CYCLE.len())
                .take(VALUE)
                .map(|byte| char::from(*byte))
                .collect();
            let comma = if field > 0 { "," } else { "" };
            body.extend_from_slice(format!("{comma}\"f{field:03}\":\"{value}\"").as_bytes());
        }
        body.push(b'}');
    }
    body.push(b']');
    Ok(body)
}

#[cfg(test)]
mod tests;
