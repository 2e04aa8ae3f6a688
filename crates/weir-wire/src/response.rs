//! Response heads.

use crate::head::Headers;
use crate::scan::{self, HeadError, HeadLimits, Scan};
use crate::{Framing, Method, Version};

/// A response head. Reusable: parsing into it again keeps its memory.
#[derive(Clone, Debug, Default)]
pub struct ResponseHead {
    /// Status code, 100 to 999.
    pub status: u16,
    /// The version.
    pub version: Version,
    /// The fields.
    pub headers: Headers,
    /// How the end of the body is determined.
    pub framing: Framing,
    /// Whether the server keeps the connection open; never with [`Framing::UntilClose`].
    pub keep_alive: bool,
}

impl ResponseHead {
    /// Parses the head of the response to a `method` request at the start of `bytes`. Call again
    /// with more bytes: the progress is in `scan` and `self`. Returns the length of the head;
    /// `None` if more bytes are needed. Interim responses (1xx) are returned like others.
    ///
    /// # Errors
    /// The head is invalid, or exceeds a limit.
    pub fn parse(
        &mut self,
        bytes: &[u8],
        method: Method,
        scan: &mut Scan,
        limits: &HeadLimits,
    ) -> Result<Option<usize>, HeadError> {
        // A status line has no target; its reason phrase may have any length.
        let limits = HeadLimits { target: limits.bytes, ..*limits };
        if !scan.start_line(bytes, &limits, |line| self.read_line(line))? {
            return Ok(None);
        }
        let Some((_, end)) = scan.fields(bytes, &limits, &mut self.headers)? else {
            return Ok(None);
        };
        let code = self.status;
        let declared = scan::framing(&self.headers, self.version)?;
        let no_content = matches!(code, 100..=199 | 204);
        self.framing = if no_content || method == Method::Head || code == 304 {
            Framing::None
        } else {
            declared.unwrap_or(Framing::UntilClose)
        };
        // A body declared where none is allowed (RFC 9112 section 6.1) may be sent nevertheless,
        // and would be read as the next response.
        let suspect = no_content && declared.is_some_and(|framing| !framing.is_empty());
        let keep_alive = scan::keep_alive(&self.headers, self.version)?;
        self.keep_alive = self.framing != Framing::UntilClose && !suspect && keep_alive;
        Ok(Some(end))
    }

    /// Parses the status line at the start of `bytes` (RFC 9112 section 4) if it is complete;
    /// returns its length.
    fn read_line(&mut self, bytes: &[u8]) -> Result<Option<usize>, HeadError> {
        if bytes.first() == Some(&b'\r') {
            // Only a server may skip empty lines.
            return Err(HeadError::StartLine);
        }
        let Some((version, at)) = scan::version(bytes)? else { return Ok(None) };
        let code = &bytes[at..bytes.len().min(at + 4)];
        let fits =
            |at: usize, byte: &u8| if at == 0 { *byte == b' ' } else { byte.is_ascii_digit() };
        match code.iter().enumerate().find(|(at, byte)| !fits(*at, byte)) {
            Some((_, b'\n')) => return Err(HeadError::BareLf),
            Some(_) => return Err(HeadError::StartLine),
            None if code.len() < 4 => return Ok(None),
            None => {}
        }
        let status =
            code[1..].iter().fold(0, |number, digit| number * 10 + u16::from(digit - b'0'));
        if status < 100 {
            return Err(HeadError::StartLine);
        }
        let at = at + 4;
        let Some(end) = reason_end(bytes, at)? else { return Ok(None) };
        self.headers.clear();
        self.status = status;
        self.version = version;
        Ok(Some(end + 2))
    }

    /// Clears the head, keeps the memory.
    pub fn clear(&mut self) {
        self.status = 0;
        self.version = Version::Http11;
        self.headers.clear();
        self.framing = Framing::None;
        self.keep_alive = true;
    }
}

/// The end of the reason phrase that starts at `at`. The phrase and the space before it may be
/// missing: some servers omit them.
fn reason_end(bytes: &[u8], at: usize) -> Result<Option<usize>, HeadError> {
    let mut end = at;
    if let Some(&byte) = bytes.get(at)
        && !matches!(byte, b' ' | b'\r' | b'\n')
    {
        return Err(HeadError::StartLine);
    }
    loop {
        end += scan::find_control(&bytes[end..]);
        match (bytes.get(end), bytes.get(end + 1)) {
            (Some(b'\t'), _) => end += 1,
            (Some(b'\r'), Some(b'\n')) => return Ok(Some(end)),
            (None, _) | (Some(b'\r'), None) => return Ok(None),
            (Some(b'\r'), _) => return Err(HeadError::BareCr),
            (Some(b'\n'), _) => return Err(HeadError::BareLf),
            _ => return Err(HeadError::StartLine),
        }
    }
}

#[cfg(test)]
mod tests;
