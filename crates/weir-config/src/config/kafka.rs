//! Kafka as a sink of transactions.

use super::tls::{UPSTREAM_TLS, UpstreamTls};
use std::fmt;
use strum::{EnumString, VariantNames};
use weir_document::settings;
use weir_document::shape::Kind;
use weir_model::search_sink::Content;

settings! {
    /// A topic of Kafka (version 2.1 or later). Messages are CloudEvents with the id of the
    /// transaction as key; each is sent at least once and acknowledged by all replicas in sync.
    pub(crate) static KAFKA is "the Kafka cluster" {
        /// Brokers that name all others: `HOST:PORT`.
        brokers = by_hand(Kind::OneOrMany(&Kind::Text)).required(),
        /// Name of the topic; weir does not create it.
        topic = by_hand(Kind::Text).required(),
        /// User with the permission `Write` for the topic.
        auth = by_hand(Kind::Object(KafkaAuthKeys::SHAPE)).absent("none"),
        /// TLS; always used for hosts other than this machine, unless `plain` is set.
        tls = by_hand(Kind::Object(&UPSTREAM_TLS)),
        /// Allow unencrypted connections to other machines.
        plain = by_hand(Kind::Bool).default("false"),
    },
    misspellings: &[
        ("broker", "write `brokers`"),
        ("bootstrap", "write `brokers: [\"HOST:9092\"]`"),
        ("servers", "write `brokers: [\"HOST:9092\"]`"),
        ("sasl", "write `auth: {user: NAME, password: \"file:PASSWORD_FILE\"}`"),
        ("insecure", "write `plain`"),
    ],
}

settings! {
    /// A user of Kafka.
    pub(crate) struct KafkaAuthKeys is "a user of Kafka" {
        /// SASL mechanism; `plain` sends the password itself.
        pub(crate) mechanism: KafkaMechanism = choice().default("scram-sha-512"),
        /// Name of the user.
        user = by_hand(Kind::Text).required(),
        /// Password.
        password = by_hand(Kind::Secret).required(),
    }
}

/// How a user of Kafka authenticates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumString, VariantNames)]
pub enum KafkaMechanism {
    /// SCRAM with SHA-512.
    #[strum(serialize = "scram-sha-512")]
    ScramSha512,
    /// SCRAM with SHA-256.
    #[strum(serialize = "scram-sha-256")]
    ScramSha256,
    /// The password itself.
    #[strum(serialize = "plain")]
    Plain,
}

/// A topic of Kafka as a sink of transactions.
#[derive(Clone, Debug)]
pub struct KafkaSink {
    /// Name, a part of the name of its follower of the journal: 1 to 32 lower-case letters, digits and
    /// hyphens.
    pub name: String,
    /// What it receives.
    pub content: Content,
    /// Share of the disk of the journal that may hold transactions for this sink, in hundredths of a
    /// percent.
    pub max_backlog: u32,
    /// Brokers that name all others; not empty.
    pub brokers: Vec<KafkaBroker>,
    /// Name of the topic.
    pub topic: String,
    /// The user; `None`: none.
    pub auth: Option<KafkaAuth>,
    /// TLS; `None`: connections are not encrypted.
    pub tls: Option<UpstreamTls>,
}

/// Address of a broker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KafkaBroker {
    /// Host name or address; an IPv6 address without brackets.
    pub host: String,
    /// Port.
    pub port: u16,
}

/// A user of Kafka.
#[derive(Clone)]
pub struct KafkaAuth {
    /// SASL mechanism.
    pub mechanism: KafkaMechanism,
    /// Name.
    pub user: String,
    /// Password.
    pub password: String,
}

impl fmt::Debug for KafkaAuth {
    /// Does not print the password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { mechanism, user, .. } = self;
        let mut shown = f.debug_struct("KafkaAuth");
        shown.field("mechanism", mechanism).field("user", user).finish_non_exhaustive()
    }
}
