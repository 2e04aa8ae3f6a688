//! Keys that hold for the whole server.

use super::{
    API, AUTH, CONSUMER, JOURNAL, MONITOR, PLAN, POOL, SCRIPTS, TELEMETRY, TRACKER, UPSTREAM,
};
use crate::shape::{Form, Key, Kind, Names, Shape};

/// The main file.
pub(crate) static ROOT: Shape = Shape {
    slips: &[
        ("port", "write `listen: [{addr: \"0.0.0.0:8080\"}]`"),
        ("routes", "routes stand in an API: `apis: {NAME: {base: /, routes: […]}}`"),
        ("services", "backends are called `upstreams`"),
        ("backends", "backends are called `upstreams`"),
        ("logging", "write `log: {access: json}`"),
        ("otlp", "write `telemetry`"),
        ("opentelemetry", "write `telemetry`"),
    ],
    ..Shape::new(
        "the configuration",
        "The main file, or `weir.yaml` in a folder.",
        &[
            Key::new("version", Kind::Integer(1, 1), "Version of the configuration's shape.")
                .default("1"),
            Key::new(
                "include",
                INCLUDE,
                "Files or patterns (`*`, `?`, `**`) relative to this file; they contribute `apis`, `upstreams`, `pools`, `auth`, `plans` and `consumers`, and may include others.",
            ),
            Key::new(
                "listen",
                Kind::OneOrMany(&Kind::Either(&[
                    Kind::Form(Form::Address),
                    Kind::Object(&LISTENER),
                ])),
                "Sockets that serve traffic.",
            )
            .default("127.0.0.1:8080"),
            Key::new(
                "admin",
                Kind::Object(&ADMIN),
                "The admin listener: health, readiness, metrics.",
            ),
            Key::new("data", Kind::Text, "Folder for what weir keeps, relative to this file.")
                .default("data"),
            Key::new("workers", Kind::Integer(1, 1024), "Threads that serve requests.")
                .default("one for each core"),
            Key::new(
                "limits",
                Kind::Object(&LIMITS),
                "Bounds on what a client may send and for how long.",
            ),
            Key::new("drain", Kind::Object(&DRAIN), "How a stop goes."),
            Key::new("log", Kind::Object(&LOG), "Logs."),
            Key::new("journal", Kind::Object(&JOURNAL), "The log of every transaction."),
            Key::new(
                "tracker",
                Kind::Object(&TRACKER),
                "The searchable record of every transaction.",
            ),
            Key::new(
                "monitor",
                Kind::Object(&MONITOR),
                "Counts of calls, for usage, limits and billing.",
            ),
            Key::new(
                "telemetry",
                Kind::Object(&TELEMETRY),
                "What OpenTelemetry's collectors are told.",
            ),
            Key::new("scripts", Kind::Object(&SCRIPTS), "Bounds of script engines."),
            UPSTREAMS,
            POOLS,
            AUTHS,
            PLANS,
            CONSUMERS,
            APIS,
        ],
    )
};

/// A file named by `include:`.
pub(crate) static INCLUDED: Shape = Shape {
    main: Some(&ROOT),
    ..Shape::new(
        "an included file",
        "A file named by `include:`.",
        &[
            Key::new("version", Kind::Integer(1, 1), "Version of the configuration's shape.")
                .default("1"),
            Key::new("include", INCLUDE, "More files or patterns, relative to this file."),
            UPSTREAMS,
            POOLS,
            AUTHS,
            PLANS,
            CONSUMERS,
            APIS,
        ],
    )
};

const INCLUDE: Kind = Kind::OneOrMany(&Kind::Text);
const UPSTREAM_TABLE: Kind = Kind::Table(Names::Name, &Kind::Object(&UPSTREAM));
const POOL_TABLE: Kind = Kind::Table(Names::Name, &Kind::Object(&POOL));
const AUTH_TABLE: Kind = Kind::Table(Names::Name, &Kind::Object(&AUTH));
const PLAN_TABLE: Kind = Kind::Table(Names::Name, &Kind::Object(&PLAN));
const CONSUMER_TABLE: Kind = Kind::Table(Names::Name, &Kind::Object(&CONSUMER));
const API_TABLE: Kind = Kind::Table(Names::Name, &Kind::Object(&API));
const UPSTREAMS: Key =
    Key::new("upstreams", UPSTREAM_TABLE, "Named sets of targets that `proxy` hands requests to.");
