//! A pool as workers see it: agents to be leased, and the queue.

mod lease;
mod queue;
mod state;

pub use lease::{Lease, Outcome, PendingLease};
pub(crate) use state::{ExitReason, Plan};

use crate::agent::{AgentCommand, AgentControl, AgentId, Phase};
use crate::invalidation::InvalidationQueue;
use crate::log::{Lines, Log, Throttle};
use crate::statistics::{Counts, PoolSnapshot, QueueLength};
use queue::Waiter;
use state::State;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::Notify;
use weir_model::pool::{AgentAddress, AgentProtocol, AgentSource};

/// Why a request gets no agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The queue is full.
    Full {
        /// When a retry may succeed.
        retry: Duration,
    },
    /// The maximum time in the queue has passed.
    Expired {
        /// When a retry may succeed.
        retry: Duration,
    },
    /// No agent can be started.
    Unavailable {
        /// When the next start is tried.
        retry: Duration,
    },
}

/// A pool. All state is behind one lock, which is held for a few instructions.
pub struct Pool {
    name: String,
    protocol: AgentProtocol,
    source: AgentSource,
    state: Mutex<State>,
    /// Kept when the program changes.
    counts: Arc<Mutex<Counts>>,
    throttle: Mutex<Throttle>,
    /// Wakes the supervisor.
    pub(crate) wake: Notify,
    invalidations: Arc<[Arc<InvalidationQueue>]>,
    log: Log,
}

impl std::fmt::Debug for Pool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pool").field("name", &self.name).finish_non_exhaustive()
    }
}

/// An agent for a request.
#[derive(Debug)]
pub(crate) struct Grant {
    id: AgentId,
    address: Option<Arc<AgentAddress>>,
    control: Arc<AgentControl>,
    /// The worker has an open connection to it.
    reuse: bool,
}

impl Pool {
    pub(crate) fn new(
        config: &weir_model::pool::Pool,
        counts: Arc<Mutex<Counts>>,
        invalidations: Arc<[Arc<InvalidationQueue>]>,
        log: Log,
    ) -> Arc<Self> {
        Arc::new(Self {
            name: config.name.clone(),
            protocol: config.protocol,
            source: config.source.clone(),
            state: Mutex::new(State::new(config, invalidations.len())),
            counts,
            throttle: Mutex::new(Throttle::new()),
            wake: Notify::new(),
            invalidations,
            log,
        })
    }

    /// Whether a configuration can use the same agents.
    pub(crate) fn has_agents_of(&self, config: &weir_model::pool::Pool) -> bool {
        (&self.source, self.protocol) == (&config.source, config.protocol)
    }

    /// Takes the settings that can change while agents run.
    pub(crate) fn adjust(&self, config: &weir_model::pool::Pool) {
        self.state().adjust(config);
        self.wake.notify_one();
    }

    /// Name of the pool.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Protocol of its agents.
    pub fn protocol(&self) -> AgentProtocol {
        self.protocol
    }

    pub(crate) fn request_timeout(&self) -> Duration {
        self.state().request_timeout
    }

    pub(crate) fn source(&self) -> &AgentSource {
        &self.source
    }

    pub(crate) fn counts(&self) -> &Arc<Mutex<Counts>> {
        &self.counts
    }

    /// How long a request may wait for an agent.
    pub fn queue_wait(&self) -> Duration {
        self.state().queue.wait
    }

    /// Whether weir starts its agents and keeps them: a lease is a process then, not only a slot.
    pub fn keeps_processes(&self) -> bool {
        matches!(self.source, AgentSource::Start(_)) && self.protocol != AgentProtocol::Cgi
    }

