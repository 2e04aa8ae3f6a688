//! Settings of the server: listeners, limits, logs.

use super::policy::Rate;
use super::tls::{ClientCertificates, Tls};
use ipnet::IpNet;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// A socket that accepts client connections.
#[derive(Debug)]
pub struct Listener {
    /// Address; with port 0 the system assigns a free port.
    pub addr: SocketAddr,
    /// TLS, or plain HTTP if absent.
    pub tls: Option<Tls>,
    /// Client certificates; not requested if absent.
    pub clients: Option<ClientCertificates>,
    /// Peers whose `trust_headers` are used.
    pub trust: Vec<IpNet>,
    /// Names in lower case of `Forwarded`, `X-Forwarded-*` and `weir-*`; a final `*` matches any
    /// suffix. Other headers with such names are removed, from any peer.
    pub trust_headers: Vec<String>,
    /// Networks whose connections begin with a PROXY protocol header, version 1 or 2; other
    /// connections are closed. `None`: no such header.
    pub proxy_protocol: Option<Vec<IpNet>>,
}

/// The admin listener.
#[derive(Clone, Debug)]
pub struct Admin {
    /// Address; loopback by default (`127.0.0.1:9080`).
    pub addr: SocketAddr,
    /// Accepted Host names in addition to loopback names and the address itself (against DNS
    /// rebinding). Lower case, without port.
    pub hosts: Vec<String>,
    /// TLS, or plain HTTP if absent.
    pub tls: Option<Tls>,
}

/// Limits on clients; all have a default and none can be turned off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Maximum request head in bytes, including the request line.
    pub header_bytes: usize,
    /// Maximum number of header fields.
    pub headers: usize,
    /// Maximum request target in bytes; otherwise 414.
    pub url: usize,
    /// Maximum request body in bytes; APIs and routes can override it.
    pub body: u64,
    /// Maximum number of open connections, for all workers; further ones are closed at once.
    pub connections: usize,
    /// Time for a complete request head from its first byte; also for the TLS handshake and the
    /// PROXY protocol header.
    pub header_time: Duration,
    /// Idle time of a keep-alive connection, and time without progress of a body in either
    /// direction.
    pub idle: Duration,
    /// Time from the end of the request head to the last byte of the response; APIs and routes can
    /// override it.
    pub request: Option<Duration>,
    /// Maximum number of concurrent streams of an HTTP/2 connection.
    pub http2_streams: u32,
    /// Rate limit of failed authentications per address (IPv6: per /64); `None`: no limit.
    pub failed_authentication: Option<Rate>,
}

/// Graceful shutdown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Drain {
    /// Time for which listeners still accept connections after readiness has failed.
    pub delay: Duration,
    /// Time after `delay` at which requests in flight are aborted.
    pub deadline: Duration,
}

/// Access log: one line per request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessLog {
    /// `None`: off.
    pub format: Option<LogFormat>,
    /// Destination.
    pub target: LogTarget,
}

/// Format of a log line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// Text.
    Text,
    /// A JSON object.
    Json,
}

/// Destination of log lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogTarget {
    /// Standard error.
    Stderr,
    /// A file, appended to, reopened on SIGUSR1.
    File(PathBuf),
}
