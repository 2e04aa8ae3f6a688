//! Access to a member from other threads.

use crate::audit;
use crate::claim::{Blocker, Claim, JobClaim, MAX_CLAIMS};
use crate::collect::{self, CollectError, Collected, Selection};
use crate::database::{Connection, DatabaseError};
use crate::member_state::{ReadHealth, Settings, Shared, Statistics};
use crate::membership::Retirement;
use crate::peers::{PeerSettings, PeerState};
use crate::rates::RateLeaser;
use crate::resolutions::NewResolution;
use crate::rollout::{self, RolloutAction, RolloutError};
use crate::status::{ConfigurationState, FleetFinding, FleetStatus, NodeStatus};
use crate::tokens::TokenTable;
use crate::verify::{UsageVerification, verify};
use crate::versions::{FleetVersions, Version};
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, PoisonError};
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;
use uuid::Uuid;
use weir_config::versions::{Files, VersionState};
use weir_monitor::MonitorError;
use weir_monitor::replica::Replica;
use weir_store::audit::{AuditEvent, AuditQuery};

/// Longest wait for a claim or a resolution: for a step of the member, and a statement.
const CLAIM_TIMEOUT: Duration = Duration::from_secs(10);
/// Longest wait for the copy of the last audit entries of this node.
const COPY_TIMEOUT: Duration = Duration::from_secs(2);

/// A command to the member.
#[derive(Debug)]
pub(crate) enum Command {
    Retire {
        id: Uuid,
        lost: bool,
        done: oneshot::Sender<Result<Retirement, String>>,
    },
    Claim {
        claims: Vec<Claim>,
        job: Option<JobClaim>,
        done: SyncSender<Result<Vec<Option<Blocker>>, String>>,
    },
    Resolve {
        new: NewResolution,
        done: SyncSender<Result<i64, String>>,
    },
    CopyAudit {
        done: oneshot::Sender<()>,
    },
    Replicate {
        done: oneshot::Sender<Result<(), String>>,
    },
}

/// Access to a member from other threads.
#[derive(Clone, Debug)]
pub struct Handle {
    pub(crate) shared: Arc<Shared>,
    pub(crate) commands: mpsc::Sender<Command>,
}

/// Why a command was not executed.
#[derive(Debug, thiserror::Error)]
pub enum CommandError {
    /// Too many commands wait, or the process ends.
    #[error("the fleet is busy; try again")]
    Busy,
    /// The database did not respond in time.
    #[error("no response of the database within {CLAIM_TIMEOUT:?}")]
    Late,
    /// The database failed.
    #[error("{0}")]
    Failed(String),
}

impl Handle {
    /// The state of the fleet as of the last heartbeat.
    #[must_use]
    pub fn status(&self) -> FleetStatus {
        let outage = self
            .shared
            .rates
            .outage()
            .map(|message| FleetFinding { code: "redis-down".to_owned(), message });
        let view = self.shared.view.lock();
        FleetStatus {
            fleet: self.shared.settings.lock().fleet.clone(),
            node: view.id.to_string(),
            postgres: view.postgres.clone(),
            redis: self.shared.rates.status(),
            heartbeat: view.heartbeat,
            nodes: view.nodes.clone(),
            versions: view.versions.clone(),
            findings: view.findings().into_iter().chain(outage).collect(),
        }
    }

    /// Counters and state.
    #[must_use]
    pub fn statistics(&self) -> Statistics {
        let view = self.shared.view.lock();
        Statistics {
            up: view.postgres.up,
            live: view.live(),
            offset_ms: view.offset_ms,
            failures: self.shared.failures.load(Ordering::Relaxed),
            redis: self.shared.rates.status().map(|redis| redis.up),
            redis_failures: self.shared.rates.failures(),
            drift: view.drifts(),
            version: self.shared.versions.current(),
            rollbacks: self.shared.versions.failed.load(Ordering::Relaxed),
            replicated: self.shared.replicated.load(Ordering::Relaxed),
            usage_lag: view.replicated.map(|at| at.elapsed()).unwrap_or_default(),
            peers: self.shared.peers.statistics(),
        }
    }

    /// Waits until the node is registered, or cannot be at once; at most for `timeout`. Without a
    /// lease of quotas, requests of the first moment would wait.
    pub fn wait_until_tried(&self, timeout: Duration) {
        let (tried, changed) = &self.shared.tried;
        let tried = tried.lock().unwrap_or_else(PoisonError::into_inner);
        // A timeout is no failure: the node serves, too.
        let _ = changed.wait_timeout_while(tried, timeout, |tried| !*tried);
    }

    /// Sets what the node reports about its configuration; the next heartbeat sends it.
    pub fn report(&self, digest: Option<String>, configuration: ConfigurationState) {
        let mut report = self.shared.report.lock();
        if let Some(digest) = digest {
            report.digest = digest;
        }
        report.configuration = configuration;
        drop(report);
        self.shared.changed.notify_one();
    }

    /// Sets how the next connection is made, and how limits are enforced.
    pub fn configure(&self, settings: Settings) {
        self.shared.rates.configure(settings.rates.clone());
        self.shared.view.lock().has_alerts = !settings.alerts.is_empty();
        *self.shared.settings.lock() = settings;
        self.shared.peers.reconnect();
    }

