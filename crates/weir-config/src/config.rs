//! The Config: validated, resolved, immutable, replaced as a whole on reload.
//!
//! Names are resolved to indexes, files are read, expressions are compiled, constant replies are
//! rendered. Scripts, certificates, keys of tokens and schemas are data, which the gateway
//! compiles. The written form is the draft.

pub(crate) mod archive;
mod auth;
mod cache;
mod calls;
mod compression;
pub(crate) mod credential;
pub(crate) mod events;
mod files;
pub(crate) mod fleet;
mod handler;
pub(crate) mod headers;
mod health;
pub(crate) mod kafka;
pub(crate) mod listener;
pub(crate) mod monitor;
mod normalization;
pub(crate) mod oidc;
mod policy;
mod proxy;
mod resubmit;
mod retries;
mod script;
pub(crate) mod search_sink;
mod server;
pub(crate) mod telemetry;
pub(crate) mod tls;
pub(crate) mod tracker;
mod upgrade;
pub(crate) mod upstream;

pub use archive::Archive;
pub use auth::{
    ApiKeySource, Auth, AuthKind, Carrier, CertificateName, IntrospectAuth, JwtAuth, KeySource,
    RemoteKeys, TokenKeys, TokenRules,
};
pub use cache::{Cache, Credentials};
pub use calls::{Call, ParameterValue};
pub use compression::{Compression, ContentCoding};
pub use credential::Credential;
pub use files::Files;
pub use fleet::{
    Advertise, ConfigSource, Fleet, FleetConfig, FleetQuotas, FleetRateMode, FleetRates, Peers,
    Postgres, PostgresServer, QuotaOutage, RateOutage, Redis,
};
pub use handler::{
    BodyMap, Handler, PoolHandler, Reply, ReplyBody, Representation, Sources, Structure,
};
pub use headers::HeaderEdits;
pub use health::{Check, ErrorShare, Health};
pub use kafka::{KafkaAuth, KafkaBroker, KafkaMechanism, KafkaSink};
pub use listener::{Admin, Listener};
pub use monitor::{CountRule, Monitor};
pub use normalization::{AmbiguousPath, PathNormalization};
pub use oidc::{AdminDepth, AdminRole, GroupRights, Oidc};
pub use policy::{
    Access, AccessRule, ApiKey, Clients, Consumer, Cors, KeyHash, LimitKey, Origins, Plan, Quota,
    QuotaPeriod, Rate, RateLimit, RateScope,
};
pub use proxy::{HostMode, Instead, Mirror, PathMode, PathPart, Proxy, QueryMode, Share};
pub use resubmit::Resubmit;
pub use retries::{RetriedMethods, Retries};
pub use script::{Script, ScriptSource, Scripts};
pub use server::{AccessLog, Drain, IoBackend, Limits, LogFormat, LogTarget};
pub use telemetry::{Telemetry, Traces};
pub use tls::{Authorities, ClientCertificates, Identity, Tls, TlsSource, UpstreamTls};
pub use tracker::{
    Capture, CaptureLevel, CaptureWhen, Durability, IndexDepth, JournalSettings, Tracker, WhenFull,
};
pub use upgrade::Upgrade;
pub use upstream::{Balance, HashKey, Protocol, Upstream};
pub use weir_document::shape::format::{Scheme, Target};

use crate::path_pattern::PathPattern;
use crate::validation::{SchemaSource, Validation};
use std::path::PathBuf;
use std::time::Duration;
use weir_document::draft::Described;

/// Index of a pool in [`Config::pools`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PoolId(pub usize);

/// Index of an [`Auth`] in [`Config::auths`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AuthId(pub usize);

/// Index of a [`Plan`] in [`Config::plans`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PlanId(pub usize);

/// Index of a [`Consumer`] in [`Config::consumers`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConsumerId(pub usize);

/// Scripts, certificates and keys that have been read and are compiled by others, which can fail.
/// Also contains those of parts that cannot be resolved.
#[derive(Debug, Default)]
pub struct Uncompiled {
    /// Scripts.
    pub scripts: Vec<ScriptSource>,
    /// Certificates and keys.
    pub tls: Vec<TlsSource>,
    /// Keys that verify tokens.
    pub token_keys: Vec<TokenKeys>,
    /// Schemas that bodies and parameters are compared with.
    pub schemas: Vec<SchemaSource>,
    /// The documents that schemas belong to.
    pub documents: Vec<Described>,
}

