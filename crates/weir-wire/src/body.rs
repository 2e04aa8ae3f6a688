//! Decoding bodies: finding the bytes of a body in the input.

use crate::{Framing, HeadLimits, Headers, Scan};
use std::fmt;
use std::ops::Range;

/// Why a body is rejected. The connection cannot be reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BodyError {
    /// The chunk size is no hexadecimal number of at most 16 digits.
    #[error("a chunk size is not valid")]
    ChunkSize,
    /// The extensions of a chunk have a control character or are too long.
    #[error("a chunk extension is not valid or too long")]
    ChunkExtension,
    /// Chunk data is not followed by CR LF, or a line of the framing ends otherwise.
    #[error("a chunk does not end in CR LF")]
    ChunkEnd,
    /// The trailer section is not valid or too long.
    #[error("the trailer section is not valid or too long")]
    Trailers,
    /// The connection was closed inside the body.
    #[error("the connection closed before the end of the body")]
    Truncated,
}

/// Most bytes of extensions in one body. Nobody uses them, but each byte costs work (the "chunk
/// extension flood").
const MAX_EXTENSION_BYTES: u32 = 4 * 1024;
/// Most bytes of a trailer section.
const MAX_TRAILER_BYTES: usize = 8 * 1024;
/// Most trailer fields.
const MAX_TRAILER_FIELDS: usize = 32;

/// Decodes one body.
#[derive(Debug, Default)]
pub struct BodyDecoder {
    state: State,
    extension_bytes: u32,
    trailers: Option<Box<Trailers>>,
}

#[derive(Default)]
struct Trailers {
    text: Vec<u8>,
    fields: Headers,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Done,
    /// Bytes that are still to come.
    Length(u64),
    UntilClose,
    /// In the digits of a chunk size: value and number of digits.
    Size(u64, u8),
    /// In the extensions of a chunk of this size.
    Extension(u64),
    /// After the CR of the size line.
    SizeLf(u64),
    /// Bytes of the chunk that are still to come.
    Data(u64),
    DataCr,
    DataLf,
    /// Collecting the trailer section.
    Trailers,
}

/// Result of [`BodyDecoder::decode`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decoded {
    /// Bytes of the input that are body.
    pub data: Range<usize>,
    /// Bytes of the input that were processed: framing, and `data`, which ends here.
    pub consumed: usize,
}

impl BodyDecoder {
    /// A decoder for a body with this framing.
    pub fn new(framing: Framing) -> Self {
        let state = match framing {
            Framing::None | Framing::Length(0) => State::Done,
            Framing::Length(length) => State::Length(length),
            Framing::Chunked => State::Size(0, 0),
            Framing::UntilClose => State::UntilClose,
        };
        Self { state, extension_bytes: 0, trailers: None }
    }

    /// The body is complete.
    pub fn is_done(&self) -> bool {
        self.state == State::Done
    }

    /// Bytes that are still to come, if known.
    pub fn remaining(&self) -> Option<u64> {
        match self.state {
            State::Done => Some(0),
            State::Length(left) => Some(left),
            _ => None,
        }
    }

    /// Trailer fields of a chunked body that is complete; none without trailers.
    pub fn trailers(&self) -> Option<&Headers> {
        let fields = &self.trailers.as_deref().filter(|_| self.is_done())?.fields;
        (!fields.is_empty()).then_some(fields)
    }

    /// Finds the next bytes of body in `input`. Call again with the rest of the input until it
    /// consumes nothing; then more input is needed, or the body is done.
    ///
    /// # Errors
    /// The framing is malformed.
    pub fn decode(&mut self, input: &[u8]) -> Result<Decoded, BodyError> {
        let mut at = 0;
        while at < input.len() {
            match self.state {
                State::Done => break,
                State::Length(left) => {
                    let take = left.min((input.len() - at) as u64);
                    self.state =
                        if take == left { State::Done } else { State::Length(left - take) };
                    return Ok(data(at, take));
                }
                State::UntilClose => return Ok(data(at, (input.len() - at) as u64)),
                State::Data(left) => {
                    let take = left.min((input.len() - at) as u64);
                    self.state =
                        if take == left { State::DataCr } else { State::Data(left - take) };
                    return Ok(data(at, take));
                }
                State::Trailers => at += self.trailer_bytes(&input[at..])?,
                _ => {
                    self.framing_byte(input[at])?;
                    at += 1;
                }
            }
        }
        Ok(Decoded { data: at..at, consumed: at })
    }

