//! `events.jsonl`: what happened when.

use serde::{Deserialize, Serialize};

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// Seconds since the run started.
    pub time: f64,
    /// The case, by its place in the summary; `None` for what concerns them all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cell: Option<usize>,
    /// What.
    pub kind: EventKind,
    /// In words.
    pub text: String,
}

/// What kind of event it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EventKind {
    /// A server or backend was started.
    Started,
    /// A server or backend was stopped.
    Stopped,
    /// A round began.
    Round,
    /// The protocol decided.
    Decided,
    /// A failed sample, one of the first of its kind.
    Error,
    /// A remark.
    Note,
}
