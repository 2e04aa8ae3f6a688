//! What is told to others as CloudEvents, and where it is posted to.

use super::UpstreamId;
use std::time::Duration;

/// Where events are posted to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sink {
    /// One of its targets takes them.
    pub upstream: UpstreamId,
    /// The upstream's name, by which events are kept while they wait.
    pub name: String,
    /// Path and query of the request.
    pub path: String,
}

/// A rule on usage that posts an event each time it begins to hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Alert {
    /// Its name.
    pub name: String,
    /// What it looks at.
    pub rule: AlertRule,
    /// Calls of so many of the last whole minutes, at least one minute.
    pub over: Duration,
    /// Names of the APIs it looks at; of all if there is none.
    pub apis: Vec<String>,
    /// Names of the consumers it looks at; at all calls if there is none.
    pub consumers: Vec<String>,
    /// Where the event goes.
    pub sink: Sink,
}

/// What an alert looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AlertRule {
    /// More than so many calls.
    Calls {
        /// So many are none too many.
        above: u64,
    },
    /// More than this share of calls without an answer below status 500.
    ErrorRate {
        /// In hundredths of a percent.
        above: u32,
        /// With fewer calls than this it does not hold.
        at_least: u64,
    },
}

/// A rule on transactions that posts an event for each that comes into a state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trigger {
    /// Its name.
    pub name: String,
    /// Names of the APIs; all if there is none.
    pub apis: Vec<String>,
    /// States in which transactions end; never empty.
    pub states: Vec<EndState>,
    /// The business key that has to be there, and the value it has to have.
    pub key: Option<(String, Option<String>)>,
    /// Where the event goes.
    pub sink: Sink,
}

/// A state in which a transaction ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndState {
    /// Answered.
    Completed,
    /// Failed by rule.
    Failed,
    /// Without a whole answer.
    Interrupted,
}

impl EndState {
    /// As it is written.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Interrupted => "interrupted",
        }
    }
}
