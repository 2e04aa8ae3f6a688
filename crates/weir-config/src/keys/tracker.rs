//! Keys of the journal and the Tracker.

use super::{Form, Key, Kind, Shape};

/// What of a transaction is recorded, the least first.
const LEVELS: &[&str] = &["none", "meta", "headers", "body"];

/// `capture` of the Tracker, an API or a route.
pub(crate) const fn capture(default: &'static str) -> Key {
    Key::new(
        "capture",
        Kind::Word(LEVELS),
        "What is recorded of a transaction: nothing; `meta` (who, what, when, how it ended); `headers` too; `body` too.",
    )
    .default(default)
}

/// `journal`.
pub(crate) static JOURNAL: Shape = Shape {
    later: &["durability"],
    slips: &[("size", "write `disk`"), ("path", "the journal is in the folder `data`")],
    ..Shape::new(
        "the journal",
        "The log of every transaction, in the folder `data`.",
        &[
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
    later: &["when", "keys", "keep"],
    short: Some("enabled"),
    slips: &[("level", "write `capture`"), ("record", "write `capture`")],
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
                "index",
                Kind::Word(&["payload", "keys", "none"]),
                "What can be searched for: every word of what is recorded; what is recorded as `meta` alone, and keys; nothing.",
            )
            .default("payload"),
            Key::new(
                "mask",
                Kind::Object(&MASK),
                "What is never recorded, beside credentials, which never are.",
            ),
        ],
    )
};

/// `mask` of the Tracker.
pub(crate) static MASK: Shape = Shape {
    later: &["body"],
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
        ],
    )
};
