//! The journal and the Tracker.

use super::events::TRIGGER;
use super::{Fields, Resolver};
use crate::config::{
    Capture, CaptureLevel, CaptureWhen, Durability, IndexDepth, JournalSettings, Tracker, WhenFull,
};
use crate::formats;
use std::sync::Arc;
use std::time::Duration;
use weir_document::draft::Node;
use weir_document::finding::codes;
use weir_document::shape::typed::{Defaulted, boolean, choice, positive, size, words};
use weir_document::shape::{Key, Kind, Names, Shape, format};
use weir_expr::body_mask::{BodyMask, PathCost};
use weir_expr::business_keys::{BusinessKeys, KEYS, Source};
use weir_model::Choice;

const LEVEL_OR_MORE: Kind =
    Kind::Either(&[Kind::Enum(words::<CaptureLevel>()), Kind::Object(&CAPTURE)]);

/// `capture` of the Tracker, an API or a route.
pub(super) const fn capture(default: &'static str) -> Key {
    Key::new(
        "capture",
        LEVEL_OR_MORE,
        "Capture level: what is recorded of a transaction. `none`: nothing; `meta`: caller, route, times and outcome; `headers`: also headers; `body`: also bodies.",
    )
    .absent(default)
}

const CAPTURE_LEVEL: Defaulted<CaptureLevel> = choice("level", "Capture level.").default("body");
const CAPTURE_SLOW: Defaulted<Duration> =
    positive("slow", "Duration from which a transaction is `slow`.").default("1s");

/// `capture` as a mapping.
pub(super) static CAPTURE: Shape = Shape {
    short: Some("level"),
    misspellings: &[("errors", "write `when: error`"), ("error", "write `when: error`")],
    ..Shape::new(
        "the capture",
        "Capture level, and conditions under which headers and bodies are kept.",
        &[
            CAPTURE_LEVEL.key,
            Key::new(
                "when",
                Kind::OneOrMany(&Kind::Enum(&["error", "slow"])),
                "Keep headers and bodies only of transactions that failed (status 400 or above, or aborted), or that took longer than `slow`; of others only `meta` is kept.",
            ),
            CAPTURE_SLOW.key,
        ],
    )
};

const DURABILITY: Defaulted<Durability> = choice("durability", "Durability: the last byte of a response is sent once the record survives a crash of the process (`process`), or of the machine (`disk`), which costs a sync per group of responses.").default("process");
const DISK: Defaulted<u64> = size("disk", "Maximum disk space of the journal.").default("10GiB");
const WHEN_FULL: Defaulted<WhenFull> = choice("when_full", "Behaviour if nothing more can be recorded: serve requests without a record (`shed`), or reject them with 503 (`refuse`).").default("shed");

/// `journal`.
pub(super) static JOURNAL: Shape = Shape {
    misspellings: &[("size", "write `disk`"), ("path", "the journal is in the folder `data`")],
    ..Shape::new(
        "the journal",
        "Append-only log of all transactions, in the folder `data`.",
        &[DURABILITY.key, DISK.key, WHEN_FULL.key],
    )
};

const ENABLED: Defaulted<bool> = boolean("enabled", "Recording of transactions.").default("false");
const BODY_LIMIT: Defaulted<u64> = size(
    "body_limit",
    "Maximum number of recorded bytes of a body, per direction; longer bodies are truncated.",
)
.default("64KiB");
const BUDGET: Defaulted<u64> = size(
    "budget",
    "Maximum memory of bodies that wait for redaction, in the entire process; further bodies are not recorded.",
)
.default("64MiB");
const INDEX: Defaulted<IndexDepth> = choice("index", "Search index: all recorded words (`payload`); metadata and business keys only (`keys`); none (`none`).").default("payload");

