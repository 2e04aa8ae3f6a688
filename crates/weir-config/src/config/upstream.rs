//! Upstreams: named sets of targets behind `proxy`.

use super::tls::UpstreamTls;
use std::net::SocketAddr;
use std::time::Duration;
use weir_document::shape::format::Target;
use weir_expr::Expr;

/// A named set of targets that answer alike.
#[derive(Debug)]
pub struct Upstream {
    /// Name, the key under `upstreams`.
    pub name: String,
    /// Never empty; all `http` or all `https`.
    pub targets: Vec<Target>,
    /// What its targets speak.
    pub protocol: Protocol,
    /// How a target is chosen.
    pub balance: Balance,
    /// There with [`Balance::Hash`].
    pub hash: Option<HashKey>,
    /// Time to connect, the TLS handshake included.
    pub connect_timeout: Duration,
    /// Time from the request's last byte to the first byte of the answer (`timeout`,
    /// default 30 s).
    pub timeout: Duration,
    /// How long a body may make no progress in either direction.
    pub idle_timeout: Duration,
    /// How often addresses of targets that have a name are asked for again.
    pub resolve: Duration,
    /// DNS server that services are asked of (`resolver`, default those of the system).
    pub resolver: Option<SocketAddr>,
    /// Most connections open at once to one target, all workers together.
    pub connections: usize,
    /// Most idle connections kept to one target, all workers together.
    pub keep_alive: usize,
    /// How long an idle connection is kept.
    pub keep_alive_time: Duration,
    /// What takes targets out of service.
    pub health: Health,
    /// How requests are tried again (`retries`, default none).
    pub retries: Option<Retries>,
    /// TLS towards `https` targets; always present when the targets are `https`.
    pub tls: Option<UpstreamTls>,
    /// The credential that weir itself presents.
    pub credential: Option<Credential>,
    /// Request headers that are passed on although their name has an underscore, in lower case;
    /// `*` is all of them.
    pub underscores_in_headers: Vec<String>,
}

/// What targets speak.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// HTTP/1.1.
    Http1,
    /// HTTP/2, over TLS as agreed in the handshake, else with prior knowledge (RFC 9113 section
    /// 3.3).
    Http2,
}

/// How a target is chosen among the healthy ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Balance {
    /// One after the other.
    RoundRobin,
    /// Two at random, the one with fewer requests in flight.
    LeastBusy,
    /// By what requests are kept together by; one after the other where a request has none.
    Hash,
}

/// What requests are kept together by: those with the same go to the same target.
#[derive(Clone, Debug)]
pub enum HashKey {
    /// The client's address.
    Address,
    /// This request header's value, by its lower-case name.
    Header(String),
    /// What this expression gives (`request`, `claims`, `consumer` in scope).
    Expr(Expr),
}

/// What takes targets out of service and brings them back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Health {
    /// Failures in a row (refused, reset, timed out, garbage) that take a target out; 0 switches
    /// it off.
    pub failures: u32,
    /// The share of answers with 5xx that does, too (default none).
    pub errors: Option<ErrorShare>,
    /// How long what requests have revealed keeps it out before one request tries it again.
    pub pause: Duration,
    /// Requests of weir's own that ask how it is (default none).
    pub check: Option<Check>,
    /// Most targets that are out at once, in hundredths of a percent.
    pub most_out: u32,
}

/// A share of answers with 5xx, of which too many take a target out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ErrorShare {
    /// In hundredths of a percent.
    pub share: u32,
    /// Fewest answers that are a share.
    pub requests: u32,
    /// Time over which they are counted, from one count to the next.
    pub window: Duration,
}

/// A request that asks a target how it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// Path and query.
    pub path: String,
    /// From one to the next (at least 1 s).
    pub every: Duration,
    /// Time for all of it.
    pub timeout: Duration,
    /// So many good ones in a row bring a target back.
    pub healthy: u32,
    /// So many bad ones in a row take it out.
    pub unhealthy: u32,
    /// Statuses of a good answer; empty stands for 200 to 299.
    pub statuses: Vec<u16>,
}

/// How requests that failed are sent again. A request whose body is not at hand any more never is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Retries {
    /// Tries in all, the first among them (at least 2).
    pub tries: u32,
    /// Statuses after which there is another try; may be empty.
    pub statuses: Vec<u16>,
    /// Time of each try to the first byte of its answer, at most the `timeout` of the request.
    pub timeout: Option<Duration>,
    /// Most requests sent again, in hundredths of a percent of those of the last 10 s.
    pub budget: u32,
    /// So many a second may be sent again whatever the share.
    pub minimum: u32,
    /// Longest pause before the second try; doubled for each further one, at most tenfold.
    pub backoff: Duration,
    /// After how long without the head of an answer there is another try beside the first one
    /// (default: never).
    pub hedge: Option<Duration>,
    /// Whose requests may have been dealt with already and are sent again all the same.
    pub methods: RetriedMethods,
}

/// Methods of requests that may be dealt with twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetriedMethods {
    /// Those of which doing it twice is the same as once (RFC 9110 section 9.2.2).
    Idempotent,
    /// All.
    Any,
}

/// A header that carries weir's own credential to the upstream; replaces what the client sent.
#[derive(Clone, PartialEq, Eq)]
pub struct Credential {
    /// Lower-case header name (`authorization` for basic and bearer).
    pub header: String,
    /// Its whole value (`Basic …`, `Bearer …`, or as written).
    pub value: String,
}

impl std::fmt::Debug for Credential {
    /// Never the value: a credential has no place in logs.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Credential").field("header", &self.header).finish_non_exhaustive()
    }
}
