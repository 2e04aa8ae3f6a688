//! Reading a segment as it was appended: opening the file, decoding frames.

mod salvage;
pub(crate) mod sealed;
mod window;

use std::fs::File;
use std::io;
use std::sync::Arc;

use crate::files::Files;
use crate::files::damage::is_damage;
use crate::format::{
    BadHeader, FRAME, FRAME_MAGIC, FrameHeader, HEADER, Kind, Position, SegmentHeader, checksum,
    frame_length,
};
use crate::record::field;
use window::{KIND, Window};

/// Bytes read at a time when a segment is read from end to end.
const SEQUENTIAL_CHUNK_BYTES: usize = 256 << 10;
/// Bytes read at a time when single frames are read.
const SINGLE_CHUNK_BYTES: usize = 4 << 10;
/// Bytes of a segment without a header that are searched for frames.
const BLANK_SCAN_BYTES: u32 = 64 << 10;

/// A frame with a correct checksum.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Frame<P = Vec<u8>> {
    pub(crate) kind: Kind,
    pub(crate) sequence: u64,
    pub(crate) previous: Position,
    pub(crate) payload: P,
    /// Where the next frame begins.
    pub(crate) next: u32,
}

/// A frame whose payload is borrowed from the read buffer.
pub(crate) type FrameRef<'s> = Frame<&'s [u8]>;

impl Frame {
    pub(crate) fn borrowed(&self) -> FrameRef<'_> {
        let Self { kind, sequence, previous, ref payload, next } = *self;
        FrameRef { kind, sequence, previous, payload, next }
    }
}

impl FrameRef<'_> {
    /// Copies the frame, so that the segment can be read on.
    pub(crate) fn keep(self, metadata_only: bool) -> Frame {
        let Self { kind, sequence, previous, payload, next } = self;
        let payload = if metadata_only { field::metadata(kind, payload) } else { payload.to_vec() };
        Frame { kind, sequence, previous, payload, next }
    }
}

/// A segment opened for reading. Callers read only bytes before an `end` that they know to be final.
#[derive(Debug)]
pub(crate) struct Segment {
    pub(crate) header: SegmentHeader,
    pub(crate) length: u32,
    /// Its header is damaged.
    pub(crate) salvaged: bool,
    /// Frames are read without heads, bodies, properties and logs.
    pub(crate) metadata_only: bool,
    window: Window,
}

impl Segment {
    /// Opens a segment to be read from end to end. Transactions that began in it have sequence
    /// numbers from `floor` on; that is needed if the header is damaged.
    ///
    /// # Errors
    /// `InvalidData` if nothing in it can be read, `Unsupported` if its version is not known.
    pub(crate) fn open(files: &Files, number: u32, floor: u64) -> io::Result<Self> {
        let path = files.segment(number);
        let file = File::open(&path)?;
        let length = u32::try_from(file.metadata()?.len()).unwrap_or(u32::MAX);
        let mut bytes = [0; HEADER];
        files.damage.read(&file, (number, KIND), 0, &mut bytes)?;
        // Replaces a header that cannot be used. Nothing reads its lane.
        let lost = SegmentHeader { lane: 0, number, first_sequence: 0, key: 0 };
        let (mut header, salvaged) = match SegmentHeader::decode(&bytes) {
            Ok(header) if header.number == number => (header, false),
            Ok(_) | Err(BadHeader::Damaged) => (lost, true),
            Err(BadHeader::Version(version)) => {
                let what = format!("{}: segment of version {version}", path.display());
                return Err(io::Error::new(io::ErrorKind::Unsupported, what));
            }
        };
        let mut window =
            Window::new(file, number, Arc::clone(&files.damage), SEQUENTIAL_CHUNK_BYTES);
        if salvaged {
            // Prepared segments have no header either; they are not searched to their end.
            let end = if bytes == [0; HEADER] { length.min(BLANK_SCAN_BYTES) } else { length };
            header.key = salvage::key(&mut window, number, floor, end)?.ok_or_else(|| {
                io::Error::new(io::ErrorKind::InvalidData, "damaged segment header")
            })?;
        }
        Ok(Self { header, length, salvaged, metadata_only: false, window })
    }

