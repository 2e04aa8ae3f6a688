//! The ring of a thread: what its sockets have to send, and what becomes of completions.

use crate::kernel::{Completed, Kernel, Key, Order, Outcome, Received};
use rustix::io::Errno;
use std::cell::{Cell, RefCell};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;
use std::task::Waker;
use std::time::{Duration, Instant};
use tokio::io::unix::AsyncFd;

/// Most buffers kept for the next bytes to be sent.
const MAX_SPARE: usize = 128;
/// Largest of them, in bytes.
const MAX_SPARE_BYTES: usize = 16 << 10;
/// Most dropped sockets that wait until their peers take the rest, as `net.ipv4.tcp_max_orphans` bounds those
/// of the kernel. Each holds a descriptor and up to 64 KiB.
pub(crate) const MAX_ORPHANS: usize = 256;

/// Longest sleep in the ring.
const SLEEP: Duration = Duration::from_micros(250);
/// Number of fast turns in a row after which a thread sleeps in the ring.
const IS_FAST: u8 = 8;

/// What a ring has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Calls into the kernel.
    pub enters: u64,
    /// Completed operations.
    pub completed: u64,
    /// Receives that found no provided buffer, so that a call of their own reads the bytes.
    pub without_buffer: u64,
    /// Sockets that were reset when they were dropped, because too many dropped ones waited for their peers.
    pub orphans_reset: u64,
}

/// Whether events come so fast that the thread sleeps in the ring: one call then submits, sleeps and
/// completes. Timers, accepts and other threads wait meanwhile, up to [`SLEEP`].
#[derive(Debug, Default)]
struct Pace {
    /// Number of turns in a row that had less than [`SLEEP`] between them, up to [`IS_FAST`].
    fast: Cell<u8>,
    last: Cell<Option<Instant>>,
}

impl Pace {
    /// How long the next sleep in the ring may be.
    fn sleep(&self) -> Option<Duration> {
        (self.fast.get() == IS_FAST).then_some(SLEEP)
    }

    /// The thread goes to sleep elsewhere.
    fn leave(&self) {
        let now = Instant::now();
        let is_fast = self.last.replace(Some(now)).is_some_and(|last| now - last < SLEEP);
        self.fast.set(if is_fast { IS_FAST.min(self.fast.get() + 1) } else { 0 });
    }

    /// No event came during a sleep in the ring, or the thread does not sleep at all.
    fn slow_down(&self) {
        self.fast.set(0);
    }
}

/// The ring of a thread.
#[derive(Debug)]
pub(crate) struct Ring<M: Member> {
    kernel: RefCell<Kernel<Rc<M>>>,
    /// Sockets with bytes to be sent at the end of the turn.
    unsent: RefCell<Vec<Rc<M>>>,
    /// Number of sockets that wait until they accept bytes.
    blocked: Cell<usize>,
    /// Number of sockets that were dropped while they waited for that, and are not closed yet.
    orphans: Cell<usize>,
    /// Nothing waits any more.
    is_over: Cell<bool>,
    spare: RefCell<Vec<Vec<u8>>>,
    /// Wakes the task that looks after the ring when the thread does not sleep.
    driver: RefCell<Waker>,
    /// That task is to call [`Ring::turn`].
    is_scheduled: Cell<bool>,
    /// That task is to watch that something is submitted.
    is_guarded: Cell<bool>,
    /// [`Ring::park`] was called since the watch began.
    has_parked: Cell<bool>,
    pace: Pace,
    statistics: Cell<Statistics>,
}

/// Bytes to be sent.
pub(crate) struct Unsent {
    pub(crate) bytes: Vec<u8>,
    /// A task waits until they are.
    pub(crate) is_awaited: bool,
}

/// A socket of a ring, as its completions need it.
pub(crate) trait Member: AsFd {
    /// The bytes to be sent now: a send begins.
    fn take_unsent(&self) -> Option<Unsent>;
    /// A send has ended: the memory of the bytes, and how many of them were sent.
    fn sent(self: Rc<Self>, memory: Vec<u8>, count: Result<usize, Errno>);
    /// A receive has ended. `more`: further bytes are there; `keep`: the bytes may stay in their buffer.
    fn received(&self, bytes: Result<Option<Received>, Errno>, more: bool, keep: bool);
    /// A wait for something to receive has ended.
    fn readable(&self, outcome: Result<(), Errno>);
}

