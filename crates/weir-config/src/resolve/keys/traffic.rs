//! Keys of upstreams, auth, plans and consumers.

use super::{HASH, HEALTH, RETRIES, TARGET};
use crate::shape::{Form, Group, Key, Kind, Shape};

const POSITIVE: Kind = Kind::Form(Form::PositiveDuration);

/// A value of `upstreams`.
pub(crate) static UPSTREAM: Shape = Shape {
    short: Some("targets"),
    slips: &[
        ("url", "write `targets: [\"http://…\"]`"),
        ("target", "write `targets: [\"http://…\"]`"),
        ("grpc", "write `protocol: http2`: gRPC is HTTP/2"),
        ("http2", "write `protocol: http2`"),
        ("servers", "write `targets: [\"http://…\"]`"),
        ("hosts", "write `targets: [\"http://…\"]`"),
    ],
    ..Shape::new(
        "an upstream",
        "A named set of targets that answer alike.",
        &[
            Key::new(
                "targets",
                Kind::List(&Kind::Either(&[Kind::Form(Form::Target), Kind::Object(&TARGET)])),
                "Servers, all `http://host:port` or all `https://host:port`; with a weight `{url: …, weight: 5}`. `srv+http://_api._tcp.example.com` is a service, whose hosts and ports its SRV records say (RFC 2782).",
            )
            .required(),
            Key::new(
                "protocol",
                Kind::Word(&["http1", "http2"]),
                "What its targets speak: HTTP/1.1, or HTTP/2, as gRPC does; with `http` without asking for it first (h2c with prior knowledge), with `https` as agreed in the handshake.",
            )
            .default("http1"),
            Key::new(
                "balance",
                Kind::Word(&["round-robin", "least-busy", "hash"]),
                "How a target is chosen among the healthy ones, by their weights: one after the other, or of two at random the less busy one, or by `hash`.",
            )
            .default("round-robin"),
            Key::new("hash", Kind::Either(&[Kind::Word(&["address"]), Kind::Object(&HASH)]), "What requests are kept together by with `balance: hash`: those with the same go to the same target as long as it is in service, whatever happens to the others; those without any go round."),
            Key::new("connect_timeout", POSITIVE, "Time to connect, the TLS handshake included.").default("2s"),
            Key::new("timeout", POSITIVE, "Time from the request's last byte to the first byte of the answer.").default("30s"),
            Key::new("idle_timeout", POSITIVE, "How long a body may make no progress in either direction.").default("60s"),
            Key::new("resolve", POSITIVE, "How often the addresses of targets that have a name are asked for again, at least 1s; the last ones are used meanwhile, and for as long as there is no answer.").default("30s"),
            Key::new("resolver", Kind::Form(Form::Address), "DNS server that services and their hosts are asked of: `127.0.0.1:8600`.").default("those of the system"),
            Key::new("connections", Kind::Integer(1, 1_000_000), "Most connections open at once to one target, all workers together.").default("1024"),
            Key::new("keep_alive", Kind::Integer(0, 1_000_000), "Most idle connections kept to one target, all workers together.").default("256"),
            Key::new("keep_alive_time", POSITIVE, "How long an idle connection is kept.").default("50s"),
            Key::new("health", Kind::Object(&HEALTH), "What takes targets out of service and brings them back."),
            Key::new("retries", Kind::Object(&RETRIES), "How requests that failed are sent again, to another target where there is one.").default("not at all"),
            Key::new("tls", Kind::Object(&UPSTREAM_TLS), "TLS towards `https` targets."),
            Key::new("auth", Kind::Object(&CREDENTIAL), "The credential that weir itself presents; it replaces what the client sent."),
            Key::new("underscores_in_headers", Kind::OneOrMany(&Kind::Form(Form::Header)), "Request headers that are passed on although their name has an underscore or a dot; `\"*\"` is all of them. Programs behind CGI, WSGI and the like cannot tell `X_User` (PHP: `X.User`, too) from `X-User`, which header edits may remove.").default("none"),
        ],
    )
};

