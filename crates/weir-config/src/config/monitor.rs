//! Metering.

use super::events::{AlertKeys, EVENTS, NAMES};
use super::{Config, ConsumerId, Route};
use std::time::Duration;
use weir_document::settings;
use weir_document::shape::Kind;
use weir_model::Counts;
use weir_model::events::{Alert, Sink};

/// The Monitor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Monitor {
    /// Whether calls are counted, by rules and plans.
    pub enabled: bool,
    /// Retention of counts.
    pub keep: Duration,
    /// Maximum number of combinations of consumer, API, operation, plan and status class per day.
    pub cardinality: usize,
    /// Types of calls that are counted.
    pub counts: Counts,
    /// Destination of usage events.
    pub events: Option<Sink>,
    /// Alerts.
    pub alerts: Vec<Alert>,
}

settings! {
    /// Metering of calls for usage, limits and billing. Calls of a plan with a quota or a price are
    /// counted without a rule.
    pub(crate) struct MonitorKeys is "the Monitor" {
        /// Metering of calls. With `false` quotas are kept in memory only and restart with the
        /// process.
        pub(crate) enabled: bool = boolean().default("true"),
        /// Metering rules: `all` calls, or those that match one of the rules.
        count = by_hand(RULES).absent("none"),
        /// Types of calls that are counted. The setting applies when calls are counted, not when
        /// they are made.
        pub(crate) counts: Counts = section_of(CountedCalls::SHAPE, CountedCalls::read),
        /// Retention of counts; minimum 2d.
        pub(crate) keep: Duration = positive().default("400d"),
        /// Maximum number of combinations of consumer, API, operation, plan and status class per
        /// day (UTC). Further ones are counted with the operation `(other)`; beyond twice the
        /// maximum all fields are `(other)`.
        pub(crate) cardinality: usize = integer(1, 1_000_000).default("10000"),
        /// Usage events.
        events = by_hand(Kind::Object(&EVENTS)),
        /// Alerts: usage rules that send an event each time their condition becomes true.
        alerts = by_hand(Kind::List(&Kind::Object(AlertKeys::SHAPE))),
    },
    short: Some("count"),
    misspellings: &[
        ("retention", "write `keep`"),
        ("rules", "write `count`"),
        ("max_buckets", "write `cardinality`"),
    ],
}

const RULES: Kind = Kind::Either(&[Kind::Enum(&["all"]), Kind::OneOrMany(&Kind::Object(&COUNT))]);

settings! {
    /// Calls that the rule counts: a call must match all keys, and one of several names in each.
    pub(crate) static COUNT is "a metering rule" {
        /// APIs.
        api = by_hand(NAMES).required(),
        /// Operations: their `op`, or the name that `weir routes` prints.
        operation = by_hand(Kind::OneOrMany(&Kind::Text)).absent("all"),
        /// Consumers.
        consumer = by_hand(NAMES).absent("all, also calls without a consumer"),
    },
    misspellings: &[
        ("route", "write `operation`"),
        ("op", "write `operation`"),
        ("apis", "write `api`"),
        ("operations", "write `operation`"),
        ("consumers", "write `consumer`"),
    ],
}

settings! {
    /// Which types of calls are counted. A call of several types is counted if all of them are.
    struct CountedCalls for Counts is "the counted call types" {
        /// Rejected calls: credentials, limits or body size.
        rejected: bool = boolean().default("false"),
        /// Failed calls: status 500 or above, or aborted by the upstream.
        failed: bool = boolean().default("true"),
        /// Aborted calls: no complete response, because the client disconnected or weir stopped.
        interrupted: bool = boolean().default("true"),
        /// Retried calls: sent to an upstream more than once. Each is one call.
        retried: bool = boolean().default("true"),
        /// Resubmitted calls: sent by an operator.
        resubmitted: bool = boolean().default("false"),
    }
}

/// Calls of a route that metering rules count.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum CountRule {
    /// None.
    #[default]
    Nobody,
    /// Those of these consumers, in ascending order.
    Consumers(Vec<ConsumerId>),
    /// All.
    Everybody,
}

impl CountRule {
    /// Whether calls of this consumer are counted.
    #[must_use]
    pub fn is_for(&self, consumer: Option<ConsumerId>) -> bool {
        match self {
            Self::Nobody => false,
            Self::Everybody => true,
            Self::Consumers(consumers) => {
                consumer.is_some_and(|id| consumers.binary_search(&id).is_ok())
            }
        }
    }
}

impl Config {
    /// Whether any calls may be counted.
    #[must_use]
    pub fn counts_calls(&self) -> bool {
        let ruled = |route: &Route| route.count != CountRule::Nobody;
        self.monitor.enabled
            && (self.plans.iter().any(super::Plan::is_counted)
                || self.apis.iter().flat_map(|api| &api.routes).any(ruled))
    }
}
