//! Figures of a journal.

use crate::recovery::RecoveryReport;

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
    /// What opening the journal has found.
    pub(crate) fn of_report(report: &RecoveryReport) -> Self {
        let missing = || report.missing.iter().filter(|file| !file.accepted);
        Self {
            missing_files: missing().count() as u64,
            missing_transactions: missing().map(|file| file.transactions).sum(),
            damaged_checkpoints: report.damaged_checkpoints.len() as u64,
            ..Self::default()
        }
    }
}
