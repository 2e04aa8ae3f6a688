//! One segment file: making it, opening it, taking frames out of it.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::format::{
    BadHeader, FRAME, FRAME_MAGIC, FrameHeader, HEADER, Kind, Position, SegmentHeader, checksum,
    frame_length,
};

/// A frame whose checksum was right.
#[derive(Debug)]
pub(crate) struct Frame {
    pub(crate) kind: Kind,
    pub(crate) ticket: u64,
    pub(crate) previous: Position,
    pub(crate) payload: Vec<u8>,
    /// Where the next frame begins.
    pub(crate) next: u32,
}

/// A segment opened for reading.
#[derive(Debug)]
pub(crate) struct Segment {
    pub(crate) header: SegmentHeader,
    pub(crate) length: u32,
    file: File,
}

impl Segment {
    /// Opens segment `number` of a lane; `InvalidData` if its header cannot be used.
    pub(crate) fn open(lane: &Path, number: u32) -> io::Result<Self> {
        let file = File::open(path(lane, number))?;
        let length = u32::try_from(file.metadata()?.len()).unwrap_or(u32::MAX);
        let mut bytes = [0; HEADER];
        file.read_exact_at(&mut bytes, 0)?;
        let header = SegmentHeader::decode(&bytes).map_err(|bad| {
            io::Error::new(
                io::ErrorKind::InvalidData,
                match bad {
                    BadHeader::Damaged => "damaged segment header".to_owned(),
                    BadHeader::Version(version) => format!("segment of version {version}"),
                },
            )
        })?;
        if header.number != number {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "segment of another number"));
        }
        Ok(Self { header, length, file })
    }

    /// The frame at `offset`, if a whole one ends at or before `end`.
    pub(crate) fn frame(&self, offset: u32, end: u32) -> io::Result<Option<Frame>> {
        let end = u64::from(end);
        let start = u64::from(offset);
        if start % 8 != 0 || start + FRAME as u64 > end {
            return Ok(None);
        }
        let mut head = [0; FRAME];
        self.file.read_exact_at(&mut head, start)?;
        let Some(header) = FrameHeader::decode(&head) else { return Ok(None) };
        let next = start + frame_length(header.length) as u64;
        if next > end {
            return Ok(None);
        }
        let mut bytes = vec![0; FRAME + header.length];
        self.file.read_exact_at(&mut bytes, start)?;
        if checksum(self.header.key, &bytes[8..]) != header.sum {
            return Ok(None);
        }
        bytes.drain(..FRAME);
        let (kind, ticket, previous) = (header.kind, header.ticket, header.previous);
        Ok(Some(Frame { kind, ticket, previous, payload: bytes, next: next as u32 }))
    }

    /// Where the next frame after `offset` begins, and how many bytes before it are not zero.
    pub(crate) fn resynchronise(&self, offset: u32, end: u32) -> io::Result<(Option<u32>, u64)> {
        let mut chunk = vec![0; 64 << 10];
        let (mut at, mut lost) = (offset, 0);
        while at < end {
            let length = chunk.len().min((end - at) as usize);
            self.file.read_exact_at(&mut chunk[..length], u64::from(at))?;
            for (index, word) in chunk[..length].chunks(8).enumerate() {
                let place = at + index as u32 * 8;
                if place > offset
                    && word.starts_with(&FRAME_MAGIC)
                    && self.frame(place, end)?.is_some()
                {
                    return Ok((Some(place), lost));
                }
                lost += word.iter().filter(|byte| **byte != 0).count() as u64;
            }
            at += length as u32;
        }
        Ok((None, lost))
    }
}

/// Makes a segment with real blocks behind it. Nothing is left behind when that fails.
pub(crate) fn create(lane: &Path, header: &SegmentHeader, length: u32) -> io::Result<File> {
    let path = path(lane, header.number);
    let file =
        OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&path)?;
    let made = rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, length.into())
        .map_err(io::Error::from)
        .and_then(|()| file.write_all_at(&header.encode(), 0));
    if let Err(error) = made {
        fs::remove_file(&path)?;
        return Err(error);
    }
    Ok(file)
}

/// Numbers of the segments of a lane, in order.
pub(crate) fn list(lane: &Path) -> io::Result<Vec<u32>> {
    let mut numbers = Vec::new();
    for entry in fs::read_dir(lane)? {
        let name = entry?.file_name();
        if let Some(number) = name.to_str().and_then(|name| name.strip_suffix(".segment")) {
            numbers.extend(number.parse::<u32>());
        }
    }
    numbers.sort_unstable();
    Ok(numbers)
}

/// Makes a folder that only its owner can enter.
pub(crate) fn folder(path: &Path) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(path)
}

pub(crate) fn path(lane: &Path, number: u32) -> PathBuf {
    lane.join(format!("{number:010}.segment"))
}
