//! An agent that one request has, and the wait for one.

use super::agent::Fate;
use super::{AgentId, Grant, Orders, Pool, Refused};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};
use tokio::sync::oneshot;
use weir_config::AgentAddress;

/// How long it may take until it is known what has become of an agent.
const VERDICT: Duration = Duration::from_millis(500);

/// How a request over a leased agent ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The answer is whole and the connection may carry another request.
    Keep,
    /// The answer is whole and the connection is closed.
    Close,
    /// It broke off: the client left, or the agent did.
    Check,
    /// The agent took too long, or what it sent is no answer.
    Kill,
    /// Nothing was sent.
    Unused {
        /// There is still a connection to it.
        connected: bool,
    },
}

impl Outcome {
    pub(super) fn is_whole(self) -> bool {
        matches!(self, Self::Keep | Self::Close)
    }

    /// Who has a connection then.
    pub(super) fn home(self, worker: usize) -> Option<usize> {
        match self {
            Self::Keep | Self::Unused { connected: true } => Some(worker),
            _ => None,
        }
    }
}

/// An agent, for one request. Dropped it is given back as one that may not be well, if anything
/// was sent to it.
#[derive(Debug)]
pub struct Lease {
    pool: Arc<Pool>,
    worker: usize,
    id: AgentId,
    address: Option<Arc<AgentAddress>>,
    orders: Arc<Orders>,
    reuse: bool,
    sent: bool,
    settled: bool,
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
        // Refusals do not come here; an agent that does not exist is settled without effect.
        let (id, address, orders, reuse) = match grant {
            Grant::Agent { id, address, orders, reuse } => (id, address, orders, reuse),
            Grant::Refused(_) => (AgentId(u64::MAX), None, Arc::default(), false),
        };
        let (sent, settled) = (false, false);
        Self { pool, worker, id, address, orders, reuse, sent, settled, waited, granted }
    }

    /// Which agent.
    pub fn agent(&self) -> AgentId {
        self.id
    }

    /// Where it listens; nowhere if it is a process for this request alone.
    pub fn address(&self) -> Option<&AgentAddress> {
        self.address.as_deref()
    }

    /// The worker has kept a connection to it.
    pub fn is_connected(&self) -> bool {
        self.reuse
    }

    /// How long the request waited for it.
    pub fn waited(&self) -> Duration {
        self.waited
    }

    /// The pool it is of.
    pub fn pool(&self) -> &Arc<Pool> {
        &self.pool
    }

    /// From now on the agent may have seen something of the request.
    pub fn sending(&mut self) {
        self.sent = true;
    }

    /// The agent answers. Needs to be said of new connections only: one that never answers may be
    /// waiting for a process behind it.
    pub fn answers(&self) {
        self.pool.state().proven(self.id);
    }

    /// Gives it back after its connection was lost without a word of an answer, and finds out
    /// whether that was because it has ended in order: after so many requests, or because it was
    /// told to. The request is then as good as never sent.
    pub async fn has_ended(self) -> bool {
        let (orders, known) = (Arc::clone(&self.orders), self.pool.keeps_processes());
        let _ = self.settle(Outcome::Check);
        known && matches!(tokio::time::timeout(VERDICT, orders.fate()).await, Ok(Fate::Ended))
    }

    /// Gives it back; whether the worker is to keep its connection, if there is one left.
    #[must_use]
    pub fn settle(mut self, outcome: Outcome) -> bool {
        self.settled = true;
        self.pool.settle(self.id, self.worker, self.granted, outcome)
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if !self.settled {
            let outcome =
                if self.sent { Outcome::Check } else { Outcome::Unused { connected: false } };
            self.pool.settle(self.id, self.worker, self.granted, outcome);
        }
    }
}

/// A place in the queue; given up when dropped.
#[derive(Debug)]
pub struct Waiting {
    pool: Arc<Pool>,
    worker: usize,
    ticket: u64,
    since: Instant,
    limit: Duration,
    grant: oneshot::Receiver<Grant>,
    over: bool,
}

impl Waiting {
    pub(super) fn new(
        pool: Arc<Pool>,
        worker: usize,
        ticket: u64,
        since: Instant,
        limit: Duration,
        grant: oneshot::Receiver<Grant>,
    ) -> Self {
        Self { pool, worker, ticket, since, limit, grant, over: false }
    }

    /// How long it may wait at most.
    pub fn limit(&self) -> Duration {
        self.limit
    }

    /// Waits for an agent.
    pub fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<Lease, Refused>> {
        let grant = ready!(Pin::new(&mut self.grant).poll(cx));
        self.over = true;
        Poll::Ready(match grant {
            Ok(Grant::Refused(refused)) => Err(refused),
            Ok(grant) => Ok(self.lease(grant)),
            // The pool is gone.
            Err(_) => Err(Refused::Unavailable { retry: Duration::from_secs(1) }),
        })
    }

    /// The wait has been too long.
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

impl Drop for Waiting {
    fn drop(&mut self) {
        if self.over || self.pool.state().leave(self.worker, self.ticket) {
            return;
        }
        // It was served at the last moment: a connection that the worker has is still there.
        if let Ok(grant) = self.grant.try_recv()
            && let Grant::Agent { reuse, .. } = grant
        {
            let _ = self.lease(grant).settle(Outcome::Unused { connected: reuse });
        }
    }
}
