//! A virtual user, which executes the steps of its group.

mod choices;
mod control;
mod local;
mod loops;
mod pause;
mod script;
mod transaction;

pub(super) use control::{GateCount, Locks};
pub(super) use script::Run;
use script::UserScripts;
pub(super) use transaction::add_sample;

use super::cache::Cache;
use super::connection::Connections;
use super::cookies::Jar;
use super::encode::Message;
use super::event_loop::Loop;
use super::http1::CapturedResponse;
use super::plan::{Depth, Op};
use super::tls::UserTls;
use super::{Level, closed::UserGroup};
use crate::program::{
    Cookies, Group, LoopCount, OnError, Program, Scope, Step, Text, ThroughputOf, Values, Variable,
};
use control::{Held, UserGate};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::atomic::Ordering;
use transaction::{Suspended, Transaction};

/// Nanoseconds in a millisecond.
pub(super) const NANOS_PER_MILLI: f64 = 1e6;
/// Steps without a wait after which a user yields to other tasks.
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
    /// Sessions of TLS.
    pub(super) tls: Option<Box<UserTls>>,
    pub(super) jar: Jar,
    /// Shared with its workers.
    pub(super) cache: Rc<RefCell<Cache>>,
    /// Those that request resources of a page at the same time.
    pub(super) workers: Vec<Self>,
    is_worker: bool,
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
    /// Those of branches that go on later.
    pub(super) suspended: Vec<Suspended>,
    /// Started iterations.
    iterations: u64,
    /// Steps since the last wait or yield.
    pub(super) steps: u32,
    /// Consecutive yields without a sample or pause.
    yields: u32,
    /// This iteration had a sample or a pause.
    progressed: bool,
    /// No step starts after this time.
    pub(super) deadline: u64,
    /// Samplers up to now: samples, flow control actions, and ends of transactions that replace their
    /// samples.
    samplers: u64,
    /// A sample or a flow control action was executed.
    has_sampled: bool,
    /// The last sample succeeded.
    last_success: bool,
    /// Counters of controllers.
    slots: Vec<u64>,
    /// Counters of pacing and rates.
    marks: Vec<u64>,
    /// Random orders of branches.
    orders: Vec<Vec<u32>>,
    gates: Vec<UserGate>,
    locks: Vec<Held>,
    /// State of scripts in the helper JVM.
    scripts: Option<Box<UserScripts>>,
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
        let batch = common.batches.load(Ordering::Relaxed).saturating_sub(1);
        let user = u64::from(number) << 20 | group.index as u64;
        let seed = common
            .seed
            .wrapping_add((batch.rotate_left(52) ^ user).wrapping_mul(0x9E37_79B9_7F4A_7C15));
        let values = Values::new(&common.plan.program, &common.state, group.index, number, seed);
        events.users.set(events.users.get() + 1);
        common.active[group.index].fetch_add(1, Ordering::Relaxed);
        let mut user = Self::with(events, group, number, values);
        user.set_success(true);
        user
    }

    /// A user that only requests resources for another one, and is not counted.
    pub(super) fn worker(&self) -> Self {
        let (events, group) = (self.events.clone(), self.group.clone());
        let mut worker = Self::with(events, group, self.number, self.values.clone());
        worker.is_worker = true;
        worker
    }

    /// A worker takes over what requests of this user have, without the cookies.
    pub(super) fn join(&mut self, user: &Self) {
        self.values.clone_from(&user.values);
        self.cache = user.cache.clone();
        self.deadline = user.deadline;
    }

    fn with(events: Rc<Loop>, group: Rc<UserGroup>, number: u32, values: Values) -> Self {
        let plan = &events.common.plan.groups[group.index];
        let (slots, marks, orders) = (plan.slots, plan.marks, plan.orders);
        let gates = events.common.plan.program.gates.len();
        let now = events.now();
        Self {
            values,
            connections: Connections::default(),
            tls: None,
            jar: Jar::default(),
            cache: Rc::default(),
            workers: Vec::new(),
            is_worker: false,
            now,
            intended: None,
            idle_since: now,
            paused: false,
            body: number as usize,
            message: Message::default(),
            captured: CapturedResponse::default(),
            transactions: Vec::new(),
            suspended: Vec::new(),
            iterations: 0,
            steps: 0,
            yields: 0,
            progressed: false,
            deadline: group.deadline,
            samplers: 0,
            has_sampled: false,
            last_success: true,
            slots: vec![0; slots],
            marks: vec![0; marks],
            orders: vec![Vec::new(); orders],
            gates: vec![UserGate::default(); gates],
            locks: Vec::new(),
            scripts: None,
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
            || self.now >= self.deadline
    }

    /// Executes one iteration.
    pub(super) async fn iteration(&mut self) -> Flow {
        let events = self.events.clone();
        let plan = &events.common.plan;
        let index = self.group.index;
        let (group, row) = (&plan.program.groups[index], &plan.groups[index]);
        self.start_iteration(&plan.program, group);
        let (mut at, mut ends) = (0, false);
        while let Some(op) = row.ops.get(at) {
            self.steps += 1;
            if self.steps >= MAX_STEPS_WITHOUT_YIELD {
                if ends {
                    break;
                }
                self.yield_now(&events).await;
            }
            ends |= self.must_end();
            if ends && (!op.is_decision() || self.transactions.iter().any(|t| t.parent_only)) {
                break;
            }
            let flow = match op {
                Op::Request(request) => {
                    let good = self.request(&events, *request).await;
                    self.after_sample(good, group.on_error)
                }
                Op::Stream(request) => {
                    // Boxed: rare and large, and otherwise part of the memory of every user.
                    let sample = Box::pin(self.sample::<true>(&events, *request));
                    let good = sample.await;
                    self.after_sample(good, group.on_error)
                }
                Op::Local(sample) => {
                    let good = self.local(&events, sample).await;
                    let flow = self.after_sample(good, group.on_error);
                    self.after_scripts(flow)
                }
                Op::Scripted(request) => {
                    let good = Box::pin(self.scripted_request(&events, *request)).await;
                    let flow = self.after_sample(good, group.on_error);
                    self.after_scripts(flow)
                }
                Op::Script(script) => Box::pin(self.script_step(*script)).await,
                Op::TransactionStart { label, name, with_pauses, parent_only, checks, scripts } => {
                    let kind = (*with_pauses, *parent_only);
                    self.start_transaction((*label, name.as_ref()), kind, (checks, scripts));
                    Flow::Next
                }
                Op::TransactionEnd => self.finish_transaction().await,
                Op::Step { step, mark } => self.step(step, *mark).await,
                Op::Shared(timer) => self.shared_timer(&events, *timer).await,
                Op::Flow(action) => self.flow(*action),
                Op::Control(control) => {
                    at = self.control(&events, control, at).await;
                    continue;
                }
            };
            match flow {
                Flow::Next => at += 1,
                Flow::EndIteration => {
                    self.leave(Depth::default(), at, 0);
                    break;
                }
                // As in JMeter: controllers and transactions after the last sample still end.
                Flow::EndUser => (at, ends) = (at + 1, true),
            }
        }
        if ends {
            return self.end();
        }
        if !self.progressed {
            self.yield_now(&events).await;
        }
        Flow::Next
    }

    /// Prepares cookies, connections and variables for an iteration.
    fn start_iteration(&mut self, program: &Program, group: &Group) {
        if self.iterations > 0 {
            self.reset_user();
        } else {
            self.preset_cookies();
        }
        self.values.start_iteration(program);
        if let Some(variable) = group.index {
            self.values.set(variable, Some(self.iterations.to_string()));
        }
        self.iterations += 1;
        self.progressed = false;
    }

    /// The time at which a sample that starts at `start` was due. Of the first one of an iteration of an open
    /// model, the send lag is recorded.
    #[inline]
    pub(super) fn take_intended(&mut self, events: &Loop, start: u64) -> u64 {
        let Some(intended) = self.intended.take() else { return start };
        let lag = start.saturating_sub(intended.max(self.idle_since));
        events.recorder.borrow_mut().add_send_lag(lag);
        intended
    }

    /// Continues after a sample.
    #[inline]
    fn after_sample(&mut self, good: bool, on_error: OnError) -> Flow {
        // A sample without a wait is still a step: a loop of them has to yield.
        (self.yields, self.progressed) = (0, true);
        self.sampler_ended();
        self.set_success(good);
        if good { Flow::Next } else { self.after_error(on_error) }
    }

    #[inline]
    fn sampler_ended(&mut self) {
        self.samplers = self.samplers.wrapping_add(1);
        self.has_sampled = true;
        self.end_turn();
    }

    #[inline]
    fn set_success(&mut self, good: bool) {
        self.last_success = good;
        if let Some(variable) = self.events.common.plan.last_success {
            self.values.set(variable, Some(good.to_string()));
        }
    }

    /// Ends the user: of its transactions, only those that replace their samples are counted.
    fn end(&mut self) -> Flow {
        while let Some(open) = self.transactions.last() {
            if open.parent_only { self.interrupt_transaction() } else { self.drop_transaction() }
        }
        self.locks.clear();
        Flow::EndUser
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
            self.tls = None;
            self.workers.clear();
        }
        self.cache.borrow_mut().start_iteration(group.new_user);
        if group.cookies == Cookies::KeptForIteration {
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
    async fn step(&mut self, step: &Step, mark: usize) -> Flow {
        match step {
            Step::Pause(pause) => {
                let millis = self.pause_millis(pause);
                self.pause(millis * NANOS_PER_MILLI).await;
            }
            Step::Pacing(every) => {
                let until = self.marks[mark];
                // A pause that ends late does not delay the next one.
                let start = until.max(self.now);
                if until > self.now {
                    self.pause((until - self.now) as f64).await;
                }
                let every = u64::try_from(every.as_nanos()).unwrap_or(u64::MAX);
                self.marks[mark] = start.saturating_add(every);
            }
            Step::Throughput { per_minute, of } => {
                let rate = per_minute.number(&mut self.scope());
                let wait = self.throughput_wait(rate, *of, mark);
                self.pause(wait).await;
            }
            Step::Set(values) => self.set(values),
            Step::SetByUser(rows) => {
                let number = self.values.number() as usize;
                if let Some(values) = number.checked_rem(rows.len()).and_then(|at| rows.get(at)) {
                    self.set(values);
                }
            }
            Step::Feed(feeder) => match self.scope().feed(*feeder) {
                Ok(true) => {}
                Ok(false) => return Flow::EndUser,
                Err(why) => {
                    self.events.common.fail(why.to_string());
                    return Flow::EndUser;
                }
            },
            Step::Count(counter) => {
                self.scope().count(*counter);
            }
            // Compiled to other operations.
            Step::Request(_)
            | Step::Loop { .. }
            | Step::Once(_)
            | Step::Transaction { .. }
            | Step::Control(_)
            | Step::Flow(_)
            | Step::OnFailure(_)
            | Step::Decide(_)
            | Step::Local(_)
            | Step::Script(_)
            | Step::Shared(_) => {}
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
                self.events.common.own_control.stop();
                Flow::EndUser
            }
            OnError::StopNow => {
                self.events.common.own_control.stop_now();
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

    /// Nanoseconds to wait for a rate of samples per minute.
    fn throughput_wait(&mut self, rate: f64, of: ThroughputOf, mark: usize) -> f64 {
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
        let last = self.marks[mark];
        let next =
            if last == 0 { self.now } else { last.saturating_add(apart as u64).max(self.now) };
        self.marks[mark] = next;
        (next - self.now) as f64
    }

    /// Waits this number of nanoseconds, or until the user has to end.
    pub(super) async fn pause(&mut self, nanoseconds: f64) {
        let before = self.now;
        self.sleep(nanoseconds).await;
        self.leave_out(self.now.saturating_sub(before));
    }

    /// Time of the iteration itself is no part of its transactions, and no delay of its first sample.
    fn leave_out(&mut self, passed: u64) {
        if let Some(intended) = &mut self.intended {
            *intended += passed;
        }
        for transaction in &mut self.transactions {
            transaction.paused(passed);
        }
    }

    /// Takes over the time after a wait that started at `before`.
    pub(super) fn waited(&mut self, before: u64) {
        self.paused = true;
        (self.steps, self.yields, self.progressed) = (0, 0, true);
        self.now = self.events.now();
        self.leave_out(self.now.saturating_sub(before));
    }

    /// Likewise, as part of a sample.
    async fn sleep(&mut self, nanoseconds: f64) {
        if nanoseconds < 1.0 {
            return;
        }
        let until = self.now.saturating_add(nanoseconds as u64).min(self.deadline);
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
    }
}

impl Drop for User {
    fn drop(&mut self) {
        if self.is_worker {
            return;
        }
        self.forget_scripts();
        self.events.users.set(self.events.users.get() - 1);
        self.events.common.active[self.group.index].fetch_sub(1, Ordering::Relaxed);
    }
}