/// `tls` of an upstream.
pub(crate) static UPSTREAM_TLS: Shape = Shape::new(
    "the TLS of an upstream",
    "TLS towards `https` targets.",
    &[
        Key::new("ca", Kind::Text, "Root certificates in PEM: `file:ca.crt`.")
            .default("those of the system"),
        Key::new("cert", Kind::Text, "Client certificate chain in PEM."),
        Key::new("key", Kind::Secret, "Private key of the client certificate in PEM."),
        Key::new("server_name", Kind::Form(Form::Host), "Name to verify and to send.")
            .default("the target's host"),
    ],
);

/// `auth` of an upstream.
pub(crate) static CREDENTIAL: Shape = Shape {
    groups: &[Group { keys: &["basic", "bearer", "header"], required: true }],
    ..Shape::new(
        "the credential of an upstream",
        "Exactly one of these.",
        &[
            Key::new("basic", Kind::Object(&BASIC), "HTTP Basic."),
            Key::new("bearer", Kind::Secret, "A token for `Authorization: Bearer`."),
            Key::new("header", Kind::Object(&CREDENTIAL_HEADER), "A header of your own."),
        ],
    )
};

/// `basic` of a credential.
pub(crate) static BASIC: Shape = Shape::new(
    "a user and a password",
    "HTTP Basic (RFC 7617).",
    &[
        Key::new("user", Kind::Text, "User name, without a colon.").required(),
        Key::new("password", Kind::Secret, "Password.").required(),
    ],
);

/// `header` of a credential.
pub(crate) static CREDENTIAL_HEADER: Shape = Shape::new(
    "a credential header",
    "A header that carries the credential.",
    &[
        Key::new("name", Kind::Form(Form::EditableHeader), "Its name.").required(),
        Key::new("value", Kind::Secret, "Its value.").required(),
    ],
);

/// A value of `auth`.
pub(crate) static AUTH: Shape = Shape {
    groups: &[Group {
        keys: &["jwt", "introspect", "api_key", "basic", "certificate"],
        required: true,
    }],
    slips: &[
        ("bearer", "write `jwt`, or `introspect` for tokens that say nothing themselves"),
        ("introspection", "write `introspect`"),
        ("mtls", "write `certificate: common-name`"),
    ],
    ..Shape::new(
        "an auth",
        "A way to prove who calls: exactly one of these.",
        &[
            Key::new("jwt", Kind::Object(&JWT), "A JSON Web Token in `Authorization: Bearer`."),
            Key::new(
                "introspect",
                Kind::Object(&INTROSPECT),
                "A token in `Authorization: Bearer` that an authorization server is asked about (RFC 7662).",
            ),
            Key::new(
                "api_key",
                Kind::Object(&API_KEY),
                "A key; its hash stands with the consumer.",
            ),
            Key::new(
                "basic",
                Kind::Bool,
                "`true`: a user name and a password (RFC 7617), which are the name of a consumer and one of its API keys.",
            ),
            Key::new(
                "certificate",
                Kind::Word(&["subject", "common-name", "dns", "uri", "email"]),
                "The certificate that the client shows to a listener with `client_certificates`; this of it is its owner's name, of several the first.",
            ),
        ],
    )
};

