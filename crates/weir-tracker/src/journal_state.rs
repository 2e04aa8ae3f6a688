//! The state of the journal.

use crate::index::Statistics;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use weir_journal as journal;

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
    pub recovery: Recovery,
    /// Backlogs of the followers of the journal.
    pub followers: Vec<Lag>,
    /// Transactions in the index.
    pub indexed: u64,
    /// Transactions that are not indexed yet.
    pub index_lag_records: u64,
    /// Index lag in seconds.
    pub index_lag_seconds: f64,
}

/// Result of the recovery when the journal was opened.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Recovery {
    /// Segments read.
    pub segments: u64,
    /// Records read.
    pub records: u64,
    /// Transactions that were in flight and are `interrupted` now.
    pub interrupted: u64,
    /// Transactions that could not be closed because the journal is full.
    pub left_open: u64,
    /// Damaged ranges.
    pub damage: Vec<Damage>,
    /// Missing files.
    #[serde(default)]
    pub missing: Vec<MissingFile>,
    /// Followers whose checkpoint was damaged: they started again.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub damaged_checkpoints: Vec<String>,
}

/// A missing file.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct MissingFile {
    /// The lane.
    pub lane: u16,
    /// The segment.
    pub segment: u32,
    /// `segment`, `meta`, `payload` or `failed`.
    pub kind: String,
    /// Minimum number of its transactions; for `payload` and `failed`, the number of the segment.
    pub transactions: u64,
    /// The loss was accepted with `weir repair --accept-missing`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub accepted: bool,
}

/// A damaged range of the journal.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Damage {
    /// The lane.
    pub lane: u16,
    /// The segment.
    pub segment: u32,
    /// Offset in the segment.
    pub offset: u32,
    /// Length in bytes.
    pub bytes: u64,
}

/// Backlog of a follower of the journal.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Lag {
    /// Name of the follower.
    pub name: String,
    /// Transactions.
    pub records: u64,
    /// Bytes.
    pub bytes: u64,
    /// Seconds since the oldest of the transactions was received.
    pub seconds: f64,
}

impl JournalState {
    /// The state from the statistics of journal and index.
    pub(crate) fn new(
        done: journal::Statistics,
        recovery: &journal::RecoveryReport,
        lags: &[journal::Lag],
        index: Statistics,
    ) -> Self {
        let lag = |lag: &journal::Lag| Lag {
            name: lag.name.clone(),
            records: lag.records,
            bytes: lag.bytes,
            seconds: lag.age.as_secs_f64(),
        };
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
            recovery: Recovery {
                segments: recovery.segments,
                records: recovery.records,
                interrupted: recovery.interrupted,
                left_open: recovery.left_open,
                damage: recovery.damage.iter().map(Damage::from).collect(),
                missing: recovery.missing.iter().map(MissingFile::from).collect(),
                damaged_checkpoints: recovery
                    .checkpoints
                    .iter()
                    .map(|c| c.follower.clone())
                    .collect(),
            },
            followers: lags.iter().map(lag).collect(),
            indexed: index.transactions,
            index_lag_records: index.lag_records,
            index_lag_seconds: index.lag_us as f64 / 1e6,
        }
    }
}

impl From<&journal::MissingFile> for MissingFile {
    fn from(file: &journal::MissingFile) -> Self {
        Self {
            lane: file.lane,
            segment: file.segment,
            kind: file.kind.to_owned(),
            transactions: file.transactions,
            accepted: file.accepted,
        }
    }
}

impl From<&journal::Damage> for Damage {
    fn from(damage: &journal::Damage) -> Self {
        Self {
            lane: damage.lane,
            segment: damage.position.segment(),
            offset: damage.position.offset(),
            bytes: damage.bytes,
        }
    }
}
