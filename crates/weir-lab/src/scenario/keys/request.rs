//! Keys of requests: bodies, checks, what is taken out of answers.

use super::{COUNT, LENGTH, ONLY, ONLY_DOC, SIZE, TIME};
use weir_config::document::{Form, Group, Key, Kind, Names, Shape};

/// A request.
pub(super) static REQUEST: Shape = Shape {
    groups: &[Group { keys: &METHODS, required: true }],
    slips: &[
        ("method", "write `get: /path`"),
        ("path", "write `get: /path`"),
        ("url", "write `get: /path`"),
        ("query", "write it into the path: `get: /path?a=1`"),
        ("auth", "write `headers: {authorization: …}`"),
    ],
    ..Shape::new(
        "a request",
        "One request. Its texts may have `${…}`.",
        &[
            Key::new("name", Kind::Text, "Label of its samples.").default("method and path"),
            Key::new("get", Kind::Text, METHOD),
            Key::new("post", Kind::Text, METHOD),
            Key::new("put", Kind::Text, METHOD),
            Key::new("patch", Kind::Text, METHOD),
            Key::new("delete", Kind::Text, METHOD),
            Key::new("head", Kind::Text, METHOD),
            Key::new("options", Kind::Text, METHOD),
            Key::new(
                "headers",
                Kind::Table(Names::Header, &Kind::Loose),
                "Fields, as they are sent.",
            ),
            Key::new(
                "body",
                Kind::Either(&[Kind::Text, Kind::Object(&BODY)]),
                "The body, as text or made.",
            ),
            Key::new("json", Kind::Json, "The body as a JSON value, sent as `application/json`."),
            Key::new("checks", Kind::List(&Kind::Object(&CHECK)), "Checks of the answer."),
            Key::new(
                "expected",
                Kind::OneOrMany(&Kind::Loose),
                "Statuses that are declared and counted apart from errors: `503`, `5xx`.",
            ),
            Key::new(
                "extract",
                Kind::Table(Names::Name, &Kind::Object(&EXTRACT)),
                "Values taken out of the answer: `${name}` in later requests.",
            ),
            Key::new("only", ONLY, ONLY_DOC),
            Key::new("think", Kind::Either(&[TIME, Kind::Object(&THINK)]), "Pause after it."),
            Key::new("redirects", Kind::Word(&["ignore", "follow"]), "What a redirect does.")
                .default("ignore"),
            Key::new("keep_alive", Kind::Bool, "The connection is used again.").default("true"),
            Key::new("timeout", LENGTH, "Longest time to the end of the answer.")
                .default("the target's"),
            Key::new(
                "decode",
                Kind::Bool,
                "The body is decoded (gzip, deflate) and its decoded length counted.",
            )
            .default("false"),
        ],
    )
};

/// The keys that are methods.
pub(in crate::scenario) const METHODS: [&str; 7] =
    ["get", "post", "put", "patch", "delete", "head", "options"];
const METHOD: &str = "Path at the target's base, or a whole URL.";

/// A body that is made.
static BODY: Shape = Shape {
    groups: &[Group { keys: &["generate", "file", "form"], required: true }],
    ..Shape::new(
        "a body",
        "A body that is made before the load.",
        &[
            Key::new(
                "generate",
                Kind::Word(&["array", "grid", "corpus", "filler"]),
                "`array`: JSON of exactly `size` bytes, as WSO2's tests send it; `grid`: `rows` of `fields`; `corpus`: different documents of words; `filler`: `size` bytes of `x`.",
            ),
            Key::new("size", SIZE, "Bytes, of `array` and `filler`.").default("1KiB"),
            Key::new("rows", Kind::Integer(0, 100_000), "Rows of a grid.").default("10"),
            Key::new("fields", Kind::Integer(0, 1_000), "Fields of a row.").default("10"),
            Key::new("documents", COUNT, "Documents of a corpus.").default("1000"),
            Key::new("words", COUNT, "Words of a document.").default("100"),
            Key::new("vocabulary", COUNT, "Different words; their frequencies follow Zipf's law.")
                .default("20000"),
            Key::new("seed", Kind::Integer(0, u64::MAX), "What chance starts from.").default("1"),
            Key::new("file", Kind::Text, "The content of this file."),
            Key::new(
                "form",
                Kind::Table(Names::Parameter, &Kind::Loose),
                "Fields of a form, which are encoded.",
            ),
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
        "A check of an answer; if it fails, the sample is an error.",
        &[
            Key::new("status", Kind::OneOrMany(&Kind::Loose), "`200`, `2xx`, `200-204`."),
            Key::new("body_contains", Kind::Loose, "A text that the body has."),
            Key::new("body_matches", Kind::Text, "A regular expression that is found in the body."),
            Key::new("body_equals", Kind::Loose, "The whole body."),
            Key::new(
                "header",
                Kind::Text,
                "A regular expression that is found in the answer's head.",
            ),
            Key::new("json", Kind::Form(Form::JsonPath), "A path that has something."),
            Key::new("equals", Kind::Loose, "What `json` must have there."),
            Key::new("under", LENGTH, "It takes no longer."),
            Key::new("bytes", SIZE, "Length of the body."),
            Key::new("not", Kind::Bool, "The opposite.").default("false"),
            Key::new("message", Kind::Text, "What is said when it fails."),
        ],
    )
};

/// An extractor.
static EXTRACT: Shape = Shape {
    groups: &[Group { keys: &["json", "regex", "header"], required: true }],
    ..Shape::new(
        "an extractor",
        "A value taken out of an answer.",
        &[
            Key::new("json", Kind::Form(Form::JsonPath), "A path in the body."),
            Key::new("regex", Kind::Text, "A regular expression; its first group if it has one."),
            Key::new(
                "from",
                Kind::Word(&["body", "headers"]),
                "Where the expression is looked for.",
            )
            .default("body"),
            Key::new("header", Kind::Form(Form::Header), "A field of the answer."),
            Key::new("nth", Kind::Integer(0, 10_000), "Which of several; 0 is one at random.")
                .default("1"),
            Key::new("default", Kind::Loose, "If there is none.").default("the value before"),
        ],
    )
};

/// A pause.
static THINK: Shape = Shape::new(
    "a pause",
    "A pause of random length.",
    &[
        Key::new("mean", TIME, "Its mean; normally distributed with `deviation`."),
        Key::new("deviation", TIME, "Its standard deviation.").default("0"),
        Key::new("from", TIME, "Shortest; evenly distributed up to `to`."),
        Key::new("to", TIME, "Longest."),
    ],
);
