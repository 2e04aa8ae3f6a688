//! What one worker, which is a thread, keeps between requests; [`crate::server`] runs it.

mod live;

pub use live::Live;

use crate::lease_waits::LeaseWaits;
use crate::script_path::ScriptPaths;
use crate::site::Site;
use crate::validation_budget::OverBudget;
use std::cell::{Cell, RefCell};
use std::io;
use std::rc::Rc;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Waker;
use weir_auth::{AuthCounters, RevokedKeys};
use weir_broker::{Broker, Log};
use weir_config::{Config, Durability, LogTarget};
use weir_http::clock::{Wall, WallReader};
use weir_http::date::DateCache;
use weir_journal::Lane;
use weir_limit::Limiter;
use weir_net::descriptors::Descriptors;
use weir_net::handshake;
use weir_record::access_log::AccessLog;
use weir_record::capture::{self, Recorder};
use weir_telemetry::spans::TraceSampler;
use weir_telemetry::stats::WorkerStats;
use weir_upstream::Healths;
use weir_upstream::agent_connections::AgentConnections;

/// Phase of a drain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// No drain.
    Serving,
    /// Connections are still accepted; every response ends its connection.
    Draining,
    /// Another process accepts connections; those without a request are closed, and upgraded ones
    /// end within the deadline.
    HandedOver,
    /// Connections are not accepted any more; those without a request are closed.
    Closing,
    /// The remaining connections are aborted.
    Over,
}

/// The current Site and phase, for all workers.
#[derive(Clone, Debug)]
pub struct Control {
    /// The current Site.
    pub site: Arc<Site>,
    /// The current phase.
    pub phase: Phase,
    /// Number of changes of Site and revoked keys so far; each worker reports the one it has adopted.
    pub version: u64,
}

/// State shared by all workers, independent of the Config.
pub struct Shared {
    /// Open client connections of all workers.
    pub connections: AtomicUsize,
    /// Resubmissions in flight of all workers.
    pub resubmissions: AtomicUsize,
    /// File descriptors of the process.
    pub descriptors: Descriptors,
    /// Messages for the operator. Does not block.
    pub messages: Log,
    /// Health of the targets.
    pub healths: Healths,
    /// Pools of agents.
    pub broker: Broker,
    /// Counters of rate limits and quotas.
    pub limiter: Arc<Limiter>,
    /// The wall clock.
    pub wall: Arc<Wall>,
    /// The access log.
    pub log: AccessLog,
    /// Settings of recording.
    pub capture: Arc<capture::Common>,
    /// API keys that are rejected; a worker looks when it follows the control.
    revoked_keys: Mutex<Arc<RevokedKeys>>,
}

impl Shared {
    /// The state at the start. Recording has no key for the hashes of bodies.
    ///
    /// # Errors
    /// A thread cannot be started.
    pub fn new(
        config: &Config,
        messages: Log,
        limiter: Arc<Limiter>,
        log: LogTarget,
    ) -> io::Result<Self> {
        Ok(Self {
            connections: AtomicUsize::new(0),
            resubmissions: AtomicUsize::new(0),
            descriptors: Descriptors::by_limit(),
            healths: Healths::default(),
            broker: Broker::new(config.workers, &config.data, Arc::clone(&messages))?,
            messages,
            limiter,
            wall: Arc::new(Wall::start()),
            log: AccessLog::start(log)?,
            capture: Arc::default(),
            revoked_keys: Mutex::default(),
        })
    }

