//! Keys of measurement, observation and comparison.

use super::{LENGTH, ONLY, ONLY_DOC, SHARE, TIME};
use weir_document::shape::{Group, Key, Kind, Names, Shape};

/// Idle condition between rounds.
const IDLE: Kind = Kind::Either(&[Kind::Enum(&["drained"]), TIME, Kind::Object(&GAUGES)]);
const IDLE_DOC: &str = "Idle condition between rounds: weir has indexed and counted all records, gauges are 0, or a time has passed.";

static GAUGES: Shape = Shape::new(
    "an idle condition",
    "Gauges of `observe.metrics` that are 0 on an idle server.",
    &[Key::new("zero", Kind::List(&Kind::Text), "Names of the gauges.").required()],
);

pub(super) static PROTOCOL: Shape = Shape {
    groups: &[Group { keys: &["stabilise", "fixed"], required: true }],
    ..Shape::new(
        "a protocol",
        "Measurement of a cell.",
        &[
            Key::new(
                "stabilise",
                Kind::Object(&STABILISE),
                "Rounds until a steady state, then recorded rounds.",
            ),
            Key::new("fixed", Kind::Object(&FIXED), "One run without its beginning."),
        ],
    )
};

/// Stabilise, then measure.
static STABILISE: Shape = Shape::new(
    "stabilising",
    "Rounds until a steady state, then recorded rounds.",
    &[
        Key::new(
            "rounds",
            Kind::Integer(3, 100),
            "Recorded rounds, and rounds in each half of those before the decision.",
        )
        .default("5"),
        Key::new("margin", SHARE, "Largest difference of equivalent rounds.").default("5%"),
        Key::new(
            "max_rounds",
            Kind::Integer(6, 10_000),
            "Rounds after which the case is UNSTABLE.",
        )
        .default("60"),
        Key::new("least", LENGTH, "Shortest round.").default("2s"),
        Key::new("longest", LENGTH, "Longest round.").default("10s"),
        Key::new("variation", SHARE, "Largest coefficient of variation of successive rounds.")
            .default("2%"),
        Key::new("exact", Kind::Bool, "Keep the number of iterations.").default("false"),
        Key::new("idle", IDLE, IDLE_DOC).default("0"),
    ],
);

/// A run of a fixed duration.
static FIXED: Shape = Shape::new(
    "a fixed run",
    "One run without its beginning.",
    &[
        Key::new("cut", TIME, "Length of the beginning that is cut off.").required(),
        Key::new("idle", IDLE, IDLE_DOC).default("0"),
    ],
);

/// Observed subjects.
pub(super) static OBSERVE: Shape = Shape::new(
    "the observed subjects",
    "Observed subjects, on the time axis of the load.",
    &[
        Key::new("every", LENGTH, "Interval.").default("1s"),
        Key::new(
            "pids",
            Kind::List(&Kind::Scalar),
            "Processes: `gateway` and `backend`, as started by the Lab, or process ids.",
        ),
        Key::new("metrics", Kind::Text, "URL of the server's Prometheus metrics."),
        Key::new("gauges", Kind::List(&Kind::Text), "Names of metrics."),
        Key::new("gc_log", Kind::Text, "Unified GC log of a JVM."),
    ],
);

/// A published figure.
pub(super) static PUBLISHED: Shape = Shape {
    groups: &[Group {
        keys: &["throughput", "mean", "p50", "p90", "p95", "p99", "max", "errors", "relative"],
        required: true,
    }],
    ..Shape::new(
        "a published figure",
        "A published figure.",
        &[
            Key::new("source", Kind::Text, "Source and hardware.").required(),
            Key::new("only", ONLY, ONLY_DOC),
            Key::new("throughput", Kind::Scalar, "Requests per second."),
            Key::new("mean", TIME, "Mean of the response time."),
            Key::new("p50", TIME, "Percentile of the response time."),
            Key::new("p90", TIME, "Likewise."),
            Key::new("p95", TIME, "Likewise."),
            Key::new("p99", TIME, "Likewise."),
            Key::new("max", TIME, "Largest response time."),
            Key::new("errors", SHARE, "Share of requests that failed."),
            Key::new("relative", Kind::Scalar, "Throughput relative to the case `to`."),
            Key::new(
                "to",
                Kind::Table(Names::Name, &Kind::Scalar),
                "Reference case of `relative`: values that differ from those of `only`.",
            ),
        ],
    )
};

/// Levels of a run.
pub(super) static LEVELS: Shape = Shape::new(
    "the levels",
    "Overrides of `--quick` and `--full`: paths such as `load.0.duration`, and values.",
    &[
        Key::new("quick", SETTINGS, "Overrides of a short run.").default(
            "the first and the last value of everything in the matrix, loads of at most 5 s",
        ),
        Key::new("full", SETTINGS, "Overrides of the complete run.").default("nothing"),
    ],
);

const SETTINGS: Kind = Kind::Table(Names::Parameter, &Kind::Json);
