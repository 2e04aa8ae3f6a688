//! Strict, incremental parsing of heads, line by line.

mod line;

use crate::{Headers, Known};
use line::Line;
pub(crate) use line::find_control;
pub use line::{find_either, is_token};
use memchr::memchr2;

/// Limits of a head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeadLimits {
    /// Bytes of the entire head, its empty line included.
    pub bytes: usize,
    /// Header fields.
    pub fields: usize,
    /// Bytes of the request target.
    pub target: usize,
}

impl Default for HeadLimits {
    fn default() -> Self {
        Self { bytes: 32 * 1024, fields: 100, target: 8 * 1024 }
    }
}

/// Why a head is rejected. The connection cannot be reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HeadError {
    /// A line feed without a carriage return before it.
    #[error("a line ends in LF without CR")]
    BareLf,
    /// A carriage return without a line feed after it.
    #[error("CR without LF")]
    BareCr,
    /// A header line that starts with white space (RFC 9112 section 5.2).
    #[error("a header line starts with white space (obsolete folding)")]
    Folded,
    /// More bytes than the limit.
    #[error("the head is longer than the limit")]
    TooLong,
    /// More fields than the limit.
    #[error("there are more header fields than the limit")]
    TooManyFields,
    /// The request target is longer than the limit.
    #[error("the request target is longer than the limit")]
    TargetTooLong,
    /// The request or status line is malformed.
    #[error("the start line is not HTTP/1.x")]
    StartLine,
    /// Another version than HTTP/1.0 or 1.1.
    #[error("the protocol version is not HTTP/1.0 or HTTP/1.1")]
    Version,
    /// The target's form is not allowed for the method.
    #[error("the request target is not valid")]
    Target,
    /// A name that is not a token, or white space before the colon.
    #[error("a header name is not valid")]
    FieldName,
    /// A control character in a value.
    #[error("a header value has a control character")]
    FieldValue,
    /// HTTP/1.1 without Host.
    #[error("there is no Host header")]
    HostMissing,
    /// More than one Host.
    #[error("there is more than one Host header")]
    HostRepeated,
    /// A Host that is not a host and port.
    #[error("the Host header is not valid")]
    HostInvalid,
    /// A Host that differs from `:authority` (RFC 9113 section 8.3.1).
    #[error("the Host header and :authority differ")]
    HostDiffers,
    /// Content-Length together with Transfer-Encoding.
    #[error("there is both a Content-Length and a Transfer-Encoding")]
    LengthAndEncoding,
    /// More than one Content-Length, equal or not.
    #[error("there is more than one Content-Length")]
    LengthRepeated,
    /// A Content-Length that is not a number of at most 19 digits.
    #[error("the Content-Length is not valid")]
    LengthInvalid,
    /// A Transfer-Encoding that is not exactly `chunked`, is repeated, or is on HTTP/1.0.
    #[error("the Transfer-Encoding is not exactly `chunked` on HTTP/1.1")]
    EncodingInvalid,
    /// Connection has too many options.
    #[error("the Connection header has more than 32 options")]
    ConnectionOptions,
}

/// Progress of parsing a head. Parsing continues as bytes arrive, so that a head sent byte by byte
/// costs little more than one sent at once: each line is parsed once, when it is complete.
///
/// A scan belongs to one head, which has the lines parsed so far.
#[derive(Clone, Copy, Debug, Default)]
pub struct Scan {
    /// Start of the head, after empty lines, which a server may ignore (RFC 9112 section 2.2).
    start: usize,
    /// Start of the line being read.
    line: usize,
    /// No byte before this one ends that line.
    at: usize,
    /// The start line is parsed.
    started: bool,
}

/// Empty lines accepted before a request line: some old clients send them after a body.
const MAX_EMPTY_LINES: usize = 2;
/// Most bytes of method and version around a target.
const MAX_BYTES_AROUND_TARGET: usize = 64;

impl Scan {
    /// A scan at the start of a buffer.
    pub fn new() -> Self {
        Self::default()
    }

    /// A scan of fields without a start line: trailers.
    pub(crate) fn after_start_line() -> Self {
        Self { started: true, ..Self::default() }
    }

