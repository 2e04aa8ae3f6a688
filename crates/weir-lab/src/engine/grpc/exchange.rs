//! The messages of a call, in both directions.

use super::CallError;
use crate::engine::closed::nanos;
use crate::engine::connection::Connection;
use crate::engine::event_loop::Loop;
use crate::engine::http2::{Part, Parts, Reader};
use crate::engine::plan::{Capture, PreparedRequest};
use crate::engine::request_error::RequestError;
use crate::engine::send::{Destination, ExchangeTotals};
use crate::engine::stream::{Message, Messages, violation};
use crate::engine::user::User;
use crate::grpc::{self, Decoder, FrameError, Status};
use crate::program::{BoundCall, GrpcCall};
use crate::sample::ErrorKind;
use bytes::Bytes;
use http::HeaderMap;
use http_body_util::{Either, Full};
use tokio::sync::mpsc;

/// State of a call.
pub(super) struct Exchange<'c> {
    call: &'c GrpcCall,
    bound: &'c BoundCall,
    prepared: &'c PreparedRequest,
    start: u64,
    /// Time of the last message.
    last: u64,
    /// The frame of the first message.
    first: Bytes,
    outgoing: Outgoing,
    /// Sent messages with a sample, also of an attempt that the server refused.
    pub(super) sampled: u64,
    decoder: Decoder,
    /// Received messages, and their bytes.
    received: u64,
    body: u64,
    first_byte: u64,
    /// Status of HTTP; 0 without a response.
    http: u16,
    status: Option<Status>,
    /// Received and sent bytes of the connection.
    bytes: (u64, u64),
}

/// Messages that the client streams.
#[derive(Default)]
struct Outgoing {
    /// `None` after the last message.
    channel: Option<mpsc::Sender<Bytes>>,
    /// The load has ended.
    is_stopped: bool,
    /// Number of the next message, and the time from which it is sent.
    next: u64,
    due: u64,
}

/// What happens next in a call.
enum Turn {
    Part(Result<Part, hyper::Error>),
    /// The connection takes a message.
    Send,
    /// A time is over, or the load has ended.
    Time,
}

/// How a call goes on.
#[derive(PartialEq, Eq)]
enum Next {
    Continue,
    Done,
}

impl Outgoing {
    /// Waits until the next message is due, and the connection takes one.
    async fn ready(&self, events: &Loop) {
        let Some(channel) = &self.channel else { return };
        if self.due > events.now() {
            tokio::time::sleep_until(events.instant(self.due)).await;
        }
        // A closed channel is noticed when the message is sent.
        let _ = channel.reserve().await;
    }
}

impl<'c> Exchange<'c> {
    pub(super) fn new(
        (call, bound): (&'c GrpcCall, &'c BoundCall),
        prepared: &'c PreparedRequest,
        (first, now): (Bytes, u64),
        sampled: u64,
    ) -> Self {
        Self {
            call,
            bound,
            prepared,
            start: now,
            last: now,
            first,
            outgoing: Outgoing { due: now, ..Outgoing::default() },
            sampled,
            decoder: Decoder::default(),
            received: 0,
            body: 0,
            first_byte: 0,
            http: 0,
            status: None,
            bytes: (0, 0),
        }
    }

    /// Adds the call to the sums of its sample.
    pub(super) fn add_to(&self, sum: &mut ExchangeTotals, now: u64) {
        (sum.end, sum.first_byte) = (now, self.first_byte);
        (sum.status, sum.grpc) = (self.http, self.status);
        sum.body += self.body;
        sum.received += self.bytes.0;
        sum.sent += self.bytes.1;
    }

    /// Messages are kept for checks and extractors.
    fn captures(&self) -> bool {
        self.prepared.capture == Capture::Body && self.http == 200
    }

    fn is_stream(&self) -> bool {
        self.bound.method.is_client_streaming() || self.bound.method.is_server_streaming()
    }

    /// When the call ends unless something happens: the deadline, the end of the stream, and the timeout.
    fn limits(&self) -> [u64; 3] {
        let after = |time: Option<std::time::Duration>| {
            time.map_or(u64::MAX, |time| self.start.saturating_add(nanos(time)))
        };
        // The client itself may wait before its next message.
        let active = match self.outgoing.channel {
            Some(_) => self.last.max(self.outgoing.due),
            None => self.last,
        };
        let silent = active.saturating_add(nanos(self.prepared.request.timeouts.response));
        [after(self.call.deadline), after(self.call.end.time), silent]
    }
}

