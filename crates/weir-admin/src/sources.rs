//! What the pages and endpoints show, and what they act on.

use crate::access::Access;
use crate::configuration::Configuration;
use crate::events::Events;
use crate::gap::Gaps;
use crate::invoice::Billing;
use crate::lab::Lab;
use crate::metrics::Family;
use crate::monitor::Monitor;
use crate::resubmit::Resubmission;
use crate::tracker::Tracker;
use std::sync::Arc;
use weir_gateway::Gateway;

/// Readiness for traffic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Readiness {
    /// Yes.
    Ready,
    /// No: requests in flight end, then weir stops.
    Draining,
    /// No: none of the agents of these pools can be started.
    Pools(Vec<String>),
}

/// Everything behind the admin listener.
pub struct Sources {
    /// The gateway.
    pub gateway: Arc<Gateway>,
    /// All families of metrics, each name once.
    pub metrics: Arc<dyn Fn() -> Vec<Family> + Send + Sync>,
    /// The configuration and its reloads.
    pub configuration: Configuration,
    /// Tokens and audit; the admin API is off without them.
    pub access: Option<Access>,
    /// Invoices, if calls are metered.
    pub billing: Option<Billing>,
    /// Queues of event sinks, if there can be events.
    pub events: Option<Events>,
    /// The Lab, if there is a folder for its results.
    pub lab: Option<Lab>,
    /// The Tracker, if transactions are recorded.
    pub tracker: Option<Tracker>,
    /// The Monitor, if calls are metered.
    pub monitor: Option<Monitor>,
    /// Gaps in records and counts, if there are any records.
    pub gaps: Option<Gaps>,
    /// Resubmission, if transactions are recorded.
    pub resubmission: Option<Resubmission>,
}

impl Sources {
    pub(crate) fn readiness(&self) -> Readiness {
        if self.gateway.is_draining() {
            return Readiness::Draining;
        }
        let down = self.gateway.pools().into_iter().filter(|pool| !pool.ready);
        match down.map(|pool| pool.name).collect::<Vec<_>>() {
            names if names.is_empty() => Readiness::Ready,
            names => Readiness::Pools(names),
        }
    }
}
