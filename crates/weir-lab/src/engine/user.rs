//! A virtual user, which executes the steps of its group.

mod transaction;

use super::cache::Cache;
use super::connection::Connections;
use super::cookies::Jar;
use super::encode::Message;
use super::event_loop::Loop;
use super::http1::CapturedResponse;
use super::plan::Op;
use super::{Level, closed::UserGroup};
use crate::program::{
    Cookies, Distribution, LoopCount, OnError, Pause, Scope, Step, Text, ThroughputOf, Values,
    Variable,
};
use std::rc::Rc;
use std::sync::atomic::Ordering;
use transaction::Transaction;

/// Nanoseconds in a millisecond.
const NANOS_PER_MILLI: f64 = 1e6;
/// Steps without a request or pause after which a user yields to other tasks.
const MAX_STEPS_WITHOUT_YIELD: u32 = 1000;
/// Consecutive yields after which each further one is a pause: an endless group without requests
/// would occupy a core.
const MAX_YIELDS: u32 = 100;
const IDLE_PAUSE_NANOS: f64 = 10.0 * NANOS_PER_MILLI;

/// A virtual user.
pub(super) struct User {
    pub(super) events: Rc<Loop>,
    pub(super) group: Rc<UserGroup>,
    /// Number in the group, from 0.
    pub(super) number: u32,
    pub(super) values: Values,
    pub(super) connections: Connections,
    pub(super) jar: Jar,
    pub(super) cache: Cache,
    /// Time of the last clock read: the end of the last sample or pause.
    pub(super) now: u64,
    /// Due time of the next request, for the first request of an iteration in an open model.
    pub(super) intended: Option<u64>,
    /// Time since which the user was idle, in an open model.
    pub(super) idle_since: u64,
    /// The user paused since its last sample: servers may have closed its connections.
    pub(super) paused: bool,
    /// Number of sent bodies.
    pub(super) body: usize,
    pub(super) message: Message,
    pub(super) captured: CapturedResponse,
    pub(super) transactions: Vec<Transaction>,
    /// Started iterations.
    iterations: u64,
    /// Steps since the last request, pause or yield.
    steps: u32,
    /// Yields since the last request or pause.
    yields: u32,
    /// This iteration had a request or a pause.
    progressed: bool,
    /// Counters of loops and pacing.
    slots: Vec<u64>,
}

/// Control flow after a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flow {
    Next,
    EndIteration,
    EndUser,
}

impl User {
    pub(super) fn new(events: Rc<Loop>, group: Rc<UserGroup>, number: u32) -> Self {
        let common = &events.common;
        // Splitmix's constant separates the random numbers of users for every seed.
        let seed = common.seed.wrapping_add(
            (u64::from(number) << 20 | group.index as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15),
        );
        let values = Values::new(&common.plan.program, &common.state, group.index, number, seed);
        let slots = common.plan.groups[group.index].slots;
        events.users.set(events.users.get() + 1);
        common.active[group.index].fetch_add(1, Ordering::Relaxed);
        let now = events.now();
        Self {
            values,
            connections: Connections::default(),
            jar: Jar::default(),
            cache: Cache::default(),
            now,
            intended: None,
            idle_since: now,
            paused: false,
            body: number as usize,
            message: Message::default(),
            captured: CapturedResponse::default(),
            transactions: Vec::new(),
            iterations: 0,
            steps: 0,
            yields: 0,
            progressed: false,
            slots: vec![0; slots],
            events,
            group,
            number,
        }
    }

    /// Executes iterations as long as `next` allows one.
    pub(super) async fn iterate(mut self, mut next: impl FnMut(u64, u64) -> bool) {
        while !self.must_end() && next(self.iterations, self.now) {
            if self.iteration().await == Flow::EndUser {
                return;
            }
        }
    }

    /// Whether no further step may start.
    pub(super) fn must_end(&self) -> bool {
        self.events.level.get() != Level::Run && !self.group.goes_on_after_stop
            || self.now >= self.group.deadline
    }

