//! Runs a scenario: servers and backends, rounds in their order, what is watched beside them.
//!
//! ```text
//! turn → backend → server → drained? → round: engine, watch → end → turn …
//! ```
//!
//! Each case has a server of its own, with its own port and data folder, and only one at a time is
//! loaded. What servers print stays in the results folder, their data does not.

mod backend;
mod idle;
mod place;
mod process;
mod round;
mod server;

use crate::engine::{self, Control};
use crate::measure::{Case, Measurement, Settings, Turn};
use crate::program::Origin;
use crate::results::{EventKind, Factor, Folder, FolderError, Run, Summary};
use crate::scenario::{Cell, Idle, Scenario};
use backend::Backends;
use server::{Live, Servers};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

/// Longest wait for queues to be empty.
const DRAINED: Duration = Duration::from_secs(180);

/// How a scenario is run.
#[derive(Debug)]
pub struct Options {
    /// This program: servers of weir and echo backends are started from it.
    pub weir: PathBuf,
    /// Where results go.
    pub folder: PathBuf,
    /// What is written into `run.json`.
    pub run: Run,
    /// Short rounds: PASS becomes QUICK.
    pub quick: bool,
    /// A run that it is compared with, and the largest loss that is none.
    pub baseline: Option<(PathBuf, f64)>,
    /// Loops of the engine; 0 is half of the cores.
    pub loops: u32,
    /// Decides what is random.
    pub seed: u64,
}

/// What happens while a scenario runs.
#[derive(Debug)]
pub enum Step<'s> {
    /// What is being done now, in words.
    Doing(&'s str),
    /// A round begins: the case, and what is done.
    Round(&'s str),
    /// What the engine tells.
    Load(&'s engine::Event<'s>),
}

/// Why a scenario could not be run to an end, whatever that is.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The results folder.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// A file that a server needs could not be written.
    #[error("{}: {source}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// A thread could not be made.
    #[error("nothing can be watched: {0}")]
    Watch(std::io::Error),
}

/// A run on its way.
struct Runner<'r> {
    scenario: &'r Scenario,
    options: &'r Options,
    control: &'r Control,
    watch: &'r mut dyn FnMut(&Step<'_>),
    measurement: Measurement,
    /// Where the target is, unless a server is started elsewhere.
    base: Origin,
    servers: Servers,
    backends: Backends,
    start: Instant,
    /// The server that was loaded last has not been waited for yet.
    loaded: Option<Live>,
    /// Why it ends before its end, if it does.
    ended: &'static str,
}

