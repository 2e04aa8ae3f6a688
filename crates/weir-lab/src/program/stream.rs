//! Streams of messages: server-sent events, WebSockets and calls of gRPC.

use super::{GrpcCall, Label, Pause, Text};
use regex::bytes::Regex;
use std::time::Duration;

/// A response that is a stream. The sample of the request is the stream as a whole, and each message is a
/// further sample.
#[derive(Clone, Debug)]
pub struct Stream {
    /// Label of the samples of messages; `None` for a call with a single message in each direction, and
    /// for one whose schema is not yet known.
    pub messages: Option<Label>,
    /// Protocol of the messages.
    pub kind: StreamKind,
}

impl Stream {
    /// Number of messages that the client determines; `None` if the server does.
    #[must_use]
    pub fn message_count(&self) -> Option<f64> {
        match &self.kind {
            StreamKind::Events(_) => None,
            StreamKind::WebSocket { exchanges, repeat } => {
                Some(exchanges.len() as f64 * *repeat as f64)
            }
            StreamKind::Grpc(call) => {
                let method = &call.bound.get()?.method;
                match (method.is_client_streaming(), method.is_server_streaming()) {
                    (false, false) => Some(0.0),
                    (true, false) => Some(call.count() as f64),
                    (_, true) => None,
                }
            }
        }
    }
}

/// Protocol of the messages of a stream.
#[derive(Clone, Debug)]
pub enum StreamKind {
    /// Server-sent events. The sample of an event is the time since the previous one.
    Events(EventsEnd),
    /// A WebSocket (RFC 6455).
    WebSocket {
        /// Messages to send and to expect, in this order.
        exchanges: Vec<Exchange>,
        /// How often all of them are executed.
        repeat: u64,
    },
    /// A call of gRPC, on the user's HTTP/2 connection.
    Grpc(GrpcCall),
}

/// When a stream of events ends; without any limit when the server ends the stream.
#[derive(Clone, Debug, Default)]
pub struct EventsEnd {
    /// Number of events.
    pub count: Option<u64>,
    /// Time since the request.
    pub time: Option<Duration>,
    /// Type of the last event.
    pub event: Option<String>,
    /// Expression that matches the data of the last event.
    pub data: Option<Regex>,
}

/// A message to send, a message to expect, or both: one sample.
#[derive(Clone, Debug)]
pub struct Exchange {
    /// The message to send.
    pub send: Option<Outgoing>,
    /// Expression that the expected message matches; others are skipped.
    pub expect: Option<Regex>,
    /// Pause before.
    pub pause: Option<Pause>,
}

/// A message to send.
#[derive(Clone, Debug)]
pub enum Outgoing {
    /// Text.
    Text(Text),
    /// Bytes.
    Binary(bytes::Bytes),
    /// A ping; the sample ends with its pong.
    Ping,
}
