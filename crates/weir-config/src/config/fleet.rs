//! The fleet: several nodes with shared state.

use super::tls::{ClientCertificates, UPSTREAM_TLS, UpstreamTls};
use std::time::Duration;
use strum::{EnumString, VariantNames};
use weir_document::settings;
use weir_document::shape::{Kind, format};

settings! {
    /// Several nodes with shared state in PostgreSQL. A node serves, records and counts on its own
    /// while PostgreSQL is down. Without this key there is a single node.
    #[derive(Clone, Debug)]
    pub struct Fleet is "the fleet" {
        /// Name of the fleet. A database has the state of one fleet.
        pub name: String = text(Kind::Format(format::NAME)).default("weir"),
        /// Display name of this node, for example `"${env:HOSTNAME}"`. Its identity is the file
        /// `node.id` in the data folder.
        pub node: Option<String> = text(Kind::Format(format::NAME)).absent("the host name"),
        /// Quotas of the fleet.
        pub quotas: FleetQuotas = section(),
        /// Rates of the fleet.
        pub rates: FleetRates = section(),
        /// The configuration of the nodes: own files, or versions of the fleet.
        pub config: FleetConfig = section(),
        /// Secret of at least 32 bytes that all nodes of the fleet have, for example the output of
        /// `openssl rand -base64 32`. Nodes sign their requests to each other with it.
        key = by_hand(Kind::Secret).absent("nodes do not query each other"),
        /// URL at which other nodes reach the admin listener of this node:
        /// `https://10.0.0.7:9080`. Its host is accepted as by `admin.hosts`.
        advertise = by_hand(Kind::Text),
        /// TLS of requests to other nodes. With `ca`, `cert` and `key` it is mutual: the admin listener
        /// rejects requests of nodes without a certificate of this authority.
        tls = by_hand(Kind::Object(&UPSTREAM_TLS)),
        /// Allow `advertise` to be an `http` URL of another machine. Requests between nodes are
        /// signed, but not encrypted then.
        plain = by_hand(Kind::Bool).default("false"),
        /// The database with the shared state.
        postgres = by_hand(Kind::Object(&POSTGRES)).required(),
        /// The Redis that grants tokens of rates, with `rates: {mode: redis}`.
        redis = by_hand(Kind::Object(&REDIS)).absent("none"),
    } given {
        /// The database with the shared state.
        pub postgres: Postgres,
        /// How nodes query each other; `None`: they do not.
        pub peers: Option<Peers>,
        /// The Redis that grants tokens of rates.
        pub redis: Option<Redis>,
    },
    misspellings: &[
        ("secret", "write `key: \"file:fleet.key\"`"),
        ("insecure", "write `plain`"),
        ("database", "write `postgres: {url: \"postgres://weir@HOST/weir\"}`"),
        ("url", "write `postgres: {url: \"postgres://weir@HOST/weir\"}`"),
    ],
}

settings! {
    /// Quotas of the fleet. Nodes lease slices of each quota from the database, so that all together
    /// admit no call beyond the quota.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct FleetQuotas is "the quotas of the fleet" {
        /// Calls beyond the slices of a node while the database cannot be reached: `allow` up to the
        /// overdraft, or `deny`.
        pub on_outage: QuotaOutage = choice().default("allow"),
        /// Share of a quota that all nodes together may admit beyond it during an outage; each node
        /// has an equal part.
        // In hundredths of a percent.
        pub overdraft: u32 = percent().default("5%"),
    }
}

settings! {
    /// The configuration of the nodes.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct FleetConfig is "the configuration of the nodes" {
        /// `files`: each node has all its files. `fleet`: sections that are not in the own file of a
        /// node are in the version of the fleet that `weir push` and `weir rollout` set.
        pub source: ConfigSource = choice().default("files"),
        /// Shortest time of a stage of a rollout, and the time after which a version of a node is its
        /// last good one.
        pub stage: Duration = positive().default("2m"),
    }
}