/// A complete, resolved configuration.
#[derive(Debug)]
pub struct Config {
    /// Sockets that accept client connections; never empty.
    pub listen: Vec<Listener>,
    /// The admin listener (health, readiness, metrics).
    pub admin: Admin,
    /// Data folder: journal, index, self-signed certificates.
    pub data: PathBuf,
    /// Number of worker threads, at least 1.
    pub workers: usize,
    /// How workers wait for connections.
    pub io: IoBackend,
    /// Limits on the requests of clients.
    pub limits: Limits,
    /// Graceful shutdown on SIGTERM.
    pub drain: Drain,
    /// Access log; off by default.
    pub access_log: AccessLog,
    /// Journal settings.
    pub journal: JournalSettings,
    /// Tracker settings.
    pub tracker: Tracker,
    /// Metering settings.
    pub monitor: Monitor,
    /// The fleet that this node belongs to; `None`: a single node.
    pub fleet: Option<Fleet>,
    /// Export by OTLP; `None`: no export.
    pub telemetry: Option<Telemetry>,
    /// Settings of all script engines.
    pub scripts: Scripts,
    /// Upstreams, addressed by [`weir_model::UpstreamId`].
    pub upstreams: Vec<Upstream>,
    /// Pools, addressed by [`PoolId`].
    pub pools: Vec<weir_model::pool::Pool>,
    /// Authentication methods, addressed by [`AuthId`].
    pub auths: Vec<Auth>,
    /// Plans, addressed by [`PlanId`].
    pub plans: Vec<Plan>,
    /// Consumers, addressed by [`ConsumerId`].
    pub consumers: Vec<Consumer>,
    /// APIs in the order of definition.
    pub apis: Vec<Api>,
    /// Every file that was read for this Config, to be watched for changes.
    pub sources: Vec<PathBuf>,
}

/// A location in the configuration, for `weir routes` and messages.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Location {
    /// File, relative to the path given by the user.
    pub file: PathBuf,
    /// 1-based line.
    pub line: usize,
}

/// A named set of routes under one base path.
#[derive(Debug)]
pub struct Api {
    /// Name, the key under `apis`.
    pub name: String,
    /// Host names, lower case, without port; `*.example.com` matches one or more labels in front.
    /// Empty: every host.
    pub hosts: Vec<String>,
    /// Base path: `/` alone or `/a/b` (starts with a slash, never ends with one), percent-decoded
    /// and normalized like request paths.
    pub base: String,
    /// CORS settings; `None`: weir adds no CORS headers and handles a preflight like any OPTIONS
    /// request.
    pub cors: Option<Cors>,
    /// Routes in the order of definition.
    pub routes: Vec<Route>,
    /// OpenAPI document of the API as JSON.
    pub openapi: Option<Box<str>>,
    /// Location of the definition.
    pub location: Location,
}

impl Api {
    /// Base and pattern of a route joined, as matched: `/orders/v1/{id}`.
    pub fn path_of(&self, route: &Route) -> String {
        match (self.base.as_str(), route.path.text.as_str()) {
            ("/", path) => path.to_owned(),
            (base, "/" | "") => base.to_owned(),
            (base, path) => format!("{base}{path}"),
        }
    }
}

/// Methods and a path, bound to one handler and to the policies before and after the handler.
///
/// Settings of the server, an API and a route (limits, access, compression, header edits) are
/// merged here.
#[derive(Debug)]
pub struct Route {
    /// Operation name: as written (`op`), or `METHODS path` (for example `GET /sayHello`). The
    /// number of names is bounded, so a name can be a metrics label.
    pub operation: String,
    /// Methods in upper case. Empty: every method.
    pub methods: Vec<String>,
    /// The path below the API's base.
    pub path: PathPattern,
    /// Authentication and access rules.
    pub access: Access,
    /// Handling of ambiguous paths.
    pub path_normalization: PathNormalization,
    /// IP lists of the API and of the route; all of them apply.
    pub clients: Vec<Clients>,
    /// Rate limits of the API and the route, in addition to the consumer's plan. All must admit a
    /// request.
    pub rate_limits: Vec<RateLimit>,
    /// Maximum request body in bytes.
    pub body_limit: u64,
    /// Maximum response body of a handler in bytes, before maps and compression; `None`: unlimited.
    pub response_limit: Option<u64>,
    /// Time from the end of the request head to the last byte of the response. `None`: no limit
    /// (for event streams).
    pub timeout: Option<Duration>,
    /// Edits of the request headers, after hop-by-hop removal and before the handler.
    pub request_headers: HeaderEdits,
    /// Validation of requests and responses by the OpenAPI document; `None`: no validation.
    pub validation: Option<Box<Validation>>,
    /// Map of the request, before the handler.
    pub request_map: Option<BodyMap>,
    /// Response cache of the handler.
    pub cache: Option<Cache>,
    /// The handler.
    pub handler: Handler,
    /// Map of the handler's response.
    pub response_map: Option<BodyMap>,
    /// Edits of the response headers, after the handler.
    pub response_headers: HeaderEdits,
    /// Response compression.
    pub compress: Compression,
    /// Capture of transactions.
    pub capture: Capture,
    /// Calls that metering rules count, in addition to those of metered plans.
    pub count: CountRule,
    /// Resubmission of transactions.
    pub resubmit: Resubmit,
    /// Location of the definition.
    pub location: Location,
}
