//! What is in sealed segments of transactions that were open at the end of the last of them. It is
//! carried from one sealed segment to the next, so that a long transaction pins no segment.
//!
//! The file `N.carry`, all numbers little-endian: magic `WEIRCRRY` (8), version `u32`, segment
//! `u32`, number of the next ticket `u64`; then for each frame its position `u64`, ticket `u64`,
//! previous position `u64`, length of the payload `u32`, kind `u32`, payload; at the end the
//! CRC-32 of everything before it. It is kept in memory: of each open transaction no more than
//! what was captured of it.

use std::collections::BTreeMap;
use std::fs;
use std::io;

use crate::files::Files;
use crate::format::{Kind, Position, u32_at, u64_at};
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

    /// Reads the carry of a segment. One that is damaged is taken for an empty one: the
    /// transactions in it then show as damaged.
    pub(crate) fn read(files: &Files, segment: u32) -> io::Result<Self> {
        let bytes = fs::read(files.path(segment, "carry"))?;
        Ok(Self::decode(&bytes).unwrap_or_else(|| {
            files.damages.note(segment, "carry", 0, bytes.len() as u64);
            Self { segment, ..Self::default() }
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
