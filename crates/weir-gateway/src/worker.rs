//! What one worker, which is a thread, keeps between requests; [`crate::server`] runs it.

mod live;

pub(crate) use live::Live;

use crate::access_log::AccessLog;
use crate::agent_connections::AgentConnections;
use crate::auth::AuthCounters;
use crate::capture::{self, Recorder};
use crate::clock::{Wall, WallReader};
use crate::date::DateCache;
use crate::descriptors::Descriptors;
use crate::handshake;
use crate::limit::Limiter;
use crate::script_path::ScriptPaths;
use crate::site::Site;
use crate::spans::TraceSampler;
use crate::stats::WorkerStats;
use crate::upstream::Healths;
use crate::validation_budget::OverBudget;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::task::Waker;
use weir_broker::{Broker, Log};
use weir_config::Durability;
use weir_journal::Lane;

/// How far a stop has gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Phase {
    /// No stop.
    Serving,
    /// Connections are still accepted; every answer ends its connection.
    Draining,
    /// Nothing is accepted any more; connections without a request are closed.
    Closing,
    /// What is left is cut off.
    Over,
}

/// What every worker is to serve.
#[derive(Clone, Debug)]
pub(crate) struct Control {
    pub(crate) site: Arc<Site>,
    pub(crate) phase: Phase,
    /// Counts the sites there have been; a worker says which one it serves.
    pub(crate) version: u64,
}

/// What workers share, whatever the Config.
pub(crate) struct Shared {
    /// Client connections open, all workers together.
    pub(crate) connections: AtomicUsize,
    /// Requests that weir makes again, taken and not over, all workers together.
    pub(crate) resubmissions: AtomicUsize,
    pub(crate) descriptors: Descriptors,
    /// Lines for the operator. It does not block.
    pub(crate) messages: Log,
    pub(crate) healths: Healths,
    pub(crate) broker: Broker,
    pub(crate) limiter: Arc<Limiter>,
    pub(crate) wall: Arc<Wall>,
    pub(crate) log: AccessLog,
    pub(crate) capture: Arc<capture::Common>,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").field("connections", &self.connections).finish_non_exhaustive()
    }
}

/// One thread's world. It lives as long as its thread, which is as long as the process: leaked
/// once, so that connections can hold it without counting references.
pub(crate) struct Worker {
    /// Its number among them.
    pub(crate) index: usize,
    pub(crate) stats: Arc<WorkerStats>,
    pub(crate) recorder: Recorder,
    pub(crate) shared: Arc<Shared>,
    pub(crate) agents: AgentConnections,
    /// Files that have answered paths.
    pub(crate) scripts: ScriptPaths,
    pub(crate) sampler: TraceSampler,
    pub(crate) handshakes: handshake::Failures,
    /// Validations that took more than their budget.
    pub(crate) over_budget: OverBudget,
    auth_counters: Arc<AuthCounters>,
    live: RefCell<Rc<Live>>,
    phase: Cell<Phase>,
    /// Who to wake when the phase changes: one place a connection.
    wakers: RefCell<Vec<Option<Waker>>>,
    free: RefCell<Vec<usize>>,
    pub(crate) wall: WallReader,
    pub(crate) date: DateCache,
}

impl std::fmt::Debug for Worker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Worker").field("phase", &self.phase.get()).finish_non_exhaustive()
    }
}

impl Worker {
    pub(crate) fn new(
        index: usize,
        site: Arc<Site>,
        stats: Arc<WorkerStats>,
        auth_counters: Arc<AuthCounters>,
        shared: Arc<Shared>,
        lane: Option<Lane>,
    ) -> Self {
        let waits_for_disk = site.config.journal.durability == Durability::Disk;
        let live = Live::new(site, &stats, &auth_counters, &shared.healths, None);
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
            auth_counters,
            live: RefCell::new(Rc::new(live)),
            phase: Cell::new(Phase::Serving),
            wakers: RefCell::default(),
            free: RefCell::default(),
            wall,
            date: DateCache::default(),
        }
    }

    /// The Config of this moment; a request holds on to the one it starts with.
    pub(crate) fn live(&self) -> Rc<Live> {
        Rc::clone(&self.live.borrow())
    }

    pub(crate) fn phase(&self) -> Phase {
        self.phase.get()
    }

    /// Switches to another Config.
    pub(crate) fn switch(&self, site: Arc<Site>) {
        let before = self.live();
        let live =
            Live::new(site, &self.stats, &self.auth_counters, &self.shared.healths, Some(&before));
        before.retire_all_but(&live);
        *self.live.borrow_mut() = Rc::new(live);
        self.wake_connections();
    }

    /// Whether this is what a request would start with now.
    pub(crate) fn serves(&self, live: &Rc<Live>) -> bool {
        Rc::ptr_eq(&self.live.borrow(), live)
    }

    pub(crate) fn set_phase(&self, phase: Phase) {
        self.phase.set(phase);
        self.wake_connections();
    }

    fn wake_connections(&self) {
        for waker in self.wakers.borrow().iter().flatten() {
            waker.wake_by_ref();
        }
    }

    /// Notes whom to wake when the phase or the Config changes.
    pub(crate) fn watch_phase(&'static self, waker: Waker) -> PhaseWatch {
        let mut wakers = self.wakers.borrow_mut();
        let place = self.free.borrow_mut().pop().unwrap_or_else(|| {
            wakers.push(None);
            wakers.len() - 1
        });
        wakers[place] = Some(waker);
        PhaseWatch { worker: self, place }
    }
}

/// A connection's place among those woken when the phase changes.
pub(crate) struct PhaseWatch {
    worker: &'static Worker,
    place: usize,
}

impl Drop for PhaseWatch {
    fn drop(&mut self) {
        self.worker.wakers.borrow_mut()[self.place] = None;
        self.worker.free.borrow_mut().push(self.place);
    }
}
