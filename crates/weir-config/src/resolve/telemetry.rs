//! Export by OTLP.

use super::upstream::is_local;
use super::{Fields, Resolver};
use crate::config::{Scheme, Target, Telemetry, Traces, Upstream};
use crate::formats;
use std::time::Duration;
use weir_document::finding::codes;
use weir_document::shape::typed::{Defaulted, boolean, integer, percent, positive, text};
use weir_document::shape::{Key, Kind, Names, Shape, format};

const PATH: Defaulted<String> =
    text("path", Kind::Format(formats::BASE), "Path prefix of `/v1/traces` and `/v1/metrics`.")
        .default("/");
const PLAIN: Defaulted<bool> =
    boolean("plain", "Allow unencrypted export (`http`) to other machines.").default("false");

/// `telemetry`.
pub(super) static TELEMETRY: Shape = Shape {
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
    ..Shape::new(
        "the telemetry",
        "OpenTelemetry: export of traces and metrics by OTLP over HTTP/1.1 in protobuf. Without this key nothing is exported.",
        &[
            Key::new(
                "to",
                Kind::Format(format::NAME),
                "Upstream that receives the data; its `auth`, `tls` and timeouts apply.",
            )
            .required(),
            PATH.key,
            PLAIN.key,
            Key::new(
                "traces",
                Kind::Object(&TRACES),
                "Spans of requests and of their upstream requests.",
            )
            .absent("none"),
            Key::new("metrics", Kind::Object(&METRICS), "All metrics of `/metrics`.")
                .absent("none"),
            Key::new(
                "resource",
                Kind::Table(Names::Name, &Kind::Scalar),
                "Resource attributes of this process. `service.name`, `service.version` and `service.instance.id` have built-in values.",
            ),
        ],
    )
};

const TRACES_SHARE: Defaulted<u32> = percent(
    "share",
    "Share of requests without a trace context to trace, sampled by the trace id.",
)
.default("10%");
const TRACES_PER_SECOND: Defaulted<u32> = integer(
    "most",
    (1, 10_000),
    "Maximum number of traced requests per second, for all workers, also of requests with a trace context.",
)
.default("200");

/// `traces` of the telemetry.
pub(super) static TRACES: Shape = Shape {
    short: Some("share"),
    misspellings: &[
        ("sample", "write `share`"),
        ("ratio", "write `share`"),
        ("rate", "write `most`"),
    ],
    ..Shape::new(
        "the traces",
        "Sampling of requests. A request with a `traceparent` follows its sampled flag, whatever the share.",
        &[TRACES_SHARE.key, TRACES_PER_SECOND.key],
    )
};

const METRICS_EVERY: Defaulted<Duration> =
    positive("every", "Interval between exports; minimum 1s.").default("60s");

/// `metrics` of the telemetry.
pub(super) static METRICS: Shape = Shape {
    short: Some("every"),
    misspellings: &[("interval", "write `every`")],
    ..Shape::new("the metrics", "Export of metrics.", &[METRICS_EVERY.key])
};

/// Minimum interval between exports of metrics.
const SHORTEST: Duration = Duration::from_secs(1);

impl Resolver<'_> {
    /// `telemetry`.
    pub(super) fn telemetry(
        &mut self,
        root: &Fields<'_>,
        upstreams: &[Option<Upstream>],
    ) -> Option<Telemetry> {
        let fields = root.object("telemetry", &TELEMETRY)?;
        let traces = fields.object("traces", &TRACES).map(|traces| Traces {
            share: traces.read(&TRACES_SHARE),
            most: traces.read(&TRACES_PER_SECOND),
        });
        let metrics = fields.object("metrics", &METRICS).map(|metrics| {
            let every = metrics.read(&METRICS_EVERY);
            if let Some(node) = metrics.get("every").filter(|_| every < SHORTEST) {
                let message = "metrics are exported at most once a second";
                self.report.error(codes::BAD_VALUE, node.at, message);
            }
            every
        });
        if fields.get("traces").is_none() && fields.get("metrics").is_none() {
            let message = "neither `traces` nor `metrics` is set";
            self.report
                .error(codes::MISSING_KEY, fields.node().at, message)
                .help("for example `traces: {share: 10%}`, `metrics: {every: 60s}`");
        }
        let resource = fields.members("resource").iter().filter_map(|member| {
            let value = member.value.text()?.trim_end_matches(['\r', '\n']);
            Some((member.key.clone(), value.to_owned()))
        });
        let resource = resource.collect();
        let sink = self.sink(&fields, &PATH)?;
        let upstream = upstreams.get(sink.upstream.0).and_then(Option::as_ref);
        let is_open = |target: &Target| target.scheme == Scheme::Http && !is_local(&target.host);
        if !fields.read(&PLAIN)
            && let Some(node) = fields.get("to")
            && upstream.is_some_and(|upstream| upstream.targets.iter().any(is_open))
        {
            let message = "telemetry contains paths, addresses and names: `http` is allowed for \
                this machine only";
            self.report
                .error(codes::BAD_VALUE, node.at, message)
                .help("use `https://…`, or `plain: true` in a protected network");
        }
        Some(Telemetry { sink, traces, metrics, resource })
    }
}
