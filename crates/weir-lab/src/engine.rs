//! Runs a [`Program`].
//!
//! Each loop is a thread with its own runtime and its share of the users. Loops share only counters
//! and feeders. A user is a task that executes the steps of its group. Once per second each loop
//! reports its recorded figures, and the caller's thread adds them up.

mod arrivals;
mod authentication;
mod batch;
mod cache;
mod client_certificate;
mod closed;
mod connection;
mod cookies;
mod decode;
mod encode;
mod event_loop;
mod find_max;
mod grpc;
mod http1;
mod http2;
mod in_flight;
mod plan;
mod request_error;
mod resources;
mod scripted;
mod send;
mod shared_timer;
mod stream;
mod tls;
mod uri;
mod user;

pub use crate::jvm::Helper;
pub use find_max::{Capacity, LoadStep, SearchedLoad, StepVerdict};

use crate::program::{Changes, Executor, Label, Program, State};
use crate::record::{Clock, Interval, Sink};
use batch::{Batch, Collector};
use event_loop::Common;
use find_max::Search;
use plan::Plan;
use shared_timer::SharedTimers;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;
use strum::EnumString;
use tls::Tls;
use user::Locks;

/// How the loops wait for connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, EnumString)]
#[strum(serialize_all = "lowercase")]
pub enum Io {
    /// By io_uring in closed models, where it is possible, otherwise by epoll. In open ones io_uring costs
    /// more, and its sleep makes the ticks of a schedule late.
    #[default]
    Auto,
    /// By epoll.
    Epoll,
}

/// Options of a run.
pub struct Options {
    /// Loops: threads. 0 is [`default_loops`].
    pub loops: u32,
    /// How they wait for connections.
    pub io: Io,
    /// Time for requests in flight after the end or a stop. Requests in flight after this time are
    /// aborted and counted as interrupted.
    pub grace: Duration,
    /// Seed of the random numbers.
    pub seed: u64,
    /// Creates, for each loop and batch of groups, an additional destination of every sample.
    pub sinks: Option<Box<dyn Fn() -> Sink>>,
    /// The helper of [`start_helper`].
    pub helper: Option<Arc<Helper>>,
    /// The run's clock: times of samples count from its start.
    pub clock: Clock,
    /// The loops are a part of those of several processes; `None` is the whole load.
    pub part: Option<Part>,
}

/// Loops of one of several processes: users, arrivals and their numbers are divided among all loops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// Number of the first loop.
    pub first: u32,
    /// Loops of all processes.
    pub all: u32,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            loops: 0,
            io: Io::default(),
            grace: Duration::from_secs(30),
            seed: 0x5EED,
            sinks: None,
            helper: None,
            clock: Clock::start(),
            part: None,
        }
    }
}

/// Half of the cores, at least one. The other half is for the server, which usually runs on the
/// same machine.
pub fn default_loops() -> u32 {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZeroUsize::get);
    u32::try_from(cores / 2).unwrap_or(u32::MAX).max(1)
}

/// Stops a run from outside, for instance from a signal's handler thread.
#[derive(Clone, Debug, Default)]
pub struct Control(Arc<AtomicU8>);

/// Stop level of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Level {
    Run,
    Stop,
    StopNow,
}

impl Control {
    /// Starts no further step. Requests in flight are completed.
    pub fn stop(&self) {
        self.0.fetch_max(1, Ordering::Relaxed);
    }

    /// Aborts requests in flight, too.
    pub fn stop_now(&self) {
        self.0.fetch_max(2, Ordering::Relaxed);
    }

    /// Whether the run was stopped.
    pub fn is_stopped(&self) -> bool {
        self.level() != Level::Run
    }

    /// Whether requests in flight are aborted, too.
    pub(crate) fn is_stopped_now(&self) -> bool {
        self.level() == Level::StopNow
    }

