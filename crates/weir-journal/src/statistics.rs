//! Figures of a journal.

use std::sync::atomic::Ordering;

use crate::journal_state::JournalState;
use crate::lane_state::LaneState;

/// What all lanes have done since the journal was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Records appended.
    pub records: u64,
    /// Bytes appended.
    pub bytes: u64,
    /// Appends refused.
    pub refused: u64,
    /// Transactions whose end was written without headers and bodies, because the journal was full.
    pub shortened: u64,
    /// Counts of calls that wait in memory for a segment; lost if the process is killed.
    pub pending_counts: u64,
    /// Errors of the file system.
    pub errors: u64,
    /// Started segments.
    pub segments: u64,
    /// Segments sealed.
    pub sealed: u64,
    /// Files dropped because of their age or the budget.
    pub dropped: u64,
    /// Full segments that are not sealed yet.
    pub unsealed: u64,
    /// Bytes that recovery, sealing or a reader could not read, each counted once.
    pub damaged_bytes: u64,
    /// Missing files, without accepted ones.
    pub missing_files: u64,
    /// Transactions in them.
    pub missing_transactions: u64,
    /// Checkpoints of followers that were damaged when the journal was opened.
    pub damaged_checkpoints: u64,
    /// Bytes that the journal uses on the disk, prepared segments included.
    pub disk_bytes: u64,
}

impl Statistics {
    pub(crate) fn of(journal: &JournalState) -> Self {
        let counters = &journal.counters;
        let mut sum = Self {
            errors: counters.errors.load(Ordering::Relaxed),
            sealed: counters.sealed.load(Ordering::Relaxed),
            dropped: counters.dropped.load(Ordering::Relaxed),
            unsealed: journal.unsealed() as u64,
            disk_bytes: journal.budget.used(),
            missing_files: counters.missing_files.load(Ordering::Relaxed),
            missing_transactions: counters.missing_transactions.load(Ordering::Relaxed),
            damaged_checkpoints: counters.damaged_checkpoints.load(Ordering::Relaxed),
            ..Self::default()
        };
        for LaneState { catalog, shared } in &journal.lanes {
            sum.damaged_bytes += catalog.files.damage.bytes();
            sum.records += shared.records.load(Ordering::Relaxed);
            sum.bytes += shared.bytes.load(Ordering::Relaxed);
            sum.refused += shared.refused.load(Ordering::Relaxed);
            sum.shortened += shared.shortened.load(Ordering::Relaxed);
            sum.errors += shared.errors.load(Ordering::Relaxed);
            sum.errors += shared.disk_errors.load(Ordering::Relaxed);
            sum.segments += shared.segments.load(Ordering::Relaxed);
            sum.pending_counts += shared.pending_counts.load(Ordering::Relaxed);
        }
        sum
    }
}