    /// Parses the start line with `read`, unless that is done. `read` gets the bytes from the start
    /// of the line on and returns the length of the line; `None` if it is incomplete. Returns
    /// whether the line is parsed.
    #[inline]
    pub(crate) fn start_line(
        &mut self,
        bytes: &[u8],
        limits: &HeadLimits,
        mut read: impl FnMut(&[u8]) -> Result<Option<usize>, HeadError>,
    ) -> Result<bool, HeadError> {
        if self.started {
            return Ok(true);
        }
        let max_bytes = limits.bytes.min(limits.target.saturating_add(MAX_BYTES_AROUND_TARGET));
        let window = window(bytes, self.start, max_bytes);
        if !self.line_may_end(window, max_bytes) {
            return Ok(false);
        }
        let found = match read(&window[self.line..]) {
            Err(error) if self.is_decided(window, max_bytes, |byte| read(byte).is_err()) => {
                return Err(error);
            }
            found => found.unwrap_or(None),
        };
        let Some(length) = found else {
            self.wait(window);
            return match window.len() - self.start == max_bytes {
                true if max_bytes == limits.bytes => Err(HeadError::TooLong),
                true => Err(HeadError::TargetTooLong),
                false => Ok(false),
            };
        };
        self.next_line(length);
        self.started = true;
        Ok(true)
    }

    /// Skips empty lines before the start line; `false` if more bytes are needed to decide.
    #[inline]
    pub(crate) fn skip_empty_lines(&mut self, bytes: &[u8]) -> Result<bool, HeadError> {
        while !self.started && bytes.get(self.start) == Some(&b'\r') {
            match bytes.get(self.start + 1) {
                None => return Ok(false),
                Some(b'\n') if self.start < 2 * MAX_EMPTY_LINES => self.start += 2,
                Some(b'\n') => return Err(HeadError::StartLine),
                Some(_) => return Err(HeadError::BareCr),
            }
            self.line = self.start;
            self.at = self.start;
        }
        Ok(true)
    }

    /// Parses header fields into `headers`, up to the empty line. Returns the range of the head,
    /// including the empty line; `headers` has its text then.
    ///
    /// # Errors
    /// The first invalid byte determines the error, whatever follows it.
    pub(crate) fn fields(
        &mut self,
        bytes: &[u8],
        limits: &HeadLimits,
        headers: &mut Headers,
    ) -> Result<Option<(usize, usize)>, HeadError> {
        let window = window(bytes, self.start, limits.bytes);
        if !self.line_may_end(window, limits.bytes) {
            return Ok(None);
        }
        let max_fields = limits.fields.min(MAX_FIELDS);
        loop {
            let offset = self.line - self.start;
            let found = match line::read(&window[self.line..]) {
                Err(error) if self.is_decided(window, limits.bytes, |b| line::read(b).is_err()) => {
                    return Err(error);
                }
                found => found.unwrap_or(Line::Unfinished),
            };
            match found {
                Line::Field { name, value, length } => {
                    if headers.len() == max_fields {
                        return Err(HeadError::TooManyFields);
                    }
                    let line = &window[self.line..];
                    headers.push_at(Known::of(&line[..name]), offset, name, value);
                    self.next_line(length);
                }
                Line::End => {
                    let end = self.line + 2;
                    headers.take_text(&window[self.start..end]);
                    return Ok(Some((self.start, end)));
                }
                Line::Unfinished => {
                    self.wait(window);
                    let full = window.len() - self.start == limits.bytes;
                    return if full { Err(HeadError::TooLong) } else { Ok(None) };
                }
            }
        }
    }

    fn next_line(&mut self, length: usize) {
        self.line += length;
        self.at = self.line;
    }

    /// Whether the end of the line may be in `window`, or the limit is reached, so that the line
    /// has to be parsed as it is. Only new bytes are searched.
    #[inline]
    fn line_may_end(&mut self, window: &[u8], max_bytes: usize) -> bool {
        if self.at == self.line || window.len() - self.start == max_bytes {
            return true;
        }
        let ends = memchr2(b'\r', b'\n', &window[self.at..]).is_some();
        if !ends {
            self.at = window.len();
        }
        ends
    }

    /// Whether an error in the line counts now: its end has arrived, or the limit is reached, or
    /// its first byte is `bad`, like a TLS greeting on a plain port, which may never send a line
    /// end. Otherwise the error waits, so that the result does not depend on how the bytes are
    /// split.
    #[cold]
    fn is_decided(&self, window: &[u8], max_bytes: usize, bad: impl FnOnce(&[u8]) -> bool) -> bool {
        let line = &window[self.line..];
        window.len() - self.start == max_bytes
            || memchr2(b'\r', b'\n', line).is_some()
            || line.get(..1).is_some_and(bad)
    }

    /// Waits for more bytes. A CR at the end is searched again, as the LF may follow.
    fn wait(&mut self, window: &[u8]) {
        self.at = window.len() - usize::from(window[self.line..].last() == Some(&b'\r'));
    }
}