    /// API keys that are rejected.
    pub fn revoked_keys(&self) -> Arc<RevokedKeys> {
        Arc::clone(&self.revoked_keys.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Sets the API keys that are rejected, for every worker that follows the control next.
    pub fn revoke_keys(&self, revoked: Arc<RevokedKeys>) {
        *self.revoked_keys.lock().unwrap_or_else(PoisonError::into_inner) = revoked;
    }
}

/// The state of one worker thread. It lives as long as the process: leaked once, so that
/// connections can refer to it without reference counting.
pub struct Worker {
    /// Index of the worker.
    pub index: usize,
    /// Counters of this worker.
    pub stats: Arc<WorkerStats>,
    /// Writes to the journal.
    pub recorder: Recorder,
    /// State of all workers.
    pub shared: Arc<Shared>,
    /// Connections to agents.
    pub agents: AgentConnections,
    /// Cached program files of paths.
    pub(crate) scripts: ScriptPaths,
    pub(crate) sampler: TraceSampler,
    /// Failed TLS handshakes.
    pub handshakes: handshake::Failures,
    /// Validations that exceeded their budget.
    pub over_budget: OverBudget,
    /// Requests that wait for leases of limits.
    pub(crate) lease_waits: LeaseWaits,
    auth_counters: Arc<AuthCounters>,
    live: RefCell<Rc<Live>>,
    /// The revoked API keys of `live`, or older ones.
    revoked_keys: RefCell<Arc<RevokedKeys>>,
    phase: Cell<Phase>,
    /// Tasks to wake when the phase changes: one slot for each connection.
    wakers: RefCell<Vec<Option<Waker>>>,
    free: RefCell<Vec<usize>>,
    /// The wall clock.
    pub wall: WallReader,
    /// The `Date` header.
    pub date: DateCache,
}

impl Worker {
    /// Creates a worker without connections.
    pub fn new(
        index: usize,
        site: Arc<Site>,
        stats: Arc<WorkerStats>,
        auth_counters: Arc<AuthCounters>,
        shared: Arc<Shared>,
        lane: Option<Lane>,
    ) -> Self {
        let waits_for_disk = site.config.journal.durability == Durability::Disk;
        let state = (&shared.healths, &*shared.revoked_keys());
        let live = Live::new(site, &stats, &auth_counters, state, None);
        let common = Arc::clone(&shared.capture);
        let recorder = Recorder::new(lane, waits_for_disk, common, Arc::clone(&stats));
        let wall = WallReader::new(&shared.wall);
        Self {
            index,
            agents: AgentConnections::default(),
            scripts: ScriptPaths::default(),
            stats,
            recorder,
            sampler: TraceSampler::default(),
            shared,
            handshakes: handshake::Failures::default(),
            over_budget: OverBudget::default(),
            lease_waits: LeaseWaits::default(),
            auth_counters,
            live: RefCell::new(Rc::new(live)),
            revoked_keys: RefCell::default(),
            phase: Cell::new(Phase::Serving),
            wakers: RefCell::default(),
            free: RefCell::default(),
            wall,
            date: DateCache::default(),
        }
    }

    /// The current Config; a request keeps the one it starts with.
    pub fn live(&self) -> Rc<Live> {
        Rc::clone(&self.live.borrow())
    }

    /// The current phase.
    pub fn phase(&self) -> Phase {
        self.phase.get()
    }

    /// Switches to another Config.
    fn switch(&self, site: Arc<Site>) {
        let before = self.live();
        let state = (&self.shared.healths, &*self.shared.revoked_keys());
        let live = Live::new(site, &self.stats, &self.auth_counters, state, Some(&before));
        before.retire_all_but(&live);
        *self.live.borrow_mut() = Rc::new(live);
        self.wake_connections();
    }

    /// Adopts the control: its Site, if it is another one, and the revoked API keys.
    pub fn follow(&self, control: &Control) {
        if !Arc::ptr_eq(&control.site, &self.live().site) {
            self.switch(Arc::clone(&control.site));
        }
        let now = self.shared.revoked_keys();
        if !Arc::ptr_eq(&now, &self.revoked_keys.borrow()) {
            self.live().authenticator.revoke_keys(&now);
            *self.revoked_keys.borrow_mut() = now;
        }
    }

    /// Whether this is the Config of a request that starts now.
    pub(crate) fn serves(&self, live: &Rc<Live>) -> bool {
        Rc::ptr_eq(&self.live.borrow(), live)
    }

    /// Enters a phase.
    pub fn set_phase(&self, phase: Phase) {
        self.phase.set(phase);
        self.wake_connections();
    }

    fn wake_connections(&self) {
        for waker in self.wakers.borrow().iter().flatten() {
            waker.wake_by_ref();
        }
    }

    /// Registers a task to wake when the phase or the Config changes.
    pub fn watch_phase(&'static self, waker: Waker) -> PhaseWatch {
        let mut wakers = self.wakers.borrow_mut();
        let place = self.free.borrow_mut().pop().unwrap_or_else(|| {
            wakers.push(None);
            wakers.len() - 1
        });
        wakers[place] = Some(waker);
        PhaseWatch { worker: self, place }
    }
}

/// A connection's registration, removed on drop.
pub struct PhaseWatch {
    worker: &'static Worker,
    place: usize,
}

impl Drop for PhaseWatch {
    fn drop(&mut self) {
        self.worker.wakers.borrow_mut()[self.place] = None;
        self.worker.free.borrow_mut().push(self.place);
    }
}
