//! The state behind a pool's lock, and the plan of its supervisor.

use super::queue::Queue;
use super::{Grant, Pool, Refused};
use crate::agent::{Agent, AgentCommand, AgentControl, AgentId, Health, Phase};
use crate::statistics::AgentStates;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use weir_model::pool::{AgentAddress, AgentCounts, PoolQueue, Recycle};

/// Consecutive failures after which starts are delayed, and requests are refused if no agent is
/// left.
const MAX_FAILURES: u32 = 3;
/// Delay before the next start.
const MIN_BACKOFF: Duration = Duration::from_millis(200);
const MAX_BACKOFF: Duration = Duration::from_secs(30);
/// Time that a new connection may wait for its first response while others are idle: the process
/// manager behind them may have fewer processes than connections.
const STALL_TIMEOUT: Duration = Duration::from_secs(1);

/// Ids of agents: never reused within a process, so that workers cannot confuse them.
static NEXT_ID: AtomicU64 = AtomicU64::new(1);

#[derive(Debug)]
pub(super) struct State {
    pub(super) counts: AgentCounts,
    pub(super) queue: PoolQueue,
    recycle: Recycle,
    /// Time limit for the response to a request.
    pub(super) request_timeout: Duration,
    pub(super) agents: HashMap<AgentId, Agent>,
    /// Idle agents by the worker that has a connection: none, then each worker. The last one used
    /// is the last.
    available: Vec<Vec<AgentId>>,
    pub(super) waiters: Queue,
    /// Failed starts and crashes since the last served request: they determine the delay of the
    /// next start.
    failures: u32,
    /// Failed starts since an agent was healthy: waiting is useless then.
    failed_starts: u32,
    next_start: Option<Instant>,
    pub(super) last_error: Option<String>,
    pub(super) generation: u32,
    /// The first agents were started.
    initial_started: bool,
    pub(super) closed: bool,
}

/// Why an agent exited.
#[derive(Debug)]
pub(crate) enum ExitReason {
    /// On command.
    Requested,
    /// It could not be started, or did not respond in time.
    StartFailed(String),
    /// By itself, cleanly.
    Clean,
    /// By itself, with a failure.
    Crashed(String),
}

/// Tasks of the supervisor.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    /// Agents to start.
    pub(crate) start: Vec<(AgentId, Arc<AgentControl>)>,
    /// Time of the next start, if it is delayed.
    pub(crate) next_start: Option<Instant>,
    /// The pool is closed and all agents have exited.
    pub(crate) finished: bool,
}

impl State {
    pub(super) fn new(config: &weir_model::pool::Pool, workers: usize) -> Self {
        Self {
            counts: config.agents,
            queue: config.queue,
            recycle: config.recycle,
            request_timeout: config.timeout,
            agents: HashMap::new(),
            available: vec![Vec::new(); workers + 1],
            waiters: Queue::new(workers),
            failures: 0,
            failed_starts: 0,
            next_start: None,
            last_error: None,
            generation: 0,
            initial_started: false,
            closed: false,
        }
    }

    pub(super) fn adjust(&mut self, config: &weir_model::pool::Pool) {
        (self.counts, self.queue, self.recycle) = (config.agents, config.queue, config.recycle);
        self.request_timeout = config.timeout;
    }

    pub(super) fn add(
        &mut self,
        phase: Phase,
        address: Option<Arc<AgentAddress>>,
        now: Instant,
    ) -> AgentId {
        let id = AgentId(NEXT_ID.fetch_add(1, Ordering::Relaxed));
        let agent = Agent {
            phase,
            address,
            served: 0,
            started: now,
            since: now,
            has_responded: false,
            over_memory: false,
            generation: self.generation,
            pid: None,
            control: Arc::default(),
        };
        self.agents.insert(id, agent);
        id
    }

    /// Takes an idle agent, the nearest to `worker`, and the worker that has a connection to it.
    pub(super) fn pop_available(&mut self, worker: usize) -> Option<(AgentId, Option<usize>)> {
        if let Some(id) = self.available[worker + 1].pop() {
            return Some((id, Some(worker)));
        }
        if let Some(id) = self.available[0].pop() {
            return Some((id, None));
        }
        let other = self.available.iter().position(|list| !list.is_empty())?;
        // The one that has been idle for longest: its owner is least likely to need it.
        Some((self.available[other].remove(0), Some(other - 1)))
    }

