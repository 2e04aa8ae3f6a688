//! Keys of requests: bodies, checks, extractors.

use super::{COUNT, LENGTH, ONLY, ONLY_DOC, SIZE, TIME};
use crate::program::Redirects;
use strum::VariantNames;
use weir_document::shape::{Group, Key, Kind, Names, Shape, format};

/// A request.
pub(super) static REQUEST: Shape = Shape {
    groups: &[Group { keys: &METHODS, required: true }],
    misspellings: &[
        ("method", "write `get: /path`"),
        ("path", "write `get: /path`"),
        ("url", "write `get: /path`"),
        ("query", "write it in the path: `get: /path?a=1`"),
        ("auth", "write `headers: {authorization: …}`"),
    ],
    ..Shape::new(
        "a request",
        "A request. Its texts may contain `${…}`.",
        &[
            Key::new("name", Kind::Text, "Label of its samples.").default("method and path"),
            Key::new("get", Kind::Text, METHOD),
            Key::new("post", Kind::Text, METHOD),
            Key::new("put", Kind::Text, METHOD),
            Key::new("patch", Kind::Text, METHOD),
            Key::new("delete", Kind::Text, METHOD),
            Key::new("head", Kind::Text, METHOD),
            Key::new("options", Kind::Text, METHOD),
            Key::new("headers", Kind::Table(Names::Header, &Kind::Scalar), "Header fields."),
            Key::new(
                "body",
                Kind::Either(&[Kind::Text, Kind::Object(&BODY)]),
                "The body as a text, or generated.",
            ),
            Key::new("json", Kind::Json, "The body as a JSON value, sent as `application/json`."),
            Key::new("checks", Kind::List(&Kind::Object(&CHECK)), "Checks of the response."),
            Key::new(
                "expected",
                Kind::OneOrMany(&Kind::Scalar),
                "Expected statuses, counted separately from errors: `503`, `5xx`.",
            ),
            Key::new(
                "extract",
                Kind::Table(Names::Name, &Kind::Object(&EXTRACT)),
                "Values extracted from the response: `${name}` in later requests.",
            ),
            Key::new("only", ONLY, ONLY_DOC),
            Key::new(
                "think",
                Kind::Either(&[TIME, Kind::Object(&THINK)]),
                "Pause after the request.",
            ),
            Key::new("redirects", Kind::Enum(Redirects::VARIANTS), "Behaviour after a redirect.")
                .default("ignore"),
            Key::new("keep_alive", Kind::Bool, "Reuse the connection.").default("true"),
            Key::new("timeout", LENGTH, "Timeout to the end of the response.")
                .default("the target's"),
            Key::new(
                "decode",
                Kind::Bool,
                "Decode the body (gzip, deflate) and count its decoded length.",
            )
            .default("false"),
        ],
    )
};

/// The keys that are methods.
pub(in crate::scenario) const METHODS: [&str; 7] =
    ["get", "post", "put", "patch", "delete", "head", "options"];
const METHOD: &str = "Path at the target's base URL, or an absolute URL.";

/// A generated body.
static BODY: Shape = Shape {
    groups: &[Group { keys: &["generate", "file", "form"], required: true }],
    ..Shape::new(
        "a body",
        "A body generated before the load.",
        &[
            Key::new(
                "generate",
                Kind::Enum(&["array", "grid", "corpus", "filler"]),
                "`array`: JSON of exactly `size` bytes, as WSO2's tests send it; `grid`: `rows` of `fields`; `corpus`: documents of words with different frequencies; `filler`: `size` bytes of `x`.",
            ),
            Key::new("size", SIZE, "Bytes, of `array` and `filler`.").default("1KiB"),
            Key::new("rows", Kind::Integer(0, 100_000), "Rows of a grid.").default("10"),
            Key::new("fields", Kind::Integer(0, 1_000), "Fields of a row.").default("10"),
            Key::new("documents", COUNT, "Documents of a corpus.").default("1000"),
            Key::new("words", COUNT, "Words of a document.").default("100"),
            Key::new(
                "vocabulary",
                COUNT,
                "Number of different words; their frequencies follow Zipf's law.",
            )
            .default("20000"),
            Key::new("seed", Kind::Integer(0, u64::MAX), "Seed of the random numbers.")
                .default("1"),
            Key::new("file", Kind::Text, "File with the body."),
            Key::new("form", Kind::Table(Names::Parameter, &Kind::Scalar), "Fields of a form."),
        ],
    )
};

/// A check.
static CHECK: Shape = Shape {
    groups: &[Group {
        keys: &[
            "status",
            "body_contains",
            "body_matches",
            "body_equals",
            "header",
            "json",
            "under",
            "bytes",
        ],
        required: true,
    }],
    ..Shape::new(
        "a check",
        "A check of a response; a failed check makes the sample an error.",
        &[
            Key::new("status", Kind::OneOrMany(&Kind::Scalar), "`200`, `2xx`, `200-204`."),
            Key::new("body_contains", Kind::Scalar, "A text contained in the body."),
            Key::new("body_matches", Kind::Text, "A regular expression that matches in the body."),
            Key::new("body_equals", Kind::Scalar, "The entire body."),
            Key::new(
                "header",
                Kind::Text,
                "A regular expression that matches in the head of the response.",
            ),
            Key::new("json", Kind::Format(format::JSON_PATH), "A path with a value."),
            Key::new("equals", Kind::Scalar, "The expected value of `json`."),
            Key::new("under", LENGTH, "Largest response time."),
            Key::new("bytes", SIZE, "Length of the body."),
            Key::new("not", Kind::Bool, "Negate the check.").default("false"),
            Key::new("message", Kind::Text, "Message of a failure."),
        ],
    )
};

/// An extractor.
static EXTRACT: Shape = Shape {
    groups: &[Group { keys: &["json", "regex", "header"], required: true }],
    ..Shape::new(
        "an extractor",
        "A value extracted from a response.",
        &[
            Key::new("json", Kind::Format(format::JSON_PATH), "A path in the body."),
            Key::new(
                "regex",
                Kind::Text,
                "A regular expression: its first group, or the whole match.",
            ),
            Key::new("from", Kind::Enum(&["body", "headers"]), "Searched part of the response.")
                .default("body"),
            Key::new("header", Kind::Format(format::HEADER), "A header field of the response."),
            Key::new(
                "nth",
                Kind::Integer(0, 10_000),
                "Number of the match; 0 chooses one at random.",
            )
            .default("1"),
            Key::new("default", Kind::Scalar, "Value without a match.")
                .default("the previous value"),
        ],
    )
};

/// A pause.
static THINK: Shape = Shape::new(
    "a pause",
    "A pause of random length.",
    &[
        Key::new("mean", TIME, "Mean of a normal distribution with `deviation`."),
        Key::new("deviation", TIME, "Standard deviation.").default("0"),
        Key::new("from", TIME, "Minimum of a uniform distribution up to `to`."),
        Key::new("to", TIME, "Longest."),
    ],
);
