//! Time limits at almost no cost.
//!
//! A request has a few limits (head, first byte, progress, the entire request), which are rarely
//! exceeded. One timer per connection is sufficient: a later limit is only stored, and the timer is
//! set again when it fires too early.

use crate::clock;
use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};
use tokio::time::Sleep;

/// The event that is awaited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// The first byte of a request.
    Idle,
    /// The rest of a request head.
    Head,
    /// Bytes of a request body.
    RequestBody,
    /// An agent of a pool.
    Agent,
    /// An upstream to connect.
    Connect,
    /// The first byte of the response of an upstream.
    FirstByte,
    /// An upstream to take or to send bytes of a body.
    UpstreamBody,
    /// The client to accept bytes of the response.
    Client,
    /// The disk to read bytes of a file.
    Disk,
    /// A byte of an upgraded connection, in either direction.
    Upgraded,
    /// The other side of a half-closed upgraded connection to close it, too.
    HalfClosed,
    /// A last request on a connection that will be closed.
    LastChance,
    /// The client to receive the last response before the connection is closed.
    Linger,
}

/// The limit that expired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expired {
    /// That of this wait.
    Wait(Wait),
    /// The deadline of the request.
    Request,
}

/// The limits of one connection, or of one HTTP/2 stream.
#[derive(Debug, Default)]
pub struct Deadline {
    request: Cell<Option<Instant>>,
    wait: Cell<Option<(Wait, Instant)>>,
    timer: RefCell<Option<Timer>>,
}

#[derive(Debug)]
struct Timer {
    sleep: Pin<Box<Sleep>>,
    armed: Instant,
    /// The task to wake; a timer that would wake the same task is not polled again.
    waker: Option<Waker>,
}

/// Longer than any request.
pub const EVER: Duration = Duration::from_secs(86_400);

impl Deadline {
    /// Sets or removes the deadline of the request.
    pub fn set_request(&self, at: Option<Instant>) {
        self.request.set(at);
    }

    /// A deadline for another wait at the same time, with the same end.
    pub fn for_concurrent_wait(&self) -> Self {
        Self { request: Cell::new(self.request.get()), ..Self::default() }
    }

    /// Sets the deadline of the request, unless it is earlier already.
    pub fn bring_forward(&self, at: Instant) {
        self.request.set(Some(self.request.get().map_or(at, |end| end.min(at))));
    }

    /// Whether the deadline is after `then`.
    pub fn allows(&self, then: Instant) -> bool {
        self.request.get().is_none_or(|end| then < end)
    }

    /// Restarts the limit of the wait, after progress.
    pub fn progress(&self) {
        self.wait.set(None);
    }

    /// Waits without a limit other than the deadline of the request.
    pub fn poll_request(&self, cx: &mut Context<'_>) -> Poll<Expired> {
        self.poll(cx, Wait::FirstByte, EVER)
    }

    /// The result of `work`, unless it takes longer than `limit` or the deadline of the request
    /// expires.
    ///
    /// # Errors
    /// What expired.
    pub async fn within<T>(
        &self,
        wait: Wait,
        limit: Duration,
        work: impl Future<Output = T>,
    ) -> Result<T, Expired> {
        let mut work = pin!(work);
        self.progress();
        poll_fn(|cx| match work.as_mut().poll(cx) {
            Poll::Ready(done) => Poll::Ready(Ok(done)),
            Poll::Pending => self.poll(cx, wait, limit).map(Err),
        })
        .await
    }

    /// Call while `wait` is pending: ready once it has lasted longer than `limit` without progress,
    /// or the deadline of the request has expired.
    pub fn poll(&self, cx: &mut Context<'_>, wait: Wait, limit: Duration) -> Poll<Expired> {
        let end = match self.wait.get() {
            Some((current, end)) if current == wait => end,
            _ => {
                let end = clock::recent() + limit;
                self.wait.set(Some((wait, end)));
                end
            }
        };
        let earliest = self.request.get().map_or(end, |request| request.min(end));
        let mut timer = self.timer.borrow_mut();
        let timer = timer.get_or_insert_with(|| Timer::new(earliest));
        if timer.poll(cx, earliest).is_pending() {
            return Poll::Pending;
        }
        self.wait.set(None);
        Poll::Ready(if earliest < end { Expired::Request } else { Expired::Wait(wait) })
    }
}

impl Timer {
    fn new(at: Instant) -> Self {
        Self { sleep: Box::pin(tokio::time::sleep_until(at.into())), armed: at, waker: None }
    }

    fn poll(&mut self, cx: &mut Context<'_>, earliest: Instant) -> Poll<()> {
        if earliest < self.armed {
            self.set(earliest);
        }
        loop {
            let same_task = self.waker.as_ref().is_some_and(|w| w.will_wake(cx.waker()));
            if same_task && !self.sleep.is_elapsed() {
                return Poll::Pending;
            }
            self.waker = None;
            if self.sleep.as_mut().poll(cx).is_pending() {
                self.waker = Some(cx.waker().clone());
                return Poll::Pending;
            }
            if Instant::now() >= earliest {
                return Poll::Ready(());
            }
            self.set(earliest);
        }
    }

    fn set(&mut self, at: Instant) {
        self.sleep.as_mut().reset(at.into());
        self.armed = at;
        self.waker = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::poll_fn;

    fn run(test: impl Future<Output = ()>) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
        runtime.expect("a runtime").block_on(test);
    }

    #[test]
    fn a_wait_ends_at_its_own_limit_and_a_request_at_its_own() {
        run(async {
            let deadline = Deadline::default();
            let short = Duration::from_millis(5);
            let ended = poll_fn(|cx| deadline.poll(cx, Wait::Head, short)).await;
            assert_eq!(ended, Expired::Wait(Wait::Head));
            deadline.set_request(Some(Instant::now() + short));
            let long = Duration::from_secs(60);
            let ended = poll_fn(|cx| deadline.poll(cx, Wait::FirstByte, long)).await;
            assert_eq!(ended, Expired::Request);
        });
    }

    #[test]
    fn progress_and_another_wait_start_afresh() {
        run(async {
            let deadline = Deadline::default();
            // Much longer than a pause: a busy machine may extend pauses.
            let limit = Duration::from_secs(1);
            let start = Instant::now();
            for wait in [Wait::Head, Wait::RequestBody, Wait::FirstByte, Wait::Client] {
                clock::turn();
                poll_fn(|cx| {
                    assert!(deadline.poll(cx, wait, limit).is_pending());
                    Poll::Ready(())
                })
                .await;
                tokio::time::sleep(limit * 3 / 10).await;
                deadline.progress();
            }
            clock::turn();
            assert!(start.elapsed() > limit);
            let ended = poll_fn(|cx| deadline.poll(cx, Wait::Idle, limit)).await;
            assert_eq!(ended, Expired::Wait(Wait::Idle));
        });
    }
}
