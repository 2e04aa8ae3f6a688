//! Groups that run at the same time, on all loops.

use super::arrivals::{self, Model, Schedule};
use super::closed::{self, Crew, nanos};
use super::event_loop::{Common, Loop};
use super::{EngineError, Event, Options};
use crate::program::{Executor, Phase, Program};
use crate::record::{Interval, Recorder, Sink};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;
use tokio::runtime::{Builder, LocalOptions};

/// Groups that begin at the same moment.
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

/// The program's groups in the order in which they run.
pub(super) fn batches(program: &Program) -> Vec<Batch> {
    let mut batches: Vec<Batch> = Vec::new();
    for phase in [Phase::Setup, Phase::Main, Phase::Teardown] {
        let mut together = Batch::default();
        for (index, group) in program.groups.iter().enumerate() {
            if group.phase != phase {
                continue;
            }
            let goes_on_after_stop = phase == Phase::Teardown;
            let entry = (index, group.executor.clone());
            // A search looks at what all of its batch does.
            if program.consecutive || matches!(group.executor, Executor::FindMax(_)) {
                batches.push(Batch { groups: vec![entry], goes_on_after_stop });
            } else {
                together.groups.push(entry);
                together.goes_on_after_stop = goes_on_after_stop;
            }
        }
        if !together.groups.is_empty() {
            batches.push(together);
        }
    }
    batches
}

/// Adds up what loops hand over.
pub(super) struct Collector {
    loops: u32,
    /// Seconds that not every loop has handed over.
    waiting: BTreeMap<u64, (Interval, u32)>,
    pub(super) total: Interval,
    labels: usize,
    open: bool,
}

impl Collector {
    pub(super) fn new(labels: usize, loops: u32, open: bool) -> Self {
        let total = Interval::new(0, labels, open);
        Self { loops, waiting: BTreeMap::new(), total, labels, open }
    }

