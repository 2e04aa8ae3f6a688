//! The member: a thread of the process keeps the node registered, and tells others its state.
//!
//! No request waits for it. While the database is down, everything stays as it was last known.

use crate::alerts::{AlertError, Alerts};
use crate::claim::{self, Blocker, Claim, JobClaim};
use crate::copiers::{CopierError, Copiers};
use crate::copy_error::CopyError;
use crate::database::{Connection, DatabaseError};
use crate::handle::{Command, Handle};
use crate::host::Host;
use crate::identity::{Boot, Identity, IdentityError};
use crate::member_state::{Settings, Shared, Versions, View};
use crate::membership::{self, HEARTBEAT, RegistrationError, Report};
use crate::peers::PeerState;
use crate::rates::Rates;
use crate::replicate::{ReplicationError, Replicator};
use crate::resolutions::NewResolution;
use crate::rollout::{Offer, driver};
use crate::slice::{self, Membership, Slices};
use crate::status::{self, NodeState, NodeStatus, PostgresStatus};
use crate::tokens::{TokenCopyError, TokenTable};
use crate::unreplicated::Unreplicated;
use crate::versions::{FleetVersions, Rollout, shown};
use crate::{audit, jobs, resolutions, schema, task};
use parking_lot::Mutex;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::{Notify, mpsc};
use tokio::time::timeout;
use weir_limit::Limiter;
use weir_model::{UnixMicros, UnixSeconds};
use weir_monitor::replica::Replica;
use weir_monitor::{Monitor, MonitorError};
use weir_store::audit::AuditEvent;
use weir_store::revoked_keys::RevokedKeys;
use weir_store::{StoreError, clock};

/// Pause between two replications of usage.
const PAUSE: Duration = Duration::from_secs(1);
/// Interval of the work that one node does for all.
const MAINTENANCE: Duration = Duration::from_secs(60 * 60);
/// Most commands that wait.
const MAX_COMMANDS: usize = 8;
/// Time for the last messages of a process that ends.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(1);

/// A registered connection.
struct Session {
    connection: Connection,
    boot: Boot,
    since: Instant,
}

/// The member, to be run by a thread.
pub struct Member {
    shared: Arc<Shared>,
    commands: mpsc::Receiver<Command>,
    identity: Identity,
    session: Option<Session>,
    replicator: Replicator,
    limiter: Arc<Limiter>,
    /// Outlives a panic of the member.
    slices: Arc<tokio::sync::Mutex<Slices>>,
    copiers: Copiers,
    alerts: Alerts,
    heartbeat: Option<Instant>,
    maintained: Option<Instant>,
}

/// Why a member cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The identity cannot be read or written.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// The database of the node cannot be opened.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The copy of the admin tokens cannot be read.
    #[error("the copy of the admin tokens of the fleet cannot be read: {0}")]
    Tokens(std::io::Error),
}

