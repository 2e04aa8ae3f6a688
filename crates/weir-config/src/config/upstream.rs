//! Upstreams: named sets of targets behind `proxy`.

use super::tls::UpstreamTls;
use std::net::SocketAddr;
use std::time::Duration;
use weir_document::shape::format::Target;
use weir_expr::Expr;

/// A named set of equivalent targets.
#[derive(Debug)]
pub struct Upstream {
    /// Name, the key under `upstreams`.
    pub name: String,
    /// Never empty; all `http` or all `https`.
    pub targets: Vec<Target>,
    /// Protocol of the targets.
    pub protocol: Protocol,
    /// Load balancing method.
    pub balance: Balance,
    /// Hash key, present with [`Balance::Hash`].
    pub hash: Option<HashKey>,
    /// Time to connect, including the TLS handshake.
    pub connect_timeout: Duration,
    /// Time from the last byte of the request to the first byte of the response (`timeout`, default
    /// 30 s).
    pub timeout: Duration,
    /// Time without progress of a body in either direction.
    pub idle_timeout: Duration,
    /// Interval between DNS lookups of target names.
    pub resolve: Duration,
    /// DNS server for services (`resolver`; default: those of the system).
    pub resolver: Option<SocketAddr>,
    /// Maximum number of open connections per target, for all workers.
    pub connections: usize,
    /// Maximum number of idle connections per target, for all workers.
    pub keep_alive: usize,
    /// Time for which an idle connection is kept open.
    pub keep_alive_time: Duration,
    /// Health checks and ejection.
    pub health: Health,
    /// Retries (`retries`, default off).
    pub retries: Option<Retries>,
    /// TLS to `https` targets; always present if the targets are `https`.
    pub tls: Option<UpstreamTls>,
    /// Credential of weir at the upstream.
    pub credential: Option<Credential>,
    /// Request headers to forward although their name has an underscore, in lower case; `*` for
    /// all.
    pub underscores_in_headers: Vec<String>,
}

/// Protocol of targets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// HTTP/1.1.
    Http1,
    /// HTTP/2, over TLS negotiated by ALPN, otherwise with prior knowledge (RFC 9113 section 3.3).
    Http2,
}

/// Load balancing method over the healthy targets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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

/// Ejection of unhealthy targets, and their return.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Health {
    /// Consecutive failures (refused, reset, timed out, protocol error) that eject a target; 0
    /// turns it off.
    pub failures: u32,
    /// Error rate (status 5xx) that ejects a target (default off).
    pub errors: Option<ErrorShare>,
    /// Ejection time after failed requests, until one request probes the target.
    pub pause: Duration,
    /// Active health checks (default off).
    pub check: Option<Check>,
    /// Maximum share of ejected targets, in hundredths of a percent.
    pub max_ejected: u32,
}

/// Error rate (status 5xx) that ejects a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ErrorShare {
    /// In hundredths of a percent.
    pub share: u32,
    /// Minimum number of responses for the rate to apply.
    pub requests: u32,
    /// Window of the count.
    pub window: Duration,
}

/// An active health check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// Path and query.
    pub path: String,
    /// Interval between checks (at least 1 s).
    pub every: Duration,
    /// Time for the entire check.
    pub timeout: Duration,
    /// Consecutive successful checks that return a target to service.
    pub healthy: u32,
    /// Consecutive failed checks that eject a target.
    pub unhealthy: u32,
    /// Statuses of a healthy target; empty: 200 to 299.
    pub statuses: Vec<u16>,
}

/// Retries of failed requests. A request whose body is no longer buffered is not retried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Retries {
    /// Maximum number of attempts, including the first (at least 2).
    pub tries: u32,
    /// Statuses that are retried; may be empty.
    pub statuses: Vec<u16>,
    /// Timeout of an attempt to the first byte of the response, at most the `timeout` of the
    /// request.
    pub timeout: Option<Duration>,
    /// Retry budget in hundredths of a percent of the requests of the last 10 s.
    pub budget: u32,
    /// Retries per second that are permitted in addition to the budget.
    pub minimum: u32,
    /// Maximum delay before the second attempt; doubled for each further one, up to ten times the
    /// value.
    pub backoff: Duration,
    /// Hedging: time without a response head after which a second attempt is started (default:
    /// never).
    pub hedge: Option<Duration>,
    /// Requests that are retried although they may have been processed.
    pub methods: RetriedMethods,
}

/// Methods of requests that may be processed twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetriedMethods {
    /// Idempotent methods (RFC 9110 section 9.2.2).
    Idempotent,
    /// All.
    Any,
}

/// A header with weir's own credential at the upstream; replaces that of the client.
#[derive(Clone, PartialEq, Eq)]
pub struct Credential {
    /// Lower-case header name (`authorization` for basic and bearer).
    pub header: String,
    /// The entire value (`Basic …`, `Bearer …`, or as written).
    pub value: String,
}

impl std::fmt::Debug for Credential {
    /// Does not print the value, so that credentials do not appear in logs.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Credential").field("header", &self.header).finish_non_exhaustive()
    }
}
