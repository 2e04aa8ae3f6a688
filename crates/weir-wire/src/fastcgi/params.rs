//! Name-value pairs (section 3.4): lengths of one byte up to 127, of four above.

use super::record::{HEADER_BYTES, Header, MAX_CONTENT_BYTES};
use super::{FastCgiError, REQUEST_ID, kind};

/// Encodes pairs as the records of a stream, appended to a buffer.
#[derive(Debug)]
pub struct ParamsWriter<'o> {
    out: &'o mut Vec<u8>,
    /// Offset of the header of the first record.
    start: usize,
}

impl<'o> ParamsWriter<'o> {
    /// Starts at the end of `out`.
    pub fn new(out: &'o mut Vec<u8>) -> Self {
        let start = out.len();
        out.extend_from_slice(&[0; HEADER_BYTES]);
        Self { out, start }
    }

    /// Appends a pair.
    pub fn push(&mut self, name: &str, value: &[u8]) {
        length(self.out, name.len());
        length(self.out, value.len());
        self.out.extend_from_slice(name.as_bytes());
        self.out.extend_from_slice(value);
    }

    /// Writes the headers: nearly always of a single record.
    pub fn finish(self, kind: u8, request: u16) {
        pack(self.out, self.start, kind, request);
    }

    /// Writes the headers of PARAMS, and the empty record that ends them.
    pub fn finish_request(self) {
        let empty = self.out.len() == self.start + HEADER_BYTES;
        pack(self.out, self.start, kind::PARAMS, REQUEST_ID);
        if !empty {
            let end = Header { kind: kind::PARAMS, request: REQUEST_ID, length: 0, padding: 0 };
            self.out.extend_from_slice(&end.encode());
        }
    }
}

/// Inserts headers before the pairs, which follow the space for one header at `start`.
fn pack(out: &mut Vec<u8>, start: usize, kind: u8, request: u16) {
    let content = start + HEADER_BYTES;
    let header =
        |length: usize| Header { kind, request, length: length as u16, padding: 0 }.encode();
    let total = out.len() - content;
    if total <= MAX_CONTENT_BYTES {
        out[start..content].copy_from_slice(&header(total));
        return;
    }
    let pairs = out.split_off(content);
    out.truncate(start);
    for chunk in pairs.chunks(MAX_CONTENT_BYTES) {
        out.extend_from_slice(&header(chunk.len()));
        out.extend_from_slice(chunk);
    }
}

fn length(out: &mut Vec<u8>, length: usize) {
    match u8::try_from(length) {
        Ok(short) if short < 0x80 => out.push(short),
        // No value has 2 GiB: heads are limited.
        _ => out.extend_from_slice(&(length as u32 | 0x8000_0000).to_be_bytes()),
    }
}

/// Decodes pairs of a complete stream.
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
