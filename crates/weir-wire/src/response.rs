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
        let Some((start, end)) = scan.advance(bytes, limits)? else { return Ok(None) };
        let head = &bytes[start..end];
        let mut fields = [const { MaybeUninit::uninit() }; MAX_FIELDS];
        let mut parsed = httparse::Response::new(&mut []);
        let status = httparse::ParserConfig::default()
            .parse_response_with_uninit_headers(&mut parsed, head, &mut fields)
            .map_err(scan::parse_error)?;
        let (true, Some(code), Some(minor)) = (status.is_complete(), parsed.code, parsed.version)
        else {
            return Err(HeadError::StartLine);
        };
        if code < 100 {
            return Err(HeadError::StartLine);
        }
        self.status = code;
        self.version = if minor == 0 { Version::Http10 } else { Version::Http11 };
        scan::take_fields(&mut self.headers, head, parsed.headers);
        let declared = scan::framing(&self.headers, self.version)?;
        self.framing = if method == Method::Head || matches!(code, 100..=199 | 204 | 304) {
            Framing::None
        } else {
            declared.unwrap_or(Framing::UntilClose)
        };
        self.keep_alive =
            self.framing != Framing::UntilClose && scan::keep_alive(&self.headers, self.version);
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
