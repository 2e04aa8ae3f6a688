//! Keys of the journal and the Tracker.

use super::TRIGGER;
use crate::shape::{Form, Key, Kind, Names, Shape};

/// What of a transaction is recorded, the least first.
const LEVELS: &[&str] = &["none", "meta", "headers", "body"];

const LEVEL_OR_MORE: Kind = Kind::Either(&[Kind::Word(LEVELS), Kind::Object(&CAPTURE)]);

/// `capture` of the Tracker, an API or a route.
pub(crate) const fn capture(default: &'static str) -> Key {
    Key::new(
        "capture",
        LEVEL_OR_MORE,
        "What is recorded of a transaction: nothing; `meta` (who, what, when, how it ended); `headers` too; `body` too.",
    )
    .default(default)
}

/// `capture` at length.
pub(crate) static CAPTURE: Shape = Shape {
    short: Some("level"),
    slips: &[("errors", "write `when: error`"), ("error", "write `when: error`")],
    ..Shape::new(
        "the capture",
        "What is recorded of a transaction, and whether headers and bodies are kept when it is over.",
        &[
            Key::new("level", Kind::Word(LEVELS), "What is recorded.").default("body"),
            Key::new(
                "when",
                Kind::OneOrMany(&Kind::Word(&["error", "slow"])),
                "Headers and bodies are kept only of transactions that ended with an error (status 400 or above, or broken off), or that took longer than `slow`; of others `meta` stays.",
            ),
            Key::new(
                "slow",
                Kind::Form(Form::PositiveDuration),
                "How long a transaction takes that is `slow`.",
            )
            .default("1s"),
        ],
    )
};

/// `journal`.
pub(crate) static JOURNAL: Shape = Shape {
    slips: &[("size", "write `disk`"), ("path", "the journal is in the folder `data`")],
    ..Shape::new(
        "the journal",
        "The log of every transaction, in the folder `data`.",
        &[
            Key::new(
                "durability",
                Kind::Word(&["process", "disk"]),
                "When an answer's last byte leaves: once its record would survive the process (`process`), or once it is on the disk (`disk`), which costs a sync for each group of answers.",
            )
            .default("process"),
            Key::new("disk", Kind::Form(Form::Size), "Most disk space it takes.").default("10GiB"),
            Key::new(
                "when_full",
                Kind::Word(&["shed", "refuse"]),
                "What happens when nothing more can be recorded: requests are served without a record (`shed`), or answered with 503 (`refuse`).",
            )
            .default("shed"),
        ],
    )
};

/// `tracker`.
pub(crate) static TRACKER: Shape = Shape {
    short: Some("enabled"),
    slips: &[
        ("when", "write `capture: {level: body, when: …}`"),
        ("level", "write `capture`"), ("record", "write `capture`")],
    ..Shape::new(
        "the Tracker",
        "The searchable record of every transaction.",
        &[
            Key::new("enabled", Kind::Bool, "Whether transactions are recorded.").default("false"),
            capture("body"),
            Key::new(
                "body_limit",
                Kind::Form(Form::Size),
                "Most bytes of a body that are recorded, in each direction; of a longer one the first so many.",
            )
            .default("64KiB"),
            Key::new(
                "budget",
                Kind::Form(Form::Size),
                "Most memory for bodies that wait to be masked, in the whole process; more are not recorded.",
            )
            .default("64MiB"),
            Key::new(
                "index",
                Kind::Word(&["payload", "keys", "none"]),
                "What can be searched for: every word of what is recorded; what is recorded as `meta` alone, and keys; nothing.",
            )
            .default("payload"),
            Key::new(
                "keys",
                Kind::Table(Names::Name, &KEY),
                "Business keys, found with `key.NAME:value`: a path into the request's body, or where that has none into the answer's, or an expression on the request.",
            ),
            Key::new(
                "triggers",
                Kind::List(&Kind::Object(&TRIGGER)),
                "Rules on transactions that post an event for each that ends so.",
            ),
            Key::new(
                "keep",
                Kind::Object(&KEEP),
                "How long transactions are kept, as far as `journal.disk` allows.",
            ),
            Key::new(
                "mask",
                Kind::Object(&MASK),
                "What is never recorded, beside credentials, which never are.",
            ),
        ],
    )
};

/// A value of `keys`.
const KEY: Kind = Kind::Either(&[Kind::Form(Form::JsonPath), Kind::Object(&KEY_EXPRESSION)]);

/// A business key that is computed.
pub(crate) static KEY_EXPRESSION: Shape = Shape {
    slips: &[("path", "write the path itself: `NAME: \"$.order.id\"`")],
    ..Shape::new(
        "a business key",
        "A business key that an expression gives; a list is several values.",
        &[Key::new(
            "cel",
            Kind::Form(Form::Cel),
            "What it is, from `request` (without `path`) and `consumer`.",
        )
        .required()],
    )
};

/// `keep` of the Tracker.
pub(crate) static KEEP: Shape = Shape::new(
    "the time to keep",
    "How long transactions are kept. Who, what, when and how it ended are kept as long as the longer of the two says.",
    &[
        Key::new(
            "completed",
            Kind::Form(Form::PositiveDuration),
            "Headers and bodies of transactions that were completed.",
        )
        .default("7d"),
        Key::new(
            "failed",
            Kind::Form(Form::PositiveDuration),
            "Failed and interrupted transactions.",
        )
        .default("90d"),
    ],
);

/// `mask` of the Tracker.
pub(crate) static MASK: Shape = Shape {
    ..Shape::new(
        "the mask",
        "What is replaced by `***` before it is recorded.",
        &[
            Key::new(
                "headers",
                Kind::OneOrMany(&Kind::Form(Form::Header)),
                "Values of these headers, of requests and answers.",
            ),
            Key::new(
                "query",
                Kind::OneOrMany(&Kind::Form(Form::Parameter)),
                "Values of these query parameters.",
            ),
            Key::new(
                "body",
                Kind::OneOrMany(&Kind::Form(Form::JsonPath)),
                "Values at these paths of JSON bodies, and form fields of the same last name. A body that cannot be read as either, or is longer than `body_limit`, is not recorded.",
            ),
        ],
    )
};
