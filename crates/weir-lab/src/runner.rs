//! Runs a scenario: servers and backends, the order of rounds, and observation.
//!
//! ```text
//! next_round → backend → server → drained? → round: engine, watch → end_round → next_round …
//! ```
//!
//! Each case has its own server with its own port and data folder; only one server at a time is
//! under load. The output of servers stays in the results folder, their data is deleted.

mod backend;
mod idle;
mod placeholders;
mod process;
mod round;
mod server;

use crate::engine::{self, Control};
use crate::measure::{Case, Measurement, NextRound, Settings};
use crate::program::Origin;
use crate::results::{EventKind, Factor, Folder, FolderError, Run, Summary};
use crate::scenario::{Cell, Idle, Scenario};
use backend::Backends;
use server::{RunningServer, Servers};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

/// Longest wait for empty queues.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(180);

/// Options of a run.
#[derive(Debug)]
pub struct Options {
    /// The weir binary, which starts servers and echo backends.
    pub weir: PathBuf,
    /// Results folder.
    pub folder: PathBuf,
    /// Content of `run.json`.
    pub run: Run,
    /// Short rounds: PASS becomes QUICK.
    pub quick: bool,
    /// Folder of the baseline run.
    pub baseline: Option<PathBuf>,
    /// Loops of the engine; 0 is half of the cores.
    pub loops: u32,
    /// How they wait for connections.
    pub io: engine::Io,
    /// Seed of random numbers.
    pub seed: u64,
}

/// Progress of a scenario.
#[derive(Debug)]
pub enum Step<'s> {
    /// Current activity, as text.
    Activity(&'s str),
    /// A round starts: its case and number.
    Round(&'s str),
    /// Progress of the engine.
    Load(&'s engine::Event<'s>),
}

/// Why a scenario failed to run.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The results folder, or a required file of a server.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// A thread cannot be started.
    #[error("the observer cannot be started: {0}")]
    Watch(std::io::Error),
}

/// A run in progress.
struct Runner<'r> {
    scenario: &'r Scenario,
    options: &'r Options,
    control: &'r Control,
    watch: &'r mut dyn FnMut(&Step<'_>),
    measurement: Measurement,
    /// Origin of the target, unless a server is started elsewhere.
    base: Origin,
    servers: Servers,
    backends: Backends,
    start: Instant,
    /// The last loaded server, until its queues are empty.
    last_loaded: Option<RunningServer>,
    /// Reason of an early end.
    end_reason: &'static str,
}

