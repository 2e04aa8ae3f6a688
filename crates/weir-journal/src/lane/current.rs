//! The segment that a lane appends to.

use std::time::Instant;

use crate::format::{HEADER, Position, SegmentHeader};
use crate::os::mapping::Mapping;

/// Zeros that are written after the last frame of a segment.
const TERMINATOR_BYTES: usize = 8;

#[derive(Debug)]
pub(super) struct CurrentSegment {
    pub(super) mapping: Mapping,
    pub(super) number: u32,
    pub(super) key: u32,
    /// Where the next frame begins.
    pub(super) offset: usize,
    pub(super) started: Instant,
    /// All its records are count-only, and no transaction was open when it began.
    pub(super) count_only: bool,
}

impl CurrentSegment {
    /// Writes the `open` frame of a new segment and its header; none, with the mapping, if that
    /// failed.
    pub(super) fn begin(
        mapping: Mapping,
        header: &SegmentHeader,
        open_frame: &[u8],
        count_only: bool,
    ) -> Result<Self, Mapping> {
        let SegmentHeader { number, key, .. } = *header;
        let started = Instant::now();
        let mut segment = Self { mapping, number, key, offset: HEADER, started, count_only };
        // The header last: a segment without one was never started.
        if segment.append(open_frame) && segment.write_header(&header.encode()) {
            Ok(segment)
        } else {
            Err(segment.mapping)
        }
    }

    pub(super) fn end(&self) -> Position {
        Position::new(self.number, self.offset as u32)
    }

    /// Whether `length` bytes fit and `reserved` bytes stay free after them.
    pub(super) fn fits(&self, length: usize, reserved: usize) -> bool {
        self.offset + length + reserved <= self.mapping.length()
    }

    /// Appends a frame; false if the file system failed.
    pub(super) fn append(&mut self, frame: &[u8]) -> bool {
        let (offset, end) = (self.offset, self.offset + frame.len());
        let segment = self.mapping.bytes();
        segment[offset..end].copy_from_slice(frame);
        // Otherwise the content of an earlier use of the file could be taken for a torn record.
        if let Some(after) = segment.get_mut(end..end + TERMINATOR_BYTES) {
            after.fill(0);
        }
        if self.mapping.faulted() {
            return false;
        }
        self.offset = end;
        true
    }

    fn write_header(&mut self, bytes: &[u8; HEADER]) -> bool {
        self.mapping.bytes()[..HEADER].copy_from_slice(bytes);
        !self.mapping.faulted()
    }
}
