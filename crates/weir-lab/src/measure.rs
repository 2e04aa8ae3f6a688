//! From seconds of load to the summary of a run.
//!
//! ```text
//! turn → (server idle) → begin → engine::run: second, observe … → end ─┐
//!   ↑                                                                  │
//!   └────────── until no case has a round left ─────────── finish ←────┘
//! ```
//!
//! A [`Measurement`] holds the protocol of every case, says whose round is next, writes what happens
//! into the folder, and judges. Whoever runs it starts servers and the engine; nothing here does.

mod capped;
mod case;
mod seen;
mod size;
mod stretches;

pub use capped::capped;
pub use case::Case;
pub use size::{extent, offered, rate, sized};

use crate::compare;
use crate::engine::Hold;
use crate::protocol::{Arrangement, Extent, Order, Rules, Schedule, Stage};
use crate::record::Interval;
use crate::report;
use crate::results::{
    Event, EventKind, Folder, FolderError, Place, Run, ServerRow, Stored, Summary,
};
use crate::threshold::Threshold;
use case::{Progress, Rest};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The subject of `server.csv` that is the server under test.
pub const SERVER: &str = "server";
/// The subject whose value is how long a JVM paused to collect garbage since its row before, in
/// milliseconds.
pub const PAUSES: &str = "gc pauses";

/// How every case is measured.
#[derive(Clone, Debug, PartialEq)]
pub enum Method {
    /// The load once; nothing is cut off.
    Once,
    /// The load once, without its beginning.
    Fixed {
        /// How much is cut off; whole seconds.
        cut: Duration,
    },
    /// Rounds until the server is stable, then further ones.
    Stabilise(Rules),
}

/// How a run is measured.
#[derive(Clone, Debug)]
pub struct Settings {
    /// How every case is.
    pub method: Method,
    /// How rounds of the cases follow each other.
    pub arrangement: Arrangement,
    /// Decides the order where it is random.
    pub seed: u64,
    /// Promises.
    pub thresholds: Vec<Threshold>,
    /// Reduced rounds: PASS becomes QUICK.
    pub quick: bool,
}

/// A round that is to be run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Turn {
    /// The case, by its place.
    pub cell: usize,
    /// How much, and what for.
    pub order: Order,
}

/// What is known of a round at its end, beside its seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Circumstances {
    /// The server's queues were not empty before it, although they were waited for.
    pub undrained: bool,
    /// Requests sent and requests that the server counted, where they differ.
    pub miscounted: Option<(u64, u64)>,
}

/// A run on its way.
#[derive(Debug)]
pub struct Measurement {
    settings: Settings,
    schedule: Schedule,
    cases: Vec<Progress>,
    folder: Option<Folder>,
    current: Option<Place>,
    interrupted: Option<String>,
}

impl Measurement {
    /// Begins a run. Without a folder nothing is written.
    #[must_use]
    pub fn new(settings: Settings, cases: Vec<Case>, folder: Option<Folder>) -> Self {
        let schedule = Schedule::new(settings.arrangement, settings.seed);
        let cases = cases.into_iter().map(|case| Progress::new(case, &settings.method)).collect();
        Self { settings, schedule, cases, folder, current: None, interrupted: None }
    }

    /// The next round; `None` once every case has its outcome. Cases of the first block that has
    /// one left are in turn, then those of the next.
    pub fn turn(&mut self) -> Option<Turn> {
        let open = |case: &Progress| case.order().is_some();
        let block = self.cases.iter().find(|case| open(case))?.case.block;
        let open: Vec<bool> =
            self.cases.iter().map(|case| case.case.block == block && open(case)).collect();
        let cell = self.schedule.next(&open)?;
        Some(Turn { cell, order: self.cases[cell].order()? })
    }

    /// Whether a case has a round left.
    #[must_use]
    pub fn is_open(&self, cell: usize) -> bool {
        self.cases.get(cell).is_some_and(|case| case.order().is_some())
    }

    /// Begins a round, `start` seconds after the run did.
    ///
    /// # Errors
    /// The folder cannot be written.
    pub fn begin(&mut self, turn: Turn, start: f64) -> Result<(), FolderError> {
        let stage =
            matches!(self.settings.method, Method::Stabilise(_)).then_some(turn.order.stage);
        let Turn { cell, order } = turn;
        self.current = Some(Place { cell, round: order.number, stage, warm_up: false, start });
        self.cases[cell].begin();
        let what = match order.extent {
            Extent::Iterations(n) => format!("{n} iterations"),
            Extent::Seconds(seconds) => format!("{seconds:.1} s"),
        };
        let name = &self.cases[cell].case.name;
        let text = format!("round {} of {name}: {what}", order.number);
        self.event(start, Some(cell), EventKind::Round, text.trim_end().to_owned())
    }

    /// A second of the round that was begun.
    ///
    /// # Errors
    /// The folder cannot be written.
    pub fn second(&mut self, second: &Interval) -> Result<(), FolderError> {
        let Some(mut place) = self.current else { return Ok(()) };
        let progress = &mut self.cases[place.cell];
        place.warm_up = second.second < cut(&self.settings.method);
        progress.second(second, place.warm_up);
        let case = &progress.case;
        match &mut self.folder {
            Some(folder) => {
                folder.second(place, &case.name, second, &case.labels, &case.transactions)
            }
            None => Ok(()),
        }
    }

