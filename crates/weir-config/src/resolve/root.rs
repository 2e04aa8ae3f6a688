//! The main file and the files that it includes.

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
    text("data", Kind::Text, "Folder for what weir keeps, relative to this file.").default("data");

const LISTENERS: Kind =
    Kind::OneOrMany(&Kind::Either(&[Kind::Format(format::ADDRESS), Kind::Object(&LISTENER)]));
pub(super) const LISTEN: Key =
    Key::new("listen", LISTENERS, "Sockets that serve traffic.").default("127.0.0.1:8080");

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
            LISTEN,
            Key::new(
                "admin",
                Kind::Object(&ADMIN),
                "The admin listener: health, readiness, metrics.",
            ),
            DATA.key,
            Key::new("workers", Kind::Integer(1, 1024), "Threads that serve requests.")
                .absent("one for each core"),
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
