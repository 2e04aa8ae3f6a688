//! Metering.

use super::{Alert, Config, ConsumerId, Route, Sink};
use std::time::Duration;

/// The Monitor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Monitor {
    /// Whether calls are counted, by rules and plans.
    pub enabled: bool,
    /// Retention of counts.
    pub keep: Duration,
    /// Maximum number of combinations of consumer, API, operation, plan and status class per day.
    pub cardinality: usize,
    /// Types of calls that are counted.
    pub counts: Counts,
    /// Destination of usage events.
    pub events: Option<Sink>,
    /// Alerts.
    pub alerts: Vec<Alert>,
}

/// Types of calls that are counted. A call of several types is counted if all of them are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counts {
    /// Rejected before the handler.
    pub rejected: bool,
    /// Failed by rule.
    pub failed: bool,
    /// Without a complete response.
    pub interrupted: bool,
    /// Sent to an upstream more than once.
    pub retried: bool,
    /// Resubmitted by an operator.
    pub resubmitted: bool,
}

/// Calls of a route that metering rules count.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum CountRule {
    /// None.
    #[default]
    Nobody,
    /// Those of these consumers, in ascending order.
    Consumers(Vec<ConsumerId>),
    /// All.
    Everybody,
}

impl CountRule {
    /// Whether calls of this consumer are counted.
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
    /// Whether any calls may be counted.
    #[must_use]
    pub fn counts_calls(&self) -> bool {
        let ruled = |route: &Route| route.count != CountRule::Nobody;
        self.monitor.enabled
            && (self.plans.iter().any(super::Plan::is_counted)
                || self.apis.iter().flat_map(|api| &api.routes).any(ruled))
    }
}
