//! Retries, hedging.

use super::{Fields, Resolver};
use crate::config::{RetriedMethods, Retries};
use std::time::Duration;
use weir_document::finding::codes;
use weir_document::shape::typed::{
    Choice, Defaulted, Typed, choice, duration, integer, integers_of, percent,
};
use weir_document::shape::{Key, Kind, Shape, format};

const TRIES: Defaulted<u32> =
    integer("tries", (2, 10), "Tries in all, the first among them.").default("3");
const BUDGET: Defaulted<u32> =
    percent("budget", "Retry budget: retries permitted as a share of the requests of the last 10 s, in addition to `minimum`.")
        .default("20%");
const MINIMUM: Defaulted<u32> = integer(
    "minimum",
    (0, 1_000_000),
    "Retries per second that are permitted in addition to `budget`, averaged over 10 s.",
)
.default("3");
const BACKOFF: Defaulted<Duration> = duration("backoff", "Longest pause before the second try, doubled for each further one, at most tenfold; each pause is random, up to that.").default("25ms");
const METHODS: Defaulted<RetriedMethods> = choice("methods", "Whose requests are sent again though they may have been dealt with: GET, HEAD, PUT, DELETE, OPTIONS and TRACE only, or all.").default("idempotent");

/// `none` is no status.
const STATUSES: Defaulted<Vec<u16>> = Typed::new(
    Key::new(
        "statuses",
        Kind::Either(&[Kind::Enum(&["none"]), Kind::OneOrMany(&Kind::Integer(400, 599))]),
        "Answers after which there is another try.",
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
    slips: &[
        ("attempts", "write `tries`: the first one counts"),
        ("count", "write `tries`: the first one counts"),
        ("on", "write `statuses`; what was not answered at all is always tried again"),
        ("per_try_timeout", "write `timeout`"),
        ("hedging", "write `hedge: 50ms`"),
    ],
    ..Shape::new(
        "the retries of an upstream",
        "How requests are sent again: after a failed connection, one closed without a byte of answer, certain statuses, a try that took too long. A body that is not at hand any more is not.",
        &[
            TRIES.key,
            STATUSES.key,
            Key::new("timeout", Kind::Format(format::POSITIVE_DURATION), "Time of each try, from its last byte to the first byte of its answer.").absent("the upstream's `timeout`"),
            BUDGET.key,
            MINIMUM.key,
            BACKOFF.key,
            Key::new("hedge", Kind::Format(format::POSITIVE_DURATION), "After this long without the head of an answer a GET, HEAD, PUT, DELETE, OPTIONS or TRACE whose body is at hand goes to another target, too, within the budget; the first good answer counts.").absent("never"),
            METHODS.key,
        ],
    )
};

impl Resolver<'_> {
    /// `timeout` is that of the upstream, which has `several` targets or not.
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
        let longest = own.map_or(timeout, |(_, own)| own.min(timeout));
        if let Some((node, _)) = hedge.filter(|_| !several) {
            let message = "`hedge` has no effect: the upstream has one target";
            self.report.warning(codes::UNUSED, node.at, message);
        } else if let Some((node, _)) = hedge.filter(|(_, hedge)| *hedge >= longest) {
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