    /// Reports from now on that the node ends.
    pub fn drain(&self) {
        self.shared.draining.store(true, Ordering::Relaxed);
        self.shared.changed.notify_one();
    }

    /// Id and display name of this node. The id changes if the data folder turns out to be a copy.
    #[must_use]
    pub fn node(&self) -> (String, String) {
        let name = self.shared.settings.lock().name.clone();
        (self.shared.view.lock().id.to_string(), name)
    }

    /// How often this node has done the maintenance for all nodes since its start: once more than
    /// before means that it is its turn.
    #[must_use]
    pub fn maintenances(&self) -> u64 {
        self.shared.maintenances.load(Ordering::Relaxed)
    }

    /// Replicates all usage that was counted up to now; the caller limits the time.
    ///
    /// # Errors
    /// The database cannot be used.
    pub async fn replicate(&self) -> Result<(), CommandError> {
        let (done, result) = oneshot::channel();
        self.commands.try_send(Command::Replicate { done }).map_err(|_| CommandError::Busy)?;
        result.await.map_err(|_| CommandError::Busy)?.map_err(CommandError::Failed)
    }

    /// What leases tokens from Redis, to be run by a thread of its own; `None` without Redis.
    #[must_use]
    pub fn rate_leaser(&self) -> Option<RateLeaser> {
        let rates = &self.shared.rates;
        rates.has_redis().then(|| RateLeaser::new(rates))
    }

    /// Sets the versions that this node has, at the start and after each attempt; the next heartbeat reports
    /// them.
    pub fn report_versions(&self, state: VersionState) {
        let mine = &self.shared.versions;
        *mine.state.lock() = Some(state);
        mine.is_trying.store(false, Ordering::Release);
        self.shared.changed.notify_one();
    }

    /// Sets what reads the health of this node at each heartbeat; once.
    pub fn observe(&self, health: ReadHealth) {
        // Nobody sets another one.
        let _ = self.shared.versions.health.set(health);
    }

    /// Whether this node takes versions of the configuration.
    #[must_use]
    pub fn takes_versions(&self) -> bool {
        self.shared.settings.lock().stage.is_some()
    }

    /// Whether this node has no version although there may be one: the database was not read yet, or the
    /// fleet has one. Such a node serves its own file alone.
    #[must_use]
    pub fn lacks_version(&self) -> bool {
        let is_demanded = |versions: &FleetVersions| versions.version.is_some();
        self.takes_versions()
            && self.shared.versions.current().is_none()
            && self.shared.view.lock().versions.as_ref().is_none_or(is_demanded)
    }

    /// All versions of the configuration, the latest first.
    ///
    /// # Errors
    /// The database cannot be used.
    pub async fn versions(&self) -> Result<Vec<Version>, DatabaseError> {
        self.report_on(async |connection: &mut Connection| rollout::versions(connection).await)
            .await
    }

    /// Stores a version by a named person, with a comment; returns its number.
    ///
    /// # Errors
    /// [`RolloutError`].
    pub async fn push(&self, files: &Files, by: &str, comment: &str) -> Result<i64, RolloutError> {
        let push = async |connection: &mut Connection| {
            rollout::push(connection, files, (by, comment)).await
        };
        self.report_on(push).await
    }

    /// Starts a rollout of a version.
    ///
    /// # Errors
    /// [`RolloutError`].
    pub async fn start_rollout(&self, version: i64, by: &str) -> Result<(), RolloutError> {
        let (node, _, nodes) = self.membership();
        let start = async |connection: &mut Connection| {
            rollout::start(connection, version, by, node, &nodes).await
        };
        self.report_on(start).await?;
        self.wake();
        Ok(())
    }

    /// Changes the active rollout.
    ///
    /// # Errors
    /// [`RolloutError`].
    pub async fn act_on_rollout(
        &self,
        action: RolloutAction,
        by: &str,
    ) -> Result<(), RolloutError> {
        self.report_on(async |connection: &mut Connection| {
            rollout::act(connection, action, by).await
        })
        .await?;
        self.wake();
        Ok(())
    }

    /// Makes a version that of all nodes at once: this one, or the one before. Returns it; `None`: the own
    /// files alone.
    ///
    /// # Errors
    /// [`RolloutError`].
    pub async fn roll_back(
        &self,
        version: Option<i64>,
        by: &str,
    ) -> Result<Option<i64>, RolloutError> {
        let roll_back =
            async |connection: &mut Connection| rollout::roll_back(connection, version, by).await;
        let version = self.report_on(roll_back).await?;
        self.wake();
        Ok(version)
    }

    /// The versions of the fleet and the latest rollout, from the database.
    ///
    /// # Errors
    /// The database cannot be used.
    pub async fn rollout(&self) -> Result<FleetVersions, DatabaseError> {
        let (_, _, nodes) = self.membership();
        let read = async |connection: &mut Connection| rollout::current(connection, &nodes).await;
        self.report_on(read).await.map(|(versions, _)| versions)
    }

