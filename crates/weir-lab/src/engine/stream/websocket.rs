//! WebSockets (RFC 6455).

use super::source::Source;
use super::{Message, Messages, Opened, field_of, has_value, violation};
use crate::engine::connection;
use crate::engine::event_loop::Loop;
use crate::engine::http1::MAX_CAPTURED_BODY_BYTES;
use crate::engine::request_error::RequestError;
use crate::engine::send::ExchangeTotals;
use crate::engine::user::{NANOS_PER_MILLI, User};
use crate::program::{Exchange, Outgoing};
use crate::sample::ErrorKind;
use futures_util::{SinkExt, StreamExt};
use regex::bytes::Regex;
use std::collections::VecDeque;
use std::convert::Infallible;
use std::time::Duration;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Error, Message as Frame};
use weir_wire::Headers;

/// Largest message.
const MAX_MESSAGE_BYTES: usize = 16 * 1024 * 1024;
/// Time for the server to answer a closing frame.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);
/// Most messages that are kept while an expected one is awaited.
const MAX_SEEN: usize = 16;
/// Most messages that are read during a pause. Further ones wait in the connection.
const MAX_EARLY: usize = 1000;

/// A frame, an error, or the end of the connection.
type Arrival = Option<Result<Frame, Error>>;

/// An open WebSocket.
struct Socket {
    stream: WebSocketStream<connection::Stream>,
    /// What arrived during a pause.
    early: VecDeque<Arrival>,
    /// Bytes of these messages.
    early_bytes: usize,
}

impl Socket {
    fn new(stream: WebSocketStream<connection::Stream>) -> Self {
        Self { stream, early: VecDeque::new(), early_bytes: 0 }
    }

    /// Reads during a pause, so that pings of the server have their pongs: it would close the WebSocket. The
    /// rest is kept for the next message.
    async fn answer_pings(&mut self) -> Infallible {
        while self.early.len() < MAX_EARLY
            && self.early_bytes < MAX_CAPTURED_BODY_BYTES
            && !self.is_over()
        {
            // The pong of a ping is sent by the next read.
            let arrival = self.stream.next().await;
            if let Some(Ok(Frame::Ping(_) | Frame::Pong(_) | Frame::Frame(_))) = arrival {
                continue;
            }
            self.early_bytes += length(&arrival);
            self.early.push_back(arrival);
        }
        std::future::pending().await
    }

    /// Whether the server has ended the WebSocket during a pause.
    fn is_over(&self) -> bool {
        let is_data = |arrival: &Arrival| matches!(arrival, Some(Ok(frame)) if !matches!(frame, Frame::Close(_)));
        self.early.back().is_some_and(|last| !is_data(last))
    }

    /// The next frame.
    async fn next(&mut self) -> Arrival {
        let Some(arrival) = self.early.pop_front() else { return self.stream.next().await };
        self.early_bytes -= length(&arrival);
        arrival
    }

    /// Sends a frame.
    async fn send(&mut self, frame: Frame) -> Result<(), RequestError> {
        if self.is_over()
            && let Some(last) = self.early.pop_back()
        {
            return Err(data_of(last).err().unwrap_or_else(RequestError::closed));
        }
        self.stream.send(frame).await.map_err(|error| fault(&error))
    }
}

/// Bytes of a message.
fn length(arrival: &Arrival) -> usize {
    arrival.as_ref().and_then(|frame| frame.as_ref().ok()).map_or(0, Frame::len)
}

/// The data of a message; `None` of another frame.
fn data_of(arrival: Arrival) -> Result<Option<bytes::Bytes>, RequestError> {
    match arrival {
        None => Err(RequestError::closed()),
        Some(Err(error)) => Err(fault(&error)),
        Some(Ok(Frame::Close(reason))) => {
            let why = reason.map_or_else(
                || "the server closed the WebSocket".to_owned(),
                |reason| format!("the server closed the WebSocket with {}", reason.code),
            );
            Err(RequestError::new(ErrorKind::Closed, why))
        }
        Some(Ok(Frame::Text(text))) => Ok(Some(bytes::Bytes::from(text))),
        Some(Ok(Frame::Binary(bytes))) => Ok(Some(bytes)),
        Some(Ok(_)) => Ok(None),
    }
}

