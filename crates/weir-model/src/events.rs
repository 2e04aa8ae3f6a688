//! CloudEvents: destinations and rules.

use crate::{Outcome, UpstreamId};
use std::time::Duration;

/// Destination of events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sink {
    /// The upstream; one of its targets receives each event.
    pub upstream: UpstreamId,
    /// Name of the upstream, under which undelivered events are stored.
    pub name: String,
    /// Path and query of the request.
    pub path: String,
}

/// An alert: a usage rule that sends an event each time its condition becomes true.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Alert {
    /// Name of the alert.
    pub name: String,
    /// The condition.
    pub rule: AlertRule,
    /// Window: calls of the last complete minutes, at least one minute.
    pub over: Duration,
    /// Names of the APIs that the rule applies to; empty: all.
    pub apis: Vec<String>,
    /// Names of the consumers that the rule applies to; empty: all calls.
    pub consumers: Vec<String>,
    /// Destination of the event.
    pub sink: Sink,
}

/// Condition of an alert.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AlertRule {
    /// More calls than a limit.
    Calls {
        /// Maximum number without an alert.
        above: u64,
    },
    /// A larger share of calls without a response below status 500.
    ErrorRate {
        /// In hundredths of a percent.
        above: u32,
        /// Minimum number of calls for the condition to apply.
        at_least: u64,
    },
}

/// A trigger: a rule on transactions that sends an event for each one that reaches a state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trigger {
    /// Name of the trigger.
    pub name: String,
    /// Names of the APIs; empty: all.
    pub apis: Vec<String>,
    /// States at the end of a transaction; never empty.
    pub states: Vec<Outcome>,
    /// The business key that the transaction must have, and its value.
    pub key: Option<(String, Option<String>)>,
    /// Destination of the event.
    pub sink: Sink,
}
