//! Keys of the Monitor.

use super::{ALERT, EVENTS};
use crate::shape::{Form, Key, Kind, Shape};

const NAMES: Kind = Kind::OneOrMany(&Kind::Form(Form::Name));
const YES_OR_NO: Kind = Kind::Bool;

/// `monitor`.
pub(crate) static MONITOR: Shape = Shape {
    short: Some("count"),
    slips: &[
        ("retention", "write `keep`"),
        ("rules", "write `count`"),
        ("max_buckets", "write `cardinality`"),
    ],
    ..Shape::new(
        "the Monitor",
        "Counts of calls, for usage, limits and billing. Calls of a plan with a quota or a price are counted without a rule.",
        &[
            Key::new(
                "enabled",
                Kind::Bool,
                "Whether calls are counted, by whatever asks for it. `false` leaves quotas to memory: they begin anew with the process.",
            )
            .default("true"),
            Key::new(
                "count",
                Kind::Either(&[Kind::Word(&["all"]), Kind::OneOrMany(&Kind::Object(&COUNT))]),
                "Which calls are counted: `all`, or those that one of these rules is for.",
            )
            .default("none"),
            Key::new(
                "counts",
                Kind::Object(&COUNTS),
                "What counts as a call. It decides when calls are counted, not when they are made.",
            ),
            Key::new(
                "keep",
                Kind::Form(Form::PositiveDuration),
                "How long counts are kept, at least two days.",
            )
            .default("400d"),
            Key::new(
                "cardinality",
                Kind::Integer(1, 1_000_000),
                "Most combinations of consumer, API, operation, plan and status class of a day (UTC). Further ones are counted as `(other)` operations, and beyond twice as many as `(other)` of everything.",
            )
            .default("10000"),
            Key::new("events", Kind::Object(&EVENTS), "Where counts are posted to."),
            Key::new(
                "alerts",
                Kind::List(&Kind::Object(&ALERT)),
                "Rules on usage that post an event each time they begin to hold.",
            ),
        ],
    )
};

/// A rule of `count`.
pub(crate) static COUNT: Shape = Shape {
    slips: &[
        ("route", "write `operation`"),
        ("op", "write `operation`"),
        ("apis", "write `api`"),
        ("operations", "write `operation`"),
        ("consumers", "write `consumer`"),
    ],
    ..Shape::new(
        "a rule of what is counted",
        "Calls that it is for: all its keys have to fit; of several names one.",
        &[
            Key::new("api", NAMES, "APIs.").required(),
            Key::new(
                "operation",
                Kind::OneOrMany(&Kind::Text),
                "Operations: their `op`, or as `weir routes` shows them.",
            )
            .default("all"),
            Key::new("consumer", NAMES, "Consumers.").default("all, and who is none"),
        ],
    )
};

/// `counts` of the Monitor.
pub(crate) static COUNTS: Shape = Shape::new(
    "what counts",
    "What counts as a call; one that is of several of these kinds counts if all of them do.",
    &[
        Key::new(
            "rejected",
            YES_OR_NO,
            "Calls that were turned away before anything was done about them: credentials, limits, size of the body.",
        )
        .default("false"),
        Key::new(
            "failed",
            YES_OR_NO,
            "Calls that ended with status 500 or above, or were broken off by the upstream.",
        )
        .default("true"),
        Key::new(
            "interrupted",
            YES_OR_NO,
            "Calls without a whole answer: the client left, or weir ended.",
        )
        .default("true"),
        Key::new(
            "retried",
            YES_OR_NO,
            "Calls that weir had to send to an upstream more than once; each of them is one call.",
        )
        .default("true"),
        Key::new("resubmitted", YES_OR_NO, "Calls that an operator resubmitted.").default("false"),
    ],
);
