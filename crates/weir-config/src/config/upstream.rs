//! Upstreams: named sets of targets behind `proxy`.

use super::credential::{CREDENTIAL, Credential};
use super::tls::{UPSTREAM_TLS, UpstreamTls};
use super::{Health, Retries};
use crate::formats;
use std::net::SocketAddr;
use std::time::Duration;
use strum::{EnumString, VariantNames};
use weir_document::settings;
use weir_document::shape::format::{self, Target};
use weir_document::shape::{Group, Kind};
use weir_expr::Expr;

settings! {
    /// A named set of equivalent targets.
    #[derive(Debug)]
    pub struct Upstream is "an upstream" {
        /// Servers, all `http://host:port` or all `https://host:port`; with a weight `{url: …,
        /// weight: 5}`. `unix:/run/app.sock` is a Unix domain socket, with plain HTTP and the host
        /// `localhost`. `srv+http://_api._tcp.example.com` is a service: its SRV records (RFC 2782)
        /// contain the hosts and ports.
        // Never empty.
        pub targets: Vec<Target> = by_hand(TARGETS).required(),
        /// Protocol of the targets: HTTP/1.1, or HTTP/2, which gRPC needs. HTTP/2 over `http` is
        /// h2c with prior knowledge; over `https` it is negotiated by ALPN.
        pub protocol: Protocol = choice().default("http1"),
        /// Load balancing method, over the healthy targets by weight: round robin, least
        /// connections of two random targets, or rendezvous hashing (`hash`).
        pub balance: Balance = choice().default("round-robin"),
        /// Hash key of `balance: hash` (sticky sessions): requests with the same value go to the
        /// same target while the target is in service, also if other targets change. Requests
        /// without a value are balanced round robin.
        // Present with `Balance::Hash`.
        pub hash: Option<HashKey> = by_hand(HASH_KEY),
        /// Time to connect, including the TLS handshake.
        pub connect_timeout: Duration = positive().default("2s"),
        /// Time from the last byte of the request to the first byte of the response.
        pub timeout: Duration = positive().default("30s"),
        /// Time without progress of a body in either direction.
        pub idle_timeout: Duration = positive().default("60s"),
        /// Interval between DNS lookups of target names; minimum 1s. The last addresses stay in use
        /// during a lookup and while lookups fail.
        pub resolve: Duration = positive().default("30s"),
        /// DNS server for services and their hosts: `127.0.0.1:8600`.
        pub resolver: Option<SocketAddr> =
            by_hand(Kind::Format(format::ADDRESS)).absent("those of the system"),
        /// Maximum number of open connections per target, for all workers.
        pub connections: usize = integer(1, 1_000_000).default("1024"),
        /// Maximum number of idle connections per target, for all workers.
        pub keep_alive: usize = integer(0, 1_000_000).default("256"),
        /// Time for which an idle connection is kept open.
        pub keep_alive_time: Duration = positive().default("50s"),
        /// Health checks and ejection of targets.
        pub health: Health = by_hand(Kind::Object(Health::SHAPE)),
        /// Retries of failed requests, to another target if there is one.
        pub retries: Option<Retries> = by_hand(Kind::Object(Retries::SHAPE)).absent("off"),
        /// TLS to `https` targets.
        // Always present if the targets are `https`.
        pub tls: Option<UpstreamTls> = by_hand(Kind::Object(&UPSTREAM_TLS)),
        /// Credential of weir at the upstream; it replaces that of the client.
        pub credential: Option<Credential> = by_hand(Kind::Object(&CREDENTIAL)).name("auth"),
        /// Request headers to forward although their name has an underscore or a dot; `"*"` for
        /// all. CGI, WSGI and similar programs cannot distinguish `X_User` (PHP: also `X.User`)
        /// from `X-User`, which header edits may remove.
        // In lower case.
        pub underscores_in_headers: Vec<String> =
            names(Kind::OneOrMany(&Kind::Format(format::HEADER))).absent("none"),
    } given {
        /// Name, the key under `upstreams`.
        pub name: String,
    },
    short: Some("targets"),
    misspellings: &[
        ("url", "write `targets: [\"http://…\"]`"),
        ("target", "write `targets: [\"http://…\"]`"),
        ("grpc", "write `protocol: http2`: gRPC is HTTP/2"),
        ("http2", "write `protocol: http2`"),
        ("servers", "write `targets: [\"http://…\"]`"),
        ("hosts", "write `targets: [\"http://…\"]`"),
    ],
}

const TARGETS: Kind =
    Kind::List(&Kind::Either(&[Kind::Format(format::TARGET), Kind::Object(WeightedTarget::SHAPE)]));

settings! {
    /// A server and its weight.
    pub(crate) struct WeightedTarget is "a weighted target" {
        /// `http://host:port` or `https://host:port`.
        url = by_hand(Kind::Format(format::TARGET)).required(),
        /// Relative weight of the target; 0 takes no requests.
        pub(crate) weight: u32 = integer(0, 1_000_000).default("1"),
    },
    misspellings: &[
        ("target", "write `url`"),
        ("share", "write `weight`, relative to those of the other targets"),
    ],
}

/// A hash key of requests.
pub(crate) const HASH_KEY: Kind = Kind::Either(&[Kind::Enum(&["address"]), Kind::Object(&HASH)]);

settings! {
    /// Hash key (sticky sessions): exactly one of these.
    pub(crate) static HASH is "the hash key of an upstream" {
        /// Value of this request header.
        header = by_hand(Kind::Format(format::HEADER)),
        /// Result of this expression: CEL over `request`, `claims` and `consumer`.
        cel = by_hand(Kind::Format(formats::CEL)),
    },
    groups: &[Group { keys: &["header", "cel"], required: true }],
}

/// Protocol of targets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumString, VariantNames)]
#[strum(serialize_all = "lowercase")]
pub enum Protocol {
    /// HTTP/1.1.
    Http1,
    /// HTTP/2, over TLS negotiated by ALPN, otherwise with prior knowledge (RFC 9113 section 3.3).
    Http2,
}

/// Load balancing method over the healthy targets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumString, VariantNames)]
#[strum(serialize_all = "kebab-case")]
pub enum Balance {
    /// Round robin.
    RoundRobin,
    /// Least connections: of two random targets, the one with fewer requests in flight.
    LeastBusy,
    /// By hash key; round robin for requests without one.
    Hash,
}

/// Hash key (sticky sessions): requests with the same key go to the same target.
#[derive(Clone, Debug)]
pub enum HashKey {
    /// The client's address.
    Address,
    /// The value of this request header (lower-case name).
    Header(String),
    /// The result of this expression (`request`, `claims`, `consumer` in scope).
    Expr(Expr),
}
