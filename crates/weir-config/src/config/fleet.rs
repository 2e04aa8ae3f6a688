//! The fleet: several nodes with shared state.

use super::tls::{UPSTREAM_TLS, UpstreamTls};
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
        /// Secret of at least 32 bytes that all nodes of the fleet have, for example the output of
        /// `openssl rand -base64 32`. Nodes sign their requests to each other with it.
        key = by_hand(Kind::Secret).absent("nodes do not query each other"),
        /// URL at which other nodes reach the admin listener of this node:
        /// `https://10.0.0.7:9080`. Its host is accepted as by `admin.hosts`.
        advertise = by_hand(Kind::Text),
        /// TLS of requests to other nodes.
        tls = by_hand(Kind::Object(&UPSTREAM_TLS)),
        /// Allow `advertise` to be an `http` URL of another machine. Requests between nodes are
        /// signed, but not encrypted then.
        plain = by_hand(Kind::Bool).default("false"),
        /// The database with the shared state.
        postgres = by_hand(Kind::Object(&POSTGRES)).required(),
    } given {
        /// The database with the shared state.
        pub postgres: Postgres,
        /// How nodes query each other; `None`: they do not.
        pub peers: Option<Peers>,
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
