//! Description of every key of a scenario, used by the check and the JSON Schema.

mod load;
mod request;
mod run;

pub(super) use load::{Grouping, PERCENTILES};
pub(super) use request::METHODS;

use super::Restart;
use crate::program::Share;
use crate::protocol::CaseOrder;
use load::LOAD;
use request::REQUEST;
use run::{LEVELS, OBSERVE, PROTOCOL, PUBLISHED};
use strum::VariantNames;
use weir_document::shape::{Group, Key, Kind, Names, Shape, format};

/// A count, at least one.
const COUNT: Kind = Kind::Integer(1, 10_000_000);
/// Values of names of `matrix` and `cases`.
const ONLY: Kind = Kind::Table(Names::Name, &Kind::OneOrMany(&Kind::Scalar));
/// Description of `only`.
const ONLY_DOC: &str = "Only for cells with these values of `matrix` and `cases`. A cell without a request or load is left out.";
/// A size in bytes, with a unit or without.
const SIZE: Kind = Kind::Either(&[Kind::Integer(0, 1 << 30), Kind::Format(format::SIZE)]);
const SHARE: Kind = Kind::Format(format::PERCENT);
const TIME: Kind = Kind::Format(format::DURATION);
const LENGTH: Kind = Kind::Format(format::POSITIVE_DURATION);

/// The file.
pub(super) static ROOT: Shape = Shape {
    misspellings: &[
        ("scenarios", "write `requests`"),
        ("request", "write `requests: [{…}]`"),
        ("executor", "write it in `load`"),
    ],
    ..Shape::new(
        "a scenario",
        "Requests, target, load and measurement.",
        &[
            Key::new("lab", Kind::Integer(1, 1), "Version of the format.").required(),
            Key::new("name", Kind::Text, "Name in reports.").default("the file's"),
            Key::new("target", Kind::Object(&TARGET), "The server under test.").required(),
            Key::new(
                "server",
                Kind::Object(&SERVER),
                "How the server is started; without, the server is already running.",
            ),
            Key::new("backend", Kind::Object(&BACKEND), "The backend of the server."),
            Key::new("cases", Kind::Object(&CASES), "Compared settings of the server."),
            Key::new(
                "matrix",
                Kind::Table(Names::Name, &VALUES),
                "Values of the load: one cell for each combination. `${name}` is the value, `${name.bytes}` its size in bytes.",
            ),
            Key::new("variables", Kind::Table(Names::Name, &Kind::Scalar), "Values for `${name}`."),
            Key::new(
                "feeders",
                Kind::Table(Names::Name, &Kind::Object(&FEEDER)),
                "Rows of values, one per iteration: `${name.column}`.",
            ),
            Key::new(
                "requests",
                Kind::List(&Kind::Object(&REQUEST)),
                "Requests of an iteration, in this order.",
            )
            .required(),
            Key::new(
                "load",
                Kind::OneOrMany(&Kind::Object(&LOAD)),
                "The load; several loads run one after the other.",
            )
            .required(),
            Key::new("protocol", Kind::Object(&PROTOCOL), "Measurement of a cell.")
                .default("one run, nothing cut off"),
            Key::new("observe", Kind::Object(&OBSERVE), "Observed subjects during the load."),
            Key::new(
                "thresholds",
                Kind::List(&Kind::Text),
                "Thresholds of the run: `p99<500ms for echo`, `error-rate<=0`, `rps>=1000`.",
            ),
            Key::new(
                "published",
                Kind::List(&Kind::Object(&PUBLISHED)),
                "Published figures, printed beside the measured ones.",
            ),
            Key::new("levels", Kind::Object(&LEVELS), "Overrides of `--quick` and `--full`."),
        ],
    )
};

const VALUES: Kind = Kind::List(&Kind::Scalar);

static TARGET: Shape = Shape {
    short: Some("base"),
    ..Shape::new(
        "the target",
        "The server under test.",
        &[
            Key::new("base", Kind::Format(format::TARGET), "Its base URL.").required(),
            Key::new(
                "http2",
                Kind::Bool,
                "HTTP/2: by ALPN over TLS, with prior knowledge otherwise.",
            )
            .default("false"),
            Key::new("insecure", Kind::Bool, "Do not verify its certificate.").default("false"),
            Key::new("connect_timeout", LENGTH, "Connect timeout.").default("10s"),
            Key::new("timeout", LENGTH, "Timeout to the end of a response.").default("60s"),
        ],
    )
};

