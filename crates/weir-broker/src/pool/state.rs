//! What is behind a pool's lock, and what its supervisor does about it.

use super::agent::{Agent, AgentId, Fate, Order, Orders, Phase};
use super::queue::Queue;
use super::{Grant, Pool, Refused};
use crate::statistics::AgentStates;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use weir_config::{AgentAddress, AgentCounts, PoolQueue, Recycle};

/// Failures in a row after which starts are put off, and requests are refused when nobody is left.
const FAILURES: u32 = 3;
/// First and longest wait before another start.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(30));
/// How long a new connection may wait for its first answer while others have nothing to do: the
/// manager behind them may have fewer processes than there are connections.
const STALLED: Duration = Duration::from_secs(1);

/// Numbers of agents: never used twice in a process, so that a worker cannot take one for another.
static NEXT: AtomicU64 = AtomicU64::new(1);

#[derive(Debug)]
pub(super) struct State {
    pub(super) counts: AgentCounts,
    pub(super) queue: PoolQueue,
    recycle: Recycle,
    pub(super) agents: HashMap<AgentId, Agent>,
    /// Agents without a request, by who has a connection to them: nobody, then each worker. The
    /// last one used is the last.
    available: Vec<Vec<AgentId>>,
    pub(super) waiters: Queue,
    /// Starts that failed, and agents that crashed, since a request was served: what the pause
    /// before the next start is made of.
    failures: u32,
    /// Starts that failed since an agent was well: then there is no use in waiting.
    failed_starts: u32,
    put_off: Option<Instant>,
    pub(super) trouble: Option<String>,
    pub(super) generation: u32,
    /// The first agents have been started.
    booted: bool,
    pub(super) closed: bool,
}

/// How an agent ended.
#[derive(Debug)]
pub(crate) enum Gone {
    /// It was told to.
    Told,
    /// It could not be started, or did not answer in time; why.
    NotStarted(String),
    /// By itself, in order.
    Ended,
    /// By itself, and not in order; how.
    Crashed(String),
}

/// What a supervisor is to do now.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    /// Agents to be started.
    pub(crate) start: Vec<(AgentId, Arc<Orders>)>,
    /// When to look again, if nothing happens before.
    pub(crate) again: Option<Instant>,
    /// Everything has ended.
    pub(crate) over: bool,
}

impl State {
    pub(super) fn new(config: &weir_config::Pool, workers: usize) -> Self {
        Self {
            counts: config.agents,
            queue: config.queue,
            recycle: config.recycle,
            agents: HashMap::new(),
            available: vec![Vec::new(); workers + 1],
            waiters: Queue::new(workers),
            failures: 0,
            failed_starts: 0,
            put_off: None,
            trouble: None,
            generation: 0,
            booted: false,
            closed: false,
        }
    }

    pub(super) fn adjust(&mut self, config: &weir_config::Pool) {
        (self.counts, self.queue, self.recycle) = (config.agents, config.queue, config.recycle);
    }

    pub(super) fn add(
        &mut self,
        phase: Phase,
        address: Option<Arc<AgentAddress>>,
        now: Instant,
    ) -> AgentId {
        let id = AgentId(NEXT.fetch_add(1, Ordering::Relaxed));
        let agent = Agent {
            phase,
            address,
            served: 0,
            started: now,
            since: now,
            proven: false,
            spent: false,
            generation: self.generation,
            pid: None,
            orders: Arc::default(),
        };
        self.agents.insert(id, agent);
        id
    }

    /// Takes an agent that has nothing to do, the nearest to `worker`; and who has a connection.
    pub(super) fn pop_available(&mut self, worker: usize) -> Option<(AgentId, Option<usize>)> {
        if let Some(id) = self.available[worker + 1].pop() {
            return Some((id, Some(worker)));
        }
        if let Some(id) = self.available[0].pop() {
            return Some((id, None));
        }
        let other = self.available.iter().position(|list| !list.is_empty())?;
        // The one that has been idle for longest: the owner will miss it least.
        Some((self.available[other].remove(0), Some(other - 1)))
    }

