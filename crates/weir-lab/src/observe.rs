//! Observation of server and machine during a load: processes and the host (`/proc`), gauges of a
//! metrics page, garbage collection pauses of a JVM.
//!
//! An [`Observer`] takes one sample of everything; a [`Watch`] takes samples regularly, on the time
//! axis of the load.

mod family;
mod gauges;
mod gc;
mod host;
mod own;
mod process;
mod seconds;
mod sockets;
mod watch;

pub use family::{Usage, thread_time};
pub use gauges::{Gauges, is_ready, parse as parse_metrics};
pub use gc::{GcLog, Pause, throughput as gc_throughput};
pub use host::{Host, HostTime};
pub(crate) use own::process_cpu;
pub use process::{Processes, listening_on};
pub use seconds::Seconds;
pub use watch::Watch;

use crate::measure::GENERATOR;
use crate::results::ServerRow;
use own::Own;
use sockets::Sockets;
use std::time::{Duration, Instant};

/// A last sample sooner than this after the previous one is inaccurate, because CPU clocks tick
/// every 10 ms. It is used only if there is no other.
const MIN_INTERVAL: Duration = Duration::from_millis(200);

/// All observed subjects of a run.
#[derive(Debug, Default)]
pub struct Observer {
    /// By their names, with the ports that they listen on.
    processes: Vec<(String, Processes, Vec<u16>)>,
    sockets: Sockets,
    host: Option<Host>,
    own: Own,
    /// Gauges of a metrics page.
    pub gauges: Option<Gauges>,
    /// Log with the pauses of a JVM.
    pub pauses: Option<GcLog>,
}

impl Observer {
    /// Observes only the host, and the Lab itself.
    pub fn new() -> Self {
        Self { host: Host::new(), ..Self::default() }
    }

    /// Adds processes with their descendants under one name: a server with its workers.
    pub fn add_processes(&mut self, name: &str, pids: &[i32]) {
        self.add_server(name, pids, &[]);
    }

    /// Adds the processes of a server likewise, and the ports of this machine that it listens on: established
    /// connections at these are its sockets.
    pub fn add_server(&mut self, name: &str, pids: &[i32], ports: &[u16]) {
        let mut ports = ports.to_vec();
        ports.sort_unstable();
        ports.dedup();
        self.sockets.add(&ports);
        self.processes.push((name.to_owned(), Processes::new(pids), ports));
    }

    /// Adds a helper of the Lab, whose CPU is that of the Lab.
    pub fn add_helper(&mut self, pid: i32) {
        self.own.helpers.push(pid);
    }

    /// Takes a sample. `time` is the time of the rows, in seconds since the start of the run. The
    /// first sample has no CPU figures, which are differences.
    ///
    /// This call may take as long as the metrics page needs to respond, up to its timeout.
    pub fn sample(&mut self, time: f64) -> Vec<ServerRow> {
        let now = Instant::now();
        let mut rows = Vec::new();
        let connections = self.sockets.sample(now).unwrap_or_default();
        for (name, processes, ports) in &mut self.processes {
            let sockets = sockets::at(&connections, ports);
            rows.push(ServerRow { time, subject: name.clone(), sockets, ..processes.sample(now) });
        }
        rows.push(ServerRow { time, subject: GENERATOR.to_owned(), ..self.own.sample(now) });
        if let Some(host) = &mut self.host {
            rows.push(ServerRow { time, subject: "host".to_owned(), ..host.sample(now) });
        }
        // The rows of an unavailable page are missing.
        for (name, value) in self.gauges.as_ref().and_then(Gauges::scrape).unwrap_or_default() {
            rows.push(ServerRow::gauge(time, name, value));
        }
        if let Some(log) = &mut self.pauses {
            // Pauses are unknown once the log is unreadable.
            let pauses = log.read().unwrap_or_default();
            let paused: f64 = pauses.iter().map(|pause| pause.length.as_secs_f64() * 1e3).sum();
            rows.push(ServerRow::gauge(time, crate::measure::PAUSES.to_owned(), paused));
        }
        rows
    }
}
