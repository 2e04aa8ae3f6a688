//! One segment file as it was appended: opening it, taking frames out of it.

use std::fs::File;
use std::io;
use std::sync::Arc;

use crate::damage::Damages;
use crate::files::Files;
use crate::format::{
    BadHeader, FRAME, FRAME_MAGIC, FrameHeader, HEADER, Kind, Position, SegmentHeader, checksum,
    frame_length,
};
use crate::record;
use crate::recovery::is_damage;
use crate::salvage;

/// What it is called among [`Damages`].
const KIND: &str = "segment";
/// Bytes read at a time when a segment is read from end to end.
const SEQUENTIAL: usize = 256 << 10;
/// The same when single frames are wanted.
const SINGLE: usize = 4 << 10;
/// How far a segment without a header is looked at for frames all the same.
const BLANK: u32 = 64 << 10;

/// A frame whose checksum was right.
#[derive(Clone, Debug)]
pub(crate) struct Frame {
    pub(crate) kind: Kind,
    pub(crate) ticket: u64,
    pub(crate) previous: Position,
    pub(crate) payload: Vec<u8>,
    /// Where the next frame begins.
    pub(crate) next: u32,
}

/// The same, its payload where it was read to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FrameRef<'s> {
    pub(crate) kind: Kind,
    pub(crate) ticket: u64,
    pub(crate) previous: Position,
    pub(crate) payload: &'s [u8],
    pub(crate) next: u32,
}

impl Frame {
    pub(crate) fn borrowed(&self) -> FrameRef<'_> {
        let Self { kind, ticket, previous, ref payload, next } = *self;
        FrameRef { kind, ticket, previous, payload, next }
    }
}

impl FrameRef<'_> {
    /// To be used when its segment has been read on.
    pub(crate) fn keep(self, metadata_only: bool) -> Frame {
        let Self { kind, ticket, previous, payload, next } = self;
        let payload =
            if metadata_only { record::metadata(kind, payload) } else { payload.to_vec() };
        Frame { kind, ticket, previous, payload, next }
    }
}

/// A segment opened for reading. Only bytes before an `end` that the caller knows to be final are
/// ever read, so that what is kept of them stays true.
#[derive(Debug)]
pub(crate) struct Segment {
    pub(crate) header: SegmentHeader,
    pub(crate) length: u32,
    /// Its header is damaged.
    pub(crate) salvaged: bool,
    /// Frames are given without heads, bodies, properties and logs.
    pub(crate) metadata_only: bool,
    file: File,
    damages: Arc<Damages>,
    ahead: usize,
    window: Vec<u8>,
    /// Offset of the window, and how much of it was read.
    start: usize,
    filled: usize,
}

impl Segment {
    /// Opens a segment to be read from end to end. Transactions that were begun in it have numbers
    /// from `floor` on; that is needed where its header is damaged.
    ///
    /// # Errors
    /// `InvalidData` if nothing in it can be read, `Unsupported` if its version is not known.
    pub(crate) fn open(files: &Files, number: u32, floor: u64) -> io::Result<Self> {
        let path = files.segment(number);
        let file = File::open(&path)?;
        let length = u32::try_from(file.metadata()?.len()).unwrap_or(u32::MAX);
        let mut bytes = [0; HEADER];
        let damages = Arc::clone(&files.damages);
        damages.read(&file, (number, KIND), 0, &mut bytes)?;
        // What stands for a header that cannot be used. Its lane is not asked for.
        let lost = SegmentHeader { lane: 0, number, first_ticket: 0, key: 0 };
        let (header, salvaged) = match SegmentHeader::decode(&bytes) {
            Ok(header) if header.number == number => (header, false),
            Ok(_) | Err(BadHeader::Damaged) => (lost, true),
            Err(BadHeader::Version(version)) => {
                let what = format!("{}: segment of version {version}", path.display());
                return Err(io::Error::new(io::ErrorKind::Unsupported, what));
            }
        };
        let (ahead, window) = (SEQUENTIAL, Vec::new());
        let mut segment = Self {
            header,
            length,
            salvaged,
            metadata_only: false,
            file,
            damages,
            ahead,
            filled: 0,
            window,
            start: 0,
        };
        if salvaged {
            // Prepared segments have no header either; they are not read to their end for that.
            let end = if bytes == [0; HEADER] { length.min(BLANK) } else { length };
            segment.header.key = salvage::key(&mut segment, floor, end)?.ok_or_else(|| {
                io::Error::new(io::ErrorKind::InvalidData, "damaged segment header")
            })?;
        }
        Ok(segment)
    }