/// Verifies the answer to the handshake.
pub(super) fn verify(request: &[u8], headers: &Headers) -> Result<(), RequestError> {
    let key = field_of(request, "sec-websocket-key").unwrap_or_default();
    let expected = derive_accept_key(key);
    if headers.get("sec-websocket-accept") != Some(expected.as_bytes()) {
        return Err(violation("the server's Sec-WebSocket-Accept does not match the key"));
    }
    match has_value(headers, "upgrade", "websocket") {
        true => Ok(()),
        false => Err(violation("the server has not switched to WebSocket")),
    }
}

impl User {
    /// Exchanges messages and closes the WebSocket. The answer to the handshake is the first byte of the
    /// sample.
    pub(super) async fn websocket(
        &mut self,
        events: &Loop,
        opened: Opened,
        (exchanges, repeat): (&[Exchange], u64),
        messages: Messages<'_>,
        sum: &mut ExchangeTotals,
    ) -> Result<(), RequestError> {
        let config = WebSocketConfig::default()
            .max_message_size(Some(MAX_MESSAGE_BYTES))
            .max_frame_size(Some(MAX_MESSAGE_BYTES));
        let Source::Http1 { stream, rest, .. } = opened.source else {
            return Err(RequestError::request("a WebSocket needs HTTP/1.1"));
        };
        let how = (opened.timeout, opened.captures);
        let stream =
            WebSocketStream::from_partially_read(stream, rest, Role::Client, Some(config)).await;
        let mut socket = Socket::new(stream);
        self.now = events.now();
        for _ in 0..repeat {
            for exchange in exchanges {
                if let Some(pause) = &exchange.pause {
                    let length = (self.pause_millis(pause).max(0.0) * NANOS_PER_MILLI) as u64;
                    // Without a timer if there is nothing to wait for.
                    if length > 0 {
                        let until = self.now.saturating_add(length);
                        self.within(events, until, socket.answer_pings()).await;
                    }
                }
                if self.must_end() {
                    return self.close(events, socket, sum).await;
                }
                let result = self.exchange_message(events, &mut socket, exchange, how).await;
                let (message, failed) = match result {
                    Ok(message) => (message, None),
                    Err((message, fault)) => (message, Some(fault)),
                };
                (sum.sent, sum.received) =
                    (sum.sent + message.sent, sum.received + message.received);
                (sum.body, sum.end) = (sum.body + message.received, message.end);
                self.now = message.end;
                self.message(events, messages, message, failed.as_ref());
                if let Some(fault) = failed {
                    return Err(fault);
                }
            }
        }
        self.close(events, socket, sum).await
    }

    /// Sends a message and waits for the expected one.
    async fn exchange_message(
        &mut self,
        events: &Loop,
        socket: &mut Socket,
        exchange: &Exchange,
        (timeout, captures): (Duration, bool),
    ) -> Result<Message, (Message, RequestError)> {
        let is_ping = matches!(exchange.send, Some(Outgoing::Ping));
        let frame = exchange.send.as_ref().map(|outgoing| match outgoing {
            Outgoing::Text(text) => Frame::text(text.render(&mut self.scope()).into_owned()),
            Outgoing::Binary(bytes) => Frame::binary(bytes.clone()),
            Outgoing::Ping => Frame::Ping(bytes::Bytes::from_static(b"weir-lab")),
        });
        let mut message = Message { start: events.now(), ..Message::default() };
        let mut seen = Seen { keeps: captures, ..Seen::default() };
        let work = async {
            if let Some(frame) = frame {
                message.sent = frame.len() as u64;
                socket.send(frame).await?;
            }
            let expected = exchange.expect.as_ref();
            if is_ping || expected.is_some() {
                seen.wait(socket, expected, is_ping).await?;
            }
            Ok(())
        };
        let done = tokio::time::timeout(timeout, work).await;
        (message.end, message.received) = (events.now(), seen.received);
        for text in seen.texts.iter().filter(|_| captures) {
            self.captured.add(text);
            self.captured.add(b"\n");
        }
        match done {
            Ok(Ok(())) => Ok(message),
            Ok(Err(fault)) => Err((message, fault)),
            Err(_) => Err((message, seen.timed_out(exchange, timeout))),
        }
    }

