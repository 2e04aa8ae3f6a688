//! The state of the journal.

use crate::index::Statistics;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use weir_journal::{self as journal, Lag, RecoveryReport};

/// The state of the journal.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct JournalState {
    /// Records appended since the start.
    pub records: u64,
    /// Bytes appended since the start.
    pub bytes: u64,
    /// Records that could not be appended.
    pub refused: u64,
    /// Transactions recorded with outcome and status only.
    pub shortened: u64,
    /// Errors of the file system.
    pub errors: u64,
    /// Segments started since the start.
    pub segments: u64,
    /// Segments sealed since the start.
    pub sealed: u64,
    /// Segments that wait to be sealed.
    pub unsealed: u64,
    /// Files deleted because of their age or the disk budget.
    pub dropped: u64,
    /// Size of the journal on disk in bytes.
    pub disk_bytes: u64,
    /// Result of the recovery at the start.
    pub recovery: RecoveryReport,
    /// Backlogs of the followers of the journal.
    pub followers: Vec<Lag>,
    /// Transactions in the index.
    pub indexed: u64,
    /// Transactions that are not indexed yet.
    pub index_lag_records: u64,
    /// Index lag in seconds.
    pub index_lag_seconds: f64,
}

impl JournalState {
    /// The state from the statistics of journal and index.
    pub(crate) fn new(
        done: journal::Statistics,
        recovery: &RecoveryReport,
        followers: Vec<Lag>,
        index: Statistics,
    ) -> Self {
        Self {
            records: done.records,
            bytes: done.bytes,
            refused: done.refused,
            shortened: done.shortened,
            errors: done.errors,
            segments: done.segments,
            sealed: done.sealed,
            unsealed: done.unsealed,
            dropped: done.dropped,
            disk_bytes: done.disk_bytes,
            recovery: recovery.clone(),
            followers,
            indexed: index.transactions,
            index_lag_records: index.lag_records,
            index_lag_seconds: index.lag_us as f64 / 1e6,
        }
    }
}
