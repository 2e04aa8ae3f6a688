//! Keys of loads.

use super::{COUNT, LENGTH, ONLY, ONLY_DOC, SHARE, TIME};
use weir_config::document::{Form, Key, Kind, Shape};

/// A rate, `20000/s` or a number of iterations a second.
const RATE: Kind = Kind::Either(&[Kind::Integer(1, 10_000_000), Kind::Form(Form::Rate)]);
/// A load.
pub(super) static LOAD: Shape = Shape {
    slips: &[
        ("users", "`vus` of `constant-vus` and `shared-iterations`, `users` of `ramp-users`"),
        ("concurrency", "write `vus`"),
        ("rps", "write `rate: 100/s`"),
        ("requests", "write `iterations`"),
    ],
    ..Shape::new(
        "a load",
        "How many users or iterations, and when.",
        &[
            Key::new("executor", Kind::Word(&EXECUTORS), "The shape of the load.").required(),
            Key::new("vus", COUNT, "Users of `constant-vus` and `shared-iterations`; of `ramping-vus` those at the start."),
            Key::new("users", COUNT, "Users of `ramp-users`."),
            Key::new("iterations", COUNT, "Of each user (`constant-vus`, `ramp-users`), or of all together (`shared-iterations`)."),
            Key::new("ramp", TIME, "Time in which the users of `constant-vus` begin.").default("0"),
            Key::new("over", TIME, "Time in which the users of `ramp-users` begin.").default("0"),
            Key::new("duration", LENGTH, "How long it goes on."),
            Key::new("stages", Kind::List(&Kind::Object(&STAGE)), "Of `ramping-vus` and `ramping-arrival-rate`: straight lines from target to target."),
            Key::new("rate", RATE, "Iterations a second of `constant-arrival-rate`; of `ramping-arrival-rate` those at the start."),
            Key::new("start", RATE, "First rate of `find-max`.").default("100/s"),
            Key::new("slo", Kind::Object(&SLO), "What `find-max` has to keep."),
            Key::new("precision", SHARE, "Where `find-max` stops.").default("2%"),
            Key::new("hold", LENGTH, "How long `find-max` holds each rate.").default("10s"),
            Key::new("confirm", TIME, "How long `find-max` holds what it found.").default("60s"),
            Key::new("quantum", LENGTH, "Iterations begin at multiples of it: a coarser one costs the generator less.").default("1ms"),
            Key::new("max_in_flight", COUNT, "Users, and so connections, of an open model at most.").default("1000"),
            Key::new("backlog", Kind::Integer(0, 10_000_000), "Iterations that may wait for a user before further ones are dropped.").default("as many as in 10 s"),
            Key::new("groups", Kind::Word(&["together", "consecutive", "parallel"]), "All requests in one iteration, or each request a group of its own: one after the other or all at once.").default("together"),
            Key::new("delay", TIME, "Before it begins.").default("0"),
            Key::new("pacing", LENGTH, "Least time from one iteration of a user to its next."),
            Key::new("cookies", Kind::Bool, "Users keep cookies.").default("false"),
            Key::new("new_user", Kind::Bool, "Each iteration is a new user: no cookies, a new connection.").default("false"),
            Key::new("only", ONLY, ONLY_DOC),
            Key::new("on_error", Kind::Word(&["continue", "next-iteration", "stop-user", "stop"]), "What a failed sample does.").default("continue"),
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
    "A straight line to a target.",
    &[
        Key::new("duration", TIME, "How long it takes.").required(),
        Key::new(
            "target",
            Kind::Either(&[Kind::Integer(0, 10_000_000), Kind::Form(Form::Rate)]),
            "Users, or iterations a second, at its end.",
        )
        .required(),
    ],
);

/// What `find-max` has to keep.
static SLO: Shape = Shape::new(
    "a promise",
    "What the highest rate has to keep.",
    &[
        Key::new(
            "errors",
            Kind::Either(&[Kind::Integer(0, 0), Kind::Form(Form::Percent)]),
            "Share of errors at most.",
        )
        .default("0"),
        Key::new("p50", LENGTH, "Half of the response times are below."),
        Key::new("p90", LENGTH, "90 % are below."),
        Key::new("p95", LENGTH, "95 % are below."),
        Key::new("p99", LENGTH, "99 % are below."),
        Key::new("p99.9", LENGTH, "99.9 % are below."),
    ],
);

/// Percentiles of a promise.
pub(in crate::scenario) const PERCENTILES: [(&str, f64); 5] =
    [("p50", 50.0), ("p90", 90.0), ("p95", 95.0), ("p99", 99.0), ("p99.9", 99.9)];
