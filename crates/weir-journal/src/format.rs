//! Version 1 of the segment format. All numbers are little-endian.
//!
//! A segment begins with a header of 64 bytes: magic `WEIRJRNL` (8), version `u32`, lane `u32`,
//! segment number `u64`, first free sequence number `u64`, key `u32`, zeros, and in the last four
//! bytes the CRC-32 of the 60 before. Frames follow, each at a multiple of 8:
//!
//! | offset | bytes | content |
//! |---|---|---|
//! | 0 | 4 | magic `WJR1` |
//! | 4 | 4 | CRC-32 of everything after it up to the end of the payload, with the segment's key as
//! initial value |
//! | 8 | 4 | length of the payload |
//! | 12 | 1 | kind: 1 `received`, 2 `part` of the request, 3 of the response, 4 `completed`, 5 `open` |
//! | 13 | 3 | zeros |
//! | 16 | 8 | sequence number |
//! | 24 | 8 | position of the previous frame of the transaction, 0 for none |
//! | 32 | | payload, then zeros up to a multiple of 8 |
//!
//! A position has the segment number in the upper and the offset in the lower 32 bits. The first
//! frame of a segment is `open`: the sequence number and last position (`u64` each) of every
//! transaction that was open when the segment began, so that recovery needs no earlier segment.
//! Frames are readable without the header: see [`crate::segment`]. [`crate::record`] describes the
//! payload of `received` and `completed`.

/// Version written into new segments.
pub(crate) const VERSION: u32 = 1;
/// Length of a segment's header.
pub(crate) const HEADER: usize = 64;
/// Length of a frame's header.
pub(crate) const FRAME: usize = 32;
const SEGMENT_MAGIC: [u8; 8] = *b"WEIRJRNL";
/// First bytes of a frame.
pub(crate) const FRAME_MAGIC: [u8; 4] = *b"WJR1";

/// A position in a lane. Later positions compare greater.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position(u64);

impl Position {
    /// Before all records.
    pub const START: Self = Self(0);

    pub(crate) fn new(segment: u32, offset: u32) -> Self {
        Self(u64::from(segment) << 32 | u64::from(offset))
    }

    /// The position as one number, for a checkpoint.
    #[must_use]
    pub fn to_bits(self) -> u64 {
        self.0
    }

    /// The position from the number of [`Position::to_bits`].
    #[must_use]
    pub fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    /// Number of the segment; the first one is 1.
    #[must_use]
    pub fn segment(self) -> u32 {
        (self.0 >> 32) as u32
    }

    /// Offset in the segment, in bytes.
    #[must_use]
    pub fn offset(self) -> u32 {
        self.0 as u32
    }
}

/// The position of a transaction's `completed` record: it identifies the transaction as long as the
/// journal keeps it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Address {
    /// Index of the lane.
    pub lane: u16,
    /// Position in the lane.
    pub position: Position,
}

/// Kind of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::FromRepr)]
#[repr(u8)]
pub(crate) enum Kind {
    Received = 1,
    RequestPart = 2,
    ResponsePart = 3,
    Completed = 4,
    Open = 5,
}

/// Header of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SegmentHeader {
    pub(crate) lane: u16,
    pub(crate) number: u32,
    pub(crate) first_sequence: u64,
    pub(crate) key: u32,
}

/// Why a segment's header cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BadHeader {
    Damaged,
    Version(u32),
}

impl SegmentHeader {
    pub(crate) fn encode(&self) -> [u8; HEADER] {
        let mut bytes = [0; HEADER];
        bytes[..8].copy_from_slice(&SEGMENT_MAGIC);
        bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
        bytes[12..16].copy_from_slice(&u32::from(self.lane).to_le_bytes());
        bytes[16..24].copy_from_slice(&u64::from(self.number).to_le_bytes());
        bytes[24..32].copy_from_slice(&self.first_sequence.to_le_bytes());
        bytes[32..36].copy_from_slice(&self.key.to_le_bytes());
        let sum = crc32fast::hash(&bytes[..60]);
        bytes[60..].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    pub(crate) fn decode(bytes: &[u8; HEADER]) -> Result<Self, BadHeader> {
        if bytes[..8] != SEGMENT_MAGIC || crc32fast::hash(&bytes[..60]) != u32_at(bytes, 60) {
            return Err(BadHeader::Damaged);
        }
        let version = u32_at(bytes, 8);
        if version != VERSION {
            return Err(BadHeader::Version(version));
        }
        Ok(Self {
            lane: u16::try_from(u32_at(bytes, 12)).map_err(|_| BadHeader::Damaged)?,
            number: u32::try_from(u64_at(bytes, 16)).map_err(|_| BadHeader::Damaged)?,
            first_sequence: u64_at(bytes, 24),
            key: u32_at(bytes, 32),
        })
    }
}

/// Header of a frame, its checksum not verified.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FrameHeader {
    pub(crate) kind: Kind,
    pub(crate) sum: u32,
    pub(crate) length: usize,
    pub(crate) sequence: u64,
    pub(crate) previous: Position,
}

impl FrameHeader {
    pub(crate) fn decode(bytes: &[u8; FRAME]) -> Option<Self> {
        if bytes[..4] != FRAME_MAGIC {
            return None;
        }
        Some(Self {
            kind: Kind::from_repr(bytes[12])?,
            sum: u32_at(bytes, 4),
            length: u32_at(bytes, 8) as usize,
            sequence: u64_at(bytes, 16),
            previous: Position(u64_at(bytes, 24)),
        })
    }
}

/// Clears `frame` and leaves space for a header, so that a payload can be appended.
pub(crate) fn begin_frame(frame: &mut Vec<u8>) {
    frame.clear();
    frame.resize(FRAME, 0);
}

/// Pads the frame started by [`begin_frame`] and writes its header.
pub(crate) fn finish_frame(
    frame: &mut Vec<u8>,
    kind: Kind,
    key: u32,
    sequence: u64,
    last: Position,
) {
    let length = frame.len() - FRAME;
    frame[..4].copy_from_slice(&FRAME_MAGIC);
    frame[8..12].copy_from_slice(&(length as u32).to_le_bytes());
    frame[12] = kind as u8;
    frame[16..24].copy_from_slice(&sequence.to_le_bytes());
    frame[24..32].copy_from_slice(&last.0.to_le_bytes());
    let sum = checksum(key, &frame[8..]);
    frame[4..8].copy_from_slice(&sum.to_le_bytes());
    frame.resize(frame_length(length), 0);
}

/// Length of a frame with `payload` bytes.
pub(crate) fn frame_length(payload: usize) -> usize {
    (FRAME + payload).next_multiple_of(8)
}

/// The checksum of a frame. `bytes` are those from its length to the end of its payload.
pub(crate) fn checksum(key: u32, bytes: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new_with_initial(key);
    hasher.update(bytes);
    hasher.finalize()
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let mut number = [0; 4];
    number.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(number)
}

pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let mut number = [0; 8];
    number.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(number)
}
