//! The main file and its included files.

use super::api::API;
use super::auth::AUTH;
use super::plan::{CONSUMER, PLAN};
use super::pool::PoolKeys;
use crate::config::listener::LISTEN;
use crate::config::monitor::MonitorKeys;
use crate::config::tracker::TrackerKeys;
use crate::config::{
    AccessLog, Admin, Drain, Fleet, IoBackend, JournalSettings, Limits, Scripts, Telemetry,
    Upstream,
};
use strum::VariantNames as _;
use weir_document::settings;
use weir_document::shape::{Key, Kind, Names};

settings! {
    /// The main file, or `weir.yaml` in a folder.
    pub(crate) static ROOT is "the configuration" {
        /// Version of the configuration format.
        version = by_hand(Kind::Integer(1, 1)).default("1"),
        /// Files or patterns (`*`, `?`, `**`) to include, relative to this file. Included files may
        /// contain `apis`, `upstreams`, `pools`, `auth`, `plans` and `consumers`, and include
        /// further files.
        include = by_hand(INCLUDE),
        listen = same(LISTEN),
        /// The admin listener: health, readiness, metrics.
        admin = by_hand(Kind::Object(Admin::SHAPE)),
        /// Data folder, relative to this file.
        data = by_hand(Kind::Text).default("data"),
        /// Number of worker threads, which handle requests.
        workers = by_hand(Kind::Integer(1, 1024)).absent("one per CPU core"),
        /// How workers wait for client and upstream connections. `ring` is io_uring, which costs less,
        /// and needs Linux 6.1 and a container that permits it. `auto` is `ring` where possible,
        /// otherwise `epoll`.
        io = by_hand(Kind::Enum(IoBackend::VARIANTS)).default("auto"),
        /// Limits on the requests of clients: sizes, times and numbers.
        limits = by_hand(Kind::Object(Limits::SHAPE)),
        /// Graceful shutdown.
        drain = by_hand(Kind::Object(Drain::SHAPE)),
        /// Access log.
        log = by_hand(Kind::Object(AccessLog::SHAPE)),
        /// Append-only log of all transactions.
        journal = by_hand(Kind::Object(JournalSettings::SHAPE)),
        /// Searchable record of all transactions.
        tracker = by_hand(Kind::Object(TrackerKeys::SHAPE)),
        /// Metering of calls, for usage, limits and billing.
        monitor = by_hand(Kind::Object(MonitorKeys::SHAPE)),
        /// Several nodes with shared state.
        fleet = by_hand(Kind::Object(Fleet::SHAPE)),
        /// Export of traces and metrics by OpenTelemetry (OTLP).
        telemetry = by_hand(Kind::Object(Telemetry::SHAPE)),
        /// Settings of all script engines.
        scripts = by_hand(Kind::Object(Scripts::SHAPE)),
        upstreams = same(UPSTREAMS),
        pools = same(POOLS),
        auth = same(AUTHS),
        plans = same(PLANS),
        consumers = same(CONSUMERS),
        apis = same(APIS),
    },
    misspellings: &[
        ("port", "write `listen: [{addr: \"0.0.0.0:8080\"}]`"),
        ("routes", "routes belong to an API: `apis: {NAME: {base: /, routes: […]}}`"),
        ("services", "backends are called `upstreams`"),
        ("backends", "backends are called `upstreams`"),
        ("logging", "write `log: {access: json}`"),
        ("otlp", "write `telemetry`"),
        ("opentelemetry", "write `telemetry`"),
    ],
}

settings! {
    /// A file included by `include:`.
    pub(crate) static INCLUDED is "an included file" {
        /// Version of the configuration format.
        version = by_hand(Kind::Integer(1, 1)).default("1"),
        /// Further files or patterns to include, relative to this file.
        include = by_hand(INCLUDE),
        upstreams = same(UPSTREAMS),
        pools = same(POOLS),
        auth = same(AUTHS),
        plans = same(PLANS),
        consumers = same(CONSUMERS),
        apis = same(APIS),
    },
    main: Some(&ROOT),
}

const INCLUDE: Kind = Kind::OneOrMany(&Kind::Text);

const UPSTREAM_TABLE: Kind = Kind::Table(Names::Name, &Kind::Object(Upstream::SHAPE));

const POOL_TABLE: Kind = Kind::Table(Names::Name, &Kind::Object(PoolKeys::SHAPE));

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
