//! Keys of what is told by OTLP.

use crate::shape::{Form, Key, Kind, Names, Shape};

/// `telemetry`.
pub(crate) static TELEMETRY: Shape = Shape {
    short: Some("to"),
    slips: &[
        ("otlp", "write `to` and what is told right here"),
        ("endpoint", "name an upstream: `to: NAME`"),
        ("url", "name an upstream: `to: NAME`"),
        ("headers", "write `auth` of the upstream"),
        ("attributes", "write `resource`"),
        ("spans", "write `traces`"),
        ("insecure", "write `plain`"),
    ],
    ..Shape::new(
        "the telemetry",
        "What OpenTelemetry's collectors are told, by OTLP over HTTP/1.1 in protobuf: nothing without it.",
        &[
            Key::new(
                "to",
                Kind::Form(Form::Name),
                "The upstream that takes it; its `auth`, `tls` and times hold.",
            )
            .required(),
            Key::new(
                "path",
                Kind::Form(Form::Base),
                "What stands before `/v1/traces` and `/v1/metrics`.",
            )
            .default("/"),
            Key::new(
                "plain",
                Kind::Bool,
                "Whether it may go to other machines in plain text (`http`).",
            )
            .default("false"),
            Key::new(
                "traces",
                Kind::Object(&TRACES),
                "Spans of requests, and of what they asked upstreams for.",
            )
            .default("none"),
            Key::new("metrics", Kind::Object(&METRICS), "All that `/metrics` shows.")
                .default("none"),
            Key::new(
                "resource",
                Kind::Table(Names::Name, &Kind::Loose),
                "Attributes of this process. `service.name`, `service.version` and `service.instance.id` have a value without it.",
            ),
        ],
    )
};

/// `traces` of the telemetry.
pub(crate) static TRACES: Shape = Shape {
    short: Some("share"),
    slips: &[("sample", "write `share`"), ("ratio", "write `share`"), ("rate", "write `most`")],
    ..Shape::new(
        "the traces",
        "Which requests are traced. One that comes with a `traceparent` is traced if that says so, whatever the share.",
        &[
            Key::new(
                "share",
                Kind::Form(Form::Percent),
                "Of the requests that belong to no trace yet; chosen by the id of their trace.",
            )
            .default("10%"),
            Key::new(
                "most",
                Kind::Integer(1, 10_000),
                "Most requests that are traced in a second, all workers together, whatever clients ask for.",
            )
            .default("200"),
        ],
    )
};

/// `metrics` of the telemetry.
pub(crate) static METRICS: Shape = Shape {
    short: Some("every"),
    slips: &[("interval", "write `every`")],
    ..Shape::new(
        "the metrics",
        "When metrics are told.",
        &[Key::new(
            "every",
            Kind::Form(Form::PositiveDuration),
            "From one report to the next, at least 1s.",
        )
        .default("60s")],
    )
};
