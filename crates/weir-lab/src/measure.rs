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
mod observed;
mod round_size;
mod windows;

pub use capped::with_max_rate;
pub use case::Case;
pub use round_size::{offered, rate, resized, size};

use crate::compare;
use crate::engine::RateStep;
use crate::protocol::{CaseOrder, PlannedRound, RoundSize, Rules, Schedule};
use crate::record::Interval;
use crate::report;
use crate::results::{
    Event, EventKind, Folder, FolderError, RoundContext, Run, ServerRow, StoredRun, Summary,
};
use crate::threshold::Threshold;
use case::Progress;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The subject of `server.csv` of the server under test.
pub const SERVER: &str = "server";
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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RoundConditions {
    /// The server's queues were not empty before the round, despite the wait.
    pub undrained: bool,
    /// Sent requests and requests counted by the server, if they differ.
    pub count_mismatch: Option<(u64, u64)>,
}

/// A run in progress.
#[derive(Debug)]
pub struct Measurement {
    settings: Settings,
    schedule: Schedule,
    cases: Vec<Progress>,
    folder: Folder,
    current: Option<RoundContext>,
    interrupted: Option<String>,
}

impl Measurement {
    /// Starts a run that writes into `folder`.
    #[must_use]
    pub fn new(settings: Settings, cases: Vec<Case>, folder: Folder) -> Self {
        let schedule = Schedule::new(settings.case_order, settings.seed);
        let cases = cases.into_iter().map(|case| Progress::new(case, &settings.method)).collect();
        Self { settings, schedule, cases, folder, current: None, interrupted: None }
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
        current.warm_up = second.second < cut(&self.settings.method);
        progress.second(second, current.warm_up);
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

    /// Adds a rate step of `find-max` in the current round. The following samples belong to the
    /// next step.
    ///
    /// # Errors
    /// The folder cannot be written.
    pub fn rate_step(&mut self, step: &RateStep, time: f64) -> Result<(), FolderError> {
        let Some(current) = self.current else { return Ok(()) };
        self.cases[current.cell].rate_step(step);
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
            case.failure = Some(why.to_owned());
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
                case.failure = Some(why.to_owned());
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
        self,
        run: &Run,
        baseline: Option<&Path>,
    ) -> Result<(Summary, PathBuf), FolderError> {
        let settings = &self.settings;
        let mut summary =
            Summary { name: run.name.clone(), interrupted: self.interrupted, ..Summary::default() };
        summary.cells = self.cases.into_iter().map(|case| case.cell(settings)).collect();
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
        Method::Once | Method::Stabilise(_) => 0,
    }
}

#[cfg(test)]
mod tests;
