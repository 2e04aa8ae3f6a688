//! Groups that run at the same time, on all loops.

use super::arrivals::{self, Arrivals};
use super::closed::{self, UserGroup, nanos};
use super::event_loop::{Common, Loop};
use super::{EngineError, Event, Options, Part};
use crate::program::{Executor, Phase, Program, Users, Values};
use crate::record::{Interval, Recorder, Sink};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;
use tokio::runtime::{Builder, LocalOptions};

/// Nanoseconds of a second.
const SECOND: u64 = 1_000_000_000;

/// Groups that start at the same moment.
#[derive(Clone, Debug, Default)]
pub(super) struct Batch {
    /// Index and executor of each.
    pub(super) groups: Vec<(usize, Executor)>,
    pub(super) goes_on_after_stop: bool,
}

impl Batch {
    pub(super) fn indexes(&self) -> Vec<usize> {
        self.groups.iter().map(|(index, _)| *index).collect()
    }
}

impl Batch {
    /// The batch with the numbers of users that its texts have now.
    fn at_start(&self, common: &Common) -> Self {
        let mut batch = self.clone();
        for (index, executor) in &mut batch.groups {
            if let Executor::UsersAtStart(texts) = executor {
                let program = &common.plan.program;
                let mut values = Values::new(program, &common.state, *index, 0, common.seed);
                let users = texts.evaluate(&mut common.scope(&mut values));
                *executor = Executor::Users(users.unwrap_or_else(|why| {
                    common.fail(why);
                    Users { users: 0, ramp: Duration::ZERO, iterations: None, duration: None }
                }));
            }
        }
        batch
    }
}

/// The program's groups in their order of execution.
pub(super) fn batches(program: &Program) -> Vec<Batch> {
    let mut batches: Vec<Batch> = Vec::new();
    for phase in [Phase::Setup, Phase::Main, Phase::Teardown] {
        let goes_on_after_stop = goes_on_after_stop(program, phase);
        let mut together = Batch { groups: Vec::new(), goes_on_after_stop };
        let groups = program.groups.iter().enumerate();
        for (index, group) in groups.filter(|(_, group)| group.phase == phase) {
            let entry = (index, group.executor.clone());
            // A search evaluates all samples of its batch.
            if program.consecutive || matches!(group.executor, Executor::FindMax(_)) {
                batches.push(Batch { groups: vec![entry], goes_on_after_stop });
            } else {
                together.groups.push(entry);
            }
        }
        if !together.groups.is_empty() {
            batches.push(together);
        }
    }
    batches
}

fn goes_on_after_stop(program: &Program, phase: Phase) -> bool {
    phase == Phase::Teardown && program.teardown_after_stop
}

/// Adds up the figures of all loops.
pub(super) struct Collector {
    loops: u32,
    /// Seconds that are not yet complete: with the number of loops that reported.
    waiting: BTreeMap<u64, (Interval, u32)>,
    pub(super) total: Interval,
    labels: usize,
    open: bool,
    part: Option<EvaluatedPart>,
}

/// A part of the run that is evaluated separately.
struct EvaluatedPart {
    /// Its first second.
    from: u64,
    /// It was reported.
    ramped: bool,
    sum: Interval,
}

impl Collector {
    pub(super) fn new(labels: usize, loops: u32, open: bool) -> Self {
        let total = Interval::new(0, labels, open);
        Self { loops, waiting: BTreeMap::new(), total, labels, open, part: None }
    }

