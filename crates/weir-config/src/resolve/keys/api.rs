//! Keys of APIs and routes.

use super::cache::CACHE_KEY;
use super::calls::CALLS_KEY;
use super::files::FILES_KEY;
use super::normalization::NORMALIZATION_KEY;
use super::openapi::{MOCK_KEY, OPENAPI_KEY, VALIDATE_KEY};
use super::resubmit::RESUBMIT_KEY;
use super::xml::{FROM_KEY, XML_KEY};
use super::{HASH, POOL_HANDLER, SCRIPT, UPGRADE, capture};
use crate::shape::{Form, Group, Key, Kind, Names, Shape};

const LATER: &[&str] = &["explain", "tracker"];

/// A value of `apis`.
pub(crate) static API: Shape = Shape {
    later: LATER,
    slips: &[
        ("host", "write `hosts`"),
        ("path", "the path of an API is its `base`"),
        ("prefix", "write `base`"),
        ("headers", "write `request: {headers: {set: …}}` or `response: {headers: {set: …}}`"),
    ],
    ..Shape::new(
        "an API",
        "A named set of routes under one base path.",
        &[
            Key::new(
                "base",
                Kind::Form(Form::Base),
                "Base path; the longest one that fits takes a request.",
            )
            .required(),
            Key::new(
                "hosts",
                Kind::OneOrMany(&Kind::Form(Form::Host)),
                "Hosts it answers to; `*.example.com` stands for one or more labels in front.",
            )
            .default("every host"),
            OPENAPI_KEY,
            VALIDATE_KEY,
            AUTH_KEY,
            NORMALIZATION_KEY,
            CLIENTS_KEY,
            Key::new("cors", Kind::Object(&CORS), "Cross-origin rules.").default("no CORS headers"),
            LIMIT_KEYS,
            Key::new(
                "limits",
                Kind::Object(&ROUTE_LIMITS),
                "Bounds for its routes, instead of the server's.",
            ),
            COMPRESS_KEY,
            CACHE_KEY,
            capture("the Tracker's"),
            RESUBMIT_KEY,
            Key::new(
                "timeout",
                Kind::Form(Form::PositiveDuration),
                "Time to the first byte of a proxied answer, instead of the upstream's.",
            ),
            Key::new(
                "request",
                Kind::Object(&API_EDITS),
                "What is done to requests before the handler.",
            ),
            Key::new(
                "response",
                Kind::Object(&API_EDITS),
                "What is done to answers after the handler.",
            ),
            Key::new("routes", Kind::List(&Kind::Object(&ROUTE)), "Its routes.").required(),
        ],
    )
};

const AUTH_KEY: Key = Key::new(
    "auth",
    ACCESS,
    "Who may call: any one of these is enough. `anonymous` in the list lets requests without a credential pass; `none` opens it. Of an API with `openapi`, a mapping from its security schemes to auths (`{bearerAuth: corp}`).",
);
const LIMIT_LIST: Kind = Kind::OneOrMany(&Kind::Object(&LIMIT));
const COMPRESSION: Kind = Kind::Either(&[Kind::Bool, Kind::Object(&COMPRESS)]);
const LIMIT_KEYS: Key = Key::new(
    "limit",
    LIMIT_LIST,
    "Rate limits beside the consumer's plan; those of the API and of the route all hold.",
);
const COMPRESS_KEY: Key =
    Key::new("compress", COMPRESSION, "zstd, brotli or gzip, as the client wants.")
        .default("false");

const CLIENTS_KEY: Key = Key::new(
    "clients",
    Kind::Object(&CLIENTS),
    "From where it may be called; what API and route say holds both.",
);

/// `clients` of an API or a route.
pub(crate) static CLIENTS: Shape = Shape {
    slips: &[
        ("block", "write `deny`"),
        ("whitelist", "write `allow`"),
        ("blacklist", "write `deny`"),
    ],
    ..Shape::new(
        "the clients",
        "Addresses that may call and such that may not, as far as trusted hops tell them. A request from elsewhere is answered with 403.",
        &[
            Key::new(
                "allow",
                Kind::OneOrMany(&Kind::Form(Form::Network)),
                "Networks that may call, and only these.",
            )
            .default("all"),
            Key::new(
                "deny",
                Kind::OneOrMany(&Kind::Form(Form::Network)),
                "Networks that may not, whatever is allowed.",
            ),
        ],
    )
};

