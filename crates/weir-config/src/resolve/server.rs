//! Listeners, admin, limits, drain, log.

use super::root::DATA;
use super::{Fields, Resolver, absolute_path, plan};
use crate::config::{AccessLog, Drain, Limits, LogFormat, LogTarget, Rate};
use std::path::{Path, PathBuf};
use std::time::Duration;
use weir_document::draft::Node;
use weir_document::finding::codes;
use weir_document::shape::typed::{
    Defaulted, Typed, duration, integer, positive, size, text, time_limit,
};
use weir_document::shape::{Key, Kind, Shape, format};
use weir_document::units;

const HEADER_BYTES: Defaulted<usize> =
    size("header_bytes", "Maximum size of a request head, including the request line.")
        .default("32KiB");
const HEADERS: Defaulted<usize> =
    integer("headers", (1, 256), "Maximum number of header fields.").default("100");
const URL: Defaulted<usize> = size("url", "Maximum length of the request target.").default("8KiB");
const BODY: Defaulted<u64> =
    size("body", "Maximum size of a request body; APIs and routes can override it.")
        .default("10MiB");
const CONNECTIONS: Defaulted<usize> = integer(
    "connections",
    (1, 10_000_000),
    "Maximum number of open client connections, for all workers.",
)
.default("20000");
const HEADER_TIME: Defaulted<Duration> = positive(
    "header_time",
    "Time for the complete request head to arrive, and for the TLS handshake.",
)
.default("10s");
const IDLE: Defaulted<Duration> =
    positive("idle", "Idle time of a keep-alive connection, and time without progress of a body.")
        .default("60s");
const REQUEST: Defaulted<Option<Duration>> = time_limit("request", "Time from the end of the request head to the last byte of the response; APIs and routes can override it.").default("5m");
const HTTP2_STREAMS: Defaulted<u32> = integer(
    "http2_streams",
    (1, 10_000),
    "Maximum number of concurrent streams of an HTTP/2 connection.",
)
.default("100");

const FAILURES: Kind = Kind::Either(&[
    Kind::Enum(&["none"]),
    Kind::Format(format::RATE),
    Kind::Object(&FAILED_AUTHENTICATION),
]);
/// `none` means no limit.
const FAILED_AUTHENTICATIONS: Defaulted<Option<Rate>> = Typed::new(
    Key::new("failed_authentication", FAILURES, "Rate limit of failed authentications per client address (IPv6: per /64). Above it, unknown tokens from the address get a 429 with `Retry-After`, before a signature is verified or an authorization server is queried. Successful authentications are not limited; `none` turns the limit off."),
    |node| match node.text() {
        Some("none") => Some(None),
        Some(text) => {
            let (requests, per) = units::rate(text).ok()?;
            Some(Some(Rate { requests, per, burst: requests }))
        }
        None => plan::rate(&Fields::new(node, &FAILED_AUTHENTICATION)).map(Some),
    },
)
.default("{rate: 10/s, burst: 100}");

/// `limits` of the server.
pub(super) static LIMITS: Shape = Shape::new(
    "the limits",
    "Limits on clients. All have a default and none can be turned off.",
    &[
        HEADER_BYTES.key,
        HEADERS.key,
        URL.key,
        BODY.key,
        CONNECTIONS.key,
        HEADER_TIME.key,
        IDLE.key,
        REQUEST.key,
        HTTP2_STREAMS.key,
        FAILED_AUTHENTICATIONS.key,
    ],
);

/// `failed_authentication` as a mapping.
pub(super) static FAILED_AUTHENTICATION: Shape = Shape::new(
    "the failed-authentication limit",
    "Token bucket: in any interval t, credentials are verified until burst + rate·t have failed.",
    &[
        Key::new("rate", Kind::Format(format::RATE), "Failures per unit of time.").required(),
        Key::new("burst", Kind::Integer(1, 1_000_000_000), "Failures at once.")
            .absent("the failures of `rate`"),
    ],
);

const DRAIN_DELAY: Defaulted<Duration> = duration(
    "delay",
    "Time for which listeners still accept connections after readiness has failed.",
)
.default("0s");
const DRAIN_DEADLINE: Defaulted<Duration> =
    duration("deadline", "Time after the delay at which requests in flight are aborted.")
        .default("30s");