    pub(super) fn grant(&mut self, id: AgentId, reuse: bool, now: Instant) -> Option<Grant> {
        let agent = self.agents.get_mut(&id)?;
        (agent.phase, agent.since) = (Phase::Busy, now);
        agent.proven &= reuse;
        agent.orders.begin();
        let (address, orders) = (agent.address.clone(), Arc::clone(&agent.orders));
        Some(Grant::Agent { id, address, orders, reuse })
    }

    /// An agent has answered.
    pub(super) fn proven(&mut self, id: AgentId) {
        if let Some(agent) = self.agents.get_mut(&id) {
            agent.proven = true;
        }
    }

    /// An agent has served a request.
    pub(super) fn served(&mut self, id: AgentId) {
        if let Some(agent) = self.agents.get_mut(&id) {
            agent.proven = true;
            agent.served += 1;
        }
        (self.failures, self.failed_starts, self.put_off, self.trouble) = (0, 0, None, None);
    }

    /// Whether an agent may have another request.
    pub(super) fn may_stay(&self, id: AgentId, now: Instant) -> bool {
        let Some(agent) = self.agents.get(&id) else { return false };
        let recycle = self.recycle;
        let age = now.saturating_duration_since(agent.started);
        let old = recycle.age.is_some_and(|most| age >= most);
        let worn = recycle.requests.is_some_and(|most| agent.served >= most);
        let outdated = agent.generation != self.generation;
        let too_many = self.agents.len() > self.counts.max;
        !(old || worn || outdated || too_many || agent.spent || self.closed)
    }

    /// Keeps an agent for the next request; `false` if there is no such agent any more.
    pub(super) fn put_aside(&mut self, id: AgentId, home: Option<usize>, now: Instant) -> bool {
        let Some(agent) = self.agents.get_mut(&id) else { return false };
        (agent.phase, agent.since) = (Phase::Available(home), now);
        self.available[home.map_or(0, |worker| worker + 1)].push(id);
        true
    }

    /// An agent takes no more requests.
    pub(super) fn lock_out(&mut self, id: AgentId, order: Order) {
        if let Some(agent) = self.agents.get_mut(&id) {
            agent.phase = Phase::Locked;
            agent.orders.give(order);
        }
        for list in &mut self.available {
            list.retain(|other| *other != id);
        }
    }

    /// Stops so many agents that have nothing to do.
    pub(super) fn lock_out_idle(&mut self, most: usize) {
        let idle: Vec<AgentId> = self.available.iter().flatten().copied().take(most).collect();
        idle.into_iter().for_each(|id| self.lock_out(id, Order::Stop));
    }

