//! Handlers: how the requests of a route are handled.

use super::{Call, Config, Files, PoolId, Proxy, Script};
use std::path::PathBuf;
use std::time::Duration;
use weir_expr::Format;
use weir_expr::map::JsonMap;
use weir_expr::xml::XmlReading;

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
