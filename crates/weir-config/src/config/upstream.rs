//! Upstreams: named sets of targets behind `proxy`.

use crate::expr::Expr;
use rustls::ClientConfig;
use rustls_pki_types::ServerName;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

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
    /// Time to connect, the TLS handshake included (default 2 s).
    pub connect_timeout: Duration,
    /// Time from the request's last byte to the first byte of the answer (`timeout`,
    /// default 30 s).
    pub timeout: Duration,
    /// How long a body may make no progress in either direction (default 60 s).
    pub idle_timeout: Duration,
    /// How often addresses of targets that have a name are asked for again (default 30 s).
    pub resolve: Duration,
    /// DNS server that services are asked of (`resolver`, default those of the system).
    pub resolver: Option<SocketAddr>,
    /// Most connections open at once to one target, all workers together (default 1024).
    pub connections: usize,
    /// Most idle connections kept to one target, all workers together (default 256).
    pub keep_alive: usize,
    /// How long an idle connection is kept (default 50 s).
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

/// One server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// `http` or `https`.
    pub scheme: Scheme,
    /// Host name or address, IPv6 without brackets; of a service its domain.
    pub host: String,
    /// Port, the scheme's default filled in; 0 for a service, whose records say it.
    pub port: u16,
    /// `host` or `host:port` as it goes into the Host header (brackets for IPv6, the scheme's
    /// default port left out).
    pub authority: String,
    /// Its part of the requests, beside the others' (default 1); 0: it gets none.
    pub weight: u32,
    /// The name whose SRV records (RFC 2782) say hosts and ports (`srv+http://…`).
    pub service: Option<String>,
}

impl Target {
    /// What it is known by: the name of the service, or host and port.
    pub fn name(&self) -> &str {
        self.service.as_deref().unwrap_or(&self.authority)
    }
}

/// Scheme of a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scheme {
    /// Plain HTTP/1.1.
    Http,
    /// HTTP/1.1 over TLS.
    Https,
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
    /// Failures in a row (refused, reset, timed out, garbage) that take a target out
    /// (default 3); 0 switches it off.
    pub failures: u32,
    /// The share of answers with 5xx that does, too (default none).
    pub errors: Option<ErrorShare>,
    /// How long what requests have revealed keeps it out before one request tries it again
    /// (default 10 s).
    pub pause: Duration,
    /// Requests of weir's own that ask how it is (default none).
    pub check: Option<Check>,
    /// Most targets that are out at once, in hundredths of a percent (default 10000).
    pub most_out: u32,
}

/// A share of answers with 5xx, of which too many take a target out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ErrorShare {
    /// In hundredths of a percent (default 5000).
    pub share: u32,
    /// Fewest answers that are a share (default 20).
    pub requests: u32,
    /// Time over which they are counted, from one count to the next (default 10 s).
    pub window: Duration,
}

/// A request that asks a target how it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// Path and query.
    pub path: String,
    /// From one to the next (default 5 s, at least 1 s).
    pub every: Duration,
    /// Time for all of it (default 1 s).
    pub timeout: Duration,
    /// So many good ones in a row bring a target back (default 2).
    pub healthy: u32,
    /// So many bad ones in a row take it out (default 3).
    pub unhealthy: u32,
    /// Statuses of a good answer; empty stands for 200 to 299.
    pub statuses: Vec<u16>,
}

/// How requests that failed are sent again. A request whose body is not at hand any more never is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Retries {
    /// Tries in all, the first among them (default 3, at least 2).
    pub tries: u32,
    /// Statuses after which there is another try (default 502, 503, 504); may be empty.
    pub statuses: Vec<u16>,
    /// Time of each try to the first byte of its answer, at most the `timeout` of the request.
    pub timeout: Option<Duration>,
    /// Most requests sent again, in hundredths of a percent of those of the last 10 s (default
    /// 2000).
    pub budget: u32,
    /// So many a second may be sent again whatever the share (default 3).
    pub minimum: u32,
    /// Longest pause before the second try; doubled for each further one, at most tenfold
    /// (default 25 ms).
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

/// TLS towards a target.
#[derive(Clone, Debug)]
pub struct UpstreamTls {
    /// Roots, client certificate, protocol versions; ALPN `http/1.1`.
    pub client: Arc<ClientConfig>,
    /// Name to verify and to send, instead of the target's host.
    pub server_name: Option<ServerName<'static>>,
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
