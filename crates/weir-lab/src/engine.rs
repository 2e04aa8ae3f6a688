//! Runs a [`Program`].
//!
//! Each loop is a thread with a runtime of its own and its share of the users; loops share counters
//! and feeders, nothing else. A user is a task that goes along its group's steps. Once a second
//! each loop hands over what it recorded, and the caller's thread adds that up.

mod arrivals;
mod batch;
mod closed;
mod connection;
mod cookies;
mod decode;
mod encode;
mod event_loop;
mod fault;
mod find_max;
mod http1;
mod http2;
mod plan;
mod send;
mod tls;
mod user;

pub use find_max::{Hold, Verdict};

use crate::program::{Executor, Label, Program, State};
use crate::record::{Clock, Interval, Sink};
use batch::{Batch, Collector};
use event_loop::Common;
use find_max::Search;
use plan::Plan;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::time::Duration;
use tls::Tls;

/// How a program is run.
pub struct Options {
    /// Loops: threads. 0 is [`default_loops`].
    pub loops: u32,
    /// After the end of its time or a stop, what is under way may take so long; then it is given
    /// up and counted as interrupted.
    pub grace: Duration,
    /// Makes random numbers; the same seed makes the same ones.
    pub seed: u64,
    /// Makes, for each loop and batch of groups, where every sample goes besides.
    pub sinks: Option<Box<dyn Fn() -> Sink>>,
    /// The run's clock; samples count from it.
    pub clock: Clock,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            loops: 0,
            grace: Duration::from_secs(30),
            seed: 0x5EED,
            sinks: None,
            clock: Clock::start(),
        }
    }
}

/// Half of the cores, at least one: the other half is the server's, which mostly runs beside it.
pub fn default_loops() -> u32 {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZeroUsize::get);
    u32::try_from(cores / 2).unwrap_or(u32::MAX).max(1)
}

/// Stops a run from outside, for instance from a signal's handler thread.
#[derive(Clone, Debug, Default)]
pub struct Control(Arc<AtomicU8>);

/// Whether a run goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Level {
    Run,
    Stop,
    StopNow,
}

impl Control {
    /// No step begins any more; what is under way is waited for.
    pub fn stop(&self) {
        self.0.fetch_max(1, Ordering::Relaxed);
    }

    /// Nor is that waited for.
    pub fn stop_now(&self) {
        self.0.fetch_max(2, Ordering::Relaxed);
    }

    /// Whether it was stopped.
    pub fn is_stopped(&self) -> bool {
        self.level() != Level::Run
    }

    /// Stops what this controls as far as another control is stopped.
    pub(crate) fn follow(&self, other: &Self) {
        self.0.fetch_max(other.0.load(Ordering::Relaxed), Ordering::Relaxed);
    }

    pub(crate) fn level(&self) -> Level {
        match self.0.load(Ordering::Relaxed) {
            0 => Level::Run,
            1 => Level::Stop,
            _ => Level::StopNow,
        }
    }
}

/// What happens while a program runs.
#[derive(Debug)]
pub enum Event<'a> {
    /// Groups begin, by their indexes.
    Groups(&'a [usize]),
    /// A second is over: what all loops did in it.
    Second(&'a Interval),
    /// `find-max` held a rate.
    Hold(&'a Hold),
}

/// What a run gave.
#[derive(Debug)]
pub struct Summary {
    /// Everything, added up.
    pub total: Interval,
    /// When it started.
    pub clock: Clock,
    /// Rates that `find-max` held.
    pub holds: Vec<Hold>,
    /// It was stopped before its end.
    pub stopped: bool,
    /// Samples begun that never ended.
    pub interrupted: u64,
    /// Labels of transactions: their samples are other samples once more.
    pub transactions: Vec<Label>,
    /// Some group is an open model: response times are not service times.
    pub open: bool,
    /// From the start of the run to its end.
    pub length: Duration,
}

/// Why a program cannot be run.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// A request can never be sent.
    #[error("request {label:?} cannot be sent: {message}")]
    Request {
        /// Its label.
        label: String,
        /// Why.
        message: String,
    },
    /// A thread or its runtime cannot be made.
    #[error("a loop cannot be started: {0}")]
    Loop(std::io::Error),
    /// A schedule's timer cannot be made or read.
    #[error("a schedule has no timer: {0}")]
    Timer(std::io::Error),
    /// Programming error: a loop panicked.
    #[error("a loop ended before its time")]
    Panicked,
}

/// Runs a program to its end; `watch` is told what happens, on this thread.
///
/// # Errors
/// It cannot be run at all. Whatever requests give is no error, but in the summary.
pub fn run(
    program: Program,
    options: &Options,
    control: &Control,
    watch: &mut dyn FnMut(&Event<'_>),
) -> Result<Summary, EngineError> {
    let program = Arc::new(program);
    let open = program.groups.iter().any(|group| is_open(&group.executor));
    let plan = Plan::new(program.clone()).map_err(|(label, fault)| EngineError::Request {
        label: program.labels.get(label.0 as usize).cloned().unwrap_or_default(),
        message: fault.message,
    })?;
    let zeros = |count: usize| (0..count).map(|_| AtomicU64::new(0)).collect();
    let common = Arc::new(Common {
        state: State::new(&program),
        clock: options.clock,
        tls: Tls::new(program.insecure),
        control: control.clone(),
        active: zeros(program.groups.len()),
        next_sample: zeros(program.groups.len() + 1),
        grace: options.grace,
        seed: options.seed,
        plan,
    });
    let loops = if options.loops == 0 { default_loops() } else { options.loops };
    let mut collector = Collector::new(program.labels.len(), loops, open);
    let mut holds = Vec::new();
    for batch in batch::batches(&program) {
        if control.is_stopped() && !batch.goes_on_after_stop {
            continue;
        }
        watch(&Event::Groups(&batch.indexes()));
        match &batch.groups[..] {
            [(index, Executor::FindMax(search))] => {
                let mut search = Search::new(search.clone());
                while let Some(executor) = search.next() {
                    let part = Batch { groups: vec![(*index, executor)], ..batch };
                    let before = collector.mark();
                    batch::run(&common, &part, loops, options, &mut collector, watch)?;
                    let hold = search.take(&collector.since(&before));
                    watch(&Event::Hold(&hold));
                    holds.push(hold);
                    if control.is_stopped() {
                        break;
                    }
                }
            }
            _ => batch::run(&common, &batch, loops, options, &mut collector, watch)?,
        }
    }
    collector.end(watch);
    let total = collector.total;
    let started: u64 = total.labels.iter().map(|tally| tally.started).sum();
    let ended: u64 = total.labels.iter().map(crate::record::Tally::samples).sum();
    Ok(Summary {
        clock: options.clock,
        holds,
        stopped: control.is_stopped(),
        interrupted: started.saturating_sub(ended),
        transactions: program.transactions(),
        open,
        length: options.clock.steady.elapsed(),
        total,
    })
}

fn is_open(executor: &Executor) -> bool {
    matches!(executor, Executor::ArrivalRate { .. } | Executor::FindMax(_))
}
