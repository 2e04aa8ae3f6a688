//! The member: a thread of the process keeps the node registered, and tells others its state.
//!
//! No request waits for it. While the database is down, everything stays as it was last known.

use crate::collect::{self, CollectError, Collected, Selection};
use crate::database::{Connect, Connection, DatabaseError};
use crate::identity::{Boot, Identity, IdentityError};
use crate::membership::{self, HEARTBEAT, RegistrationError, Report, Retirement};
use crate::peers::{PeerSettings, PeerState, PeerStatistics};
use crate::replicate::{ReplicationError, Replicator};
use crate::slice::{self, Membership, Slices};
use crate::status::{
    self, ConfigurationState, DRIFT_SECONDS, FleetFinding, FleetStatus, NodeState, NodeStatus,
    PostgresStatus,
};
use crate::verify::{UsageVerification, verify};
use crate::{schema, task};
use parking_lot::Mutex;
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::time::timeout;
use uuid::Uuid;
use weir_config::FleetQuotas;
use weir_limit::Limiter;
use weir_model::UnixSeconds;
use weir_monitor::MonitorError;
use weir_monitor::replica::Replica;
use weir_store::{StoreError, clock};

/// Pause between two replications of usage.
const PAUSE: Duration = Duration::from_secs(1);
/// Interval of the work that one node does for all.
const MAINTENANCE: Duration = Duration::from_secs(60 * 60);
/// Most commands that wait.
const MAX_COMMANDS: usize = 8;
/// Time for the last messages of a process that ends.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(1);

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
    /// Requests between nodes; `None`: there are none.
    pub peers: Option<PeerSettings>,
}

impl Settings {
    /// The settings in a configuration; the display name is that of the host, if there is none.
    #[must_use]
    pub fn new(
        fleet: &weir_config::Fleet,
        (tls, peer_tls): (Option<Arc<rustls::ClientConfig>>, Option<Arc<rustls::ClientConfig>>),
        keep: Duration,
    ) -> Self {
        let host = || rustix::system::uname().nodename().to_string_lossy().into_owned();
        Self {
            fleet: fleet.name.clone(),
            name: fleet.node.clone().unwrap_or_else(host),
            connect: Connect { postgres: fleet.postgres.clone(), tls },
            keep,
            quotas: fleet.quotas,
            peers: fleet.peers.as_ref().map(|peers| PeerSettings::new(peers, peer_tls)),
        }
    }
}

/// A command to the member.
#[derive(Debug)]
enum Command {
    Retire { id: Uuid, lost: bool, done: oneshot::Sender<Result<Retirement, String>> },
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
    /// Nodes have had different configurations for more than a minute.
    pub drift: bool,
    /// Buckets of usage that were replicated.
    pub replicated: u64,
    /// Time since all usage was replicated that was counted up to then; 0 in the beginning.
    pub usage_lag: Duration,
    /// Requests between nodes.
    pub peers: PeerStatistics,
}

/// What the thread and its handles share.
#[derive(Debug)]
struct Shared {
    settings: Mutex<Settings>,
    report: Mutex<Report>,
    /// Nodes and database as of the last heartbeat.
    view: Mutex<View>,
    failures: AtomicU64,
    replicated: AtomicU64,
    draining: AtomicBool,
    changed: Notify,
    /// The node and its boot, while its lease is renewed.
    registered: Mutex<Option<(Uuid, Boot)>>,
    registration: Notify,
    /// The first attempt to register has failed, or quotas can be leased.
    tried: (std::sync::Mutex<bool>, Condvar),
    peers: PeerState,
    /// A connection for reports, which do not hold up the member.
    reports: tokio::sync::Mutex<Option<Connection>>,
}

