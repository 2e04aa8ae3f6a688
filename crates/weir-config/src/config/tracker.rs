//! What is recorded, and where it is kept.

use crate::business_keys::BusinessKeys;
use std::sync::Arc;
use std::time::Duration;

/// The journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JournalSettings {
    /// What a record survives before its answer's last byte leaves.
    pub durability: Durability,
    /// Most bytes on disk (default 10 GiB).
    pub disk: u64,
    /// What happens when nothing more can be recorded.
    pub when_full: WhenFull,
}

impl Default for JournalSettings {
    fn default() -> Self {
        Self { durability: Durability::Process, disk: 10 << 30, when_full: WhenFull::Shed }
    }
}

/// What a record survives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// The end of the process.
    #[default]
    Process,
    /// A loss of power: it has been synced.
    Disk,
}

/// What happens to a request that cannot be recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WhenFull {
    /// It is served without a record, and counted.
    #[default]
    Shed,
    /// It is answered with 503.
    Refuse,
}

/// The Tracker.
#[derive(Clone, Debug)]
pub struct Tracker {
    /// Whether transactions are recorded.
    pub enabled: bool,
    /// Most bytes of a body that are recorded, in each direction (default 64 KiB).
    pub body_limit: u64,
    /// What of the record can be searched for.
    pub index: IndexDepth,
    /// Headers whose values are not recorded, lower case; credentials are not among them, they
    /// never are.
    pub masked_headers: Vec<String>,
    /// Query parameters whose values are not recorded.
    pub masked_parameters: Vec<String>,
    /// What transactions are called by; whoever reads the journal finds them.
    pub keys: Arc<BusinessKeys>,
    /// How long headers and bodies of completed transactions are kept (default 7 days).
    pub keep_completed: Duration,
    /// How long failed and interrupted ones are kept (default 90 days).
    pub keep_failed: Duration,
}

impl Default for Tracker {
    fn default() -> Self {
        const DAY: Duration = Duration::from_secs(24 * 60 * 60);
        Self {
            enabled: false,
            body_limit: 64 << 10,
            index: IndexDepth::default(),
            masked_headers: Vec::new(),
            masked_parameters: Vec::new(),
            keys: Arc::default(),
            keep_completed: 7 * DAY,
            keep_failed: 90 * DAY,
        }
    }
}

/// What is recorded of a transaction, the least first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum CaptureLevel {
    /// Nothing.
    None,
    /// Who, what, when, how it ended.
    Meta,
    /// Headers of request and answer, too.
    Headers,
    /// Bodies, too.
    #[default]
    Body,
}

/// What of a record can be searched for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IndexDepth {
    /// Nothing.
    None,
    /// What is recorded as [`CaptureLevel::Meta`], and business keys.
    Keys,
    /// Every word.
    #[default]
    Payload,
}
