//! Response heads.

use crate::head::Headers;
use crate::scan::{self, HeadError, HeadLimits, MAX_FIELDS, Scan};
use crate::{Framing, Method, Version};
use std::mem::MaybeUninit;

/// A response head. Reusable: parsing into it again keeps its memory.
#[derive(Clone, Debug, Default)]
pub struct ResponseHead {
    /// Status code, 100 to 999.
    pub status: u16,
    /// The version.
    pub version: Version,
    /// The fields.
    pub headers: Headers,
    /// How the end of the body is found.
    pub framing: Framing,
    /// Whether the server would use the connection again; never with
    /// [`Framing::UntilClose`].
    pub keep_alive: bool,
}

impl ResponseHead {
    /// Parses the head of an answer to a `method` request at the start of `bytes`, as far as
    /// `scan` has not yet looked. Gives the number of bytes it took; `None` asks for more bytes.
    /// Interim answers (1xx) are given like any other.
    ///
    /// # Errors
    /// The head can never be valid, or is over a limit.
    pub fn parse(
        &mut self,
        bytes: &[u8],
        method: Method,
        scan: &mut Scan,
        limits: &HeadLimits,
    ) -> Result<Option<usize>, HeadError> {
        // A status line has no target; its reason may be as long as it likes.
        let limits = HeadLimits { target: limits.bytes, ..*limits };
        let Some((start, end)) = scan.advance(bytes, &limits)? else { return Ok(None) };
        if start > 0 {
            // Only a server may skip empty lines.
            return Err(HeadError::StartLine);
        }
        let head = &bytes[..end];
        let mut fields = [const { MaybeUninit::uninit() }; MAX_FIELDS];
        let mut parsed = httparse::Response::new(&mut []);
        let status = httparse::ParserConfig::default()
            .parse_response_with_uninit_headers(&mut parsed, head, &mut fields)
            .map_err(scan::parse_error)?;
        let complete = status == httparse::Status::Complete(head.len());
        let (true, Some(code @ 100..), Some(minor)) = (complete, parsed.code, parsed.version)
        else {
            return Err(HeadError::StartLine);
        };
        self.status = code;
        self.version = if minor == 0 { Version::Http10 } else { Version::Http11 };
        scan::take_fields(&mut self.headers, head, parsed.headers);
        let declared = scan::framing(&self.headers, self.version)?;
        let no_content = matches!(code, 100..=199 | 204);
        self.framing = if no_content || method == Method::Head || code == 304 {
            Framing::None
        } else {
            declared.unwrap_or(Framing::UntilClose)
        };
        // A body announced where none may be (RFC 9112 section 6.1) may come all the same, and
        // would be read as the next answer.
        let suspect = no_content && declared.is_some_and(|framing| !framing.is_empty());
        self.keep_alive = self.framing != Framing::UntilClose
            && !suspect
            && scan::keep_alive(&self.headers, self.version);
        Ok(Some(end))
    }

    /// Forgets everything, keeps the memory.
    pub fn clear(&mut self) {
        self.status = 0;
        self.version = Version::Http11;
        self.headers.clear();
        self.framing = Framing::None;
        self.keep_alive = true;
    }
}

#[cfg(test)]
mod tests;
