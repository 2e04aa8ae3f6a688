//! Every key of a scenario, described once: the check and the JSON Schema walk this description.

mod load;
mod request;
mod run;

pub(super) use load::PERCENTILES;
pub(super) use request::METHODS;

use load::LOAD;
use request::REQUEST;
use run::{LEVELS, OBSERVE, PROTOCOL, PUBLISHED};
use weir_config::document::{Form, Group, Key, Kind, Names, Shape};

/// A number of something, at least one.
const COUNT: Kind = Kind::Integer(1, 10_000_000);
/// Values of names of `matrix` and `cases`.
const ONLY: Kind = Kind::Table(Names::Name, &Kind::OneOrMany(&Kind::Loose));
/// What `only` means.
const ONLY_DOC: &str = "It is for cells with these values of `matrix` and `cases` only; a cell without any request or load is left out.";
/// A size in bytes, with a unit or without.
const SIZE: Kind = Kind::Either(&[Kind::Integer(0, 1 << 30), Kind::Form(Form::Size)]);
const SHARE: Kind = Kind::Form(Form::Percent);
const TIME: Kind = Kind::Form(Form::Duration);
const LENGTH: Kind = Kind::Form(Form::PositiveDuration);

/// The whole file.
pub(super) static ROOT: Shape = Shape {
    slips: &[
        ("scenarios", "write `requests`"),
        ("request", "write `requests: [{…}]`"),
        ("executor", "it belongs to `load`"),
    ],
    ..Shape::new(
        "a scenario",
        "What is sent to which server, by how many users, and how it is measured.",
        &[
            Key::new("lab", Kind::Integer(1, 1), "Version of the format.").required(),
            Key::new("name", Kind::Text, "Name in reports.").default("the file's"),
            Key::new("target", Kind::Object(&TARGET), "The server under test.").required(),
            Key::new(
                "server",
                Kind::Object(&SERVER),
                "How it is started; without, it is there already.",
            ),
            Key::new("backend", Kind::Object(&BACKEND), "What is behind it."),
            Key::new("cases", Kind::Object(&CASES), "Settings of the server that are compared."),
            Key::new(
                "matrix",
                Kind::Table(Names::Name, &VALUES),
                "Values that the load takes: one cell for each combination. `${name}` is one of them, `${name.bytes}` a size in bytes.",
            ),
            Key::new("variables", Kind::Table(Names::Name, &Kind::Loose), "Values for `${name}`."),
            Key::new(
                "feeders",
                Kind::Table(Names::Name, &Kind::Object(&FEEDER)),
                "Rows of values: `${name.column}`, a row an iteration.",
            ),
            Key::new(
                "requests",
                Kind::List(&Kind::Object(&REQUEST)),
                "What an iteration sends, in this order.",
            )
            .required(),
            Key::new(
                "load",
                Kind::OneOrMany(&Kind::Object(&LOAD)),
                "How much of it, and when; of several one after the other.",
            )
            .required(),
            Key::new("protocol", Kind::Object(&PROTOCOL), "How a cell is measured.")
                .default("once, nothing cut off"),
            Key::new("observe", Kind::Object(&OBSERVE), "What is watched beside the load."),
            Key::new(
                "thresholds",
                Kind::List(&Kind::Text),
                "Promises the run has to keep: `p99<500ms for echo`, `error-rate<=0`, `rps>=1000`.",
            ),
            Key::new(
                "published",
                Kind::List(&Kind::Object(&PUBLISHED)),
                "Figures of others, printed beside the measured ones.",
            ),
            Key::new(
                "levels",
                Kind::Object(&LEVELS),
                "What `--quick` and `--full` set over this file.",
            ),
        ],
    )
};

const VALUES: Kind = Kind::List(&Kind::Loose);

static TARGET: Shape = Shape {
    short: Some("base"),
    ..Shape::new(
        "the target",
        "The server under test.",
        &[
            Key::new("base", Kind::Form(Form::Target), "Where it is.").required(),
            Key::new(
                "http2",
                Kind::Bool,
                "HTTP/2: by ALPN over TLS, with prior knowledge otherwise.",
            )
            .default("false"),
            Key::new("insecure", Kind::Bool, "Its certificate is not verified.").default("false"),
            Key::new("connect_timeout", LENGTH, "Longest time to open a connection.")
                .default("10s"),
            Key::new("timeout", LENGTH, "Longest time to the end of an answer.").default("60s"),
        ],
    )
};

