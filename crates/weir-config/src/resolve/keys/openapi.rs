//! Keys of OpenAPI documents.

use crate::shape::{Form, Key, Kind, Shape};

const DOCUMENT: Kind = Kind::Either(&[Kind::Text, Kind::Object(&OPENAPI)]);
const ANSWER: Kind = Kind::Either(&[Kind::Bool, Kind::Object(&MOCK)]);

/// `openapi` of an API.
pub(super) const OPENAPI_KEY: Key = Key::new(
    "openapi",
    DOCUMENT,
    "The OpenAPI document (3.0 or 3.1) that describes it; a path alone is short for `{file: PATH}`. Routes are bound to its operations by `op`.",
);

/// `openapi` written out.
pub(crate) static OPENAPI: Shape = Shape {
    short: Some("file"),
    ..Shape::new(
        "the description of an API",
        "An OpenAPI document. It stays as it is: nothing in it is substituted, nothing is fetched.",
        &[
            Key::new("file", Kind::Text, "The document, in YAML or JSON.").required(),
            Key::new(
                "serve",
                Kind::Either(&[Kind::Word(&["none"]), Kind::Form(Form::Path)]),
                "Path below the base where the API serves the document itself, as JSON; whoever meets the document's own `security` may read it.",
            )
            .default("/openapi.json"),
            Key::new(
                "except",
                Kind::OneOrMany(&Kind::Form(Form::Operation)),
                "Operations that are not offered.",
            ),
        ],
    )
};

/// `validate` of an API or a route.
pub(super) const VALIDATE_KEY: Key = Key::new(
    "validate",
    Kind::Object(&VALIDATE),
    "What happens to requests and answers that are not as the OpenAPI document says.",
);

const MODES: Kind = Kind::Word(&["off", "log", "enforce"]);

/// `validate` written out.
pub(crate) static VALIDATE: Shape = Shape::new(
    "the validation of an API or a route",
    "`log` counts what does not match and lets it pass, `enforce` refuses it.",
    &[
        Key::new("requests", MODES, "Parameters and bodies of requests.").default("enforce"),
        Key::new("responses", MODES, "Status, content type and body of answers.").default("off"),
    ],
);

/// `mock` of a route.
pub(super) const MOCK_KEY: Key = Key::new(
    "mock",
    ANSWER,
    "The OpenAPI document's example of an answer, or one made of its schema; `true` for the first successful one.",
);

/// `mock` written out.
pub(crate) static MOCK: Shape = Shape::new(
    "a mock",
    "Which of the answers that the OpenAPI document describes.",
    &[
        Key::new("status", Kind::Integer(200, 599), "Its status.")
            .default("the first successful one"),
        Key::new("example", Kind::Text, "Name of the example.").default("the first"),
    ],
);