static SERVER: Shape = Shape {
    groups: &[Group { keys: &["weir", "command"], required: true }],
    ..Shape::new(
        "the server",
        "Start of the server under test.",
        &[
            Key::new(
                "weir",
                Kind::Text,
                "A configuration file, served by this weir with a separate port and data folder for each case.",
            ),
            Key::new(
                "set",
                Kind::Table(Names::Parameter, &Kind::Scalar),
                "Settings of weir, as `weir serve --set` takes them. `${backend}` is the address of the backend.",
            ),
            Key::new(
                "command",
                Kind::List(&Kind::Scalar),
                "A program and its arguments. `${port}` is a free port for the target, `${data}` a new data folder, `${backend}` the address of the backend.",
            ),
            Key::new("folder", Kind::Text, "Working directory of the command.")
                .default("the scenario's folder"),
            Key::new(
                "env",
                Kind::Table(Names::Name, &Kind::Scalar),
                "Additional environment variables.",
            ),
            Key::new("ready", Kind::Text, "Path with a 2xx response once the server is ready.")
                .default("its port is open"),
            Key::new("patience", LENGTH, "Time to become ready.").default("30s"),
            Key::new("restart", Kind::Enum(Restart::VARIANTS), "When the server is restarted.")
                .default("case"),
        ],
    )
};

static BACKEND: Shape = Shape {
    groups: &[Group { keys: &["echo", "command"], required: true }],
    ..Shape::new(
        "the backend",
        "The backend of the server under test.",
        &[
            Key::new(
                "echo",
                Kind::Object(&ECHO),
                "weir's echo backend, which returns the request body.",
            ),
            Key::new("command", Kind::List(&Kind::Scalar), "A program and its arguments."),
            Key::new("ready", Kind::Text, "URL with a 2xx response once the backend is ready.")
                .default("its port is open"),
        ],
    )
};

static ECHO: Shape = Shape::new(
    "the echo backend",
    "weir's echo backend.",
    &[
        Key::new("port", Kind::Integer(0, 65_535), "Its port; 0 chooses a free one.")
            .default("8688"),
        Key::new("delay", TIME, "Delay of each response, without a thread per request.")
            .default("0"),
    ],
);

static CASES: Shape = Shape::new(
    "the cases",
    "Compared settings of the server: one case for each combination of factors.",
    &[
        Key::new("factors", Kind::Table(Names::Name, &VALUES), "Factors and their levels.")
            .required(),
        Key::new("apply", Kind::Object(&APPLY), "Settings of a case.").required(),
        Key::new("order", Kind::Enum(CaseOrder::VARIANTS), "Order of the rounds of the cases.")
            .default("interleaved"),
    ],
);

static APPLY: Shape = Shape::new(
    "the settings of a case",
    "Settings of a case.",
    &[
        Key::new(
            "set",
            Kind::Table(Names::Parameter, &Kind::Scalar),
            "Settings of weir, as `weir serve --set` takes them.",
        ),
        Key::new(
            "env",
            Kind::Table(Names::Name, &Kind::Scalar),
            "Environment of the server's command.",
        ),
        Key::new("args", Kind::List(&Kind::Scalar), "Arguments added to the server's command."),
    ],
);

/// A feeder.
static FEEDER: Shape = Shape {
    groups: &[Group { keys: &["csv", "jwt"], required: true }],
    ..Shape::new(
        "a feeder",
        "Rows of values, one per iteration.",
        &[
            Key::new(
                "csv",
                Kind::Either(&[Kind::Text, Kind::Object(&CSV)]),
                "A file with the names of the columns in its first line.",
            ),
            Key::new("jwt", Kind::Object(&JWT), "Signed tokens in a column `token`."),
            Key::new(
                "at_end",
                Kind::Enum(&["recycle", "stop"]),
                "Start again after the last row; otherwise the user ends.",
            )
            .default("recycle"),
            Key::new("share", Kind::Enum(Share::VARIANTS), "Scope of the read position.")
                .default("all"),
            Key::new("random", Kind::Bool, "Random rows, each chosen independently.")
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
        Key::new("columns", Kind::List(&Kind::Format(format::NAME)), "Names of the columns.")
            .default("the first line"),
        Key::new("delimiter", Kind::Text, "Delimiter of values.").default("\",\""),
        Key::new("quotes", Kind::Bool, "Values may be quoted.").default("true"),
    ],
);

/// Tokens.
static JWT: Shape = Shape::new(
    "tokens",
    "Signed tokens (RFC 7519), created before the load.",
    &[
        Key::new("count", COUNT, "Number of tokens.").required(),
        Key::new("algorithm", Kind::Enum(&["RS256", "ES256", "HS256"]), "Signature algorithm.")
            .default("RS256"),
        Key::new(
            "key",
            Kind::Text,
            "File with the private key (PEM, PKCS #8) or the shared secret.",
        )
        .default("a generated key"),
        Key::new("jwks", Kind::Text, "Output file for the key set, for the server."),
        Key::new("kid", Kind::Text, "`kid` in the head.").default("lab"),
        Key::new(
            "claims",
            Kind::Json,
            "Claims of all tokens; `sub`, `jti`, `iat` and `exp` are added.",
        ),
        Key::new("lifetime", LENGTH, "Lifetime of the tokens.").default("1d"),
    ],
);
