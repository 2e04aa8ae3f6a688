//! Counts that wait in memory until a segment is ready.

use std::collections::VecDeque;

/// Most bytes of pending counts of a lane.
const MAX_PENDING_BYTES: usize = 8 << 20;
/// Memory of a pending count in addition to its record.
const OVERHEAD_BYTES: usize = 32;

/// Encoded count-only records, oldest first.
#[derive(Debug, Default)]
pub(super) struct PendingCounts {
    records: VecDeque<Box<[u8]>>,
    bytes: usize,
}

impl PendingCounts {
    pub(super) fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.records.len()
    }

    pub(super) fn first(&self) -> Option<&[u8]> {
        self.records.front().map(|record| &**record)
    }

    /// Adds a record; false if there is no memory left for it.
    pub(super) fn push(&mut self, record: &[u8]) -> bool {
        let bytes = self.bytes + record.len() + OVERHEAD_BYTES;
        if bytes > MAX_PENDING_BYTES {
            return false;
        }
        self.bytes = bytes;
        self.records.push_back(record.into());
        true
    }

    pub(super) fn pop(&mut self) {
        if let Some(record) = self.records.pop_front() {
            self.bytes -= record.len() + OVERHEAD_BYTES;
        }
    }
}
