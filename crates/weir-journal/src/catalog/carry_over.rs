//! Frames in sealed segments of transactions that were open at the end of the last one. They are
//! carried over from one sealed segment to the next, so that a long transaction blocks the removal
//! of no segment.
//!
//! The file `N.carry`, all numbers little-endian: magic `WEIRCRRY` (8), version `u32`, segment
//! `u32`, next sequence number `u64`; then for each frame its position `u64`, sequence number
//! `u64`, previous position `u64`, length of the payload `u32`, kind `u32`, payload; at the end the
//! CRC-32 of everything before it. The content is kept in memory: of each open transaction at most
//! what was captured.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io;

use crate::files::Files;
use crate::format::{Kind, Position, u32_at, u64_at};
use crate::os::atomic_file::{if_exists, verified, with_checksum};
use crate::segment::{self, Frame, sealed};

const MAGIC: [u8; 8] = *b"WEIRCRRY";
const HEADER_BYTES: usize = 24;
const FRAME_HEADER_BYTES: usize = 32;

/// Frames of open transactions by position.
#[derive(Clone, Debug, Default)]
pub(crate) struct CarryOver {
    /// The last sealed segment; 0 if there is none.
    pub(crate) segment: u32,
    /// Sequence number of the first transaction after it.
    pub(crate) next_sequence: u64,
    pub(crate) frames: BTreeMap<Position, Frame>,
    /// The file could not be read: frames may be lost, and the sequence number comes from other
    /// files.
    pub(crate) lost: bool,
}

impl CarryOver {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend_from_slice(&1u32.to_le_bytes());
        bytes.extend_from_slice(&self.segment.to_le_bytes());
        bytes.extend_from_slice(&self.next_sequence.to_le_bytes());
        for (position, frame) in &self.frames {
            bytes.extend_from_slice(&position.to_bits().to_le_bytes());
            bytes.extend_from_slice(&frame.sequence.to_le_bytes());
            bytes.extend_from_slice(&frame.previous.to_bits().to_le_bytes());
            bytes.extend_from_slice(&(frame.payload.len() as u32).to_le_bytes());
            bytes.extend_from_slice(&(frame.kind as u32).to_le_bytes());
            bytes.extend_from_slice(&frame.payload);
        }
        with_checksum(bytes)
    }

    /// The segment of the valid carry-over, if any was sealed.
    pub(crate) fn last(
        existing: &BTreeSet<u32>,
        raw: &BTreeSet<u32>,
        meta: &BTreeSet<u32>,
    ) -> Option<u32> {
        // A carry-over written while its segment was being sealed is not valid yet.
        let complete =
            existing.iter().filter(|number| meta.contains(number) || !raw.contains(number));
        complete.chain(meta.last()).max().copied()
    }

    /// Finds the carry-over of the last sealed segment when a lane is opened, and removes those of
    /// other segments. Returns as well the sequence number from which on a frame can only belong to
    /// a segment that is not sealed. `existing` are the carry-over files.
    pub(crate) fn find(
        files: &Files,
        existing: &BTreeSet<u32>,
        raw: &BTreeSet<u32>,
        meta: &BTreeSet<u32>,
    ) -> io::Result<(Self, u64)> {
        let last = Self::last(existing, raw, meta);
        for number in existing.iter().filter(|number| Some(**number) != last) {
            fs::remove_file(files.path(*number, "carry"))?;
        }
        let Some(last) = last else { return Ok((Self::default(), 0)) };
        let mut carry = Self::read(files, last)?;
        if !carry.lost {
            let floor = carry.next_sequence;
            return Ok((carry, floor));
        }
        let after = raw.range(last..).copied().filter(|number| !meta.contains(number));
        if let Some(first) = segment::first_sequence(files, after)? {
            carry.next_sequence = first;
            return Ok((carry, first));
        }
        // Sealed segments contain completed transactions only: their numbers do not limit those of
        // open ones.
        carry.next_sequence = sealed::last_sequence(files, meta)?.saturating_add(1);
        Ok((carry, u64::MAX))
    }

    /// Reads the carry-over of a segment. A damaged or missing file counts as empty: its
    /// transactions are shown as damaged.
    ///
    /// # Errors
    /// The disk does not return the file, and it does not count as lost yet.
    pub(crate) fn read(files: &Files, segment: u32) -> io::Result<Self> {
        let mut bytes = Vec::new();
        if let Some(file) = if_exists(File::open(files.path(segment, "carry")))? {
            bytes.resize(file.metadata()?.len() as usize, 0);
            files.damage.read(&file, (segment, "carry"), 0, &mut bytes)?;
        }
        let carry = Self::decode(&bytes).filter(|carry| carry.segment == segment);
        Ok(carry.unwrap_or_else(|| {
            files.damage.record(segment, "carry", 0, bytes.len().max(1) as u64);
            Self { segment, lost: true, ..Self::default() }
        }))
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let bytes = verified(bytes)?;
        if bytes.len() < HEADER_BYTES || bytes[..8] != MAGIC || u32_at(bytes, 8) != 1 {
            return None;
        }
        let mut carry = Self {
            segment: u32_at(bytes, 12),
            next_sequence: u64_at(bytes, 16),
            ..Self::default()
        };
        let mut rest = &bytes[HEADER_BYTES..];
        while !rest.is_empty() {
            let (head, tail) = rest.split_at_checked(FRAME_HEADER_BYTES)?;
            let (payload, tail) = tail.split_at_checked(u32_at(head, 24) as usize)?;
            let frame = Frame {
                kind: Kind::from_repr(head[28])?,
                sequence: u64_at(head, 8),
                previous: Position::from_bits(u64_at(head, 16)),
                payload: payload.to_vec(),
                next: 0,
            };
            carry.frames.insert(Position::from_bits(u64_at(head, 0)), frame);
            rest = tail;
        }
        Some(carry)
    }

    /// Open transactions: sequence number and last position.
    pub(crate) fn open(&self) -> impl Iterator<Item = (u64, Position)> {
        let last: BTreeMap<u64, Position> =
            self.frames.iter().map(|(position, frame)| (frame.sequence, *position)).collect();
        last.into_iter()
    }
}