/// Where the sections come from that are not in the own file of a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, EnumString, VariantNames)]
#[strum(serialize_all = "lowercase")]
pub enum ConfigSource {
    /// There are none.
    #[default]
    Files,
    /// The version of the fleet.
    Fleet,
}

/// Calls beyond the slices of a node while the database cannot be reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumString, VariantNames)]
#[strum(serialize_all = "lowercase")]
pub enum QuotaOutage {
    /// Up to the overdraft.
    Allow,
    /// None.
    Deny,
}

impl FleetQuotas {
    /// The overdraft of an outage, in hundredths of a percent of a quota.
    #[must_use]
    pub fn overdraft_in_outage(&self) -> u32 {
        match self.on_outage {
            QuotaOutage::Allow => self.overdraft,
            QuotaOutage::Deny => 0,
        }
    }
}

settings! {
    /// Rates of the fleet: how a rate with `scope: fleet` is enforced by several nodes.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct FleetRates is "the rates of the fleet" {
        /// `share`: each node enforces an equal share of a rate. `redis`: nodes lease tokens from Redis,
        /// for an uneven load. `local`: each node enforces the full rate by itself.
        pub mode: FleetRateMode = choice().default("share"),
        /// Validity of leased tokens, from 50ms to 10s: in no interval t the fleet admits more than
        /// burst + rate·(t + lease).
        pub lease: Duration = positive().default("200ms"),
        /// Longest wait of a request for tokens or for calls of a quota, at most 1s and shorter than
        /// `lease`.
        pub timeout: Duration = positive().default("20ms"),
        /// Rates while Redis cannot be reached: `share`, `deny` (503) or `allow`.
        pub on_outage: RateOutage = choice().default("share"),
    }
}

/// How several nodes enforce a rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumString, VariantNames)]
#[strum(serialize_all = "lowercase")]
pub enum FleetRateMode {
    /// Each enforces an equal share.
    Share,
    /// They lease tokens from Redis.
    Redis,
    /// Each enforces the full rate.
    Local,
}

/// Rates while Redis cannot be reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumString, VariantNames)]
#[strum(serialize_all = "lowercase")]
pub enum RateOutage {
    /// Each node enforces an equal share.
    Share,
    /// No request is admitted.
    Deny,
    /// Every request is admitted.
    Allow,
}

settings! {
    /// The PostgreSQL database (version 15 or later) with the shared state. The role needs no
    /// superuser rights: it creates the schema `weir` and owns it. PgBouncer in transaction mode is
    /// supported.
    pub(crate) static POSTGRES is "the PostgreSQL database" {
        /// `postgres://USER@HOST:PORT/DATABASE`; several with the same user and database are tried in
        /// order, and the first that accepts writes is used.
        url = by_hand(Kind::OneOrMany(&Kind::Text)).required(),
        /// Password of the user.
        password = by_hand(Kind::Secret).absent("none"),
        /// TLS; always used for hosts other than this machine, unless `plain` is set.
        tls = by_hand(Kind::Object(&UPSTREAM_TLS)),
        /// Allow unencrypted connections to other machines.
        plain = by_hand(Kind::Bool).default("false"),
    },
    short: Some("url"),
    misspellings: &[
        ("host", "write `url: \"postgres://weir@HOST/weir\"`"),
        ("user", "write `url: \"postgres://weir@HOST/weir\"`"),
        ("sslmode", "write `tls`, or `plain`"),
        ("insecure", "write `plain`"),
    ],
}

/// How nodes query each other.
#[derive(Clone)]
pub struct Peers {
    /// The shared secret, at least 32 bytes.
    pub key: String,
    /// Where other nodes reach the admin listener of this node.
    pub advertise: Advertise,
    /// TLS of requests to other nodes; `None` without `tls`, if the own URL is `http`.
    pub tls: Option<UpstreamTls>,
    /// Certificates that the admin listener verifies, if TLS between nodes is mutual.
    pub clients: Option<ClientCertificates>,
}

