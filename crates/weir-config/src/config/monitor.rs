//! Metering.

use super::{Config, ConsumerId, Route};
use std::time::Duration;
use weir_model::Counts;
use weir_model::events::{Alert, Sink};

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