/// The part of `bytes` that may belong to a head that starts at `start` and has at most `longest`
/// bytes.
#[inline]
fn window(bytes: &[u8], start: usize, max_bytes: usize) -> &[u8] {
    &bytes[..bytes.len().min(start.saturating_add(max_bytes))]
}

/// Parses `HTTP/1.0` or `HTTP/1.1` at the start of `bytes` if it is complete; returns its length as
/// well.
pub(crate) fn version(bytes: &[u8]) -> Result<Option<(crate::Version, usize)>, HeadError> {
    const NAME: &[u8] = b"HTTP/1.";
    let at = bytes.iter().zip(NAME).take_while(|(have, want)| have == want).count();
    match (bytes.get(at), at == NAME.len()) {
        (None, _) => Ok(None),
        (Some(b'0'), true) => Ok(Some((crate::Version::Http10, at + 1))),
        (Some(b'1'), true) => Ok(Some((crate::Version::Http11, at + 1))),
        (Some(b'\n'), _) => Err(HeadError::BareLf),
        _ => Err(HeadError::Version),
    }
}

/// Parses the fields that declare the framing of a body.
///
/// # Errors
/// Any combination that two parsers could interpret differently.
pub(crate) fn framing(
    headers: &Headers,
    version: crate::Version,
) -> Result<Option<crate::Framing>, HeadError> {
    use crate::{Framing, Version};
    if !headers.may_have(Known::ContentLength) && !headers.may_have(Known::TransferEncoding) {
        return Ok(None);
    }
    let mut lengths = headers.known_all(Known::ContentLength);
    let mut encodings = headers.known_all(Known::TransferEncoding);
    match (lengths.next(), encodings.next()) {
        (None, None) => Ok(None),
        (Some(_), Some(_)) => Err(HeadError::LengthAndEncoding),
        (Some(length), None) => {
            if lengths.next().is_some() {
                return Err(HeadError::LengthRepeated);
            }
            decimal(length).map(|n| Some(Framing::Length(n))).ok_or(HeadError::LengthInvalid)
        }
        (None, Some(encoding)) => {
            let exact = encoding.eq_ignore_ascii_case(b"chunked") && encodings.next().is_none();
            if exact && version == Version::Http11 {
                Ok(Some(Framing::Chunked))
            } else {
                Err(HeadError::EncodingInvalid)
            }
        }
    }
}

/// A number of 1 to 19 decimal digits.
pub(crate) fn decimal(text: &[u8]) -> Option<u64> {
    if text.is_empty() || text.len() > 19 || !text.iter().all(u8::is_ascii_digit) {
        return None;
    }
    Some(text.iter().fold(0, |n, digit| n * 10 + u64::from(digit - b'0')))
}

/// Whether a comma-separated list (RFC 9110 section 5.6.1) has this token, in any case.
pub fn has_token<'a>(values: impl Iterator<Item = &'a [u8]>, token: &str) -> bool {
    values
        .flat_map(|value| value.split(|&b| b == b','))
        .any(|part| part.trim_ascii().eq_ignore_ascii_case(token.as_bytes()))
}

/// Most options in all Connection fields. Each names a field that is removed: their number is a
/// factor of the cost of a head.
const MAX_CONNECTION_OPTIONS: usize = 32;

/// Whether the connection may be used again after this message (RFC 9112 section 9.3).
///
/// # Errors
/// Connection has too many options.
pub(crate) fn keep_alive(headers: &Headers, version: crate::Version) -> Result<bool, HeadError> {
    let connection = || headers.known_all(Known::Connection);
    let mut values = connection();
    let Some(first) = values.next() else { return Ok(version == crate::Version::Http11) };
    // Nearly all messages have one of these, once.
    if values.next().is_none() {
        match first.len() {
            10 if first.eq_ignore_ascii_case(b"keep-alive") => return Ok(true),
            5 if first.eq_ignore_ascii_case(b"close") => return Ok(false),
            _ => {}
        }
    }
    let options = connection().flat_map(|value| value.split(|&b| b == b','));
    if options.take(MAX_CONNECTION_OPTIONS + 1).count() > MAX_CONNECTION_OPTIONS {
        return Err(HeadError::ConnectionOptions);
    }
    Ok(match version {
        crate::Version::Http11 => !has_token(connection(), "close"),
        crate::Version::Http10 => {
            has_token(connection(), "keep-alive") && !has_token(connection(), "close")
        }
    })
}

/// Upper bound for any limit of fields.
pub(crate) const MAX_FIELDS: usize = 256;

#[cfg(test)]
mod tests;