    /// Takes what a loop did in a second.
    fn take(&mut self, interval: &Interval, watch: &mut dyn FnMut(&Event<'_>)) {
        self.total.add(interval, false);
        let (labels, open) = (self.labels, self.open);
        let empty = || (Interval::new(interval.second, labels, open), 0);
        let (sum, parts) = self.waiting.entry(interval.second).or_insert_with(empty);
        sum.add(interval, true);
        *parts += 1;
        // A loop hands over one second after the other: earlier ones are whole, too.
        if *parts >= self.loops {
            let later = self.waiting.split_off(&(interval.second + 1));
            for (_, (whole, _)) in std::mem::replace(&mut self.waiting, later) {
                watch(&Event::Second(&whole));
            }
        }
    }

    /// What is left at the end of the run.
    pub(super) fn end(&mut self, watch: &mut dyn FnMut(&Event<'_>)) {
        for (_, (rest, _)) in std::mem::take(&mut self.waiting) {
            watch(&Event::Second(&rest));
        }
    }

    /// Begins a part of the run that is looked at by itself; gives what was before.
    pub(super) fn mark(&mut self) -> Interval {
        std::mem::replace(&mut self.total, Interval::new(0, self.labels, self.open))
    }

    /// Ends that part: gives it, and adds it to what was before.
    pub(super) fn since(&mut self, before: &Interval) -> Interval {
        let part = std::mem::replace(&mut self.total, before.clone());
        self.total.add(&part, false);
        part
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
    let (sender, receiver) = channel();
    let began = nanos(common.clock.steady.elapsed());
    // What users of all loops share of an executor.
    let begun: Vec<Arc<AtomicU64>> = batch.groups.iter().map(|_| Arc::default()).collect();
    let mut threads = Vec::new();
    for index in 0..loops {
        let share = Share {
            common: common.clone(),
            batch: batch.clone(),
            begun: begun.clone(),
            began,
            place: (index, loops),
            sink: options.sinks.as_ref().map(|make| make()),
            sender: sender.clone(),
        };
        let thread = std::thread::Builder::new()
            .name(format!("lab-{index}"))
            .spawn(move || share.run())
            .map_err(EngineError::Loop)?;
        threads.push(thread);
    }
    drop(sender);
    receive(&receiver, collector, watch);
    for thread in threads {
        thread.join().map_err(|_| EngineError::Panicked)??;
    }
    Ok(())
}

fn receive(
    receiver: &Receiver<Interval>,
    collector: &mut Collector,
    watch: &mut dyn FnMut(&Event<'_>),
) {
    while let Ok(interval) = receiver.recv() {
        collector.take(&interval, watch);
    }
}

/// What one loop does of a batch.
struct Share {
    common: Arc<Common>,
    batch: Batch,
    begun: Vec<Arc<AtomicU64>>,
    began: u64,
    place: (u32, u32),
    sink: Option<Sink>,
    sender: Sender<Interval>,
}

impl Share {
    fn run(self) -> Result<(), EngineError> {
        let runtime = Builder::new_current_thread()
            .enable_all()
            .event_interval(EVENT_INTERVAL)
            .build_local(LocalOptions::default())
            .map_err(EngineError::Loop)?;
        runtime.block_on(self.work())
    }

    async fn work(self) -> Result<(), EngineError> {
        let program = &self.common.plan.program;
        let open = self.batch.groups.iter().any(|(_, executor)| super::is_open(executor));
        let now = nanos(self.common.clock.steady.elapsed());
        let recorder = Recorder::new(program.labels.len(), open, now, self.sink);
        let events = Rc::new(Loop::new(self.common.clone(), self.place, recorder));
        let watching = {
            let events = events.clone();
            tokio::task::spawn_local(async move { events.watch_control().await })
        };
        let handing = {
            let (events, sender) = (events.clone(), self.sender.clone());
            tokio::task::spawn_local(hand_over(events, sender))
        };
        let groups: Vec<_> = self
            .batch
            .groups
            .into_iter()
            .zip(self.begun)
            .map(|((index, executor), begun)| {
                let crew = crew(&self.common, index, &executor, self.began);
                tokio::task::spawn_local(group(events.clone(), crew, executor, begun))
            })
            .collect();
        let mut result = Ok(());
        for group in groups {
            let ended = group.await.unwrap_or(Err(EngineError::Panicked));
            result = result.and(ended);
        }
        watching.abort();
        handing.abort();
        let interval = events.recorder.borrow_mut().hand_over(
            events.now(),
            events.in_flight.get(),
            events.users.get(),
        );
        // Nobody listens any more if the run failed.
        let _ = self.sender.send(interval);
        result
    }
}

/// Tasks polled before the kernel is asked for events: with many busy connections a larger number
/// means fewer calls, and answers found a little later.
const EVENT_INTERVAL: u32 = 256;

/// The users of a group on this loop.
fn crew(common: &Common, index: usize, executor: &Executor, began: u64) -> Crew {
    let group = &common.plan.program.groups[index];
    let began = began.saturating_add(nanos(group.delay));
    let limit = match executor {
        Executor::Users(users) => users.duration,
        Executor::SharedIterations { limit, .. } => *limit,
        Executor::RampingVus { stages, .. } => {
            Some(stages.iter().map(|stage| stage.duration).sum())
        }
        Executor::ArrivalRate { .. } | Executor::FindMax(_) => None,
    };
    let deadline = limit.map_or(u64::MAX, |limit| began.saturating_add(nanos(limit)));
    Crew { index, began, deadline, goes_on_after_stop: group.phase == Phase::Teardown }
}

async fn group(
    events: Rc<Loop>,
    crew: Crew,
    executor: Executor,
    begun: Arc<AtomicU64>,
) -> Result<(), EngineError> {
    let crew = Rc::new(crew);
    if !closed::wait(&events, &crew, crew.began).await {
        return Ok(());
    }
    match executor {
        Executor::Users(users) => closed::users(&events, &crew, &users).await,
        Executor::RampingVus { start, stages } => {
            closed::ramping(&events, &crew, start, &stages).await;
        }
        Executor::SharedIterations { vus, iterations, .. } => {
            closed::shared(&events, &crew, vus, (iterations, &begun)).await;
        }
        Executor::ArrivalRate { start, stages, quantum, max_in_flight, backlog } => {
            let schedule = Schedule { start, stages };
            let model = Model { schedule, quantum, max_in_flight, backlog };
            arrivals::run(&events, &crew, &model).await?;
        }
        // It runs as a row of arrival rates.
        Executor::FindMax(_) => {}
    }
    Ok(())
}

/// Hands over at every full second of the run's clock.
async fn hand_over(events: Rc<Loop>, sender: Sender<Interval>) {
    const SECOND: u64 = 1_000_000_000;
    loop {
        let next = (events.now() / SECOND + 1) * SECOND;
        tokio::time::sleep_until(events.instant(next)).await;
        let interval = events.recorder.borrow_mut().hand_over(
            events.now(),
            events.in_flight.get(),
            events.users.get(),
        );
        if sender.send(interval).is_err() {
            return;
        }
    }
}

/// How long a constant rate is held, as one stage.
pub(super) fn hold(rate: f64, duration: Duration) -> Vec<crate::program::Stage> {
    vec![crate::program::Stage { duration, target: rate }]
}
