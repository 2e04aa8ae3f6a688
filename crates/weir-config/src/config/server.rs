//! Settings of the server: limits, logs, graceful shutdown.

use super::policy::{Rate, RateScope};
use std::path::PathBuf;
use std::time::Duration;
use strum::{EnumString, VariantNames};
use weir_document::draft::Node;
use weir_document::settings;
use weir_document::shape::fields::Fields;
use weir_document::shape::{Kind, format};
use weir_document::units;

/// How workers wait for client and upstream connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, EnumString, VariantNames)]
#[strum(serialize_all = "lowercase")]
pub enum IoBackend {
    /// By io_uring where it is possible, otherwise by epoll.
    #[default]
    Auto,
    /// By epoll.
    Epoll,
    /// By io_uring; without it there is no start.
    Ring,
}

settings! {
    /// Limits on clients. All have a default and none can be turned off.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Limits is "the limits" {
        /// Maximum size of a request head, including the request line.
        pub header_bytes: usize = size().default("32KiB"),
        /// Maximum number of header fields.
        pub headers: usize = integer(1, 256).default("100"),
        /// Maximum length of the request target.
        pub url: usize = size().default("8KiB"),
        /// Maximum size of a request body; APIs and routes can override it.
        pub body: u64 = size().default("10MiB"),
        /// Maximum number of open client connections, for all workers.
        pub connections: usize = integer(1, 10_000_000).default("20000"),
        /// Time for the complete request head to arrive, and for the TLS handshake.
        pub header_time: Duration = positive().default("10s"),
        /// Idle time of a keep-alive connection, and time without progress of a body.
        pub idle: Duration = positive().default("60s"),
        /// Time from the end of the request head to the last byte of the response; APIs and routes
        /// can override it.
        pub request: Option<Duration> = time_limit().default("5m"),
        /// Maximum number of concurrent streams of an HTTP/2 connection.
        pub http2_streams: u32 = integer(1, 10_000).default("100"),
        /// Rate limit of failed authentications per client address (IPv6: per /64). Above it,
        /// unknown tokens from the address get a 429 with `Retry-After`, before a signature is
        /// verified or an authorization server is queried. Successful authentications are not
        /// limited; `none` turns the limit off. Each node of a fleet limits by itself.
        pub failed_authentication: Option<Rate> =
            value(FAILURES, failures).default("{rate: 10/s, burst: 100}"),
    }
}

const FAILURES: Kind = Kind::Either(&[
    Kind::Enum(&["none"]),
    Kind::Format(format::RATE),
    Kind::Object(&FAILED_AUTHENTICATION),
]);

settings! {
    /// Token bucket: in any interval t, credentials are verified until burst + rate·t have failed.
    static FAILED_AUTHENTICATION is "the failed-authentication limit" {
        /// Failures per unit of time.
        rate = by_hand(Kind::Format(format::RATE)).required(),
        /// Failures at once.
        burst = by_hand(Kind::Integer(1, 1_000_000_000)).absent("the failures of `rate`"),
    }
}

/// `none` means no limit.
fn failures(node: &Node) -> Option<Option<Rate>> {
    match node.text() {
        Some("none") => Some(None),
        Some(text) => {
            let (requests, per) = units::rate(text).ok()?;
            Some(Some(Rate { requests, per, burst: requests, scope: RateScope::Node }))
        }
        None => Rate::read(&Fields::new(node, &FAILED_AUTHENTICATION), RateScope::Node).map(Some),
    }
}

settings! {
    /// Graceful shutdown (drain) on SIGTERM.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Drain is "the graceful shutdown" {
        /// Time for which listeners still accept connections after readiness has failed.
        pub delay: Duration = duration().default("0s"),
        /// Time after the delay at which requests in flight are aborted.
        pub deadline: Duration = duration().default("30s"),
        /// After `weir upgrade`: time for requests in flight and upgraded connections of the old
        /// process.
        pub upgrade: Duration = duration().default("5m"),
    }
}

settings! {
    /// Access log.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct AccessLog is "the log" {
        /// Access log: one line per request.
        // `None`: off.
        pub format: Option<LogFormat> =
            value(Kind::Enum(&["off", "text", "json"]), log_format).name("access").default("off"),
        /// `stderr`, or a file relative to this one. The file is appended to, and reopened on
        /// SIGUSR1.
        pub target: LogTarget = by_hand(Kind::Text).name("to").default("stderr"),
    }
}

fn log_format(node: &Node) -> Option<Option<LogFormat>> {
    match node.text()? {
        "off" => Some(None),
        "text" => Some(Some(LogFormat::Text)),
        "json" => Some(Some(LogFormat::Json)),
        _ => None,
    }
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
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum LogTarget {
    /// Standard error.
    #[default]
    Stderr,
    /// A file, appended to, reopened on SIGUSR1.
    File(PathBuf),
}
