//! What is counted.

use super::{Alert, Config, ConsumerId, Route, Sink};
use std::time::Duration;

/// The Monitor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Monitor {
    /// Calls are counted if a rule or a plan asks for it.
    pub enabled: bool,
    /// How long counts are kept.
    pub keep: Duration,
    /// Most combinations of consumer, API, operation, plan and status class of a day.
    pub cardinality: usize,
    /// What counts as a call.
    pub counts: Counts,
    /// Where counts are posted to.
    pub events: Option<Sink>,
    /// Rules on usage.
    pub alerts: Vec<Alert>,
}

/// What counts as a call: one that is of several of these kinds counts if all of them do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counts {
    /// Turned away before the handler.
    pub rejected: bool,
    /// Failed by rule.
    pub failed: bool,
    /// Without a whole answer.
    pub interrupted: bool,
    /// Sent to an upstream more than once.
    pub retried: bool,
    /// Resubmitted by an operator.
    pub resubmitted: bool,
}

/// Which calls of a route a rule has counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum CountRule {
    /// None.
    #[default]
    Nobody,
    /// Those of these consumers, ascending.
    Consumers(Vec<ConsumerId>),
    /// All.
    Everybody,
}

impl CountRule {
    /// Whether a call of this consumer is counted.
    #[must_use]
    pub fn is_for(&self, consumer: Option<ConsumerId>) -> bool {
        match self {
            Self::Nobody => false,
            Self::Everybody => true,
            Self::Consumers(consumers) => {
                consumer.is_some_and(|id| consumers.binary_search(&id).is_ok())
            }
        }
    }
}

impl Config {
    /// Whether any call may be counted.
    #[must_use]
    pub fn counts_calls(&self) -> bool {
        let ruled = |route: &Route| route.count != CountRule::Nobody;
        self.monitor.enabled
            && (self.plans.iter().any(super::Plan::is_counted)
                || self.apis.iter().flat_map(|api| &api.routes).any(ruled))
    }
}
