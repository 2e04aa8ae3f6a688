//! What takes targets out of service.

use super::{Fields, Resolver};
use crate::config::{Check, ErrorShare, Health};
use std::time::Duration;
use weir_document::finding::{Fault, codes};
use weir_document::shape::typed::{Defaulted, integer, percent, positive};
use weir_document::shape::{Key, Kind, Shape};

const FAILURES: Defaulted<u32> = integer("failures", (0, 1_000_000), "Failures in a row (no connection, closed, too late, no HTTP) that take a target out; 0 switches it off.").default("3");
const PAUSE: Defaulted<Duration> = positive(
    "pause",
    "How long failures and errors keep it out before one request tries it again.",
)
.default("10s");
const MOST_OUT: Defaulted<u32> =
    percent("most_out", "Most targets that are out at once, for whatever reason.").default("100%");

/// `health` of an upstream.
pub(super) static HEALTH: Shape = Shape::new(
    "the health of an upstream",
    "What takes targets out of service and brings them back. When all are out, requests go to all.",
    &[
        FAILURES.key,
        Key::new(
            "errors",
            Kind::Object(&ERROR_SHARE),
            "The share of answers with a status of 500 or above that takes a target out.",
        )
        .absent("not looked at"),
        PAUSE.key,
        Key::new(
            "check",
            Kind::Object(&CHECK),
            "Requests of weir's own that ask each target how it is.",
        )
        .absent("none are sent"),
        MOST_OUT.key,
    ],
);

const ERRORS_SHARE: Defaulted<u32> =
    percent("share", "From this share on a target is taken out.").default("50%");
const ERRORS_REQUESTS: Defaulted<u32> =
    integer("requests", (1, 1_000_000), "Fewest answers that are counted as a share.")
        .default("20");
const ERRORS_WINDOW: Defaulted<Duration> =
    positive("window", "How long is counted before a new count begins.").default("10s");

/// `errors` of a health.
pub(super) static ERROR_SHARE: Shape = Shape::new(
    "the share of errors",
    "Too many answers with a status of 500 or above.",
    &[ERRORS_SHARE.key, ERRORS_REQUESTS.key, ERRORS_WINDOW.key],
);

const CHECK_EVERY: Defaulted<Duration> =
    positive("every", "From one to the next, at least 1s.").default("5s");
const CHECK_TIMEOUT: Defaulted<Duration> = positive("timeout", "Time for all of it.").default("1s");
const CHECK_HEALTHY: Defaulted<u32> =
    integer("healthy", (1, 1_000_000), "So many good ones in a row bring a target back.")
        .default("2");
const CHECK_UNHEALTHY: Defaulted<u32> =
    integer("unhealthy", (1, 1_000_000), "So many bad ones in a row take it out.").default("3");

/// `check` of a health.
pub(super) static CHECK: Shape = Shape {
    slips: &[
        ("interval", "write `every`"),
        ("status", "write `statuses`"),
        ("rise", "write `healthy`"),
        ("fall", "write `unhealthy`"),
    ],
    ..Shape::new(
        "a health check",
        "A GET that asks a target how it is, over a connection of its own, from one worker of the process.",
        &[
            Key::new("path", Kind::Text, "Path and query that are asked for.").required(),
            CHECK_EVERY.key,
            CHECK_TIMEOUT.key,
            CHECK_HEALTHY.key,
            CHECK_UNHEALTHY.key,
            Key::new(
                "statuses",
                Kind::OneOrMany(&Kind::Integer(200, 599)),
                "Statuses of a good answer.",
            )
            .absent("200 to 299"),
        ],
    )
};

impl Resolver<'_> {
    /// `health` of an upstream with so many targets.
    pub(super) fn health(&mut self, upstream: &Fields<'_>, targets: usize) -> Health {
        let fields = upstream.object_or_empty("health", &HEALTH);
        let most_out = fields.read(&MOST_OUT);
        if let Some(node) = fields.get("most_out")
            && targets as u64 * u64::from(most_out) < 10_000
        {
            let message = "no target is ever ejected: the share is less than one target";
            self.report.warning(codes::UNUSED, node.at, message);
        }
        let errors = fields.object("errors", &ERROR_SHARE).map(|errors| ErrorShare {
            share: errors.read(&ERRORS_SHARE),
            requests: errors.read(&ERRORS_REQUESTS),
            window: errors.read(&ERRORS_WINDOW),
        });
        Health {
            failures: fields.read(&FAILURES),
            errors,
            pause: fields.read(&PAUSE),
            check: fields.object("check", &CHECK).and_then(|fields| self.health_check(&fields)),
            most_out,
        }
    }

    fn health_check(&mut self, fields: &Fields<'_>) -> Option<Check> {
        let node = fields.get("path")?;
        let path = node.text()?;
        if !path.starts_with('/') || !path.bytes().all(|b| b.is_ascii_graphic() && b != b'#') {
            let fault =
                Fault::value(format!("`{path}` is not a request path")).code(codes::BAD_PATH).help(
                    "begin with `/`, and percent-encode characters that are not allowed in URLs \
                     (`%20`)",
                );
            self.fault(node, fault);
            return None;
        }
        let every = fields.read(&CHECK_EVERY);
        if let Some(node) = fields.get("every").filter(|_| every < Duration::from_secs(1)) {
            self.fault(node, Fault::value("health checks run at most once a second"));
        }
        let statuses = fields.numbers("statuses").unwrap_or_default();
        Some(Check {
            path: path.to_owned(),
            every,
            timeout: fields.read(&CHECK_TIMEOUT),
            healthy: fields.read(&CHECK_HEALTHY),
            unhealthy: fields.read(&CHECK_UNHEALTHY),
            statuses,
        })
    }
}