/// `tracker`.
pub(super) static TRACKER: Shape = Shape {
    short: Some("enabled"),
    misspellings: &[
        ("when", "write `capture: {level: body, when: …}`"),
        ("level", "write `capture`"),
        ("record", "write `capture`"),
    ],
    ..Shape::new(
        "the Tracker",
        "The searchable record of every transaction.",
        &[
            ENABLED.key,
            capture("body"),
            BODY_LIMIT.key,
            BUDGET.key,
            INDEX.key,
            Key::new(
                "keys",
                Kind::Table(Names::Name, &KEY),
                "Business keys, searched by `key.NAME:value`: a path into the request body and, without a match, into the response body; or an expression on the request.",
            ),
            Key::new(
                "triggers",
                Kind::List(&Kind::Object(&TRIGGER)),
                "Triggers: rules on transactions that send an event for each matching one.",
            ),
            Key::new(
                "keep",
                Kind::Object(&KEEP),
                "Retention of transactions, within `journal.disk`.",
            ),
            Key::new(
                "mask",
                Kind::Object(&MASK),
                "Redaction: values that are not recorded. Credentials are never recorded.",
            ),
        ],
    )
};

/// A value of `keys`.
const KEY: Kind = Kind::Either(&[Kind::Format(format::JSON_PATH), Kind::Object(&KEY_EXPRESSION)]);

/// A computed business key.
pub(super) static KEY_EXPRESSION: Shape = Shape {
    misspellings: &[("path", "write the path itself: `NAME: \"$.order.id\"`")],
    ..Shape::new(
        "a business key",
        "A business key computed by an expression; a list yields several values.",
        &[Key::new(
            "cel",
            Kind::Format(formats::CEL),
            "CEL over `request` (without `path`) and `consumer`.",
        )
        .required()],
    )
};

const KEEP_COMPLETED: Defaulted<Duration> =
    positive("completed", "Headers and bodies of successful transactions.").default("7d");
const KEEP_FAILED: Defaulted<Duration> =
    positive("failed", "Headers and bodies of failed and aborted transactions.").default("90d");

/// `keep` of the Tracker.
pub(super) static KEEP: Shape = Shape::new(
    "the retention",
    "Retention of transactions. Metadata (caller, route, times and outcome) is kept for the longer of the two times.",
    &[KEEP_COMPLETED.key, KEEP_FAILED.key],
);

/// `mask` of the Tracker.
pub(super) static MASK: Shape = Shape {
    ..Shape::new(
        "the redaction",
        "Redaction: values that are replaced by `***` before they are recorded.",
        &[
            Key::new(
                "headers",
                Kind::OneOrMany(&Kind::Format(format::HEADER)),
                "Headers of requests and responses.",
            ),
            Key::new(
                "query",
                Kind::OneOrMany(&Kind::Format(format::PARAMETER)),
                "Query parameters.",
            ),
            Key::new(
                "body",
                Kind::OneOrMany(&Kind::Format(format::JSON_PATH)),
                "Paths in JSON bodies, and form fields whose name equals the last name of a path. Bodies that are neither, or longer than `body_limit`, are not recorded.",
            ),
        ],
    )
};

impl Choice for CaptureLevel {
    const CHOICES: &'static [(&'static str, Self)] = &[
        ("none", Self::None),
        ("meta", Self::Meta),
        ("headers", Self::Headers),
        ("body", Self::Body),
    ];
}

impl Choice for Durability {
    const CHOICES: &'static [(&'static str, Self)] =
        &[("process", Self::Process), ("disk", Self::Disk)];
}

impl Choice for WhenFull {
    const CHOICES: &'static [(&'static str, Self)] =
        &[("shed", Self::Shed), ("refuse", Self::Refuse)];
}

impl Choice for IndexDepth {
    const CHOICES: &'static [(&'static str, Self)] =
        &[("payload", Self::Payload), ("keys", Self::Keys), ("none", Self::None)];
}

fn journal(fields: &Fields<'_>) -> JournalSettings {
    JournalSettings {
        durability: fields.read(&DURABILITY),
        disk: fields.read(&DISK),
        when_full: fields.read(&WHEN_FULL),
    }
}

