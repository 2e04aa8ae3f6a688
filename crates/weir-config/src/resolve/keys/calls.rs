//! Keys of calls that are made to answer one request.

use super::xml::{FROM_KEY, XML_KEY};
use crate::shape::{Form, Key, Kind, Names, Shape};

const CALLS: Kind = Kind::Table(Names::Name, &Kind::Object(&CALL));
/// `calls` of a route.
pub(crate) const CALLS_KEY: Key = Key::new(
    "calls",
    CALLS,
    "Several upstreams are asked at once, at most 16: the answer is a JSON object of what each has answered, which `response: {map: …}` may shape.",
);

/// A value of `calls`.
pub(crate) static CALL: Shape = Shape {
    slips: &[
        ("url", "write `upstream: NAME` and `path: /path`"),
        ("get", "write `path: /path`"),
        ("post", "write `method: post` and `path: /path`"),
        ("map", "what it answers is mapped by `response: {map: …}` of the route"),
        ("default", "write `fallback`"),
        ("optional", "write `fallback: null`"),
    ],
    ..Shape::new(
        "a call",
        "A request to an upstream. It is sent what is said here, the trace and the transaction id, and nothing else of the client's.",
        &[
            Key::new("upstream", Kind::Form(Form::Name), "Which.").required(),
            Key::new("path", Kind::Text, "The path it is asked for, with parameters of the route's: `/orders/{id}`.").required(),
            Key::new("method", Kind::Form(Form::Method), "Method.").default("get, or post if there is a body"),
            Key::new(
                "query",
                Kind::Table(Names::Parameter, &Kind::Either(&[Kind::Loose, Kind::Object(&COMPUTED)])),
                "Parameters: texts, or `{cel: …}`; one that gives nothing is left out.",
            ),
            Key::new(
                "headers",
                Kind::Object(&CALL_HEADERS),
                "Headers it is sent.",
            ),
            Key::new(
                "body",
                Kind::Json,
                "A JSON structure whose leaves are RFC 9535 paths into the request's body (`$.a.b`), `{literal: …}` or `{cel: …}`.",
            )
            .default("no body"),
            Key::new("timeout", Kind::Form(Form::PositiveDuration), "Time for the whole call.")
                .default("the upstream's, to the first byte"),
            Key::new(
                "fallback",
                Kind::Json,
                "What stands in its place if it fails: no answer, another status than 2xx, or a body that cannot be read.",
            )
            .default("the request fails"),
            Key::new(
                "pass",
                Kind::OneOrMany(&Kind::Integer(300, 599)),
                "Statuses with which its answer, as it is, is the answer of the route.",
            )
            .default("none"),
            FROM_KEY,
            XML_KEY,
        ],
    )
};

/// `headers` of a call.
pub(crate) static CALL_HEADERS: Shape = Shape {
    slips: &[("pass", "write `forward`")],
    ..Shape::new(
        "the headers of a call",
        "Headers it is sent.",
        &[
            Key::new(
                "forward",
                Kind::OneOrMany(&Kind::Form(Form::EditableHeader)),
                "Headers of the client's request that go along, such as `authorization`.",
            )
            .default("none"),
            Key::new(
                "set",
                Kind::Table(Names::Header, &Kind::Loose),
                "Headers to set; one of the same name that is forwarded is replaced.",
            ),
        ],
    )
};

/// A computed value of `query`.
pub(crate) static COMPUTED: Shape = Shape::new(
    "a computed value",
    "A text, number or boolean that an expression gives.",
    &[Key::new("cel", Kind::Form(Form::Cel), "CEL over `request`, `claims` and `consumer`.")
        .required()],
);
