//! One round: load and observation.

use super::affinity::Pinned;
use super::background::Background;
use super::counters::{Counted, CountersBefore};
use super::idle::gauges;
use super::placeholders::DATA;
use super::server::{RunningServer, in_data_folder};
use super::usage::{Readings, others_without_load, reset_peak_memory};
use super::{RunError, Runner, Step};
use crate::agents::{Agents, Load};
use crate::engine::{self, Control, Event, Summary};
use crate::measure::{NextRound, RoundConditions, SERVER};
use crate::observe::{GcLog, Observer, Watch};
use crate::program::{self, Program, StreamKind};
use crate::record::Clock;
use crate::results::{AgentRound, EventKind};
use crate::scenario::CpuSource;
use std::path::Path;
use std::time::Instant;

/// Gauge of every weir, besides those of the scenario.
const DEFAULT_GAUGE: &str = "weir_index_lag_records";

/// The larger one of two figures.
pub(super) fn most((one, other): (f64, f64)) -> f64 {
    one.max(other)
}

/// Generates the load of a round in this process.
fn load_here(
    program: Program,
    options: &engine::Options,
    control: &Control,
    watch: &mut dyn FnMut(&Event<'_>),
) -> Result<(Summary, Vec<AgentRound>), String> {
    let summary = engine::run(program, options, control, watch);
    summary.map(|summary| (summary, Vec::new())).map_err(|error| error.to_string())
}

/// Whether messages of streams are samples, which the server does not count as requests. A call whose schema is not
/// yet known may be one of a stream.
fn has_messages(program: &Program) -> bool {
    program.steps().iter().any(|step| {
        let program::Step::Request(request) = step else { return false };
        request.stream.as_deref().is_some_and(|stream| match &stream.kind {
            StreamKind::Grpc(call) => stream.messages.is_some() || call.bound.get().is_none(),
            StreamKind::Events(_) | StreamKind::WebSocket { .. } => true,
        })
    })
}

impl Runner<'_> {
    /// Runs a round of a case on its server.
    pub(super) fn round(
        &mut self,
        next: NextRound,
        mut program: Program,
        live: &RunningServer,
        undrained: bool,
    ) -> Result<(), RunError> {
        let cell = &self.scenario.cells[next.cell];
        let is_elsewhere = live.retarget(&mut program, &self.base);
        let case = &cell.name();
        let name = &format!("{case} round {}", next.round.number);
        (self.watch)(&Step::Round { case, name, program: &program });
        // The server counts other requests, too, and those of its admin listener differently.
        let is_counted = !is_elsewhere && cell.background.is_none() && !has_messages(&program);
        let others_before = self.others_without_load(live);
        let before = self.counters_before(live, is_counted);
        let agents = self.options.agents.as_ref();
        let clock = agents.map_or_else(Clock::start, Agents::clock);
        let start = clock.steady.duration_since(self.start).as_secs_f64();
        self.measurement.start_round(next, start)?;
        let watch = self.watch_server(next.cell, live, clock.steady)?;
        let pinned = Pinned::to(&cell.generator_cores);
        let background = pinned.and_then(|pinned| Ok((pinned, self.background(cell, live)?)));
        let (pinned, background) = match background {
            Ok(started) => started,
            Err(why) => {
                self.measurement.fail_case(next.cell, &why);
                return Ok(());
            }
        };
        reset_peak_memory();
        let measured = self.measurement.measured_seconds(next.round.size);
        let thread = self.scenario.observe.thread.as_deref();
        let mut readings = Readings::start(measured, live, self.backends.pid(), thread);
        let ended =
            self.measured_load(next, program, live, (&watch, clock, start), &mut readings)?;
        let mut usage = readings.usage();
        drop(pinned);
        self.measurement.observe(watch.end())?;
        let ended = background.map_or(Ok(()), Background::end).and(ended);
        usage.idle_others = others_before.zip(self.others_without_load(live)).map(most);
        let (drained, is_idle) = self.deferred(live, &readings.first());
        usage.drained = drained;
        let undrained = undrained || !is_idle;
        let conditions = RoundConditions { undrained, usage: Some(usage), ..Default::default() };
        self.end(next, live, (before, conditions), ended)
    }

    /// Runs the load of a round, which began at `start`, and adds its seconds and observations.
    fn measured_load(
        &mut self,
        next: NextRound,
        program: Program,
        live: &RunningServer,
        (observed, clock, start): (&Watch, Clock, f64),
        readings: &mut Readings<'_>,
    ) -> Result<Result<(Summary, Vec<AgentRound>), String>, RunError> {
        let options = self.engine_options(next, clock);
        // A request may end its round; only a signal ends all rounds.
        let control = Control::default();
        let mut written = Ok(());
        let (measurement, run_control, notify) =
            (&mut self.measurement, self.control, &mut self.watch);
        let mut watch = |event: &Event<'_>| {
            control.follow(run_control);
            let result = match event {
                Event::Second(second) => {
                    readings.second(second.second);
                    let added = measurement.second(second);
                    if measurement.stop_reason(next.cell).is_some() {
                        control.stop();
                    }
                    added.and_then(|()| measurement.observe(observed.rows()))
                }
                Event::StepRamped => {
                    measurement.step_ramped();
                    Ok(())
                }
                Event::LoadStep(step) => {
                    measurement.load_step(step, start + clock.steady.elapsed().as_secs_f64())
                }
                Event::Groups(_) => Ok(()),
            };
            if written.is_ok() {
                written = result;
            }
            notify(&Step::Load(event));
        };
        let load = Load {
            program: &self.scenario.cells[next.cell].program,
            cell: next.cell,
            size: Some(next.round.size),
            origins: Some((&self.base, &live.origin)),
            seed: options.seed,
            io: options.io,
            clock,
        };
        let ended = match &self.options.agents {
            None => load_here(program, &options, &control, &mut watch),
            Some(agents) => agents
                .run(&load, [run_control, &control], &mut watch)
                .map_err(|error| error.to_string()),
        };
        written?;
        Ok(ended)
    }

    /// Cores used by other programs, if they cannot be told from the server under load.
    pub(super) fn others_without_load(&self, live: &RunningServer) -> Option<f64> {
        let is_machine = self.scenario.observe.cpu == CpuSource::Machine;
        is_machine.then(|| others_without_load(live, self.backends.pid()))
    }

    /// Starts the observation of the server for a round of a case, which begins at `start`.
    pub(super) fn watch_server(
        &mut self,
        cell: usize,
        live: &RunningServer,
        start: Instant,
    ) -> Result<Watch, RunError> {
        let mut observer = self.observer(live);
        observer.pauses = self.gc_log(cell, live);
        let every = self.scenario.observe.every;
        Watch::start(observer, every, start).map_err(RunError::Watch)
    }

    /// The log with the pauses of a JVM. One that cannot be read is a remark, no error: of several contenders, only one
    /// may be a JVM.
    fn gc_log(&mut self, cell: usize, live: &RunningServer) -> Option<GcLog> {
        let path = self.scenario.observe.gc_log.as_deref()?;
        match GcLog::from_end(&in_data_folder(path, live.data.as_deref())) {
            Ok(log) => Some(log),
            Err(error) => {
                // As written: the data folder may be another one in each round.
                let path = in_data_folder(path, Some(Path::new(DATA)));
                let why = format!("the GC log {} cannot be read: {error}", path.display());
                self.measurement.remark(cell, why);
                None
            }
        }
    }

    /// Options of the engine for a round.
    fn engine_options(&self, next: NextRound, clock: Clock) -> engine::Options {
        engine::Options {
            loops: self.options.loops,
            io: self.options.io,
            seed: self.options.seed.wrapping_add(next.round.number as u64),
            clock,
            ..engine::Options::default()
        }
    }

    /// Ends a round with the result of its load.
    fn end(
        &mut self,
        next: NextRound,
        live: &RunningServer,
        (before, conditions): (CountersBefore, RoundConditions),
        ended: Result<(Summary, Vec<AgentRound>), String>,
    ) -> Result<(), RunError> {
        let (summary, agents) = match ended {
            Ok(ended) => ended,
            Err(why) => {
                self.event(next.cell, EventKind::Error, why.clone())?;
                self.measurement.fail_case(next.cell, &why);
                return Ok(());
            }
        };
        let is_lost = agents.iter().any(|agent| agent.is_lost);
        let Counted { mismatch: count_mismatch, counters } = self.counted(live, &before, &summary);
        let conditions = RoundConditions { count_mismatch, counters, agents, ..conditions };
        self.measurement.end_round(conditions)?;
        let by_condition = self.measurement.stop_reason(next.cell).is_some();
        if is_lost {
            self.end_reason = "an agent was lost";
            self.control.stop();
        } else if summary.stopped && !by_condition && !self.control.is_stopped() {
            self.end_reason = "a request failed, and `on_error: stop` ends the run";
            self.control.stop();
        }
        Ok(())
    }

    /// The observed subjects of a round, without the log of a JVM.
    fn observer(&self, live: &RunningServer) -> Observer {
        let observe = &self.scenario.observe;
        let mut observer = Observer::new();
        if !live.pids.is_empty() {
            observer.add_server(SERVER, &live.pids, &live.listening_ports());
        }
        if let Some(pid) = self.backends.pid() {
            observer.add_server("backend", &[pid], &self.backends.listening_ports());
        }
        for pid in &observe.pids {
            observer.add_processes(&format!("process {pid}"), &[*pid]);
        }
        let mut names = observe.gauges.clone();
        if live.admin.is_some() && !names.iter().any(|name| name == DEFAULT_GAUGE) {
            names.push(DEFAULT_GAUGE.to_owned());
        }
        observer.gauges = gauges(live, observe.metrics.as_deref(), names);
        observer
    }
}
