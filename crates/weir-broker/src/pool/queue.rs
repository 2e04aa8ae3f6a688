//! Requests that wait for an agent: a row for each worker.

use super::{Grant, Pool, State, Waiting};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

/// How much longer another worker's request must have waited to be served before one of the worker
/// that has the connection: handing over costs a connection.
const PATIENCE: Duration = Duration::from_millis(5);

/// One request.
#[derive(Debug)]
pub(super) struct Waiter {
    ticket: u64,
    pub(super) worker: usize,
    pub(super) since: Instant,
    grant: oneshot::Sender<Grant>,
}

impl Waiter {
    /// Whoever waited takes it, or gives it back when it is dropped.
    pub(super) fn give(self, grant: Grant) {
        // Leaving the queue and being served happen under the same lock: somebody is there.
        let _ = self.grant.send(grant);
    }
}

/// All of them.
#[derive(Debug)]
pub(super) struct Queue {
    rows: Vec<VecDeque<Waiter>>,
    waiting: usize,
    next: u64,
}

impl Queue {
    pub(super) fn new(workers: usize) -> Self {
        Self { rows: (0..workers).map(|_| VecDeque::new()).collect(), waiting: 0, next: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.waiting
    }

    /// The next one for an agent that `home` has a connection to.
    pub(super) fn next(&mut self, home: Option<usize>) -> Option<Waiter> {
        let front = |row: &VecDeque<Waiter>| row.front().map(|waiter| waiter.since);
        let oldest = (0..self.rows.len())
            .filter(|&row| !self.rows[row].is_empty())
            .min_by_key(|&row| self.rows[row].front().map(|waiter| waiter.ticket))?;
        let own = home.filter(|&home| {
            let (own, oldest) = (front(&self.rows[home]), front(&self.rows[oldest]));
            own.is_some_and(|own| oldest.is_some_and(|oldest| own <= oldest + PATIENCE))
        });
        let waiter = self.rows[own.unwrap_or(oldest)].pop_front()?;
        self.waiting -= 1;
        Some(waiter)
    }

    fn leave(&mut self, worker: usize, ticket: u64) -> bool {
        let row = &mut self.rows[worker];
        let Ok(at) = row.binary_search_by_key(&ticket, |waiter| waiter.ticket) else {
            return false;
        };
        row.remove(at);
        self.waiting -= 1;
        true
    }
}

impl State {
    pub(super) fn queued(&self) -> usize {
        self.waiters.len()
    }

    pub(super) fn enqueue(
        &mut self,
        pool: Arc<Pool>,
        worker: usize,
        now: Instant,
    ) -> (Waiting, usize) {
        let (grant, receiver) = oneshot::channel();
        let ticket = self.waiters.next;
        self.waiters.next += 1;
        self.waiters.waiting += 1;
        self.waiters.rows[worker].push_back(Waiter { ticket, worker, since: now, grant });
        let waiting = Waiting::new(pool, worker, ticket, now, self.queue.wait, receiver);
        (waiting, self.waiters.waiting)
    }

    pub(super) fn next_waiter(&mut self, home: Option<usize>) -> Option<Waiter> {
        self.waiters.next(home)
    }

    /// Leaves the queue; `false` if it has been served meanwhile.
    pub(super) fn leave(&mut self, worker: usize, ticket: u64) -> bool {
        self.waiters.leave(worker, ticket)
    }
}
