//! Export by OTLP.

use crate::formats;
use std::time::Duration;
use weir_document::draft::Node;
use weir_document::settings;
use weir_document::shape::fields::Fields;
use weir_document::shape::{Kind, Names, format};
use weir_model::events::Sink;

settings! {
    /// OpenTelemetry: export of traces and metrics by OTLP over HTTP/1.1 in protobuf. Without this
    /// key nothing is exported.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Telemetry is "the telemetry" {
        /// Upstream that receives the data; its `auth`, `tls` and timeouts apply.
        to = by_hand(Kind::Format(format::NAME)).required(),
        /// Path prefix of `/v1/traces` and `/v1/metrics`.
        path = by_hand(Kind::Format(formats::BASE)).default("/"),
        /// Allow unencrypted export (`http`) to other machines.
        plain = by_hand(Kind::Bool).default("false"),
        /// Spans of requests and of their upstream requests.
        pub traces: Option<Traces> = object().absent("none"),
        /// All metrics of `/metrics`.
        pub metrics: Option<Duration> = value(METRICS, every).absent("none"),
        /// Resource attributes of this process. `service.name`, `service.version` and
        /// `service.instance.id` have built-in values.
        pub resource: Vec<(String, String)> = table(Kind::Table(Names::Name, &Kind::Scalar)),
    } given {
        /// The collector; the path is the prefix of `/v1/traces` and `/v1/metrics`.
        pub sink: Sink,
    },
    short: Some("to"),
    misspellings: &[
        ("otlp", "write `to`, and `traces` or `metrics` at this level"),
        ("endpoint", "name an upstream: `to: NAME`"),
        ("url", "name an upstream: `to: NAME`"),
        ("headers", "write `auth` of the upstream"),
        ("attributes", "write `resource`"),
        ("spans", "write `traces`"),
        ("insecure", "write `plain`"),
    ],
}

const METRICS: Kind = Kind::Object(Metrics::SHAPE);

fn every(metrics: &Node) -> Option<Duration> {
    metrics.members().map(|_| Metrics::read(&Fields::new(metrics, Metrics::SHAPE)).every)
}

settings! {
    /// Sampling of requests. A request with a `traceparent` follows its sampled flag, whatever the
    /// share.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Traces is "the traces" {
        /// Share of requests without a trace context to trace, sampled by the trace id.
        // In hundredths of a percent.
        pub share: u32 = percent().default("10%"),
        /// Maximum number of traced requests per second, for all workers, also of requests with a
        /// trace context.
        pub most: u32 = integer(1, 10_000).default("200"),
    },
    short: Some("share"),
    misspellings: &[
        ("sample", "write `share`"),
        ("ratio", "write `share`"),
        ("rate", "write `most`"),
    ],
}

settings! {
    /// Export of metrics.
    pub(crate) struct Metrics is "the metrics" {
        /// Interval between exports; minimum 1s.
        pub(crate) every: Duration = positive().default("60s"),
    },
    short: Some("every"),
    misspellings: &[("interval", "write `every`")],
}
