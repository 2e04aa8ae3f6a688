//! Every key of a scenario, described once: the check and the JSON Schema walk this description.

use weir_config::document::{Form, Group, Key, Kind, Names, Shape};

/// A number of something, at least one.
const COUNT: Kind = Kind::Integer(1, 10_000_000);
/// A size in bytes, with a unit or without.
const SIZE: Kind = Kind::Either(&[Kind::Integer(0, 1 << 30), Kind::Form(Form::Size)]);
/// A rate, `20000/s` or a number of iterations a second.
const RATE: Kind = Kind::Either(&[Kind::Integer(1, 10_000_000), Kind::Form(Form::Rate)]);
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
            Key::new("command", Kind::List(&Kind::Loose), "A program and its arguments."),
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
        Key::new("port", Kind::Integer(1, 65_535), "Where it listens.").default("8688"),
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
pub(super) static FEEDER: Shape = Shape {
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
pub(super) static CSV: Shape = Shape::new(
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
pub(super) static JWT: Shape = Shape::new(
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
pub(super) const METHODS: [&str; 7] = ["get", "post", "put", "patch", "delete", "head", "options"];
const METHOD: &str = "Path at the target's base, or a whole URL.";

/// A body that is made.
pub(super) static BODY: Shape = Shape {
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
pub(super) static CHECK: Shape = Shape {
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
pub(super) static EXTRACT: Shape = Shape {
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
pub(super) static THINK: Shape = Shape::new(
    "a pause",
    "A pause of random length.",
    &[
        Key::new("mean", TIME, "Its mean; normally distributed with `deviation`."),
        Key::new("deviation", TIME, "Its standard deviation.").default("0"),
        Key::new("from", TIME, "Shortest; evenly distributed up to `to`."),
        Key::new("to", TIME, "Longest."),
    ],
);

/// A load.
pub(super) static LOAD: Shape = Shape {
    slips: &[
        ("users", "`vus` of `constant-vus` and `shared-iterations`, `users` of `ramp-users`"),
        ("concurrency", "write `vus`"),
        ("rps", "write `rate: 100/s`"),
        ("requests", "write `iterations`"),
    ],
    ..Shape::new(
        "a load",
        "How many users or iterations, and when.",
        &[
            Key::new("executor", Kind::Word(&EXECUTORS), "The shape of the load.").required(),
            Key::new("vus", COUNT, "Users of `constant-vus` and `shared-iterations`; of `ramping-vus` those at the start."),
            Key::new("users", COUNT, "Users of `ramp-users`."),
            Key::new("iterations", COUNT, "Of each user (`constant-vus`, `ramp-users`), or of all together (`shared-iterations`)."),
            Key::new("ramp", TIME, "Time in which the users of `constant-vus` begin.").default("0"),
            Key::new("over", TIME, "Time in which the users of `ramp-users` begin.").default("0"),
            Key::new("duration", LENGTH, "How long it goes on."),
            Key::new("stages", Kind::List(&Kind::Object(&STAGE)), "Of `ramping-vus` and `ramping-arrival-rate`: straight lines from target to target."),
            Key::new("rate", RATE, "Iterations a second of `constant-arrival-rate`; of `ramping-arrival-rate` those at the start."),
            Key::new("start", RATE, "First rate of `find-max`.").default("100/s"),
            Key::new("slo", Kind::Object(&SLO), "What `find-max` has to keep."),
            Key::new("precision", SHARE, "Where `find-max` stops.").default("2%"),
            Key::new("hold", LENGTH, "How long `find-max` holds each rate.").default("10s"),
            Key::new("confirm", TIME, "How long `find-max` holds what it found.").default("60s"),
            Key::new("quantum", LENGTH, "Iterations begin at multiples of it: a coarser one costs the generator less.").default("1ms"),
            Key::new("max_in_flight", COUNT, "Users, and so connections, of an open model at most.").default("1000"),
            Key::new("backlog", Kind::Integer(0, 10_000_000), "Iterations that may wait for a user before further ones are dropped.").default("as many as in 10 s"),
            Key::new("groups", Kind::Word(&["together", "consecutive", "parallel"]), "All requests in one iteration, or each request a group of its own: one after the other or all at once.").default("together"),
            Key::new("delay", TIME, "Before it begins.").default("0"),
            Key::new("pacing", LENGTH, "Least time from one iteration of a user to its next."),
            Key::new("cookies", Kind::Bool, "Users keep cookies.").default("false"),
            Key::new("new_user", Kind::Bool, "Each iteration is a new user: no cookies, a new connection.").default("false"),
            Key::new("on_error", Kind::Word(&["continue", "next-iteration", "stop-user", "stop"]), "What a failed sample does.").default("continue"),
        ],
    )
};

/// The executors.
const EXECUTORS: [&str; 7] = [
    "constant-vus",
    "ramping-vus",
    "shared-iterations",
    "ramp-users",
    "constant-arrival-rate",
    "ramping-arrival-rate",
    "find-max",
];

/// A stage.
pub(super) static STAGE: Shape = Shape::new(
    "a stage",
    "A straight line to a target.",
    &[
        Key::new("duration", TIME, "How long it takes.").required(),
        Key::new(
            "target",
            Kind::Either(&[Kind::Integer(0, 10_000_000), Kind::Form(Form::Rate)]),
            "Users, or iterations a second, at its end.",
        )
        .required(),
    ],
);

/// What `find-max` has to keep.
pub(super) static SLO: Shape = Shape::new(
    "a promise",
    "What the highest rate has to keep.",
    &[
        Key::new(
            "errors",
            Kind::Either(&[Kind::Integer(0, 0), Kind::Form(Form::Percent)]),
            "Share of errors at most.",
        )
        .default("0"),
        Key::new("p50", LENGTH, "Half of the response times are below."),
        Key::new("p90", LENGTH, "90 % are below."),
        Key::new("p95", LENGTH, "95 % are below."),
        Key::new("p99", LENGTH, "99 % are below."),
        Key::new("p99.9", LENGTH, "99.9 % are below."),
    ],
);

/// Percentiles of a promise.
pub(super) const PERCENTILES: [(&str, f64); 5] =
    [("p50", 50.0), ("p90", 90.0), ("p95", 95.0), ("p99", 99.0), ("p99.9", 99.9)];

static PROTOCOL: Shape = Shape {
    groups: &[Group { keys: &["stabilise", "fixed"], required: true }],
    ..Shape::new(
        "a protocol",
        "How a cell is measured.",
        &[
            Key::new(
                "stabilise",
                Kind::Object(&STABILISE),
                "Rounds until the server is stable; then further ones are recorded.",
            ),
            Key::new("fixed", Kind::Object(&FIXED), "One run whose beginning is cut off."),
        ],
    )
};

/// Stabilise, then measure.
pub(super) static STABILISE: Shape = Shape::new(
    "stabilising",
    "Rounds until the server is stable; then further ones are recorded.",
    &[
        Key::new(
            "rounds",
            Kind::Integer(3, 100),
            "Rounds recorded, and rounds in each half of those that decide.",
        )
        .default("5"),
        Key::new("margin", SHARE, "Largest difference that counts as none.").default("5%"),
        Key::new("max_rounds", Kind::Integer(6, 10_000), "After so many it is UNSTABLE.")
            .default("60"),
        Key::new("least", LENGTH, "Shortest round.").default("2s"),
        Key::new("longest", LENGTH, "Longest round.").default("10s"),
        Key::new("variation", SHARE, "Largest coefficient of variation from round to round.")
            .default("2%"),
        Key::new("exact", Kind::Bool, "Iterations stay as they are written.").default("false"),
        Key::new(
            "idle",
            Kind::Either(&[Kind::Word(&["drained"]), TIME]),
            "What is waited for between rounds: until queues are empty, or a time.",
        )
        .default("0"),
    ],
);

/// A run with a cut.
pub(super) static FIXED: Shape = Shape::new(
    "a fixed run",
    "One run whose beginning is cut off.",
    &[Key::new("cut", TIME, "How much.").required()],
);

/// What is watched.
pub(super) static OBSERVE: Shape = Shape::new(
    "what is watched",
    "What is watched beside the load, on the same time axis.",
    &[
        Key::new("every", LENGTH, "How often.").default("1s"),
        Key::new(
            "pids",
            Kind::List(&Kind::Loose),
            "Processes: `gateway` and `backend` as the Lab started them, or numbers.",
        ),
        Key::new("metrics", Kind::Text, "URL of the server's Prometheus metrics."),
        Key::new("gauges", Kind::List(&Kind::Text), "Names of metrics."),
        Key::new("gc_log", Kind::Text, "Unified GC log of a JVM."),
    ],
);
