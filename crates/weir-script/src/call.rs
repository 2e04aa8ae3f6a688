//! A call of a script: its input, operations and result. Plain data, so that another thread than
//! the engine's can drive a call.

use serde_json::Value;
use std::net::IpAddr;
use std::time::Duration;
use weir_model::Annotations;

/// A call of one engine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct CallId(pub(crate) u32);

/// An operation that a call waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct OpId(pub(crate) u32);

/// Input of a script. Fields are converted only when the script reads them.
#[derive(Debug, Default)]
pub struct Request {
    /// Transaction id.
    pub id: String,
    /// Method.
    pub method: String,
    /// Path as matched.
    pub path: String,
    /// Query, without the question mark.
    pub query: String,
    /// Host of the request.
    pub host: String,
    /// Address of the client.
    pub client: Option<IpAddr>,
    /// Header fields as on the wire, one per line, each ending in CR LF.
    pub head: Vec<u8>,
    /// Path parameters, decoded.
    pub parameters: Vec<(String, String)>,
    /// The verified principal; none for anonymous requests.
    pub principal: Option<Principal>,
    /// The entire body.
    pub body: Vec<u8>,
    /// Role of the script.
    pub role: Role,
}

/// Role of a script.
#[derive(Debug, Default)]
pub enum Role {
    /// Respond to the request.
    #[default]
    Handler,
    /// Transform the request before the handler.
    RequestMap,
    /// Transform this response of the handler.
    ResponseMap(FetchedResponse),
}

/// The verified principal of a request.
#[derive(Clone, Debug, Default)]
pub struct Principal {
    /// Subject of the credential.
    pub subject: Option<String>,
    /// Name of the consumer.
    pub consumer: Option<String>,
    /// Claims of a token.
    pub claims: Option<Value>,
    /// Granted scopes, separated by spaces.
    pub scopes: String,
}

/// Result of running a call until it waits or ends. Without an `end` the call waits for its
/// operations.
#[derive(Debug, Default)]
pub struct Step {
    /// The call.
    pub call: CallId,
    /// Operations to start; their outcome goes to [`crate::Engine::resume`].
    pub ops: Vec<Op>,
    /// Operations that are not needed any more.
    pub dropped: Vec<OpId>,
    /// How the call ended.
    pub end: Option<End>,
    /// Annotations of the transaction; passed with the end.
    pub annotations: Option<Box<Annotations>>,
    /// Lines for the log.
    pub console: Vec<Console>,
}

/// An operation that a call waits for.
#[derive(Debug)]
pub struct Op {
    /// Its id.
    pub id: OpId,
    /// Its kind.
    pub kind: OpKind,
}

/// Kind of an operation.
#[derive(Debug)]
pub enum OpKind {
    /// A request to an upstream.
    Fetch(Box<Fetch>),
    /// A delay.
    Timer(Duration),
}

/// A request to an upstream.
#[derive(Debug)]
pub struct Fetch {
    /// Name of the upstream.
    pub upstream: String,
    /// Method, a token.
    pub method: String,
    /// Path and query.
    pub target: String,
    /// Headers with lower-case names, without those for framing or the connection.
    pub headers: Vec<(String, String)>,
    /// Body, if there is one.
    pub body: Option<Vec<u8>>,
    /// Timeout of the entire request, if the script sets one.
    pub timeout: Option<Duration>,
}

/// How an operation ended.
#[derive(Debug)]
pub enum Outcome {
    /// The delay has passed.
    Elapsed,
    /// The upstream responded.
    Fetched(FetchedResponse),
    /// No response; the reason for the script.
    Failed(String),
}

/// The response of an upstream or a handler, as passed to a script.
#[derive(Debug)]
pub struct FetchedResponse {
    /// Status.
    pub status: u16,
    /// Headers, lower-case names.
    pub headers: Vec<(String, String)>,
    /// The complete body.
    pub body: Vec<u8>,
}

/// How a call ended.
#[derive(Debug, PartialEq, Eq)]
pub enum End {
    /// With a response.
    Response(Box<ScriptResponse>),
    /// With changes by a transformation.
    Changes(Box<Changes>),
    /// With an exception; its description is for the log, never for the client.
    Threw(String),
    /// Its uninterrupted CPU time exceeded the limit.
    CpuLimit,
    /// The engine ran out of memory: all its calls have ended, and it has to be replaced.
    OutOfMemory,
    /// It waits, but for no operation.
    Deadlocked,
}

/// A response of a script.
#[derive(Debug, PartialEq, Eq)]
pub struct ScriptResponse {
    /// Status, 200 to 599.
    pub status: u16,
    /// Headers with lower-case names; names and values are not validated.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: ScriptBody,
}

/// Changes by a transformation. Empty fields change nothing.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// Headers to set, with lower-case names; names and values are not validated.
    pub set: Vec<(String, String)>,
    /// Headers to remove, lower-case names.
    pub remove: Vec<String>,
    /// The new body.
    pub body: Option<ScriptBody>,
}

/// Body of a [`ScriptResponse`] or of [`Changes`].
#[derive(Debug, PartialEq, Eq)]
pub enum ScriptBody {
    /// No body.
    Empty,
    /// A value as JSON text, to be rendered in the format that the client prefers.
    Value(Vec<u8>),
    /// A text.
    Text(String),
    /// Bytes.
    Bytes(Vec<u8>),
}

/// A line for the log.
#[derive(Debug, PartialEq, Eq)]
pub struct Console {
    /// `debug`, `info`, `warn` or `error`.
    pub level: &'static str,
    /// The text; may contain any characters.
    pub text: String,
}

/// Truncates text to a number of bytes.
pub(crate) fn cut(text: &str, bytes: usize) -> &str {
    &text[..text.floor_char_boundary(bytes)]
}
