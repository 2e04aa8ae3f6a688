//! Health checks and ejection.

use super::{Fields, Resolver};
use crate::config::{Check, ErrorShare, Health};
use std::time::Duration;
use weir_document::finding::{Fault, codes};
use weir_document::shape::typed::{Defaulted, integer, percent, positive};
use weir_document::shape::{Key, Kind, Shape};

const FAILURES: Defaulted<u32> = integer("failures", (0, 1_000_000), "Passive health check: consecutive failures (no connection, closed connection, timeout, invalid HTTP) that eject a target; 0 turns it off.").default("3");
const PAUSE: Defaulted<Duration> = positive(
    "pause",
    "Ejection time after failures or a high error rate; then one request probes the target.",
)
.default("10s");
const MAX_EJECTED: Defaulted<u32> =
    percent("most_out", "Maximum share of ejected targets, whatever the reason.").default("100%");

/// `health` of an upstream.
pub(super) static HEALTH: Shape = Shape::new(
    "the health checks of an upstream",
    "Ejection of unhealthy targets from load balancing, and their return. If all targets are ejected, requests go to all.",
    &[
        FAILURES.key,
        Key::new(
            "errors",
            Kind::Object(&ERROR_SHARE),
            "Passive health check: error rate (responses with a status of 500 or above) that ejects a target.",
        )
        .absent("off"),
        PAUSE.key,
        Key::new(
            "check",
            Kind::Object(&CHECK),
            "Active health checks: requests of weir itself to each target.",
        )
        .absent("off"),
        MAX_EJECTED.key,
    ],
);

const ERRORS_SHARE: Defaulted<u32> =
    percent("share", "Error rate from which a target is ejected.").default("50%");
const ERRORS_REQUESTS: Defaulted<u32> =
    integer("requests", (1, 1_000_000), "Minimum number of responses for the rate to apply.")
        .default("20");
const ERRORS_WINDOW: Defaulted<Duration> =
    positive("window", "Window of the count; each window begins at zero.").default("10s");

/// `errors` of a health.
pub(super) static ERROR_SHARE: Shape = Shape::new(
    "the error-rate ejection",
    "Ejection by error rate: responses with a status of 500 or above.",
    &[ERRORS_SHARE.key, ERRORS_REQUESTS.key, ERRORS_WINDOW.key],
);

const CHECK_EVERY: Defaulted<Duration> =
    positive("every", "Interval between checks; minimum 1s.").default("5s");
const CHECK_TIMEOUT: Defaulted<Duration> =
    positive("timeout", "Time for the entire check.").default("1s");
const CHECK_HEALTHY: Defaulted<u32> = integer(
    "healthy",
    (1, 1_000_000),
    "Consecutive successful checks that return a target to service.",
)
.default("2");
const CHECK_UNHEALTHY: Defaulted<u32> =
    integer("unhealthy", (1, 1_000_000), "Consecutive failed checks that eject a target.")
        .default("3");

/// `check` of a health.
pub(super) static CHECK: Shape = Shape {
    misspellings: &[
        ("interval", "write `every`"),
        ("status", "write `statuses`"),
        ("rise", "write `healthy`"),
        ("fall", "write `unhealthy`"),
    ],
    ..Shape::new(
        "an active health check",
        "A GET to each target over a connection of its own, sent by one worker of the process.",
        &[
            Key::new("path", Kind::Text, "Path and query of the request.").required(),
            CHECK_EVERY.key,
            CHECK_TIMEOUT.key,
            CHECK_HEALTHY.key,
            CHECK_UNHEALTHY.key,
            Key::new(
                "statuses",
                Kind::OneOrMany(&Kind::Integer(200, 599)),
                "Statuses of a healthy target.",
            )
            .absent("200 to 299"),
        ],
    )
};

impl Resolver<'_> {
    /// `health` of an upstream with this number of targets.
    pub(super) fn health(&mut self, upstream: &Fields<'_>, targets: usize) -> Health {
        let fields = upstream.object_or_empty("health", &HEALTH);
        let max_ejected = fields.read(&MAX_EJECTED);
        if let Some(node) = fields.get("most_out")
            && targets as u64 * u64::from(max_ejected) < 10_000
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
            max_ejected,
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