    /// Opens a segment to take single frames out of it.
    pub(crate) fn open_single(files: &Files, number: u32, floor: u64) -> io::Result<Self> {
        Ok(Self { ahead: SINGLE, ..Self::open(files, number, floor)? })
    }

    /// `length` bytes at `at`, all of them before `end`.
    pub(crate) fn bytes(&mut self, at: usize, length: usize, end: usize) -> io::Result<&[u8]> {
        let inside = at >= self.start && at + length <= self.start + self.filled;
        if !inside {
            let wanted = length.max(self.ahead).min(end - at);
            if self.window.len() < wanted {
                self.window.resize(wanted, 0);
            }
            (self.start, self.filled) = (at, 0);
            let of = (self.header.number, KIND);
            self.damages.read(&self.file, of, at as u64, &mut self.window[..wanted])?;
            self.filled = wanted;
        }
        Ok(&self.window[at - self.start..][..length])
    }

    /// The frame at `offset`, if a whole one ends at or before `end`.
    pub(crate) fn frame(&mut self, offset: u32, end: u32) -> io::Result<Option<Frame>> {
        let metadata_only = self.metadata_only;
        Ok(self.frame_ref(offset, end)?.map(|frame| frame.keep(metadata_only)))
    }

    /// The same without copying anything.
    pub(crate) fn frame_ref(&mut self, offset: u32, end: u32) -> io::Result<Option<FrameRef<'_>>> {
        let key = self.header.key;
        let (start, end) = (offset as usize, end as usize);
        if start % 8 != 0 || start + FRAME > end {
            return Ok(None);
        }
        let mut head = [0; FRAME];
        head.copy_from_slice(self.bytes(start, FRAME, end)?);
        let Some(header) = FrameHeader::decode(&head) else { return Ok(None) };
        let next = start + frame_length(header.length);
        if next > end {
            return Ok(None);
        }
        let bytes = self.bytes(start, FRAME + header.length, end)?;
        if checksum(key, &bytes[8..]) != header.sum {
            return Ok(None);
        }
        let payload = &bytes[FRAME..];
        let (kind, ticket, previous) = (header.kind, header.ticket, header.previous);
        Ok(Some(FrameRef { kind, ticket, previous, payload, next: next as u32 }))
    }

    /// Where the next frame after `offset` begins, and how many bytes are lost before it. Behind
    /// the last frame there may be what an earlier use of the file has left; a word of zeros tells
    /// it from a torn frame.
    pub(crate) fn resynchronise(
        &mut self,
        offset: u32,
        end: u32,
    ) -> io::Result<(Option<u32>, u64)> {
        if offset >= end {
            // A segment that has just been begun ends before its first frame can.
            return Ok((None, 0));
        }
        let mut place = offset + 8;
        while place as usize + FRAME <= end as usize {
            if self.bytes(place as usize, 4, end as usize)? == FRAME_MAGIC
                && self.frame(place, end)?.is_some()
            {
                return Ok((Some(place), u64::from(place - offset)));
            }
            place += 8;
        }
        let left = end.saturating_sub(offset).min(8) as usize;
        let torn = self.bytes(offset as usize, left, end as usize)?.iter().any(|byte| *byte != 0);
        Ok((None, if torn { left as u64 } else { 0 }))
    }
}

/// Whether a segment was prepared and never begun. One that cannot be read may well have been.
pub(crate) fn is_blank(files: &Files, number: u32, floor: u64) -> io::Result<bool> {
    let file = File::open(files.segment(number))?;
    let length = file.metadata()?.len().min(BLANK.into()) as usize;
    let mut bytes = vec![0; length];
    if length < HEADER || files.damages.try_read(&file, 0, &mut bytes).is_err() {
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
