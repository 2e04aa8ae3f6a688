//! Handlers: how the requests of a route are handled.

use super::{Call, Config, Files, HashKey, HeaderEdits, Origins, PoolId, Script};
use std::path::PathBuf;
use std::time::Duration;
use weir_expr::Expr;
use weir_expr::Format;
use weir_expr::map::JsonMap;
use weir_expr::xml::XmlReading;
use weir_model::UpstreamId;

/// Handler of a route.
#[derive(Debug)]
pub enum Handler {
    /// A static response.
    Reply(Reply),
    /// A request to an upstream.
    Proxy(Proxy),
    /// Concurrent requests to several upstreams, composed into one response.
    Calls(Vec<Call>),
    /// A request to an agent of a pool.
    Pool(PoolHandler),
    /// Static files of a folder.
    Files(Files),
    /// A script.
    Script(Box<Script>),
}

impl Handler {
    /// Whether weir responds without another program.
    pub fn is_local(&self) -> bool {
        matches!(self, Self::Reply(_) | Self::Files(_))
    }

    /// Kind and destination in one line.
    pub fn summary(&self, config: &Config) -> String {
        match self {
            Self::Reply(reply) => format!("reply {}", reply.status),
            Self::Proxy(proxy) => format!("proxy {}", config.upstreams[proxy.upstream.0].name),
            Self::Calls(calls) => {
                let names: Vec<&str> = calls.iter().map(|call| call.name.as_str()).collect();
                format!("calls {}", names.join(", "))
            }
            Self::Pool(pool) => format!("pool {}", config.pools[pool.pool.0].name),
            Self::Files(files) => format!("files {}", files.root.display()),
            Self::Script(script) => format!("script {}", script.program.name()),
        }
    }
}

/// Transformation of a request, or of the handler's response.
#[derive(Debug)]
pub enum BodyMap {
    /// A structure with paths into the body; of responses with a 2xx status only.
    Structure(Box<Structure>),
    /// A script's default export.
    Script(Box<Script>),
}

/// A structure in place of a body, with paths into the original body.
#[derive(Debug)]
pub struct Structure {
    /// Builds the JSON value.
    pub map: JsonMap,
    /// Input formats.
    pub from: Sources,
    /// Output formats in order of preference: never empty, and one for a request.
    pub formats: Vec<Format>,
}

/// Input formats, at least one of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sources {
    /// JSON.
    pub json: bool,
    /// XML.
    pub xml: Option<XmlReading>,
}

/// A static response.
#[derive(Debug)]
pub struct Reply {
    /// Status code, 200 to 599.
    pub status: u16,
    /// Extra headers, lower-case names. Never Content-Length, Transfer-Encoding, Connection.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: ReplyBody,
}

/// Body of a [`Reply`].
#[derive(Debug)]
pub enum ReplyBody {
    /// No body.
    Empty,
    /// One representation, whatever the client accepts (`json`, `text`, `bytes`).
    Fixed(Representation),
    /// A constant value, rendered in every format; negotiated by q-value, in this order of
    /// preference. Never empty.
    Negotiated(Vec<Representation>),
    /// A value mapped from the request, rendered per request.
    Mapped(Box<Structure>),
}

/// A rendered body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Representation {
    /// Content-Type value.
    pub content_type: String,
    /// The bytes.
    pub body: Vec<u8>,
}

/// Reverse proxy.
#[derive(Debug)]
pub struct Proxy {
    /// The upstream.
    pub upstream: UpstreamId,
    /// Path of the upstream request.
    pub path: PathMode,
    /// Host header of the upstream request.
    pub host: HostMode,
    /// Query of the upstream request.
    pub query: QueryMode,
    /// Header edits, after those of the route.
    pub headers: HeaderEdits,
    /// Time to the first byte of the response, in place of that of the upstream.
    pub timeout: Option<Duration>,
    /// Traffic splitting: the first that matches a request is used.
    pub instead: Vec<Instead>,
    /// Upstreams that receive copies of requests.
    pub mirrors: Vec<Mirror>,
    /// Accepted upgrades of connections (default: none).
    pub upgrade: Option<Upgrade>,
}

/// An upstream that receives copies of a proxy's requests; their responses are discarded.
#[derive(Debug)]
pub struct Mirror {
    /// The upstream.
    pub upstream: UpstreamId,
    /// Condition on the request (`request`, `claims`, `consumer` in scope).
    pub when: Option<Expr>,
    /// Share of these requests, sampled at random, in ten-thousandths.
    pub part: u32,
    /// Maximum size of a copied body in bytes (at most 1 MiB).
    pub body: usize,
    /// Maximum number of copies per worker that are in preparation or in flight.
    pub in_flight: usize,
    /// Time from sending a copy to the last byte of its response.
    pub timeout: Duration,
}

/// A traffic split: an upstream for a share of a proxy's requests.
#[derive(Debug)]
pub struct Instead {
    /// The upstream.
    pub upstream: UpstreamId,
    /// Condition on the request (`request`, `claims`, `consumer` in scope).
    pub when: Option<Expr>,
    /// Share of these requests.
    pub share: Option<Share>,
}

/// A share of requests; requests with the same hash key are all in it or all outside.
#[derive(Debug)]
pub struct Share {
    /// In ten-thousandths.
    pub part: u32,
    /// The hash key; requests without it are outside the share.
    pub by: HashKey,
}

/// Protocol upgrades of a connection (RFC 9110 section 7.8): after client and upstream agree, bytes
/// are forwarded in both directions until one side or a limit ends the connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Upgrade {
    /// Protocols, lower case; never empty.
    pub protocols: Vec<String>,
    /// Origins whose pages may open WebSockets, in addition to the host of the request (default: no
    /// others).
    pub origins: Option<Origins>,
    /// Idle time without a byte in either direction.
    pub idle: Duration,
    /// Maximum duration (default: unlimited).
    pub lifetime: Option<Duration>,
    /// Maximum duration after a reload.
    pub reload: Duration,
}

/// A pool handler.
#[derive(Debug)]
pub struct PoolHandler {
    /// The pool.
    pub pool: PoolId,
    /// Script, in place of that of the pool.
    pub script: Option<PathBuf>,
    /// Time to the first byte of the response, in place of that of the pool.
    pub timeout: Option<Duration>,
}

/// Path of an upstream request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PathMode {
    /// That of the client's request (normalized).
    Keep,
    /// Without the API's base.
    StripBase,
    /// Composed of parts.
    Template(Vec<PathPart>),
}

/// A part of a path template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PathPart {
    /// Text, already percent-encoded where it must be.
    Text(String),
    /// A path parameter by name, percent-encoded as a segment; `*` is the part matched by the
    /// wildcard, with its slashes.
    Parameter(String),
}

/// Host header of an upstream request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostMode {
    /// The host of the target.
    Upstream,
    /// That of the client's request.
    Client,
    /// This host.
    Fixed(String),
}

/// Query of an upstream request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum QueryMode {
    /// Unchanged.
    Keep,
    /// None.
    Drop,
    /// Parameters removed by decoded name, then these added, percent-encoded.
    Edit {
        /// Names to remove.
        remove: Vec<String>,
        /// Parameters to set; each replaces those of the same name.
        set: Vec<(String, String)>,
    },
}