const POOLS: Key =
    Key::new("pools", POOL_TABLE, "Named sets of agents that `pool` hands requests to.");
const AUTHS: Key = Key::new("auth", AUTH_TABLE, "Named ways for a caller to prove who it is.");
const PLANS: Key = Key::new("plans", PLAN_TABLE, "Named rates and quotas for consumers.");
const CONSUMERS: Key = Key::new("consumers", CONSUMER_TABLE, "Who calls.");
const APIS: Key = Key::new("apis", API_TABLE, "Named sets of routes, each under a base path.");

const LISTENER_TLS: Kind = Kind::Either(&[
    Kind::Word(&["self-signed"]),
    Kind::Object(&TLS),
    Kind::List(&Kind::Object(&TLS)),
]);

/// An item of `listen`.
pub(crate) static LISTENER: Shape = Shape {
    slips: &[
        ("port", "write `addr: \"0.0.0.0:8080\"`"),
        ("host", "write `addr: \"0.0.0.0:8080\"`"),
        ("address", "write `addr`"),
        ("bind", "write `addr`"),
        ("client_ca", "write `client_certificates: {ca: \"file:clients.crt\"}`"),
    ],
    short: Some("addr"),
    ..Shape::new(
        "a listener",
        "A socket that serves traffic.",
        &[
            Key::new("addr", Kind::Form(Form::Address), "Address and port; port 0 takes a free one.").required(),
            Key::new(
                "tls",
                LISTENER_TLS,
                "Certificates; the first serves clients that name no other. `self-signed` makes one at first start and keeps it in `data`, for development.",
            )
            .default("plain HTTP"),
            Key::new(
                "client_certificates",
                Kind::Object(&CLIENT_CERTIFICATES),
                "Certificates that clients have to show (mutual TLS).",
            )
            .default("none are asked for"),
            Key::new(
                "trust",
                Kind::List(&Kind::Form(Form::Network)),
                "Peers whose request headers of `trust_headers` are believed: proxies that set them whatever their clients send.",
            )
            .default("nobody"),
            Key::new(
                "trust_headers",
                Kind::OneOrMany(&Kind::Form(Form::Header)),
                "Headers of trusted peers that are believed and passed on, of `forwarded`, `x-forwarded-…` and `weir-…`; `x-forwarded-*` and `weir-*` are all that begin so. The others of these names are removed, whoever sends them. The host of `Forwarded` is believed with `x-forwarded-host` only.",
            )
            .default("forwarded, x-forwarded-for and x-forwarded-proto"),
            Key::new(
                "proxy_protocol",
                Kind::Either(&[Kind::Bool, Kind::List(&Kind::Form(Form::Network))]),
                "Networks that connections may come from; each starts with a PROXY protocol header, version 1 or 2. `true` means the networks in `trust`; `[0.0.0.0/0, \"::/0\"]` is everybody.",
            )
            .default("false"),
        ],
    )
};

/// Certificate and key of a listener.
pub(crate) static TLS: Shape = Shape::new(
    "a certificate",
    "A certificate with its private key, both in PEM.",
    &[
        Key::new(
            "cert",
            Kind::Text,
            "Certificate chain in PEM, the server's own first: `file:tls.crt`.",
        )
        .required(),
        Key::new("key", Kind::Secret, "Private key in PEM: `file:tls.key`.").required(),
    ],
);

/// `client_certificates` of a listener.
pub(crate) static CLIENT_CERTIFICATES: Shape = Shape::new(
    "the certificates of clients",
    "Mutual TLS: who shows no good certificate is not connected. Who it is, and what it may do, is for an `auth` with `certificate`.",
    &[
        Key::new("ca", Kind::Text, "Certificates of the authorities that vouch for clients, in PEM: `file:clients.crt`.").required(),
        Key::new("crl", Kind::OneOrMany(&Kind::Text), "Lists of revoked certificates (RFC 5280) in PEM: `file:clients.crl`. With any there must be one of each authority in a chain; certificates without are refused. How old a list is, is not looked at.").default("nothing is revoked"),
        Key::new("optional", Kind::Bool, "Clients without a certificate are connected, too; a wrong one never is.").default("false"),
    ],
);