    /// Ends a pause of the member.
    pub fn wake(&self) {
        self.shared.changed.notify_one();
    }

    /// Id and name of this node, and all nodes as of the last heartbeat.
    pub(crate) fn membership(&self) -> (Uuid, String, Vec<NodeStatus>) {
        let name = self.shared.settings.lock().name.clone();
        let view = self.shared.view.lock();
        (view.id, name, view.nodes.clone())
    }

    pub(crate) fn peer_settings(&self) -> Option<PeerSettings> {
        self.shared.settings.lock().peers.clone()
    }

    pub(crate) fn peer_state(&self) -> &PeerState {
        &self.shared.peers
    }

    /// Collects the usage of the fleet from the database.
    ///
    /// # Errors
    /// [`CollectError`].
    pub async fn collect(&self, selection: &Selection) -> Result<Collected, CollectError> {
        self.report_on(async |connection| collect::collect(connection, selection).await).await
    }

    /// Compares the usage of this node, whose counts are in `data`, with the database; the period is in
    /// seconds since 1970.
    ///
    /// # Errors
    /// [`CollectError`].
    pub async fn verify(
        &self,
        data: &Path,
        period: &Range<u64>,
    ) -> Result<UsageVerification, CollectError> {
        let replica = Replica::open(data).map_err(MonitorError::from)?;
        let (id, name, _) = self.membership();
        self.report_on(async |connection| verify(connection, &replica, (id, name), period).await)
            .await
    }

    /// The latest audit entries that match, of all nodes or the one with this name or id: those of this
    /// node up to now, if it is connected, and those of others up to a second ago.
    ///
    /// # Errors
    /// The database cannot be used.
    pub async fn audit(
        &self,
        limit: usize,
        query: &AuditQuery,
        node: Option<&str>,
    ) -> Result<Vec<AuditEvent>, DatabaseError> {
        let (done, copied) = oneshot::channel();
        if self.commands.try_send(Command::CopyAudit { done }).is_ok() {
            // Without it, the last entries are missing.
            let _ = timeout(COPY_TIMEOUT, copied).await;
        }
        self.report_on(async |connection| audit::latest(connection, limit, query, node).await).await
    }

    /// The admin tokens of all nodes.
    #[must_use]
    pub fn tokens(&self) -> &Arc<TokenTable> {
        &self.shared.tokens
    }

    /// Runs a report on the connection for reports.
    pub(crate) async fn report_on<T, E: From<DatabaseError>>(
        &self,
        report: impl AsyncFnOnce(&mut Connection) -> Result<T, E>,
    ) -> Result<T, E> {
        let mut idle = self.shared.reports.lock().await;
        let mut connection = match idle.take().filter(|connection| !connection.is_closed()) {
            Some(connection) => connection,
            None => {
                let connect = self.shared.settings.lock().connect.clone();
                Connection::open(&connect).await?
            }
        };
        let reported = report(&mut connection).await?;
        // A connection whose statement has failed or timed out is not used again.
        *idle = Some(connection);
        Ok(reported)
    }

    /// Claims attempts to send transactions again, at most [`MAX_CLAIMS`], for a job of the fleet or an
    /// operator, and waits for the result on the thread of the caller: an element for each, `None` if it is granted. The node must have recorded
    /// them as `sending` before, and records otherwise what is not granted or fails.
    ///
    /// # Errors
    /// The database cannot be used, or did not respond in time.
    pub fn claim(
        &self,
        claims: Vec<Claim>,
        job: Option<JobClaim>,
    ) -> Result<Vec<Option<Blocker>>, CommandError> {
        if claims.len() > MAX_CLAIMS {
            return Err(CommandError::Busy);
        }
        let (done, result) = std::sync::mpsc::sync_channel(1);
        let command = Command::Claim { claims, job, done };
        self.commands.try_send(command).map_err(|_| CommandError::Busy)?;
        let result = result.recv_timeout(CLAIM_TIMEOUT);
        result.map_err(|_| CommandError::Late)?.map_err(CommandError::Failed)
    }

    /// Sets the resolution of a transaction in the database, and waits for its revision on the thread of the
    /// caller. Every node copies it from there.
    ///
    /// # Errors
    /// The database cannot be used, or did not respond in time: it may be set nevertheless.
    pub fn resolve(&self, new: NewResolution) -> Result<i64, CommandError> {
        let (done, result) = std::sync::mpsc::sync_channel(1);
        let command = Command::Resolve { new, done };
        self.commands.try_send(command).map_err(|_| CommandError::Busy)?;
        let result = result.recv_timeout(CLAIM_TIMEOUT);
        result.map_err(|_| CommandError::Late)?.map_err(CommandError::Failed)
    }

    /// Retires a node.
    ///
    /// # Errors
    /// The database cannot be used.
    pub async fn retire(&self, id: Uuid, lost: bool) -> Result<Retirement, CommandError> {
        let (done, result) = oneshot::channel();
        let command = Command::Retire { id, lost, done };
        self.commands.try_send(command).map_err(|_| CommandError::Busy)?;
        self.wake();
        result.await.map_err(|_| CommandError::Busy)?.map_err(CommandError::Failed)
    }
}
