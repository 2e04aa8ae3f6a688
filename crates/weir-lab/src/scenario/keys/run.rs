//! Keys of how a run is measured, watched and compared.

use super::{LENGTH, ONLY, ONLY_DOC, SHARE, TIME};
use weir_config::document::{Group, Key, Kind, Names, Shape};

/// What is waited for between rounds.
const IDLE: Kind = Kind::Either(&[Kind::Word(&["drained"]), TIME, Kind::Object(&GAUGES)]);
const IDLE_DOC: &str = "What is waited for between rounds: until weir has indexed and counted what it recorded, until gauges are 0, or a time.";

static GAUGES: Shape = Shape::new(
    "what is waited for",
    "Gauges of `observe.metrics` that are 0 once the server is idle.",
    &[Key::new("zero", Kind::List(&Kind::Text), "Their names.").required()],
);

pub(super) static PROTOCOL: Shape = Shape {
    groups: &[Group { keys: &["stabilise", "fixed"], required: true }],
    ..Shape::new(
        "a protocol",
        "How a cell is measured.",
        &[
            Key::new(
                "stabilise",
                Kind::Object(&STABILISE),
                "Rounds until the server is stable; then further ones are recorded.",
            ),
            Key::new("fixed", Kind::Object(&FIXED), "One run whose beginning is cut off."),
        ],
    )
};

/// Stabilise, then measure.
static STABILISE: Shape = Shape::new(
    "stabilising",
    "Rounds until the server is stable; then further ones are recorded.",
    &[
        Key::new(
            "rounds",
            Kind::Integer(3, 100),
            "Rounds recorded, and rounds in each half of those that decide.",
        )
        .default("5"),
        Key::new("margin", SHARE, "Largest difference that counts as none.").default("5%"),
        Key::new("max_rounds", Kind::Integer(6, 10_000), "After so many it is UNSTABLE.")
            .default("60"),
        Key::new("least", LENGTH, "Shortest round.").default("2s"),
        Key::new("longest", LENGTH, "Longest round.").default("10s"),
        Key::new("variation", SHARE, "Largest coefficient of variation from round to round.")
            .default("2%"),
        Key::new("exact", Kind::Bool, "Iterations stay as they are written.").default("false"),
        Key::new("idle", IDLE, IDLE_DOC).default("0"),
    ],
);

/// A run with a cut.
static FIXED: Shape = Shape::new(
    "a fixed run",
    "One run whose beginning is cut off.",
    &[Key::new("cut", TIME, "How much.").required(), Key::new("idle", IDLE, IDLE_DOC).default("0")],
);

/// What is watched.
pub(super) static OBSERVE: Shape = Shape::new(
    "what is watched",
    "What is watched beside the load, on the same time axis.",
    &[
        Key::new("every", LENGTH, "How often.").default("1s"),
        Key::new(
            "pids",
            Kind::List(&Kind::Loose),
            "Processes: `gateway` and `backend` as the Lab started them, or numbers.",
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
        "What somebody else measured.",
        &[
            Key::new("source", Kind::Text, "Who, and on which hardware.").required(),
            Key::new("only", ONLY, ONLY_DOC),
            Key::new("throughput", Kind::Loose, "Requests a second."),
            Key::new("mean", TIME, "Mean of the response time."),
            Key::new("p50", TIME, "Percentile of the response time."),
            Key::new("p90", TIME, "Likewise."),
            Key::new("p95", TIME, "Likewise."),
            Key::new("p99", TIME, "Likewise."),
            Key::new("max", TIME, "Largest response time."),
            Key::new("errors", SHARE, "Share of requests that failed."),
            Key::new("relative", Kind::Loose, "Throughput, divided by that of the case `to`."),
            Key::new(
                "to",
                Kind::Table(Names::Name, &Kind::Loose),
                "The case that `relative` is relative to: values that differ from those of `only`.",
            ),
        ],
    )
};

/// Levels of effort.
pub(super) static LEVELS: Shape = Shape::new(
    "the levels",
    "What `--quick` and `--full` set over this file: paths such as `load.0.duration`, and values.",
    &[
        Key::new("quick", SETTINGS, "Of a short run, to see that things work.").default(
            "the first and the last value of everything in the matrix, loads of at most 5 s",
        ),
        Key::new("full", SETTINGS, "Of the whole.").default("nothing"),
    ],
);

const SETTINGS: Kind = Kind::Table(Names::Parameter, &Kind::Json);