impl Shared {
    fn set_tried(&self) {
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

#[derive(Debug, Default)]
struct View {
    id: Uuid,
    postgres: PostgresStatus,
    synchronous_standby: bool,
    heartbeat: Option<UnixSeconds>,
    offset_ms: i64,
    nodes: Vec<NodeStatus>,
    /// Since when configurations differ.
    differing: Option<Instant>,
    /// The id before, if another process had it.
    replaced: Option<Uuid>,
    /// Why quotas cannot be leased.
    quota_error: Option<String>,
    /// When all usage was replicated last, or since when some is to be.
    replicated: Option<Instant>,
}

impl View {
    fn drifts(&self) -> bool {
        self.differing.is_some_and(|since| since.elapsed().as_secs() >= DRIFT_SECONDS)
    }

    fn live(&self) -> u64 {
        self.nodes.iter().filter(|node| node.state == NodeState::Live).count() as u64
    }

    fn findings(&self) -> Vec<FleetFinding> {
        let mut found = status::findings(&self.nodes, self.drifts());
        let mut add = |code: &str, message: String| {
            found.push(FleetFinding { code: code.to_owned(), message });
        };
        if let Some(error) = &self.postgres.error {
            add("postgres-down", format!("this node works on its own: {error}"));
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

/// Access to a member from other threads.
#[derive(Clone, Debug)]
pub struct Handle {
    shared: Arc<Shared>,
    commands: mpsc::Sender<Command>,
}

/// Why a command was not executed.
#[derive(Debug, thiserror::Error)]
pub enum CommandError {
    /// Too many commands wait, or the process ends.
    #[error("the fleet is busy; try again")]
    Busy,
    /// The database failed.
    #[error("{0}")]
    Failed(String),
}

impl Handle {
    /// The state of the fleet as of the last heartbeat.
    #[must_use]
    pub fn status(&self) -> FleetStatus {
        let view = self.shared.view.lock();
        FleetStatus {
            fleet: self.shared.settings.lock().fleet.clone(),
            node: view.id.to_string(),
            postgres: view.postgres.clone(),
            heartbeat: view.heartbeat,
            nodes: view.nodes.clone(),
            findings: view.findings(),
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
            drift: view.drifts(),
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

    /// Sets how the next connection is made.
    pub fn configure(&self, settings: Settings) {
        *self.shared.settings.lock() = settings;
    }

    /// Reports from now on that the node ends.
    pub fn drain(&self) {
        self.shared.draining.store(true, Ordering::Relaxed);
        self.shared.changed.notify_one();
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
        let node = self.shared.view.lock().id;
        self.report_on(async |connection| verify(connection, &replica, node, period).await).await
    }

    /// Runs a report on the connection for reports.
    async fn report_on<T>(
        &self,
        report: impl AsyncFnOnce(&Connection) -> Result<T, CollectError>,
    ) -> Result<T, CollectError> {
        let mut idle = self.shared.reports.lock().await;
        let connection = match idle.take().filter(|connection| !connection.is_closed()) {
            Some(connection) => connection,
            None => {
                let connect = self.shared.settings.lock().connect.clone();
                Connection::open(&connect).await?
            }
        };
        let reported = report(&connection).await?;
        // A connection whose statement has failed or timed out is not used again.
        *idle = Some(connection);
        Ok(reported)
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

/// What a member needs of the process that runs it.
pub trait Host {
    /// Whether the member is to end.
    fn stopped(&self) -> bool;
    /// Writes a message.
    fn note(&mut self, text: &str);
    /// Writes a message about a failure: once, until the next success.
    fn failed(&mut self, text: &str);
    /// The failure is over.
    fn succeeded(&mut self);
}

/// A registered connection.
struct Session {
    connection: Connection,
    boot: Boot,
}

/// The member, to be run by a thread.
pub struct Member {
    shared: Arc<Shared>,
    commands: mpsc::Receiver<Command>,
    identity: Identity,
    session: Option<Session>,
    replicator: Replicator,
    limiter: Arc<Limiter>,
    heartbeat: Option<Instant>,
    maintained: Option<Instant>,
}

/// Why a member cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The identity cannot be read or written.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// The counts cannot be opened.
    #[error(transparent)]
    Counts(#[from] StoreError),
}

/// Why a step of a member has failed.
#[derive(Debug, thiserror::Error)]
enum StepError {
    #[error(transparent)]
    Registration(#[from] RegistrationError),
    #[error(transparent)]
    Replication(#[from] ReplicationError),
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
    /// Opens the identity of a data folder. Nothing is sent before [`Member::run`].
    ///
    /// # Errors
    /// Identity or counts cannot be read or written.
    pub fn open(
        data: &Path,
        settings: Settings,
        limiter: &Arc<Limiter>,
    ) -> Result<(Self, Handle), OpenError> {
        let replicator = Replicator::new(Replica::open(data)?);
        let identity = Identity::open(data)?;
        let postgres =
            PostgresStatus { at: settings.connect.postgres.shown(), ..PostgresStatus::default() };
        let view = View { id: identity.id(), postgres, ..View::default() };
        let shared = Arc::new(Shared {
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
            changed: Notify::new(),
            peers: PeerState::default(),
        });
        let (sender, commands) = mpsc::channel(MAX_COMMANDS);
        let handle = Handle { shared: Arc::clone(&shared), commands: sender };
        let (heartbeat, maintained, session) = (None, None, None);
        let limiter = Arc::clone(limiter);
        let member = Self {
            shared,
            commands,
            identity,
            session,
            replicator,
            limiter,
            heartbeat,
            maintained,
        };
        Ok((member, handle))
    }

    /// Keeps the node registered and answers demands for quotas, until the member is to end.
    pub async fn run(&mut self, host: &mut impl Host) {
        let mut slices = Slices::new(Arc::clone(&self.limiter));
        let shared = Arc::clone(&self.shared);
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
            tokio::select! {
                () = tokio::time::sleep(PAUSE) => {}
                () = self.shared.changed.notified() => self.heartbeat = None,
            }
            while let Ok(command) = self.commands.try_recv() {
                self.execute(command).await;
            }
        }
        *self.shared.registered.lock() = None;
        if let Some(Session { mut connection, boot }) = self.session.take() {
            let id = self.identity.id();
            // The last counts; without a response the next start sends them, and the lease ends by itself.
            let _ = timeout(RELEASE_TIMEOUT, self.replicator.step(&mut connection, id, boot)).await;
            let _ = timeout(RELEASE_TIMEOUT, membership::release(&connection, id, boot)).await;
        }
    }

    /// Divides rates among the nodes that serve.
    fn share_rates(&self, live: u64) {
        let live = u32::try_from(live).unwrap_or(u32::MAX);
        self.limiter.set_nodes(live, self.limiter.now());
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
        }
        let (id, connection) = (self.identity.id(), &mut session.connection);
        let progress = self.replicator.step(connection, id, session.boot).await?;
        self.shared.replicated.fetch_add(progress.sent, Ordering::Relaxed);
        if progress.complete {
            self.shared.view.lock().replicated = Some(Instant::now());
        }
        if self.maintained.is_none_or(|at| at.elapsed() >= MAINTENANCE) {
            self.maintain(&mut session).await?;
        }
        self.session = Some(session);
        Ok(())
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
        let live = nodes.iter().filter(|node| node.state == NodeState::Live).count() as u64;
        // One that drains is not among them, and still enforces its share.
        let live = live.max(1);
        self.share_rates(live);
        self.replicator.replica().set_live_nodes(live)?;
        self.publish(&session.connection, heartbeat.offset_ms, nodes);
        Ok(true)
    }

    /// Work that one node does for all.
    async fn maintain(&mut self, session: &mut Session) -> Result<(), StepError> {
        let keep = self.shared.settings.lock().keep;
        let id = self.identity.id();
        let epoch = task::claim(&session.connection, "maintenance", id, session.boot).await?;
        if epoch.is_some() {
            task::drop_old_usage(&mut session.connection, keep).await?;
            slice::delete_old(&session.connection).await?;
        }
        self.maintained = Some(Instant::now());
        Ok(())
    }

    fn current_report(&self) -> Report {
        let offset_ms = self.shared.view.lock().offset_ms;
        let draining = self.shared.draining.load(Ordering::Relaxed);
        let peers = self.shared.settings.lock().peers.clone();
        let advertise = peers.map(|peers| peers.advertise).unwrap_or_default();
        Report { offset_ms, draining, advertise, ..self.shared.report.lock().clone() }
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
        Ok(Session { connection, boot: registration.boot })
    }

    fn publish(&self, connection: &Connection, offset_ms: i64, nodes: Vec<NodeStatus>) {
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
        view.differing = match (status::differs(&nodes), view.differing) {
            (false, _) => None,
            (true, since) => since.or_else(|| Some(Instant::now())),
        };
        view.nodes = nodes;
    }

    async fn execute(&mut self, command: Command) {
        let Command::Retire { id, lost, done } = command;
        let result = match &self.session {
            Some(session) => membership::retire(&session.connection, id, lost).await,
            None => Err(DatabaseError::Connect("this node is not connected".to_owned())),
        };
        // The client may have disconnected.
        let _ = done.send(result.map_err(|error| error.to_string()));
    }
}