/// `admin`.
pub(crate) static ADMIN: Shape = Shape {
    short: Some("addr"),
    slips: &[("port", "write `addr: \"127.0.0.1:9080\"`")],
    ..Shape::new(
        "the admin listener",
        "Where health, readiness and metrics are asked for.",
        &[
            Key::new("addr", Kind::Form(Form::Address), "Address and port.")
                .default("127.0.0.1:9080"),
            Key::new(
                "hosts",
                Kind::OneOrMany(&Kind::Form(Form::Host)),
                "Host names accepted beside loopback names and the address itself.",
            ),
            Key::new("tls", LISTENER_TLS, "Certificates, as a listener has them. Commands verify them by `--ca`, or know `self-signed` from the data folder.")
                .default("plain HTTP"),
        ],
    )
};

/// `limits` of the server.
pub(crate) static LIMITS: Shape = Shape::new(
    "the limits",
    "Bounds on clients. Every one has a default and none can be switched off.",
    &[
        Key::new("header_bytes", Kind::Form(Form::Size), "Largest request head, request line included.").default("32KiB"),
        Key::new("headers", Kind::Integer(1, 256), "Most header fields.").default("100"),
        Key::new("url", Kind::Form(Form::Size), "Longest request target.").default("8KiB"),
        Key::new("body", Kind::Form(Form::Size), "Largest request body; APIs and routes may say otherwise.").default("10MiB"),
        Key::new("connections", Kind::Integer(1, 10_000_000), "Connections open at once, all workers together.").default("20000"),
        Key::new(
            "header_time",
            Kind::Form(Form::PositiveDuration),
            "Time for a request head to arrive whole, also for the TLS handshake.",
        )
        .default("10s"),
        Key::new(
            "idle",
            Kind::Form(Form::PositiveDuration),
            "How long a keep-alive connection may be idle and a body may make no progress.",
        )
        .default("60s"),
        Key::new(
            "request",
            Kind::Either(&[Kind::Word(&["none"]), Kind::Form(Form::PositiveDuration)]),
            "Time from the end of the request head to the last byte of the answer; APIs and routes may say otherwise.",
        )
        .default("5m"),
        Key::new("http2_streams", Kind::Integer(1, 10_000), "Streams open at once on one HTTP/2 connection.").default("100"),
        Key::new(
            "failed_authentication",
            Kind::Either(&[Kind::Word(&["none"]), Kind::Form(Form::Rate), Kind::Object(&FAILED_AUTHENTICATION)]),
            "Failed authentications from one client address, IPv6 by /64. Beyond it, tokens from there that are not known are answered with 429 and `Retry-After`, before a signature is verified or an authorization server asked. What succeeds is not limited; `none` turns it off.",
        )
        .default("10/s, 100 at once"),
    ],
);

/// `failed_authentication` written out.
pub(crate) static FAILED_AUTHENTICATION: Shape = Shape::new(
    "the limit of failed authentications",
    "In no interval t do more than burst + rate·t credentials fail before others are no longer verified.",
    &[
        Key::new("rate", Kind::Form(Form::Rate), "Failures in a time.").required(),
        Key::new("burst", Kind::Integer(1, 1_000_000_000), "How many at once.")
            .default("the failures of `rate`"),
    ],
);

/// `drain`.
pub(crate) static DRAIN: Shape = Shape::new(
    "the drain",
    "How a stop by SIGTERM goes.",
    &[
        Key::new(
            "delay",
            Kind::Form(Form::Duration),
            "How long listeners still accept after readiness has failed.",
        )
        .default("0s"),
        Key::new(
            "deadline",
            Kind::Form(Form::Duration),
            "When what is still in flight after the delay is cut off.",
        )
        .default("30s"),
    ],
);

/// `log`.
pub(crate) static LOG: Shape = Shape::new(
    "the log",
    "Logs.",
    &[
        Key::new("access", Kind::Word(&["off", "text", "json"]), "One line a request.").default("off"),
        Key::new(
            "to",
            Kind::Text,
            "`stderr`, or a file (relative to this one) that is appended to and reopened on SIGUSR1.",
        )
        .default("stderr"),
    ],
);