    /// Executes one iteration.
    pub(super) async fn iteration(&mut self) -> Flow {
        let events = self.events.clone();
        let plan = &events.common.plan;
        let (ops, index) = (&plan.groups[self.group.index].ops, self.group.index);
        if self.iterations > 0 {
            self.reset_user();
        } else {
            self.preset_cookies();
        }
        self.values.start_iteration(&plan.program);
        self.iterations += 1;
        self.progressed = false;
        let mut at = 0;
        while let Some(op) = ops.get(at) {
            self.steps += 1;
            if self.steps >= MAX_STEPS_WITHOUT_YIELD {
                self.yield_now(&events).await;
            }
            if self.must_end() {
                return Flow::EndUser;
            }
            at += 1;
            let flow = match op {
                Op::Request(request) => {
                    (self.steps, self.yields, self.progressed) = (0, 0, true);
                    if self.request(&events, *request).await {
                        Flow::Next
                    } else {
                        self.after_error(plan.program.groups[index].on_error)
                    }
                }
                Op::LoopStart { times, slot, end } => {
                    self.slots[*slot] = self.loop_count(times);
                    if self.slots[*slot] == 0 {
                        at = *end;
                    }
                    Flow::Next
                }
                Op::LoopEnd { slot, start } => {
                    self.slots[*slot] = self.slots[*slot].saturating_sub(1);
                    if self.slots[*slot] > 0 {
                        at = *start;
                    }
                    Flow::Next
                }
                Op::Once { end } => {
                    if self.iterations > 1 {
                        at = *end;
                    }
                    Flow::Next
                }
                Op::TransactionStart { label, with_pauses, parent_only } => {
                    self.start_transaction(*label, *with_pauses, *parent_only);
                    Flow::Next
                }
                Op::TransactionEnd => {
                    self.end_transaction();
                    Flow::Next
                }
                Op::Step { step, slot } => self.step(step, *slot).await,
            };
            match flow {
                Flow::Next => {}
                Flow::EndIteration => {
                    while !self.transactions.is_empty() {
                        self.end_transaction();
                    }
                    return Flow::Next;
                }
                Flow::EndUser => return Flow::EndUser,
            }
        }
        if !self.progressed {
            self.yield_now(&events).await;
        }
        Flow::Next
    }

    /// Yields to other tasks; pauses after many consecutive yields.
    async fn yield_now(&mut self, events: &Loop) {
        self.steps = 0;
        if self.yields >= MAX_YIELDS {
            let yields_before = self.yields;
            self.pause(IDLE_PAUSE_NANOS).await;
            self.yields = yields_before;
        } else {
            self.yields += 1;
            tokio::task::yield_now().await;
            self.now = events.now();
        }
    }

    fn reset_user(&mut self) {
        let group = &self.events.common.plan.program.groups[self.group.index];
        if group.new_user {
            self.connections.clear();
        }
        self.cache.start_iteration(group.new_user);
        if group.new_user || group.cookies == Cookies::KeptForIteration {
            self.jar.clear();
            self.preset_cookies();
        }
    }

    /// Puts the cookies of the program into the jar.
    fn preset_cookies(&mut self) {
        let events = self.events.clone();
        for cookie in &events.common.plan.program.preset_cookies {
            if cookie.group == self.group.index {
                let url = cookie.url.render(&mut self.scope()).into_owned();
                let field = cookie.field.render(&mut self.scope()).into_owned();
                self.jar.preset(&url, &field);
            }
        }
    }

    /// Executes a step without a request and without inner steps.
    async fn step(&mut self, step: &Step, slot: usize) -> Flow {
        match step {
            Step::Pause(pause) => {
                let millis = self.pause_millis(pause);
                self.pause(millis * NANOS_PER_MILLI).await;
            }
            Step::Pacing(every) => {
                let until = self.slots[slot];
                if until > self.now {
                    self.pause((until - self.now) as f64).await;
                }
                let every = u64::try_from(every.as_nanos()).unwrap_or(u64::MAX);
                let earliest = if until == 0 { self.now } else { self.now.saturating_sub(every) };
                self.slots[slot] = until.max(earliest).saturating_add(every);
            }
            Step::Throughput { per_minute, of } => {
                let rate = per_minute.number(&mut self.scope());
                let wait = self.throughput_wait(rate, *of, slot);
                self.pause(wait).await;
            }
            Step::Set(values) => self.set(values),
            Step::SetByUser(rows) => {
                let number = self.values.number() as usize;
                if let Some(values) = number.checked_rem(rows.len()).and_then(|at| rows.get(at)) {
                    self.set(values);
                }
            }
            Step::Feed(feeder) => {
                if !self.scope().feed(*feeder) {
                    return Flow::EndUser;
                }
            }
            Step::Count(counter) => {
                self.scope().count(*counter);
            }
            // Compiled to other operations.
            Step::Request(_) | Step::Loop { .. } | Step::Once(_) | Step::Transaction { .. } => {}
        }
        Flow::Next
    }

    fn set(&mut self, values: &[(Variable, Text)]) {
        for (variable, text) in values {
            let text = text.render(&mut self.scope()).into_owned();
            self.values.set(*variable, Some(text));
        }
    }