/// `jwt` of an auth.
pub(crate) static JWT: Shape = Shape {
    groups: &[Group { keys: &["key", "jwks"], required: true }],
    slips: &[
        ("secret", "write `key: \"file:secret\"`"),
        ("jwks_url", "write `jwks: \"https://…\"`"),
        ("jwks_uri", "write `jwks: \"https://…\"`"),
    ],
    ..Shape::new(
        "a JWT auth",
        "What a token must be like (RFC 7519).",
        &[
            Key::new("issuer", Kind::OneOrMany(&Kind::Text), "Accepted `iss`.").default("any"),
            Key::new("audience", Kind::OneOrMany(&Kind::Text), "Accepted `aud`, of which one must be there.").default("any"),
            Key::new("algorithms", Kind::OneOrMany(&Kind::Form(Form::Algorithm)), "Accepted algorithms: `HS256`, `HS384`, `HS512`, `RS256`, `RS384`, `RS512`, `PS256`, `PS384`, `PS512`, `ES256`, `ES384`, `EdDSA`.").required(),
            Key::new("key", Kind::Secret, "Public key in PEM, or for HS algorithms the shared secret of at least 32 bytes: `file:key.pem`."),
            Key::new("jwks", Kind::Secret, "Key set (RFC 7517): `file:jwks.json`, or the URL to fetch it from (`https`, on this machine `http` too)."),
            Key::new("refresh", POSITIVE, "How often a key set is fetched from its URL, 5s to 24h; an unknown `kid` fetches it at once, at most every 30s.").default("5m"),
            Key::new("leeway", Kind::Form(Form::Duration), "Tolerance for `exp` and `nbf`, at most 60s.").default("0s"),
            Key::new("require_exp", Kind::Bool, "`exp` must be there.").default("true"),
            Key::new("required_claims", Kind::OneOrMany(&Kind::Text), "Claims that must be there."),
            Key::new("scopes", Kind::OneOrMany(&Kind::Text), "Scopes that must be granted by `scope` or `scp`."),
        ],
    )
};

/// `introspect` of an auth.
pub(crate) static INTROSPECT: Shape = Shape {
    slips: &[
        ("endpoint", "write `url`"),
        ("client_id", "write `auth: {basic: {user: ID, password: \"file:secret\"}}`"),
        ("client_secret", "write `auth: {basic: {user: ID, password: \"file:secret\"}}`"),
        ("cache", "write `remember`"),
    ],
    ..Shape::new(
        "an introspection",
        "Tokens that an authorization server is asked about (RFC 7662).",
        &[
            Key::new("url", Kind::Text, "The introspection endpoint (`https`, on this machine `http` too).").required(),
            Key::new("auth", Kind::Object(&CREDENTIAL), "What weir proves itself with to the server; `basic` is the client's id and secret, which are sent form-encoded (RFC 6749 section 2.3.1).").required(),
            Key::new("issuer", Kind::OneOrMany(&Kind::Text), "Accepted `iss`.").default("any"),
            Key::new("audience", Kind::OneOrMany(&Kind::Text), "Accepted `aud`, of which one must be there.").default("any"),
            Key::new("required_claims", Kind::OneOrMany(&Kind::Text), "Members that the answer must have."),
            Key::new("scopes", Kind::OneOrMany(&Kind::Text), "Scopes that must be granted by `scope` or `scp`."),
            Key::new("leeway", Kind::Form(Form::Duration), "Tolerance for `exp` and `nbf`, at most 60s.").default("0s"),
            Key::new("remember", POSITIVE, "How long an answer is believed, 1s to 5m, and never past the token's `exp`: that long a revoked token may still pass.").default("60s"),
            Key::new("timeout", POSITIVE, "How long the server may take to answer, at most 10s; then the request is refused.").default("2s"),
        ],
    )
};

/// `api_key` of an auth.
pub(crate) static API_KEY: Shape = Shape {
    groups: &[Group { keys: &["header", "query"], required: true }],
    ..Shape::new(
        "an API key auth",
        "Where the key is read from: exactly one of these.",
        &[
            Key::new("header", Kind::Form(Form::Header), "This request header."),
            Key::new("query", Kind::Form(Form::Parameter), "This query parameter."),
        ],
    )
};

/// A value of `plans`.
pub(crate) static PLAN: Shape = Shape::new(
    "a plan",
    "Rate, quota and price of the consumers that have it, each by itself.",
    &[
        Key::new(
            "rate",
            Kind::Form(Form::Rate),
            "Requests in a time; in no interval t are more than burst + rate·t admitted.",
        )
        .default("no limit"),
        Key::new("burst", Kind::Integer(1, 1_000_000_000), "How many at once.")
            .default("the requests of `rate`"),
        Key::new("quota", Kind::Object(&QUOTA), "Calls in a period.").default("no limit"),
        Key::new("price", Kind::Object(&PRICE), "What calls cost.").default("nothing"),
    ],
);

