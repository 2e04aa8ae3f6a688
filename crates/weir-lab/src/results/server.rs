//! `server.csv`: observed processes, the host and gauges, on the time axis of the load.

use serde::Serialize;

/// One observation of a subject. Inapplicable fields are empty.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ServerRow {
    /// Seconds since the run started.
    pub time: f64,
    /// Name of the process or gauge, `host` or `generator`.
    pub subject: String,
    /// Cores used since the previous row: 1 is one core.
    pub cpu: Option<f64>,
    /// CPU of its busiest thread, as a share of a core.
    pub busiest_thread: Option<f64>,
    /// Threads that could have run and waited for a core, on average.
    pub waiting_threads: Option<f64>,
    /// Bytes of resident memory (of the host: in use).
    pub memory: Option<u64>,
    /// Open descriptors.
    pub descriptors: Option<u64>,
    /// Established TCP connections at the ports that it listens on.
    pub sockets: Option<u64>,
    /// Threads.
    pub threads: Option<u64>,
    /// Voluntary context switches per second (of the host: all).
    pub switches: Option<f64>,
    /// Involuntary context switches per second.
    pub preempted: Option<f64>,
    /// Share of time taken by the hypervisor.
    pub steal: Option<f64>,
    /// Value of a gauge.
    pub gauge: Option<f64>,
}

impl ServerRow {
    /// The value of a gauge.
    #[must_use]
    pub fn gauge(time: f64, subject: String, value: f64) -> Self {
        Self { time, subject, gauge: Some(value), ..Self::default() }
    }
}
