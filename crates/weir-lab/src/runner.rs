//! Runs a scenario: servers and backends, the order of rounds, and observation.
//!
//! ```text
//! next_round → backend → server → drained? → round: engine, watch → end_round → next_round …
//! ```
//!
//! Each case has its own server with its own port and data folder; only one server at a time is
//! under load. The output of servers stays in the results folder, their data is deleted.

mod affinity;
mod backend;
mod background;
mod counters;
mod data_folder;
mod deferred;
mod foreign;
mod idle;
mod placeholders;
mod prepare;
mod process;
mod round;
mod server;
mod usage;
mod verify;

use crate::agents::Agents;
use crate::engine::{self, Control};
use crate::measure::{Case, Measurement, Method, NextRound, Settings, resized};
use crate::program::{Origin, Program};
use crate::results::{EventKind, Factor, Folder, FolderError, Run, Summary};
use crate::scenario::{Cell, Restart, Scenario, set_rate};
use backend::Backends;
use prepare::SharedFolder;
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
    /// Agents that generate the load, and have the scenario; `None` is this process.
    pub agents: Option<Agents>,
}

/// Progress of a scenario.
#[derive(Debug)]
pub enum Step<'s> {
    /// Current activity, as text.
    Activity(&'s str),
    /// A round starts.
    Round {
        /// Its case; empty if there is only one.
        case: &'s str,
        /// Its case and number.
        name: &'s str,
        /// Its program.
        program: &'s Program,
    },
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
    shared: SharedFolder,
    start: Instant,
    /// The last loaded server, until its queues are empty.
    last_loaded: Option<RunningServer>,
    /// Cells whose servers are verified and warm.
    prepared: Vec<usize>,
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
        stop: scenario.stop.clone(),
        bars: scenario.bars.clone(),
        quick: options.quick,
    };
    let measurement = Measurement::new(settings, cases(&scenario.cells), folder);
    let servers_folder = options.folder.join("servers");
    let Ok((base, _)) = Origin::parse(&scenario.target.base) else {
        // The URL was checked when the scenario was read.
        return Ok((Summary::default(), options.folder.clone()));
    };
    let shared = SharedFolder::new(&servers_folder);
    let mut runner = Runner {
        scenario,
        options,
        control,
        watch,
        measurement,
        base: base.clone(),
        servers: Servers::new(&options.weir, &servers_folder, shared.path(), base),
        backends: Backends::new(&options.weir, &servers_folder, shared.path()),
        shared,
        start: Instant::now(),
        last_loaded: None,
        prepared: Vec::new(),
        end_reason: "interrupted",
    };
    runner.prepare_run()?;
    while !runner.control.is_stopped() {
        let Some(next) = runner.measurement.next_round() else { break };
        runner.run_round(next)?;
        if let Some(why) = runner.measurement.stop_reason(next.cell).map(str::to_owned) {
            let time = runner.now();
            runner.measurement.stop_run(time, &why)?;
            break;
        }
    }
    if runner.control.is_stopped() {
        let time = runner.now();
        runner.measurement.interrupt(time, runner.end_reason)?;
    }
    runner.servers.stop();
    runner.backends.stop();
    let Runner { measurement, shared, .. } = runner;
    drop(shared);
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
        (case.contender, case.load) = (cell.contender_name(), cell.load_name());
        case.values.clone_from(&cell.values);
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

    /// Runs the commands that precede all servers. Without them, there is nothing to measure.
    fn prepare_run(&mut self) -> Result<(), RunError> {
        let Scenario { prepare, folder, cells, .. } = self.scenario;
        if !prepare.is_empty() {
            (self.watch)(&Step::Activity("preparing"));
        }
        let Err(why) = self.shared.prepare(prepare, folder, self.control) else { return Ok(()) };
        if self.control.is_stopped() {
            return Ok(());
        }
        self.measurement.event(self.now(), None, EventKind::Error, why.clone())?;
        (0..cells.len()).for_each(|cell| self.measurement.fail_case(cell, &why));
        Ok(())
    }

    /// Prepares and runs one round of a case.
    fn run_round(&mut self, next: NextRound) -> Result<(), RunError> {
        let ready = self.prepare(next.cell).and_then(|server| {
            let program = self.program(next)?;
            Ok((server, program))
        });
        let (server, program) = match ready {
            Ok(ready) => ready,
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
        let restarts = server.start.is_some();
        match self.scenario.cells[next.cell].generator {
            Some(generator) => {
                let mut program = program;
                server.retarget(&mut program, &self.base);
                self.foreign_round(next, (&program, generator), &server, undrained)?;
            }
            None => self.round(next, program, &server, undrained)?,
        }
        // A server whose deferred work is part of the round is idle.
        self.last_loaded = Some(server).filter(|_| !restarts && !self.has_deferred());
        if restarts {
            self.stop_server(next.cell);
        }
        Ok(())
    }

    /// Stops the server of a cell.
    fn stop_server(&mut self, index: usize) {
        let cell = &self.scenario.cells[index];
        if let Some(server) = self.scenario.server_of(cell) {
            self.servers.stop_one(&server::key(server, index, cell));
        }
    }

    /// Provides the ready server of a cell, verified and warm. With rounds of all cases, the servers of
    /// all cases of the load are running before the first round.
    fn prepare(&mut self, index: usize) -> Result<RunningServer, String> {
        let cells = &self.scenario.cells;
        let is_paired = matches!(self.scenario.method, Method::Paired(_));
        if is_paired && !self.prepared.contains(&index) {
            let same_load = (0..cells.len()).filter(|at| cells[*at].values == cells[index].values);
            // Of the servers at the port of the target, only that of the round can run.
            let runs_between_rounds = |at: &usize| {
                let server = self.scenario.server_of(&cells[*at]);
                server.is_some_and(|server| {
                    let key = server::key(server, *at, &cells[*at]);
                    server.restart != Restart::Round && server::has_own_port(server, &key)
                })
            };
            for at in same_load
                .filter(|at| *at != index && self.measurement.is_open(*at))
                .filter(runs_between_rounds)
                .collect::<Vec<_>>()
            {
                // The error is that of the other case, in its first round.
                let _ = self.start_server(at, &cells[at]);
            }
        }
        let cell = &cells[index];
        let port = cell.contender.as_ref().and_then(|contender| contender.port.as_deref());
        let server = self.start_server(index, cell)?.at_port(port)?;
        if !self.prepared.contains(&index) {
            self.prepared.push(index);
            if is_paired || !cell.verify.is_empty() || cell.probes.is_some() {
                (self.watch)(&Step::Activity("verifying the response"));
                self.verify(cell, &server)?;
            }
            if let Method::Paired(rules) = &self.scenario.method {
                (self.watch)(&Step::Activity("warming up"));
                self.warm_up(index, rules.warm_up, &server)?;
            }
        }
        Ok(server)
    }

    /// The program of a round, with its size and rate.
    fn program(&mut self, next: NextRound) -> Result<Program, String> {
        let cell = &self.scenario.cells[next.cell];
        let mut program = resized(&cell.program, next.round.size);
        if let Some(rate) = self.measured_rate(cell)? {
            set_rate(&mut program, rate, cell.has_default_backlog());
            self.measurement.set_rate(next.cell, &program);
        }
        Ok(program)
    }

    /// The rate of a cell, if it is a share of a measured one.
    fn measured_rate(&self, cell: &Cell) -> Result<Option<f64>, String> {
        let Some(rate) = &cell.rate else { return Ok(None) };
        let lowest = self.measurement.lowest_rate(&rate.of).ok_or_else(|| {
            "its rate is unknown: the load whose rate it depends on has no valid round".to_owned()
        })?;
        Ok(Some((lowest * rate.fraction).round().max(1.0)))
    }

    /// Forgets stopped servers: in rounds of all cases, the next server of their cells is verified and warmed up
    /// again.
    fn forget(&mut self, stopped: &[(server::Key, RunningServer)]) {
        let was_loaded =
            |live: &RunningServer| stopped.iter().any(|(_, one)| one.data == live.data);
        self.last_loaded = self.last_loaded.take().filter(|live| !was_loaded(live));
        if matches!(self.scenario.method, Method::Paired(_)) {
            let key_of = |at: usize| {
                let cell = &self.scenario.cells[at];
                Some(server::key(self.scenario.server_of(cell)?, at, cell))
            };
            let is_stopped =
                |at: usize| stopped.iter().any(|(key, _)| key_of(at).as_ref() == Some(key));
            self.prepared.retain(|at| !is_stopped(*at));
        }
    }

    /// Provides the ready server of a cell, and its backend.
    fn start_server(&mut self, index: usize, cell: &Cell) -> Result<RunningServer, String> {
        let cells = &self.scenario.cells;
        let Some(server) = self.scenario.server_of(cell) else {
            self.backends.ensure(cell.backend.as_ref(), self.control)?;
            return Ok(RunningServer::existing_server(self.base.clone()));
        };
        // A complete round of all cases may be repeated.
        let may_repeat = matches!(self.scenario.method, Method::Paired(_));
        let open = |at: &usize| {
            let is_of_round = may_repeat && cells[*at].values == cell.values;
            is_of_round || self.measurement.is_open(*at)
        };
        let key_of = |at| Some(server::key(self.scenario.server_of(&cells[at])?, at, &cells[at]));
        let needed: Vec<_> = (0..cells.len()).filter(open).filter_map(key_of).collect();
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
        let stopped = self.servers.stop_at_port_of(server, &key);
        self.forget(&stopped);
        (self.watch)(&Step::Activity(&format!("starting {name}")));
        let live = self
            .servers
            .start(server, key, address.as_ref(), self.control)
            .map_err(|why| format!("{name} did not start: {why}"))?;
        let text = format!("{name} started at {}", live.origin.authority());
        // A write error is reported by the next event.
        let _ = self.event(index, EventKind::Started, text);
        self.set_up(cell, &live)?;
        Ok(live)
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
