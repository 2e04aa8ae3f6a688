//! From seconds of load to the summary of a run.
//!
//! ```text
//! next_round → (server idle) → start_round → engine::run: second, observe … → end_round ─┐
//!   ↑                                                                                    │
//!   └────────────────── until no case has further rounds ─────────────── finish ←────────┘
//! ```
//!
//! A [`Measurement`] has the protocol of every case, chooses the next round, writes events into the
//! folder and determines the verdicts. Its caller starts the servers and the engine.

mod capped;
mod case;
mod counted;
mod observed;
mod paired;
mod round_size;
mod windows;

pub use capped::with_max_rate;
pub use case::Case;
pub use round_size::{offered, rate, requests_of_iteration, resized, size};

use crate::bars::ScenarioBar;
use crate::compare;
use crate::engine::LoadStep;
use crate::figures::Times;
use crate::program::Program;
use crate::protocol::{CaseOrder, PairedRules, PlannedRound, RoundSize, Rules, Schedule};
use crate::record::Interval;
use crate::report;
use crate::results::{
    AgentRound, Event, EventKind, Folder, FolderError, RoundContext, Run, ServerRow, StoredRun,
    Summary,
};
use crate::stop::StopCondition;
use crate::threshold::Threshold;
use crate::verdict::Verdict;
use case::Progress;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The subject of `server.csv` of the server under test.
pub const SERVER: &str = "server";
/// The subject of `server.csv` of the Lab itself.
pub const GENERATOR: &str = "generator";
/// The subject whose value is the garbage collection pauses of a JVM since the previous row, in
/// milliseconds.
pub const PAUSES: &str = "gc pauses";

/// Measurement method of every case.
#[derive(Clone, Debug, PartialEq)]
pub enum Method {
    /// One run, nothing cut off.
    Once,
    /// One run without its beginning.
    Fixed {
        /// Length of the beginning that is cut off, in whole seconds.
        cut: Duration,
    },
    /// Rounds until the server is stable, then recorded rounds.
    Stabilise(Rules),
    /// Rounds in which each case is measured once.
    Paired(PairedRules),
}

/// Settings of a run.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Measurement method of every case.
    pub method: Method,
    /// Order of the rounds of the cases.
    pub case_order: CaseOrder,
    /// Seed of a random order.
    pub seed: u64,
    /// Thresholds.
    pub thresholds: Vec<Threshold>,
    /// Conditions that end the run early.
    pub stop: Vec<StopCondition>,
    /// Comparisons of contenders.
    pub bars: Vec<ScenarioBar>,
    /// Reduced rounds: PASS becomes QUICK.
    pub quick: bool,
}

/// The next round.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NextRound {
    /// Index of the case.
    pub cell: usize,
    /// Number, size and stage of the round.
    pub round: PlannedRound,
}

/// Conditions of a round besides its samples.
#[derive(Clone, Debug, Default)]
pub struct RoundConditions {
    /// The server's queues were not empty before the round, despite the wait.
    pub undrained: bool,
    /// Sent requests and requests counted by the server, if they differ.
    pub count_mismatch: Option<(u64, u64)>,
    /// Increase of the counters of the scenario, by their names.
    pub counters: Vec<(String, f64)>,
    /// CPU time and memory, if measured for this round.
    pub usage: Option<RoundUsage>,
    /// Response times by another generator.
    pub foreign_times: Option<Times>,
    /// The agents that generated the load; none if this process did.
    pub agents: Vec<AgentRound>,
}

