//! A pool as workers see it: agents to be leased, and the queue before them.

mod agent;
mod lease;
mod queue;
mod state;

pub use agent::AgentId;
pub(crate) use agent::{Order, Orders};
pub use lease::{Lease, Outcome, Waiting};
pub(crate) use state::{Gone, Plan};

use crate::log::{Lines, Log, Throttle};
use crate::mailbox::Mailbox;
use crate::statistics::{Counts, PoolSnapshot};
use agent::Phase;
use queue::Waiter;
use state::State;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::Notify;
use weir_config::{AgentAddress, AgentProtocol, AgentSource};

/// Why a request gets no agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// As many requests wait as may.
    Full {
        /// When it may be worth while to come again.
        retry: Duration,
    },
    /// It has waited as long as it may.
    Expired {
        /// When it may be worth while to come again.
        retry: Duration,
    },
    /// No agent can be started.
    Unavailable {
        /// When that is tried again.
        retry: Duration,
    },
}

/// A pool. Everything about it is behind one lock, which is held for a few instructions.
pub struct Pool {
    name: String,
    protocol: AgentProtocol,
    source: AgentSource,
    state: Mutex<State>,
    /// How long an agent may take for a request.
    patience: Mutex<Duration>,
    /// Outlive a change of the program.
    counts: Arc<Mutex<Counts>>,
    throttle: Mutex<Throttle>,
    /// Wakes the supervisor.
    pub(crate) wake: Notify,
    mailboxes: Arc<[Arc<Mailbox>]>,
    log: Log,
}

impl std::fmt::Debug for Pool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pool").field("name", &self.name).finish_non_exhaustive()
    }
}

/// A request has an agent, or waits for one.
#[derive(Debug)]
pub(crate) enum Grant {
    /// This one.
    Agent {
        id: AgentId,
        address: Option<Arc<AgentAddress>>,
        orders: Arc<Orders>,
        /// The worker still has a connection to it.
        reuse: bool,
    },
    Refused(Refused),
}

impl Pool {
    pub(crate) fn new(
        config: &weir_config::Pool,
        counts: Arc<Mutex<Counts>>,
        mailboxes: Arc<[Arc<Mailbox>]>,
        log: Log,
    ) -> Arc<Self> {
        Arc::new(Self {
            name: config.name.clone(),
            protocol: config.protocol,
            source: config.source.clone(),
            state: Mutex::new(State::new(config, mailboxes.len())),
            patience: Mutex::new(config.timeout),
            counts,
            throttle: Mutex::new(Throttle::new()),
            wake: Notify::new(),
            mailboxes,
            log,
        })
    }

    /// Whether another configuration needs no other agents.
    pub(crate) fn has_agents_of(&self, config: &weir_config::Pool) -> bool {
        (&self.source, self.protocol) == (&config.source, config.protocol)
    }

