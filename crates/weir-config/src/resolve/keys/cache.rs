//! Keys of the response cache.

use crate::shape::{Form, Key, Kind, Shape};

const SETTINGS: Kind = Kind::Either(&[Kind::Bool, Kind::Object(&CACHE)]);

/// `cache` of an API or a route.
pub(super) const CACHE_KEY: Key = Key::new(
    "cache",
    SETTINGS,
    "Answers to GET that say how long they are fresh are stored and given again (RFC 9111). Each route has a store of its own.",
)
.default("false");

/// `cache` written out.
pub(crate) static CACHE: Shape = Shape {
    slips: &[("size", "write `memory`"), ("max_size", "write `entry`"), ("max_age", "write `ttl`")],
    ..Shape::new(
        "a cache",
        "Stored answers of a handler.",
        &[
            Key::new("memory", Kind::Form(Form::Size), "Most memory that stored answers take, all workers together.")
                .default("16MiB"),
            Key::new("entry", Kind::Form(Form::Size), "Largest body that is stored.").default("1MiB"),
            Key::new(
                "ttl",
                Kind::Form(Form::PositiveDuration),
                "How long an answer is fresh that does not say so itself.",
            )
            .default("it is not stored"),
            Key::new(
                "credentials",
                Kind::Word(&["none", "shared", "each"]),
                "Requests with a credential or a cookie: `none` has nothing to do with stored answers, `shared` gives whoever is let in the same, `each` keeps those of each caller apart.",
            )
            .default("none"),
        ],
    )
};
