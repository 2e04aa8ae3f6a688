//! Keys of what is posted as events.

use crate::shape::{Form, Group, Key, Kind, Shape};

const NAMES: Kind = Kind::OneOrMany(&Kind::Form(Form::Name));
const TO: Key = Key::new("to", Kind::Form(Form::Name), "The upstream that takes the events: CloudEvents 1.0, one a POST, again until it answers with 2xx or they are a week old.").required();
const PATH: Key = Key::new("path", Kind::Form(Form::Base), "Path of the requests.").default("/");
const API: Key = Key::new("api", NAMES, "APIs it is for.").default("all");

/// `events` of the Monitor.
pub(crate) static EVENTS: Shape = Shape {
    slips: &[("url", "name an upstream: `to: NAME`"), ("upstream", "write `to`")],
    short: Some("to"),
    ..Shape::new(
        "the events of the Monitor",
        "Where counts are posted to: an event for each minute and combination of consumer, API, operation, plan and status class, once the minute is over, and again with another revision if calls are counted in it later.",
        &[TO, PATH],
    )
};

/// An item of `alerts`.
pub(crate) static ALERT: Shape = Shape {
    groups: &[Group { keys: &["calls", "error_rate"], required: true }],
    slips: &[
        ("url", "name an upstream: `to: NAME`"),
        ("upstream", "write `to`"),
        ("window", "write `over`"),
    ],
    ..Shape::new(
        "an alert",
        "A rule on usage that posts one event each time it begins to hold. It looks at counted calls.",
        &[
            Key::new("name", Kind::Form(Form::Name), "Its name.").required(),
            Key::new("calls", Kind::Integer(1, u64::MAX), "More calls than this."),
            Key::new(
                "error_rate",
                Kind::Form(Form::Percent),
                "A larger share of calls than this without an answer below status 500.",
            ),
            Key::new(
                "at_least",
                Kind::Integer(1, u64::MAX),
                "With fewer calls than this an `error_rate` does not hold.",
            )
            .default("1"),
            Key::new(
                "over",
                Kind::Form(Form::PositiveDuration),
                "Calls of so many of the last whole minutes, at most a week.",
            )
            .default("5m"),
            API,
            Key::new("consumer", NAMES, "Consumers it is for.").default("all, and who is none"),
            TO,
            PATH,
        ],
    )
};

/// An item of `triggers`.
pub(crate) static TRIGGER: Shape = Shape {
    slips: &[
        ("url", "name an upstream: `to: NAME`"),
        ("upstream", "write `to`"),
        ("status", "write `state`"),
    ],
    ..Shape::new(
        "a trigger",
        "A rule on transactions that posts one event for each that ends so. The event has no payload: who may see that asks for the transaction.",
        &[
            Key::new("name", Kind::Form(Form::Name), "Its name.").required(),
            API,
            Key::new(
                "state",
                Kind::OneOrMany(&Kind::Word(&["completed", "failed", "interrupted"])),
                "The state in which it ends.",
            )
            .default("failed"),
            Key::new("key", Kind::Form(Form::Name), "Business key that it has to have."),
            Key::new("value", Kind::Text, "Value that the key has to have.").default("any"),
            TO,
            PATH,
        ],
    )
};
