//! What is recorded, and where it is kept.

/// The journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JournalSettings {
    /// Most bytes on disk (default 10 GiB).
    pub disk: u64,
    /// What happens when nothing more can be recorded.
    pub when_full: WhenFull,
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
#[derive(Clone, Debug, PartialEq, Eq)]
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
