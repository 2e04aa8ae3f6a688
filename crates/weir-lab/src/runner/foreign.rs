//! Rounds by other load generators.

use super::affinity::Pinned;
use super::background::Background;
use super::process::run_to_end;
use super::round::most;
use super::server::RunningServer;
use super::usage::Reading;
use super::{RunError, Runner, Step};
use crate::foreign::{ForeignGenerator, ForeignResult, Order};
use crate::measure::{NextRound, RoundConditions, RoundUsage};
use crate::program::Program;
use crate::record::{Interval, Tally};
use crate::results::EventKind;
use crate::sample::ErrorKind;
use crate::scenario::Cell;
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use std::process::Command;
use std::time::{Duration, Instant};

/// Time for a generator to end, beyond the length of its load.
const END_TIMEOUT: Duration = Duration::from_secs(30);

impl Runner<'_> {
    /// Runs a round of a case by another generator. `undrained`: the queues were not empty before.
    pub(super) fn foreign_round(
        &mut self,
        next: NextRound,
        (program, generator): (&Program, ForeignGenerator),
        live: &RunningServer,
        undrained: bool,
    ) -> Result<(), RunError> {
        let cell = &self.scenario.cells[next.cell];
        let case = &cell.name();
        let name = &format!("{case} round {} by {generator}", next.round.number);
        (self.watch)(&Step::Round { case, name, program });
        let steady = Instant::now();
        let start = steady.duration_since(self.start).as_secs_f64();
        self.measurement.start_round(next, start)?;
        let watch = self.watch_server(next.cell, live, steady)?;
        let loaded = self.foreign_load(cell, program, generator, live);
        self.measurement.observe(watch.end())?;
        match loaded {
            Ok((result, mut usage, reading)) => {
                let (drained, is_idle) = self.deferred(live, &reading);
                usage.drained = drained;
                let second = interval(&result, program.labels.len(), usage.generator);
                self.measurement.second(&second)?;
                let conditions = RoundConditions {
                    undrained: undrained || !is_idle,
                    usage: Some(usage),
                    foreign_times: Some(result.times),
                    ..RoundConditions::default()
                };
                self.measurement.end_round(conditions)?;
            }
            Err(_) if self.control.is_stopped() => {}
            Err(why) => {
                self.event(next.cell, EventKind::Error, why.clone())?;
                self.measurement.fail_case(next.cell, &why);
            }
        }
        Ok(())
    }

    /// Runs the generator to its end.
    fn foreign_load(
        &self,
        cell: &Cell,
        program: &Program,
        generator: ForeignGenerator,
        live: &RunningServer,
    ) -> Result<(ForeignResult, RoundUsage, Reading), String> {
        let order = Order::new(generator, program).map_err(|error| error.to_string())?;
        let _pinned = Pinned::to(&cell.generator_cores)?;
        let others_before = self.others_without_load(live);
        let background = self.background(cell, live)?;
        let words = generator.command(&order);
        let (program, arguments) =
            words.split_first().ok_or_else(|| "its command is empty".to_owned())?;
        let mut command = Command::new(program);
        command.args(arguments);
        let (before, own) = (self.reading(live), children());
        let output = run_to_end(command, order.time + END_TIMEOUT, self.control)?;
        let mut usage = before.until(&self.reading(live), live);
        // The Lab itself only waits, or has a background load.
        usage.lab = usage.generator;
        usage.generator = children().saturating_sub(own);
        usage.generator_memory = 0;
        background.map_or(Ok(()), Background::end)?;
        usage.idle_others = others_before.zip(self.others_without_load(live)).map(most);
        Ok((generator.parse(&output)?, usage, before))
    }
}

/// CPU time of all child processes that have ended.
fn children() -> Duration {
    let Ok(usage) = getrusage(UsageWho::RUSAGE_CHILDREN) else { return Duration::ZERO };
    let micros = (usage.user_time() + usage.system_time()).num_microseconds();
    Duration::from_micros(u64::try_from(micros).unwrap_or(0))
}

/// The result as a second of load, without times.
fn interval(result: &ForeignResult, labels: usize, cpu: Duration) -> Interval {
    let mut tally = Tally::new(false);
    tally.started = result.requests;
    let errors = result.errors.min(result.requests);
    tally.ok = result.requests - errors;
    tally.errors[ErrorKind::Check.index()] = errors;
    (tally.first_start, tally.last_end) = (0, (result.seconds * 1e9) as u64);
    let mut all = vec![tally];
    all.resize_with(labels.max(1), || Tally::new(false));
    let generator_cpu = u64::try_from(cpu.as_nanos()).unwrap_or(u64::MAX);
    Interval { labels: all, generator_cpu, ..Interval::default() }
}