/// `price` of a plan.
pub(crate) static PRICE: Shape = Shape {
    groups: &[Group { keys: &["per_call", "tiers"], required: false }],
    slips: &[
        ("per_byte", "write `per_kib`, a 1024th of which is the price of a byte"),
        ("per_kb", "write `per_kib`"),
    ],
    ..Shape::new(
        "a price",
        "What calls cost; the parts add up.",
        &[
            Key::new("per_call", Kind::Form(Form::Price), "For each call."),
            Key::new(
                "per_kib",
                Kind::Form(Form::Price),
                "For each KiB of request and response bodies; a byte costs a 1024th, nothing is rounded.",
            ),
            Key::new(
                "cel",
                Kind::Form(Form::Cel),
                "For each call what this gives, a number or a decimal as text, rounded to 8 decimals; `call` has `api`, `operation`, `consumer`, `status`, `request_bytes`, `response_bytes` and `duration_ms`.",
            ),
            Key::new(
                "tiers",
                Kind::List(&Kind::Object(&TIER)),
                "For each call by how many the consumer has made in the period of an invoice.",
            ),
            Key::new("currency", Kind::Form(Form::Currency), "Code of the currency (ISO 4217).")
                .required(),
            Key::new(
                "decimals",
                Kind::Integer(0, 8),
                "Decimals that the total of an invoice is rounded to, a half upwards.",
            )
            .default("2"),
        ],
    )
};

/// An item of `tiers`.
pub(crate) static TIER: Shape = Shape::new(
    "a tier",
    "The price of calls from where the tier before ends.",
    &[
        Key::new(
            "up_to",
            Kind::Integer(1, u64::MAX),
            "The last call of the period that costs this; only the last tier has none.",
        ),
        Key::new("per_call", Kind::Form(Form::Price), "For each of these calls.").required(),
    ],
);

/// `quota` of a plan.
pub(crate) static QUOTA: Shape = Shape::new(
    "a quota",
    "So many calls in a period, by the calendar or rolling.",
    &[
        Key::new("calls", Kind::Integer(1, u64::MAX), "Calls admitted in a period.").required(),
        Key::new(
            "per",
            Kind::Word(&["minute", "hour", "day", "week", "month", "year"]),
            "The period; weeks begin on Monday.",
        )
        .required(),
        Key::new("zone", Kind::Form(Form::Zone), "Time zone in which the period begins.")
            .default("UTC"),
        Key::new(
            "rolling",
            Kind::Bool,
            "In no stretch as long as the period are more calls admitted, whatever the calendar says. A month is 30 days then, a year 365; a call gives its place back up to a 60th of the period late.",
        )
        .default("false"),
    ],
);

/// A value of `consumers`.
pub(crate) static CONSUMER: Shape = Shape {
    slips: &[
        ("keys", "write `api_keys: [\"sha256:…\"]`"),
        ("api_key", "write `api_keys: [\"sha256:…\"]`"),
    ],
    ..Shape::new(
        "a consumer",
        "Who calls.",
        &[
            Key::new("plan", Kind::Form(Form::Name), "Its plan.").default("no limit"),
            Key::new("match", Kind::Object(&MATCH), "How a token's owner is recognised."),
            Key::new(
                "api_keys",
                Kind::List(&Kind::Form(Form::KeyHash)),
                "Hashes of its keys, as `weir key new` prints them.",
            ),
        ],
    )
};

/// `match` of a consumer.
pub(crate) static MATCH: Shape = Shape::new(
    "the match of a consumer",
    "How a token's owner is recognised.",
    &[
        Key::new("auth", Kind::Form(Form::Name), "The auth that verified the token or the certificate.").required(),
        Key::new(
            "when",
            Kind::Form(Form::Cel),
            "CEL over `claims`: `claims.client_id == \"acme\"`. Of a certificate they are `subject`, `common_name`, `issuer`, `serial`, `fingerprint` (SHA-256, hexadecimal), `dns`, `uri`, `email`, `not_before`, `not_after`.",
        )
        .required(),
    ],
);
