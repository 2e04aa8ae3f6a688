//! Records (section 3.3): eight bytes of header, content, padding.

use super::FastCgiError;
use std::ops::Range;

/// Length of a header.
pub const HEADER_BYTES: usize = 8;
/// Most bytes of content in one record.
pub const MAX_CONTENT_BYTES: usize = u16::MAX as usize;

/// The header of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// One of [`super::kind`], or an unknown one.
    pub kind: u8,
    /// The request it belongs to; 0 for none.
    pub request: u16,
    /// Bytes of content.
    pub length: u16,
    /// Padding bytes after the content.
    pub padding: u8,
}

impl Header {
    /// The header as on the wire.
    pub fn encode(self) -> [u8; HEADER_BYTES] {
        let [r1, r0] = self.request.to_be_bytes();
        let [l1, l0] = self.length.to_be_bytes();
        [1, self.kind, r1, r0, l1, l0, self.padding, 0]
    }

    /// Decodes a header.
    ///
    /// # Errors
    /// [`FastCgiError::Version`].
    pub fn decode(bytes: [u8; HEADER_BYTES]) -> Result<Self, FastCgiError> {
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

/// Decodes records incrementally. Content is returned as it arrives, so that nothing is buffered;
/// only a header has to be complete.
#[derive(Clone, Copy, Debug, Default)]
pub struct RecordReader {
    header: Option<Header>,
    /// Bytes of content that are still to come.
    content: u16,
    /// Bytes of padding that are still to come.
    padding: u8,
}

/// The next part of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// A header.
    Header(Header),
    /// Content of the record with this header, possibly not all of it.
    Content(Header),
    /// The end of the record with this header, including padding.
    End(Header),
}

/// One step of reading.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// Bytes of the input that were processed, including `data`.
    pub consumed: usize,
    /// Range of the content in the input; empty for other parts.
    pub data: Range<usize>,
    /// The part.
    pub part: Part,
}

impl RecordReader {
    /// Decodes the next part at the start of `bytes`. `None` if more bytes are needed; the same
    /// bytes must be passed again then.
    ///
    /// # Errors
    /// [`FastCgiError::Version`].
    pub fn step(&mut self, bytes: &[u8]) -> Result<Option<Step>, FastCgiError> {
        let Some(header) = self.header else {
            let Some(raw) = bytes.first_chunk::<HEADER_BYTES>() else {
                // An invalid version is reported at once: a peer with another protocol may never
                // send a complete header.
                return match bytes.first() {
                    Some(&version) if version != 1 => Err(FastCgiError::Version(version)),
                    _ => Ok(None),
                };
            };
            let header = Header::decode(*raw)?;
            (self.header, self.content, self.padding) =
                (Some(header), header.length, header.padding);
            return Ok(Some(Step {
                consumed: HEADER_BYTES,
                data: 0..0,
                part: Part::Header(header),
            }));
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