    /// What was seen of server, host and gauges in the round that was begun; `time` of the rows is
    /// since its start.
    ///
    /// # Errors
    /// The folder cannot be written.
    pub fn observe(&mut self, rows: Vec<ServerRow>) -> Result<(), FolderError> {
        let Some(place) = self.current else { return Ok(()) };
        self.cases[place.cell].observe(&rows, cut(&self.settings.method));
        for mut row in rows {
            row.time += place.start;
            if let Some(folder) = &mut self.folder {
                folder.server(&row)?;
            }
        }
        Ok(())
    }

    /// A rate that `find-max` held in the round that was begun: what comes next is of another one.
    ///
    /// # Errors
    /// The folder cannot be written.
    pub fn hold(&mut self, hold: &Hold, time: f64) -> Result<(), FolderError> {
        let Some(place) = self.current else { return Ok(()) };
        self.cases[place.cell].hold(hold);
        self.event(time, Some(place.cell), EventKind::Note, hold.to_string())
    }

    /// Ends the round.
    ///
    /// # Errors
    /// The folder cannot be written.
    pub fn end(&mut self, circumstances: Circumstances) -> Result<(), FolderError> {
        let Some(place) = self.current.take() else { return Ok(()) };
        let method = &self.settings.method;
        let progress = &mut self.cases[place.cell];
        progress.end(circumstances, method);
        let case = &progress.case;
        if let Some(folder) = &mut self.folder {
            folder.end_round(&case.name, &case.labels)?;
        }
        let end = place.start + progress.last_length();
        let decided =
            progress.outcome().map(|outcome| (outcome.because.clone(), case.name.clone()));
        let stopped = progress.order().is_none();
        for (at, text) in progress.take_failures(place.start) {
            self.event(at, Some(place.cell), EventKind::Error, text)?;
        }
        match decided {
            Some((because, name)) if stopped => {
                let text = if name.is_empty() { because } else { format!("{name}: {because}") };
                self.event(end, Some(place.cell), EventKind::Decided, text)
            }
            _ => Ok(()),
        }
    }

    /// Gives a case up, because its server cannot be started, for instance: it is INVALID, and says
    /// why.
    pub fn give_up(&mut self, cell: usize, why: &str) {
        self.current = None;
        if let Some(case) = self.cases.get_mut(cell) {
            case.given_up = Some(why.to_owned());
        }
    }

    /// Ends the run before its end: cases that are not measured to theirs are INVALID, for `why`.
    ///
    /// # Errors
    /// The folder cannot be written.
    pub fn interrupt(&mut self, time: f64, why: &str) -> Result<(), FolderError> {
        let under_way = self.current.take().map(|place| place.cell);
        for (at, case) in self.cases.iter_mut().enumerate() {
            if under_way == Some(at) || case.order().is_some() {
                case.given_up = Some(why.to_owned());
            }
        }
        self.interrupted = Some(why.to_owned());
        self.event(time, None, EventKind::Note, why.to_owned())
    }

    /// Writes down that something happened.
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
        match &mut self.folder {
            Some(folder) => folder.event(&Event { time, cell, kind, text }),
            None => Ok(()),
        }
    }

    /// Ends the run: judges every case, compares with `baseline` (a folder, and the largest loss
    /// that is none), writes the summary. Gives it, and where the folder is.
    ///
    /// # Errors
    /// The baseline cannot be read, or the folder not be written.
    pub fn finish(
        self,
        run: &Run,
        baseline: Option<(&Path, f64)>,
    ) -> Result<(Summary, Option<PathBuf>), FolderError> {
        let settings = &self.settings;
        let mut summary =
            Summary { name: run.name.clone(), interrupted: self.interrupted, ..Summary::default() };
        summary.cells = self.cases.into_iter().map(|case| case.cell(settings)).collect();
        summary.conclude();
        if let Some((before, margin)) = baseline {
            let before = Stored::read(before)?;
            let path = self.folder.as_ref().map(|folder| folder.path().to_owned());
            let path = path.unwrap_or_else(|| PathBuf::from("this run"));
            let after = Stored { path, run: run.clone(), summary: summary.clone() };
            summary.comparison = Some(compare::runs(&before, &after, margin));
            summary.conclude();
        }
        let path = self.folder.map(|folder| folder.finish(run, &summary)).transpose()?;
        if let Some(path) = &path {
            report::write(path)?;
        }
        Ok((summary, path))
    }
}

/// Seconds cut off.
fn cut(method: &Method) -> u64 {
    match method {
        Method::Fixed { cut } => cut.as_secs(),
        Method::Once | Method::Stabilise(_) => 0,
    }
}

/// The one order of a run without the protocol.
fn only(extent: Extent) -> Order {
    Order { number: 1, extent, stage: Stage::Recording }
}

impl Rest {
    /// How a case begins to be measured.
    fn of(method: &Method, extent: Extent) -> Self {
        match method {
            Method::Once | Method::Fixed { .. } => Self::Single(Some(only(extent))),
            Method::Stabilise(rules) => Self::stabilise(rules.clone(), extent),
        }
    }
}

#[cfg(test)]
mod tests;
