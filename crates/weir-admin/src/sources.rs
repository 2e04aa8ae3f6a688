//! The data of the pages and endpoints, and the parts that they act on.

use crate::access::Access;
use crate::configuration::Configuration;
use crate::lab::Lab;
use crate::metrics::Family;
use std::sync::{Arc, mpsc};
use weir_events::delivery::SinkQueues;
use weir_monitor::{CounterCommand, Monitor};
use weir_resubmit::Resubmitter;
use weir_server::Gateway;
use weir_ship::Sinks;
use weir_store::gaps::Gaps;
use weir_tracker::Tracker;

/// Readiness for traffic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Readiness {
    /// Yes.
    Ready,
    /// No: requests in flight end, then weir stops.
    Draining,
    /// No: the version of the fleet's configuration is not known yet.
    NoVersion,
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
    /// Queues of event sinks, if there can be events.
    pub events: Option<SinkQueues>,
    /// The Lab, if there is a folder for its results.
    pub lab: Option<Lab>,
    /// The Tracker, if transactions are recorded.
    pub tracker: Option<Arc<Tracker>>,
    /// Usage and its counter, if calls are metered.
    pub metering: Option<Metering>,
    /// Gaps in records and counts, if there are any records.
    pub gaps: Option<Gaps>,
    /// The fleet that this node is a member of.
    pub fleet: Option<weir_fleet::Handle>,
    /// Sinks of transactions, if they are recorded.
    pub sinks: Option<Sinks>,
    /// Resubmission, if transactions are recorded.
    pub resubmitter: Option<Resubmitter>,
}

/// Usage, and commands to its counter.
pub struct Metering {
    /// Usage and invoices.
    pub monitor: Monitor,
    /// Commands to the thread that meters.
    pub commands: mpsc::SyncSender<CounterCommand>,
}

impl Sources {
    pub(crate) fn readiness(&self) -> Readiness {
        if self.gateway.is_draining() {
            return Readiness::Draining;
        }
        if self.fleet.as_ref().is_some_and(weir_fleet::Handle::lacks_version) {
            return Readiness::NoVersion;
        }
        let down = self.gateway.pools().into_iter().filter(|pool| !pool.ready);
        match down.map(|pool| pool.name).collect::<Vec<_>>() {
            names if names.is_empty() => Readiness::Ready,
            names => Readiness::Pools(names),
        }
    }
}
