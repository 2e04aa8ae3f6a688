//! Listeners, admin, limits, drain, log.

use super::root::DATA;
use super::{Fields, Resolver, place, plan};
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
    size("header_bytes", "Largest request head, request line included.").default("32KiB");
const HEADERS: Defaulted<usize> =
    integer("headers", (1, 256), "Most header fields.").default("100");
const URL: Defaulted<usize> = size("url", "Longest request target.").default("8KiB");
const BODY: Defaulted<u64> =
    size("body", "Largest request body; APIs and routes may say otherwise.").default("10MiB");
const CONNECTIONS: Defaulted<usize> =
    integer("connections", (1, 10_000_000), "Connections open at once, all workers together.")
        .default("20000");
const HEADER_TIME: Defaulted<Duration> =
    positive("header_time", "Time for a request head to arrive whole, also for the TLS handshake.")
        .default("10s");
const IDLE: Defaulted<Duration> = positive(
    "idle",
    "How long a keep-alive connection may be idle and a body may make no progress.",
)
.default("60s");
const REQUEST: Defaulted<Option<Duration>> = time_limit("request", "Time from the end of the request head to the last byte of the answer; APIs and routes may say otherwise.").default("5m");
const HTTP2_STREAMS: Defaulted<u32> =
    integer("http2_streams", (1, 10_000), "Streams open at once on one HTTP/2 connection.")
        .default("100");

const FAILURES: Kind = Kind::Either(&[
    Kind::Enum(&["none"]),
    Kind::Format(format::RATE),
    Kind::Object(&FAILED_AUTHENTICATION),
]);
/// `none` is no limit.
const FAILED_AUTHENTICATIONS: Defaulted<Option<Rate>> = Typed::new(
    Key::new("failed_authentication", FAILURES, "Failed authentications from one client address, IPv6 by /64. Beyond it, tokens from there that are not known are answered with 429 and `Retry-After`, before a signature is verified or an authorization server asked. What succeeds is not limited; `none` turns it off."),
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
    "Bounds on clients. Every one has a default and none can be switched off.",
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

/// `failed_authentication` written out.
pub(super) static FAILED_AUTHENTICATION: Shape = Shape::new(
    "the limit of failed authentications",
    "In no interval t do more than burst + rate·t credentials fail before others are no longer verified.",
    &[
        Key::new("rate", Kind::Format(format::RATE), "Failures in a time.").required(),
        Key::new("burst", Kind::Integer(1, 1_000_000_000), "How many at once.")
            .absent("the failures of `rate`"),
    ],
);

const DRAIN_DELAY: Defaulted<Duration> =
    duration("delay", "How long listeners still accept after readiness has failed.").default("0s");
const DRAIN_DEADLINE: Defaulted<Duration> =
    duration("deadline", "When what is still in flight after the delay is cut off.").default("30s");

/// `drain`.
pub(super) static DRAIN: Shape =
    Shape::new("the drain", "How a stop by SIGTERM goes.", &[DRAIN_DELAY.key, DRAIN_DEADLINE.key]);

const LOG_ACCESS: Defaulted<Option<LogFormat>> = Typed::new(
    Key::new("access", Kind::Enum(&["off", "text", "json"]), "One line a request."),
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
    "`stderr`, or a file (relative to this one) that is appended to and reopened on SIGUSR1.",
)
.default("stderr");

/// `log`.
pub(super) static LOG: Shape = Shape::new("the log", "Logs.", &[LOG_ACCESS.key, LOG_TO.key]);

/// Threads that serve requests: as written, or one a core.
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
                LogTarget::File(self.place_of(&self.path_of(node)))
            }
            _ => LogTarget::Stderr,
        };
        AccessLog { format: fields.read(&LOG_ACCESS), target }
    }

    pub(super) fn data(&mut self, root: &Fields<'_>) -> PathBuf {
        let file = root.get("data").unwrap_or(root.node()).at.file;
        self.place_of(&self.draft.texts.resolve(file, &root.read(&DATA)))
    }

    /// A path as the rest of weir and programs get it; without a look at the file system if that
    /// is not to be touched.
    pub(super) fn place_of(&self, path: &Path) -> PathBuf {
        if self.draft.sealed { place::lexical(path) } else { place::absolute(path) }
    }

    /// The path a node says, from the folder of the file it is written in.
    pub(super) fn path_of(&self, node: &Node) -> PathBuf {
        self.draft.texts.resolve(node.at.file, node.text().unwrap_or_default())
    }
}