    /// Closes the WebSocket and waits for the server's closing frame.
    async fn close(
        &mut self,
        events: &Loop,
        mut socket: Socket,
        sum: &mut ExchangeTotals,
    ) -> Result<(), RequestError> {
        let closing = async {
            if socket.stream.close(None).await.is_ok() {
                while let Some(Ok(_)) = socket.stream.next().await {}
            }
        };
        // A server that does not answer has had all messages.
        let _ = tokio::time::timeout(CLOSE_TIMEOUT, closing).await;
        sum.end = events.now();
        Ok(())
    }
}

/// Messages that came while an expected one was awaited.
#[derive(Default)]
struct Seen {
    received: u64,
    /// More than the last message is kept.
    keeps: bool,
    texts: VecDeque<bytes::Bytes>,
    /// Bytes of these messages.
    bytes: usize,
}

impl Seen {
    async fn wait(
        &mut self,
        socket: &mut Socket,
        expected: Option<&Regex>,
        is_ping: bool,
    ) -> Result<(), RequestError> {
        loop {
            let arrival = socket.next().await;
            if let Some(Ok(Frame::Pong(_))) = arrival
                && is_ping
                && expected.is_none()
            {
                return Ok(());
            }
            let Some(data) = data_of(arrival)? else { continue };
            let is_expected = expected.is_some_and(|regex| regex.is_match(&data));
            self.add(data);
            if is_expected {
                return Ok(());
            }
        }
    }

    /// Adds a message. The messages are captured, of many skipped ones the last.
    fn add(&mut self, data: bytes::Bytes) {
        self.received += data.len() as u64;
        self.bytes += data.len();
        self.texts.push_back(data);
        let most = if self.keeps { MAX_SEEN } else { 1 };
        while self.texts.len() > most
            || self.bytes > MAX_CAPTURED_BODY_BYTES && self.texts.len() > 1
        {
            let first = self.texts.pop_front().unwrap_or_default();
            self.bytes -= first.len();
        }
    }

    fn timed_out(&self, exchange: &Exchange, timeout: Duration) -> RequestError {
        let expected = match &exchange.expect {
            Some(regex) => format!("no message matches {regex}"),
            None => "no pong".to_owned(),
        };
        let came = self.texts.back().map_or_else(String::new, |text| {
            let text: String = String::from_utf8_lossy(text).chars().take(100).collect();
            format!("; the last one was {text:?}")
        });
        let message = format!("{expected} within {timeout:?}{came}");
        RequestError::new(ErrorKind::Timeout, message)
    }
}

fn fault(error: &Error) -> RequestError {
    match error {
        Error::Io(error) => RequestError::from_io(error),
        Error::ConnectionClosed | Error::AlreadyClosed => RequestError::closed(),
        Error::Protocol(
            tokio_tungstenite::tungstenite::error::ProtocolError::ResetWithoutClosingHandshake,
        ) => RequestError::closed(),
        error => violation(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_skipped_messages_are_kept() {
        let seen = |keeps, count: usize, bytes: usize| {
            let mut seen = Seen { keeps, ..Seen::default() };
            let message = bytes::Bytes::from(vec![b'x'; bytes]);
            (0..count).for_each(|_| seen.add(message.clone()));
            assert_eq!(
                (seen.received, seen.bytes),
                ((count * bytes) as u64, seen.texts.len() * bytes)
            );
            seen.texts.len()
        };
        assert_eq!((seen(false, 20, 5), seen(true, 20, 5)), (1, 16));
        assert_eq!(
            (seen(true, 9, MAX_MESSAGE_BYTES / 2), seen(true, 2, MAX_MESSAGE_BYTES)),
            (2, 1)
        );
    }
}
