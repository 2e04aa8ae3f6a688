//! Handlers: what responds to the requests of a route.

use super::{Call, Config, Files, HashKey, HeaderEdits, Origins, PoolId, Script, UpstreamId};
use std::path::PathBuf;
use std::time::Duration;
use weir_expr::Expr;
use weir_expr::Format;
use weir_expr::map::JsonMap;
use weir_expr::xml::XmlReading;

/// What responds to the requests of a route.
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
    /// Files of a folder.
    Files(Files),
    /// A script.
    Script(Box<Script>),
}

impl Handler {
    /// weir itself responds, and waits for no other program.
    pub fn is_local(&self) -> bool {
        matches!(self, Self::Reply(_) | Self::Files(_))
    }

    /// Its kind and destination, in one line.
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

/// What maps a request on its way to the handler, or the handler's answer.
#[derive(Debug)]
pub enum BodyMap {
    /// A structure with paths into the body; of answers with a 2xx status only.
    Structure(Box<Structure>),
    /// A script's default export.
    Script(Box<Script>),
}

/// A structure in place of a body, with what it takes from that.
#[derive(Debug)]
pub struct Structure {
    /// Builds the JSON value.
    pub map: JsonMap,
    /// Bodies that it reads.
    pub from: Sources,
    /// Formats that are written, in order of preference: never empty, and one for a request.
    pub formats: Vec<Format>,
}

/// Bodies that are read as JSON, at least one kind of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sources {
    /// JSON.
    pub json: bool,
    /// XML.
    pub xml: Option<XmlReading>,
}

/// A declared answer.
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
    /// A constant value, rendered in every format offered; negotiated by q-value, in this order
    /// of preference. Never empty.
    Negotiated(Vec<Representation>),
    /// A value mapped from the request, rendered when asked for.
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

/// An upstream answers.
#[derive(Debug)]
pub struct Proxy {
    /// Which.
    pub upstream: UpstreamId,
    /// The path it is asked for.
    pub path: PathMode,
    /// The Host header it gets.
    pub host: HostMode,
    /// The query it gets.
    pub query: QueryMode,
    /// Header edits, after those of the route.
    pub headers: HeaderEdits,
    /// Time to the first byte of the answer, instead of the upstream's.
    pub timeout: Option<Duration>,
    /// Other upstreams that get some of the requests: the first that takes one has it.
    pub instead: Vec<Instead>,
    /// Upstreams that get copies of requests.
    pub mirrors: Vec<Mirror>,
    /// What its connections may become (default: nothing).
    pub upgrade: Option<Upgrade>,
}

/// An upstream that gets copies of a proxy's requests; nobody gets its answers.
#[derive(Debug)]
pub struct Mirror {
    /// Which.
    pub upstream: UpstreamId,
    /// Only requests for which this holds (`request`, `claims`, `consumer` in scope).
    pub when: Option<Expr>,
    /// How much of those, drawn by lot, in ten-thousandths.
    pub part: u32,
    /// Largest body in bytes that is copied (at most 1 MiB).
    pub body: usize,
    /// Most copies of a worker that are being made or under way.
    pub in_flight: usize,
    /// Time of a copy, to the last byte of its answer.
    pub timeout: Duration,
}

/// An upstream that gets some of a proxy's requests.
#[derive(Debug)]
pub struct Instead {
    /// Which.
    pub upstream: UpstreamId,
    /// Only requests for which this holds (`request`, `claims`, `consumer` in scope).
    pub when: Option<Expr>,
    /// Of those only a share.
    pub share: Option<Share>,
}

/// A share of requests; those that belong together are in it together.
#[derive(Debug)]
pub struct Share {
    /// Ten-thousandths.
    pub part: u32,
    /// What they are kept together by; requests that have nothing of the kind are in no share.
    pub by: HashKey,
}

/// What a connection may become once client and upstream agree on it (RFC 9110 section 7.8): bytes
/// both ways, until one of them ends it or a limit does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Upgrade {
    /// Protocols, lower case; never empty.
    pub protocols: Vec<String>,
    /// Pages of these origins may open WebSockets, beside those of the host that the request names
    /// (default: no others).
    pub origins: Option<Origins>,
    /// How long no byte may pass in either direction.
    pub idle: Duration,
    /// How long it may last (default: as long as it likes).
    pub lifetime: Option<Duration>,
    /// How long it may go on after a reload.
    pub reload: Duration,
}

/// An agent of a pool answers.
#[derive(Debug)]
pub struct PoolHandler {
    /// Which pool.
    pub pool: PoolId,
    /// The file that answers, instead of the pool's.
    pub script: Option<PathBuf>,
    /// Time to the first byte of the answer, instead of the pool's.
    pub timeout: Option<Duration>,
}

/// The path an upstream is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PathMode {
    /// As the client sent it (normalised).
    Keep,
    /// Without the API's base.
    StripBase,
    /// Built from parts.
    Template(Vec<PathPart>),
}

/// A part of a path template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PathPart {
    /// Text, already percent-encoded where it must be.
    Text(String),
    /// A path parameter by name, percent-encoded as a segment; `*` is the wildcard's rest, whose
    /// slashes stay.
    Parameter(String),
}

/// The Host header an upstream gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostMode {
    /// The target's own.
    Upstream,
    /// The client's.
    Client,
    /// This one.
    Fixed(String),
}

/// The query an upstream gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum QueryMode {
    /// Unchanged.
    Keep,
    /// None.
    Drop,
    /// Parameters removed by decoded name, then these added, percent-encoded on the way.
    Edit {
        /// Names to remove.
        remove: Vec<String>,
        /// Parameters to set; an equal name is removed first.
        set: Vec<(String, String)>,
    },
}
