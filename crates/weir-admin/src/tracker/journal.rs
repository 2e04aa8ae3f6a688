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
    /// Transactions of which only outcome and status were recorded.
    pub shortened: u64,
    /// Errors of the file system.
    pub errors: u64,
    /// Segments begun since the start.
    pub segments: u64,
    /// Segments sealed since the start.
    pub sealed: u64,
    /// Segments that wait to be sealed.
    pub unsealed: u64,
    /// Files dropped because of their age or the disk budget.
    pub dropped: u64,
    /// Bytes that the journal takes on the disk.
    pub disk_bytes: u64,
    /// What was found at the start.
    pub recovery: Recovery,
    /// What those who follow the journal have not made durable yet.
    pub followers: Vec<Lag>,
    /// Transactions in the index.
    pub indexed: u64,
    /// Transactions that are not indexed yet.
    pub index_lag_records: u64,
    /// How many seconds the index is behind.
    pub index_lag_seconds: f64,
}

/// What was found when the journal was opened.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Recovery {
    /// Segments that were read.
    pub segments: u64,
    /// Records in them.
    pub records: u64,
    /// Transactions that were in flight, and are `interrupted` now.
    pub interrupted: u64,
    /// Transactions that could not be closed because the journal is full.
    pub left_open: u64,
    /// What could not be read.
    pub damage: Vec<Damage>,
    /// Files that should be there and are not.
    #[serde(default)]
    pub missing: Vec<MissingFile>,
    /// Followers whose checkpoint was damaged: they began again.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub damaged_checkpoints: Vec<String>,
}

/// A file that should be there and is not.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct MissingFile {
    /// The lane.
    pub lane: u16,
    /// The segment.
    pub segment: u32,
    /// `segment`, `meta`, `payload` or `failed`.
    pub kind: String,
    /// Transactions that were in it, at least; of `payload` and `failed`, those of the segment.
    pub transactions: u64,
    /// The loss was accepted by `weir repair --accept-missing`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub accepted: bool,
}

/// A stretch of the journal that could not be read.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Damage {
    /// The lane.
    pub lane: u16,
    /// The segment.
    pub segment: u32,
    /// Where in it.
    pub offset: u32,
    /// Bytes.
    pub bytes: u64,
}

/// What somebody who follows the journal has not read yet.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Lag {
    /// Who.
    pub name: String,
    /// Transactions.
    pub records: u64,
    /// Bytes.
    pub bytes: u64,
    /// Seconds since the oldest of them was received.
    pub seconds: f64,
}

/// What was found in a part of the journal.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Verified {
    /// `lane/N`, `damage/LANE/SEGMENT/OFFSET` of a stretch found at the start,
    /// `missing/LANE/SEGMENT/KIND` of a file that should be there, or `end`.
    pub id: String,
    /// Transactions that were read.
    pub transactions: u64,
    /// Of them, those of which something was lost.
    pub damaged: u64,
    /// Of them, those whose headers and bodies were dropped because of their age.
    pub expired: u64,
    /// Damaged bytes.
    pub damaged_bytes: u64,
    /// Files that should be there and are not, without those whose loss was accepted.
    #[serde(default)]
    pub missing_files: u64,
    /// Transactions whose files are gone: all of them, or headers and bodies.
    #[serde(default)]
    pub missing: u64,
    /// Files that are missing, and whose loss was accepted by `weir repair --accept-missing`.
    #[serde(default)]
    pub accepted_files: u64,
    /// Transactions that were in them.
    #[serde(default)]
    pub accepted: u64,
    /// All of it was read.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub end: bool,
}
