//! The Config: validated, resolved, immutable, swapped whole on reload.
//!
//! Names are resolved to indexes, files are read, expressions are compiled, constant replies are
//! rendered. Scripts and certificates are data, which the gateway compiles.
//! Nothing in here is ever "as written"; that is the draft's business.

mod auth;
mod cache;
mod calls;
mod events;
mod files;
mod handler;
mod monitor;
mod normalization;
mod policy;
mod pool;
mod resubmit;
mod script;
mod server;
mod telemetry;
mod tls;
mod tracker;
mod upstream;

pub use auth::{
    Algorithm, ApiKeySource, Auth, AuthKind, Carrier, CertificateName, IntrospectAuth, JwtAuth,
    RemoteKeys, TokenRules, VERIFICATION_BUDGET, VerificationKey, verification_cost,
};
pub use cache::{Cache, Credentials};
pub use calls::{Call, Given};
pub use events::{Alert, AlertRule, EndState, Sink, Trigger};
pub use files::Files;
pub use handler::{
    BodyMap, Handler, HostMode, Instead, Mirror, PathMode, PathPart, PoolHandler, Proxy, QueryMode,
    Reply, ReplyBody, Representation, Share, Sources, Structure, Upgrade,
};
pub use monitor::{CountRule, Counts, Monitor};
pub use normalization::{AmbiguousPath, PathNormalization};
pub use policy::{
    Access, AccessRule, Clients, Compression, Consumer, ContentCoding, Cors, HeaderEdits, KeyHash,
    LimitKey, Origins, Plan, Quota, QuotaPeriod, Rate, RateLimit,
};
pub use pool::{
    Account, AgentAddress, AgentCounts, AgentProtocol, AgentScript, AgentSource, Pool, PoolQueue,
    Program, ProgramLimits, Recycle, SOCKET, ScriptRoot,
};
pub use resubmit::Resubmit;
pub use script::{Script, ScriptSource, Scripts};
pub use server::{AccessLog, Admin, Drain, Limits, Listener, LogFormat, LogTarget};
pub use telemetry::{Telemetry, Traces};
pub use tls::{Authorities, ClientCertificates, Identity, Tls, TlsSource, UpstreamTls};
pub use tracker::{
    Capture, CaptureLevel, CaptureWhen, Durability, IndexDepth, JournalSettings, Tracker, WhenFull,
};
pub use upstream::{
    Balance, Check, Credential, ErrorShare, HashKey, Health, Protocol, RetriedMethods, Retries,
    Upstream,
};
pub use weir_document::shape::format::{Scheme, Target};

use crate::validation::Validation;
use std::path::PathBuf;
use std::time::Duration;

/// Index of an [`Upstream`] in [`Config::upstreams`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct UpstreamId(pub usize);

/// Index of a [`Pool`] in [`Config::pools`].
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

/// What has been read and is compiled by others, which find out whether it can be. Also what belongs
/// to a part of the configuration that cannot be resolved.
#[derive(Debug, Default)]
pub struct Uncompiled {
    /// Scripts.
    pub scripts: Vec<ScriptSource>,
    /// Certificates and keys.
    pub tls: Vec<TlsSource>,
}

/// The whole of what weir does, as decided by one version of the configuration.
#[derive(Debug)]
pub struct Config {
    /// Sockets that serve traffic; never empty.
    pub listen: Vec<Listener>,
    /// The admin listener (health, readiness, metrics).
    pub admin: Admin,
    /// Folder for what weir keeps: the journal, self-signed certificates.
    pub data: PathBuf,
    /// Threads that serve requests, at least 1.
    pub workers: usize,
    /// Bounds on what a client may send and for how long.
    pub limits: Limits,
    /// How a stop by SIGTERM goes.
    pub drain: Drain,
    /// Access log; off by default.
    pub access_log: AccessLog,
    /// Where transactions are recorded.
    pub journal: JournalSettings,
    /// What is recorded of them.
    pub tracker: Tracker,
    /// What is counted of calls.
    pub monitor: Monitor,
    /// What collectors are told; `None`: nothing.
    pub telemetry: Option<Telemetry>,
    /// Bounds of script engines.
    pub scripts: Scripts,
    /// Upstreams, addressed by [`UpstreamId`].
    pub upstreams: Vec<Upstream>,
    /// Pools, addressed by [`PoolId`].
    pub pools: Vec<Pool>,
    /// Ways to prove who calls, addressed by [`AuthId`].
    pub auths: Vec<Auth>,
    /// Plans, addressed by [`PlanId`].
    pub plans: Vec<Plan>,
    /// Consumers, addressed by [`ConsumerId`].
    pub consumers: Vec<Consumer>,
    /// APIs in the order they are written.
    pub apis: Vec<Api>,
    /// Every file that was read to build this Config: the ones to watch for changes.
    pub sources: Vec<PathBuf>,
}

