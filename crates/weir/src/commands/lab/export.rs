//! Live export of a run: OTLP and Prometheus remote write, while the load runs.
//!
//! The seconds of the engine are added up on the thread that collects them, never on a loop that generates
//! load. A thread of its own encodes and posts. Sums are cumulative, so that a dropped batch costs
//! resolution in time, and no samples.

mod delivery;
mod destination;
mod headers;
mod queue;
mod remote_write;
mod sums;

use super::progress::Progress;
use crate::otlp::attributes;
use crate::otlp::points::Span;
use crate::output;
use anyhow::Context;
use delivery::Delivery;
use destination::{Destination, Protocol};
use queue::Batch;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};
use sums::Sums;
use weir_lab::engine::Event;
use weir_lab::program::Program;
use weir_lab::redaction;
use weir_lab::report;
use weir_lab::results::{ExportFigures, FolderError, Run, StoredRun};

/// Seconds arrive a little early or late.
const TOLERANCE: Duration = Duration::from_millis(500);

/// Options of the export.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Export while the load runs")]
pub(super) struct ExportArgs {
    /// Send metrics by OTLP over HTTP to this collector (`/v1/metrics` is appended)
    #[arg(long, value_name = "URL")]
    otlp: Option<String>,
    /// File with header fields for the collector, a `Name: value` in each line, instead of
    /// OTEL_EXPORTER_OTLP_HEADERS
    #[arg(long, value_name = "FILE", requires = "otlp")]
    otlp_headers: Option<PathBuf>,
    /// Send metrics by Prometheus remote write to this URL
    #[arg(long, value_name = "URL")]
    prometheus_remote_write: Option<String>,
    /// The same for remote write, instead of WEIR_PROMETHEUS_HEADERS
    #[arg(long, value_name = "FILE", requires = "prometheus_remote_write")]
    prometheus_headers: Option<PathBuf>,
    /// Certificates of the authorities to trust for the export, in PEM, instead of those of the system
    #[arg(long, value_name = "FILE")]
    export_ca: Option<PathBuf>,
    /// Time between two batches
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = interval)]
    export_interval: Duration,
    /// Batches that wait for a slow receiver; beyond it, the oldest is dropped
    #[arg(long, value_name = "N", default_value = "24", value_parser = clap::value_parser!(u16).range(1..=1000))]
    export_queue: u16,
}

fn interval(text: &str) -> Result<Duration, String> {
    let interval = crate::duration::parse(text)?;
    let range = Duration::from_secs(1)..=Duration::from_secs(3600);
    if range.contains(&interval) { Ok(interval) } else { Err("write 1s to 1h".to_owned()) }
}

impl ExportArgs {
    /// The destinations with their credentials; every problem is found before the load.
    ///
    /// # Errors
    /// A URL, header or certificate is not valid. Errors contain no credentials.
    pub(super) fn destinations(&self) -> anyhow::Result<Vec<Destination>> {
        let bound = usize::from(self.export_queue);
        let protocols = [
            (Protocol::Otlp, &self.otlp, &self.otlp_headers),
            (Protocol::RemoteWrite, &self.prometheus_remote_write, &self.prometheus_headers),
        ];
        let mut destinations = Vec::new();
        for (protocol, url, file) in protocols {
            let Some(url) = url else { continue };
            let headers = match file {
                Some(path) => headers::of_file(path),
                None => headers::of_environment(protocol.variables()),
            };
            let new = headers.and_then(|headers| {
                Destination::new(protocol, url, headers, self.export_ca.as_deref(), bound)
            });
            destinations.push(new.with_context(|| protocol.option())?);
        }
        Ok(destinations)
    }

    /// Removes credentials from an argument of the recorded command.
    pub(super) fn redact(&self, argument: &mut String) {
        for url in [&self.otlp, &self.prometheus_remote_write].into_iter().flatten() {
            if argument.ends_with(url.as_str()) {
                *argument = redaction::parameters(argument);
            }
        }
    }