/// Runs a scenario to its end, or until it is stopped. Returns its summary and the results folder.
/// Failed server starts, errors and timeouts are part of the summary.
///
/// # Errors
/// Results cannot be written.
pub fn run(
    scenario: &Scenario,
    options: &Options,
    control: &Control,
    watch: &mut dyn FnMut(&Step<'_>),
) -> Result<(Summary, PathBuf), RunError> {
    for (path, text) in &scenario.files {
        write_file(path, text)?;
    }
    let folder = Folder::create(&options.folder, &options.run, SystemTime::now())?;
    let settings = Settings {
        method: scenario.method.clone(),
        case_order: scenario.order,
        seed: options.seed,
        thresholds: scenario.thresholds.clone(),
        quick: options.quick,
    };
    let measurement = Measurement::new(settings, cases(&scenario.cells), folder);
    let servers_folder = options.folder.join("servers");
    let Ok((base, _)) = Origin::parse(&scenario.target.base) else {
        // The URL was checked when the scenario was read.
        return Ok((Summary::default(), options.folder.clone()));
    };
    let mut runner = Runner {
        scenario,
        options,
        control,
        watch,
        measurement,
        base: base.clone(),
        servers: Servers::new(&options.weir, &servers_folder, base),
        backends: Backends::new(&options.weir, &servers_folder),
        start: Instant::now(),
        last_loaded: None,
        end_reason: "interrupted",
    };
    while !runner.control.is_stopped() {
        let Some(next) = runner.measurement.next_round() else { break };
        runner.run_round(next)?;
    }
    if runner.control.is_stopped() {
        let time = runner.now();
        runner.measurement.interrupt(time, runner.end_reason)?;
    }
    runner.servers.stop();
    runner.backends.stop();
    let Runner { measurement, .. } = runner;
    let run = Run { ended: now_text(), ..options.run.clone() };
    Ok(measurement.finish(&run, options.baseline.as_deref())?)
}

/// Cases of the measurement; cells with the same values of the matrix form a block.
fn cases(cells: &[Cell]) -> Vec<Case> {
    let blocks = cells.chunk_by(|before, cell| before.values == cell.values).enumerate();
    let cells = blocks.flat_map(|(block, cells)| cells.iter().map(move |cell| (block, cell)));
    let case = |(block, cell): (usize, &Cell)| {
        let factor =
            |(name, value): &(String, String)| Factor { name: name.clone(), value: value.clone() };
        let mut case = Case::new(&cell.name(), &cell.program);
        case.cell.factors = cell.values.iter().chain(&cell.case).map(factor).collect();
        case.cell.published.clone_from(&cell.published);
        case.cell.attributes = cell.attributes.clone();
        case.cell.attributes.users = cell.attributes.users.or_else(|| cell.program.users());
        case.block = block;
        case
    };
    cells.map(case).collect()
}

impl Runner<'_> {
    /// Seconds since the start of the run.
    fn now(&self) -> f64 {
        self.start.elapsed().as_secs_f64()
    }

    fn event(&mut self, cell: usize, kind: EventKind, text: String) -> Result<(), FolderError> {
        self.measurement.event(self.now(), Some(cell), kind, text)
    }

    /// Prepares and runs one round of a case.
    fn run_round(&mut self, next: NextRound) -> Result<(), RunError> {
        let cell = &self.scenario.cells[next.cell];
        let server = match self.start_server(next.cell, cell) {
            Ok(server) => server,
            // A signal ends every wait.
            Err(_) if self.control.is_stopped() => return Ok(()),
            Err(why) => {
                self.event(next.cell, EventKind::Error, why.clone())?;
                self.measurement.fail_case(next.cell, &why);
                return Ok(());
            }
        };
        let undrained = self.drain(&server);
        if self.control.is_stopped() {
            return Ok(());
        }
        self.round(next, &server, undrained)?;
        self.last_loaded = Some(server);
        Ok(())
    }

    /// Provides the ready server of a cell, and its backend.
    fn start_server(&mut self, index: usize, cell: &Cell) -> Result<RunningServer, String> {
        let cells = &self.scenario.cells;
        let Some(server) = &self.scenario.server else {
            self.backends.ensure(cell.backend.as_ref(), self.control)?;
            return Ok(RunningServer::existing_server(self.base.clone()));
        };
        let open = |at: &usize| self.measurement.is_open(*at);
        let needed: Vec<_> =
            (0..cells.len()).filter(open).map(|at| server::key(server, at, &cells[at])).collect();
        if self.servers.stop_unneeded(&needed) {
            // The stopped server may be the last loaded one.
            self.last_loaded = None;
        }
        let name = match cell.name() {
            name if name.is_empty() => "the server".to_owned(),
            name => format!("the server of {name}"),
        };
        if self.backends.must_start(cell.backend.as_ref()) {
            (self.watch)(&Step::Activity("starting the backend"));
        }
        let address = self.backends.ensure(cell.backend.as_ref(), self.control)?;
        let key = server::key(server, index, cell);
        if let Some(live) = self.servers.running(&key) {
            return Ok(live);
        }
        (self.watch)(&Step::Activity(&format!("starting {name}")));
        let live = self
            .servers
            .start(server, key, address.as_deref(), self.control)
            .map_err(|why| format!("{name} did not start: {why}"))?;
        let text = format!("{name} started at {}", live.origin.authority());
        // A write error is reported by the next event.
        let _ = self.event(index, EventKind::Started, text);
        Ok(live)
    }

    /// Waits until the last loaded server and the next one are idle. Returns `true` after a
    /// timeout.
    fn drain(&mut self, next: &RunningServer) -> bool {
        let before = self.last_loaded.take();
        let first = before.is_none();
        let mut undrained = false;
        for live in before.iter().chain([next]) {
            // A server without previous load is idle.
            if first && matches!(self.scenario.idle, Idle::Time(_)) {
                continue;
            }
            let metrics = self.scenario.observe.metrics.as_deref();
            let wait = idle::Wait::new(&self.scenario.idle, live, metrics);
            if wait.is_long() {
                (self.watch)(&Step::Activity("waiting until the server is idle"));
            }
            undrained |= !wait.until_idle(DRAIN_TIMEOUT, self.control);
            if matches!(self.scenario.idle, Idle::Time(_)) {
                break;
            }
        }
        undrained
    }
}

fn write_file(path: &Path, text: &str) -> Result<(), FolderError> {
    let folder = path.parent().unwrap_or(Path::new(""));
    let written = std::fs::create_dir_all(folder).and_then(|()| std::fs::write(path, text));
    written.map_err(|source| FolderError::File { path: path.to_owned(), source })
}

/// Current time, RFC 3339.
pub fn now_text() -> String {
    jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}
