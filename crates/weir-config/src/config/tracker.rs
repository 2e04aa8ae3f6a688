//! Journal and Tracker settings.

use std::sync::Arc;
use std::time::Duration;
use weir_expr::BodyMask;
use weir_expr::BusinessKeys;
use weir_model::events::Trigger;

/// The journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JournalSettings {
    /// Durability of a record when the last byte of its response is sent.
    pub durability: Durability,
    /// Maximum size on disk in bytes.
    pub disk: u64,
    /// Behaviour if nothing more can be recorded.
    pub when_full: WhenFull,
}

/// Durability of a record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// Survives a crash of the process.
    #[default]
    Process,
    /// Survives a loss of power: it has been synced.
    Disk,
}

/// Handling of requests that cannot be recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WhenFull {
    /// Served without a record, and counted.
    #[default]
    Shed,
    /// Rejected with 503.
    Refuse,
}

/// The Tracker.
#[derive(Debug)]
pub struct Tracker {
    /// Whether transactions are recorded.
    pub enabled: bool,
    /// Maximum number of recorded bytes of a body, per direction.
    pub body_limit: u64,
    /// Search index.
    pub index: IndexDepth,
    /// Headers whose values are not recorded, lower case. Credentials are never recorded and not
    /// listed.
    pub masked_headers: Vec<String>,
    /// Query parameters whose values are not recorded.
    pub masked_parameters: Vec<String>,
    /// Redaction of bodies.
    pub masked_bodies: Arc<BodyMask>,
    /// Maximum memory in bytes of bodies that wait for redaction, in the entire process.
    pub budget: u64,
    /// Business keys of transactions, found by the indexer.
    pub keys: Arc<BusinessKeys>,
    /// Triggers: rules on finished transactions.
    pub triggers: Vec<Trigger>,
    /// Retention of headers and bodies of successful transactions.
    pub keep_completed: Duration,
    /// Retention of failed and aborted transactions.
    pub keep_failed: Duration,
}

/// Capture level, and conditions under which headers and bodies are kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Capture {
    /// Capture level.
    pub level: CaptureLevel,
    /// Condition for headers and bodies; `None`: always kept.
    pub when: Option<CaptureWhen>,
}

/// Conditions under which headers and bodies of a finished transaction are kept; of others
/// [`CaptureLevel::Meta`] is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CaptureWhen {
    /// The transaction failed: status 400 or above, or aborted.
    pub error: bool,
    /// The transaction took longer.
    pub slow: Option<Duration>,
}

impl Capture {
    /// The capture level of a transaction with this outcome.
    pub fn keeps(&self, error: bool, took: Duration) -> bool {
        self.when
            .is_none_or(|when| when.error && error || when.slow.is_some_and(|slow| took > slow))
    }
}

/// Capture level of a transaction, in ascending order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum CaptureLevel {
    /// Nothing.
    None,
    /// Caller, route, times, outcome.
    Meta,
    /// Headers of request and response, too.
    Headers,
    /// Bodies, too.
    #[default]
    Body,
}

/// Depth of the search index.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IndexDepth {
    /// Nothing.
    None,
    /// Metadata ([`CaptureLevel::Meta`]) and business keys.
    Keys,
    /// Every word.
    #[default]
    Payload,
}