    /// Takes over the stop level of another control.
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

/// Progress of a run.
#[derive(Debug)]
pub enum Event<'a> {
    /// Groups start: their indexes.
    Groups(&'a [usize]),
    /// A second has passed: the figures of all loops.
    Second(&'a Interval),
    /// The ramp-up of a step of `find-max` or `steps` is over: the seconds before are not evaluated.
    StepRamped,
    /// `find-max` or `steps` completed a step.
    LoadStep(&'a LoadStep),
}

/// Result of a run.
#[derive(Debug)]
pub struct Summary {
    /// Sum of all seconds.
    pub total: Interval,
    /// When it started.
    pub clock: Clock,
    /// Steps of `find-max` or `steps`.
    pub load_steps: Vec<LoadStep>,
    /// The run was stopped before its end.
    pub stopped: bool,
    /// Samples that started and never ended.
    pub interrupted: u64,
    /// Labels of transactions, whose samples repeat the samples of their requests.
    pub transactions: Vec<Label>,
    /// A group has an open model: response times differ from service times.
    pub open: bool,
    /// From the start of the run to its end.
    pub length: Duration,
    /// Why the run could not go on.
    pub failure: Option<String>,
    /// The loops have waited for connections by io_uring.
    pub is_ring: bool,
}

/// Reasons why a program cannot be run.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// A request is invalid.
    #[error("request {label:?} cannot be sent: {message}")]
    Request {
        /// Its label.
        label: String,
        /// The error.
        message: String,
    },
    /// A thread or its runtime cannot be created.
    #[error("a loop cannot be started: {0}")]
    Loop(std::io::Error),
    /// The helper JVM cannot be started.
    #[error("{0}")]
    Scripts(String),
    /// A schedule's timer cannot be created or read.
    #[error("a schedule's timer failed: {0}")]
    Timer(std::io::Error),
    /// Programming error: a loop panicked.
    #[error("a loop panicked")]
    Panicked,
}

/// Starts the helper JVM for the scripts of a program, if there are any. Its start takes seconds, which are no
/// part of a run that begins afterwards.
///
/// # Errors
/// The helper cannot be started.
pub fn start_helper(program: &Program) -> Result<Option<Arc<Helper>>, EngineError> {
    let start = |scripts: &Arc<_>| Helper::start(scripts, &program.properties).map(Arc::new);
    program.scripts.as_ref().map(start).transpose().map_err(EngineError::Scripts)
}

/// The state at the start, with functions that the helper evaluates.
fn initial_state(program: &Program, helper: Option<&Helper>) -> Result<State, EngineError> {
    let evaluate = &mut |script, variables: &Changes| match helper {
        Some(helper) => helper.function(script, variables),
        None => Ok(String::new()),
    };
    State::evaluated(program, evaluate).map_err(EngineError::Scripts)
}

fn zeros(count: usize) -> Vec<AtomicU64> {
    (0..count).map(|_| AtomicU64::new(0)).collect()
}

/// Runs a program to its end. `watch` is called with the progress, on this thread.
///
/// # Errors
/// The program cannot be run at all. Failed requests are no error of the run; the summary counts
/// them.
pub fn run(
    program: Program,
    options: &Options,
    control: &Control,
    watch: &mut dyn FnMut(&Event<'_>),
) -> Result<Summary, EngineError> {
    let program = Arc::new(program);
    let open = program.groups.iter().any(|group| group.executor.is_open());
    grpc::reflection::bind(&program)?;
    let plan = Plan::new(program.clone()).map_err(|(label, fault)| EngineError::Request {
        label: program.labels.name(label, str::to_owned),
        message: fault.message,
    })?;
    let known = options.helper.clone().map(|helper| Ok(Some(helper)));
    let helper = known.unwrap_or_else(|| start_helper(&program))?;
    let common = Arc::new(Common {
        state: initial_state(&program, helper.as_deref())?,
        clock: options.clock,
        tls: Tls::of(&program),
        control: control.clone(),
        own_control: Control::default(),
        active: zeros(program.groups.len()),
        next_sample: zeros(program.groups.len() + 1),
        gates: program.gates.iter().map(|_| Mutex::default()).collect(),
        locks: Locks::default(),
        timers: SharedTimers::new(&program),
        helper,
        script_users: AtomicU32::new(0),
        failure: OnceLock::new(),
        grace: options.grace,
        seed: options.seed,
        batches: AtomicU64::new(0),
        is_ring: options.io == Io::Auto && !open && weir_ring::probe().is_ok(),
        has_epoll: AtomicBool::new(false),
        plan,
    });
    let loops = if options.loops == 0 { default_loops() } else { options.loops };
    let mut collector = Collector::new(program.labels.len(), loops, open);
    let mut load_steps = Vec::new();
    let is_stopped = || common.level() != Level::Run;
    for batch in batch::batches(&program) {
        if is_stopped() && !batch.goes_on_after_stop {
            continue;
        }
        watch(&Event::Groups(&batch.indexes()));
        match &batch.groups[..] {
            [(index, Executor::FindMax(search))] => {
                let mut search = Search::new(search.clone());
                while let Some(executor) = search.next() {
                    let part = Batch { groups: vec![(*index, executor)], ..batch };
                    collector.start_part(options.clock.steady.elapsed(), search.warm_up());
                    batch::run(&common, &part, loops, options, &mut collector, watch)?;
                    let step = search.evaluate(&collector.end_part());
                    watch(&Event::LoadStep(&step));
                    load_steps.push(step);
                    if is_stopped() {
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
        load_steps,
        stopped: is_stopped(),
        interrupted: started.saturating_sub(ended),
        transactions: program.transactions(),
        open,
        failure: common.failure.get().cloned(),
        length: options.clock.steady.elapsed(),
        is_ring: !common.has_epoll.load(Ordering::Relaxed),
        total,
    })
}
