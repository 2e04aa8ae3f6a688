//! `events.jsonl`: events of a run.

use serde::{Deserialize, Serialize};

/// An event.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// Seconds since the run started.
    pub time: f64,
    /// Index of the case in the summary; `None` for the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cell: Option<usize>,
    /// Kind.
    pub kind: EventKind,
    /// Text.
    pub text: String,
}

/// Kind of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EventKind {
    /// A server or backend was started.
    Started,
    /// A server or backend was stopped.
    Stopped,
    /// A round started.
    Round,
    /// The protocol has an outcome.
    Decided,
    /// A failed sample, one of the first of its kind.
    Error,
    /// A remark.
    Note,
}