    /// Leases an agent to a worker, or enqueues the request.
    ///
    /// # Errors
    /// The queue is full, or no agent can be started.
    pub fn lease(self: &Arc<Self>, worker: usize) -> Result<Result<Lease, PendingLease>, Refused> {
        let now = Instant::now();
        let mut state = self.state();
        if state.queued() == 0
            && let Some(grant) = self.find_agent(&mut state, worker, now)
        {
            drop(state);
            self.count(|counts| counts.wait.record(Duration::ZERO));
            return Ok(Ok(Lease::new(Arc::clone(self), worker, grant, Duration::ZERO, now)));
        }
        if let Some(retry) = state.blocked(now) {
            self.count(|counts| counts.rejected_unavailable += 1);
            return Err(Refused::Unavailable { retry });
        }
        if state.queued() >= state.queue.max {
            let retry = self.retry(&state);
            self.count(|counts| counts.rejected_full += 1);
            return Err(Refused::Full { retry });
        }
        let (waiting, queued) = state.enqueue(Arc::clone(self), worker, now);
        self.count(|counts| counts.peak = counts.peak.max(queued));
        // Wakes the supervisor only if it may start another agent.
        let grows = self.keeps_processes() && state.agents.len() < state.counts.max;
        drop(state);
        if grows {
            self.wake.notify_one();
        }
        Ok(Err(waiting))
    }

    /// When a retry may succeed: the expected time until the queue is empty.
    fn retry(&self, state: &State) -> Duration {
        let mean = self.lock_counts().duration.summary().mean;
        let agents = state.counts.max.max(1);
        let seconds = mean * (state.queued() + 1) as f64 / agents as f64;
        Duration::from_secs(seconds.ceil().clamp(1.0, 60.0) as u64)
    }

    /// Finds an agent for a worker: one that it has a connection to, one that no worker has a
    /// connection to, one of another worker, or a new slot.
    fn find_agent(&self, state: &mut State, worker: usize, now: Instant) -> Option<Grant> {
        if let Some((id, owner)) = state.pop_available(worker) {
            let reuse = owner == Some(worker);
            if let Some(other) = owner.filter(|_| !reuse) {
                self.invalidations[other].push(id);
            }
            return state.grant(id, reuse, now);
        }
        if self.keeps_processes() || state.agents.len() >= state.counts.max {
            return None;
        }
        let address = match &self.source {
            AgentSource::Connect(address) => Some(Arc::new(address.clone())),
            AgentSource::Start(_) => None,
        };
        let id = state.add(Phase::Busy, address, now);
        state.grant(id, false, now)
    }

    /// Releases a lease; returns whether the worker keeps its connection.
    fn release(&self, id: AgentId, worker: usize, granted: Instant, outcome: Outcome) -> bool {
        let now = Instant::now();
        let mut state = self.state();
        if outcome.is_complete() {
            state.served(id);
            self.count(|counts| {
                counts.served += 1;
                counts.duration.record(now.saturating_duration_since(granted));
            });
        }
        if outcome == Outcome::Kill {
            self.count(|counts| counts.killed += 1);
        }
        let owner = outcome.owner(worker);
        let kept = if self.keeps_processes() {
            self.release_process(&mut state, id, owner, outcome, now)
        } else {
            let stays = owner.is_some() && self.protocol != AgentProtocol::Cgi;
            if stays && state.may_stay(id, now) {
                self.reuse(&mut state, id, owner, now)
            } else {
                state.agents.remove(&id);
                self.fill(&mut state, now);
                false
            }
        };
        drop(state);
        kept
    }

    fn release_process(
        &self,
        state: &mut State,
        id: AgentId,
        owner: Option<usize>,
        outcome: Outcome,
        now: Instant,
    ) -> bool {
        let command = match outcome {
            Outcome::Keep | Outcome::Close | Outcome::Unused { .. } if state.may_stay(id, now) => {
                return self.reuse(state, id, owner, now);
            }
            Outcome::Keep | Outcome::Close | Outcome::Unused { .. } => {
                if !state.closed {
                    self.count(|counts| counts.restarted += 1);
                }
                AgentCommand::Stop
            }
            Outcome::Check => AgentCommand::Check,
            Outcome::Kill => AgentCommand::Kill,
        };
        state.drain(id, command);
        self.wake.notify_one();
        false
    }

