//! What is recorded, and where it is kept.

use super::Trigger;
use std::sync::Arc;
use std::time::Duration;
use weir_expr::BodyMask;
use weir_expr::BusinessKeys;

/// The journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JournalSettings {
    /// What a record survives before its answer's last byte leaves.
    pub durability: Durability,
    /// Most bytes on disk.
    pub disk: u64,
    /// What happens when nothing more can be recorded.
    pub when_full: WhenFull,
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
#[derive(Debug)]
pub struct Tracker {
    /// Whether transactions are recorded.
    pub enabled: bool,
    /// Most bytes of a body that are recorded, in each direction.
    pub body_limit: u64,
    /// What of the record can be searched for.
    pub index: IndexDepth,
    /// Headers whose values are not recorded, lower case; credentials are not among them, they
    /// never are.
    pub masked_headers: Vec<String>,
    /// Query parameters whose values are not recorded.
    pub masked_parameters: Vec<String>,
    /// What is masked in bodies.
    pub masked_bodies: Arc<BodyMask>,
    /// Most bytes of bodies that wait to be masked, in the whole process.
    pub budget: u64,
    /// What transactions are called by; whoever reads the journal finds them.
    pub keys: Arc<BusinessKeys>,
    /// What is told of transactions that end.
    pub triggers: Vec<Trigger>,
    /// How long headers and bodies of completed transactions are kept.
    pub keep_completed: Duration,
    /// How long failed and interrupted ones are kept.
    pub keep_failed: Duration,
}

/// What is recorded of a transaction, and what of that stays.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Capture {
    /// What is recorded.
    pub level: CaptureLevel,
    /// When headers and bodies stay; `None`: always.
    pub when: Option<CaptureWhen>,
}

/// When headers and bodies of a transaction stay once it is over; of others
/// [`CaptureLevel::Meta`] does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CaptureWhen {
    /// When it ended with an error: status 400 or above, or broken off.
    pub error: bool,
    /// When it took longer.
    pub slow: Option<Duration>,
}

impl Capture {
    /// What stays of a transaction that ended so.
    pub fn keeps(&self, error: bool, took: Duration) -> bool {
        self.when
            .is_none_or(|when| when.error && error || when.slow.is_some_and(|slow| took > slow))
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
