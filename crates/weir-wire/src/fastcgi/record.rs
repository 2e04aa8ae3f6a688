//! Records (section 3.3): eight bytes of header, content, padding.

use super::FastCgiError;
use std::ops::Range;

/// Bytes of a header.
pub const HEADER: usize = 8;
/// Most bytes of content in one record.
pub const LONGEST: usize = u16::MAX as usize;

/// What a header says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// One of [`super::kind`], or an unknown one.
    pub kind: u8,
    /// The request it belongs to; 0 for none.
    pub request: u16,
    /// Bytes of content.
    pub length: u16,
    /// Bytes behind it that mean nothing.
    pub padding: u8,
}

impl Header {
    /// As it stands on the wire.
    pub fn encode(self) -> [u8; HEADER] {
        let [r1, r0] = self.request.to_be_bytes();
        let [l1, l0] = self.length.to_be_bytes();
        [1, self.kind, r1, r0, l1, l0, self.padding, 0]
    }

    /// Takes a header apart.
    ///
    /// # Errors
    /// [`FastCgiError::Version`].
    pub fn decode(bytes: [u8; HEADER]) -> Result<Self, FastCgiError> {
        let [version, kind, r1, r0, l1, l0, padding, _] = bytes;
        if version != 1 {
            return Err(FastCgiError::Version(version));
        }
        Ok(Self {
            kind,
            request: u16::from_be_bytes([r1, r0]),
            length: u16::from_be_bytes([l1, l0]),
            padding,
        })
    }
}

/// Reads records in whatever pieces they come. Content is given as it comes, so that nothing has
/// to be held; only a header waits until it is whole.
#[derive(Clone, Copy, Debug, Default)]
pub struct RecordReader {
    header: Option<Header>,
    /// Bytes of content still to come.
    content: u16,
    /// Bytes of padding still to come.
    padding: u8,
}

/// What came next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// A header.
    Header(Header),
    /// Content of the record of this header, not necessarily all that is left of it.
    Content(Header),
    /// The end of the record of this header, padding included.
    End(Header),
}

/// One step of reading.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// Bytes of the input that are dealt with once `data` is.
    pub consumed: usize,
    /// Where content is among them; empty for other parts.
    pub data: Range<usize>,
    /// What it is.
    pub part: Part,
}

impl RecordReader {
    /// Takes the next part from the start of `bytes`; `None` asks for more of them, and what was
    /// given must be given again.
    ///
    /// # Errors
    /// [`FastCgiError::Version`].
    pub fn step(&mut self, bytes: &[u8]) -> Result<Option<Step>, FastCgiError> {
        let Some(header) = self.header else {
            let Some(raw) = bytes.first_chunk::<HEADER>() else {
                // What cannot become one is told at once: a peer that speaks otherwise may never
                // send as much as a header has.
                return match bytes.first() {
                    Some(&version) if version != 1 => Err(FastCgiError::Version(version)),
                    _ => Ok(None),
                };
            };
            let header = Header::decode(*raw)?;
            (self.header, self.content, self.padding) =
                (Some(header), header.length, header.padding);
            return Ok(Some(Step { consumed: HEADER, data: 0..0, part: Part::Header(header) }));
        };
        if self.content > 0 {
            let count = bytes.len().min(usize::from(self.content));
            if count == 0 {
                return Ok(None);
            }
            self.content -= count as u16;
            return Ok(Some(Step { consumed: count, data: 0..count, part: Part::Content(header) }));
        }
        let skipped = bytes.len().min(usize::from(self.padding));
        self.padding -= skipped as u8;
        if self.padding > 0 {
            let skip = Step { consumed: skipped, data: 0..0, part: Part::Content(header) };
            return Ok((skipped > 0).then_some(skip));
        }
        self.header = None;
        Ok(Some(Step { consumed: skipped, data: 0..0, part: Part::End(header) }))
    }
}
