//! One core's loop: the state shared by its users.

use super::plan::Plan;
use super::shared_timer::SharedTimers;
use super::tls::Tls;
use super::user::{GateCount, Locks};
use super::{Control, Level};
use crate::jvm::Helper;
use crate::program::{Label, OTHER_LABELS, Scope, State, Values};
use crate::record::{Clock, Interval, Recorder};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};
use tokio::sync::Notify;
use weir_wire::ResponseHead;

/// Bytes of each read. All connections of a loop share one buffer: a user needs separate memory
/// only for a response that arrives in several reads.
const READ_CHUNK_BYTES: usize = 128 * 1024;

/// Interval in which a loop checks whether the run is stopped.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// A loop that wakes up this late was stalled; its own work takes less time.
const STALL_THRESHOLD: Duration = Duration::from_millis(100);

/// State shared by all loops.
pub(super) struct Common {
    pub(super) plan: Plan,
    pub(super) state: State,
    pub(super) clock: Clock,
    pub(super) tls: Tls,
    /// Stops the run from outside.
    pub(super) control: Control,
    /// Stops the run from inside: a plan that ends itself is complete.
    pub(super) own_control: Control,
    /// Active users of each group.
    pub(super) active: Vec<AtomicU64>,
    /// Time of the next sample of a shared rate, in nanoseconds: of all users, then of each group.
    pub(super) next_sample: Vec<AtomicU64>,
    /// Counts of gates of all users.
    pub(super) gates: Vec<Mutex<GateCount>>,
    pub(super) locks: Locks,
    pub(super) timers: SharedTimers,
    /// Runs scripts.
    pub(super) helper: Option<Arc<Helper>>,
    /// Users of scripts up to now.
    pub(super) script_users: AtomicU32,
    /// Why the run cannot go on.
    pub(super) failure: OnceLock<String>,
    /// Time for requests in flight after a stop or the end.
    pub(super) grace: Duration,
    pub(super) seed: u64,
    /// Batches up to now: the steps of a search have users of the same numbers.
    pub(super) batches: AtomicU64,
    /// Loops wait for connections by io_uring.
    pub(super) is_ring: bool,
    /// A loop has waited for them by epoll.
    pub(super) has_epoll: AtomicBool,
}

impl Common {
    /// The stop level of the run.
    pub(super) fn level(&self) -> Level {
        self.control.level().max(self.own_control.level())
    }

    /// Ends the run: its figures are not valid.
    pub(super) fn fail(&self, why: String) {
        // The first reason counts.
        let _ = self.failure.set(why);
        self.own_control.stop_now();
    }

    /// The scope of a user's texts.
    #[inline]
    pub(super) fn scope<'a>(&'a self, values: &'a mut Values) -> Scope<'a> {
        Scope { program: &self.plan.program, state: &self.state, values }
    }
}

/// One core's loop.
pub(super) struct Loop {
    pub(super) common: Arc<Common>,
    /// Index of this loop, and number of loops.
    pub(super) index: u32,
    pub(super) loops: u32,
    pub(super) recorder: RefCell<Recorder>,
    /// Samples are also written elsewhere: heads of responses must be captured.
    pub(super) has_sink: bool,
    /// Buffer of the last read; valid within one poll.
    pub(super) scratch: RefCell<Box<[u8]>>,
    /// The last parsed head; valid within one poll.
    pub(super) head: RefCell<ResponseHead>,
    pub(super) in_flight: Cell<u64>,
    pub(super) users: Cell<u64>,
    /// Wakes users that pause.
    pub(super) wake: Notify,
    pub(super) level: Cell<Level>,
    /// Time of the stop, in nanoseconds since the start of the run.
    pub(super) stopped_at: Cell<u64>,
    pub(super) addresses: RefCell<Addresses>,
    /// Labels found during the run: of requests and of transactions.
    labels: RefCell<[HashMap<String, Label>; 2]>,
}

/// Addresses of hosts and ports.
type Addresses = HashMap<(String, u16), Rc<[SocketAddr]>>;

impl Loop {
    pub(super) fn new(common: Arc<Common>, (index, loops): (u32, u32), recorder: Recorder) -> Self {
        Self {
            index,
            loops,
            has_sink: recorder.has_sink(),
            recorder: RefCell::new(recorder),
            scratch: RefCell::new(vec![0; READ_CHUNK_BYTES].into_boxed_slice()),
            head: RefCell::default(),
            in_flight: Cell::new(0),
            users: Cell::new(0),
            wake: Notify::new(),
            level: Cell::new(Level::Run),
            stopped_at: Cell::new(u64::MAX),
            addresses: RefCell::default(),
            labels: RefCell::default(),
            common,
        }
    }

    /// Nanoseconds since the run's start.
    #[inline]
    pub(super) fn now(&self) -> u64 {
        // A run of 584 years would overflow.
        self.common.clock.steady.elapsed().as_nanos() as u64
    }

    /// The label of a name that was evaluated during the run.
    pub(super) fn label(&self, name: &str, transaction: bool) -> Label {
        let known = &mut self.labels.borrow_mut()[usize::from(transaction)];
        if let Some(label) = known.get(name) {
            return *label;
        }
        let labels = &self.common.plan.program.labels;
        let label = labels.intern(name, transaction);
        // Names beyond the largest number of labels are not kept.
        if labels.name(label, |known| known != OTHER_LABELS) {
            known.insert(name.to_owned(), label);
        }
        label
    }

    /// The recorded figures since the last call.
    pub(super) fn take_interval(&self) -> Interval {
        let (in_flight, users) = (self.in_flight.get(), self.users.get());
        self.recorder.borrow_mut().take_interval(self.now(), in_flight, users)
    }

    /// Active users: of a group, and of all groups.
    pub(super) fn active(&self, group: usize) -> (u32, u32) {
        let active = |users: &AtomicU64| users.load(Ordering::Relaxed) as u32;
        let all = &self.common.active;
        (active(&all[group]), all.iter().map(active).sum())
    }

    /// A moment of the run on tokio's clock.
    pub(super) fn instant(&self, nanoseconds: u64) -> tokio::time::Instant {
        let far = Duration::from_nanos(nanoseconds).min(Duration::from_secs(100 * 366 * 86_400));
        let steady: Instant = self.common.clock.steady;
        tokio::time::Instant::from_std(steady.checked_add(far).unwrap_or(steady))
    }

    /// Checks regularly whether the run is stopped, and notifies the users. A late check shows that
    /// this thread was stalled.
    pub(super) async fn watch_control(&self) {
        loop {
            let due = self.now() + POLL_INTERVAL.as_nanos() as u64;
            let level = self.common.level();
            if level != self.level.get() {
                if self.level.get() == Level::Run {
                    self.stopped_at.set(self.now());
                }
                self.level.set(level);
                self.wake.notify_waiters();
            }
            tokio::time::sleep(POLL_INTERVAL).await;
            let delay = Duration::from_nanos(self.now().saturating_sub(due));
            if delay > STALL_THRESHOLD {
                self.recorder.borrow_mut().stalled(delay);
            }
        }
    }

    /// Addresses of a host, resolved once.
    pub(super) async fn resolve(
        &self,
        (host, port): (&str, u16),
    ) -> std::io::Result<Rc<[SocketAddr]>> {
        let key = (host.to_owned(), port);
        if let Some(known) = self.addresses.borrow().get(&key) {
            return Ok(known.clone());
        }
        let found: Rc<[SocketAddr]> = tokio::net::lookup_host((host, port)).await?.collect();
        self.addresses.borrow_mut().insert(key, found.clone());
        Ok(found)
    }
}
