//! Name-value pairs (section 3.4): lengths of one byte up to 127, of four above.

use super::record::{HEADER, Header, LONGEST};
use super::{FastCgiError, REQUEST_ID, kind};

/// Writes pairs as the records of a stream, into a buffer that may hold something before them.
#[derive(Debug)]
pub struct ParamsWriter<'o> {
    out: &'o mut Vec<u8>,
    /// Where the header of the first record is to stand.
    start: usize,
}

impl<'o> ParamsWriter<'o> {
    /// Begins at the end of `out`.
    pub fn new(out: &'o mut Vec<u8>) -> Self {
        let start = out.len();
        out.extend_from_slice(&[0; HEADER]);
        Self { out, start }
    }

    /// Appends a pair.
    pub fn push(&mut self, name: &str, value: &[u8]) {
        length(self.out, name.len());
        length(self.out, value.len());
        self.out.extend_from_slice(name.as_bytes());
        self.out.extend_from_slice(value);
    }

    /// Writes the headers: one record if everything fits, which it nearly always does.
    pub fn finish(self, kind: u8, request: u16) {
        pack(self.out, self.start, kind, request);
    }

    /// Writes the headers of PARAMS, and the empty record that ends them.
    pub fn finish_request(self) {
        let empty = self.out.len() == self.start + HEADER;
        pack(self.out, self.start, kind::PARAMS, REQUEST_ID);
        if !empty {
            let end = Header { kind: kind::PARAMS, request: REQUEST_ID, length: 0, padding: 0 };
            self.out.extend_from_slice(&end.encode());
        }
    }
}

/// Puts headers before the pairs that stand behind the room for one at `start`.
fn pack(out: &mut Vec<u8>, start: usize, kind: u8, request: u16) {
    let content = start + HEADER;
    let header =
        |length: usize| Header { kind, request, length: length as u16, padding: 0 }.encode();
    let total = out.len() - content;
    if total <= LONGEST {
        out[start..content].copy_from_slice(&header(total));
        return;
    }
    let pairs = out.split_off(content);
    out.truncate(start);
    for piece in pairs.chunks(LONGEST) {
        out.extend_from_slice(&header(piece.len()));
        out.extend_from_slice(piece);
    }
}

fn length(out: &mut Vec<u8>, length: usize) {
    match u8::try_from(length) {
        Ok(short) if short < 0x80 => out.push(short),
        // No value comes near 2 GiB: heads are bounded.
        _ => out.extend_from_slice(&(length as u32 | 0x8000_0000).to_be_bytes()),
    }
}

/// Reads pairs, of a stream that is there as a whole.
#[derive(Clone, Debug)]
pub struct Params<'b> {
    rest: &'b [u8],
}

impl<'b> Params<'b> {
    /// The pairs in `bytes`.
    pub fn new(bytes: &'b [u8]) -> Self {
        Self { rest: bytes }
    }

    fn length(&mut self) -> Option<usize> {
        let first = *self.rest.first()?;
        if first < 0x80 {
            self.rest = &self.rest[1..];
            return Some(usize::from(first));
        }
        let (long, rest) = self.rest.split_first_chunk::<4>()?;
        self.rest = rest;
        Some((u32::from_be_bytes(*long) & 0x7fff_ffff) as usize)
    }

    fn pair(&mut self) -> Option<(&'b [u8], &'b [u8])> {
        let (name, value) = (self.length()?, self.length()?);
        let (name, rest) = self.rest.split_at_checked(name)?;
        let (value, rest) = rest.split_at_checked(value)?;
        self.rest = rest;
        Some((name, value))
    }
}

impl<'b> Iterator for Params<'b> {
    type Item = Result<(&'b [u8], &'b [u8]), FastCgiError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let pair = self.pair();
        if pair.is_none() {
            self.rest = &[];
        }
        Some(pair.ok_or(FastCgiError::Pair))
    }
}