static SERVER: Shape = Shape {
    groups: &[Group { keys: &["weir", "command"], required: true }],
    ..Shape::new(
        "the server",
        "How the server under test is started.",
        &[
            Key::new(
                "weir",
                Kind::Text,
                "A configuration file: this weir serves it, on a port and with a data folder of its own for each case.",
            ),
            Key::new(
                "set",
                Kind::Table(Names::Parameter, &Kind::Loose),
                "Settings of weir, as `weir serve --set` takes them. `${backend}` is the address of the backend.",
            ),
            Key::new(
                "command",
                Kind::List(&Kind::Loose),
                "A program and its arguments. `${port}` is a free port, which the target gets, `${data}` a folder of its own, `${backend}` the address of the backend.",
            ),
            Key::new("folder", Kind::Text, "Where the command runs.")
                .default("the scenario's folder"),
            Key::new(
                "env",
                Kind::Table(Names::Name, &Kind::Loose),
                "Its environment, beside the Lab's own.",
            ),
            Key::new("ready", Kind::Text, "Path that answers 2xx once it is ready.")
                .default("its port is open"),
            Key::new("patience", LENGTH, "How long that may take.").default("30s"),
            Key::new("restart", Kind::Word(&["case", "cell", "never"]), "When it is started anew.")
                .default("case"),
        ],
    )
};

static BACKEND: Shape = Shape {
    groups: &[Group { keys: &["echo", "command"], required: true }],
    ..Shape::new(
        "the backend",
        "What is behind the server under test.",
        &[
            Key::new(
                "echo",
                Kind::Object(&ECHO),
                "weir's echo backend: it answers with what it gets.",
            ),
            Key::new("command", Kind::List(&Kind::Loose), "A program and its arguments."),
            Key::new("ready", Kind::Text, "URL that answers 2xx once it is ready.")
                .default("its port is open"),
        ],
    )
};

static ECHO: Shape = Shape::new(
    "the echo backend",
    "weir's echo backend.",
    &[
        Key::new("port", Kind::Integer(0, 65_535), "Where it listens; 0 takes a free port.")
            .default("8688"),
        Key::new("delay", TIME, "How long it waits before each answer, without a thread each.")
            .default("0"),
    ],
);

static CASES: Shape = Shape::new(
    "the cases",
    "Settings of the server that are compared: one case for each combination of factors.",
    &[
        Key::new("factors", Kind::Table(Names::Name, &VALUES), "Factors and their levels.")
            .required(),
        Key::new("apply", Kind::Object(&APPLY), "What a case does to the server.").required(),
        Key::new(
            "order",
            Kind::Word(&["interleaved", "sequential", "randomized"]),
            "How rounds of the cases follow each other.",
        )
        .default("interleaved"),
    ],
);

static APPLY: Shape = Shape::new(
    "what a case does",
    "What a case does to the server.",
    &[
        Key::new(
            "set",
            Kind::Table(Names::Parameter, &Kind::Loose),
            "Settings of weir, as `weir serve --set` takes them.",
        ),
        Key::new(
            "env",
            Kind::Table(Names::Name, &Kind::Loose),
            "Environment of the server's command.",
        ),
        Key::new("args", Kind::List(&Kind::Loose), "Arguments added to the server's command."),
    ],
);

/// A feeder.
static FEEDER: Shape = Shape {
    groups: &[Group { keys: &["csv", "jwt"], required: true }],
    ..Shape::new(
        "a feeder",
        "Rows of values, a row an iteration.",
        &[
            Key::new(
                "csv",
                Kind::Either(&[Kind::Text, Kind::Object(&CSV)]),
                "A file; its first line names the columns.",
            ),
            Key::new("jwt", Kind::Object(&JWT), "Signed tokens in a column `token`."),
            Key::new(
                "at_end",
                Kind::Word(&["recycle", "stop"]),
                "After the last row comes the first, or the user ends.",
            )
            .default("recycle"),
            Key::new(
                "share",
                Kind::Word(&["all", "group", "user"]),
                "Who takes rows from one place.",
            )
            .default("all"),
            Key::new("random", Kind::Bool, "Rows in random order, each drawn anew.")
                .default("false"),
        ],
    )
};

/// A file of rows.
static CSV: Shape = Shape::new(
    "a file of rows",
    "A CSV file (RFC 4180).",
    &[
        Key::new("file", Kind::Text, "The file.").required(),
        Key::new("columns", Kind::List(&Kind::Form(Form::Name)), "Names of the columns.")
            .default("the first line"),
        Key::new("delimiter", Kind::Text, "What stands between values.").default("\",\""),
        Key::new("quotes", Kind::Bool, "Values may stand in quotation marks.").default("true"),
    ],
);

/// Tokens.
static JWT: Shape = Shape::new(
    "tokens",
    "Signed tokens (RFC 7519), made before the load.",
    &[
        Key::new("count", COUNT, "How many.").required(),
        Key::new("algorithm", Kind::Word(&["RS256", "ES256", "HS256"]), "How they are signed.")
            .default("RS256"),
        Key::new(
            "key",
            Kind::Text,
            "File with the private key (PEM, PKCS #8) or the shared secret.",
        )
        .default("a new one"),
        Key::new("jwks", Kind::Text, "File that the key set is written to, for the server."),
        Key::new("kid", Kind::Text, "`kid` in the head.").default("lab"),
        Key::new(
            "claims",
            Kind::Json,
            "Claims of all of them; `sub`, `jti`, `iat` and `exp` are added.",
        ),
        Key::new("lifetime", LENGTH, "How long they are good for.").default("1d"),
    ],
);
