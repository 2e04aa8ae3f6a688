//! Finding the end of a head, strictly and without looking at a byte twice.

use memchr::memchr2;

/// Bounds on a head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeadLimits {
    /// Bytes of the whole head, its empty line included.
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

/// Why a head is refused. After any of these the connection cannot be used again.
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
    /// The request or status line cannot be read.
    #[error("the start line is not HTTP/1.x")]
    StartLine,
    /// Another version than HTTP/1.0 or 1.1.
    #[error("the protocol version is not HTTP/1.0 or HTTP/1.1")]
    Version,
    /// The target is in no form that the method allows.
    #[error("the request target is not valid")]
    Target,
    /// A name that is no token, or white space before the colon.
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
    /// A Host that is no host and port.
    #[error("the Host header is not valid")]
    HostInvalid,
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
}

/// Where the search for the end of a head stands. It may be resumed as bytes come in, so that a
/// head sent byte by byte costs no more than one sent at once.
#[derive(Clone, Copy, Debug, Default)]
pub struct Scan {
    /// Start of the head, after empty lines that RFC 9112 section 2.2 lets a server ignore.
    start: usize,
    /// Start of the line being read.
    line: usize,
    /// Next byte to look at.
    at: usize,
    /// Lines seen, the start line included.
    lines: usize,
}

/// Empty lines accepted before a request line, as some old clients send them after a body.
const EMPTY_LINES: usize = 2;

impl Scan {
    /// A scan at the start of a buffer.
    pub fn new() -> Self {
        Self::default()
    }

    /// Looks for the end of the head in `bytes`, which must start as they did at the last call.
    /// Gives the range of the head, its empty line included.
    ///
    /// # Errors
    /// As soon as the head cannot become valid or is over a limit.
    pub fn advance(
        &mut self,
        bytes: &[u8],
        limits: &HeadLimits,
    ) -> Result<Option<(usize, usize)>, HeadError> {
        self.first_byte(bytes)?;
        while let Some(found) = memchr2(b'\r', b'\n', &bytes[self.at..]) {
            let end = self.at + found;
            if bytes[end] == b'\n' {
                self.unfinished(end, limits)?;
                return Err(HeadError::BareLf);
            }
            // What would have been found had the bytes come one by one is found here too.
            self.unfinished(end + 1, limits)?;
            match bytes.get(end + 1) {
                None => {
                    self.at = end;
                    return Ok(None);
                }
                Some(b'\n') => {}
                Some(_) => return Err(HeadError::BareCr),
            }
            if let Some(head) = self.line(bytes, end, limits)? {
                return Ok(Some(head));
            }
        }
        self.at = bytes.len();
        self.unfinished(bytes.len(), limits)?;
        Ok(None)
    }

    /// Refuses at once what is no HTTP/1 at all, such as a TLS greeting on a plain port: it may
    /// never send a line end.
    fn first_byte(&self, bytes: &[u8]) -> Result<(), HeadError> {
        match bytes.get(self.start) {
            Some(&byte) if self.lines == 0 && !(byte.is_ascii_graphic() || byte == b'\r') => {
                Err(if byte == b'\n' { HeadError::BareLf } else { HeadError::StartLine })
            }
            _ => Ok(()),
        }
    }

    /// Takes the line that ends before `end`.
    fn line(
        &mut self,
        bytes: &[u8],
        end: usize,
        limits: &HeadLimits,
    ) -> Result<Option<(usize, usize)>, HeadError> {
        let (from, next) = (self.line, end + 2);
        if from == end {
            if self.lines > 0 {
                return Ok(Some((self.start, next)));
            }
            if next > 2 * EMPTY_LINES {
                return Err(HeadError::StartLine);
            }
            self.start = next;
            self.first_byte(bytes)?;
        } else {
            if self.lines > 0 && matches!(bytes[from], b' ' | b'\t') {
                return Err(HeadError::Folded);
            }
            self.lines += 1;
            if self.lines - 1 > limits.fields {
                return Err(HeadError::TooManyFields);
            }
        }
        self.line = next;
        self.at = next;
        Ok(None)
    }

    /// Judges the bytes before `end` of a head whose end is not among them.
    fn unfinished(&self, end: usize, limits: &HeadLimits) -> Result<(), HeadError> {
        let so_far = end.saturating_sub(self.start);
        // The longest method and version around a target still allowed.
        if self.lines == 0 && so_far > limits.target + 64 {
            return Err(HeadError::TargetTooLong);
        }
        if so_far >= limits.bytes { Err(HeadError::TooLong) } else { Ok(()) }
    }
}

/// Parses `length` or `chunked` out of the fields that frame a body.
///
/// # Errors
/// Every combination that two parsers could read differently.
pub(crate) fn framing(
    headers: &crate::Headers,
    version: crate::Version,
) -> Result<Option<crate::Framing>, HeadError> {
    use crate::{Framing, Known, Version};
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
fn decimal(text: &[u8]) -> Option<u64> {
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

/// Whether the connection may be used again after this message (RFC 9112 section 9.3).
pub(crate) fn keep_alive(headers: &crate::Headers, version: crate::Version) -> bool {
    let connection = || headers.known_all(crate::Known::Connection);
    if headers.known(crate::Known::Connection).is_none() {
        return version == crate::Version::Http11;
    }
    match version {
        crate::Version::Http11 => !has_token(connection(), "close"),
        crate::Version::Http10 => {
            has_token(connection(), "keep-alive") && !has_token(connection(), "close")
        }
    }
}

/// Translates what httparse found.
pub(crate) fn parse_error(error: httparse::Error) -> HeadError {
    match error {
        httparse::Error::HeaderName => HeadError::FieldName,
        httparse::Error::HeaderValue => HeadError::FieldValue,
        httparse::Error::TooManyHeaders => HeadError::TooManyFields,
        httparse::Error::Version => HeadError::Version,
        httparse::Error::NewLine | httparse::Error::Status | httparse::Error::Token => {
            HeadError::StartLine
        }
    }
}

/// Most fields that any limit may allow: the size of the parser's table on the stack.
pub(crate) const MAX_FIELDS: usize = 256;

/// Copies a parsed head into `headers`, field by field as ranges of one copy.
pub(crate) fn take_fields(
    headers: &mut crate::Headers,
    head: &[u8],
    parsed: &[httparse::Header<'_>],
) {
    headers.start(head);
    for field in parsed {
        let name = range(head, field.name.as_bytes());
        let value = if field.value.is_empty() {
            // Right behind the colon, wherever the empty slice points.
            (name.1 + 1, name.1 + 1)
        } else {
            range(head, field.value)
        };
        headers.push_at(name, value);
    }
}

/// Where `part`, a slice of `whole`, lies in it.
pub(crate) fn range(whole: &[u8], part: &[u8]) -> (u32, u32) {
    let start = (part.as_ptr() as usize).wrapping_sub(whole.as_ptr() as usize);
    (start as u32, (start + part.len()) as u32)
}

#[cfg(test)]
mod tests;