/// Why a step of a member has failed.
#[derive(Debug, thiserror::Error)]
enum StepError {
    #[error(transparent)]
    Registration(#[from] RegistrationError),
    #[error(transparent)]
    Replication(#[from] ReplicationError),
    #[error(transparent)]
    Copiers(#[from] CopierError),
    #[error(transparent)]
    Alerts(#[from] AlertError),
}

impl StepError {
    /// Whether the disk of this node is the reason, not the database of the fleet.
    fn is_local(&self) -> bool {
        matches!(
            self,
            Self::Replication(ReplicationError::Counts(_))
                | Self::Copiers(
                    CopierError::Copy(CopyError::Store(_))
                        | CopierError::Tokens(TokenCopyError::Io(_))
                )
        )
    }
}

/// The text of an error of the disk of this node; other errors are returned.
fn local_error(result: Result<(), StepError>) -> Result<Option<String>, StepError> {
    match result {
        Ok(()) => Ok(None),
        Err(error) if error.is_local() => Ok(Some(error.to_string())),
        Err(error) => Err(error),
    }
}

impl From<DatabaseError> for StepError {
    fn from(error: DatabaseError) -> Self {
        Self::Registration(error.into())
    }
}

impl From<MonitorError> for StepError {
    fn from(error: MonitorError) -> Self {
        Self::Replication(error.into())
    }
}

impl Member {
    /// Opens the identity of a data folder, whose calls `monitor` counts and which rejects `revoked_keys`. Nothing
    /// is sent before
    /// [`Member::run`]. The receiver gets the versions of the configuration that the node is to try.
    ///
    /// # Errors
    /// The identity or the database of the node cannot be read or written.
    pub fn open(
        data: &Path,
        settings: Settings,
        limiter: &Arc<Limiter>,
        monitor: Option<Monitor>,
        revoked_keys: Arc<RevokedKeys>,
    ) -> Result<(Self, Handle, mpsc::Receiver<Offer>), OpenError> {
        let replicator = Replicator::new(Replica::open(data)?, Unreplicated::new(monitor));
        let alerts = Alerts::open(data)?;
        let tokens = Arc::new(TokenTable::open(data).map_err(OpenError::Tokens)?);
        let copiers = Copiers::open(data, Arc::clone(&tokens), revoked_keys)?;
        let identity = Identity::open(data)?;
        let postgres =
            PostgresStatus { at: settings.connect.postgres.shown(), ..PostgresStatus::default() };
        let has_alerts = !settings.alerts.is_empty();
        let view = View { id: identity.id(), postgres, has_alerts, ..View::default() };
        let (offers, offered) = mpsc::channel(1);
        let shared = Arc::new(Shared {
            rates: Arc::new(Rates::new(settings.rates.clone(), limiter)),
            report: Mutex::new(Report { name: settings.name.clone(), ..Report::default() }),
            settings: Mutex::new(settings),
            view: Mutex::new(view),
            failures: AtomicU64::new(0),
            replicated: AtomicU64::new(0),
            registered: Mutex::default(),
            registration: Notify::new(),
            tried: Default::default(),
            reports: tokio::sync::Mutex::default(),
            draining: AtomicBool::new(false),
            maintenances: AtomicU64::new(0),
            changed: Notify::new(),
            peers: PeerState::default(),
            job_work: Notify::new(),
            tokens,
            versions: Versions::new(offers),
        });
        let (sender, commands) = mpsc::channel(MAX_COMMANDS);
        let handle = Handle { shared: Arc::clone(&shared), commands: sender };
        let (heartbeat, maintained, session) = (None, None, None);
        let limiter = Arc::clone(limiter);
        let slices = Slices::open(data, Arc::clone(&limiter))?;
        let slices = Arc::new(tokio::sync::Mutex::new(slices));
        let member = Self {
            shared,
            commands,
            identity,
            session,
            replicator,
            limiter,
            slices,
            copiers,
            alerts,
            heartbeat,
            maintained,
        };
        Ok((member, handle, offered))
    }

    /// Keeps the node registered and answers demands for quotas, until the member is to end.
    pub async fn run(&mut self, host: &mut impl Host) {
        let (slices, shared) = (Arc::clone(&self.slices), Arc::clone(&self.shared));
        let mut slices = slices.lock().await;
        tokio::select! {
            () = self.keep_registered(host) => {}
            () = slices.run(&*shared) => {}
        }
        // Requests that are still in flight do not wait for anybody.
        self.limiter.quota_outage(shared.overdraft());
    }

    async fn keep_registered(&mut self, host: &mut impl Host) {
        let live = self.replicator.replica().live_nodes().unwrap_or(1);
        self.share_rates(live);
        while !host.stopped() {
            match self.step(host).await {
                Ok(()) => host.succeeded(),
                Err(error) => {
                    self.fail(&error);
                    host.failed(&format!("fleet: {error}"));
                    self.shared.set_tried();
                }
            }
            self.pause().await;
        }
        *self.shared.registered.lock() = None;
        if let Some(Session { mut connection, boot, .. }) = self.session.take() {
            let id = self.identity.id();
            // The last counts; without a response the next start sends them, and the lease ends by itself.
            let _ = timeout(RELEASE_TIMEOUT, self.replicator.step(&mut connection, id, boot)).await;
            let unreplicated = self.replicator.unreplicated();
            let _ =
                timeout(RELEASE_TIMEOUT, membership::release(&connection, id, boot, unreplicated))
                    .await;
        }
    }

    /// Divides rates among the nodes that serve.
    fn share_rates(&self, live: u64) {
        let live = u32::try_from(live).unwrap_or(u32::MAX);
        self.limiter.set_nodes(live, self.limiter.now());
    }

    /// Waits until the next step, and executes commands.
    async fn pause(&mut self) {
        let mut pause = std::pin::pin!(tokio::time::sleep(PAUSE));
        let shared = Arc::clone(&self.shared);
        loop {
            tokio::select! {
                () = &mut pause => return,
                () = shared.changed.notified() => return self.heartbeat = None,
                Some(command) = self.commands.recv() => self.execute(command).await,
            }
        }
    }

    /// Discards the connection, after a panic.
    pub fn recover(&mut self) {
        self.session = None;
    }

    fn fail(&mut self, error: &StepError) {
        self.session = None;
        self.heartbeat = None;
        *self.shared.registered.lock() = None;
        self.shared.failures.fetch_add(1, Ordering::Relaxed);
        let mut view = self.shared.view.lock();
        view.postgres = PostgresStatus {
            up: false,
            error: Some(error.to_string()),
            ..std::mem::take(&mut view.postgres)
        };
    }

    /// Connects and registers if that is necessary, renews the lease, and replicates usage.
    async fn step(&mut self, host: &mut impl Host) -> Result<(), StepError> {
        let mut session = match self.session.take().filter(|one| !one.connection.is_closed()) {
            Some(session) => session,
            None => self.connect(host).await?,
        };
        if self.heartbeat.is_none_or(|at| at.elapsed() >= HEARTBEAT) {
            let began = Instant::now();
            if !self.renew(&session).await? {
                // Another process has made a boot of this identity: the next step registers again.
                self.shared.changed.notify_one();
                return Ok(());
            }
            self.heartbeat = Some(began);
            self.evaluate_alerts(&mut session).await?;
        }
        self.copy(&mut session).await?;
        if self.maintained.is_none_or(|at| at.elapsed() >= MAINTENANCE) {
            self.maintain(&mut session).await?;
        }
        self.session = Some(session);
        Ok(())
    }

    /// Replicates usage, and copies the rest that has changed. A disk that is full or fails ends none of it
    /// but what is written there, and is no reason to leave the fleet: the next step does it again.
    async fn copy(&mut self, session: &mut Session) -> Result<(), StepError> {
        let (id, boot, connection) = (self.identity.id(), session.boot, &mut session.connection);
        let keys = self.copiers.copy_revoked_keys(connection).await.map_err(StepError::from);
        let mut error = local_error(keys)?;
        match self.replicator.step(connection, id, boot).await.map_err(StepError::from) {
            Ok(progress) => {
                self.shared.replicated.fetch_add(progress.sent, Ordering::Relaxed);
                if progress.complete {
                    self.shared.view.lock().replicated = Some(Instant::now());
                }
            }
            Err(failed) => {
                error = error.or(local_error(Err(failed))?);
                self.replicator.forget();
            }
        }
        let rest = self.copiers.step(connection, id, boot).await.map_err(StepError::from);
        error = error.or(local_error(rest)?);
        if error.is_some() {
            self.copiers.connected();
        }
        self.shared.view.lock().disk_error = error;
        Ok(())
    }

    /// Evaluates alerts, if this node is the one that does so for all.
    async fn evaluate_alerts(&mut self, session: &mut Session) -> Result<(), StepError> {
        let (fleet, alerts) = {
            let settings = self.shared.settings.lock();
            (settings.fleet.clone(), settings.alerts.clone())
        };
        let place = (self.identity.id(), session.boot);
        let result = self.alerts.step(&mut session.connection, place, &fleet, &alerts).await;
        // A full disk here is no reason to leave the fleet.
        let (error, result) = match result {
            Err(AlertError::Queue(error)) => (Some(error.to_string()), Ok(())),
            other => (None, other),
        };
        self.shared.view.lock().alert_error = error;
        Ok(result?)
    }

    /// Renews the lease; false if another process has the identity.
    async fn renew(&mut self, session: &Session) -> Result<bool, StepError> {
        let (report, id) = (self.current_report(), self.identity.id());
        let heartbeat =
            membership::heartbeat(&session.connection, id, session.boot, &report).await?;
        let Some(heartbeat) = heartbeat else {
            *self.shared.registered.lock() = None;
            return Ok(false);
        };
        let place = Some((id, session.boot));
        if std::mem::replace(&mut *self.shared.registered.lock(), place) != place {
            self.shared.registration.notify_one();
        }
        let nodes = membership::nodes(&session.connection).await?;
        let versions = self.follow_versions(session, &nodes).await?;
        let live = nodes.iter().filter(|node| node.state == NodeState::Live).count() as u64;
        // One that drains is not among them, and still enforces its share.
        let live = live.max(1);
        self.share_rates(live);
        let stored = self.replicator.replica().set_live_nodes(live);
        let unstored = local_error(stored.map_err(StepError::from))?;
        self.publish(&session.connection, heartbeat.offset_ms, (nodes, versions));
        if unstored.is_some() {
            self.shared.view.lock().disk_error = unstored;
        }
        Ok(true)
    }

    /// Reads the versions of the configuration, drives a rollout if no other node does, and offers this node
    /// the one it is to have; `None` with own files only.
    async fn follow_versions(
        &self,
        session: &Session,
        nodes: &[NodeStatus],
    ) -> Result<Option<FleetVersions>, StepError> {
        let Some(stage) = self.shared.settings.lock().stage else { return Ok(None) };
        let (connection, id) = (&session.connection, self.identity.id());
        let watched = session.since.elapsed();
        let driver::Progress { versions, failed } =
            driver::step(connection, (id, session.boot), nodes, (stage, watched)).await?;
        if let Some(rollout) = failed {
            self.shared.versions.failed.fetch_add(1, Ordering::Relaxed);
            self.copiers.record(&rolled_back(&rollout)).map_err(CopierError::from)?;
        }
        let mine = &self.shared.versions;
        let Some(report) = mine.report() else { return Ok(Some(versions)) };
        if !mine.is_trying.load(Ordering::Acquire)
            && let Some(offer) = driver::offer(connection, id, &versions, &report).await?
        {
            // What is not received is offered again by the next heartbeat.
            mine.is_trying.store(true, Ordering::Release);
            if mine.offers.try_send(offer).is_err() {
                mine.is_trying.store(false, Ordering::Release);
            }
        }
        Ok(Some(versions))
    }

    /// Work that one node does for all.
    async fn maintain(&mut self, session: &mut Session) -> Result<(), StepError> {
        let keep = self.shared.settings.lock().keep;
        let id = self.identity.id();
        let epoch = task::claim(&session.connection, "maintenance", id, session.boot).await?;
        if epoch.is_some() {
            task::drop_old_usage(&mut session.connection, keep).await?;
            slice::delete_old(&session.connection).await?;
            claim::purge(&session.connection, keep).await?;
            audit::purge(&session.connection).await?;
            jobs::purge(&session.connection, keep).await?;
            self.shared.maintenances.fetch_add(1, Ordering::Relaxed);
        }
        self.maintained = Some(Instant::now());
        Ok(())
    }

    fn current_report(&mut self) -> Report {
        let offset_ms = self.shared.view.lock().offset_ms;
        let unreplicated = self.replicator.unreplicated();
        let draining = self.shared.draining.load(Ordering::Relaxed);
        let peers = self.shared.settings.lock().peers.clone();
        let advertise = peers.map(|peers| peers.advertise).unwrap_or_default();
        let in_force = self.shared.versions.report();
        let report = self.shared.report.lock().clone();
        Report { offset_ms, draining, advertise, unreplicated, in_force, ..report }
    }

    async fn connect(&mut self, host: &mut impl Host) -> Result<Session, StepError> {
        let settings = self.shared.settings.lock().clone();
        let mut connection = Connection::open(&settings.connect).await?;
        schema::migrate(&mut connection, &settings.fleet).await?;
        let report = self.current_report();
        let registration = membership::register(&connection, &mut self.identity, &report).await?;
        if let Some(before) = registration.replaced {
            host.note(&format!(
                "fleet: another process has the identity {before}: this data folder is a copy of its \
                 folder, and is the new node {} from now on",
                self.identity.id()
            ));
            self.shared.view.lock().replaced = Some(before);
        }
        self.replicator.connected(self.identity.id())?;
        self.copiers.connected();
        Ok(Session { connection, boot: registration.boot, since: Instant::now() })
    }

    fn publish(
        &self,
        connection: &Connection,
        offset_ms: i64,
        (nodes, versions): (Vec<NodeStatus>, Option<FleetVersions>),
    ) {
        let mut view = self.shared.view.lock();
        view.id = self.identity.id();
        view.postgres = PostgresStatus {
            up: true,
            error: None,
            version: connection.server.version.clone(),
            at: std::mem::take(&mut view.postgres.at),
        };
        view.synchronous_standby = connection.server.synchronous_standby;
        view.heartbeat = Some(UnixSeconds(clock::now().as_secs()));
        view.offset_ms = offset_ms;
        let is_rolling = versions.as_ref().is_some_and(FleetVersions::is_rolling);
        view.versions = versions;
        view.differing = match (status::differs(&nodes) && !is_rolling, view.differing) {
            (false, _) => None,
            (true, since) => since.or_else(|| Some(Instant::now())),
        };
        view.nodes = nodes;
    }

    /// Executes a command; whoever waits for the result may have given up.
    async fn execute(&mut self, command: Command) {
        match command {
            Command::Retire { id, lost, done } => {
                let result = match &self.session {
                    Some(session) => membership::retire(&session.connection, id, lost).await,
                    None => Err(not_connected()),
                };
                let _ = done.send(result.map_err(|error| error.to_string()));
            }
            Command::Claim { claims, job, done } => {
                let result = self.claim(&claims, job.as_ref()).await;
                if result.is_err() {
                    // Another connection, and another lease, before the next one.
                    self.session = None;
                }
                let _ = done.send(result.map_err(|error| error.to_string()));
            }
            Command::Resolve { new, done } => {
                let result = self.resolve(&new).await;
                if result.is_err() {
                    self.session = None;
                }
                let _ = done.send(result.map_err(|error| error.to_string()));
            }
            Command::Replicate { done } => {
                let result = self.replicate().await;
                if result.is_err() {
                    self.session = None;
                }
                let _ = done.send(result.map_err(|error| error.to_string()));
            }
            Command::CopyAudit { done } => {
                if let Some(Session { connection, boot, .. }) = &mut self.session
                    && self.copiers.copy_audit(connection, self.identity.id(), *boot).await.is_err()
                {
                    self.session = None;
                }
                let _ = done.send(());
            }
        }
    }

    async fn claim(
        &mut self,
        claims: &[Claim],
        job: Option<&JobClaim>,
    ) -> Result<Vec<Option<Blocker>>, DatabaseError> {
        let session = self.session.as_mut().ok_or_else(not_connected)?;
        let place = (self.identity.id(), session.boot);
        claim::claim(&mut session.connection, place, claims, job).await
    }
}

impl Member {
    async fn resolve(&mut self, new: &NewResolution) -> Result<i64, DatabaseError> {
        let session = self.session.as_mut().ok_or_else(not_connected)?;
        let place = (self.identity.id(), session.boot);
        resolutions::set(&mut session.connection, place, new).await
    }

    /// Replicates everything that was counted up to now.
    async fn replicate(&mut self) -> Result<(), ReplicationError> {
        let session = self.session.as_mut().ok_or_else(not_connected)?;
        let (id, connection) = (self.identity.id(), &mut session.connection);
        loop {
            let progress = self.replicator.step(connection, id, session.boot).await?;
            self.shared.replicated.fetch_add(progress.sent, Ordering::Relaxed);
            if progress.complete {
                self.shared.view.lock().replicated = Some(Instant::now());
                return Ok(());
            }
        }
    }
}

fn not_connected() -> DatabaseError {
    DatabaseError::Connect("this node is not connected".to_owned())
}

/// The entry of the audit log about an automatic rollback.
fn rolled_back(rollout: &Rollout) -> AuditEvent {
    let now = clock::now();
    AuditEvent {
        time: UnixMicros(u64::try_from(now.as_micros()).unwrap_or(u64::MAX)),
        name: "fleet".to_owned(),
        action: "roll-back".to_owned(),
        about: "version".to_owned(),
        subject: shown(rollout.base),
        details: format!("instead of {}: {}", shown(rollout.version), rollout.verdict),
        ..AuditEvent::default()
    }
}
