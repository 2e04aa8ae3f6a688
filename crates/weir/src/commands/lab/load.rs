//! A single load: observed and shown while it runs, recorded on request.

use super::export::Export;
use super::progress::Progress;
use super::signals;
use crate::descriptors;
use anyhow::Context;
use std::fs::File;
use std::path::Path;
use weir_lab::agents::{Agents, Load as AgentLoad};
use weir_lab::engine::{self, Control, Event, Io, Options, Summary};
use weir_lab::jtl::Writer;
use weir_lab::measure::{Measurement, RoundConditions, SERVER};
use weir_lab::observe::{Observer, Seconds, listening_on};
use weir_lab::program::Program;
use weir_lab::record::Clock;
use weir_lab::results::{AgentRound, FolderError, ServerRow, Total};

/// Options of the engine's loops.
#[derive(clap::Args, Clone, Copy, Debug)]
pub(super) struct Loops {
    /// Threads [default: half of the cores]
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    threads: Option<u32>,
    /// How threads wait for connections: auto (io_uring in closed models, where possible) or epoll
    #[arg(long, value_name = "KIND", default_value = "auto", value_parser = io)]
    pub(super) io: Io,
}

impl Loops {
    /// Number of loops; 0 is half of the cores.
    pub(super) fn number(&self) -> u32 {
        self.threads.unwrap_or(0)
    }
}

fn io(text: &str) -> Result<Io, String> {
    text.parse().map_err(|_| "write auto or epoll".to_owned())
}

/// The load.
pub(super) struct Load<'a> {
    pub(super) program: Program,
    /// Target ports on this machine. Processes that listen on them are observed, to find out
    /// whether the server or the generator was saturated.
    pub(super) ports: &'a [u16],
    pub(super) loops: Loops,
    /// Results file with one row per sample, in JMeter's format.
    pub(super) jtl: Option<&'a Path>,
    /// Print one JSON line per second.
    pub(super) json: bool,
    /// Open model: times count from the due time of a request.
    pub(super) open: bool,
    /// Agents that generate the load, and have the program; `None` is this process.
    pub(super) agents: Option<&'a Agents>,
    /// Receivers of metrics.
    pub(super) export: Option<&'a mut Export>,
}

/// The result.
pub(super) struct Loaded {
    pub(super) summary: Summary,
    pub(super) total: Total,
    /// Labels of requests.
    pub(super) names: Vec<String>,
    /// Observed figures of servers and host.
    pub(super) observed: Vec<ServerRow>,
}

impl Load<'_> {
    /// Runs the load to its end, or until a signal. An optional `measurement` gets all events; its
    /// caller has to finish it.
    pub(super) fn run(
        mut self,
        mut measurement: Option<&mut Measurement>,
    ) -> anyhow::Result<Loaded> {
        descriptors::raise_limit();
        let control = Control::default();
        signals::stop(&control).context("cannot listen for signals")?;
        let mut observer = Observer::new();
        for port in self.ports {
            observer.add_server(SERVER, &listening_on(*port), &[*port]);
        }
        // The start of a helper is not part of the load.
        let helper = engine::start_helper(&self.program)?;
        if let Some(helper) = &helper {
            observer.add_helper(helper.pid());
        }
        let clock = self.agents.map_or_else(Clock::start, Agents::clock);
        let mut observer = Seconds::start(observer, clock.steady);
        let writer = self.jtl.map(|path| rows(path, &self.program, clock)).transpose()?;
        let options = Options {
            loops: self.loops.number(),
            io: self.loops.io,
            sinks: writer.clone().map(|writer| Box::new(move || writer.sink()) as _),
            helper,
            clock,
            ..Options::default()
        };
        let labels = self.program.labels.clone();
        let transactions = self.program.transactions();
        let mut total = Total::new(labels.len(), self.open).without(&transactions);
        let (mut observed, mut written) = (Vec::new(), Ok(()));
        let mut progress = Progress::new(self.json);
        progress.program(&self.program);
        if let Some(export) = &mut self.export {
            export.program("", &self.program);
        }
        if let Some(measurement) = &mut measurement
            && let Some(round) = measurement.next_round()
        {
            measurement.start_round(round, 0.0)?;
        }
        let mut watch = |event: &Event<'_>| {
            if let Event::Second(second) = event {
                total.add(second);
                let rows = observer.sample();
                if let (Some(measurement), Ok(())) = (&mut measurement, &written) {
                    written =
                        measurement.second(second).and_then(|()| measurement.observe(rows.clone()));
                }
                observed.extend(rows);
            }
            progress.show(event);
            if let Some(export) = &mut self.export {
                export.event(event, &mut progress);
            }
        };
        let (summary, agents) = match self.agents {
            None => (engine::run(self.program, &options, &control, &mut watch)?, Vec::new()),
            Some(agents) => {
                let (program, seed) = (&self.program, options.seed);
                let (size, origins) = (None, None);
                let load =
                    AgentLoad { program, cell: 0, size, origins, seed, io: options.io, clock };
                agents.run(&load, [&control], &mut watch)?
            }
        };
        progress.end();
        total.end_round(0);
        if let Some(measurement) = measurement {
            written?;
            end(measurement, clock, (&control, summary.failure.as_deref()), agents)?;
        }
        if let (Some(writer), Some(path)) = (&writer, self.jtl) {
            writer.finish().with_context(|| path.display().to_string())?;
        }
        Ok(Loaded { summary, total, names: labels.names(), observed })
    }
}

fn end(
    measurement: &mut Measurement,
    clock: Clock,
    (control, failure): (&Control, Option<&str>),
    agents: Vec<AgentRound>,
) -> Result<(), FolderError> {
    let why = failure.or(control.is_stopped().then_some("interrupted"));
    if let Some(why) = why {
        let time = clock.steady.elapsed().as_secs_f64();
        return measurement.interrupt(time, why);
    }
    measurement.end_round(RoundConditions { agents, ..RoundConditions::default() })
}

/// Creates the results file.
fn rows(path: &Path, program: &Program, clock: Clock) -> anyhow::Result<Writer> {
    let place = || path.display().to_string();
    let file = File::create(path).with_context(place)?;
    Writer::new(Box::new(file), program, clock).with_context(place)
}
