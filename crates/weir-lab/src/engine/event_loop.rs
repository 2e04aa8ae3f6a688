//! One core's loop: what all its users share.

use super::plan::Plan;
use super::tls::Tls;
use super::{Control, Level};
use crate::program::{Origin, State};
use crate::record::{Clock, Recorder};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::Notify;
use weir_wire::ResponseHead;

/// Bytes of each read. All connections of a loop share one buffer: a user needs memory of its own
/// only for an answer that does not come in one piece.
const READ: usize = 128 * 1024;

/// How often a loop looks whether the run is to stop.
const LOOK: Duration = Duration::from_millis(20);
/// A loop that is this late was held up; its own work takes less.
const HELD_UP: Duration = Duration::from_millis(100);

/// What all loops share.
pub(super) struct Common {
    pub(super) plan: Plan,
    pub(super) state: State,
    pub(super) clock: Clock,
    pub(super) tls: Tls,
    pub(super) control: Control,
    /// Users active, of each group.
    pub(super) active: Vec<AtomicU64>,
    /// When the next sample of a shared rate may come, nanoseconds: of all users, then of each
    /// group.
    pub(super) next_sample: Vec<AtomicU64>,
    /// After a stop or the end of its time, what is under way may take so long.
    pub(super) grace: Duration,
    pub(super) seed: u64,
}

/// One core's loop.
pub(super) struct Loop {
    pub(super) common: Arc<Common>,
    /// Which of how many.
    pub(super) index: u32,
    pub(super) loops: u32,
    pub(super) recorder: RefCell<Recorder>,
    /// Users write every answer with its sample somewhere: more of it is needed.
    pub(super) has_sink: bool,
    /// What was read last; valid within one poll.
    pub(super) scratch: RefCell<Box<[u8]>>,
    /// The head parsed last; valid within one poll.
    pub(super) head: RefCell<ResponseHead>,
    pub(super) in_flight: Cell<u64>,
    pub(super) users: Cell<u64>,
    /// Wakes users that pause.
    pub(super) wake: Notify,
    pub(super) level: Cell<Level>,
    /// When it was told to stop, nanoseconds since the run's start.
    pub(super) stopped_at: Cell<u64>,
    pub(super) addresses: RefCell<Addresses>,
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
            scratch: RefCell::new(vec![0; READ].into_boxed_slice()),
            head: RefCell::default(),
            in_flight: Cell::new(0),
            users: Cell::new(0),
            wake: Notify::new(),
            level: Cell::new(Level::Run),
            stopped_at: Cell::new(u64::MAX),
            addresses: RefCell::default(),
            common,
        }
    }

    /// Nanoseconds since the run's start.
    #[inline]
    pub(super) fn now(&self) -> u64 {
        // A run of 584 years would overflow.
        self.common.clock.steady.elapsed().as_nanos() as u64
    }

    /// Users active: those of a group, and all.
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

    /// Looks from time to time whether the run is to stop, and tells the users. A look that comes
    /// late says that this thread was stopped, or had no core.
    pub(super) async fn watch_control(&self) {
        loop {
            let due = self.now() + LOOK.as_nanos() as u64;
            let level = self.common.control.level();
            if level != self.level.get() {
                if self.level.get() == Level::Run {
                    self.stopped_at.set(self.now());
                }
                self.level.set(level);
                self.wake.notify_waiters();
            }
            tokio::time::sleep(LOOK).await;
            let late = Duration::from_nanos(self.now().saturating_sub(due));
            if late > HELD_UP {
                self.recorder.borrow_mut().held_up(late);
            }
        }
    }

    /// Addresses of a host, asked for once.
    pub(super) async fn resolve(&self, origin: &Origin) -> std::io::Result<Rc<[SocketAddr]>> {
        let key = (origin.host.clone(), origin.port);
        if let Some(known) = self.addresses.borrow().get(&key) {
            return Ok(known.clone());
        }
        let found: Rc<[SocketAddr]> =
            tokio::net::lookup_host((origin.host.as_str(), origin.port)).await?.collect();
        self.addresses.borrow_mut().insert(key, found.clone());
        Ok(found)
    }
}