impl User {
    /// Sends the messages of a call and receives those of the server, until its status.
    pub(super) async fn exchange_call(
        &mut self,
        events: &Loop,
        at: usize,
        destination: &Destination<'_>,
        exchange: &mut Exchange<'_>,
        messages: Messages<'_>,
    ) -> Result<(), CallError> {
        let (origin, target) = destination.origin_and_target();
        let message = match destination {
            Destination::Fixed(encoded, _, number) => &encoded.messages[*number],
            Destination::Built { .. } => &self.message,
        };
        let (head, _) = message.http2(origin, target)?.into_parts();
        let body = if exchange.bound.method.is_client_streaming() {
            // One at a time: a message is sent once the connection takes it.
            let (channel, parts) = mpsc::channel(1);
            exchange.outgoing.channel = Some(channel);
            Either::Right(Parts(parts))
        } else {
            Either::Left(Full::new(exchange.first.clone()))
        };
        self.captured.clear();
        self.captured.head.clear();
        let Connection::Http2(connection) = self.connections.at(at) else {
            return Err(RequestError::request("a call needs HTTP/2").into());
        };
        let mut reader = connection.open(http::Request::from_parts(head, body)).await?;
        let result = self.turns(events, &mut reader, exchange, messages).await;
        exchange.bytes = (reader.received(), reader.sent());
        if exchange.captures() && exchange.bound.method.is_server_streaming() {
            self.captured.add(if exchange.received == 0 { b"[]" } else { b"]" });
        }
        result
    }

    async fn turns(
        &mut self,
        events: &Loop,
        reader: &mut Reader,
        exchange: &mut Exchange<'_>,
        messages: Messages<'_>,
    ) -> Result<(), CallError> {
        loop {
            let limit = exchange.limits().into_iter().min().unwrap_or(u64::MAX);
            let may_stop = exchange.is_stream() && !exchange.outgoing.is_stopped;
            let limit = if may_stop { limit.min(self.deadline) } else { limit };
            let stops = events.wake.notified();
            let turn = if may_stop && self.must_end() {
                Turn::Time
            } else {
                tokio::select! {
                    part = reader.next() => Turn::Part(part),
                    () = exchange.outgoing.ready(events), if exchange.outgoing.channel.is_some() => {
                        Turn::Send
                    }
                    () = tokio::time::sleep_until(events.instant(limit)) => Turn::Time,
                    () = stops, if may_stop => Turn::Time,
                }
            };
            self.now = events.now();
            let next = match turn {
                Turn::Part(Err(error)) if exchange.http == 0 => return Err(error.into()),
                Turn::Part(Err(error)) => {
                    let failed = CallError::from(error);
                    return Err(CallError { is_unprocessed: false, ..failed });
                }
                Turn::Part(Ok(part)) => self.receive(events, part, exchange, messages)?,
                Turn::Send => self.send_message(events, exchange, messages)?,
                Turn::Time => self.time_is_over(exchange)?,
            };
            if next == Next::Done {
                return Ok(());
            }
        }
    }

    /// Sends the next message.
    fn send_message(
        &mut self,
        events: &Loop,
        exchange: &mut Exchange<'_>,
        messages: Messages<'_>,
    ) -> Result<Next, RequestError> {
        let number = exchange.outgoing.next;
        let framed = if number == 0 {
            exchange.first.clone()
        } else {
            let made = exchange.bound.frame(number, &mut self.scope());
            made.map_err(RequestError::request)?
        };
        let sent = framed.len() as u64;
        let outgoing = &mut exchange.outgoing;
        let is_taken = match &outgoing.channel {
            Some(channel) => channel.try_send(framed).is_ok(),
            None => false,
        };
        let message =
            Message { start: outgoing.due.max(exchange.last), end: self.now, received: 0, sent };
        (outgoing.next, exchange.last) = (number + 1, self.now);
        outgoing.due = self.now.saturating_add(nanos(exchange.call.interval));
        // The server may have ended the call before all messages: its status says why.
        if !is_taken || outgoing.next >= exchange.call.count() {
            outgoing.channel = None;
        }
        if is_taken && !exchange.bound.method.is_server_streaming() && number >= exchange.sampled {
            exchange.sampled = number + 1;
            self.message(events, messages, message, None);
        }
        Ok(Next::Continue)
    }