    /// Forgets places without a request; and who has their connections.
    pub(super) fn drain_available(&mut self) -> Vec<(AgentId, Option<usize>)> {
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

    /// Starts have failed and nobody is left.
    pub(super) fn is_down(&self) -> bool {
        self.failed_starts >= FAILURES && !self.serving()
    }

    /// Nobody can serve for so long.
    pub(super) fn blocked(&self, now: Instant) -> Option<Duration> {
        self.is_down().then(|| {
            let rest = self.put_off.map_or(Duration::ZERO, |at| at.saturating_duration_since(now));
            Duration::from_secs(rest.as_secs() + 1)
        })
    }

    pub(super) fn states(&self) -> AgentStates {
        let mut states = AgentStates::default();
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
        self.trouble = Some(why);
        if let Some(more) = self.failures.checked_sub(FAILURES) {
            let wait = BACKOFF.0.saturating_mul(1 << more.min(16)).min(BACKOFF.1);
            self.put_off = Some(now + wait);
        }
    }

    /// Idle agents that are to go, by age, size, generation and idle time.
    fn retire(&mut self, now: Instant) -> usize {
        let fresh = |agent: &Agent| agent.generation == self.generation;
        let serves = |agent: &Agent| matches!(agent.phase, Phase::Available(_) | Phase::Busy);
        let replaced = self.agents.values().any(|agent| fresh(agent) && serves(agent));
        let coming = self.agents.values().any(|a| fresh(a) && a.phase == Phase::Starting);
        // Old ones serve until a new one does; if there is no room for one, one goes first.
        let mut makes_room =
            !replaced && !coming && self.put_off.is_none() && self.agents.len() >= self.counts.max;
        let mut spare = self.living().saturating_sub(self.counts.min);
        let (mut gone, mut replacing) = (Vec::new(), 0);
        let ids: Vec<AgentId> = self.available.iter().flatten().copied().collect();
        for id in ids {
            let agent = &self.agents[&id];
            let age = now.saturating_duration_since(agent.started);
            let idle = now.saturating_duration_since(agent.since);
            let outdated = !fresh(agent) && (replaced || std::mem::take(&mut makes_room));
            if outdated || agent.spent || self.recycle.age.is_some_and(|most| age >= most) {
                gone.push(id);
                replacing += 1;
                spare = spare.saturating_sub(1);
            } else if spare > 0 && self.recycle.idle.is_some_and(|most| idle >= most) {
                gone.push(id);
                spare -= 1;
            }
        }
        gone.into_iter().for_each(|id| self.lock_out(id, Order::Stop));
        replacing
    }

    fn starts(&mut self, now: Instant) -> Vec<(AgentId, Arc<Orders>)> {
        if self.put_off.is_some_and(|at| now < at) {
            return Vec::new();
        }
        let states = self.states();
        let living = states.starting + states.available + states.busy;
        let least = if self.booted { self.counts.min } else { self.counts.initial };
        let outdated = self.agents.values().any(|a| a.generation != self.generation);
        let fresh = self
            .agents
            .values()
            .any(|a| a.generation == self.generation && a.phase != Phase::Locked);
        let wanted = least
            .saturating_sub(living)
            .max(self.queued().saturating_sub(states.starting))
            .max(usize::from(outdated && !fresh));
        let room = self.counts.max.saturating_sub(self.agents.len());
        let turns = self.counts.starting.saturating_sub(states.starting);
        let count = wanted.min(room).min(turns);
        if living + count >= least {
            self.booted = true;
        }
        let add = |_| {
            let id = self.add(Phase::Starting, None, now);
            (id, Arc::clone(&self.agents[&id].orders))
        };
        (0..count).map(add).collect()
    }
}

impl Pool {
    /// What the supervisor is to do now.
    pub(crate) fn plan(&self, now: Instant) -> Plan {
        let mut state = self.state();
        if state.closed {
            if self.keeps_processes() {
                state.lock_out_idle(usize::MAX);
                let rest: Vec<AgentId> = state
                    .agents
                    .iter()
                    .filter(|(_, agent)| agent.phase == Phase::Starting)
                    .map(|(id, _)| *id)
                    .collect();
                rest.into_iter().for_each(|id| state.lock_out(id, Order::Stop));
            } else {
                self.close_idle(&mut state);
            }
            return Plan { over: state.agents.is_empty(), ..Plan::default() };
        }
        if !self.keeps_processes() {
            self.close_what_idles(&mut state, now);
            return Plan::default();
        }
        let replaced = state.retire(now);
        let start = state.starts(now);
        let again = state.put_off.filter(|at| *at > now);
        drop(state);
        if replaced > 0 {
            self.count(|counts| counts.restarted += replaced as u64);
        }
        Plan { start, again, over: false }
    }

    /// Closes connections that nobody has used for long, and all idle ones if another one seems to
    /// wait for the process behind them.
    fn close_what_idles(&self, state: &mut State, now: Instant) {
        let stalled = state.agents.values().any(|agent| {
            agent.phase == Phase::Busy
                && !agent.proven
                && now.saturating_duration_since(agent.since) > STALLED
        });
        if stalled {
            return self.close_idle(state);
        }
        let Some(most) = state.recycle.idle else { return };
        for home in 0..self.mailboxes.len() {
            let mut list = std::mem::take(&mut state.available[home + 1]);
            list.retain(|id| {
                let since = state.agents.get(id).map(|agent| agent.since);
                let idle = since.is_none_or(|since| now.saturating_duration_since(since) >= most);
                if idle {
                    state.agents.remove(id);
                    self.mailboxes[home].tell(*id);
                }
                !idle
            });
            state.available[home + 1] = list;
        }
    }