/// `drain`.
pub(super) static DRAIN: Shape = Shape::new(
    "the graceful shutdown",
    "Graceful shutdown (drain) on SIGTERM.",
    &[DRAIN_DELAY.key, DRAIN_DEADLINE.key],
);

const LOG_ACCESS: Defaulted<Option<LogFormat>> = Typed::new(
    Key::new("access", Kind::Enum(&["off", "text", "json"]), "Access log: one line per request."),
    |node| match node.text()? {
        "off" => Some(None),
        "text" => Some(Some(LogFormat::Text)),
        "json" => Some(Some(LogFormat::Json)),
        _ => None,
    },
)
.default("off");
const LOG_TO: Defaulted<String> = text(
    "to",
    Kind::Text,
    "`stderr`, or a file relative to this one. The file is appended to, and reopened on SIGUSR1.",
)
.default("stderr");

/// `log`.
pub(super) static LOG: Shape = Shape::new("the log", "Access log.", &[LOG_ACCESS.key, LOG_TO.key]);

/// Number of worker threads: as written, or one per core.
pub(super) fn workers(root: &Fields<'_>) -> usize {
    root.integer("workers").and_then(|n| usize::try_from(n).ok()).unwrap_or_else(|| {
        std::thread::available_parallelism().map_or(1, std::num::NonZeroUsize::get)
    })
}

impl Resolver<'_> {
    pub(super) fn limits(&mut self, root: &Fields<'_>) -> Limits {
        let fields = root.object_or_empty("limits", &LIMITS);
        let limits = Limits {
            header_bytes: fields.read(&HEADER_BYTES),
            headers: fields.read(&HEADERS),
            url: fields.read(&URL),
            body: fields.read(&BODY),
            connections: fields.read(&CONNECTIONS),
            header_time: fields.read(&HEADER_TIME),
            idle: fields.read(&IDLE),
            request: fields.read(&REQUEST),
            http2_streams: fields.read(&HTTP2_STREAMS),
            failed_authentication: fields.read(&FAILED_AUTHENTICATIONS),
        };
        for (key, value, least, most) in [
            ("header_bytes", limits.header_bytes, 1024, 1024 * 1024),
            ("url", limits.url, 256, limits.header_bytes),
        ] {
            if !(least..=most).contains(&value)
                && let Some(node) = fields.get(key)
            {
                self.report
                    .error(codes::BAD_VALUE, node.at, format!("`{key}` is out of range"))
                    .help(match key {
                        "url" => "at least 256B and at most `header_bytes`",
                        _ => "from 1KiB to 1MiB",
                    });
            }
        }
        limits
    }

    pub(super) fn drain(&mut self, root: &Fields<'_>) -> Drain {
        let fields = root.object_or_empty("drain", &DRAIN);
        Drain { delay: fields.read(&DRAIN_DELAY), deadline: fields.read(&DRAIN_DEADLINE) }
    }

    pub(super) fn access_log(&mut self, root: &Fields<'_>) -> AccessLog {
        let fields = root.object_or_empty("log", &LOG);
        let target = match fields.get("to") {
            Some(node) if node.text() != Some("stderr") => {
                LogTarget::File(self.absolute_path(&self.path_of(node)))
            }
            _ => LogTarget::Stderr,
        };
        AccessLog { format: fields.read(&LOG_ACCESS), target }
    }

    pub(super) fn data(&mut self, root: &Fields<'_>) -> PathBuf {
        let file = root.get("data").unwrap_or(root.node()).at.file;
        self.absolute_path(&self.draft.texts.resolve(file, &root.read(&DATA)))
    }

    /// An absolute path, as used by weir and by programs; of a sealed draft without access to the
    /// file system.
    pub(super) fn absolute_path(&self, path: &Path) -> PathBuf {
        if self.draft.sealed { absolute_path::lexical(path) } else { absolute_path::absolute(path) }
    }

    /// The path of a node, relative to the folder of its file.
    pub(super) fn path_of(&self, node: &Node) -> PathBuf {
        self.draft.texts.resolve(node.at.file, node.text().unwrap_or_default())
    }
}
