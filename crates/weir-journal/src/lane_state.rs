//! What a lane's writer, its readers and the maintenance threads share.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::Mutex;

use crate::catalog::Catalog;
use crate::durable::Durable;
use crate::format::Position;

/// How far a lane is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaneProgress {
    /// Index of the lane.
    pub lane: u16,
    /// The end of what was appended.
    pub end: Position,
    /// Sequence number of the next transaction.
    pub next_sequence: u64,
}

/// A lane without its writer.
#[derive(Clone, Debug)]
pub(crate) struct LaneState {
    pub(crate) catalog: Arc<Catalog>,
    pub(crate) shared: Arc<LaneShared>,
}

/// What a lane's writer, its readers and the maintenance threads share. Only the writer changes it,
/// unless a field says otherwise.
#[derive(Debug, Default)]
pub(crate) struct LaneShared {
    /// [`Position`] of the end of what was written.
    pub(crate) end: AtomicU64,
    /// Sequence number of the next transaction.
    pub(crate) next_sequence: AtomicU64,
    pub(crate) records: AtomicU64,
    pub(crate) bytes: AtomicU64,
    pub(crate) refused: AtomicU64,
    pub(crate) shortened: AtomicU64,
    /// Counts that wait in memory for a segment.
    pub(crate) pending_counts: AtomicU64,
    /// Segments prepared. Only the preallocator changes it.
    pub(crate) prepared: AtomicU64,
    pub(crate) errors: AtomicU64,
    /// Started segments.
    pub(crate) segments: AtomicU64,
    /// Errors of the maintenance threads.
    pub(crate) disk_errors: AtomicU64,
    pub(crate) durable: Durable,
    /// Set by the syncing thread when the disk failed to store the current segment: the writer
    /// closes it.
    pub(crate) abandon: AtomicBool,
    /// Another process writes the lane: its files belong to that process, and `end` is how far it is
    /// known to have come.
    pub(crate) held: AtomicBool,
    /// Full segments with nothing but count-only records, and the sequence number of the first
    /// transaction after each. They are dropped, not sealed, once they were read.
    pub(crate) count_only: Mutex<BTreeMap<u32, u64>>,
}

impl LaneShared {
    pub(crate) fn end(&self) -> Position {
        Position::from_bits(self.end.load(Ordering::Acquire))
    }

    pub(crate) fn is_held(&self) -> bool {
        self.held.load(Ordering::Acquire)
    }
}
