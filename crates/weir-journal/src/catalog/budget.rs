//! The disk budget of a journal.

use std::sync::atomic::{AtomicU64, Ordering};

/// Segments that must fit into the rest of the budget before any is prepared ahead of need.
const MIN_SEGMENTS_AHEAD: u64 = 64;

/// Bytes that all lanes together may use on the disk.
#[derive(Debug)]
pub(crate) struct Budget {
    pub(crate) segment_bytes: u32,
    limit: u64,
    used: AtomicU64,
}

impl Budget {
    pub(crate) fn new(segment_bytes: u32, limit: u64) -> Self {
        Self { segment_bytes, limit, used: AtomicU64::new(0) }
    }

    /// Reserves `bytes`; false if fewer are left.
    pub(crate) fn try_reserve(&self, bytes: u64) -> bool {
        let more = |used: u64| used.checked_add(bytes).filter(|sum| *sum <= self.limit);
        self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
    }

    /// Counts `bytes` that are in use already, even beyond the limit.
    pub(crate) fn charge(&self, bytes: u64) {
        self.used.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn release(&self, bytes: u64) {
        let less = |used: u64| Some(used.saturating_sub(bytes));
        let _ = self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
    }

    pub(crate) fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    /// Whether more is used than allowed: sealed files are charged after they were written.
    pub(crate) fn is_exceeded(&self) -> bool {
        self.used() > self.limit
    }

    /// Whether more than half of the budget is used: then nothing is prepared ahead of need.
    pub(crate) fn is_half_used(&self) -> bool {
        self.used() > self.limit / 2
    }

    /// Whether segments may be prepared ahead of need: an eighth of the budget is left, or half of a
    /// small one.
    pub(crate) fn allows_segments_ahead(&self) -> bool {
        let left = self.limit.saturating_sub(self.used());
        let segments = MIN_SEGMENTS_AHEAD * u64::from(self.segment_bytes);
        left > self.limit / 2 || left > (self.limit / 8).max(segments)
    }

    /// Whether one more segment for each of `lanes` would exceed the limit.
    pub(crate) fn is_short(&self, lanes: usize) -> bool {
        self.used() + u64::from(self.segment_bytes) * lanes as u64 > self.limit
    }
}