/// `auth` of an API or a route.
pub(crate) const ACCESS: Kind = Kind::OneOrMany(&Kind::Either(&[
    Kind::Form(Form::Name),
    Kind::Table(Names::Name, &Kind::Either(&[Kind::Form(Form::Name), Kind::Object(&SCOPED)])),
]));

/// What an auth is asked for beside itself.
pub(crate) static SCOPED: Shape = Shape {
    short: Some("scopes"),
    ..Shape::new(
        "an access rule",
        "What is asked for beside the auth.",
        &[Key::new("scopes", Kind::OneOrMany(&Kind::Text), "Scopes that must be granted, too.")],
    )
};

const METHOD: Kind = Kind::Form(Form::Path);
/// Keys that name a route's method and path.
pub(crate) const METHODS: &[&str] =
    &["get", "head", "post", "put", "patch", "delete", "options", "path"];

/// An item of `routes`.
pub(crate) static ROUTE: Shape = Shape {
    later: &["tracker"],
    slips: &[
        ("method", "write `get: /path`, or `path: /path` with `methods: [get]`"),
        ("url", "write `get: /path`, or `path: /path` for every method"),
        ("upstream", "write `proxy: NAME`"),
        ("headers", "write `request: {headers: {set: …}}` or `response: {headers: {set: …}}`"),
        (
            "timeout",
            "write `proxy: {upstream: NAME, timeout: …}`, or `limits: {request: …}` for the whole request",
        ),
    ],
    groups: &[
        Group { keys: METHODS, required: false },
        Group { keys: &["reply", "proxy", "calls", "files", "script", "pool", "mock"], required: true },
    ],
    ..Shape::new(
        "a route",
        "Methods and a path, bound to one handler.",
        &[
            Key::new("get", METHOD, "Path for GET (HEAD follows)."),
            Key::new("head", METHOD, "Path for HEAD."),
            Key::new("post", METHOD, "Path for POST."),
            Key::new("put", METHOD, "Path for PUT."),
            Key::new("patch", METHOD, "Path for PATCH."),
            Key::new("delete", METHOD, "Path for DELETE."),
            Key::new("options", METHOD, "Path for OPTIONS."),
            Key::new(
                "path",
                METHOD,
                "Path below the base: `/x/{id}`, with `/*` at the end for the rest.",
            ),
            Key::new(
                "methods",
                Kind::OneOrMany(&Kind::Form(Form::Method)),
                "Methods, beside `path`.",
            )
            .default("every method"),
            Key::new("op", Kind::Form(Form::Operation), "Name of the operation, for metrics and logs. Of an API with `openapi` its `operationId`, which says methods and path as well.")
                .default("METHODS path"),
            VALIDATE_KEY,
            AUTH_KEY,
            NORMALIZATION_KEY,
            CLIENTS_KEY,
            LIMIT_KEYS,
            Key::new("limits", Kind::Object(&ROUTE_LIMITS), "Bounds, instead of the API's."),
            COMPRESS_KEY,
            CACHE_KEY,
            capture("the API's"),
            RESUBMIT_KEY,
            Key::new(
                "request",
                Kind::Object(&REQUEST),
                "What is done to the request before the handler.",
            ),
            Key::new(
                "response",
                Kind::Object(&RESPONSE),
                "What is done to the answer after the handler.",
            ),
            Key::new("reply", Kind::Object(&REPLY), "A declared answer."),
            Key::new(
                "proxy",
                Kind::Either(&[Kind::Form(Form::Name), Kind::Object(&PROXY)]),
                "An upstream answers; a name alone is short for `{upstream: NAME, path: keep, host: upstream}`.",
            ),
            CALLS_KEY,
            Key::new(
                "pool",
                Kind::Either(&[Kind::Form(Form::Name), Kind::Object(&POOL_HANDLER)]),
                "An agent of a pool answers; a name alone is short for `{name: NAME}`.",
            ),
            FILES_KEY,
            Key::new(
                "script",
                Kind::Either(&[Kind::Text, Kind::Object(&SCRIPT)]),
                "A JavaScript module answers; a path alone is short for `{file: PATH}`.",
            ),
            MOCK_KEY,
        ],
    )
};

