//! The state of the journal.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

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

/// Result of the verification of a part of the journal.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Verified {
    /// `lane/N`, `damage/LANE/SEGMENT/OFFSET` of a range found at the start,
    /// `missing/LANE/SEGMENT/KIND` of a missing file, or `end`.
    pub id: String,
    /// Transactions read.
    pub transactions: u64,
    /// Transactions with losses.
    pub damaged: u64,
    /// Transactions whose headers and bodies were deleted because of their age.
    pub expired: u64,
    /// Damaged bytes.
    pub damaged_bytes: u64,
    /// Missing files, without those whose loss was accepted.
    #[serde(default)]
    pub missing_files: u64,
    /// Transactions whose files are missing: completely, or headers and bodies.
    #[serde(default)]
    pub missing: u64,
    /// Missing files whose loss was accepted with `weir repair --accept-missing`.
    #[serde(default)]
    pub accepted_files: u64,
    /// Transactions in those files.
    #[serde(default)]
    pub accepted: u64,
    /// The verification is complete.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub end: bool,
}
