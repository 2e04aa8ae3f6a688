//! Keys of an upstream's targets, health and retries, and of upgrades.

use crate::shape::{Form, Group, Key, Kind, Shape};

const POSITIVE: Kind = Kind::Form(Form::PositiveDuration);
const COUNT: Kind = Kind::Integer(1, 1_000_000);

/// An item of `targets`.
pub(crate) static TARGET: Shape = Shape {
    slips: &[("target", "write `url`"), ("share", "write `weight`: its part beside the others'")],
    ..Shape::new(
        "a target with a weight",
        "A server and its part of the requests.",
        &[
            Key::new("url", Kind::Form(Form::Target), "`http://host:port` or `https://host:port`.")
                .required(),
            Key::new(
                "weight",
                Kind::Integer(0, 1_000_000),
                "Its part of the requests beside the other targets' weights; 0: it gets none.",
            )
            .default("1"),
        ],
    )
};

/// `hash` of an upstream.
pub(crate) static HASH: Shape = Shape {
    groups: &[Group { keys: &["header", "cel"], required: true }],
    ..Shape::new(
        "the hash of an upstream",
        "What requests are kept together by: exactly one of these.",
        &[
            Key::new("header", Kind::Form(Form::Header), "The value of this request header."),
            Key::new(
                "cel",
                Kind::Form(Form::Cel),
                "What this gives, in CEL over `request`, `claims` and `consumer`.",
            ),
        ],
    )
};

/// `health` of an upstream.
pub(crate) static HEALTH: Shape = Shape::new(
    "the health of an upstream",
    "What takes targets out of service and brings them back. When all are out, requests go to all.",
    &[
        Key::new(
            "failures",
            Kind::Integer(0, 1_000_000),
            "Failures in a row (no connection, closed, too late, no HTTP) that take a target out; 0 switches it off.",
        )
        .default("3"),
        Key::new(
            "errors",
            Kind::Object(&ERROR_SHARE),
            "The share of answers with a status of 500 or above that takes a target out.",
        )
        .default("not looked at"),
        Key::new(
            "pause",
            POSITIVE,
            "How long failures and errors keep it out before one request tries it again.",
        )
        .default("10s"),
        Key::new("check", Kind::Object(&CHECK), "Requests of weir's own that ask each target how it is.")
            .default("none are sent"),
        Key::new(
            "most_out",
            Kind::Form(Form::Percent),
            "Most targets that are out at once, for whatever reason.",
        )
        .default("100%"),
    ],
);

/// `errors` of a health.
pub(crate) static ERROR_SHARE: Shape = Shape::new(
    "the share of errors",
    "Too many answers with a status of 500 or above.",
    &[
        Key::new("share", Kind::Form(Form::Percent), "From this share on a target is taken out.")
            .default("50%"),
        Key::new("requests", COUNT, "Fewest answers that are counted as a share.").default("20"),
        Key::new("window", POSITIVE, "How long is counted before a new count begins.")
            .default("10s"),
    ],
);

/// `check` of a health.
pub(crate) static CHECK: Shape = Shape {
    slips: &[
        ("interval", "write `every`"),
        ("status", "write `statuses`"),
        ("rise", "write `healthy`"),
        ("fall", "write `unhealthy`"),
    ],
    ..Shape::new(
        "a health check",
        "A GET that asks a target how it is, over a connection of its own, from one worker of the process.",
        &[
            Key::new("path", Kind::Text, "Path and query that are asked for.").required(),
            Key::new("every", POSITIVE, "From one to the next, at least 1s.").default("5s"),
            Key::new("timeout", POSITIVE, "Time for all of it.").default("1s"),
            Key::new("healthy", COUNT, "So many good ones in a row bring a target back.")
                .default("2"),
            Key::new("unhealthy", COUNT, "So many bad ones in a row take it out.").default("3"),
            Key::new(
                "statuses",
                Kind::OneOrMany(&Kind::Integer(200, 599)),
                "Statuses of a good answer.",
            )
            .default("200 to 299"),
        ],
    )
};

/// `retries` of an upstream.
pub(crate) static RETRIES: Shape = Shape {
    slips: &[
        ("attempts", "write `tries`: the first one counts"),
        ("count", "write `tries`: the first one counts"),
        ("on", "write `statuses`; what was not answered at all is always tried again"),
        ("per_try_timeout", "write `timeout`"),
        ("hedging", "write `hedge: 50ms`"),
    ],
    ..Shape::new(
        "the retries of an upstream",
        "How requests are sent again: after a failed connection, one closed without a byte of answer, certain statuses, a try that took too long. A body that is not at hand any more is not.",
        &[
            Key::new("tries", Kind::Integer(2, 10), "Tries in all, the first among them.").default("3"),
            Key::new(
                "statuses",
                Kind::Either(&[Kind::Word(&["none"]), Kind::OneOrMany(&Kind::Integer(400, 599))]),
                "Answers after which there is another try.",
            )
            .default("[502, 503, 504]"),
            Key::new("timeout", POSITIVE, "Time of each try, from its last byte to the first byte of its answer.")
                .default("the upstream's `timeout`"),
            Key::new(
                "budget",
                Kind::Form(Form::Percent),
                "Retry budget: retries permitted as a share of the requests of the last 10 s, in addition to `minimum`.",
            )
            .default("20%"),
            Key::new("minimum", Kind::Integer(0, 1_000_000), "Retries per second that are permitted in addition to `budget`, averaged over 10 s.")
                .default("3"),
            Key::new(
                "backoff",
                Kind::Form(Form::Duration),
                "Longest pause before the second try, doubled for each further one, at most tenfold; each pause is random, up to that.",
            )
            .default("25ms"),
            Key::new(
                "hedge",
                POSITIVE,
                "After this long without the head of an answer a GET, HEAD, PUT, DELETE, OPTIONS or TRACE whose body is at hand goes to another target, too, within the budget; the first good answer counts.",
            )
            .default("never"),
            Key::new(
                "methods",
                Kind::Word(&["idempotent", "any"]),
                "Whose requests are sent again though they may have been dealt with: GET, HEAD, PUT, DELETE, OPTIONS and TRACE only, or all.",
            )
            .default("idempotent"),
        ],
    )
};

/// `upgrade` of a proxy.
pub(crate) static UPGRADE: Shape = Shape {
    slips: &[
        ("idle_timeout", "write `idle`"),
        ("timeout", "write `idle`, or `lifetime` for all of it"),
        ("websocket", "write `protocols: websocket`"),
    ],
    ..Shape::new(
        "the upgrades of a proxy",
        "What connections may become once client and upstream agree: bytes both ways, which no policy looks at any more.",
        &[
            Key::new("protocols", Kind::OneOrMany(&Kind::Form(Form::Protocol)), "Protocols that may be asked for.")
                .required(),
            Key::new("origins", Kind::OneOrMany(&Kind::Form(Form::Origin)), "Origins whose pages may open WebSockets (the `Origin` header of browsers), beside pages of the host that the request names; `*` for every page.")
                .default("pages of the same host"),
            Key::new("idle", POSITIVE, "How long no byte may pass in either direction.").default("5m"),
            Key::new("lifetime", POSITIVE, "How long one may last.").default("as long as it likes"),
            Key::new("reload", POSITIVE, "How long one may go on under the configuration it began with, once there is another; they end at random moments of the last half of it.")
                .default("10m"),
        ],
    )
};