/// `limits` of an API or a route.
pub(crate) static ROUTE_LIMITS: Shape = Shape::new(
    "the limits of an API or a route",
    "Bounds on requests and answers.",
    &[
        Key::new("body", Kind::Form(Form::Size), "Largest request body."),
        Key::new("answer", Kind::Form(Form::Size), "Largest answer body, before maps and compression: what is declared longer is answered with 502, what turns out longer is broken off.").default("any"),
        Key::new(
            "request",
            Kind::Either(&[Kind::Word(&["none"]), Kind::Form(Form::PositiveDuration)]),
            "Time from the end of the request head to the last byte of the answer; `none` for event streams.",
        ),
    ],
);

/// An item of `limit`.
pub(crate) static LIMIT: Shape = Shape {
    short: Some("rate"),
    ..Shape::new(
        "a rate limit",
        "In no interval t are more than burst + rate·t requests admitted.",
        &[
            Key::new("rate", Kind::Form(Form::Rate), "Requests in a time.").required(),
            Key::new("burst", Kind::Integer(1, 1_000_000_000), "How many at once.").default("the requests of `rate`"),
            Key::new(
                "key",
                Kind::Either(&[Kind::Word(&["consumer", "address"]), Kind::Object(&LIMIT_KEY)]),
                "Whose requests are counted together: the consumer (the address when there is none), the client's address, or a text that CEL gives.",
            )
            .default("consumer"),
        ],
    )
};

/// `key` of a rate limit.
pub(crate) static LIMIT_KEY: Shape = Shape::new(
    "the key of a rate limit",
    "A text that an expression gives.",
    &[Key::new(
        "cel",
        Kind::Form(Form::Cel),
        "CEL over `request`, `claims` and `consumer`; the address when it gives none.",
    )
    .required()],
);

/// `compress`.
pub(crate) static COMPRESS: Shape = Shape::new(
    "compression",
    "zstd, brotli or gzip, as the client wants, where the answer is neither small nor compressed already.",
    &[
        Key::new("min_size", Kind::Form(Form::Size), "Smallest body that is worth it.")
            .default("1KiB"),
        Key::new("level", Kind::Integer(1, 9), "Level, as each coding understands it; brotli is dear above 4.").default("1"),
        Key::new(
            "codings",
            Kind::OneOrMany(&Kind::Word(&["zstd", "br", "gzip"])),
            "Codings on offer; a client gets the one it wants most, of those it wants alike the first.",
        )
        .default("zstd, br, gzip"),
    ],
);

/// `cors` of an API.
pub(crate) static CORS: Shape = Shape {
    short: Some("origins"),
    ..Shape::new(
        "the cross-origin rules",
        "Cross-origin rules (Fetch standard).",
        &[
            Key::new(
                "origins",
                Kind::OneOrMany(&Kind::Form(Form::Origin)),
                "Who may read answers; `*` for everybody.",
            )
            .required(),
            Key::new(
                "methods",
                Kind::OneOrMany(&Kind::Form(Form::Method)),
                "Methods a preflight allows.",
            )
            .default("those of the path"),
            Key::new(
                "headers",
                Kind::OneOrMany(&Kind::Form(Form::Header)),
                "Request headers a preflight allows.",
            )
            .default("those asked for"),
            Key::new(
                "expose",
                Kind::OneOrMany(&Kind::Form(Form::Header)),
                "Response headers scripts may read.",
            ),
            Key::new(
                "credentials",
                Kind::Bool,
                "Cookies and Authorization may be sent; not together with `*`.",
            )
            .default("false"),
            Key::new("max_age", Kind::Form(Form::Duration), "How long a preflight may be cached.")
                .default("10m"),
        ],
    )
};

/// Header edits.
pub(crate) static EDITS: Shape = Shape {
    slips: &[("add", "write `set`: a header of the same name is replaced")],
    ..Shape::new(
        "header edits",
        "Removed first, then set.",
        &[
            Key::new(
                "set",
                Kind::Table(Names::Header, &Kind::Loose),
                "Headers to set; one of the same name is replaced.",
            ),
            Key::new(
                "remove",
                Kind::OneOrMany(&Kind::Form(Form::EditableHeader)),
                "Headers to remove.",
            ),
        ],
    )
};