    /// Starts the export of a run; `None` without a destination. `agents` generate the load.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub(super) fn start(
        &self,
        destinations: Vec<Destination>,
        run: &Run,
        agents: &[String],
    ) -> anyhow::Result<Option<Export>> {
        if destinations.is_empty() {
            return Ok(None);
        }
        let destinations: Vec<Arc<Destination>> = destinations.into_iter().map(Arc::new).collect();
        let identity = Arc::new(Identity::new(run, agents));
        let delivery = Delivery::start(destinations.clone(), identity);
        let delivery = delivery.context("the export cannot be started")?;
        Ok(Some(Export {
            sums: Sums::default(),
            destinations,
            delivery,
            every: self.export_interval,
            last: Instant::now(),
            since: since_epoch(),
            until: Duration::ZERO,
        }))
    }
}

/// What identifies the run in exported metrics.
pub(super) struct Identity {
    /// Attributes of the resource; `service.instance.id` is the run.
    attributes: Vec<(String, String)>,
    /// Labels of each series of Prometheus.
    labels: Vec<(&'static str, String)>,
    run: String,
}

/// `service.name`.
const SERVICE: &str = "weir-lab";

impl Identity {
    fn new(run: &Run, agents: &[String]) -> Self {
        let agents = agents.join(",");
        let pairs = [
            ("service.name", SERVICE),
            ("host.name", &run.host.name),
            ("weir.lab.scenario", &run.name),
            ("weir.lab.agents", &agents),
        ];
        let used = pairs.into_iter().filter(|(_, value)| !value.is_empty());
        Self {
            attributes: used.map(|(key, value)| (key.to_owned(), value.to_owned())).collect(),
            labels: vec![
                ("job", SERVICE.to_owned()),
                ("instance", run.id.clone()),
                ("weir_scenario", run.name.clone()),
            ],
            run: run.id.clone(),
        }
    }

    fn resource(&self) -> crate::otlp::messages::Resource {
        attributes::resource(&self.attributes, &self.run)
    }

    /// Labels of `target_info`, which has the resource for Prometheus.
    fn target_info(&self) -> Vec<(String, String)> {
        let attributes = self.attributes.iter().filter(|(key, _)| key != "service.name");
        attributes.map(|(key, value)| (key.replace('.', "_"), value.clone())).collect()
    }
}

/// The export of a run.
pub(super) struct Export {
    sums: Sums,
    destinations: Vec<Arc<Destination>>,
    delivery: Delivery,
    every: Duration,
    /// Time of the last batch.
    last: Instant,
    /// Start of the counters, and time of the last batch, since 1970.
    since: Duration,
    until: Duration,
}

impl Export {
    /// The following seconds are of this case and program.
    pub(super) fn program(&mut self, case: &str, program: &Program) {
        self.sums.start(case, program);
    }

    /// Adds a second, without ever waiting for a receiver, and shows new messages about receivers.
    pub(super) fn event(&mut self, event: &Event<'_>, progress: &mut Progress) {
        let Event::Second(second) = event else { return };
        for destination in &self.destinations {
            destination.queue.take_notes().iter().for_each(|note| progress.note(note));
        }
        self.sums.add(second);
        if self.last.elapsed() + TOLERANCE >= self.every {
            self.batch();
        }
    }

    /// Sends the last sums within a bounded time. Returns what became of the batches.
    fn end(mut self) -> Vec<ExportFigures> {
        self.sums.end_load();
        self.batch();
        self.delivery.finish();
        self.destinations.iter().map(|one| one.figures()).collect()
    }

    fn batch(&mut self) {
        self.last = Instant::now();
        // Samples of a series must have ascending times, also if the clock is set.
        self.until = since_epoch().max(self.until + Duration::from_millis(1));
        let span = Span { since: self.since.min(self.until), until: self.until };
        let batch = Arc::new(Batch { families: self.sums.families(), span });
        self.destinations.iter().for_each(|one| one.queue.push(Arc::clone(&batch)));
    }
}

/// Ends the export of a finished run, if there is one, and adds what became of it to its folder.
///
/// # Errors
/// The folder cannot be written.
pub(super) fn finish(export: Option<Export>, folder: &Path) -> Result<(), FolderError> {
    let Some(export) = export else { return Ok(()) };
    let figures = export.end();
    for one in &figures {
        output::note(&one.to_string());
    }
    let mut stored = StoredRun::read(folder)?;
    stored.summary.exports = figures;
    stored.rewrite()?;
    report::write(folder)
}

fn since_epoch() -> Duration {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
}
