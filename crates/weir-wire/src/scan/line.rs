//! Parsing one line of a head from left to right: the first invalid byte determines the error.

use super::HeadError;

/// A parsed line. Lengths count from its start.
pub(super) enum Line {
    /// A field: the length of its name, start and end of its value, and the length of the line
    /// including its end.
    Field { name: usize, value: (usize, usize), length: usize },
    /// The empty line.
    End,
    /// The line is incomplete.
    Unfinished,
}

/// Parses the line at the start of `bytes`.
#[inline]
pub(super) fn read(bytes: &[u8]) -> Result<Line, HeadError> {
    let mut name = 0;
    // Byte by byte: names are short, and one table lookup decides.
    while let Some(&byte) = bytes.get(name)
        && is_token(byte)
    {
        name += 1;
    }
    match bytes.get(name) {
        None => return Ok(Line::Unfinished),
        Some(b':') if name > 0 => {}
        Some(b'\r') if name == 0 && bytes.get(1) == Some(&b'\n') => return Ok(Line::End),
        Some(&byte) => return no_colon(bytes, name, byte),
    }
    let mut start = name + 1;
    while let Some(b' ' | b'\t') = bytes.get(start) {
        start += 1;
    }
    let mut end = start + find_control(&bytes[start..]);
    while bytes.get(end) == Some(&b'\t') {
        end += 1;
        end += find_control(&bytes[end..]);
    }
    match (bytes.get(end), bytes.get(end + 1)) {
        (Some(b'\r'), Some(b'\n')) => {}
        (None, _) | (Some(b'\r'), None) => return Ok(Line::Unfinished),
        (Some(b'\r'), Some(_)) => return Err(HeadError::BareCr),
        (Some(b'\n'), _) => return Err(HeadError::BareLf),
        _ => return Err(HeadError::FieldValue),
    }
    let length = end + 2;
    while end > start && matches!(bytes[end - 1], b' ' | b'\t') {
        end -= 1;
    }
    Ok(Line::Field { name, value: (start, end), length })
}

/// A line with `byte` at `at` instead of a colon.
#[cold]
fn no_colon(bytes: &[u8], at: usize, byte: u8) -> Result<Line, HeadError> {
    match (byte, bytes.get(at + 1)) {
        (b'\n', _) => Err(HeadError::BareLf),
        (b' ' | b'\t', _) if at == 0 => Err(HeadError::Folded),
        (b'\r', None) => Ok(Line::Unfinished),
        (b'\r', Some(byte)) if *byte != b'\n' => Err(HeadError::BareCr),
        _ => Err(HeadError::FieldName),
    }
}

/// Bytes that are allowed in tokens.
static TOKEN: [bool; 256] = {
    let mut table = [false; 256];
    let others = b"!#$%&'*+-.^_`|~";
    let mut byte = 0;
    while byte < 128 {
        table[byte] = (byte as u8).is_ascii_alphanumeric();
        byte += 1;
    }
    let mut i = 0;
    while i < others.len() {
        table[others[i] as usize] = true;
        i += 1;
    }
    table
};

/// Whether a token may have this byte (RFC 9110 section 5.6.2).
#[inline]
pub fn is_token(byte: u8) -> bool {
    TOKEN[usize::from(byte)]
}

/// Number of bytes before the first control character (0 to 31, 127).
#[inline]
pub(crate) fn find_control(bytes: &[u8]) -> usize {
    const ONES: u64 = u64::from_ne_bytes([1; 8]);
    const HIGH: u64 = 0x80 * ONES;
    let mut at = 0;
    // Long values in large chunks, which the compiler vectorises.
    while let Some(chunk) = bytes[at..].first_chunk::<64>() {
        let found = chunk.iter().fold(false, |found, &b| found | (b < 0x20) | (b == 0x7f));
        if found {
            break;
        }
        at += 64;
    }
    while let Some(&chunk) = bytes[at..].first_chunk() {
        let word = u64::from_le_bytes(chunk);
        let delete = word ^ (0x7f * ONES);
        // Eight bytes at once: a subtraction borrows into the high bit of the bytes that are
        // smaller. The lowest bit that comes out is exact, those above it may not be.
        let low = word.wrapping_sub(0x20 * ONES) & !word;
        let found = (low | (delete.wrapping_sub(ONES) & !delete)) & HIGH;
        if found != 0 {
            return at + found.trailing_zeros() as usize / 8;
        }
        at += 8;
    }
    let rest = bytes[at..].iter().position(|b| b.is_ascii_control());
    at + rest.unwrap_or(bytes.len() - at)
}

/// Position of the first of two bytes. For the short texts of a head: setting up wider vectors
/// costs more than it saves.
#[inline]
pub fn find_either(bytes: &[u8], one: u8, other: u8) -> Option<usize> {
    const ONES: u64 = u64::from_ne_bytes([1; 8]);
    const HIGH: u64 = 0x80 * ONES;
    let (one_all, other_all) = (ONES * u64::from(one), ONES * u64::from(other));
    let mut at = 0;
    while let Some(&chunk) = bytes[at..].first_chunk() {
        let word = u64::from_le_bytes(chunk);
        // A byte becomes zero if it is searched for; then as in `find_control`.
        let (a, b) = (word ^ one_all, word ^ other_all);
        let found = ((a.wrapping_sub(ONES) & !a) | (b.wrapping_sub(ONES) & !b)) & HIGH;
        if found != 0 {
            return Some(at + found.trailing_zeros() as usize / 8);
        }
        at += 8;
    }
    bytes[at..].iter().position(|&byte| byte == one || byte == other).map(|rest| at + rest)
}

#[cfg(test)]
mod tests;