const HEADERS: Key = Key::new("headers", Kind::Object(&EDITS), "Header edits.");
const MAP: &str = "A JSON structure whose leaves are RFC 9535 paths into the body (`$.a.b`), `{literal: …}` or `{cel: …}`.";

/// `request` and `response` of an API.
pub(crate) static API_EDITS: Shape =
    Shape::new("what is done on the way", "For every route of the API.", &[HEADERS]);

/// `request` of a route.
pub(crate) static REQUEST: Shape = Shape {
    groups: MAPS,
    ..Shape::new(
        "what is done to the request",
        "Before the handler: at most one of `map` and `script`.",
        &[
            Key::new("map", Kind::Json, MAP),
            FROM_KEY,
            Key::new("as", Kind::Word(&["json", "xml"]), "What the map gives is sent on as.")
                .default("json"),
            XML_KEY,
            Key::new(
                "script",
                Kind::Either(&[Kind::Text, Kind::Object(&SCRIPT)]),
                "A script whose default export gives the body that goes on, or `request.with({headers, body})`; a `Response` is the answer.",
            ),
            HEADERS,
        ],
    )
};

/// `response` of a route.
pub(crate) static RESPONSE: Shape = Shape {
    groups: MAPS,
    ..Shape::new(
        "what is done to the answer",
        "After the handler: at most one of `map`, which applies to answers with a 2xx status in what it reads, and `script`, which gets every answer.",
        &[
            Key::new("map", Kind::Json, MAP),
            FROM_KEY,
            Key::new(
                "as",
                Kind::OneOrMany(&Kind::Word(&["json", "xml"])),
                "Formats of what the map gives, the preferred one first; the Accept header chooses.",
            )
            .default("json"),
            XML_KEY,
            Key::new(
                "script",
                Kind::Either(&[Kind::Text, Kind::Object(&SCRIPT)]),
                "A script whose default export gets the answer and the request, and gives the body in its place or a whole `Response`.",
            ),
            HEADERS,
        ],
    )
};

const MAPS: &[Group] = &[Group { keys: &["map", "script"], required: false }];

/// `reply`.
pub(crate) static REPLY: Shape = Shape {
    short: Some("text"),
    groups: &[Group { keys: &["json", "value", "map", "text", "bytes"], required: false }],
    slips: &[
        ("body", "write `json`, `value`, `text` or `bytes`"),
        ("content_type", "write `headers: {content-type: …}`"),
        ("code", "write `status`"),
    ],
    ..Shape::new(
        "a reply",
        "A declared answer: at most one of `json`, `value`, `map`, `text` and `bytes`; none of them is an empty body.",
        &[
            Key::new("status", Kind::Integer(200, 599), "Status code.").default("200"),
            Key::new("headers", Kind::Table(Names::Header, &Kind::Loose), "Headers."),
            Key::new("json", Kind::Json, "A value that is always sent as JSON."),
            Key::new(
                "value",
                Kind::Json,
                "A value in the formats of `as`, negotiated by the Accept header.",
            ),
            Key::new(
                "map",
                Kind::Json,
                "A value mapped from the request: a JSON structure whose leaves are RFC 9535 paths into the body, `{literal: …}` or `{cel: …}`; in the formats of `as`.",
            ),
            Key::new("text", Kind::Text, "A text."),
            Key::new("bytes", Kind::Form(Form::Base64), "Bytes in Base64."),
            Key::new(
                "as",
                Kind::OneOrMany(&Kind::Word(&["json", "xml"])),
                "Formats of `value` and `map`, the preferred one first.",
            )
            .default("json"),
            Key::new("indent", Kind::Integer(0, 16), "Spaces a level; 0 is compact.").default("0"),
            FROM_KEY,
            XML_KEY,
        ],
    )
};