    pub(super) fn grant(&mut self, id: AgentId, reuse: bool, now: Instant) -> Option<Grant> {
        let agent = self.agents.get_mut(&id)?;
        (agent.phase, agent.since) = (Phase::Busy, now);
        agent.has_responded &= reuse;
        agent.control.reset_health();
        let (address, control) = (agent.address.clone(), Arc::clone(&agent.control));
        Some(Grant { id, address, control, reuse })
    }

    /// An agent has responded.
    pub(super) fn has_responded(&mut self, id: AgentId) {
        if let Some(agent) = self.agents.get_mut(&id) {
            agent.has_responded = true;
        }
    }

    /// An agent has served a request.
    pub(super) fn served(&mut self, id: AgentId) {
        if let Some(agent) = self.agents.get_mut(&id) {
            agent.has_responded = true;
            agent.served += 1;
        }
        (self.failures, self.failed_starts, self.next_start, self.last_error) = (0, 0, None, None);
    }

    /// Whether an agent may get another request.
    pub(super) fn may_stay(&self, id: AgentId, now: Instant) -> bool {
        let Some(agent) = self.agents.get(&id) else { return false };
        let recycle = self.recycle;
        let age = now.saturating_duration_since(agent.started);
        let old = recycle.age.is_some_and(|limit| age >= limit);
        let worn = recycle.requests.is_some_and(|limit| agent.served >= limit);
        let outdated = agent.generation != self.generation;
        let too_many = self.agents.len() > self.counts.max;
        !(old || worn || outdated || too_many || agent.over_memory || self.closed)
    }

    /// Parks an agent until the next request; false if it does not exist any more.
    pub(super) fn park(&mut self, id: AgentId, owner: Option<usize>, now: Instant) -> bool {
        let Some(agent) = self.agents.get_mut(&id) else { return false };
        (agent.phase, agent.since) = (Phase::Available(owner), now);
        self.available[owner.map_or(0, |worker| worker + 1)].push(id);
        true
    }

    /// Stops giving requests to an agent.
    pub(super) fn drain(&mut self, id: AgentId, command: AgentCommand) {
        if let Some(agent) = self.agents.get_mut(&id) {
            agent.phase = Phase::Locked;
            agent.control.send(command);
        }
        for list in &mut self.available {
            list.retain(|other| *other != id);
        }
    }

    /// Stops up to `most` idle agents.
    pub(super) fn drain_idle(&mut self, limit: usize) {
        let idle: Vec<AgentId> = self.available.iter().flatten().copied().take(limit).collect();
        idle.into_iter().for_each(|id| self.drain(id, AgentCommand::Stop));
    }

    /// Removes all idle connections; returns them with their workers.
    pub(super) fn take_available(&mut self) -> Vec<(AgentId, Option<usize>)> {
        let mut drained = Vec::new();
        for (at, list) in self.available.iter_mut().enumerate() {
            drained.extend(list.drain(..).map(|id| (id, at.checked_sub(1))));
        }
        for (id, _) in &drained {
            self.agents.remove(id);
        }
        drained
    }

    /// Agents that are starting, available or busy.
    pub(super) fn living(&self) -> usize {
        self.agents.values().filter(|agent| agent.phase != Phase::Locked).count()
    }

    fn serving(&self) -> bool {
        let serves = |agent: &Agent| matches!(agent.phase, Phase::Available(_) | Phase::Busy);
        self.agents.values().any(serves)
    }

    /// Starts have failed and no agent is left.
    pub(super) fn is_down(&self) -> bool {
        self.failed_starts >= MAX_FAILURES && !self.serving()
    }

    /// The time for which no agent can serve.
    pub(super) fn blocked(&self, now: Instant) -> Option<Duration> {
        self.is_down().then(|| {
            let rest =
                self.next_start.map_or(Duration::ZERO, |at| at.saturating_duration_since(now));
            Duration::from_secs(rest.as_secs() + 1)
        })
    }

    pub(super) fn states(&self) -> AgentStates {
        let pids = self.pids().map(|(_, pid)| pid).collect();
        let mut states = AgentStates { max: self.counts.max, pids, ..AgentStates::default() };
        for agent in self.agents.values() {
            *match agent.phase {
                Phase::Starting => &mut states.starting,
                Phase::Available(_) => &mut states.available,
                Phase::Busy => &mut states.busy,
                Phase::Locked => &mut states.locked,
            } += 1;
        }
        states
    }

    pub(super) fn pids(&self) -> impl Iterator<Item = (AgentId, u32)> {
        self.agents.iter().filter_map(|(id, agent)| Some((*id, agent.pid?)))
    }

