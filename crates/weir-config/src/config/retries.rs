//! Retries, hedging.

use std::time::Duration;
use strum::{EnumString, VariantNames};
use weir_document::draft::Node;
use weir_document::settings;
use weir_document::shape::{Kind, settings};

settings! {
    /// Retries after a failed connection, a connection closed without a response, a response with
    /// certain statuses, or a timeout of the attempt. A request whose body is no longer buffered is
    /// not retried.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Retries is "the retries of an upstream" {
        /// Maximum number of attempts, including the first.
        pub tries: u32 = integer(2, 10).default("3"),
        /// Response statuses that are retried.
        pub statuses: Vec<u16> = value(STATUSES, statuses).default("[502, 503, 504]"),
        /// Timeout of an attempt, from its last byte to the first byte of the response.
        pub timeout: Option<Duration> = positive().absent("`timeout` of the upstream"),
        /// Retry budget: retries permitted as a share of the requests of the last 10 s, in addition
        /// to `minimum`.
        // In hundredths of a percent.
        pub budget: u32 = percent().default("20%"),
        /// Retries per second that are permitted in addition to `budget`, averaged over 10 s.
        pub minimum: u32 = integer(0, 1_000_000).default("3"),
        /// Maximum delay before the second attempt; doubled for each further attempt, up to ten
        /// times the value. The actual delay is random (full jitter).
        pub backoff: Duration = duration().default("25ms"),
        /// Hedging: if no response head arrives within this time, the request is also sent to
        /// another target. The first good response is used. Applies to GET, HEAD, PUT, DELETE,
        /// OPTIONS and TRACE with a buffered body, within the budget.
        pub hedge: Option<Duration> = positive().absent("never"),
        /// Requests that are retried although the upstream may have processed them: only idempotent
        /// methods (GET, HEAD, PUT, DELETE, OPTIONS and TRACE), or all.
        pub methods: RetriedMethods = choice().default("idempotent"),
    },
    misspellings: &[
        ("attempts", "write `tries`, which includes the first attempt"),
        ("count", "write `tries`, which includes the first attempt"),
        ("on", "write `statuses`; requests without a response are always retried"),
        ("per_try_timeout", "write `timeout`"),
        ("hedging", "write `hedge: 50ms`"),
    ],
}

const STATUSES: Kind =
    Kind::Either(&[Kind::Enum(&["none"]), Kind::OneOrMany(&Kind::Integer(400, 599))]);

/// `none` means no status.
fn statuses(node: &Node) -> Option<Vec<u16>> {
    if node.text() == Some("none") { Some(Vec::new()) } else { settings::integers_of(node) }
}

/// Methods of requests that may be processed twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumString, VariantNames)]
#[strum(serialize_all = "lowercase")]
pub enum RetriedMethods {
    /// Idempotent methods (RFC 9110 section 9.2.2).
    Idempotent,
    /// All.
    Any,
}
