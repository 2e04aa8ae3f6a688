//! Streams of messages: server-sent events and WebSockets.

use super::fields::{TIME, count, valid};
use super::request::{RequestKeys, Think, pause};
use super::texts::Known;
use crate::program::{
    EventsEnd, Exchange, Function, Outgoing, Program, StatusSet, Stream, StreamKind, Text,
    parse_regex,
};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use regex::bytes::Regex;
use std::sync::Arc;
use std::time::Duration;
use weir_document::draft::Node;
use weir_document::finding::{Diagnostics, codes};
use weir_document::settings;
use weir_document::shape::fields::Fields;
use weir_document::shape::{Group, Kind, format};

settings! {
    /// When a stream of events ends, besides its end by the server.
    pub(super) struct Until is "the end of a stream" {
        /// Number of events.
        events: Option<u64> = count(),
        /// Number of messages of a gRPC stream.
        pub(super) messages: Option<u64> = count(),
        /// Time since the request.
        pub(super) time: Option<Duration> = positive(),
        /// Type of the last event.
        event: Option<String> = text(Kind::Text),
        /// A regular expression that matches the data of the last event.
        data = by_hand(Kind::Text),
    }
}

settings! {
    /// A message of a WebSocket to send, to expect, or both.
    pub(super) struct MessageKeys is "a message" {
        /// A text to send.
        send = by_hand(Kind::Scalar),
        /// A JSON value to send.
        json = by_hand(Kind::Json),
        /// Bytes to send, in Base64.
        binary = by_hand(Kind::Format(format::BASE64)),
        /// Send a ping and wait for its pong.
        ping: bool = boolean().default("false"),
        /// A regular expression that the expected message matches; others are skipped.
        expect = by_hand(Kind::Text),
        /// Pause before the message.
        pause = by_hand(Kind::Either(&[TIME, Kind::Object(Think::SHAPE)])),
    },
    groups: &[Group { keys: &["send", "json", "binary", "ping"], required: false }],
}

/// The stream of a request with this label.
pub(super) fn stream(
    node: &Node,
    name: &str,
    known: &Known,
    program: &mut Program,
    report: &mut Diagnostics,
) -> Option<Arc<Stream>> {
    let fields = Fields::new(node, RequestKeys::SHAPE);
    let (kind, word) = if fields.get("sse").is_some() {
        let until = fields.object_or_empty("until", Until::SHAPE);
        let Until { events, time, event, .. } = Until::read(&until);
        if let Some(messages) = until.get("messages") {
            let text = "`messages` belongs to `grpc`";
            report.error(codes::CONFLICT, messages.at, text).help("write `events`");
        }
        let data = until.get("data").and_then(|node| regex(node, report));
        (StreamKind::Events(EventsEnd { count: events, time, event, data }), "event")
    } else {
        let websocket = fields.get("websocket")?;
        let exchanges = fields.many("messages").iter();
        let exchanges: Vec<_> = exchanges.filter_map(|m| exchange(m, known, report)).collect();
        if exchanges.is_empty() {
            report
                .error(codes::MISSING_KEY, websocket.at, "a WebSocket needs `messages`")
                .help("write `messages: [{send: hello, expect: hello}]`");
        }
        let repeat = RequestKeys::read(&fields).repeat;
        (StreamKind::WebSocket { exchanges, repeat }, "message")
    };
    let messages = Some(program.label(&format!("{name} {word}")));
    Some(Arc::new(Stream { messages, kind }))
}

/// Header fields and successful statuses of a stream.
pub(super) fn handshake(stream: &Stream) -> (Vec<(Text, Text)>, StatusSet) {
    let fixed = |name, value| (Text::fixed(name), Text::fixed(value));
    if let StreamKind::Events(_) = stream.kind {
        let fields = vec![fixed("Accept", "text/event-stream"), fixed("Cache-Control", "no-cache")];
        return (fields, StatusSet { ranges: vec![(200, 200)] });
    }
    // 16 random bytes in Base64: the last character has two bits.
    let characters = |length: &str, of: &str| Function::RandomString {
        length: Text::fixed(length),
        of: Text::fixed(of),
    };
    let all = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let key = [characters("21", all).into(), characters("1", "AQgw").into(), "==".into()];
    let fields = vec![
        fixed("Connection", "Upgrade"),
        fixed("Upgrade", "websocket"),
        fixed("Sec-WebSocket-Version", "13"),
        (Text::fixed("Sec-WebSocket-Key"), Text::from_parts(key)),
    ];
    (fields, StatusSet { ranges: vec![(101, 101)] })
}

fn exchange(node: &Node, known: &Known, report: &mut Diagnostics) -> Option<Exchange> {
    let fields = Fields::new(node, MessageKeys::SHAPE);
    let keys = MessageKeys::read(&fields);
    let pause = fields.get("pause").and_then(|node| pause(node, report));
    let send = if let Some(node) = fields.get("send") {
        Some(Outgoing::Text(known.node(node, report)))
    } else if let Some(node) = node.get("json") {
        Some(Outgoing::Text(known.json(node, report)))
    } else if let Some(text) = fields.text("binary") {
        // The format is checked.
        Some(Outgoing::Binary(STANDARD.decode(text).ok()?.into()))
    } else {
        keys.ping.then_some(Outgoing::Ping)
    };
    let expect = match fields.get("expect") {
        Some(node) => Some(regex(node, report)?),
        None => None,
    };
    if send.is_none() && expect.is_none() {
        report
            .error(codes::MISSING_KEY, node.at, "a message is sent, expected, or both")
            .help("write `{send: hello, expect: hello}`, `{ping: true}` or `{expect: done}`");
        return None;
    }
    Some(Exchange { send, expect, pause })
}

fn regex(node: &Node, report: &mut Diagnostics) -> Option<Regex> {
    let found = parse_regex(node.text()?);
    valid(found.map_err(|reason| format!("not a regular expression: {reason}")), node, report)
}
