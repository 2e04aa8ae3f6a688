//! The queue of a pool: requests that wait for an agent, in a row for each worker.

use super::{Grant, PendingLease, Pool, Refused, State};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

/// A request of the worker with the connection is served first, unless a request of another worker
/// has waited this much longer: a handover costs a connection.
const AFFINITY_TIME: Duration = Duration::from_millis(5);

/// A waiting request.
#[derive(Debug)]
pub(super) struct Waiter {
    sequence: u64,
    pub(super) worker: usize,
    pub(super) since: Instant,
    grant: oneshot::Sender<Result<Grant, Refused>>,
}

impl Waiter {
    /// Gives the request an agent; if the request has ended, the agent is released when the grant
    /// is dropped.
    pub(super) fn grant(self, grant: Result<Grant, Refused>) {
        // Leaving the queue and granting happen under the same lock: the receiver exists.
        let _ = self.grant.send(grant);
    }
}

/// The rows of all workers.
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

    /// The next request for an agent that `owner` has a connection to.
    pub(super) fn next(&mut self, owner: Option<usize>) -> Option<Waiter> {
        let front = |row: &VecDeque<Waiter>| row.front().map(|waiter| waiter.since);
        let oldest = (0..self.rows.len())
            .filter(|&row| !self.rows[row].is_empty())
            .min_by_key(|&row| self.rows[row].front().map(|waiter| waiter.sequence))?;
        let own = owner.filter(|&owner| {
            let (own, oldest) = (front(&self.rows[owner]), front(&self.rows[oldest]));
            own.is_some_and(|own| oldest.is_some_and(|oldest| own <= oldest + AFFINITY_TIME))
        });
        let waiter = self.rows[own.unwrap_or(oldest)].pop_front()?;
        self.waiting -= 1;
        Some(waiter)
    }

    fn leave(&mut self, worker: usize, sequence: u64) -> bool {
        let row = &mut self.rows[worker];
        let Ok(at) = row.binary_search_by_key(&sequence, |waiter| waiter.sequence) else {
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
    ) -> (PendingLease, usize) {
        let (grant, receiver) = oneshot::channel();
        let sequence = self.waiters.next;
        self.waiters.next += 1;
        self.waiters.waiting += 1;
        self.waiters.rows[worker].push_back(Waiter { sequence, worker, since: now, grant });
        let waiting = PendingLease::new(pool, worker, sequence, now, self.queue.wait, receiver);
        (waiting, self.waiters.waiting)
    }

    pub(super) fn next_waiter(&mut self, owner: Option<usize>) -> Option<Waiter> {
        self.waiters.next(owner)
    }

    /// Leaves the queue; false if an agent was granted meanwhile.
    pub(super) fn leave(&mut self, worker: usize, sequence: u64) -> bool {
        self.waiters.leave(worker, sequence)
    }
}
