//! The gateway: bind, start, hot reload, drain.

mod listeners;
#[cfg(test)]
mod tests;

use crate::injection::{self, Injected, PendingReplay, TestOutcome, TestRequest};
use crate::io::Io;
use crate::server::{self, Accepting, TableUnshare, unshares};
use crate::snapshot::Snapshot;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, watch};
use weir_auth::{AuthCounters, RevokedKeys};
use weir_broker::{Log, PoolSnapshot};
use weir_config::Config;
use weir_gateway::Compiled;
use weir_gateway::explain::Explainer;
use weir_gateway::explanation::Explanation;
use weir_record::capture;

use listeners::Listeners;
use weir_gateway::request_text::{RequestText, RequestTextError};
use weir_gateway::site::{Site, SiteError};
use weir_gateway::worker::{Control, Phase, Shared, Worker};
use weir_journal::Lane;
use weir_limit::{LimitStatuses, Limiter};
use weir_model::{OnDone, RejectionReason, ReplayRequest};
use weir_net::listen::{self, BindError, Listening};
use weir_net::passed::{Passed, PassedSockets};
use weir_telemetry::spans::TracedRequest;
use weir_telemetry::stats::WorkerStats;

/// Why the gateway cannot start, or cannot adopt a Config.
#[derive(Debug, thiserror::Error)]
pub enum GatewayError {
    /// An address cannot be bound.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// A Config cannot be compiled.
    #[error(transparent)]
    Site(#[from] SiteError),
    /// A thread cannot be started.
    #[error("cannot start a thread: {0}")]
    Thread(#[from] io::Error),
    /// `io: ring` is configured, and not possible.
    #[error("cannot use io_uring, which `io: ring` requires: {0}")]
    Ring(io::Error),
    /// The key for hashes of bodies cannot be read or created.
    #[error("cannot open the hash key in {}: {source}", folder.display())]
    HashKey {
        /// The data folder.
        folder: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// Every socket is bound; nothing is served yet.
pub struct Bound {
    /// In the order of the Config.
    listeners: Vec<Listening>,
    addrs: Vec<SocketAddr>,
    limiter: Arc<Limiter>,
    revoked_keys: RevokedKeys,
    log: Log,
}

/// A running gateway.
pub struct Gateway {
    control: watch::Sender<Control>,
    workers: Mutex<Vec<JoinHandle<()>>>,
    stats: Vec<(Arc<WorkerStats>, Arc<AuthCounters>)>,
    shared: Arc<Shared>,
    /// The injection channel of each worker, and the index to start with next time.
    injectors: Vec<mpsc::Sender<Injected>>,
    next_injector: AtomicUsize,
    /// Set by the first request to explain.
    explainer: OnceLock<Explainer>,
    /// Listening sockets that are open.
    accepting: Arc<AtomicUsize>,
    listeners: Listeners,
    io: Io,
}

/// Result of a drain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DrainReport {
    /// Requests in flight without a response at the deadline.
    pub failed: u64,
    /// Duration of the drain.
    pub duration: Duration,
}

/// Limit on the wait for the workers to adopt a Config or revoked keys.
const ADOPTION_TIMEOUT: Duration = Duration::from_secs(2);
/// Interval of checks whether all workers have adopted them.
const POLL_INTERVAL: Duration = Duration::from_micros(200);

/// Limit on the wait for the response to a test request.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(60);
/// Interval of checks for the end of a drain.
const DRAIN_INTERVAL: Duration = Duration::from_millis(10);

impl Gateway {
    /// Binds every socket of a Config, unless it was `passed`.
    ///
    /// # Errors
    /// An address is in use or not this machine's.
    pub fn bind(config: &Config, passed: &mut Passed) -> Result<Bound, BindError> {
        let listeners = config
            .listen
            .iter()
            .map(|listener| listen::claim(passed, listener.addr, config.workers))
            .collect::<Result<Vec<_>, _>>()?;
        let addrs = listeners.iter().map(|listening| listening.addr).collect();
        let log: Log = Arc::new(|line| eprintln!("{line}"));
        let revoked_keys = RevokedKeys::new();
        Ok(Bound { listeners, addrs, limiter: Arc::default(), revoked_keys, log })
    }

    /// Serves another Config from the next request on. Requests in flight keep the Config that they
    /// started with. Keys that need a restart (addresses, number of workers) are ignored.
    /// Blocks until every worker has adopted the Config, or for 2 s if one is stuck.
    ///
    /// # Errors
    /// A certificate cannot be loaded; the Config remains unchanged.
    pub fn reload(&self, config: Arc<Config>, compiled: Compiled) -> Result<(), GatewayError> {
        self.shared.log.set_target(&config.access_log.target);
        let before = Arc::clone(&self.control.borrow().site);
        let (limiter, broker) = (&self.shared.limiter, &self.shared.broker);
        let site = Site::new(config, compiled, limiter, broker, Some(&before))?;
        self.control.send_modify(|control| {
            control.site = Arc::new(site);
            control.version += 1;
        });
        self.wait_until_adopted();
        Ok(())
    }

    /// Rejects these API keys from now on, and no others before they expire. Blocks until every worker has
    /// adopted them, or for 2 s if one is stuck: requests that arrive afterwards, also on open connections,
    /// are rejected.
    pub fn revoke_keys(&self, revoked: RevokedKeys) {
        self.shared.revoke_keys(Arc::new(revoked));
        self.control.send_modify(|control| control.version += 1);
        self.wait_until_adopted();
    }

    /// Waits until every worker has adopted the current version.
    fn wait_until_adopted(&self) {
        let (version, start) = (self.control.borrow().version, Instant::now());
        while start.elapsed() < ADOPTION_TIMEOUT
            && self.stats.iter().any(|(stats, _)| stats.version.load(Acquire) < version)
        {
            std::thread::sleep(POLL_INTERVAL);
        }
    }

    /// Takes the traced requests that have finished.
    pub fn take_traced(&self) -> Vec<TracedRequest> {
        self.stats.iter().flat_map(|(stats, _)| stats.spans.take()).collect()
    }

    /// The sums of all counters.
    pub fn stats(&self) -> Snapshot {
        let workers = self.stats.iter().map(|(stats, _)| &**stats);
        let mut snapshot = Snapshot::of(workers, &self.shared.healths);
        for (_, auth) in &self.stats {
            snapshot.token_hits += auth.cache_hits.load(Relaxed);
            snapshot.token_misses += auth.cache_misses.load(Relaxed);
            snapshot.token_evictions += auth.cache_evictions.load(Relaxed);
        }
        let site = Arc::clone(&self.control.borrow().site);
        let sets = site.config.auths.iter().zip(&site.key_sets);
        let sets = sets.filter_map(|(auth, set)| Some(set.as_ref()?.series(&auth.name)));
        snapshot.key_sets = sets.collect();
        for (entries, bytes) in site.routes.iter().flat_map(|route| &route.cache).map(|c| c.size())
        {
            snapshot.cache_entries += entries;
            snapshot.cache_bytes += bytes;
        }
        let sources = site.introspections.iter().flatten();
        snapshot.introspections = sources.map(|source| source.series()).collect();
        snapshot.is_ring = self.io.is_ring();
        let certificates = site.tls.iter().flatten().flat_map(|tls| tls.expirations());
        snapshot.certificates = certificates.cloned().collect();
        snapshot.certificates.sort();
        snapshot.certificates.dedup();
        snapshot.clock_backwards = self.shared.wall.backwards();
        let limits = self.shared.limiter.statistics();
        snapshot.limit_keys = limits.keys as u64;
        snapshot.limit_evictions = limits.evicted;
        snapshot.limit_overflow = limits.overflowed;
        snapshot
    }

    /// The status of all limits.
    pub fn limits(&self) -> LimitStatuses {
        let site = Arc::clone(&self.control.borrow().site);
        site.limits.limit_statuses(&site.config, self.shared.limiter.now())
    }

    /// The current Site.
    pub fn site(&self) -> Arc<Site> {
        Arc::clone(&self.control.borrow().site)
    }

    /// The current Config.
    pub fn config(&self) -> Arc<Config> {
        Arc::clone(&self.control.borrow().site.config)
    }

    /// Checks whether a replay would be accepted, limits aside.
    ///
    /// # Errors
    /// The reason for which it is rejected.
    pub fn would_resubmit(&self, request: &ReplayRequest) -> Result<(), RejectionReason> {
        let site = Arc::clone(&self.control.borrow().site);
        injection::check(&site, request)
    }

    /// Resubmits a recorded request; `on_done` is called once with the outcome, on any thread, and
    /// must not block.
    ///
    /// # Errors
    /// The queues of all workers are full, or weir is stopping: nothing was sent, and both
    /// arguments are returned.
    pub fn resubmit(
        &self,
        request: Box<ReplayRequest>,
        on_done: OnDone,
    ) -> Result<(), (Box<ReplayRequest>, OnDone)> {
        if self.control.borrow().phase >= Phase::Draining {
            return Err((request, on_done));
        }
        let Some(injector) = self.reserve_injector() else { return Err((request, on_done)) };
        injector.send(Injected::Replay(PendingReplay::new(
            request,
            on_done,
            Arc::clone(&self.shared),
        )));
        Ok(())
    }

    /// A permit of the next injection channel that has room.
    fn reserve_injector(&self) -> Option<mpsc::Permit<'_, Injected>> {
        let first = self.next_injector.fetch_add(1, Relaxed);
        let at = |at: usize| &self.injectors[first.wrapping_add(at) % self.injectors.len()];
        (0..self.injectors.len()).find_map(|one| at(one).try_reserve().ok())
    }

    /// Serves a test request of an operator, as if it had arrived from this machine through a
    /// listener. Blocks until the response, for at most a minute; the request continues afterwards.
    ///
    /// # Errors
    /// The request is invalid, the queues are full, or the outcome is unknown.
    pub fn attempt(&self, text: RequestText, by: &str) -> Result<TestOutcome, RequestTextError> {
        if self.control.borrow().phase >= Phase::Draining {
            return Err(RequestTextError::Busy);
        }
        let (sender, outcome) = sync_channel(1);
        let injector = self.reserve_injector().ok_or(RequestTextError::Busy)?;
        injector.send(Injected::TestRequest(TestRequest::new(text, by, sender, &self.shared)));
        outcome.recv_timeout(RESPONSE_TIMEOUT).unwrap_or(Err(RequestTextError::TimedOut))
    }

    /// Explains how a request would be served now, and why; nothing is sent, counted, recorded or
    /// logged. Blocks for 10 s at most.
    ///
    /// # Errors
    /// The request is invalid, or explain is unavailable.
    pub fn explain(&self, text: RequestText) -> Result<Explanation, RequestTextError> {
        if self.explainer.get().is_none() {
            let explainer = Explainer::start(Arc::clone(&self.shared), self.control.subscribe())
                .map_err(|_| RequestTextError::Busy)?;
            // If another thread was faster, this explainer ends at once.
            let _ = self.explainer.set(explainer);
        }
        self.explainer.get().ok_or(RequestTextError::Busy)?.ask(text)
    }

    /// State and counters of every pool.
    pub fn pools(&self) -> Vec<PoolSnapshot> {
        self.shared.broker.snapshot()
    }

    /// Replaces every agent of a pool, each as soon as it is idle; `false` without such a pool.
    pub fn recycle_pool(&self, name: &str) -> bool {
        self.shared.broker.pool(name).map(|pool| pool.recycle()).is_some()
    }

    /// Stops idle agents of a pool, down to its `min`; `false` without such a pool.
    pub fn trim_pool(&self, name: &str) -> bool {
        self.shared.broker.pool(name).map(|pool| pool.trim()).is_some()
    }

    /// Opens log files again.
    pub fn reopen_logs(&self) {
        self.shared.log.reopen();
    }

    /// Whether [`Gateway::start_draining`] was called.
    pub fn is_draining(&self) -> bool {
        self.control.borrow().phase >= Phase::Draining
    }

    /// From now on every response ends its connection. Connections are still accepted, so that
    /// load balancers have time to choose another server.
    pub fn start_draining(&self) {
        self.set_phase(Phase::Draining);
    }

    /// Stops: no connection is accepted any more, requests in flight may take until `deadline`.
    /// Blocks until all have finished.
    pub fn finish_draining(&self, deadline: Duration) -> DrainReport {
        let start = Instant::now();
        self.set_phase(Phase::Closing);
        self.listeners.drop_duplicates();
        while self.open() > 0 && start.elapsed() < deadline {
            std::thread::sleep(DRAIN_INTERVAL);
        }
        let failed = self.stats.iter().map(|(stats, _)| stats.active.get()).sum();
        self.set_phase(Phase::Over);
        let workers =
            std::mem::take(&mut *self.workers.lock().unwrap_or_else(PoisonError::into_inner));
        for worker in workers {
            // A panic has been reported by its hook already.
            let _ = worker.join();
        }
        self.shared.broker.stop();
        DrainReport { failed, duration: start.elapsed() }
    }

    /// What a drain waits for. Listening sockets, too: each may still accept a connection.
    fn open(&self) -> usize {
        self.accepting.load(Relaxed)
            + self.shared.connections.load(Relaxed)
            + self.shared.resubmissions.load(Relaxed)
    }

    /// The listening sockets in the order of the configuration at the start, for a process that
    /// takes them over.
    ///
    /// # Errors
    /// No descriptor is free.
    pub fn duplicate_listeners(&self) -> io::Result<Vec<PassedSockets>> {
        self.listeners.duplicate()
    }

    /// Another process accepts from the listeners in `taken`, by index: connections are not accepted
    /// here any more, requests in flight continue. [`Gateway::finish_draining`] ends them.
    pub fn hand_over(&self, taken: &[usize]) {
        self.listeners.share(taken);
        self.set_phase(Phase::HandedOver);
        self.listeners.drop_duplicates();
    }

    /// Whether every connection has ended after [`Gateway::hand_over`].
    pub fn is_drained(&self) -> bool {
        self.open() == 0
    }

    /// The counters of limits.
    pub fn limiter(&self) -> &Arc<Limiter> {
        &self.shared.limiter
    }

    /// How workers wait for connections.
    pub fn io(&self) -> &Io {
        &self.io
    }

    fn set_phase(&self, phase: Phase) {
        self.control.send_modify(|control| control.phase = phase);
    }
}

impl Bound {
    /// Addresses in the order of the Config, ports filled in.
    pub fn listen_addrs(&self) -> &[SocketAddr] {
        &self.addrs
    }

    /// The counters of limits, to restore earlier counts before the first request is admitted.
    pub fn limiter(&self) -> &Arc<Limiter> {
        &self.limiter
    }

    /// API keys that are rejected from the first request on.
    pub fn revoke_keys(&mut self, revoked: RevokedKeys) {
        self.revoked_keys = revoked;
    }

    /// The destination of lines that agents write, and of messages about agents; default standard
    /// error. It must not block.
    pub fn log_to(&mut self, log: Log) {
        self.log = log;
    }

    /// Starts serving. Each worker records transactions in its own lane, up to the number of
    /// `lanes`.
    ///
    /// # Errors
    /// A certificate cannot be loaded or created, or a thread cannot be started.
    pub fn start(
        self,
        config: Arc<Config>,
        compiled: Compiled,
        lanes: Vec<Lane>,
    ) -> Result<Gateway, GatewayError> {
        let target = config.access_log.target.clone();
        let mut shared = Shared::new(&config, self.log, self.limiter, target)?;
        let hash_key = |source| GatewayError::HashKey { folder: config.data.clone(), source };
        shared.capture = Arc::new(capture::Common::open(&config).map_err(hash_key)?);
        shared.revoke_keys(Arc::new(self.revoked_keys));
        let shared = Arc::new(shared);
        let count = config.workers;
        let io = Io::choose(config.io).map_err(GatewayError::Ring)?;
        let kept = Listeners::new(&self.listeners, &config)?;
        let site = Arc::new(Site::new(config, compiled, &shared.limiter, &shared.broker, None)?);
        let (control, receiver) =
            watch::channel(Control { site: Arc::clone(&site), phase: Phase::Serving, version: 0 });
        let mut sockets: Vec<Vec<(usize, TcpListener)>> = (0..count).map(|_| Vec::new()).collect();
        for (index, listening) in self.listeners.into_iter().enumerate() {
            for (own, worker) in sockets.iter_mut().zip(listening.workers) {
                own.extend(worker.into_iter().map(|socket| (index, socket)));
            }
        }
        let (unshares, finish) = unshares(&sockets, &kept.duplicates());
        let mut gateway = Gateway {
            control,
            workers: Mutex::default(),
            stats: Vec::new(),
            shared,
            injectors: Vec::new(),
            next_injector: AtomicUsize::new(0),
            explainer: OnceLock::new(),
            accepting: Arc::default(),
            listeners: kept,
            io,
        };
        let mut lanes = lanes.into_iter();
        for (index, (listeners, unshare)) in sockets.into_iter().zip(unshares).enumerate() {
            let own = WorkerResources { listeners, unshare, lane: lanes.next() };
            gateway.spawn(index, Arc::clone(&site), own, receiver.clone())?;
        }
        finish.finish();
        gateway.shared.broker.start_agents();
        Ok(gateway)
    }
}

/// Resources of one worker from the start.
struct WorkerResources {
    listeners: Vec<(usize, TcpListener)>,
    unshare: TableUnshare,
    lane: Option<Lane>,
}

impl Gateway {
    fn spawn(
        &mut self,
        index: usize,
        site: Arc<Site>,
        own: WorkerResources,
        control: watch::Receiver<Control>,
    ) -> io::Result<()> {
        let WorkerResources { listeners, unshare, lane } = own;
        let stats = Arc::new(WorkerStats::default());
        let auth = Arc::new(AuthCounters::default());
        self.stats.push((Arc::clone(&stats), Arc::clone(&auth)));
        let shared = Arc::clone(&self.shared);
        let (injector, injected) = mpsc::channel(injection::MAX_QUEUED);
        self.injectors.push(injector);
        let accepting = |(index, socket)| {
            (index, socket, Accepting::new(&self.accepting, self.listeners.shared(index)))
        };
        let listeners = listeners.into_iter().map(accepting).collect();
        let with_ring = self.io.is_ring();
        let run = move || {
            let worker: &'static Worker =
                Box::leak(Box::new(Worker::new(index, site, stats, auth, shared, lane)));
            if let Err(error) =
                server::run(worker, listeners, unshare, injected, control, with_ring)
            {
                // A worker without a runtime cannot serve: the error is reported on standard error.
                eprintln!("worker {index} failed: {error}");
            }
        };
        let thread = std::thread::Builder::new().name(format!("worker-{index}")).spawn(run)?;
        self.workers.get_mut().unwrap_or_else(PoisonError::into_inner).push(thread);
        Ok(())
    }
}
