//! Keys of resubmission.

use super::api::EDITS;
use crate::shape::{Form, Key, Kind, Shape};

/// `resubmit` of an API or a route.
pub(super) const RESUBMIT_KEY: Key = Key::new(
    "resubmit",
    Kind::Object(&RESUBMIT),
    "How recorded transactions are sent again; what a route does not say its API does.",
);

/// `resubmit`.
pub(crate) static RESUBMIT: Shape = Shape {
    slips: &[
        ("target", "write `targets`"),
        ("auth", "write `headers: {set: {authorization: \"file:…\"}}`"),
        ("credentials", "write `headers: {set: {authorization: \"file:…\"}}`"),
    ],
    ..Shape::new(
        "the resubmission",
        "How recorded transactions are sent again.",
        &[
            Key::new(
                "targets",
                Kind::OneOrMany(&Kind::Form(Form::Name)),
                "Routes of the same API, by their `op`, that a transaction may be sent to instead of its own.",
            )
            .default("only its own"),
            Key::new(
                "headers",
                Kind::Object(&EDITS),
                "Header edits, the last ones made: what the upstream gets in the place of credentials, which are never replayed.",
            ),
            Key::new(
                "idempotency_key",
                Kind::Bool,
                "The upstream gets `Idempotency-Key`, the same for every attempt at the same request, unless the request has one of its own.",
            )
            .default("false"),
            Key::new("billed", Kind::Bool, "They are billed like other calls.").default("false"),
        ],
    )
};
