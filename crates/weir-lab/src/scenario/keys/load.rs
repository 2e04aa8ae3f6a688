//! Keys of loads.

use super::{COUNT, LENGTH, ONLY, ONLY_DOC, SHARE, TIME};
use strum::VariantNames;
use weir_document::shape::{Key, Kind, Shape, format};

/// A rate, `20000/s` or a number of iterations per second.
const RATE: Kind = Kind::Either(&[Kind::Integer(1, 10_000_000), Kind::Format(format::RATE)]);
/// Grouping of the requests of a load.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, strum::EnumString, strum::VariantNames)]
#[strum(serialize_all = "kebab-case")]
pub(in crate::scenario) enum Grouping {
    /// All requests in one iteration.
    #[default]
    Together,
    /// Each request in its own group, one after the other.
    Consecutive,
    /// Each request in its own group, all at once.
    Parallel,
}

/// A load.
pub(super) static LOAD: Shape = Shape {
    misspellings: &[
        ("users", "`vus` of `constant-vus` and `shared-iterations`, `users` of `ramp-users`"),
        ("concurrency", "write `vus`"),
        ("rps", "write `rate: 100/s`"),
        ("requests", "write `iterations`"),
    ],
    ..Shape::new(
        "a load",
        "Number of users or iterations, and their schedule.",
        &[
            Key::new("executor", Kind::Enum(&EXECUTORS), "Kind of load.").required(),
            Key::new("vus", COUNT, "Users of `constant-vus` and `shared-iterations`; initial users of `ramping-vus`."),
            Key::new("users", COUNT, "Users of `ramp-users`."),
            Key::new("iterations", COUNT, "Iterations of each user (`constant-vus`, `ramp-users`), or of all users together (`shared-iterations`)."),
            Key::new("ramp", TIME, "Ramp-up time of the users of `constant-vus`.").default("0"),
            Key::new("over", TIME, "Ramp-up time of the users of `ramp-users`.").default("0"),
            Key::new("duration", LENGTH, "Duration of the load."),
            Key::new("stages", Kind::List(&Kind::Object(&STAGE)), "Stages of `ramping-vus` and `ramping-arrival-rate`, with linear changes from target to target."),
            Key::new("rate", RATE, "Iterations per second of `constant-arrival-rate`; initial rate of `ramping-arrival-rate`."),
            Key::new("start", RATE, "First rate of `find-max`.").default("100/s"),
            Key::new("slo", Kind::Object(&SLO), "Objective of `find-max`."),
            Key::new("precision", SHARE, "Where `find-max` stops.").default("2%"),
            Key::new("hold", LENGTH, "Duration of each rate step of `find-max`.").default("10s"),
            Key::new("confirm", TIME, "Duration of the confirming step of `find-max`.").default("60s"),
            Key::new("quantum", LENGTH, "Iterations start at multiples of the quantum; a coarser one is cheaper for the generator.").default("1ms"),
            Key::new("max_in_flight", COUNT, "Largest number of users, and thus of connections, of an open model.").default("1000"),
            Key::new("backlog", Kind::Integer(0, 10_000_000), "Iterations that may wait for a user before further ones are dropped.").default("the iterations of 10 s"),
            Key::new("groups", Kind::Enum(Grouping::VARIANTS), "All requests in one iteration, or each request in its own group: consecutive or parallel groups.").default("together"),
            Key::new("delay", TIME, "Delay of the start.").default("0"),
            Key::new("pacing", LENGTH, "Minimum time between the starts of two iterations of a user."),
            Key::new("cookies", Kind::Bool, "Users keep cookies.").default("false"),
            Key::new("new_user", Kind::Bool, "Each iteration is a new user: no cookies, a new connection.").default("false"),
            Key::new("only", ONLY, ONLY_DOC),
            Key::new("on_error", Kind::Enum(&["continue", "next-iteration", "stop-user", "stop"]), "Behaviour after a failed sample.").default("continue"),
        ],
    )
};

/// The executors.
const EXECUTORS: [&str; 7] = [
    "constant-vus",
    "ramping-vus",
    "shared-iterations",
    "ramp-users",
    "constant-arrival-rate",
    "ramping-arrival-rate",
    "find-max",
];

/// A stage.
static STAGE: Shape = Shape::new(
    "a stage",
    "A linear change to a target.",
    &[
        Key::new("duration", TIME, "Length of the stage.").required(),
        Key::new(
            "target",
            Kind::Either(&[Kind::Integer(0, 10_000_000), Kind::Format(format::RATE)]),
            "Users, or iterations per second, at its end.",
        )
        .required(),
    ],
);

/// Objective of `find-max`.
static SLO: Shape = Shape::new(
    "an objective",
    "Objective of the highest rate.",
    &[
        Key::new(
            "errors",
            Kind::Either(&[Kind::Integer(0, 0), Kind::Format(format::PERCENT)]),
            "Largest share of errors.",
        )
        .default("0"),
        Key::new("p50", LENGTH, "Limit of the median response time."),
        Key::new("p90", LENGTH, "Limit of the 90th percentile."),
        Key::new("p95", LENGTH, "Limit of the 95th percentile."),
        Key::new("p99", LENGTH, "Limit of the 99th percentile."),
        Key::new("p99.9", LENGTH, "Limit of the 99.9th percentile."),
    ],
);

/// Percentiles of an objective.
pub(in crate::scenario) const PERCENTILES: [(&str, f64); 5] =
    [("p50", 50.0), ("p90", 90.0), ("p95", 95.0), ("p99", 99.0), ("p99.9", 99.9)];