    fn after_error(&self, on_error: OnError) -> Flow {
        match on_error {
            OnError::Continue => Flow::Next,
            OnError::NextIteration => Flow::EndIteration,
            OnError::StopUser => Flow::EndUser,
            OnError::StopRun => {
                self.events.common.control.stop();
                Flow::EndUser
            }
            OnError::StopNow => {
                self.events.common.control.stop_now();
                Flow::EndUser
            }
        }
    }

    pub(super) fn scope(&mut self) -> Scope<'_> {
        self.events.common.scope(&mut self.values)
    }

    fn loop_count(&mut self, times: &LoopCount) -> u64 {
        match times {
            LoopCount::Forever => u64::MAX,
            LoopCount::Count(text) => {
                // JMeter's -1 means endless.
                let count = text.integer(&mut self.scope());
                u64::try_from(count).unwrap_or(u64::MAX)
            }
        }
    }

    /// Length of a pause in milliseconds.
    fn pause_millis(&mut self, pause: &Pause) -> f64 {
        let mut scope = self.scope();
        let (offset, spread) = (pause.offset.number(&mut scope), pause.spread.number(&mut scope));
        let random = scope.values.random();
        let part = match pause.distribution {
            Distribution::None => 0.0,
            Distribution::Uniform => spread * random.f64(),
            Distribution::Normal => spread * normal(random),
            Distribution::Poisson => poisson(random, spread),
        };
        offset + part
    }

    /// Nanoseconds to wait for a rate of samples per minute.
    fn throughput_wait(&mut self, rate: f64, of: ThroughputOf, slot: usize) -> f64 {
        if rate <= 0.0 {
            return 0.0;
        }
        let common = &self.events.common;
        let apart = 60e9 / rate;
        let share = |active: u64| apart * active.max(1) as f64;
        let active = |at: usize| common.active[at].load(Ordering::Relaxed);
        let all = || (0..common.active.len()).map(active).sum();
        let shared = |at: usize| {
            // Takes the next free time slot of the shared schedule.
            let (next, apart) = (&common.next_sample[at], apart as u64);
            let taken = next.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |next| {
                Some(next.max(self.now).saturating_add(apart))
            });
            taken.map_or(0.0, |next| next.saturating_sub(self.now) as f64)
        };
        let apart = match of {
            ThroughputOf::AllUsersShared => return shared(0),
            ThroughputOf::GroupShared => return shared(self.group.index + 1),
            ThroughputOf::User => apart,
            ThroughputOf::AllUsers => share(all()),
            ThroughputOf::Group => share(active(self.group.index)),
        };
        let last = self.slots[slot];
        let next =
            if last == 0 { self.now } else { last.saturating_add(apart as u64).max(self.now) };
        self.slots[slot] = next;
        (next - self.now) as f64
    }

    /// Waits this number of nanoseconds, or until the user has to end.
    pub(super) async fn pause(&mut self, nanoseconds: f64) {
        if nanoseconds < 1.0 {
            return;
        }
        let before = self.now;
        let until = self.now.saturating_add(nanoseconds as u64).min(self.group.deadline);
        let stops = self.events.wake.notified();
        if !self.must_end() {
            let until = self.events.instant(until);
            tokio::select! {
                () = tokio::time::sleep_until(until) => {}
                () = stops => {}
            }
        }
        self.paused = true;
        (self.steps, self.yields, self.progressed) = (0, 0, true);
        self.now = self.events.now();
        let passed = self.now.saturating_sub(before);
        for transaction in &mut self.transactions {
            transaction.paused(passed);
        }
    }
}

impl Drop for User {
    fn drop(&mut self) {
        self.events.users.set(self.events.users.get() - 1);
        self.events.common.active[self.group.index].fetch_sub(1, Ordering::Relaxed);
    }
}

/// A standard normal number (Box and Muller).
fn normal(random: &mut fastrand::Rng) -> f64 {
    let radius = (-2.0 * (1.0 - random.f64()).ln()).sqrt();
    radius * (std::f64::consts::TAU * random.f64()).cos()
}

/// A Poisson number: by multiplication up to a mean of 500, above approximated by the normal
/// distribution.
fn poisson(random: &mut fastrand::Rng, mean: f64) -> f64 {
    if mean > 500.0 {
        return (mean + mean.sqrt() * normal(random)).round().max(0.0);
    }
    let limit = (-mean).exp();
    let (mut product, mut number) = (random.f64(), 0.0);
    while product > limit {
        product *= random.f64();
        number += 1.0;
    }
    number
}
