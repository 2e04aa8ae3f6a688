//! What is told of requests and counts by OTLP, and to whom.

use super::Sink;
use std::time::Duration;

/// OpenTelemetry's protocol towards a collector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Telemetry {
    /// The collector; its path stands before `/v1/traces` and `/v1/metrics`.
    pub sink: Sink,
    /// Which requests are traced; `None`: none.
    pub traces: Option<Traces>,
    /// From one report of all metrics to the next; `None`: there are none.
    pub metrics: Option<Duration>,
    /// Attributes of this process, beside those that weir gives itself.
    pub resource: Vec<(String, String)>,
}

/// Which requests are traced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Traces {
    /// Of requests that belong to no trace yet, in hundredths of a percent.
    pub share: u32,
    /// Most requests in a second, all workers together.
    pub most: u32,
}