impl std::fmt::Debug for Peers {
    /// Does not print the key.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Peers").field("advertise", &self.advertise).finish_non_exhaustive()
    }
}

/// The URL of an admin listener: `http://HOST:PORT` or `https://HOST:PORT`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Advertise {
    /// The scheme is https.
    pub https: bool,
    /// Host name or address; an IPv6 address without brackets.
    pub host: String,
    /// Port.
    pub port: u16,
}

impl std::fmt::Display for Advertise {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { https, host, port } = self;
        let scheme = if *https { "https" } else { "http" };
        match host.contains(':') {
            true => write!(f, "{scheme}://[{host}]:{port}"),
            false => write!(f, "{scheme}://{host}:{port}"),
        }
    }
}

settings! {
    /// The Redis (version 7 or later) or Valkey that grants tokens of rates. Its loss costs a key one
    /// burst at most, so it needs no replica and no persistence.
    pub(crate) static REDIS is "the Redis server" {
        /// `redis://HOST:PORT/DATABASE`, or `rediss://…` for TLS.
        url = by_hand(Kind::Text).required(),
        /// User, with access to the keys `weir:*` and the commands `evalsha`, `script|load`, `time`,
        /// `get`, `set`, and `select` for another database than 0.
        user = by_hand(Kind::Text).absent("the default user"),
        /// Password of the user.
        password = by_hand(Kind::Secret).absent("none"),
        /// TLS; always used for hosts other than this machine, unless `plain` is set.
        tls = by_hand(Kind::Object(&UPSTREAM_TLS)),
        /// Allow unencrypted connections to other machines.
        plain = by_hand(Kind::Bool).default("false"),
    },
    short: Some("url"),
    misspellings: &[
        ("host", "write `url: \"redis://HOST:6379\"`"),
        ("username", "write `user`"),
        ("db", "write `url: \"redis://HOST:6379/DATABASE\"`"),
        ("insecure", "write `plain`"),
    ],
}

/// A PostgreSQL database.
#[derive(Clone)]
pub struct Postgres {
    /// Servers, to be tried in order; never empty.
    pub servers: Vec<PostgresServer>,
    /// Role.
    pub user: String,
    /// Name of the database.
    pub database: String,
    /// Password of the role.
    pub password: Option<String>,
    /// TLS; `None`: connections are not encrypted.
    pub tls: Option<UpstreamTls>,
}

/// A PostgreSQL server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PostgresServer {
    /// Host name or address.
    pub host: String,
    /// Port.
    pub port: u16,
}

impl Postgres {
    /// Role, servers and database for people; without the password.
    #[must_use]
    pub fn shown(&self) -> String {
        let servers = self.servers.iter().map(|server| format!("{}:{}", server.host, server.port));
        let servers = servers.collect::<Vec<_>>().join(",");
        format!("{}@{servers}/{}", self.user, self.database)
    }
}

impl std::fmt::Debug for Postgres {
    /// Does not print the password.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Postgres").field("at", &self.shown()).finish_non_exhaustive()
    }
}

/// A Redis server.
#[derive(Clone)]
pub struct Redis {
    /// Host name or address.
    pub host: String,
    /// Port.
    pub port: u16,
    /// Number of the database.
    pub database: u16,
    /// User; `None`: the default user.
    pub user: Option<String>,
    /// Password of the user.
    pub password: Option<String>,
    /// TLS; `None`: connections are not encrypted.
    pub tls: Option<UpstreamTls>,
}

impl Redis {
    /// Server and database for people; without user and password.
    #[must_use]
    pub fn shown(&self) -> String {
        format!("{}:{}/{}", self.host, self.port, self.database)
    }
}

impl std::fmt::Debug for Redis {
    /// Does not print the password.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Redis").field("at", &self.shown()).finish_non_exhaustive()
    }
}