    /// Takes over what can change while agents live on.
    pub(crate) fn adjust(&self, config: &weir_config::Pool) {
        self.state().adjust(config);
        *self.patience.lock().unwrap_or_else(PoisonError::into_inner) = config.timeout;
        self.wake.notify_one();
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What its agents speak.
    pub fn protocol(&self) -> AgentProtocol {
        self.protocol
    }

    pub(crate) fn patience(&self) -> Duration {
        *self.patience.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn source(&self) -> &AgentSource {
        &self.source
    }

    pub(crate) fn counts(&self) -> &Arc<Mutex<Counts>> {
        &self.counts
    }

    /// Whether its agents are processes that weir starts.
    pub fn starts_agents(&self) -> bool {
        self.keeps_processes()
    }

    /// How long a request may wait for an agent.
    pub fn queue_wait(&self) -> Duration {
        self.state().queue.wait
    }

    /// weir starts its agents and keeps them: what is leased is a process, not a mere place.
    fn keeps_processes(&self) -> bool {
        matches!(self.source, AgentSource::Start(_)) && self.protocol != AgentProtocol::Cgi
    }

    /// Leases an agent to a worker, or has it wait in the queue.
    ///
    /// # Errors
    /// There is no room in the queue, or no agent can be started.
    pub fn lease(self: &Arc<Self>, worker: usize) -> Result<Result<Lease, Waiting>, Refused> {
        let now = Instant::now();
        let mut state = self.state();
        if state.queued() == 0
            && let Some(grant) = self.take(&mut state, worker, now)
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
        // Nobody has to be woken where another agent may not be started anyway.
        let grows = self.keeps_processes() && state.agents.len() < state.counts.max;
        drop(state);
        if grows {
            self.wake.notify_one();
        }
        Ok(Err(waiting))
    }

    /// How long a request may wait, and how long until one that is refused may come again: as long
    /// as what waits now will take.
    fn retry(&self, state: &State) -> Duration {
        let mean = self.lock_counts().duration.spread().mean;
        let agents = state.counts.max.max(1);
        let seconds = mean * (state.queued() + 1) as f64 / agents as f64;
        Duration::from_secs(seconds.ceil().clamp(1.0, 60.0) as u64)
    }

    /// Finds an agent for a worker: one that it has a connection to, one that nobody has, one
    /// that another worker has, a new place.
    fn take(&self, state: &mut State, worker: usize, now: Instant) -> Option<Grant> {
        if let Some((id, home)) = state.pop_available(worker) {
            let reuse = home == Some(worker);
            if let Some(other) = home.filter(|_| !reuse) {
                self.mailboxes[other].tell(id);
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

    /// Takes back what was leased; whether the worker keeps its connection.
    fn settle(&self, id: AgentId, worker: usize, granted: Instant, outcome: Outcome) -> bool {
        let now = Instant::now();
        let mut state = self.state();
        if outcome.is_whole() {
            state.served(id);
            self.count(|counts| {
                counts.served += 1;
                counts.duration.record(now.saturating_duration_since(granted));
            });
        }
        if outcome == Outcome::Kill {
            self.count(|counts| counts.killed += 1);
        }
        let home = outcome.home(worker);
        let kept = if self.keeps_processes() {
            self.settle_process(&mut state, id, home, outcome, now)
        } else {
            let stays = home.is_some() && self.protocol != AgentProtocol::Cgi;
            if stays && state.may_stay(id, now) {
                self.free(&mut state, id, home, now)
            } else {
                state.agents.remove(&id);
                self.fill(&mut state, now);
                false
            }
        };
        drop(state);
        kept
    }

    fn settle_process(
        &self,
        state: &mut State,
        id: AgentId,
        home: Option<usize>,
        outcome: Outcome,
        now: Instant,
    ) -> bool {
        let order = match outcome {
            Outcome::Keep | Outcome::Close | Outcome::Unused { .. } if state.may_stay(id, now) => {
                return self.free(state, id, home, now);
            }
            Outcome::Keep | Outcome::Close | Outcome::Unused { .. } => {
                if !state.closed {
                    self.count(|counts| counts.restarted += 1);
                }
                Order::Stop
            }
            Outcome::Check => Order::Check,
            Outcome::Kill => Order::Kill,
        };
        state.lock_out(id, order);
        self.wake.notify_one();
        false
    }

    /// Gives an agent to whoever waits, or puts it aside; whether `home` keeps its connection.
    fn free(&self, state: &mut State, id: AgentId, home: Option<usize>, now: Instant) -> bool {
        let Some(waiter) = state.next_waiter(home) else {
            return state.put_aside(id, home, now) && home.is_some();
        };
        let reuse = home == Some(waiter.worker);
        self.hand_over(state, id, waiter, reuse, now);
        reuse
    }

    fn hand_over(&self, state: &mut State, id: AgentId, waiter: Waiter, reuse: bool, now: Instant) {
        if let Some(grant) = state.grant(id, reuse, now) {
            self.count(|counts| {
                counts.wait.record(now.saturating_duration_since(waiter.since));
            });
            waiter.give(grant);
        }
    }

    /// Gives those who wait new places, as many as there may be.
    fn fill(&self, state: &mut State, now: Instant) {
        if self.keeps_processes() {
            return;
        }
        while state.agents.len() < state.counts.max
            && let Some(waiter) = state.next_waiter(None)
        {
            let Some(grant) = self.take(state, waiter.worker, now) else { return };
            self.count(|counts| {
                counts.wait.record(now.saturating_duration_since(waiter.since));
            });
            waiter.give(grant);
        }
    }

    /// Every agent is replaced, one after the other, as soon as it has nothing to do.
    pub fn recycle(&self) {
        let mut state = self.state();
        state.generation += 1;
        if !self.keeps_processes() {
            self.close_idle(&mut state);
        }
        drop(state);
        self.wake.notify_one();
    }

    /// Agents that have nothing to do are stopped, down to `min`.
    pub fn trim(&self) {
        let mut state = self.state();
        if self.keeps_processes() {
            let spare = state.living().saturating_sub(state.counts.min);
            state.lock_out_idle(spare);
        } else {
            self.close_idle(&mut state);
        }
        drop(state);
        self.wake.notify_one();
    }

    /// Closes connections that nobody uses.
    fn close_idle(&self, state: &mut State) {
        for (id, home) in state.drain_available() {
            if let Some(home) = home {
                self.mailboxes[home].tell(id);
            }
        }
    }

    /// What it is doing and has done.
    pub fn snapshot(&self) -> PoolSnapshot {
        let state = self.state();
        let counts = self.lock_counts();
        PoolSnapshot {
            name: self.name.clone(),
            protocol: self.protocol.as_str(),
            ready: !state.is_down(),
            trouble: state.trouble.clone(),
            agents: state.states(),
            pids: state.pids().map(|(_, pid)| pid).collect(),
            max: state.counts.max,
            queue: state.queued(),
            queue_max: state.queue.max,
            queue_peak: counts.peak,
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
            wait: counts.wait.spread(),
            duration: counts.duration.spread(),
        }
    }

    /// What an agent wrote to standard error, whole lines of it.
    pub fn log_text(&self, text: &[u8]) {
        let mut lines = Lines::default();
        lines.take(text, |line| self.log(&line));
        lines.end(|line| self.log(&line));
    }

    /// A line of an agent's standard error.
    pub fn log(&self, line: &str) {
        let admitted =
            self.throttle.lock().unwrap_or_else(PoisonError::into_inner).admits(Instant::now());
        if admitted {
            (self.log)(format!("pool {}: {line}", self.name));
        } else {
            self.count(|counts| counts.log_dropped += 1);
        }
    }

    /// Something that the operator should know.
    pub(crate) fn tell(&self, text: &str) {
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
