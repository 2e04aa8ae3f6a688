//! Followers with a bounded backlog: the journal keeps what such a follower has not read up to a
//! number of bytes. Beyond them segments may be dropped unread, the oldest first; what the follower
//! skips by that is counted.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::format::Position;

/// Records that were dropped before a follower with a bounded backlog had read them. Count-only
/// records are not among them, unless the number is an upper bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Skipped {
    /// Index of the lane.
    pub lane: u16,
    /// Position of the first record.
    pub from: Position,
    /// Position after the last record.
    pub to: Position,
    /// Number of records.
    pub records: u64,
    /// The number is an upper bound: the process ended before it was reported, so that it is
    /// computed from sequence numbers.
    pub at_most: bool,
}

/// The followers that a segment is kept for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeptFor {
    /// All followers; those with a bounded backlog only within their bound.
    All,
    /// As `All`, without followers that read sealed segments only: sealing does not wait for them.
    Readers,
    /// Followers without a bound: there is no space left otherwise.
    Unbounded,
}

/// What the journal keeps for a follower with a bounded backlog, and what it did not keep.
#[derive(Debug)]
pub(crate) struct Backlog {
    pub(crate) max_bytes: u64,
    /// The follower reads sealed segments only.
    pub(crate) only_sealed: bool,
    /// The lowest segment of each lane within the bound.
    pub(crate) floors: Vec<u32>,
    /// How far the follower has read each lane; its checkpoint is not later.
    read: Vec<Arc<AtomicU64>>,
    skipped: Vec<Skipped>,
}

impl Backlog {
    pub(crate) fn new(max_bytes: u64, skipped: Vec<Skipped>) -> Self {
        Self { max_bytes, only_sealed: false, floors: Vec::new(), read: Vec::new(), skipped }
    }

    /// The lowest segment of a lane within the bound.
    pub(crate) fn floor(&self, lane: u16) -> u32 {
        self.floors.get(usize::from(lane)).copied().unwrap_or(0)
    }

    /// How far the follower has read a lane.
    pub(crate) fn read(&self, lane: u16) -> Position {
        let read = self.read.get(usize::from(lane));
        Position::from_bits(read.map_or(0, |position| position.load(Ordering::Relaxed)))
    }

    /// Where a reader of the follower publishes how far it has read a lane.
    pub(crate) fn progress(&mut self, lane: u16) -> Arc<AtomicU64> {
        let lane = usize::from(lane);
        self.read.resize_with(self.read.len().max(lane + 1), Arc::default);
        Arc::clone(&self.read[lane])
    }

    /// Adds records that the follower skips. Contiguous ones become one entry.
    pub(crate) fn skip(&mut self, skipped: Skipped) {
        let Skipped { lane, from, to, records, .. } = skipped;
        // Segments are dropped in their order.
        let last = self.skipped.iter_mut().rfind(|before| before.lane == lane);
        match last.filter(|before| before.to >= from && !before.at_most) {
            Some(before) => {
                before.to = to;
                before.records += records;
            }
            None => self.skipped.push(skipped),
        }
    }

    /// What the follower skips, once each.
    pub(crate) fn take_skipped(&mut self) -> Vec<Skipped> {
        std::mem::take(&mut self.skipped)
    }
}
