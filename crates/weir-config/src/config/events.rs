//! Events and their rules.

use crate::formats;
use std::time::Duration;
use weir_document::settings;
use weir_document::shape::{Group, Key, Kind, format};
use weir_model::Outcome;

pub(crate) const NAMES: Kind = Kind::OneOrMany(&Kind::Format(format::NAME));

const TO: Key = Key::new("to", Kind::Format(format::NAME), "Upstream that receives the events: CloudEvents 1.0, one per POST. A delivery is retried until the status is 2xx or the event is a week old.").required();

const API: Key = Key::new("api", NAMES, "APIs that the rule applies to.").absent("all");

const PATH: Key =
    Key::new("path", Kind::Format(formats::BASE), "Path of the requests.").default("/");

settings! {
    /// Usage events: one for each minute and combination of consumer, API, operation, plan and
    /// status class, sent after the end of the minute. If further calls are counted in a minute
    /// later, the event is sent again with a higher revision.
    pub(crate) static EVENTS is "the usage event export" {
        to = same(TO),
        path = same(PATH),
    },
    misspellings: &[("url", "name an upstream: `to: NAME`"), ("upstream", "write `to`")],
    short: Some("to"),
}

settings! {
    /// A usage rule that sends one event each time its condition becomes true. It evaluates counted
    /// calls.
    pub(crate) struct AlertKeys is "an alert" {
        /// Name of the alert.
        name = by_hand(Kind::Format(format::NAME)).required(),
        /// Alert above this number of calls.
        calls = by_hand(Kind::Integer(1, u64::MAX)),
        /// Alert above this share of calls that got no response or a status of 500 or above.
        error_rate = by_hand(Kind::Format(format::PERCENT)),
        /// Minimum number of calls for `error_rate` to apply.
        pub(crate) at_least: u64 = integer(1, u64::MAX).default("1"),
        /// Window: calls of the last complete minutes, at most 7 days.
        pub(crate) over: Duration = positive().default("5m"),
        api = same(API),
        /// Consumers that the rule applies to.
        consumer = by_hand(NAMES).absent("all, also calls without a consumer"),
        to = same(TO),
        path = same(PATH),
    },
    groups: &[Group { keys: &["calls", "error_rate"], required: true }],
    misspellings: &[
        ("url", "name an upstream: `to: NAME`"),
        ("upstream", "write `to`"),
        ("window", "write `over`"),
    ],
}

settings! {
    /// A rule on transactions that sends one event for each matching one. The event has no payload;
    /// authorized users can look up the transaction.
    pub(crate) struct TriggerKeys is "a trigger" {
        /// Name of the trigger.
        name = by_hand(Kind::Format(format::NAME)).required(),
        api = same(API),
        /// State of the transaction at its end.
        pub(crate) state: Vec<Outcome> = choices().default("failed"),
        /// Business key that the transaction must have.
        key = by_hand(Kind::Format(format::NAME)),
        /// Value that the business key must have.
        value = by_hand(Kind::Text).absent("any"),
        to = same(TO),
        path = same(PATH),
    },
    misspellings: &[
        ("url", "name an upstream: `to: NAME`"),
        ("upstream", "write `to`"),
        ("status", "write `state`"),
    ],
}