/// CPU time and memory of a round.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RoundUsage {
    /// Length of the observation.
    pub length: Duration,
    /// CPU time of the server; `None` if its processes are unknown.
    pub server: Option<Duration>,
    /// Number of cores of the server, if its processes are pinned.
    pub server_cores: Option<usize>,
    /// Resident memory of the server at the end.
    pub server_memory: u64,
    /// CPU time of the backend.
    pub backend: Option<Duration>,
    /// CPU time of the load generator.
    pub generator: Duration,
    /// CPU time of the Lab during the load of another generator, for instance of a background load.
    pub lab: Duration,
    /// Busy time of all cores of the machine.
    pub busy: Duration,
    /// Share of the machine's time taken by its hypervisor.
    pub steal: f64,
    /// If all of the machine except the generator counts as the server: cores used by other programs
    /// while there was no load.
    pub idle_others: Option<f64>,
    /// Memory of the server without that of files at the end.
    pub anonymous_memory: u64,
    /// Growth of the server's data folder, in bytes.
    pub disk: Option<i64>,
    /// Resident memory of the load generator at the end; of another one, its largest.
    pub generator_memory: u64,
    /// Time from the start of the server until it was ready, if it was started for this round.
    pub start: Option<Duration>,
    /// CPU time of the server's threads with the observed name.
    pub thread: Option<Duration>,
    /// The deferred work of the server, if it was waited for.
    pub drained: Option<DrainedUsage>,
}

/// Time and CPU time until a server is idle.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct DrainedUsage {
    /// Time from the end of the load.
    pub time: Duration,
    /// CPU time of the server from the start of the load.
    pub server: Duration,
    /// Growth of its data folder since then, in bytes.
    pub disk: Option<i64>,
}

/// A run in progress.
#[derive(Debug)]
pub struct Measurement {
    settings: Settings,
    schedule: Schedule,
    cases: Vec<Progress>,
    folder: Folder,
    current: Option<RoundContext>,
    /// Seconds of the current round that are measured.
    measured: Range<u64>,
    interrupted: Option<String>,
}

impl Measurement {
    /// Starts a run that writes into `folder`.
    #[must_use]
    pub fn new(settings: Settings, cases: Vec<Case>, folder: Folder) -> Self {
        let schedule = Schedule::new(settings.case_order, settings.seed);
        let cases = cases.into_iter().map(|case| Progress::new(case, &settings)).collect();
        let measured = 0..u64::MAX;
        Self { settings, schedule, cases, folder, current: None, measured, interrupted: None }
    }

    /// Sets the offered rate of a case, once it is known.
    pub fn set_rate(&mut self, cell: usize, program: &Program) {
        if let Some(progress) = self.cases.get_mut(cell) {
            progress.case.rate = rate(program);
        }
    }

    /// Adds a remark for the readers of a case, once.
    pub fn remark(&mut self, cell: usize, text: String) {
        let Some(progress) = self.cases.get_mut(cell) else { return };
        let remarks = &mut progress.case.cell.remarks;
        if !remarks.contains(&text) {
            remarks.push(text);
        }
    }

    /// The next round; `None` once every case has its outcome. The cases of the first incomplete
    /// block alternate, then those of the next block.
    pub fn next_round(&mut self) -> Option<NextRound> {
        let open = |case: &Progress| case.next_round().is_some();
        let block = self.cases.iter().find(|case| open(case))?.case.block;
        let open: Vec<bool> =
            self.cases.iter().map(|case| case.case.block == block && open(case)).collect();
        let cell = self.schedule.next(&open)?;
        Some(NextRound { cell, round: self.cases[cell].next_round()? })
    }

    /// The seconds of a round that are measured. With `cut`, also what follows the load is left out:
    /// connections are closed.
    #[must_use]
    pub fn measured_seconds(&self, size: RoundSize) -> Range<u64> {
        let from = cut(&self.settings.method);
        match (&self.settings.method, size) {
            (Method::Paired(_), RoundSize::Seconds(seconds)) if from > 0 => from..seconds as u64,
            _ => from..u64::MAX,
        }
    }

    /// Whether a case has further rounds.
    #[must_use]
    pub fn is_open(&self, cell: usize) -> bool {
        self.cases.get(cell).is_some_and(|case| case.next_round().is_some())
    }