    /// Opens a segment to read single frames.
    pub(crate) fn open_single(files: &Files, number: u32, floor: u64) -> io::Result<Self> {
        let mut segment = Self::open(files, number, floor)?;
        segment.window.chunk_bytes = SINGLE_CHUNK_BYTES;
        Ok(segment)
    }

    /// The frame at `offset`, if a complete one ends at or before `end`.
    pub(crate) fn frame(&mut self, offset: u32, end: u32) -> io::Result<Option<Frame>> {
        let metadata_only = self.metadata_only;
        Ok(self.frame_ref(offset, end)?.map(|frame| frame.keep(metadata_only)))
    }

    /// As [`Segment::frame`], without copying the payload.
    pub(crate) fn frame_ref(&mut self, offset: u32, end: u32) -> io::Result<Option<FrameRef<'_>>> {
        let key = self.header.key;
        let (start, end) = (offset as usize, end as usize);
        if start % 8 != 0 || start + FRAME > end {
            return Ok(None);
        }
        let mut head = [0; FRAME];
        head.copy_from_slice(self.window.bytes(start, FRAME, end)?);
        let Some(header) = FrameHeader::decode(&head) else { return Ok(None) };
        let next = start + frame_length(header.length);
        if next > end {
            return Ok(None);
        }
        let bytes = self.window.bytes(start, FRAME + header.length, end)?;
        if checksum(key, &bytes[8..]) != header.sum {
            return Ok(None);
        }
        let payload = &bytes[FRAME..];
        let (kind, sequence, previous) = (header.kind, header.sequence, header.previous);
        Ok(Some(FrameRef { kind, sequence, previous, payload, next: next as u32 }))
    }

    /// Where the next frame after `offset` begins, and how many bytes are lost before it. After the
    /// last frame there may be content of an earlier use of the file; a word of zeros distinguishes
    /// it from a torn frame.
    pub(crate) fn resynchronise(
        &mut self,
        offset: u32,
        end: u32,
    ) -> io::Result<(Option<u32>, u64)> {
        if offset >= end {
            // A new segment ends before its first frame can.
            return Ok((None, 0));
        }
        let mut place = offset + 8;
        while place as usize + FRAME <= end as usize {
            if self.window.bytes(place as usize, 4, end as usize)? == FRAME_MAGIC
                && self.frame(place, end)?.is_some()
            {
                return Ok((Some(place), u64::from(place - offset)));
            }
            place += 8;
        }
        let left = end.saturating_sub(offset).min(8) as usize;
        let torn =
            self.window.bytes(offset as usize, left, end as usize)?.iter().any(|byte| *byte != 0);
        Ok((None, if torn { left as u64 } else { 0 }))
    }
}

/// Whether a segment was prepared and never started. A segment that cannot be read counts as started,
/// an empty file does not: the process ended before its blocks were allocated.
pub(crate) fn is_blank(files: &Files, number: u32, floor: u64) -> io::Result<bool> {
    let file = File::open(files.segment(number))?;
    let length = file.metadata()?.len().min(BLANK_SCAN_BYTES.into()) as usize;
    if length == 0 {
        return Ok(true);
    }
    let mut bytes = vec![0; length];
    if length < HEADER || files.damage.try_read(&file, 0, &mut bytes).is_err() {
        return Ok(false);
    }
    if bytes[..HEADER] != [0; HEADER] {
        return Ok(false);
    }
    match Segment::open_single(files, number, floor) {
        Ok(_) => Ok(false),
        Err(error) if is_damage(&error) => Ok(true),
        Err(error) => Err(error),
    }
}

/// The sequence number of the first transaction of these segments, from the first of their headers
/// that is not damaged.
pub(crate) fn first_sequence(
    files: &Files,
    segments: impl Iterator<Item = u32>,
) -> io::Result<Option<u64>> {
    for number in segments {
        match Segment::open_single(files, number, u64::MAX) {
            Ok(segment) if !segment.salvaged => return Ok(Some(segment.header.first_sequence)),
            Err(error) if !is_damage(&error) => return Err(error),
            Ok(_) | Err(_) => {}
        }
    }
    Ok(None)
}
