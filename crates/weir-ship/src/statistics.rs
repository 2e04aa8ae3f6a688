//! Figures of a sink.

/// What a sink has done since it was opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Documents that OpenSearch has acknowledged, those that existed included.
    pub docs: u64,
    /// Documents that it has rejected: they are in the database.
    pub rejected: u64,
    /// Rejected documents that were dropped from the database because there were too many.
    pub rejected_dropped: u64,
    /// Records that were not sent, or without headers and bodies, because the journal had dropped
    /// them.
    pub gap_records: u64,
    /// Requests that failed and are repeated.
    pub retries: u64,
    /// Why nothing is sent until an operator has changed something.
    pub paused: Option<String>,
}
