//! What the member and its handles share: settings, what the node reports, and the fleet as last known.

use crate::database::{Connect, Connection};
use crate::identity::Boot;
use crate::membership::Report;
use crate::peers::{PeerSettings, PeerState, PeerStatistics};
use crate::rates::{RateSettings, Rates};
use crate::redis::ConnectRedis;
use crate::rollout::Offer;
use crate::slice::Membership;
use crate::status::{self, DRIFT_SECONDS, FleetFinding, NodeState, NodeStatus, PostgresStatus};
use crate::tokens::TokenTable;
use crate::versions::{FleetVersions, NodeVersion, Rejected};
use parking_lot::Mutex;
use rustls::ClientConfig;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Condvar, OnceLock, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::{Notify, mpsc};
use uuid::Uuid;
use weir_config::versions::VersionState;
use weir_config::{ConfigSource, FleetQuotas};
use weir_model::UnixSeconds;
use weir_model::events::Alert;

/// Settings of a member.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Name of the fleet.
    pub fleet: String,
    /// Display name of the node.
    pub name: String,
    /// How to connect.
    pub connect: Connect,
    /// Retention of usage in the database.
    pub keep: Duration,
    /// Quotas.
    pub quotas: FleetQuotas,
    /// Alerts on usage.
    pub alerts: Vec<Alert>,
    /// Shortest time of a stage of a rollout; `None` with own files only.
    pub stage: Option<Duration>,
    /// Requests between nodes; `None`: there are none.
    pub peers: Option<PeerSettings>,
    pub(crate) rates: RateSettings,
}

/// TLS of the connections of a fleet, each `None` without TLS.
#[derive(Clone, Debug, Default)]
pub struct FleetTls {
    /// To PostgreSQL.
    pub postgres: Option<Arc<ClientConfig>>,
    /// To other nodes.
    pub peers: Option<Arc<ClientConfig>>,
    /// To Redis.
    pub redis: Option<Arc<ClientConfig>>,
}

impl Settings {
    /// The settings in a configuration; the display name is that of the host, if there is none.
    #[must_use]
    pub fn new(
        fleet: &weir_config::Fleet,
        tls: FleetTls,
        keep: Duration,
        alerts: &[Alert],
    ) -> Self {
        let redis = fleet.redis.clone();
        let host = || rustix::system::uname().nodename().to_string_lossy().into_owned();
        Self {
            fleet: fleet.name.clone(),
            name: fleet.node.clone().unwrap_or_else(host),
            connect: Connect { postgres: fleet.postgres.clone(), tls: tls.postgres },
            keep,
            quotas: fleet.quotas,
            alerts: alerts.to_vec(),
            stage: (fleet.config.source == ConfigSource::Fleet).then_some(fleet.config.stage),
            peers: fleet.peers.as_ref().map(|peers| PeerSettings::new(peers, tls.peers)),
            rates: RateSettings {
                fleet: fleet.name.clone(),
                rates: fleet.rates,
                redis: redis.map(|redis| ConnectRedis { redis, tls: tls.redis }),
            },
        }
    }
}

/// Counters and state that metrics read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// The node is connected and registered.
    pub up: bool,
    /// Nodes that serve, this one included, as of the last heartbeat.
    pub live: u64,
    /// Clock of this node minus that of the database, in milliseconds.
    pub offset_ms: i64,
    /// Failed attempts to connect or to renew the lease.
    pub failures: u64,
    /// Redis is in use; `None` while tokens of rates are not leased.
    pub redis: Option<bool>,
    /// Failed rounds of requests to Redis, and attempts to connect to it.
    pub redis_failures: u64,
    /// Nodes have had different configurations for more than a minute.
    pub drift: bool,
    /// Version of the configuration in force; `None` for the own files alone.
    pub version: Option<i64>,
    /// Rollouts that this node has rolled back.
    pub rollbacks: u64,
    /// Buckets of usage that were replicated.
    pub replicated: u64,
    /// Time since all usage was replicated that was counted up to then; 0 in the beginning.
    pub usage_lag: Duration,
    /// Requests between nodes.
    pub peers: PeerStatistics,
}

/// What the thread and its handles share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) settings: Mutex<Settings>,
    pub(crate) report: Mutex<Report>,
    /// Nodes and database as of the last heartbeat.
    pub(crate) view: Mutex<View>,
    pub(crate) rates: Arc<Rates>,
    pub(crate) failures: AtomicU64,
    pub(crate) replicated: AtomicU64,
    pub(crate) draining: AtomicBool,
    /// How often this node has done the maintenance for all.
    pub(crate) maintenances: AtomicU64,
    pub(crate) changed: Notify,
    /// The node and its boot, while its lease is renewed.
    pub(crate) registered: Mutex<Option<(Uuid, Boot)>>,
    pub(crate) registration: Notify,
    /// The first attempt to register has failed, or quotas can be leased.
    pub(crate) tried: (std::sync::Mutex<bool>, Condvar),
    pub(crate) peers: PeerState,
    /// A job was created or changed through this node.
    pub(crate) job_work: Notify,
    pub(crate) tokens: Arc<TokenTable>,
    pub(crate) versions: Versions,
    /// A connection for reports, which do not hold up the member.
    pub(crate) reports: tokio::sync::Mutex<Option<Connection>>,
}

impl Shared {
    pub(crate) fn set_tried(&self) {
        let (tried, changed) = &self.tried;
        *tried.lock().unwrap_or_else(PoisonError::into_inner) = true;
        changed.notify_all();
    }
}

