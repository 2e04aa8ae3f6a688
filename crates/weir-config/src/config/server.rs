//! Listeners, limits, logs: what holds for the whole server.

use super::policy::Rate;
use super::tls::{ClientCertificates, Tls};
use ipnet::IpNet;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// One socket that serves traffic.
#[derive(Debug)]
pub struct Listener {
    /// Address; port 0 takes a free one.
    pub addr: SocketAddr,
    /// TLS, or plain HTTP when absent.
    pub tls: Option<Tls>,
    /// Which certificates clients show; they are not asked for any when absent.
    pub clients: Option<ClientCertificates>,
    /// Peers whose request headers of `trust_headers` are believed.
    pub trust: Vec<IpNet>,
    /// Names in lower case of `Forwarded`, `X-Forwarded-*` and `weir-*`, those that end in `*`
    /// stand for all that begin so; the others are removed, whoever sends them.
    pub trust_headers: Vec<String>,
    /// Every connection starts with a PROXY protocol header, version 1 or 2, and comes from one of
    /// these networks; any other is closed. `None`: there is no such header.
    pub proxy_protocol: Option<Vec<IpNet>>,
}

/// The admin listener.
#[derive(Clone, Debug)]
pub struct Admin {
    /// Address; loopback by default (`127.0.0.1:9080`).
    pub addr: SocketAddr,
    /// Host names accepted in the Host header beside loopback names and the address itself
    /// (against DNS rebinding). Lower case, without port.
    pub hosts: Vec<String>,
    /// TLS, or plain HTTP when absent.
    pub tls: Option<Tls>,
}

/// Bounds on clients; every one has a default and none can be switched off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Largest request head in bytes, request line included.
    pub header_bytes: usize,
    /// Most header fields.
    pub headers: usize,
    /// Longest request target in bytes; longer is 414.
    pub url: usize,
    /// Largest request body in bytes; APIs and routes may say otherwise.
    pub body: u64,
    /// Connections open at once, all workers together; more are closed at once.
    pub connections: usize,
    /// Time for a request head to arrive whole once its first byte is there; the
    /// TLS handshake and the PROXY protocol header have the same.
    pub header_time: Duration,
    /// How long a keep-alive connection may be idle, and how long a body may make no progress in
    /// either direction.
    pub idle: Duration,
    /// Time from the end of the request head to the last byte of the answer;
    /// APIs and routes may say otherwise.
    pub request: Option<Duration>,
    /// Streams open at once on one HTTP/2 connection.
    pub http2_streams: u32,
    /// Failed authentications from one address, IPv6 by /64; `None`:
    /// any number.
    pub failed_authentication: Option<Rate>,
}

/// How a stop goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Drain {
    /// How long listeners still accept after readiness has failed.
    pub delay: Duration,
    /// When what is still in flight after `delay` is cut off.
    pub deadline: Duration,
}

/// Access log: one line a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessLog {
    /// `None`: off.
    pub format: Option<LogFormat>,
    /// Where it goes.
    pub target: LogTarget,
}

/// Shape of a log line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// One line of text.
    Text,
    /// One JSON object.
    Json,
}

/// Where log lines go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogTarget {
    /// Standard error.
    Stderr,
    /// A file, appended to, reopened on SIGUSR1.
    File(PathBuf),
}