    /// Receives a part of the response.
    fn receive(
        &mut self,
        events: &Loop,
        part: Part,
        exchange: &mut Exchange<'_>,
        messages: Messages<'_>,
    ) -> Result<Next, RequestError> {
        match part {
            Part::Head(head) => {
                exchange.http = head.status().as_u16();
                exchange.first_byte = self.now;
                self.captured.set_head(&head);
                exchange.head(head.headers())?;
            }
            Part::Data(data) if exchange.http != 200 => self.captured.add(&data),
            Part::Data(data) => {
                exchange.decoder.add(&data);
                while let Some(frame) = exchange.decoder.next().map_err(malformed)? {
                    let start = if exchange.received == 0 { exchange.start } else { exchange.last };
                    let received = frame.len();
                    let is_stream = exchange.bound.method.is_server_streaming();
                    if exchange.received == 0 {
                        exchange.first_byte = self.now;
                    } else if !is_stream {
                        return Err(violation("the response has more than one message"));
                    }
                    exchange.received += 1;
                    exchange.body += received;
                    exchange.last = self.now;
                    if exchange.captures() {
                        self.capture(exchange, frame)?;
                    }
                    if is_stream {
                        let message = Message { start, end: self.now, received, sent: 0 };
                        self.message(events, messages, message, None);
                    }
                    if exchange.call.end.messages.is_some_and(|last| exchange.received >= last) {
                        self.end_call(exchange, Status::Ok, "ended by the client");
                        return Ok(Next::Done);
                    }
                }
            }
            Part::Trailers(trailers) => {
                self.captured.add_trailers(&trailers);
                exchange.status = exchange.status.or(status(&trailers)?);
            }
            Part::End => return exchange.end().map(|()| Next::Done),
        }
        Ok(Next::Continue)
    }

    /// Keeps the JSON form of a message for checks and extractors: those of a stream as a list.
    fn capture(&mut self, exchange: &Exchange<'_>, frame: grpc::Frame) -> Result<(), RequestError> {
        let method = &exchange.bound.method;
        let content = exchange.decoder.content(frame).map_err(malformed)?;
        let json = grpc::json_of(&method.output(), content).map_err(violation)?;
        if method.is_server_streaming() {
            self.captured.add(if exchange.received == 1 { b"[" } else { b"," });
        }
        match json {
            Some(json) => self.captured.add(&json),
            None => self.captured.truncated = true,
        }
        Ok(())
    }

    /// Ends a call by the client, with a status as if it came from the server.
    fn end_call(&mut self, exchange: &mut Exchange<'_>, status: Status, why: &'static str) {
        let mut trailers = HeaderMap::new();
        trailers.insert("grpc-status", (status as u16).into());
        trailers.insert("grpc-message", http::HeaderValue::from_static(why));
        self.captured.add_trailers(&trailers);
        exchange.status = Some(status);
    }

    /// Ends a call whose time is over, as far as it is.
    fn time_is_over(&mut self, exchange: &mut Exchange<'_>) -> Result<Next, RequestError> {
        let [deadline, end, silent] = exchange.limits();
        if self.now >= deadline {
            // As if the server had noticed it first.
            self.end_call(exchange, Status::DeadlineExceeded, "the client's deadline is over");
            return Ok(Next::Done);
        }
        let stopped = exchange.is_stream() && self.must_end();
        if self.now >= end || stopped && exchange.bound.method.is_server_streaming() {
            self.end_call(exchange, Status::Ok, "ended by the client");
            return Ok(Next::Done);
        }
        if self.now >= silent {
            let timeout = exchange.prepared.request.timeouts.response;
            let what = if exchange.is_stream() { "no message" } else { "no complete response" };
            let why = format!("{what} within {timeout:?}");
            return Err(RequestError::new(ErrorKind::Timeout, why));
        }
        if stopped {
            // No further message; the server replies to those before.
            (exchange.outgoing.channel, exchange.outgoing.is_stopped) = (None, true);
        }
        Ok(Next::Continue)
    }
}

impl Exchange<'_> {
    /// The head of the response.
    fn head(&mut self, fields: &HeaderMap) -> Result<(), RequestError> {
        let text = |name| fields.get(name).map_or(&b""[..], http::HeaderValue::as_bytes);
        self.status = status(fields)?;
        let content_type = text("content-type");
        if self.http == 200
            && self.status.is_none()
            && !content_type.starts_with(b"application/grpc")
        {
            let content_type = String::from_utf8_lossy(content_type).into_owned();
            return Err(violation(format!(
                "the content type of the response is {content_type:?} instead of application/grpc"
            )));
        }
        self.decoder = Decoder::new(text("grpc-encoding"));
        Ok(())
    }

    /// The response has ended.
    fn end(&mut self) -> Result<(), RequestError> {
        match self.status {
            // Any other response is judged by its status.
            None if self.http != 200 => Ok(()),
            None => Err(violation("the response has no grpc-status")),
            Some(Status::Ok) => {
                self.decoder.finish().map_err(malformed)?;
                match self.received == 0 && !self.bound.method.is_server_streaming() {
                    true => Err(violation("the response has no message")),
                    false => Ok(()),
                }
            }
            Some(_) => Ok(()),
        }
    }
}

fn status(fields: &HeaderMap) -> Result<Option<Status>, RequestError> {
    let Some(field) = fields.get("grpc-status") else { return Ok(None) };
    match Status::of_field(field.as_bytes()) {
        Some(status) => Ok(Some(status)),
        None => Err(violation(format!("grpc-status is {field:?} instead of a number"))),
    }
}

fn malformed(error: FrameError) -> RequestError {
    violation(error.to_string())
}