    fn failed(&mut self, why: String, now: Instant) {
        self.failures = self.failures.saturating_add(1);
        self.last_error = Some(why);
        if let Some(more) = self.failures.checked_sub(MAX_FAILURES) {
            let wait = MIN_BACKOFF.saturating_mul(1 << more.min(16)).min(MAX_BACKOFF);
            self.next_start = Some(now + wait);
        }
    }

    /// Drains idle agents by age, memory, generation and idle time. Returns how many have to be
    /// replaced.
    fn drain_expired(&mut self, now: Instant) -> usize {
        let fresh = |agent: &Agent| agent.generation == self.generation;
        let serves = |agent: &Agent| matches!(agent.phase, Phase::Available(_) | Phase::Busy);
        let replaced = self.agents.values().any(|agent| fresh(agent) && serves(agent));
        let starting = self.agents.values().any(|a| fresh(a) && a.phase == Phase::Starting);
        // Old agents serve until a new one does; if the pool is full, one of them is stopped first.
        let mut makes_room = !replaced
            && !starting
            && self.next_start.is_none()
            && self.agents.len() >= self.counts.max;
        let mut spare = self.living().saturating_sub(self.counts.min);
        let (mut expired, mut replacing) = (Vec::new(), 0);
        let ids: Vec<AgentId> = self.available.iter().flatten().copied().collect();
        for id in ids {
            let agent = &self.agents[&id];
            let age = now.saturating_duration_since(agent.started);
            let idle = now.saturating_duration_since(agent.since);
            let outdated = !fresh(agent) && (replaced || std::mem::take(&mut makes_room));
            if outdated || agent.over_memory || self.recycle.age.is_some_and(|limit| age >= limit) {
                expired.push(id);
                replacing += 1;
                spare = spare.saturating_sub(1);
            } else if spare > 0 && self.recycle.idle.is_some_and(|limit| idle >= limit) {
                expired.push(id);
                spare -= 1;
            }
        }
        expired.into_iter().for_each(|id| self.drain(id, AgentCommand::Stop));
        replacing
    }

    fn plan_starts(&mut self, now: Instant) -> Vec<(AgentId, Arc<AgentControl>)> {
        if self.next_start.is_some_and(|at| now < at) {
            return Vec::new();
        }
        let states = self.states();
        let living = states.starting + states.available + states.busy;
        let least = if self.initial_started { self.counts.min } else { self.counts.initial };
        let outdated = self.agents.values().any(|a| a.generation != self.generation);
        let fresh = self
            .agents
            .values()
            .any(|a| a.generation == self.generation && a.phase != Phase::Locked);
        let missing = least
            .saturating_sub(living)
            .max(self.queued().saturating_sub(states.starting))
            .max(usize::from(outdated && !fresh));
        let room = self.counts.max.saturating_sub(self.agents.len());
        let turns = self.counts.starting.saturating_sub(states.starting);
        let count = missing.min(room).min(turns);
        if living + count >= least {
            self.initial_started = true;
        }
        let add = |_| {
            let id = self.add(Phase::Starting, None, now);
            (id, Arc::clone(&self.agents[&id].control))
        };
        (0..count).map(add).collect()
    }
}

impl Pool {
    /// What the supervisor has to do now.
    pub(crate) fn plan(&self, now: Instant) -> Plan {
        let mut state = self.state();
        if state.closed {
            if self.keeps_processes() {
                state.drain_idle(usize::MAX);
                let rest: Vec<AgentId> = state
                    .agents
                    .iter()
                    .filter(|(_, agent)| agent.phase == Phase::Starting)
                    .map(|(id, _)| *id)
                    .collect();
                rest.into_iter().for_each(|id| state.drain(id, AgentCommand::Stop));
            } else {
                self.close_idle(&mut state);
            }
            return Plan { finished: state.agents.is_empty(), ..Plan::default() };
        }
        if !self.keeps_processes() {
            self.close_expired(&mut state, now);
            return Plan::default();
        }
        let replaced = state.drain_expired(now);
        let start = state.plan_starts(now);
        let next_start = state.next_start.filter(|at| *at > now);
        drop(state);
        if replaced > 0 {
            self.count(|counts| counts.restarted += replaced as u64);
        }
        Plan { start, next_start, finished: false }
    }

