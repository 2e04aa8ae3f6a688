//! One worker: a thread, its runtime, and what it keeps between requests.

mod accept;
mod control;
mod descriptors;
mod live;

pub(crate) use accept::Accepting;
pub(crate) use control::{Control, Phase, run};
pub(crate) use descriptors::{Parting, partings};
pub(crate) use live::Live;

use crate::access_log::{AccessLog, Line};
use crate::auth::AuthCounters;
use crate::capture;
use crate::clock::Wall;
use crate::date::DateCache;
use crate::deadline::Deadline;
use crate::descriptors::Descriptors;
use crate::exchange::{Exchange, Protocol};
use crate::handshake;
use crate::limit::Limiter;
use crate::pool::{Kept, Scripts};
use crate::site::Site;
use crate::spans::{Open, Pace};
use crate::stats::WorkerStats;
use crate::upstream::Healths;
use crate::validate;
use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::task::Waker;
use std::time::{Duration, Instant};
use weir_broker::{Broker, Log};
use weir_config::Durability;
use weir_journal::Lane;

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
    pub(crate) wall: Wall,
    pub(crate) log: AccessLog,
    pub(crate) capture: capture::Common,
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
    /// Where its transactions are recorded, if they are.
    pub(crate) lane: Option<RefCell<Lane>>,
    /// Answers leave when their records are on the disk. As long as the process lives.
    pub(crate) waits_for_disk: bool,
    pub(crate) shared: Arc<Shared>,
    /// Connections to agents that have no request.
    pub(crate) agents: Kept,
    /// Files that have answered paths.
    pub(crate) scripts: Scripts,
    /// How many requests are traced.
    pub(crate) pace: Pace,
    pub(crate) handshakes: handshake::Failures,
    /// Validations that took more than their budget.
    pub(crate) over_budget: validate::OverBudget,
    auth_counters: Arc<AuthCounters>,
    live: RefCell<Rc<Live>>,
    phase: Cell<Phase>,
    /// Who to wake when the phase changes: one place a connection.
    wakers: RefCell<Vec<Option<Waker>>>,
    free: RefCell<Vec<usize>>,
    /// The wall clock at one moment, from which nearby moments are told without asking it.
    wall: Cell<(Instant, Duration)>,
    pub(crate) date: DateCache,
    /// Exchanges without a connection, the last used one last: the one the cache still holds.
    #[expect(clippy::vec_box, reason = "an exchange is handed out without being copied")]
    exchanges: RefCell<Vec<Box<Exchange>>>,
    /// What these have for a deadline.
    no_deadline: Rc<Deadline>,
}

/// Most exchanges kept for reuse by one worker.
const KEPT_EXCHANGES: usize = 256;

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
        let wall = Cell::new((Instant::now(), shared.wall.read()));
        Self {
            index,
            agents: Kept::default(),
            scripts: Scripts::default(),
            stats,
            lane: lane.map(RefCell::new),
            waits_for_disk,
            pace: Pace::default(),
            shared,
            handshakes: handshake::Failures::default(),
            over_budget: validate::OverBudget::default(),
            auth_counters,
            live: RefCell::new(Rc::new(live)),
            phase: Cell::new(Phase::Serving),
            wakers: RefCell::default(),
            free: RefCell::default(),
            wall,
            date: DateCache::default(),
            exchanges: RefCell::default(),
            no_deadline: Rc::default(),
        }
    }

    /// An Exchange for a connection that has something to say.
    pub(crate) fn exchange(
        &'static self,
        peer: SocketAddr,
        protocol: Protocol,
        deadline: &Rc<Deadline>,
    ) -> Box<Exchange> {
        let kept = self.exchanges.borrow_mut().pop();
        let mut exchange =
            kept.unwrap_or_else(|| Box::new(Exchange::new(self, Rc::clone(&self.no_deadline))));
        exchange.assign(peer, protocol, Rc::clone(deadline));
        exchange
    }

    /// Takes back an Exchange that is over.
    pub(crate) fn keep(&self, mut exchange: Box<Exchange>) {
        let mut exchanges = self.exchanges.borrow_mut();
        if exchanges.len() < KEPT_EXCHANGES {
            exchange.deadline = Rc::clone(&self.no_deadline);
            exchanges.push(exchange);
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

    fn set_phase(&self, phase: Phase) {
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

    /// Time since 1970 at `now`. The wall clock is asked once a second; it may be set meanwhile.
    pub(crate) fn unix_time(&self, now: Instant) -> Duration {
        let (then, unix) = self.wall.get();
        let since = now.saturating_duration_since(then);
        if since < Duration::from_secs(1) {
            return unix + since;
        }
        let unix = self.shared.wall.read();
        self.wall.set((now, unix));
        unix
    }

    /// Counts and logs a request that has been answered.
    pub(crate) fn observe(&self, exchange: &Exchange, duration: Duration) {
        let span = exchange.span.as_deref().map(Open::mark);
        exchange.live().series(exchange, &self.stats).record(duration, span);
        if let Some(problem) = exchange.problem {
            let consumer = exchange.consumer();
            let config = &exchange.live().site.config;
            let consumer = consumer.map_or("", |id| config.consumers[id.0].name.as_str());
            self.stats.rejections.record(problem, consumer);
        }
        self.log(exchange, duration, false);
    }

    pub(crate) fn log(&self, exchange: &Exchange, duration: Duration, aborted: bool) {
        let config = &exchange.live().site.config;
        if let Some(format) = config.access_log.format {
            let line = Line { exchange, duration, aborted };
            if !self.shared.log.write(&line, format) {
                self.stats.log_dropped.add(1);
            }
        }
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
