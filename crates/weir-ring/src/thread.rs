//! The ring of this thread: start, task, end.

use crate::ring::{Ring, Statistics};
use crate::socket::{Shared, Socket};
use std::cell::OnceCell;
use std::future::poll_fn;
use std::io;
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;
use tokio::time::Sleep;

/// How long operations wait for their submission at most, while the thread never sleeps.
const GUARD_INTERVAL: Duration = Duration::from_millis(2);
/// How often [`settle`] looks.
const SETTLE_INTERVAL: Duration = Duration::from_millis(10);

thread_local! {
    static CURRENT: OnceCell<Rc<Ring<Shared>>> = const { OnceCell::new() };
}

/// The use of a ring by this thread, until dropped: after its runtime, on the thread that has started it.
#[derive(Debug)]
pub struct Guard {
    ring: Rc<Ring<Shared>>,
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.ring.end();
    }
}

/// Starts a ring for the sockets of this thread, once. [`driver`] must run in the thread's runtime, and
/// [`park`] before each sleep.
///
/// # Errors
///
/// The kernel is older than Linux 6.1, or does not permit io_uring.
pub fn start() -> io::Result<Guard> {
    let ring = Rc::new(Ring::new()?);
    let is_first = CURRENT.with(|current| current.set(Rc::clone(&ring)).is_ok());
    assert!(is_first, "a thread has one ring");
    Ok(Guard { ring })
}

/// Whether a ring can be started here.
///
/// # Errors
///
/// As of [`start`].
pub fn probe() -> io::Result<()> {
    Ring::<Shared>::new()?.check()
}

/// Whether this thread has a ring.
pub fn is_started() -> bool {
    CURRENT.with(|current| current.get().is_some())
}

/// A connected stream socket, TCP or Unix, on the ring of this thread.
///
/// # Errors
///
/// The thread has no ring.
pub fn adopt(fd: OwnedFd) -> io::Result<Socket> {
    let ring = current().ok_or_else(|| io::Error::other("this thread has no ring"))?;
    Ok(Socket::new(ring, fd))
}

/// Has the ring look for completed operations soon; to be called now and then, in case an event was lost.
pub fn turn_soon() {
    if let Some(ring) = current() {
        ring.schedule();
    }
}

/// Waits until the peers of all sockets, the dropped ones included, have taken what was written.
pub async fn settle() {
    // What was written last may not be submitted yet.
    if let Some(ring) = current() {
        ring.turn(None);
    }
    while current().is_some_and(|ring| ring.blocked() > 0) {
        tokio::time::sleep(SETTLE_INTERVAL).await;
    }
}

/// What the ring of this thread has done.
pub fn statistics() -> Statistics {
    current().map_or_else(Statistics::default, |ring| ring.statistics())
}

/// Submits what the tasks of this thread have started, and wakes those whose operations have completed.
/// Sleeps for a moment itself while events come fast. To be called before the thread sleeps
/// (`on_thread_park`).
pub fn park() {
    CURRENT.with(|current| {
        if let Some(ring) = current.get() {
            ring.park();
        }
    });
}

/// A task that looks after the ring of this thread when [`park`] does not: after a sleep of the thread
/// elsewhere, and while the thread never sleeps because some task is always ready. It ends with the runtime;
/// without a ring at once. Must be called in the runtime.
///
/// # Errors
///
/// The runtime cannot watch the ring.
pub fn driver() -> io::Result<impl Future<Output = ()>> {
    let ring = current();
    let watched = ring.as_ref().map(|ring| ring.watch()).transpose()?;
    let mut guard: Option<Pin<Box<Sleep>>> = None;
    Ok(poll_fn(move |cx| {
        let Some((ring, watched)) = ring.as_ref().zip(watched.as_ref()) else {
            return Poll::Ready(());
        };
        ring.set_driver(cx.waker());
        let mut is_due = ring.is_scheduled();
        while let Poll::Ready(ready) = watched.poll_read_ready(cx) {
            match ready {
                Ok(mut ready) => ready.clear_ready(),
                Err(_) => return Poll::Ready(()),
            }
            is_due = true;
        }
        if guard.as_mut().is_some_and(|guard| guard.as_mut().poll(cx).is_ready()) {
            guard = None;
            ring.end_watch();
            is_due = true;
        }
        if is_due {
            ring.turn(None);
        }
        if guard.is_none() && ring.begin_watch() {
            let sleep = guard.insert(Box::pin(tokio::time::sleep(GUARD_INTERVAL)));
            // Not over yet: this registers the waker.
            let _ = sleep.as_mut().poll(cx);
        }
        Poll::Pending
    }))
}

pub(crate) fn current() -> Option<Rc<Ring<Shared>>> {
    CURRENT.with(|current| current.get().map(Rc::clone))
}