    /// Gives an agent to the next waiter, or parks it; returns whether `owner` keeps its
    /// connection.
    fn reuse(&self, state: &mut State, id: AgentId, owner: Option<usize>, now: Instant) -> bool {
        let Some(waiter) = state.next_waiter(owner) else {
            return state.park(id, owner, now) && owner.is_some();
        };
        let reuse = owner == Some(waiter.worker);
        if let Some(grant) = state.grant(id, reuse, now) {
            self.grant_waiter(waiter, grant, now);
        }
        reuse
    }

    fn grant_waiter(&self, waiter: Waiter, grant: Grant, now: Instant) {
        self.count(|counts| counts.wait.record(now.saturating_duration_since(waiter.since)));
        waiter.grant(Ok(grant));
    }

    /// Gives free slots to waiters.
    fn fill(&self, state: &mut State, now: Instant) {
        if self.keeps_processes() {
            return;
        }
        while state.agents.len() < state.counts.max
            && let Some(waiter) = state.next_waiter(None)
        {
            let Some(grant) = self.find_agent(state, waiter.worker, now) else { return };
            self.grant_waiter(waiter, grant, now);
        }
    }

    /// Replaces every agent, one after the other, when idle.
    pub fn recycle(&self) {
        let mut state = self.state();
        state.generation += 1;
        if !self.keeps_processes() {
            self.close_idle(&mut state);
        }
        drop(state);
        self.wake.notify_one();
    }

    /// Stops idle agents, down to `min`.
    pub fn trim(&self) {
        let mut state = self.state();
        if self.keeps_processes() {
            let spare = state.living().saturating_sub(state.counts.min);
            state.drain_idle(spare);
        } else {
            self.close_idle(&mut state);
        }
        drop(state);
        self.wake.notify_one();
    }

    /// Closes idle connections.
    fn close_idle(&self, state: &mut State) {
        for (id, owner) in state.take_available() {
            if let Some(owner) = owner {
                self.invalidations[owner].push(id);
            }
        }
    }

    /// State and figures.
    pub fn snapshot(&self) -> PoolSnapshot {
        let state = self.state();
        let counts = self.lock_counts();
        PoolSnapshot {
            name: self.name.clone(),
            protocol: self.protocol.to_string(),
            ready: !state.is_down(),
            last_error: state.last_error.clone(),
            agents: state.states(),
            queue: QueueLength { current: state.queued(), peak: counts.peak, max: state.queue.max },
            served: counts.served,
            rejected_full: counts.rejected_full,
            rejected_wait: counts.rejected_wait,
            rejected_unavailable: counts.rejected_unavailable,
            started: counts.started,
            failed_starts: counts.failed_starts,
            restarted: counts.restarted,
            crashed: counts.crashed,
            killed: counts.killed,
            log_dropped: counts.log_dropped,
            request_wait: counts.wait.summary(),
            request_duration: counts.duration.summary(),
        }
    }

    /// Logs standard error of an agent, in complete lines.
    pub fn log_text(&self, text: &[u8]) {
        let mut lines = Lines::default();
        lines.push(text, |line| self.log(&line));
        lines.finish(|line| self.log(&line));
    }

    /// Logs a line of an agent's standard error.
    pub fn log(&self, line: &str) {
        let admitted =
            self.throttle.lock().unwrap_or_else(PoisonError::into_inner).admits(Instant::now());
        if admitted {
            (self.log)(format!("pool {}: {line}", self.name));
        } else {
            self.count(|counts| counts.log_dropped += 1);
        }
    }

    /// Logs a message for the operator.
    pub(crate) fn report(&self, text: &str) {
        (self.log)(format!("weir: pool {}: {text}", self.name));
    }

    fn count(&self, change: impl FnOnce(&mut Counts)) {
        change(&mut self.lock_counts());
    }

    fn lock_counts(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