/// Where something stands in the configuration, for `weir routes` and messages.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Location {
    /// File, as found from the path the user gave.
    pub file: PathBuf,
    /// 1-based line.
    pub line: usize,
}

/// A named set of routes under one base path.
#[derive(Debug)]
pub struct Api {
    /// Name, the key under `apis`.
    pub name: String,
    /// Hosts it answers to, lower case, without port; `*.example.com` matches one or more labels
    /// in front. Empty: every host.
    pub hosts: Vec<String>,
    /// Base path: `/` alone or `/a/b` (starts with a slash, never ends with one), percent-decoded
    /// and normalised the way request paths are.
    pub base: String,
    /// Cross-origin rules; `None` means that weir adds no CORS headers and treats a preflight as
    /// any OPTIONS request.
    pub cors: Option<Cors>,
    /// Routes in the order they are written.
    pub routes: Vec<Route>,
    /// Its OpenAPI document as one text in JSON, if it is described by one.
    pub openapi: Option<Box<str>>,
    /// Where it is written.
    pub location: Location,
}

impl Api {
    /// Base and pattern of one of its routes joined, as they are matched: `/orders/v1/{id}`.
    pub fn path_of(&self, route: &Route) -> String {
        match (self.base.as_str(), route.path.text.as_str()) {
            ("/", path) => path.to_owned(),
            (base, "/" | "") => base.to_owned(),
            (base, path) => format!("{base}{path}"),
        }
    }
}

/// Methods and a path, bound to one handler and to the policies that stand before and after it.
///
/// Settings that can be written on the server, an API and a route (limits, access, compression,
/// header edits) are already resolved here: a worker looks nowhere else.
#[derive(Debug)]
pub struct Route {
    /// Operation name: as written (`op`), or `METHODS path` (for example `GET /sayHello`).
    /// Bounded in number, so it is fit for a metrics label.
    pub operation: String,
    /// Methods in upper case. Empty: every method.
    pub methods: Vec<String>,
    /// The path below the API's base.
    pub path: PathPattern,
    /// Who may call.
    pub access: Access,
    /// What is done with paths that servers read in more than one way.
    pub path_normalization: PathNormalization,
    /// From where it may be called, by API and by route; all of them hold.
    pub clients: Vec<Clients>,
    /// Rate limits of the API and the route, beside the consumer's plan. All must admit.
    pub rate_limits: Vec<RateLimit>,
    /// Largest request body in bytes.
    pub body_limit: u64,
    /// Largest answer body of a handler in bytes, before maps and compression; `None`: any.
    pub answer_limit: Option<u64>,
    /// Time from the end of the request head to the last byte of the answer.
    /// `None`: no limit (for event streams).
    pub timeout: Option<Duration>,
    /// Edits of the request headers, after hop-by-hop removal and before the handler.
    pub request_headers: HeaderEdits,
    /// What the API's description demands of requests and answers; `None`: nothing is looked at.
    pub validation: Option<Box<Validation>>,
    /// Map of the request, before the handler.
    pub request_map: Option<BodyMap>,
    /// Answers of the handler that are given again.
    pub cache: Option<Cache>,
    /// What answers.
    pub handler: Handler,
    /// Map of the handler's answer.
    pub response_map: Option<BodyMap>,
    /// Edits of the response headers, after the handler.
    pub response_headers: HeaderEdits,
    /// Response compression.
    pub compress: Compression,
    /// What is recorded of its transactions.
    pub capture: Capture,
    /// Whose calls are counted because a rule says so, beside those of plans that need counts.
    pub count: CountRule,
    /// How its transactions are resubmitted.
    pub resubmit: Resubmit,
    /// Where it is written.
    pub location: Location,
}

/// A path below a base, cut into segments; matched on decoded segments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathPattern {
    /// As written, for display and labels (`/x/{id}`).
    pub text: String,
    /// Its segments. Empty for `/` (the base itself).
    pub segments: Vec<Segment>,
    /// The last segment is `*`: it takes the rest of the path, also an empty rest.
    pub wildcard: bool,
}

/// One segment of a [`PathPattern`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Segment {
    /// Exactly this text, decoded.
    Literal(String),
    /// Any one non-empty segment, known by this name.
    Template(String),
}
