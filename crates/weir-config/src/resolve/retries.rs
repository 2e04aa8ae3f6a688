//! Retries, hedging.

use super::{Fields, Resolver};
use crate::config::{RetriedMethods, Retries};
use std::time::Duration;
use weir_document::finding::codes;
use weir_document::shape::typed::{
    Defaulted, Typed, choice, duration, integer, integers_of, percent,
};
use weir_document::shape::{Key, Kind, Shape, format};
use weir_model::Choice;

const TRIES: Defaulted<u32> =
    integer("tries", (2, 10), "Maximum number of attempts, including the first.").default("3");
const BUDGET: Defaulted<u32> =
    percent("budget", "Retry budget: retries permitted as a share of the requests of the last 10 s, in addition to `minimum`.")
        .default("20%");
const MINIMUM: Defaulted<u32> = integer(
    "minimum",
    (0, 1_000_000),
    "Retries per second that are permitted in addition to `budget`, averaged over 10 s.",
)
.default("3");
const BACKOFF: Defaulted<Duration> = duration("backoff", "Maximum delay before the second attempt; doubled for each further attempt, up to ten times the value. The actual delay is random (full jitter).").default("25ms");
const METHODS: Defaulted<RetriedMethods> = choice("methods", "Requests that are retried although the upstream may have processed them: only idempotent methods (GET, HEAD, PUT, DELETE, OPTIONS and TRACE), or all.").default("idempotent");

/// `none` means no status.
const STATUSES: Defaulted<Vec<u16>> = Typed::new(
    Key::new(
        "statuses",
        Kind::Either(&[Kind::Enum(&["none"]), Kind::OneOrMany(&Kind::Integer(400, 599))]),
        "Response statuses that are retried.",
    ),
    |node| if node.text() == Some("none") { Some(Vec::new()) } else { integers_of(node) },
)
.default("[502, 503, 504]");

impl Choice for RetriedMethods {
    const CHOICES: &'static [(&'static str, Self)] =
        &[("idempotent", Self::Idempotent), ("any", Self::Any)];
}

/// `retries` of an upstream.
pub(super) static RETRIES: Shape = Shape {
    misspellings: &[
        ("attempts", "write `tries`, which includes the first attempt"),
        ("count", "write `tries`, which includes the first attempt"),
        ("on", "write `statuses`; requests without a response are always retried"),
        ("per_try_timeout", "write `timeout`"),
        ("hedging", "write `hedge: 50ms`"),
    ],
    ..Shape::new(
        "the retries of an upstream",
        "Retries after a failed connection, a connection closed without a response, a response with certain statuses, or a timeout of the attempt. A request whose body is no longer buffered is not retried.",
        &[
            TRIES.key,
            STATUSES.key,
            Key::new("timeout", Kind::Format(format::POSITIVE_DURATION), "Timeout of an attempt, from its last byte to the first byte of the response.").absent("`timeout` of the upstream"),
            BUDGET.key,
            MINIMUM.key,
            BACKOFF.key,
            Key::new("hedge", Kind::Format(format::POSITIVE_DURATION), "Hedging: if no response head arrives within this time, the request is also sent to another target. The first good response is used. Applies to GET, HEAD, PUT, DELETE, OPTIONS and TRACE with a buffered body, within the budget.").absent("never"),
            METHODS.key,
        ],
    )
};

impl Resolver<'_> {
    /// `timeout` is that of the upstream; `several` means that it has more than one target.
    pub(super) fn retries(
        &mut self,
        fields: &Fields<'_>,
        timeout: Duration,
        several: bool,
    ) -> Retries {
        let own = fields.get("timeout").zip(fields.duration("timeout"));
        if let Some((node, _)) = own.filter(|(_, own)| *own > timeout) {
            let message = "`timeout` has no effect: the `timeout` of the upstream is shorter";
            self.report.warning(codes::UNUSED, node.at, message);
        }
        let hedge = fields.get("hedge").zip(fields.duration("hedge"));
        let attempt_timeout = own.map_or(timeout, |(_, own)| own.min(timeout));
        if let Some((node, _)) = hedge.filter(|_| !several) {
            let message = "`hedge` has no effect: the upstream has one target";
            self.report.warning(codes::UNUSED, node.at, message);
        } else if let Some((node, _)) = hedge.filter(|(_, hedge)| *hedge >= attempt_timeout) {
            let message = "`hedge` has no effect: the timeout of an attempt is not longer";
            self.report.warning(codes::UNUSED, node.at, message);
        }
        let (budget, minimum) = (fields.read(&BUDGET), fields.read(&MINIMUM));
        if budget == 0 && minimum == 0 {
            let message = "retries are off: the retry budget is 0";
            let at = fields.node().at;
            self.report.warning(codes::UNUSED, at, message).help("remove `retries`");
        }
        Retries {
            tries: fields.read(&TRIES),
            statuses: fields.read(&STATUSES),
            timeout: own.map(|(_, own)| own),
            budget,
            minimum,
            hedge: hedge.map(|(_, hedge)| hedge),
            backoff: fields.read(&BACKOFF),
            methods: fields.read(&METHODS),
        }
    }
}
