//! The response head of CGI programs and FastCGI agents (RFC 3875 section 6).

use crate::scan::{HeadError, HeadLimits, decimal};
use crate::{Framing, Known, Method, ResponseHead, Version, is_token};

/// Progress of parsing a head, which continues as bytes arrive.
#[derive(Clone, Copy, Debug, Default)]
pub struct CgiScan {
    /// Start of the line being read.
    line: usize,
    /// Bytes before this one are known not to end that line.
    at: usize,
    fields: usize,
    /// Value of `Status`.
    status: Option<u16>,
}

impl CgiScan {
    /// Parses the head of the response to a `method` request at the start of `bytes`. Call again
    /// with more bytes: the progress is in `self` and `head`. Returns the length of the head;
    /// `None` if more bytes are needed.
    ///
    /// Lines end in LF or CRLF. Without `Status` the status is 200, or 302 with a `Location`. A
    /// declared length is the framing; otherwise the body ends with the program. Hop-by-hop fields
    /// are not removed.
    ///
    /// # Errors
    /// The head is invalid, or exceeds a limit.
    pub fn parse(
        &mut self,
        bytes: &[u8],
        method: Method,
        head: &mut ResponseHead,
        limits: &HeadLimits,
    ) -> Result<Option<usize>, HeadError> {
        if self.line == 0 && self.at == 0 {
            head.clear();
        }
        loop {
            let Some(end) = memchr::memchr(b'\n', &bytes[self.at..]).map(|end| self.at + end)
            else {
                self.at = bytes.len();
                return if bytes.len() > limits.bytes { Err(HeadError::TooLong) } else { Ok(None) };
            };
            if end >= limits.bytes {
                return Err(HeadError::TooLong);
            }
            let line = &bytes[self.line..end];
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            (self.line, self.at) = (end + 1, end + 1);
            if line.is_empty() {
                self.finish(method, head)?;
                return Ok(Some(end + 1));
            }
            self.fields += 1;
            if self.fields > limits.fields {
                return Err(HeadError::TooManyFields);
            }
            self.field(line, head)?;
        }
    }

    /// The path of a local redirect (section 6.2.2): a `Location` that is a path of this server,
    /// without `Status`.
    pub fn local_redirect<'h>(&self, head: &'h ResponseHead) -> Option<&'h str> {
        let location = std::str::from_utf8(head.headers.get("location")?).ok()?;
        let local = location.starts_with('/') && !location.starts_with("//");
        (local && self.status.is_none()).then_some(location)
    }

    fn field(&mut self, line: &[u8], head: &mut ResponseHead) -> Result<(), HeadError> {
        if matches!(line[0], b' ' | b'\t') {
            return Err(HeadError::Folded);
        }
        let colon = memchr::memchr(b':', line).ok_or(HeadError::FieldName)?;
        let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
        if name.is_empty() || !name.iter().all(|&byte| is_token(byte)) {
            return Err(HeadError::FieldName);
        }
        if value.iter().any(|&byte| byte.is_ascii_control() && byte != b'\t') {
            return Err(HeadError::FieldValue);
        }
        let name = std::str::from_utf8(name).map_err(|_| HeadError::FieldName)?;
        if name.eq_ignore_ascii_case("status") {
            if self.status.is_some() {
                return Err(HeadError::StartLine);
            }
            self.status = Some(status(value).ok_or(HeadError::StartLine)?);
            return Ok(());
        }
        head.headers.push(name, value);
        Ok(())
    }

    fn finish(&self, method: Method, head: &mut ResponseHead) -> Result<(), HeadError> {
        if self.fields == 0 {
            // The program wrote a body without a head.
            return Err(HeadError::StartLine);
        }
        let redirects = head.headers.get("location").is_some();
        head.version = Version::Http11;
        head.status = self.status.unwrap_or(if redirects { 302 } else { 200 });
        let mut lengths = head.headers.known_all(Known::ContentLength);
        let declared = match (lengths.next(), lengths.next()) {
            (None, _) => None,
            (Some(_), Some(_)) => return Err(HeadError::LengthRepeated),
            (Some(length), None) => Some(decimal(length).ok_or(HeadError::LengthInvalid)?),
        };
        let none = method == Method::Head || matches!(head.status, 204 | 304);
        head.framing = match declared {
            _ if none => Framing::None,
            Some(length) => Framing::Length(length),
            None => Framing::UntilClose,
        };
        head.keep_alive = false;
        Ok(())
    }
}

/// `404 Not Found`: three digits, then nothing or a blank. Interim responses are not allowed in
/// CGI.
fn status(value: &[u8]) -> Option<u16> {
    let (digits, rest) = value.split_first_chunk::<3>()?;
    let fits = digits.iter().all(u8::is_ascii_digit) && matches!(rest.first(), None | Some(b' '));
    if !fits {
        return None;
    }
    let status = digits.iter().fold(0, |number, digit| number * 10 + u16::from(digit - b'0'));
    (200..=599).contains(&status).then_some(status)
}

#[cfg(test)]
mod tests;
