//! The main file and its included files.

use super::api::API;
use super::auth::AUTH;
use super::listener::{ADMIN, LISTENER};
use super::monitor::MONITOR;
use super::plan::{CONSUMER, PLAN};
use super::pool::POOL;
use super::script::SCRIPTS;
use super::server::{DRAIN, LIMITS, LOG};
use super::telemetry::TELEMETRY;
use super::tracker::{JOURNAL, TRACKER};
use super::upstream::UPSTREAM;
use weir_document::shape::typed::{Defaulted, text};
use weir_document::shape::{Key, Kind, Names, Shape, format};

pub(super) const DATA: Defaulted<String> =
    text("data", Kind::Text, "Data folder, relative to this file.").default("data");

const LISTENERS: Kind =
    Kind::OneOrMany(&Kind::Either(&[Kind::Format(format::ADDRESS), Kind::Object(&LISTENER)]));
pub(super) const LISTEN: Key =
    Key::new("listen", LISTENERS, "Sockets that accept client connections.")
        .default("127.0.0.1:8080");

/// The main file.
pub(crate) static ROOT: Shape = Shape {
    misspellings: &[
        ("port", "write `listen: [{addr: \"0.0.0.0:8080\"}]`"),
        ("routes", "routes belong to an API: `apis: {NAME: {base: /, routes: […]}}`"),
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
            Key::new("version", Kind::Integer(1, 1), "Version of the configuration format.")
                .default("1"),
            Key::new(
                "include",
                INCLUDE,
                "Files or patterns (`*`, `?`, `**`) to include, relative to this file. Included files may contain `apis`, `upstreams`, `pools`, `auth`, `plans` and `consumers`, and include further files.",
            ),
            LISTEN,
            Key::new(
                "admin",
                Kind::Object(&ADMIN),
                "The admin listener: health, readiness, metrics.",
            ),
            DATA.key,
            Key::new(
                "workers",
                Kind::Integer(1, 1024),
                "Number of worker threads, which handle requests.",
            )
            .absent("one per CPU core"),
            Key::new(
                "limits",
                Kind::Object(&LIMITS),
                "Limits on the requests of clients: sizes, times and numbers.",
            ),
            Key::new("drain", Kind::Object(&DRAIN), "Graceful shutdown."),
            Key::new("log", Kind::Object(&LOG), "Access log."),
            Key::new("journal", Kind::Object(&JOURNAL), "Append-only log of all transactions."),
            Key::new("tracker", Kind::Object(&TRACKER), "Searchable record of all transactions."),
            Key::new(
                "monitor",
                Kind::Object(&MONITOR),
                "Metering of calls, for usage, limits and billing.",
            ),
            Key::new(
                "telemetry",
                Kind::Object(&TELEMETRY),
                "Export of traces and metrics by OpenTelemetry (OTLP).",
            ),
            Key::new("scripts", Kind::Object(&SCRIPTS), "Settings of all script engines."),
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
        "A file included by `include:`.",
        &[
            Key::new("version", Kind::Integer(1, 1), "Version of the configuration format.")
                .default("1"),
            Key::new(
                "include",
                INCLUDE,
                "Further files or patterns to include, relative to this file.",
            ),
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
    Key::new("upstreams", UPSTREAM_TABLE, "Upstreams: named sets of targets, used by `proxy`.");

const POOLS: Key =
    Key::new("pools", POOL_TABLE, "Process pools: named sets of agents, used by `pool`.");

const AUTHS: Key = Key::new("auth", AUTH_TABLE, "Named authentication methods.");

const PLANS: Key =
    Key::new("plans", PLAN_TABLE, "Named rates, quotas and prices, used by consumers.");

const CONSUMERS: Key = Key::new("consumers", CONSUMER_TABLE, "Consumers: the clients of the APIs.");

const APIS: Key =
    Key::new("apis", API_TABLE, "APIs: named sets of routes, each under a base path.");