    /// An agent's process is there.
    pub(crate) fn spawned(&self, id: AgentId, pid: u32, address: AgentAddress) {
        if let Some(agent) = self.state().agents.get_mut(&id) {
            (agent.pid, agent.address) = (Some(pid), Some(Arc::new(address)));
        }
        self.count(|counts| counts.started += 1);
    }

    /// An agent has answered weir's question: it may have requests, now or again.
    pub(crate) fn well(&self, id: AgentId) {
        let now = Instant::now();
        let mut state = self.state();
        let Some(agent) = state.agents.get(&id) else { return };
        agent.orders.tell(Fate::Well);
        if agent.orders.current() >= Order::Stop {
            return;
        }
        if state.closed {
            state.lock_out(id, Order::Stop);
        } else {
            self.free(&mut state, id, None, now);
        }
        drop(state);
        self.wake.notify_one();
    }

    /// An agent's process has ended.
    pub(crate) fn gone(&self, id: AgentId, how: Gone) {
        let now = Instant::now();
        let mut state = self.state();
        for (at, list) in state.available.iter_mut().enumerate() {
            if list.contains(&id) {
                list.retain(|other| *other != id);
                if let Some(home) = at.checked_sub(1) {
                    self.mailboxes[home].tell(id);
                }
            }
        }
        let agent = state.agents.remove(&id);
        let served = agent.as_ref().map_or(0, |agent| agent.served);
        if let Some(agent) = agent {
            let in_order = matches!(how, Gone::Told) || matches!(how, Gone::Ended) && served > 0;
            agent.orders.tell(if in_order { Fate::Ended } else { Fate::Crashed });
        }
        match how {
            Gone::Told => {}
            Gone::NotStarted(why) => {
                state.failed_starts = state.failed_starts.saturating_add(1);
                self.count(|counts| counts.failed_starts += 1);
                self.tell(&format!("an agent cannot be started: {why}"));
                state.failed(why, now);
            }
            // Programs that end after so many requests do so in order.
            Gone::Ended if served > 0 => {}
            Gone::Ended => state.failed("it ended without having served a request".to_owned(), now),
            Gone::Crashed(why) => {
                self.count(|counts| counts.crashed += 1);
                self.tell(&format!("an agent ended: {why}"));
                state.failed(why, now);
            }
        }
        if let Some(retry) = state.blocked(now) {
            while let Some(waiter) = state.next_waiter(None) {
                self.count(|counts| counts.rejected_unavailable += 1);
                waiter.give(Grant::Refused(Refused::Unavailable { retry }));
            }
        }
        drop(state);
        self.wake.notify_one();
    }

    /// An agent holds more memory than it may: it goes when it has nothing to do.
    pub(crate) fn weigh(&self, resident: impl Fn(u32) -> Option<u64>) {
        let mut state = self.state();
        let Some(most) = state.recycle.memory else { return };
        let pids: Vec<_> = state.pids().collect();
        drop(state);
        // Not under the lock: the system is asked.
        let heavy: Vec<AgentId> = pids
            .into_iter()
            .filter(|(_, pid)| resident(*pid).is_some_and(|bytes| bytes >= most))
            .map(|(id, _)| id)
            .collect();
        state = self.state();
        for id in heavy {
            if let Some(agent) = state.agents.get_mut(&id) {
                agent.spent = true;
            }
        }
    }

    /// No more requests will come: agents end when they have nothing to do.
    pub(crate) fn close(&self) {
        self.state().closed = true;
        self.wake.notify_one();
    }

    /// Processes of its agents.
    pub(crate) fn pids(&self) -> Vec<u32> {
        self.state().pids().map(|(_, pid)| pid).collect()
    }
}
