//! A call of a script: what it gets, what it asks for, how it ends. Plain data, so that a call can
//! be driven from another thread than the engine's.

use serde_json::Value;
use std::net::IpAddr;
use std::time::Duration;

/// A call of one engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CallId(pub(crate) u32);

/// Something that a call waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct OpId(pub(crate) u32);

/// What a script gets. Everything is looked at only when the script asks for it.
#[derive(Debug, Default)]
pub struct Request {
    /// Transaction id.
    pub id: String,
    /// Method.
    pub method: String,
    /// Path, as it was matched.
    pub path: String,
    /// Query, without the question mark.
    pub query: String,
    /// Host asked for.
    pub host: String,
    /// Address of the client.
    pub client: Option<IpAddr>,
    /// Header fields, one a line, each ended by CR LF, as they stand on the wire.
    pub head: Vec<u8>,
    /// Path parameters, decoded.
    pub parameters: Vec<(String, String)>,
    /// Who calls; nobody if that is not known.
    pub principal: Option<Principal>,
    /// The whole body.
    pub body: Vec<u8>,
    /// What the script is called for.
    pub role: Role,
}

/// What a script is called for.
#[derive(Debug, Default)]
pub enum Role {
    /// To answer the request.
    #[default]
    Handler,
    /// To map the request on its way to the handler.
    RequestMap,
    /// To map this answer of the handler.
    ResponseMap(Fetched),
}

/// Who calls, as far as that was verified.
#[derive(Clone, Debug, Default)]
pub struct Principal {
    /// Subject of the credential.
    pub subject: Option<String>,
    /// Name of the consumer.
    pub consumer: Option<String>,
    /// Claims of a token.
    pub claims: Option<Value>,
    /// Granted scopes, with spaces between.
    pub scopes: String,
}

/// What one turn of a call came to. Without an `end` the call waits for all of its operations.
#[derive(Debug)]
pub struct Step {
    /// Which call.
    pub call: CallId,
    /// What is to be done, and told by [`crate::Engine::resume`].
    pub ops: Vec<Op>,
    /// Operations that need not be done any more.
    pub dropped: Vec<OpId>,
    /// How the call ended.
    pub end: Option<End>,
    /// What is to be written about it; told with the end.
    pub notes: Option<Box<Notes>>,
    /// Lines for the log.
    pub console: Vec<Console>,
}

/// Something that a call waits for.
#[derive(Debug)]
pub struct Op {
    /// Its number.
    pub id: OpId,
    /// What it is.
    pub kind: OpKind,
}

/// What a call waits for.
#[derive(Debug)]
pub enum OpKind {
    /// An upstream's answer.
    Fetch(Box<Fetch>),
    /// Time.
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
    /// Headers, lower-case names; nothing that decides about framing or connection.
    pub headers: Vec<(String, String)>,
    /// Body, if there is one.
    pub body: Option<Vec<u8>>,
    /// Time for the whole of it, if the script says.
    pub timeout: Option<Duration>,
}

/// How an operation ended.
#[derive(Debug)]
pub enum Outcome {
    /// The time is over.
    Elapsed,
    /// An upstream answered.
    Fetched(Fetched),
    /// No answer; the reason as the script is told.
    Failed(String),
}

/// An answer, an upstream's or a handler's, as a script gets it.
#[derive(Debug)]
pub struct Fetched {
    /// Status.
    pub status: u16,
    /// Headers, lower-case names.
    pub headers: Vec<(String, String)>,
    /// The whole body.
    pub body: Vec<u8>,
}

/// How a call ended.
#[derive(Debug, PartialEq, Eq)]
pub enum End {
    /// With an answer.
    Answer(Box<Answer>),
    /// A map changes what it got.
    Changed(Box<Changed>),
    /// It threw; a description of what, for the log and never for the client.
    Threw(String),
    /// It used more uninterrupted CPU time than it may.
    Stopped,
    /// The engine's memory was used up: it has to be made anew, and all its calls are over.
    OutOfMemory,
    /// It waits for something that will never come.
    Stuck,
}

/// An answer.
#[derive(Debug, PartialEq, Eq)]
pub struct Answer {
    /// Status, 200 to 599.
    pub status: u16,
    /// Headers, lower-case names; names and values are as scripts give them.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: AnswerBody,
}

/// What a map changes. Nothing in it leaves things as they are.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Changed {
    /// Headers to set, lower-case names; names and values are as scripts give them.
    pub set: Vec<(String, String)>,
    /// Headers to remove, lower-case names.
    pub remove: Vec<String>,
    /// The body in place of the one it got.
    pub body: Option<AnswerBody>,
}

/// Body of an [`Answer`], or of what a map gives.
#[derive(Debug, PartialEq, Eq)]
pub enum AnswerBody {
    /// None.
    Empty,
    /// A value as JSON text, to be rendered in the format the client prefers.
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
    /// The text, of any characters.
    pub text: String,
}

/// What a script says about its transaction.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Notes {
    /// Business keys.
    pub keys: Vec<(String, String)>,
    /// Properties; a state is a property of the name `state`.
    pub properties: Vec<(String, String)>,
    /// Log lines.
    pub logs: Vec<String>,
}

/// What is told of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Note {
    /// Where it stands.
    State,
    /// A property.
    Property,
    /// A business key.
    Key,
    /// A log line.
    Log,
}

/// Most keys, properties and log lines of a call, each.
const NOTES: usize = 64;
/// Longest text of one, in bytes.
const NOTE: usize = 4096;

impl Notes {
    /// None.
    pub const EMPTY: Self = Self { keys: Vec::new(), properties: Vec::new(), logs: Vec::new() };

    /// Adds one, cut to 4 KiB; false if there are 64 of its kind already.
    pub fn add(&mut self, kind: Note, name: &str, text: &str) -> bool {
        let (name, text) = (cut(name, 256), cut(text, NOTE));
        let pair = (name.to_owned(), text.to_owned());
        let list = match kind {
            Note::Log => {
                let room = self.logs.len() < NOTES;
                if room {
                    self.logs.push(pair.1);
                }
                return room;
            }
            Note::Key => &mut self.keys,
            Note::State => {
                let state = ("state".to_owned(), pair.1);
                let room = self.properties.len() < NOTES;
                if room {
                    self.properties.push(state);
                }
                return room;
            }
            Note::Property => &mut self.properties,
        };
        let room = list.len() < NOTES;
        if room {
            list.push(pair);
        }
        room
    }
}

/// The text up to so many bytes.
pub(crate) fn cut(text: &str, bytes: usize) -> &str {
    &text[..text.floor_char_boundary(bytes)]
}