/// Runs a scenario to its end, or until it is stopped; gives its summary, and where its results
/// are. Servers that do not start, errors and hangs are in the summary.
///
/// # Errors
/// Results cannot be written.
pub fn run(
    scenario: &Scenario,
    options: &Options,
    control: &Control,
    watch: &mut dyn FnMut(&Step<'_>),
) -> Result<(Summary, Option<PathBuf>), RunError> {
    for (path, text) in &scenario.files {
        write_file(path, text)?;
    }
    let folder = Folder::create(&options.folder, &options.run, SystemTime::now())?;
    let settings = Settings {
        method: scenario.method.clone(),
        arrangement: scenario.order,
        seed: options.seed,
        thresholds: scenario.thresholds.clone(),
        quick: options.quick,
    };
    let measurement = Measurement::new(settings, cases(&scenario.cells), Some(folder));
    let place = options.folder.join("servers");
    let Ok((base, _)) = Origin::parse(&scenario.target.base) else {
        // It was parsed when the scenario was read.
        return Ok((Summary::default(), None));
    };
    let mut runner = Runner {
        scenario,
        options,
        control,
        watch,
        measurement,
        base: base.clone(),
        servers: Servers::new(&options.weir, &place, base),
        backends: Backends::new(&options.weir, &place),
        start: Instant::now(),
        loaded: None,
        ended: "interrupted",
    };
    while !runner.control.is_stopped() {
        let Some(turn) = runner.measurement.turn() else { break };
        runner.turn(turn)?;
    }
    if runner.control.is_stopped() {
        let time = runner.now();
        runner.measurement.interrupt(time, runner.ended)?;
    }
    runner.servers.stop();
    runner.backends.stop();
    let Runner { measurement, .. } = runner;
    let run = Run { ended: now_text(), ..options.run.clone() };
    let baseline = options.baseline.as_ref().map(|(path, margin)| (path.as_path(), *margin));
    Ok(measurement.finish(&run, baseline)?)
}

/// The cells as the measurement has them; those with the same values of the matrix are a block.
fn cases(cells: &[Cell]) -> Vec<Case> {
    let mut block = 0;
    let mut before: Option<&Cell> = None;
    let mut cases = Vec::new();
    for cell in cells {
        if before.is_some_and(|before| before.values != cell.values) {
            block += 1;
        }
        before = Some(cell);
        let factor =
            |(name, value): &(String, String)| Factor { name: name.clone(), value: value.clone() };
        let mut case = Case::of(&cell.name(), &cell.program);
        case.factors = cell.values.iter().chain(&cell.case).map(factor).collect();
        case.published = cell.published.clone();
        case.traits = cell.traits.clone();
        case.traits.users = case.traits.users.or_else(|| cell.program.users());
        case.block = block;
        cases.push(case);
    }
    cases
}

impl Runner<'_> {
    /// Seconds since the run's start.
    fn now(&self) -> f64 {
        self.start.elapsed().as_secs_f64()
    }

    fn event(&mut self, cell: usize, kind: EventKind, text: String) -> Result<(), FolderError> {
        self.measurement.event(self.now(), Some(cell), kind, text)
    }

    /// One round of a case, and what is needed for it.
    fn turn(&mut self, turn: Turn) -> Result<(), RunError> {
        let cell = &self.scenario.cells[turn.cell];
        let server = match self.serve(turn.cell, cell) {
            Ok(server) => server,
            // A signal ends whatever was waited for.
            Err(_) if self.control.is_stopped() => return Ok(()),
            Err(why) => {
                self.event(turn.cell, EventKind::Error, why.clone())?;
                self.measurement.give_up(turn.cell, &why);
                return Ok(());
            }
        };
        let undrained = self.drain(&server);
        if self.control.is_stopped() {
            return Ok(());
        }
        self.round(turn, &server, undrained)?;
        self.loaded = Some(server);
        Ok(())
    }

    /// The server of a cell, with what is behind it: there and ready.
    fn serve(&mut self, index: usize, cell: &Cell) -> Result<Live, String> {
        let cells = &self.scenario.cells;
        let Some(server) = &self.scenario.server else {
            self.backends.need(cell.backend.as_ref(), self.control)?;
            return Ok(Live::there(self.base.clone()));
        };
        let open = |at: &usize| self.measurement.is_open(*at);
        let needed: Vec<_> =
            (0..cells.len()).filter(open).map(|at| server::key(server, at, &cells[at])).collect();
        if self.servers.stop_but(&needed) {
            // It may be the one that was loaded last.
            self.loaded = None;
        }
        let name = match cell.name() {
            name if name.is_empty() => "the server".to_owned(),
            name => format!("the server of {name}"),
        };
        if self.backends.is_new(cell.backend.as_ref()) {
            (self.watch)(&Step::Doing("starting the backend"));
        }
        let address = self.backends.need(cell.backend.as_ref(), self.control)?;
        let key = server::key(server, index, cell);
        if let Some(live) = self.servers.live(&key) {
            return Ok(live);
        }
        (self.watch)(&Step::Doing(&format!("starting {name}")));
        let live = self
            .servers
            .start(server, key, address.as_deref(), self.control)
            .map_err(|why| format!("{name} did not start: {why}"))?;
        let text = format!("{name} started at {}", live.origin.authority());
        // An event that cannot be written is told of by the next one.
        let _ = self.event(index, EventKind::Started, text);
        Ok(live)
    }

    /// Waits until what was loaded last is idle again, and what is loaded next; `true` if one never
    /// was.
    fn drain(&mut self, next: &Live) -> bool {
        let before = self.loaded.take();
        let first = before.is_none();
        let mut undrained = false;
        for live in before.iter().chain([next]) {
            // A server that was never loaded needs no rest.
            if first && matches!(self.scenario.idle, Idle::Time(_)) {
                continue;
            }
            let metrics = self.scenario.observe.metrics.as_deref();
            let wait = idle::Wait::new(&self.scenario.idle, live, metrics);
            if wait.is_long() {
                (self.watch)(&Step::Doing("waiting until the server is idle"));
            }
            undrained |= !wait.until_idle(DRAINED, self.control);
            if matches!(self.scenario.idle, Idle::Time(_)) {
                break;
            }
        }
        undrained
    }
}

fn write_file(path: &Path, text: &str) -> Result<(), RunError> {
    let written = match path.parent() {
        Some(folder) => std::fs::create_dir_all(folder).and_then(|()| std::fs::write(path, text)),
        None => std::fs::write(path, text),
    };
    written.map_err(|source| RunError::File { path: path.to_owned(), source })
}

/// This moment, RFC 3339.
pub fn now_text() -> String {
    jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}
