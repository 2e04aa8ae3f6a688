//! Journal and Tracker settings.

use super::archive::Archive;
use super::events::TriggerKeys;
use super::kafka::KafkaSink;
use super::search_sink::SearchSinkKeys;
use crate::formats;
use std::sync::Arc;
use std::time::Duration;
use strum::{EnumString, VariantNames};
use weir_document::settings;
use weir_document::shape::{Key, Kind, Names, format};
use weir_expr::BodyMask;
use weir_expr::BusinessKeys;
use weir_model::events::Trigger;
use weir_model::search_sink::SearchSink;

settings! {
    /// Append-only log of all transactions, in the folder `data`.
    #[derive(Clone, Debug)]
    pub struct JournalSettings is "the journal" {
        /// Durability: the last byte of a response is sent once the record survives a crash of the
        /// process (`process`), or of the machine (`disk`), which costs a sync per group of
        /// responses.
        pub durability: Durability = choice().default("process"),
        /// Maximum disk space of the journal.
        pub disk: u64 = size().default("10GiB"),
        /// Behaviour if nothing more can be recorded: serve requests without a record (`shed`), or
        /// reject them with 503 (`refuse`).
        pub when_full: WhenFull = choice().default("shed"),
        /// Upload to object storage, where transactions are found for years.
        archive = by_hand(Kind::Object(Archive::SHAPE)).absent("none"),
    } given {
        /// Upload to object storage.
        pub archive: Option<Archive>,
    },
    misspellings: &[("size", "write `disk`"), ("path", "the journal is in the folder `data`")],
}

/// The Tracker.
#[derive(Debug)]
pub struct Tracker {
    /// Whether transactions are recorded.
    pub enabled: bool,
    /// Maximum number of recorded bytes of a body, per direction.
    pub body_limit: u64,
    /// Search index.
    pub index: IndexDepth,
    /// Headers whose values are not recorded, lower case. Credentials are never recorded and not
    /// listed.
    pub masked_headers: Vec<String>,
    /// Query parameters whose values are not recorded.
    pub masked_parameters: Vec<String>,
    /// Redaction of bodies.
    pub masked_bodies: Arc<BodyMask>,
    /// Maximum memory in bytes of bodies that wait for redaction, in the entire process.
    pub budget: u64,
    /// Business keys of transactions, found by the indexer.
    pub keys: Arc<BusinessKeys>,
    /// Triggers: rules on finished transactions.
    pub triggers: Vec<Trigger>,
    /// OpenSearch as a sink of transactions.
    pub sinks: Vec<SearchSink>,
    /// Topics of Kafka as sinks of transactions.
    pub kafka: Vec<KafkaSink>,
    /// Retention of headers and bodies of successful transactions.
    pub keep_completed: Duration,
    /// Retention of failed and aborted transactions.
    pub keep_failed: Duration,
}

settings! {
    /// The searchable record of every transaction.
    pub(crate) struct TrackerKeys is "the Tracker" {
        /// Recording of transactions.
        pub(crate) enabled: bool = boolean().default("false"),
        capture = same(capture("body")),
        /// Maximum number of recorded bytes of a body, per direction; longer bodies are truncated.
        pub(crate) body_limit: u64 = size().default("64KiB"),
        /// Maximum memory of bodies that wait for redaction, in the entire process; further bodies
        /// are not recorded.
        pub(crate) budget: u64 = size().default("64MiB"),
        /// Search index: all recorded words (`payload`); metadata and business keys only (`keys`);
        /// none (`none`).
        pub(crate) index: IndexDepth = choice().default("payload"),
        /// Business keys, searched by `key.NAME:value`: a path into the request body and, without a
        /// match, into the response body; or an expression on the request.
        keys = by_hand(Kind::Table(Names::Name, &KEY)),
        /// Triggers: rules on transactions that send an event for each matching one.
        triggers = by_hand(Kind::List(&Kind::Object(TriggerKeys::SHAPE))),
        /// Sinks that receive all transactions: an OpenSearch for searches over many nodes, or a topic of
        /// Kafka.
        sinks = by_hand(Kind::List(&Kind::Object(SearchSinkKeys::SHAPE))),
        /// Retention of transactions, within `journal.disk`.
        pub(crate) keep: Retention = section(),
        /// Redaction: values that are not recorded. Credentials are never recorded.
        pub(crate) mask: Mask = section(),
    },
    short: Some("enabled"),
    misspellings: &[
        ("when", "write `capture: {level: body, when: …}`"),
        ("level", "write `capture`"),
        ("record", "write `capture`"),
    ],
}

/// A value of `keys`.
const KEY: Kind = Kind::Either(&[Kind::Format(format::JSON_PATH), Kind::Object(&KEY_EXPRESSION)]);