    /// Starts a round, `start` seconds after the run.
    ///
    /// # Errors
    /// The folder cannot be written.
    pub fn start_round(&mut self, next: NextRound, start: f64) -> Result<(), FolderError> {
        let stage =
            matches!(self.settings.method, Method::Stabilise(_)).then_some(next.round.stage);
        let NextRound { cell, round } = next;
        self.current =
            Some(RoundContext { cell, round: round.number, stage, warm_up: false, start });
        self.measured = self.measured_seconds(round.size);
        self.cases[cell].start_round();
        let length = match round.size {
            RoundSize::Iterations(n) => format!("{n} iterations"),
            RoundSize::Seconds(seconds) => format!("{seconds:.1} s"),
        };
        let name = &self.cases[cell].case.cell.name;
        let text = format!("round {} of {name}: {length}", round.number);
        self.event(start, Some(cell), EventKind::Round, text.trim_end().to_owned())
    }

    /// Adds a second of the current round.
    ///
    /// # Errors
    /// The folder cannot be written.
    pub fn second(&mut self, second: &Interval) -> Result<(), FolderError> {
        let Some(mut current) = self.current else { return Ok(()) };
        let progress = &mut self.cases[current.cell];
        current.warm_up = !self.measured.contains(&second.second);
        progress.second(second, current.warm_up);
        progress.watch_stop(second);
        let case = &progress.case;
        self.folder.second(
            current,
            &case.cell.name,
            second,
            &case.labels.names(),
            &case.transactions,
        )
    }

    /// Adds the observed figures of server, host and gauges in the current round. The `time` of the
    /// rows counts from the start of the round.
    ///
    /// # Errors
    /// The folder cannot be written.
    pub fn observe(&mut self, rows: Vec<ServerRow>) -> Result<(), FolderError> {
        let Some(current) = self.current else { return Ok(()) };
        self.cases[current.cell].observe(&rows, cut(&self.settings.method));
        for mut row in rows {
            row.time += current.start;
            self.folder.server_row(&row)?;
        }
        Ok(())
    }

    /// The ramp-up of a step of `find-max` or `steps` is over: samples up to now do not count.
    pub fn step_ramped(&mut self) {
        if let Some(current) = self.current {
            self.cases[current.cell].step_ramped();
        }
    }

    /// The condition that the current or last round of a case met, as a reason to end the run.
    #[must_use]
    pub fn stop_reason(&self, cell: usize) -> Option<&str> {
        self.cases.get(cell)?.stop_reason.as_deref()
    }

    /// Ends the run because a case met a condition of `stop`: cases without a result FAIL.
    ///
    /// # Errors
    /// The folder cannot be written.
    pub fn stop_run(&mut self, time: f64, why: &str) -> Result<(), FolderError> {
        for case in self.cases.iter_mut().filter(|case| case.next_round().is_some()) {
            if case.stop_reason.is_none() {
                case.failure = Some((Verdict::Fail, format!("not measured: {why}")));
            }
        }
        self.event(time, None, EventKind::Note, why.to_owned())
    }

    /// Adds a step of `find-max` or `steps` in the current round. The following samples belong to the
    /// next step.
    ///
    /// # Errors
    /// The folder cannot be written.
    pub fn load_step(&mut self, step: &LoadStep, time: f64) -> Result<(), FolderError> {
        let Some(current) = self.current else { return Ok(()) };
        self.cases[current.cell].load_step(step);
        self.event(time, Some(current.cell), EventKind::Note, step.to_string())
    }