/// `proxy` written out.
pub(crate) static PROXY: Shape = Shape::new(
    "a proxy",
    "An upstream answers.",
    &[
        Key::new("upstream", Kind::Form(Form::Name), "Which.").required(),
        Key::new("instead", Kind::List(&Kind::Object(&INSTEAD)), "Other upstreams that get some of the requests; the first that takes one has it.").default("none"),
        Key::new("mirror", Kind::OneOrMany(&Kind::Object(&MIRROR)), "Upstreams that get copies of requests; nobody gets their answers.").default("none"),
        Key::new("path", Kind::Text, "The path it is asked for: `keep`, `strip-base`, or a template (`/v2/{id}`, with `{*}` for the rest a wildcard took).").default("keep"),
        Key::new("host", Kind::Text, "The Host header it gets: `upstream` (the target's own), `client`, or this one.").default("upstream"),
        Key::new("query", Kind::Either(&[Kind::Word(&["keep", "drop"]), Kind::Object(&QUERY)]), "The query it gets.").default("keep"),
        HEADERS,
        Key::new("timeout", Kind::Form(Form::PositiveDuration), "Time to the first byte of the answer, instead of the upstream's."),
        Key::new("upgrade", Kind::Either(&[Kind::Form(Form::Protocol), Kind::Object(&UPGRADE)]), "What its connections may become, such as `websocket`; a protocol alone is short for `{protocols: PROTOCOL}`.").default("nothing: who asks for a WebSocket is refused"),
    ],
);

/// An item of `instead`.
pub(crate) static INSTEAD: Shape = Shape {
    slips: &[
        ("weight", "write `share: 5%`"),
        ("percent", "write `share: 5%`"),
        ("hash", "write `by`"),
    ],
    ..Shape::new(
        "another upstream",
        "An upstream that gets those requests for which `when` holds, and of them the `share`.",
        &[
            Key::new("upstream", Kind::Form(Form::Name), "Which.").required(),
            Key::new(
                "when",
                Kind::Form(Form::Cel),
                "CEL over `request`, `claims` and `consumer`: `request.headers['x-beta'] == '1'`. What cannot be evaluated does not hold.",
            )
            .default("always"),
            Key::new(
                "share",
                Kind::Form(Form::Percent),
                "How much of them, from `0.01%` to `100%`.",
            )
            .default("all"),
            Key::new(
                "by",
                Kind::Either(&[Kind::Word(&["address"]), Kind::Object(&HASH)]),
                "What requests are in the share, or out of it, together by. Raising the share keeps in it who was in it; a request that has nothing of the kind is out.",
            )
            .default("address"),
        ],
    )
};

/// An item of `mirror`.
pub(crate) static MIRROR: Shape = Shape {
    short: Some("upstream"),
    slips: &[
        ("percent", "write `share: 5%`"),
        ("weight", "write `share: 5%`"),
        ("by", "a share of copies is drawn by lot, whoever asks"),
        ("max", "write `in_flight`"),
    ],
    ..Shape::new(
        "a mirror",
        "An upstream that gets a copy of those requests for which `when` holds, and of them the `share`, with `weir-mirrored: 1`, whatever their method. Its answers are read and thrown away.",
        &[
            Key::new("upstream", Kind::Form(Form::Name), "Which.").required(),
            Key::new(
                "when",
                Kind::Form(Form::Cel),
                "CEL over `request`, `claims` and `consumer`. What cannot be evaluated does not hold.",
            )
            .default("always"),
            Key::new(
                "share",
                Kind::Form(Form::Percent),
                "How much of them, drawn by lot, from `0.01%` to `100%`.",
            )
            .default("all"),
            Key::new(
                "body",
                Kind::Form(Form::Size),
                "Largest body that is copied, at most 1MiB; requests with a longer one are not.",
            )
            .default("64KiB"),
            Key::new(
                "in_flight",
                Kind::Integer(1, 10_000),
                "Most copies of a worker that are being made or under way to this upstream; further requests are not copied.",
            )
            .default("32"),
            Key::new(
                "timeout",
                Kind::Form(Form::PositiveDuration),
                "Time from when a copy is sent to the last byte of its answer.",
            )
            .default("5s"),
        ],
    )
};

/// `query` of a proxy.
pub(crate) static QUERY: Shape = Shape::new(
    "query edits",
    "Removed first, then set.",
    &[
        Key::new(
            "set",
            Kind::Table(Names::Parameter, &Kind::Loose),
            "Parameters to set; one of the same name is replaced. Views of the configuration and explanations show no values.",
        )
        .redacted(),
        Key::new("remove", Kind::OneOrMany(&Kind::Form(Form::Parameter)), "Parameters to remove."),
    ],
);
