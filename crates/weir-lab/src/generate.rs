//! Generated bodies. Bodies are generated before the load, so that they do not cost the generator
//! time.

mod corpus;

pub use corpus::Corpus;

use crate::bounded_file::{self, FileError};
use bytes::Bytes;
use std::path::PathBuf;

/// Largest body, and largest sum of the bodies of a pool.
pub const MAX_BYTES: u64 = 1 << 30;

/// Kind of body.
#[derive(Clone, Debug, PartialEq)]
pub enum Payload {
    /// The JSON of WSO2's public tests with an exact length: [`array`].
    Array {
        /// Its length in bytes.
        size: u64,
    },
    /// Rows of fields in JSON: [`grid`].
    Grid {
        /// Number of objects.
        rows: u32,
        /// Members of each object.
        fields: u32,
    },
    /// Documents of words with different frequencies: [`Corpus`].
    Corpus(Corpus),
    /// The content of a file.
    File(PathBuf),
    /// Bytes of `x`.
    Filler {
        /// Its length in bytes.
        size: u64,
    },
}

/// Why a body cannot be generated.
#[derive(Debug, thiserror::Error)]
pub enum GenerateError {
    /// The array is too short.
    #[error("an array body of {size} bytes is too short: the minimum is {shortest} bytes")]
    TooShort {
        /// The requested size.
        size: u64,
        /// The minimum.
        shortest: usize,
    },
    /// More than [`MAX_BYTES`].
    #[error("bodies may have at most {MAX_BYTES} bytes in total")]
    TooLarge,
    /// The file cannot be read.
    #[error(transparent)]
    File(#[from] FileError),
}

impl Payload {
    /// Generates the bodies: one, or as many as a corpus has documents. The result is reproducible.
    ///
    /// # Errors
    /// The body is too large, too short for its kind, or its file cannot be read.
    pub fn make(&self) -> Result<Vec<Bytes>, GenerateError> {
        Ok(match self {
            Self::Array { size } => vec![array(*size)?.into()],
            Self::Grid { rows, fields } => vec![grid(*rows, *fields)?.into()],
            Self::Corpus(corpus) => corpus.documents()?,
            Self::File(path) => vec![bounded_file::read(path, MAX_BYTES)?.into()],
            Self::Filler { size } => vec![vec![b'x'; checked(*size)?].into()],
        })
    }
}

fn checked(size: u64) -> Result<usize, GenerateError> {
    let fits = usize::try_from(size).ok().filter(|_| size <= MAX_BYTES);
    fits.ok_or(GenerateError::TooLarge)
}

/// Characters of an item of an array body.
const ITEM_CHARS: usize = 10;
/// Characters of the items, cyclically.
const CYCLE: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// `{"size":"50B","payload":["0123456789","ABCDEFGHIJ",…]}`, exactly `size` bytes: items of ten
/// characters, the last one longer (up to 13) where a further item would not fit. It is the format
/// of WSO2's published performance tests (their payload generator, type `array`).
///
/// # Errors
/// `size` is below the minimum, or above [`MAX_BYTES`].
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
        if in_item == ITEM_CHARS {
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
const VALUE_CHARS: usize = 34;

/// `[{"f001":"…",…},…]`: rows of fields, each value 34 characters long and different from its
/// neighbours.
///
/// # Errors
/// The body would exceed [`MAX_BYTES`].
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
                .take(VALUE_CHARS)
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
