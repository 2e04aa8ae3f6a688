//! Streams of messages: a request whose response goes on, on a connection of its own. The sample of the
//! request is the whole stream; each message is a further sample.

mod source;
mod sse;
mod websocket;

use super::connection::Connection;
use super::event_loop::Loop;
use super::plan::{Capture, PreparedRequest};
use super::request_error::RequestError;
use super::send::{Destination, ExchangeTotals};
use super::user::User;
use crate::program::{Label, StreamKind};
use crate::record::Exchange;
use crate::sample::{ErrorKind, Outcome, Sample};
use source::Source;
use std::time::Duration;
use weir_wire::Headers;

/// A stream after the head of its response.
struct Opened {
    source: Source,
    start: u64,
    timeout: Duration,
    /// Messages are captured for checks and extractors.
    captures: bool,
}

/// Where the samples of messages are counted.
#[derive(Clone, Copy)]
pub(super) struct Messages<'p> {
    pub(super) label: Label,
    pub(super) url: &'p str,
    pub(super) status: u16,
    pub(super) hidden: bool,
}

/// A message: its start, its end, and received and sent bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Message {
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) received: u64,
    pub(super) sent: u64,
}

impl User {
    /// Sends a request and exchanges the messages of its stream.
    pub(super) async fn stream(
        &mut self,
        events: &Loop,
        prepared: &PreparedRequest,
        (destination, hidden): (&Destination<'_>, bool),
        sum: &mut ExchangeTotals,
    ) -> Result<(), RequestError> {
        let Some(stream) = prepared.request.stream.clone() else { return Ok(()) };
        let (origin, target) = destination.origin_and_target();
        let url = origin.url(target);
        if let Destination::Built { .. } = destination {
            sum.url = Some(url.clone());
        }
        if let StreamKind::Grpc(call) = &stream.kind {
            let call = (call, stream.messages);
            return self.call(events, prepared, call, (destination, hidden), sum).await;
        }
        let opened = self.open_stream(events, prepared, destination, sum).await?;
        let is_websocket = matches!(stream.kind, StreamKind::WebSocket { .. });
        // Any other response is one without a stream, which is judged by its status.
        if sum.status != if is_websocket { 101 } else { 200 } {
            return Ok(());
        }
        let label = stream.messages.unwrap_or(prepared.request.label);
        let messages = Messages { label, url: &url, status: sum.status, hidden };
        match &stream.kind {
            StreamKind::Events(end) => self.events(events, opened, end, messages, sum).await,
            StreamKind::WebSocket { exchanges, repeat } => {
                websocket::verify(&self.sent_head(destination), self.captured.headers())?;
                let rounds = (exchanges.as_slice(), *repeat);
                self.websocket(events, opened, rounds, messages, sum).await
            }
            // Is a call, not a stream on a connection of its own.
            StreamKind::Grpc(_) => Ok(()),
        }
    }

    /// The head of the request as sent.
    fn sent_head(&self, destination: &Destination<'_>) -> Vec<u8> {
        let message = match destination {
            Destination::Fixed(encoded, _, number) => &encoded.messages[*number],
            Destination::Built { .. } => &self.message,
        };
        message.bytes[..message.head].to_vec()
    }

    /// Opens a connection, sends the request and reads the head of the response.
    async fn open_stream(
        &mut self,
        events: &Loop,
        prepared: &PreparedRequest,
        destination: &Destination<'_>,
        sum: &mut ExchangeTotals,
    ) -> Result<Opened, RequestError> {
        let request = &*prepared.request;
        let timeouts = request.timeouts;
        let message = match destination {
            Destination::Fixed(encoded, _, number) => &encoded.messages[*number],
            Destination::Built { .. } => &self.message,
        };
        let (origin, target) = destination.origin_and_target();
        let before = events.now();
        let how = (request.http2, timeouts);
        let to = (&**origin, request.http2);
        let tls = events.common.tls.prepare(&mut self.tls, Some(&self.values), to)?;
        let opened = Connection::open(events, origin, &request.client, how, tls).await;
        let start = events.now();
        sum.connect += start - before;
        let method = destination.method(prepared);
        let opening = Source::open(opened?, (origin, target, method), message, &mut self.captured);
        let opened = tokio::time::timeout(timeouts.response, opening).await;
        let source = opened.unwrap_or_else(|_| Err(RequestError::timed_out()))?;
        sum.status = self.captured.head.status;
        (sum.received, sum.sent) = (sum.received + source.received(), sum.sent + source.sent());
        sum.end = events.now();
        sum.first_byte = sum.end;
        let captures = prepared.capture == Capture::Body;
        Ok(Opened { source, start, timeout: timeouts.response, captures })
    }

    /// Counts a message.
    pub(super) fn message(
        &mut self,
        events: &Loop,
        messages: Messages<'_>,
        message: Message,
        failed: Option<&RequestError>,
    ) {
        let (group_users, all_users) = events.active(self.group.index);
        let (user, times) = ((self.group.index, self.number), (message.start, message.end));
        let sample = Sample {
            outcome: failed.map_or(Outcome::Ok, |fault| Outcome::Error(fault.kind)),
            status: messages.status,
            received: message.received,
            body: message.received,
            decoded: message.received,
            sent: message.sent,
            message: failed.map_or("", |fault| fault.message.as_str()),
            url: messages.url,
            group_users,
            all_users,
            ..Sample::of(messages.label, user, times)
        };
        if !messages.hidden {
            let mut recorder = events.recorder.borrow_mut();
            recorder.start_sample(messages.label);
            recorder.add(&sample, Exchange::default);
        }
    }

    /// Waits for a part of a stream, at most until `until`; `None` after that time, and if the user has to
    /// end.
    async fn within<T>(
        &mut self,
        events: &Loop,
        until: u64,
        part: impl Future<Output = T>,
    ) -> Option<T> {
        let stops = events.wake.notified();
        let found = if self.must_end() {
            None
        } else {
            let until = events.instant(until.min(self.deadline));
            tokio::select! {
                found = part => Some(found),
                () = tokio::time::sleep_until(until) => None,
                () = stops => None,
            }
        };
        self.now = events.now();
        found
    }
}

/// The value of a field of an encoded head.
fn field_of<'h>(head: &'h [u8], name: &str) -> Option<&'h [u8]> {
    head.split(|&byte| byte == b'\n').find_map(|line| {
        let colon = memchr::memchr(b':', line)?;
        let is_field = line[..colon].eq_ignore_ascii_case(name.as_bytes());
        is_field.then(|| line[colon + 1..].trim_ascii())
    })
}

/// A violation of the protocol of a stream.
pub(super) fn violation(message: impl Into<String>) -> RequestError {
    RequestError::new(ErrorKind::Protocol, message)
}

/// Whether a field has a value, regardless of case.
fn has_value(headers: &Headers, name: &str, value: &str) -> bool {
    headers
        .get(name)
        .is_some_and(|found| String::from_utf8_lossy(found).to_ascii_lowercase().contains(value))
}
