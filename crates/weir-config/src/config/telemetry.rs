//! Export by OTLP.

use std::time::Duration;
use weir_model::events::Sink;

/// OTLP export to a collector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Telemetry {
    /// The collector; the path is the prefix of `/v1/traces` and `/v1/metrics`.
    pub sink: Sink,
    /// Sampling of traces; `None`: no traces.
    pub traces: Option<Traces>,
    /// Interval between exports of metrics; `None`: no metrics.
    pub metrics: Option<Duration>,
    /// Resource attributes of this process, in addition to the built-in ones.
    pub resource: Vec<(String, String)>,
}

/// Sampling of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Traces {
    /// Share of requests without a trace context, in hundredths of a percent.
    pub share: u32,
    /// Maximum number of traced requests per second, for all workers.
    pub most: u32,
}