    /// Signals that the connection was closed.
    ///
    /// # Errors
    /// The body was not complete.
    pub fn close(&mut self) -> Result<(), BodyError> {
        match self.state {
            State::Done => Ok(()),
            State::UntilClose => {
                self.state = State::Done;
                Ok(())
            }
            _ => Err(BodyError::Truncated),
        }
    }

    fn framing_byte(&mut self, byte: u8) -> Result<(), BodyError> {
        self.state = match (self.state, byte) {
            (State::Size(size, digits), _) if byte.is_ascii_hexdigit() => {
                if digits == 16 {
                    return Err(BodyError::ChunkSize);
                }
                let digit = (byte as char).to_digit(16).unwrap_or(0);
                State::Size(size << 4 | u64::from(digit), digits + 1)
            }
            (State::Size(_, 0), _) => return Err(BodyError::ChunkSize),
            (State::Size(size, _), b'\r') => State::SizeLf(size),
            (State::Size(size, _), b';') => State::Extension(size),
            (State::Size(..), _) => return Err(BodyError::ChunkSize),
            (State::Extension(size), b'\r') => State::SizeLf(size),
            (State::Extension(size), _) => {
                self.extension_bytes += 1;
                let control = byte != b'\t' && byte.is_ascii_control();
                if control || self.extension_bytes > MAX_EXTENSION_BYTES {
                    return Err(BodyError::ChunkExtension);
                }
                State::Extension(size)
            }
            (State::SizeLf(0), b'\n') => State::Trailers,
            (State::SizeLf(size), b'\n') => State::Data(size),
            (State::DataCr, b'\r') => State::DataLf,
            (State::DataLf, b'\n') => State::Size(0, 0),
            _ => return Err(BodyError::ChunkEnd),
        };
        Ok(())
    }

    /// Collects trailer bytes up to the empty line; returns how many were consumed.
    fn trailer_bytes(&mut self, input: &[u8]) -> Result<usize, BodyError> {
        if self.trailers.is_none() && input.starts_with(b"\r\n") {
            // The common case: no trailers.
            self.state = State::Done;
            return Ok(2);
        }
        let trailers = self.trailers.get_or_insert_default();
        for (index, &byte) in input.iter().enumerate() {
            let text = &mut trailers.text;
            let after_cr = text.last() == Some(&b'\r');
            if after_cr != (byte == b'\n') || text.len() >= MAX_TRAILER_BYTES {
                return Err(BodyError::Trailers);
            }
            text.push(byte);
            if text.as_slice() == b"\r\n" || text.ends_with(b"\r\n\r\n") {
                trailers.parse()?;
                self.state = State::Done;
                return Ok(index + 1);
            }
        }
        Ok(input.len())
    }
}

/// Names only, as for [`Headers`].
impl fmt::Debug for Trailers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.fields.fmt(f)
    }
}

impl Trailers {
    fn parse(&mut self) -> Result<(), BodyError> {
        let limits = HeadLimits { bytes: usize::MAX, fields: MAX_TRAILER_FIELDS, target: 0 };
        match Scan::after_start_line().fields(&self.text, &limits, &mut self.fields) {
            Ok(Some(_)) => Ok(()),
            _ => Err(BodyError::Trailers),
        }
    }
}

fn data(start: usize, length: u64) -> Decoded {
    let end = start + length as usize;
    Decoded { data: start..end, consumed: end }
}

#[cfg(test)]
mod tests;
