//! What is seen of the server and the machine while a load runs: processes and the host (`/proc`),
//! gauges of a metrics page, pauses of a JVM's garbage collector.
//!
//! An [`Observer`] looks at everything at once; a [`Watch`] has it do so again and again while a load
//! runs, on the load's time axis.

mod gauges;
mod gc;
mod host;
mod process;
mod watch;

pub use gauges::{Gauges, ScrapeError, is_ready, parse as parse_metrics};
pub use gc::{GcLog, Pause, throughput as gc_throughput};
pub use host::Host;
pub use process::{Processes, listening_on};
pub use watch::Watch;

use crate::results::ServerRow;
use std::time::Instant;

/// Everything that is observed in a run.
#[derive(Debug, Default)]
pub struct Observer {
    processes: Vec<(String, Processes)>,
    host: Option<Host>,
    gauges: Option<Gauges>,
    pauses: Option<GcLog>,
}

impl Observer {
    /// Nothing but the host.
    pub fn new() -> Self {
        Self { host: Host::new(), ..Self::default() }
    }

    /// Processes under one name: a server with its workers. Those that end are left out from then
    /// on; children that they make are not added.
    pub fn add_processes(&mut self, name: &str, pids: &[i32]) {
        self.processes.push((name.to_owned(), Processes::new(pids)));
    }

    /// Gauges of a metrics page.
    pub fn set_gauges(&mut self, gauges: Gauges) {
        self.gauges = Some(gauges);
    }

    /// Pauses of a JVM, as its log tells them from now on.
    pub fn set_pauses(&mut self, log: GcLog) {
        self.pauses = Some(log);
    }

    /// Looks at everything; `time` is that of the rows, seconds since the run's start. The first
    /// time gives no CPU figures, which are differences.
    ///
    /// It may take as long as a metrics page takes to answer, up to its timeout.
    pub fn sample(&mut self, time: f64) -> Vec<ServerRow> {
        let now = Instant::now();
        let mut rows = Vec::new();
        for (name, processes) in &mut self.processes {
            rows.push(ServerRow { time, subject: name.clone(), ..processes.sample(now) });
        }
        if let Some(host) = &mut self.host {
            rows.push(ServerRow { time, subject: "host".to_owned(), ..host.sample(now) });
        }
        // A page that does not answer is seen as missing rows.
        for (name, value) in self.gauges.as_ref().and_then(|g| g.scrape().ok()).unwrap_or_default()
        {
            rows.push(ServerRow {
                time,
                subject: name,
                gauge: Some(value),
                ..ServerRow::default()
            });
        }
        if let Some(log) = &mut self.pauses {
            // Of a log that cannot be read any more nothing is known.
            let pauses = log.read().unwrap_or_default();
            let paused: f64 = pauses.iter().map(|pause| pause.length.as_secs_f64() * 1e3).sum();
            let subject = crate::measure::PAUSES.to_owned();
            rows.push(ServerRow { time, subject, gauge: Some(paused), ..ServerRow::default() });
        }
        rows
    }
}