    /// Adds the figures of a loop for one second.
    fn add(&mut self, interval: &Interval, watch: &mut dyn FnMut(&Event<'_>)) {
        self.total.add(interval, false);
        if let Some(part) = &mut self.part
            && interval.second >= part.from
        {
            part.sum.add(interval, false);
        }
        let (labels, open) = (self.labels, self.open);
        let empty = || (Interval::new(interval.second, labels, open), 0);
        let (sum, parts) = self.waiting.entry(interval.second).or_insert_with(empty);
        sum.add(interval, true);
        *parts += 1;
        // Each loop reports its seconds in order: earlier seconds are complete, too.
        if *parts >= self.loops {
            let later = self.waiting.split_off(&(interval.second + 1));
            for (at, (second, _)) in std::mem::replace(&mut self.waiting, later) {
                self.ramped(at, watch);
                watch(&Event::Second(&second));
            }
        }
    }

    /// Reports the incomplete seconds at the end of the run.
    pub(super) fn end(&mut self, watch: &mut dyn FnMut(&Event<'_>)) {
        for (_, (second, _)) in std::mem::take(&mut self.waiting) {
            watch(&Event::Second(&second));
        }
    }

    /// Reports the first second after the ramp-up of a part.
    fn ramped(&mut self, second: u64, watch: &mut dyn FnMut(&Event<'_>)) {
        let part = self.part.as_mut().filter(|part| !part.ramped);
        if let Some(part) = part.filter(|part| second >= part.from) {
            part.ramped = true;
            watch(&Event::StepRamped);
        }
    }

    /// Starts a part of the run that is evaluated separately, without its beginning: the whole seconds
    /// that start within `warm_up`.
    pub(super) fn start_part(&mut self, now: Duration, warm_up: Duration) {
        let from = if warm_up.is_zero() { 0 } else { (now + warm_up).as_secs() + 1 };
        let sum = Interval::new(0, self.labels, self.open);
        self.part = Some(EvaluatedPart { from, ramped: from == 0, sum });
    }

    /// Ends that part and returns it.
    pub(super) fn end_part(&mut self) -> Interval {
        self.part.take().map(|part| part.sum).unwrap_or_default()
    }
}

/// Runs a batch to its end.
pub(super) fn run(
    common: &Arc<Common>,
    batch: &Batch,
    loops: u32,
    options: &Options,
    collector: &mut Collector,
    watch: &mut dyn FnMut(&Event<'_>),
) -> Result<(), EngineError> {
    let batch = &batch.at_start(common);
    common.batches.fetch_add(1, Ordering::Relaxed);
    let (sender, receiver) = channel();
    let start = nanos(common.clock.steady.elapsed());
    // Started iterations, shared by the users of all loops.
    let started: Vec<Arc<AtomicU64>> = batch.groups.iter().map(|_| Arc::default()).collect();
    let mut threads = Vec::new();
    let part = options.part.unwrap_or(Part { first: 0, all: loops });
    for index in 0..loops {
        let share = LoopShare {
            common: common.clone(),
            batch: batch.clone(),
            started: started.clone(),
            start,
            loop_of: (part.first + index, part.all),
            sink: options.sinks.as_ref().map(|create| create()),
            sender: sender.clone(),
        };
        let thread = std::thread::Builder::new()
            .name(format!("lab-{index}"))
            .spawn(move || share.run())
            .map_err(EngineError::Loop)?;
        threads.push(thread);
    }
    drop(sender);
    // The rest of the second in which an earlier batch ended.
    let partial = (start % SECOND > SECOND / 20).then_some(start / SECOND);
    for mut interval in receiver {
        interval.is_partial |= partial == Some(interval.second);
        collector.add(&interval, watch);
    }
    for thread in threads {
        thread.join().map_err(|_| EngineError::Panicked)??;
    }
    Ok(())
}

/// One loop's share of a batch.
struct LoopShare {
    common: Arc<Common>,
    batch: Batch,
    started: Vec<Arc<AtomicU64>>,
    start: u64,
    loop_of: (u32, u32),
    sink: Option<Sink>,
    sender: Sender<Interval>,
}

impl LoopShare {
    fn run(self) -> Result<(), EngineError> {
        // Declared before the runtime, with which the tasks end: the ring ends after them.
        let ring = self.common.is_ring.then(weir_ring::start).and_then(Result::ok);
        if ring.is_none() {
            self.common.has_epoll.store(true, Ordering::Relaxed);
        }
        let runtime = Builder::new_current_thread()
            .enable_all()
            .on_thread_park(weir_ring::park)
            .event_interval(EVENT_INTERVAL)
            .build_local(LocalOptions::default())
            .map_err(EngineError::Loop)?;
        runtime.block_on(self.work())
    }

    async fn work(self) -> Result<(), EngineError> {
        let program = &self.common.plan.program;
        let driver = weir_ring::driver().map_err(EngineError::Loop)?;
        let driving = tokio::task::spawn_local(driver);
        let open = self.batch.groups.iter().any(|(_, executor)| executor.is_open());
        let now = nanos(self.common.clock.steady.elapsed());
        let recorder = Recorder::new(program.labels.len(), open, now, self.sink);
        let events = Rc::new(Loop::new(self.common.clone(), self.loop_of, recorder));
        let watching = {
            let events = events.clone();
            tokio::task::spawn_local(async move { events.watch_control().await })
        };
        let handing = {
            let (events, sender) = (events.clone(), self.sender.clone());
            tokio::task::spawn_local(report_seconds(events, sender))
        };
        let groups: Vec<_> = self
            .batch
            .groups
            .into_iter()
            .zip(self.started)
            .map(|((index, executor), started)| {
                let group = user_group(&self.common, index, &executor, self.start);
                tokio::task::spawn_local(run_group(events.clone(), group, executor, started))
            })
            .collect();
        let mut result = Ok(());
        for group in groups {
            let ended = group.await.unwrap_or(Err(EngineError::Panicked));
            result = result.and(ended);
        }
        driving.abort();
        watching.abort();
        handing.abort();
        // The receiver is gone if the run failed.
        let _ = self.sender.send(Interval { is_partial: true, ..events.take_interval() });
        result
    }
}

/// Tasks polled before the kernel is queried for events. With many busy connections a larger number
/// means fewer calls and slightly later responses.
const EVENT_INTERVAL: u32 = 256;

/// The users of a group on this loop.
fn user_group(common: &Common, index: usize, executor: &Executor, start: u64) -> UserGroup {
    let group = &common.plan.program.groups[index];
    let start = start.saturating_add(nanos(group.delay));
    let limit = match executor {
        Executor::Users(users) => users.duration,
        Executor::SharedIterations { limit, .. } => *limit,
        Executor::RampingVus { stages, .. } => {
            Some(stages.iter().map(|stage| stage.duration).sum())
        }
        Executor::Planned(planned) => Some(planned.end()),
        // JMeter stops the users at the end of its schedule.
        Executor::Arrivals(times) => Some(times.length()),
        Executor::ArrivalRate(_) | Executor::FindMax(_) | Executor::UsersAtStart(_) => None,
    };
    let deadline = limit.map_or(u64::MAX, |limit| start.saturating_add(nanos(limit)));
    let goes_on_after_stop = goes_on_after_stop(&common.plan.program, group.phase);
    let grace = group.grace.unwrap_or(common.grace);
    UserGroup { index, start, deadline, goes_on_after_stop, grace }
}

async fn run_group(
    events: Rc<Loop>,
    group: UserGroup,
    executor: Executor,
    started: Arc<AtomicU64>,
) -> Result<(), EngineError> {
    let group = Rc::new(group);
    if !closed::wait(&events, &group, group.start).await {
        return Ok(());
    }
    match executor {
        Executor::Users(users) => closed::users(&events, &group, &users).await,
        Executor::RampingVus { start, stages, iterations } => {
            closed::ramping(&events, &group, start, &stages, iterations).await;
        }
        Executor::Planned(planned) => closed::planned(&events, &group, &planned).await,
        Executor::Arrivals(times) => {
            arrivals::run(&events, &group, Arrivals::times(&events, &times)).await?;
        }
        Executor::SharedIterations { vus, iterations, .. } => {
            closed::shared(&events, &group, vus, (iterations, &started)).await;
        }
        Executor::ArrivalRate(model) => {
            arrivals::run(&events, &group, Arrivals::rate(&model)).await?;
        }
        // A search runs as a sequence of arrival rates, and texts are evaluated before the batch.
        Executor::FindMax(_) | Executor::UsersAtStart(_) => {}
    }
    Ok(())
}

/// Reports at every full second of the run's clock.
async fn report_seconds(events: Rc<Loop>, sender: Sender<Interval>) {
    loop {
        let next = (events.now() / SECOND + 1) * SECOND;
        tokio::time::sleep_until(events.instant(next)).await;
        if sender.send(events.take_interval()).is_err() {
            return;
        }
    }
}