    /// Ends the round.
    ///
    /// # Errors
    /// The folder cannot be written.
    pub fn end_round(&mut self, conditions: RoundConditions) -> Result<(), FolderError> {
        let Some(current) = self.current.take() else { return Ok(()) };
        let method = &self.settings.method;
        let progress = &mut self.cases[current.cell];
        progress.end(conditions, method);
        let block = progress.case.block;
        self.plan_rounds(block);
        let progress = &self.cases[current.cell];
        let case = &progress.case;
        self.folder.end_round(&case.cell.name, &case.labels.names())?;
        let end = current.start + progress.seconds;
        let decided =
            progress.outcome().map(|outcome| (outcome.reason.clone(), case.cell.name.clone()));
        let stopped = progress.next_round().is_none();
        for (at, text) in progress.failures(current.start) {
            self.event(at, Some(current.cell), EventKind::Error, text)?;
        }
        match decided {
            Some((reason, name)) if stopped => {
                let text = if name.is_empty() { reason } else { format!("{name}: {reason}") };
                self.event(end, Some(current.cell), EventKind::Decided, text)
            }
            _ => Ok(()),
        }
    }

    /// Makes a case INVALID for the reason `why`, for instance a server that did not start.
    pub fn fail_case(&mut self, cell: usize, why: &str) {
        self.current = None;
        if let Some(case) = self.cases.get_mut(cell) {
            case.failure = Some((Verdict::Invalid, why.to_owned()));
            let block = case.case.block;
            self.plan_rounds(block);
        }
    }

    /// Ends the run early: incomplete cases are INVALID for the reason `why`.
    ///
    /// # Errors
    /// The folder cannot be written.
    pub fn interrupt(&mut self, time: f64, why: &str) -> Result<(), FolderError> {
        let under_way = self.current.take().map(|current| current.cell);
        for (at, case) in self.cases.iter_mut().enumerate() {
            if under_way == Some(at) || case.next_round().is_some() {
                case.failure = Some((Verdict::Invalid, why.to_owned()));
            }
        }
        self.interrupted = Some(why.to_owned());
        self.event(time, None, EventKind::Note, why.to_owned())
    }

    /// Writes an event.
    ///
    /// # Errors
    /// The folder cannot be written.
    pub fn event(
        &mut self,
        time: f64,
        cell: Option<usize>,
        kind: EventKind,
        text: String,
    ) -> Result<(), FolderError> {
        self.folder.event(&Event { time, cell, kind, text })
    }

    /// Ends the run: determines the verdict of every case, compares with the folder of a
    /// `baseline`, and writes summary and report. Returns the summary and the folder.
    ///
    /// # Errors
    /// The baseline cannot be read, or the folder not be written.
    pub fn finish(
        mut self,
        run: &Run,
        baseline: Option<&Path>,
    ) -> Result<(Summary, PathBuf), FolderError> {
        self.select_rounds();
        let settings = &self.settings;
        let mut summary =
            Summary { name: run.name.clone(), interrupted: self.interrupted, ..Summary::default() };
        let name = |case: &Progress| {
            (case.case.contender.clone(), case.case.load.clone(), case.case.values.clone())
        };
        let contenders: Vec<_> = self.cases.iter().map(name).collect();
        summary.cells = self.cases.into_iter().map(|case| case.cell(settings)).collect();
        summary.bars = paired::results(&settings.bars, &contenders, &summary.cells);
        summary.conclude();
        if let Some(before) = baseline {
            let before = StoredRun::read(before)?;
            let path = self.folder.path().to_owned();
            let after = StoredRun { path, run: run.clone(), summary: summary.clone() };
            summary.comparison = Some(compare::runs(&before, &after, compare::MARGIN));
            summary.conclude();
        }
        let path = self.folder.finish(run, &summary)?;
        report::write(&path)?;
        Ok((summary, path))
    }
}

/// Seconds that are cut off.
fn cut(method: &Method) -> u64 {
    match method {
        Method::Fixed { cut } => cut.as_secs(),
        Method::Paired(rules) => rules.cut.as_secs(),
        Method::Once | Method::Stabilise(_) => 0,
    }
}

#[cfg(test)]
mod tests;

#[cfg(test)]
mod verdict_table;