impl Membership for Shared {
    fn registered(&self) -> Option<(Uuid, Boot)> {
        *self.registered.lock()
    }

    fn connect(&self) -> Connect {
        self.settings.lock().connect.clone()
    }

    fn overdraft(&self) -> u32 {
        self.settings.lock().quotas.overdraft_in_outage()
    }

    async fn registration(&self) {
        self.registration.notified().await;
    }

    fn answered(&self, result: Result<(), String>) {
        if result.is_ok() {
            self.set_tried();
        }
        self.view.lock().quota_error = result.err();
    }
}

/// The versions of this node.
pub(crate) struct Versions {
    /// What this node has; `None` with own files only.
    pub(crate) state: Mutex<Option<VersionState>>,
    /// Takes what the node is to try, one at a time.
    pub(crate) offers: mpsc::Sender<Offer>,
    /// An offer is being tried.
    pub(crate) is_trying: AtomicBool,
    /// Reads health at each heartbeat.
    pub(crate) health: OnceLock<ReadHealth>,
    /// Rollouts that this node has rolled back.
    pub(crate) failed: AtomicU64,
}

/// Reads the health of this node.
pub type ReadHealth = Box<dyn Fn() -> Health + Send + Sync>;

/// The health of a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Health {
    /// Ready for traffic.
    pub ready: bool,
    /// Responses since the start.
    pub calls: u64,
    /// Responses with a status of 500 and above since the start.
    pub errors: u64,
}

impl std::fmt::Debug for Versions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Versions").field("state", &self.state).finish_non_exhaustive()
    }
}

impl Versions {
    pub(crate) fn new(offers: mpsc::Sender<Offer>) -> Self {
        let (state, is_trying) = (Mutex::default(), AtomicBool::new(false));
        Self { state, offers, is_trying, health: OnceLock::new(), failed: AtomicU64::new(0) }
    }

    /// The version in force.
    pub(crate) fn current(&self) -> Option<i64> {
        self.state.lock().as_ref().and_then(VersionState::current)
    }

    /// What the node reports.
    pub(crate) fn report(&self) -> Option<NodeVersion> {
        let state = self.state.lock().clone()?;
        let Health { ready, calls, errors } =
            self.health.get().map(|read| read()).unwrap_or_default();
        let rejected = state.rejected.as_ref().map(|one| Rejected {
            version: one.attempt.version,
            rollout: one.attempt.rollout,
            reason: one.reason.clone(),
        });
        Some(NodeVersion { version: state.current(), rejected, ready, calls, errors })
    }
}

#[derive(Debug, Default)]
pub(crate) struct View {
    pub(crate) id: Uuid,
    pub(crate) postgres: PostgresStatus,
    pub(crate) synchronous_standby: bool,
    pub(crate) heartbeat: Option<UnixSeconds>,
    pub(crate) offset_ms: i64,
    pub(crate) nodes: Vec<NodeStatus>,
    /// Versions of the configuration, with `source: fleet`.
    pub(crate) versions: Option<FleetVersions>,
    /// Since when configurations differ.
    pub(crate) differing: Option<Instant>,
    /// The id before, if another process had it.
    pub(crate) replaced: Option<Uuid>,
    /// Why quotas cannot be leased.
    pub(crate) quota_error: Option<String>,
    /// There are alerts on usage.
    pub(crate) has_alerts: bool,
    /// Why their events cannot be queued.
    pub(crate) alert_error: Option<String>,
    /// Why the disk of this node keeps something from being copied.
    pub(crate) disk_error: Option<String>,
    /// When all usage was replicated last, or since when some is to be.
    pub(crate) replicated: Option<Instant>,
}

impl View {
    pub(crate) fn drifts(&self) -> bool {
        self.differing.is_some_and(|since| since.elapsed().as_secs() >= DRIFT_SECONDS)
    }

    pub(crate) fn live(&self) -> u64 {
        self.nodes.iter().filter(|node| node.state == NodeState::Live).count() as u64
    }

    pub(crate) fn findings(&self) -> Vec<FleetFinding> {
        let mut found = status::findings(&self.nodes, self.drifts());
        let versions = self.versions.iter();
        found.extend(versions.flat_map(|one| status::version_findings(one, &self.nodes)));
        let mut add = |code: &str, message: String| {
            found.push(FleetFinding { code: code.to_owned(), message });
        };
        if let Some(error) = &self.postgres.error {
            add("postgres-down", format!("this node works on its own: {error}"));
        }
        if !self.postgres.up && self.has_alerts {
            let message = "alerts on usage are not evaluated without the database: this is made up for \
                           when it is back";
            add("alerts-paused", message.to_owned());
        }
        if let Some(error) = &self.alert_error {
            add("alerts-not-queued", format!("events of alerts cannot be queued: {error}"));
        }
        if let Some(error) = &self.disk_error {
            let message = format!(
                "the disk of this node is full or fails; what cannot be written is copied again each second: {error}"
            );
            add("not-stored", message);
        }
        if let (true, Some(error)) = (self.postgres.up, &self.quota_error) {
            add("no-quota-leases", format!("this node cannot lease calls of quotas: {error}"));
        }
        if self.postgres.up && !self.synchronous_standby && self.nodes.len() > 1 {
            let message = "a failover of the database can lose its last commits: \
                           `synchronous_standby_names` is empty";
            add("no-synchronous-standby", message.to_owned());
        }
        if let Some(before) = self.replaced {
            let message = format!(
                "the data folder of this node is a copy of that of node {before}: it is a new node now"
            );
            add("copied-data-folder", message);
        }
        found
    }
}
