//! Sinks of transactions.

use super::kafka::KAFKA;
use weir_document::settings;
use weir_document::shape::{Group, Kind, format};
use weir_model::search_sink::Content;

settings! {
    /// A sink of transactions: an OpenSearch that searches those of many nodes (`to`), or a topic of
    /// Kafka. Documents of OpenSearch are in indexes of a day each, `weir-NAME-done-YYYY.MM.DD` and
    /// `weir-NAME-failed-YYYY.MM.DD`. A sink that is unavailable or slow never holds up recording.
    pub(crate) struct SearchSinkKeys is "a sink" {
        /// Name of the sink in index names and metrics: lower-case letters, digits and hyphens.
        name = by_hand(Kind::Format(format::NAME)).absent("the name of the upstream, or `kafka`"),
        /// Upstream whose targets are nodes of OpenSearch; its `auth`, `tls` and timeouts apply.
        to = by_hand(Kind::Format(format::NAME)),
        /// Topic of Kafka, for analysis elsewhere.
        kafka = by_hand(Kind::Object(&KAFKA)),
        /// Content of documents: metadata and business keys (`keys`); also headers and bodies, and
        /// their words (`payload`).
        pub(crate) content: Content = choice().default("keys"),
        /// Share of `journal.disk` that transactions may take which the sink does not have yet.
        /// Beyond it the journal may drop the oldest of them; the gap is counted.
        pub(crate) max_backlog: u32 = percent().default("50%"),
        /// Retention of indexes of OpenSearch; an index is deleted once all of it is older.
        keep = by_hand(Kind::Object(SearchSinkKeep::SHAPE)).absent("`tracker.keep`"),
        /// Allow unencrypted requests (`http`) to other machines, for `to`.
        pub(crate) plain: bool = boolean().default("false"),
    },
    groups: &[Group { keys: &["to", "kafka"], required: true }],
    misspellings: &[
        ("url", "name an upstream: `to: NAME`"),
        ("upstream", "write `to`"),
        ("index", "write `name`"),
        ("insecure", "write `plain`"),
    ],
}

settings! {
    /// Retention of the indexes of a sink.
    pub(crate) struct SearchSinkKeep is "the retention of a sink" {
        /// Indexes of successful transactions.
        completed = by_hand(Kind::Format(format::POSITIVE_DURATION)).absent("`tracker.keep.completed`"),
        /// Indexes of failed and aborted transactions.
        failed = by_hand(Kind::Format(format::POSITIVE_DURATION)).absent("`tracker.keep.failed`"),
    }
}
