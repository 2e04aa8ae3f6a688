//! An agent that is leased to one request, and waiting for one.

use super::{Grant, Pool, Refused};
use crate::agent::{AgentId, Health};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};
use tokio::sync::oneshot;
use weir_model::pool::AgentAddress;

/// Time limit for learning the health of an agent.
const EXIT_REPORT_TIMEOUT: Duration = Duration::from_millis(500);

/// How a request to a leased agent ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The response is complete and the connection may carry another request.
    Keep,
    /// The response is complete and the connection is closed.
    Close,
    /// The request was aborted, by the client or the agent.
    Check,
    /// The agent has timed out, or its response is malformed.
    Kill,
    /// Nothing was sent.
    Unused {
        /// The connection is still open.
        connected: bool,
    },
}

impl Outcome {
    pub(super) fn is_complete(self) -> bool {
        matches!(self, Self::Keep | Self::Close)
    }

    /// The worker that keeps a connection.
    pub(super) fn owner(self, worker: usize) -> Option<usize> {
        match self {
            Self::Keep | Self::Unused { connected: true } => Some(worker),
            _ => None,
        }
    }
}

/// An agent, for one request. On drop the agent is released, and checked if anything was sent to
/// it.
#[derive(Debug)]
pub struct Lease {
    pool: Arc<Pool>,
    worker: usize,
    grant: Grant,
    sent: bool,
    released: bool,
    waited: Duration,
    granted: Instant,
}

impl Lease {
    pub(super) fn new(
        pool: Arc<Pool>,
        worker: usize,
        grant: Grant,
        waited: Duration,
        granted: Instant,
    ) -> Self {
        Self { pool, worker, grant, sent: false, released: false, waited, granted }
    }

    /// The agent.
    pub fn agent(&self) -> AgentId {
        self.grant.id
    }

    /// Its address; none for a process of this request alone.
    pub fn address(&self) -> Option<&AgentAddress> {
        self.grant.address.as_deref()
    }

    /// Whether the worker has an open connection to it.
    pub fn is_connected(&self) -> bool {
        self.grant.reuse
    }

    /// Time of the request in the queue.
    pub fn waited(&self) -> Duration {
        self.waited
    }

    /// The pool of the agent.
    pub fn pool(&self) -> &Arc<Pool> {
        &self.pool
    }

    /// From now on the agent may have received parts of the request.
    pub fn mark_sent(&mut self) {
        self.sent = true;
    }

    /// The agent responds. Needed for new connections only: one without a response may be waiting
    /// for a process behind it.
    pub fn mark_responding(&self) {
        self.pool.state().has_responded(self.grant.id);
    }

    /// Releases the agent after its connection was lost without a byte of a response. Returns
    /// whether the agent has exited cleanly: after its maximum number of requests, or on command.
    /// The request may be repeated then.
    pub async fn has_exited(self) -> bool {
        let (control, known) = (Arc::clone(&self.grant.control), self.pool.keeps_processes());
        let _ = self.release(Outcome::Check);
        known
            && matches!(
                tokio::time::timeout(EXIT_REPORT_TIMEOUT, control.health()).await,
                Ok(Health::Ended)
            )
    }

    /// Releases the agent; returns whether the worker should keep the connection.
    #[must_use]
    pub fn release(mut self, outcome: Outcome) -> bool {
        self.released = true;
        self.pool.release(self.grant.id, self.worker, self.granted, outcome)
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if !self.released {
            let outcome =
                if self.sent { Outcome::Check } else { Outcome::Unused { connected: false } };
            self.pool.release(self.grant.id, self.worker, self.granted, outcome);
        }
    }
}

/// A request in the queue; leaves the queue on drop.
#[derive(Debug)]
pub struct PendingLease {
    pool: Arc<Pool>,
    worker: usize,
    sequence: u64,
    since: Instant,
    limit: Duration,
    grant: oneshot::Receiver<Result<Grant, Refused>>,
    finished: bool,
}

impl PendingLease {
    pub(super) fn new(
        pool: Arc<Pool>,
        worker: usize,
        sequence: u64,
        since: Instant,
        limit: Duration,
        grant: oneshot::Receiver<Result<Grant, Refused>>,
    ) -> Self {
        Self { pool, worker, sequence, since, limit, grant, finished: false }
    }

    /// The longest time in the queue.
    pub fn limit(&self) -> Duration {
        self.limit
    }

    /// Waits for an agent.
    pub fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<Lease, Refused>> {
        let grant = ready!(Pin::new(&mut self.grant).poll(cx));
        self.finished = true;
        // Without a result, the pool is closed.
        let closed = Refused::Unavailable { retry: Duration::from_secs(1) };
        Poll::Ready(grant.unwrap_or(Err(closed)).map(|grant| self.lease(grant)))
    }

    /// Leaves the queue after the maximum time.
    pub fn expire(self) -> Refused {
        let retry = self.pool.retry(&self.pool.state());
        self.pool.count(|counts| counts.rejected_wait += 1);
        Refused::Expired { retry }
    }

    fn lease(&self, grant: Grant) -> Lease {
        let now = Instant::now();
        let waited = now.saturating_duration_since(self.since);
        Lease::new(Arc::clone(&self.pool), self.worker, grant, waited, now)
    }
}

impl Drop for PendingLease {
    fn drop(&mut self) {
        if self.finished || self.pool.state().leave(self.worker, self.sequence) {
            return;
        }
        // An agent was granted meanwhile: the connection of the worker is still open.
        if let Ok(Ok(grant)) = self.grant.try_recv() {
            let connected = grant.reuse;
            let _ = self.lease(grant).release(Outcome::Unused { connected });
        }
    }
}
