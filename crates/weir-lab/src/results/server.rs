//! `server.csv`: observed processes, the host and gauges, on the time axis of the load.

use serde::{Deserialize, Serialize};
use std::path::Path;

/// What was seen of one subject at one moment. What does not apply to it is empty.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ServerRow {
    /// Seconds since the run started.
    pub time: f64,
    /// Name of the process, `host`, `generator`, or of the gauge.
    pub subject: String,
    /// Cores used since the row before: 1 is one whole core.
    pub cpu: Option<f64>,
    /// Share of a core that its busiest thread used.
    pub busiest_thread: Option<f64>,
    /// Bytes of resident memory (of the host: in use).
    pub memory: Option<u64>,
    /// Open descriptors.
    pub descriptors: Option<u64>,
    /// Threads.
    pub threads: Option<u64>,
    /// Voluntary context switches a second (of the host: all).
    pub switches: Option<f64>,
    /// Involuntary context switches a second.
    pub preempted: Option<f64>,
    /// Share of time taken away by the hypervisor.
    pub steal: Option<f64>,
    /// Value of a gauge.
    pub gauge: Option<f64>,
}

/// Reads the rows of a `server.csv`; lines that cannot be read are left out, such as the last one
/// of a run that was killed.
///
/// # Errors
/// The file cannot be read.
pub fn server_rows(path: &Path) -> csv::Result<Vec<ServerRow>> {
    let mut reader = csv::ReaderBuilder::new().flexible(true).from_path(path)?;
    Ok(reader.deserialize().filter_map(Result::ok).collect())
}