settings! {
    /// A business key computed by an expression; a list yields several values.
    pub(crate) static KEY_EXPRESSION is "a business key" {
        /// CEL over `request` (without `path`) and `consumer`.
        cel = by_hand(Kind::Format(formats::CEL)).required(),
    },
    misspellings: &[("path", "write the path itself: `NAME: \"$.order.id\"`")],
}

settings! {
    /// Retention of transactions. Metadata (caller, route, times and outcome) is kept for the
    /// longer of the two times.
    pub(crate) struct Retention is "the retention" {
        /// Headers and bodies of successful transactions.
        pub(crate) completed: Duration = positive().default("7d"),
        /// Headers and bodies of failed and aborted transactions.
        pub(crate) failed: Duration = positive().default("90d"),
    }
}

settings! {
    /// Redaction: values that are replaced by `***` before they are recorded.
    pub(crate) struct Mask is "the redaction" {
        /// Headers of requests and responses.
        // Names in lower case.
        pub(crate) headers: Vec<String> = names(Kind::OneOrMany(&Kind::Format(format::HEADER))),
        /// Query parameters.
        pub(crate) query: Vec<String> = texts(Kind::OneOrMany(&Kind::Format(format::PARAMETER))),
        /// Paths in JSON bodies, and form fields whose name equals the last name of a path. Bodies
        /// that are neither, or longer than `body_limit`, are not recorded.
        body = by_hand(Kind::OneOrMany(&Kind::Format(format::JSON_PATH))),
    }
}

/// `capture` of the Tracker, an API or a route.
pub(crate) const fn capture(default: &'static str) -> Key {
    Key::new(
        "capture",
        Kind::Either(&[Kind::Enum(LEVELS), Kind::Object(Capture::SHAPE)]),
        "Capture level: what is recorded of a transaction. `none`: nothing; `meta`: caller, route, times and outcome; `headers`: also headers; `body`: also bodies.",
    )
    .absent(default)
}

const LEVELS: &[&str] = CaptureLevel::VARIANTS;

settings! {
    /// Capture level, and conditions under which headers and bodies are kept.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Capture is "the capture" {
        /// Capture level.
        pub level: CaptureLevel = choice().default("body"),
        /// Keep headers and bodies only of transactions that failed (status 400 or above, or
        /// aborted), or that took longer than `slow`; of others only `meta` is kept.
        // `None`: always kept.
        pub when: Option<CaptureWhen> =
            by_hand(Kind::OneOrMany(&Kind::Enum(&["error", "slow"]))),
        /// Duration from which a transaction is `slow`.
        slow = positive().default("1s"),
    },
    short: Some("level"),
    misspellings: &[("errors", "write `when: error`"), ("error", "write `when: error`")],
}

/// Durability of a record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, EnumString, VariantNames)]
#[strum(serialize_all = "lowercase")]
pub enum Durability {
    /// Survives a crash of the process.
    #[default]
    Process,
    /// Survives a loss of power: it has been synced.
    Disk,
}

/// Handling of requests that cannot be recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, EnumString, VariantNames)]
#[strum(serialize_all = "lowercase")]
pub enum WhenFull {
    /// Served without a record, and counted.
    #[default]
    Shed,
    /// Rejected with 503.
    Refuse,
}

/// Conditions under which headers and bodies of a finished transaction are kept; of others
/// [`CaptureLevel::Meta`] is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CaptureWhen {
    /// The transaction failed: status 400 or above, or aborted.
    pub error: bool,
    /// The transaction took longer.
    pub slow: Option<Duration>,
}

impl Capture {
    /// Nothing is captured: the state before a route is known.
    pub const NONE: Self = Self { level: CaptureLevel::None, when: None };

    /// The capture level of a transaction with this outcome.
    pub fn keeps(&self, error: bool, took: Duration) -> bool {
        self.when
            .is_none_or(|when| when.error && error || when.slow.is_some_and(|slow| took > slow))
    }
}

/// Capture level of a transaction, in ascending order.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    EnumString,
    VariantNames,
    strum::IntoStaticStr,
)]
#[strum(serialize_all = "lowercase")]
pub enum CaptureLevel {
    /// Nothing.
    None,
    /// Caller, route, times, outcome.
    Meta,
    /// Headers of request and response, too.
    Headers,
    /// Bodies, too.
    #[default]
    Body,
}

/// Depth of the search index.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, EnumString, VariantNames)]
#[strum(serialize_all = "lowercase")]
pub enum IndexDepth {
    /// Every word.
    #[default]
    Payload,
    /// Metadata ([`CaptureLevel::Meta`]) and business keys.
    Keys,
    /// Nothing.
    None,
}