    /// Closes connections that have been idle for long; all idle ones if another connection seems
    /// to wait for the process behind them.
    fn close_expired(&self, state: &mut State, now: Instant) {
        let stalled = state.agents.values().any(|agent| {
            agent.phase == Phase::Busy
                && !agent.has_responded
                && now.saturating_duration_since(agent.since) > STALL_TIMEOUT
        });
        if stalled {
            return self.close_idle(state);
        }
        let Some(limit) = state.recycle.idle else { return };
        for owner in 0..self.invalidations.len() {
            let mut list = std::mem::take(&mut state.available[owner + 1]);
            list.retain(|id| {
                let since = state.agents.get(id).map(|agent| agent.since);
                let idle = since.is_none_or(|since| now.saturating_duration_since(since) >= limit);
                if idle {
                    state.agents.remove(id);
                    self.invalidations[owner].push(*id);
                }
                !idle
            });
            state.available[owner + 1] = list;
        }
    }

    /// The process of an agent was started.
    pub(crate) fn spawned(&self, id: AgentId, pid: u32, address: AgentAddress) {
        if let Some(agent) = self.state().agents.get_mut(&id) {
            (agent.pid, agent.address) = (Some(pid), Some(Arc::new(address)));
        }
        self.count(|counts| counts.started += 1);
    }

    /// An agent has responded to a probe: it may get requests.
    pub(crate) fn mark_healthy(&self, id: AgentId) {
        let now = Instant::now();
        let mut state = self.state();
        let Some(agent) = state.agents.get(&id) else { return };
        agent.control.report(Health::Healthy);
        if agent.control.current() >= AgentCommand::Stop {
            return;
        }
        if state.closed {
            state.drain(id, AgentCommand::Stop);
        } else {
            self.reuse(&mut state, id, None, now);
        }
        drop(state);
        self.wake.notify_one();
    }

    /// The process of an agent has exited.
    pub(crate) fn exited(&self, id: AgentId, reason: ExitReason) {
        let now = Instant::now();
        let mut state = self.state();
        for (at, list) in state.available.iter_mut().enumerate() {
            if list.contains(&id) {
                list.retain(|other| *other != id);
                if let Some(owner) = at.checked_sub(1) {
                    self.invalidations[owner].push(id);
                }
            }
        }
        let agent = state.agents.remove(&id);
        let served = agent.as_ref().map_or(0, |agent| agent.served);
        if let Some(agent) = agent {
            let in_order = matches!(reason, ExitReason::Requested)
                || matches!(reason, ExitReason::Clean) && served > 0;
            agent.control.report(if in_order { Health::Ended } else { Health::Crashed });
        }
        match reason {
            ExitReason::Requested => {}
            ExitReason::StartFailed(why) => {
                state.failed_starts = state.failed_starts.saturating_add(1);
                self.count(|counts| counts.failed_starts += 1);
                self.report(&format!("an agent cannot be started: {why}"));
                state.failed(why, now);
            }
            // Programs that exit after a number of requests do so cleanly.
            ExitReason::Clean if served > 0 => {}
            ExitReason::Clean => {
                state.failed("it ended without having served a request".to_owned(), now)
            }
            ExitReason::Crashed(why) => {
                self.count(|counts| counts.crashed += 1);
                self.report(&format!("an agent ended: {why}"));
                state.failed(why, now);
            }
        }
        if let Some(retry) = state.blocked(now) {
            while let Some(waiter) = state.next_waiter(None) {
                self.count(|counts| counts.rejected_unavailable += 1);
                waiter.grant(Err(Refused::Unavailable { retry }));
            }
        }
        drop(state);
        self.wake.notify_one();
    }

    /// Marks agents that use too much memory: they are stopped when idle.
    pub(crate) fn check_memory(&self, resident: impl Fn(u32) -> Option<u64>) {
        let mut state = self.state();
        let Some(limit) = state.recycle.memory else { return };
        let pids: Vec<_> = state.pids().collect();
        drop(state);
        // Without the lock: this reads files of the system.
        let heavy: Vec<AgentId> = pids
            .into_iter()
            .filter(|(_, pid)| resident(*pid).is_some_and(|bytes| bytes >= limit))
            .map(|(id, _)| id)
            .collect();
        state = self.state();
        for id in heavy {
            if let Some(agent) = state.agents.get_mut(&id) {
                agent.over_memory = true;
            }
        }
    }

    /// Closes the pool: agents exit when idle.
    pub(crate) fn close(&self) {
        self.state().closed = true;
        self.wake.notify_one();
    }

    /// Process ids of its agents.
    pub(crate) fn pids(&self) -> Vec<u32> {
        self.state().pids().map(|(_, pid)| pid).collect()
    }
}