/// The Tracker without references to other sections.
fn tracker(fields: &Fields<'_>) -> Tracker {
    let keep = fields.object_or_empty("keep", &KEEP);
    Tracker {
        enabled: fields.read(&ENABLED),
        body_limit: fields.read(&BODY_LIMIT),
        index: fields.read(&INDEX),
        masked_headers: Vec::new(),
        masked_parameters: Vec::new(),
        masked_bodies: Arc::default(),
        budget: fields.read(&BUDGET),
        keys: Arc::default(),
        triggers: Vec::new(),
        keep_completed: keep.read(&KEEP_COMPLETED),
        keep_failed: keep.read(&KEEP_FAILED),
    }
}

impl Default for JournalSettings {
    fn default() -> Self {
        journal(&Fields::empty(&JOURNAL))
    }
}

impl Default for Tracker {
    fn default() -> Self {
        tracker(&Fields::empty(&TRACKER))
    }
}

impl Resolver<'_> {
    /// The value of `capture`, if present.
    pub(super) fn capture(&mut self, fields: &Fields<'_>) -> Option<Capture> {
        let Some(whole) = fields.object("capture", &CAPTURE) else {
            let level = CAPTURE_LEVEL.parse(Some(fields.get("capture")?));
            return Some(Capture { level, when: None });
        };
        let level = whole.read(&CAPTURE_LEVEL);
        let words = whole.texts("when");
        let slow = words.iter().any(|word| word == "slow");
        if let Some(node) = whole.get("slow").filter(|_| !slow) {
            self.report
                .error(codes::CONFLICT, node.at, "`slow` has no effect")
                .help("add `when: slow` or `when: [error, slow]`");
        }
        let when = whole.get("when").map(|node| {
            if level < CaptureLevel::Headers {
                self.report
                    .error(
                        codes::CONFLICT,
                        node.at,
                        "`when` has no effect without headers or bodies",
                    )
                    .help("use `level: headers` or `level: body`");
            }
            CaptureWhen {
                error: words.iter().any(|word| word == "error"),
                slow: slow.then(|| whole.read(&CAPTURE_SLOW)),
            }
        });
        Some(Capture { level, when })
    }

    pub(super) fn journal(&mut self, root: &Fields<'_>) -> JournalSettings {
        journal(&root.object_or_empty("journal", &JOURNAL))
    }

    pub(super) fn tracker(&mut self, root: &Fields<'_>) -> Tracker {
        let fields = root.object_or_empty("tracker", &TRACKER);
        let mask = fields.object_or_empty("mask", &MASK);
        Tracker {
            masked_headers: mask.texts("headers").iter().map(|n| n.to_ascii_lowercase()).collect(),
            masked_parameters: mask.texts("query"),
            masked_bodies: Arc::new(self.body_mask(&mask)),
            keys: Arc::new(self.business_keys(&fields)),
            ..tracker(&fields)
        }
    }

    fn body_mask(&mut self, mask: &Fields<'_>) -> BodyMask {
        let mut found = BodyMask::default();
        for node in mask.many("body") {
            // The check has reported malformed paths.
            if let Some(text) = node.text()
                && found.add(text) == Ok(PathCost::Tree)
            {
                self.needs_tree(text, node);
            }
        }
        found
    }

    fn business_keys(&mut self, tracker: &Fields<'_>) -> BusinessKeys {
        let mut found = BusinessKeys::default();
        for (count, member) in tracker.members("keys").iter().enumerate() {
            if count == KEYS {
                let message = format!("more than {KEYS} business keys");
                self.report.error(codes::TOO_MANY, member.at, message);
                break;
            }
            let Some((text, source)) = self.key_source(&member.value) else { continue };
            if source.needs_tree() {
                self.needs_tree(text, &member.value);
            }
            found.add(&member.key, text, source);
        }
        found
    }

    fn key_source<'n>(&mut self, node: &'n Node) -> Option<(&'n str, Source)> {
        if let Some(text) = node.text() {
            // The check has reported malformed paths.
            return Some((text, Source::path(text).ok()?));
        }
        let cel = Fields::new(node, &KEY_EXPRESSION).get("cel")?;
        match Source::expression(cel.text()?) {
            Ok(source) => Some((cel.text()?, source)),
            Err(message) => {
                self.report.error(codes::BAD_EXPRESSION, cel.at, message);
                None
            }
        }
    }
}
