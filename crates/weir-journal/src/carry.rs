//! What is in sealed segments of transactions that were open at the end of the last of them. It is
//! carried from one sealed segment to the next, so that a long transaction pins no segment.
//!
//! The file `N.carry`, all numbers little-endian: magic `WEIRCRRY` (8), version `u32`, segment
//! `u32`, number of the next ticket `u64`; then for each frame its position `u64`, ticket `u64`,
//! previous position `u64`, length of the payload `u32`, kind `u32`, payload; at the end the
//! CRC-32 of everything before it. It is kept in memory: of each open transaction no more than
//! what was captured of it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io;

use crate::files::Files;
use crate::format::{Kind, Position, u32_at, u64_at};
use crate::recovery;
use crate::segment::Frame;

const MAGIC: [u8; 8] = *b"WEIRCRRY";
const HEAD: usize = 24;
const ENTRY: usize = 32;

/// Frames of open transactions by position.
#[derive(Clone, Debug, Default)]
pub(crate) struct Carry {
    /// The last sealed segment; 0 if none is.
    pub(crate) segment: u32,
    /// Number that the first transaction after it gets.
    pub(crate) next_ticket: u64,
    pub(crate) frames: BTreeMap<Position, Frame>,
    /// It could not be read: there may be frames, and the number is told by other files.
    pub(crate) lost: bool,
}

impl Carry {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend_from_slice(&1u32.to_le_bytes());
        bytes.extend_from_slice(&self.segment.to_le_bytes());
        bytes.extend_from_slice(&self.next_ticket.to_le_bytes());
        for (position, frame) in &self.frames {
            bytes.extend_from_slice(&position.to_bits().to_le_bytes());
            bytes.extend_from_slice(&frame.ticket.to_le_bytes());
            bytes.extend_from_slice(&frame.previous.to_bits().to_le_bytes());
            bytes.extend_from_slice(&(frame.payload.len() as u32).to_le_bytes());
            bytes.extend_from_slice(&(frame.kind as u32).to_le_bytes());
            bytes.extend_from_slice(&frame.payload);
        }
        let sum = crc32fast::hash(&bytes);
        bytes.extend_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// Finds the carry of the last sealed segment when a lane is opened, and removes those `there`
    /// that are of other segments. Says as well from which number on a frame can only be of a
    /// segment that is not sealed.
    pub(crate) fn find(
        files: &Files,
        there: &BTreeSet<u32>,
        raw: &BTreeSet<u32>,
        meta: &BTreeSet<u32>,
    ) -> io::Result<(Self, u64)> {
        // One that was written while its segment was being sealed does not count yet.
        let whole = there.iter().filter(|number| meta.contains(number) || !raw.contains(number));
        let last = whole.chain(meta.last()).max().copied();
        for number in there.iter().filter(|number| Some(**number) != last) {
            fs::remove_file(files.path(*number, "carry"))?;
        }
        let Some(last) = last else { return Ok((Self::default(), 0)) };
        let mut carry = Self::read(files, last)?;
        if !carry.lost {
            let floor = carry.next_ticket;
            return Ok((carry, floor));
        }
        let behind = raw.range(last..).copied().filter(|number| !meta.contains(number));
        if let Some(first) = recovery::first_ticket(files, behind)? {
            carry.next_ticket = first;
            return Ok((carry, first));
        }
        // What sealed segments tell is no bound for all that was open in them.
        carry.next_ticket = recovery::last_ticket(files, meta)?.saturating_add(1);
        Ok((carry, u64::MAX))
    }

    /// Reads the carry of a segment. One that is damaged or missing is taken for an empty one: the
    /// transactions in it then show as damaged.
    ///
    /// # Errors
    /// As long as the disk does not give it.
    pub(crate) fn read(files: &Files, segment: u32) -> io::Result<Self> {
        let mut bytes = Vec::new();
        match File::open(files.path(segment, "carry")) {
            Ok(file) => {
                bytes.resize(file.metadata()?.len() as usize, 0);
                files.damages.read(&file, (segment, "carry"), 0, &mut bytes)?;
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        let carry = Self::decode(&bytes).filter(|carry| carry.segment == segment);
        Ok(carry.unwrap_or_else(|| {
            files.damages.note(segment, "carry", 0, bytes.len().max(1) as u64);
            Self { segment, lost: true, ..Self::default() }
        }))
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let (bytes, sum) = bytes.split_last_chunk::<4>()?;
        let whole = bytes.len() >= HEAD && crc32fast::hash(bytes) == u32::from_le_bytes(*sum);
        if !whole || bytes[..8] != MAGIC || u32_at(bytes, 8) != 1 {
            return None;
        }
        let mut carry =
            Self { segment: u32_at(bytes, 12), next_ticket: u64_at(bytes, 16), ..Self::default() };
        let mut rest = &bytes[HEAD..];
        while !rest.is_empty() {
            let (head, tail) = rest.split_at_checked(ENTRY)?;
            let (payload, tail) = tail.split_at_checked(u32_at(head, 24) as usize)?;
            let frame = Frame {
                kind: Kind::from_byte(head[28])?,
                ticket: u64_at(head, 8),
                previous: Position::from_bits(u64_at(head, 16)),
                payload: payload.to_vec(),
                next: 0,
            };
            carry.frames.insert(Position::from_bits(u64_at(head, 0)), frame);
            rest = tail;
        }
        Some(carry)
    }

    /// Open transactions: ticket number and last position.
    pub(crate) fn open(&self) -> impl Iterator<Item = (u64, Position)> {
        let last: BTreeMap<u64, Position> =
            self.frames.iter().map(|(position, frame)| (frame.ticket, *position)).collect();
        last.into_iter()
    }
}