impl<M: Member> Ring<M> {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self {
            kernel: RefCell::new(Kernel::new()?),
            unsent: RefCell::default(),
            blocked: Cell::default(),
            orphans: Cell::default(),
            is_over: Cell::default(),
            spare: RefCell::default(),
            driver: RefCell::new(Waker::noop().clone()),
            is_scheduled: Cell::default(),
            is_guarded: Cell::default(),
            has_parked: Cell::default(),
            pace: Pace::default(),
            statistics: Cell::default(),
        })
    }

    /// Whether operations complete.
    pub(crate) fn check(&self) -> io::Result<()> {
        self.kernel.borrow_mut().check()
    }

    /// What is readable when there is something to do.
    pub(crate) fn watch(&self) -> io::Result<AsyncFd<OwnedFd>> {
        self.kernel.borrow().watch()
    }

    /// The waker of the task that looks after the ring.
    pub(crate) fn set_driver(&self, waker: &Waker) {
        self.driver.borrow_mut().clone_from(waker);
    }

    pub(crate) fn statistics(&self) -> Statistics {
        self.statistics.get()
    }

    pub(crate) fn start(&self, socket: Rc<M>, order: Order) -> Key {
        self.has_started();
        self.kernel.borrow_mut().start(socket, order)
    }

    pub(crate) fn cancel(&self, key: Key) {
        self.has_started();
        self.kernel.borrow_mut().cancel(key);
    }

    /// The bytes of a socket are sent at the end of the turn.
    pub(crate) fn send_later(&self, socket: Rc<M>) {
        self.has_started();
        self.unsent.borrow_mut().push(socket);
    }

    /// One more socket waits until it accepts bytes, or one less.
    pub(crate) fn count_blocked(&self, change: isize) {
        self.blocked.set(self.blocked.get().saturating_add_signed(change));
    }

    pub(crate) fn blocked(&self) -> usize {
        self.blocked.get()
    }

    /// A dropped socket waits until its peer takes the rest. False if too many do.
    pub(crate) fn add_orphan(&self) -> bool {
        let has_room = self.orphans.get() < MAX_ORPHANS;
        match has_room {
            true => self.orphans.set(self.orphans.get() + 1),
            false => self.count(|one| one.orphans_reset += 1),
        }
        has_room
    }

    pub(crate) fn remove_orphan(&self) {
        self.orphans.set(self.orphans.get().saturating_sub(1));
    }

    /// Whether the thread is at its end.
    pub(crate) fn is_over(&self) -> bool {
        self.is_over.get()
    }

    /// An empty buffer.
    pub(crate) fn take_memory(&self) -> Vec<u8> {
        self.spare.borrow_mut().pop().unwrap_or_default()
    }

    pub(crate) fn release_memory(&self, mut memory: Vec<u8>) {
        let mut spare = self.spare.borrow_mut();
        if memory.capacity() <= MAX_SPARE_BYTES && spare.len() < MAX_SPARE {
            memory.clear();
            spare.push(memory);
        }
    }

    /// Submits what was started, and completes what is complete. To be called before the thread sleeps;
    /// sleeps itself for a moment if events come fast.
    pub(crate) fn park(&self) {
        self.has_parked.set(true);
        match self.pace.sleep() {
            Some(sleep) if !self.is_scheduled.get() => {
                if !self.turn(Some(sleep)) {
                    self.pace.slow_down();
                }
            }
            _ => {
                self.turn(None);
                self.pace.leave();
            }
        }
    }

    /// Submits what was started, and completes what is complete, at first after a sleep until there is
    /// something. Returns whether anything was received.
    pub(crate) fn turn(&self, mut sleep: Option<Duration>) -> bool {
        self.is_scheduled.set(false);
        let (mut has_more, mut has_received) = (false, false);
        loop {
            self.send_unsent();
            {
                let kernel = &mut *self.kernel.borrow_mut();
                let sleep = sleep.take().filter(|_| kernel.in_flight() > 0);
                if sleep.is_none() && !kernel.is_due() {
                    break;
                }
                has_more |= kernel.enter(sleep);
            }
            self.count(|one| one.enters += 1);
            has_received |= self.complete_all();
            // What was written during a send that has completed follows at once.
            if self.unsent.borrow().is_empty() {
                break;
            }
        }
        // In tests completions are held back.
        if has_more || cfg!(test) && self.kernel.borrow_mut().is_due() {
            self.schedule();
        }
        has_received
    }

    /// Has the driver take a turn.
    pub(crate) fn schedule(&self) {
        if !self.is_scheduled.replace(true) {
            self.driver.borrow().wake_by_ref();
        }
    }

    pub(crate) fn is_scheduled(&self) -> bool {
        self.is_scheduled.get()
    }

    /// There is something to submit: by the driver, after the tasks that are ready now, or by the next
    /// [`Ring::park`] that sleeps. While some task is always ready there is none, so the driver watches it.
    fn has_started(&self) {
        if self.pace.sleep().is_none() {
            self.schedule();
        } else if !self.is_guarded.replace(true) {
            self.driver.borrow().wake_by_ref();
        }
    }

    /// Begins a watch if anything was started for [`Ring::park`] since the last one.
    pub(crate) fn begin_watch(&self) -> bool {
        self.has_parked.set(false);
        self.is_guarded.replace(false)
    }

    /// A watch is over. A thread that never sleeps leaves submissions to the driver.
    pub(crate) fn end_watch(&self) {
        if !self.has_parked.get() {
            self.pace.slow_down();
        }
    }

    fn send_unsent(&self) {
        let mut unsent = self.unsent.take();
        for socket in unsent.drain(..) {
            if let Some(Unsent { bytes, is_awaited }) = socket.take_unsent() {
                let kernel = &mut *self.kernel.borrow_mut();
                // Submitted by this turn: nobody has to be woken for that.
                kernel.start(socket, Order::Send(bytes));
                if !is_awaited {
                    kernel.sleep_on();
                }
            }
        }
        // Nothing was added meanwhile: the list keeps its memory.
        self.unsent.replace(unsent);
    }

    /// Returns whether anything was received.
    fn complete_all(&self) -> bool {
        let mut has_received = false;
        loop {
            // Not borrowed while a task is woken, or a socket closed.
            let Some(completed) = self.kernel.borrow_mut().next() else { return has_received };
            has_received |= !matches!(completed.outcome, Outcome::Sent { .. });
            self.complete(completed);
        }
    }

    fn complete(&self, Completed { owner, outcome }: Completed<Rc<M>>) {
        self.count(|one| one.completed += 1);
        match outcome {
            Outcome::Received { bytes, more } => {
                if matches!(bytes, Err(Errno::NOBUFS)) {
                    self.count(|one| one.without_buffer += 1);
                }
                // A task that does not read must not keep buffers from the others.
                let keep = !self.kernel.borrow().is_short_of_buffers();
                owner.received(bytes, more, keep);
            }
            Outcome::Readable(outcome) => owner.readable(outcome),
            Outcome::Sent { memory, count } => owner.sent(memory, count),
        }
    }

    /// Sends what is unsent as far as sockets take it at once, and ends every operation.
    pub(crate) fn end(&self) {
        self.is_over.set(true);
        self.send_unsent();
        self.kernel.borrow_mut().enter(None);
        self.complete_all();
        let rest = self.kernel.borrow_mut().end();
        rest.into_iter().for_each(|completed| self.complete(completed));
        // They refer to the ring.
        self.unsent.take();
    }

    /// Has completions arrive in any order.
    #[cfg(test)]
    pub(crate) fn disorder(&self, seed: u64) {
        self.kernel.borrow_mut().disorder(seed);
    }

    /// Whether nothing is left: no operation, and no buffer in use.
    #[cfg(test)]
    pub(crate) fn is_clean(&self) -> bool {
        let kernel = self.kernel.borrow();
        kernel.in_flight() == 0
            && kernel.has_all_buffers()
            && self.unsent.borrow().is_empty()
            && self.blocked.get() == 0
            && self.orphans.get() == 0
    }

    /// Whether the thread would sleep in the ring.
    #[cfg(test)]
    pub(crate) fn is_fast(&self) -> bool {
        self.pace.sleep().is_some()
    }

    fn count(&self, change: impl FnOnce(&mut Statistics)) {
        let mut statistics = self.statistics.get();
        change(&mut statistics);
        self.statistics.set(statistics);
    }
}
