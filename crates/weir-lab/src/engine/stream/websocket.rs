//! WebSockets (RFC 6455).

use super::source::Source;
use super::{Message, Messages, Opened, field_of, has_value, violation};
use crate::engine::connection;
use crate::engine::event_loop::Loop;
use crate::engine::request_error::RequestError;
use crate::engine::send::ExchangeTotals;
use crate::engine::user::{NANOS_PER_MILLI, User};
use crate::program::{Exchange, Outgoing};
use crate::sample::ErrorKind;
use futures_util::{SinkExt, StreamExt};
use regex::bytes::Regex;
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

type Socket = WebSocketStream<connection::Stream>;

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
        let mut socket =
            WebSocketStream::from_partially_read(stream, rest, Role::Client, Some(config)).await;
        self.now = events.now();
        for _ in 0..repeat {
            for exchange in exchanges {
                if let Some(pause) = &exchange.pause {
                    let length = (self.pause_millis(pause).max(0.0) * NANOS_PER_MILLI) as u64;
                    // Without a timer if there is nothing to wait for.
                    if length > 0 {
                        let until = self.now.saturating_add(length);
                        self.within(events, until, std::future::pending::<()>()).await;
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
        let mut seen = Seen::default();
        let work = async {
            if let Some(frame) = frame {
                message.sent = frame.len() as u64;
                socket.send(frame).await.map_err(|error| fault(&error))?;
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
            if socket.close(None).await.is_ok() {
                while let Some(Ok(_)) = socket.next().await {}
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
    texts: Vec<bytes::Bytes>,
}

impl Seen {
    async fn wait(
        &mut self,
        socket: &mut Socket,
        expected: Option<&Regex>,
        is_ping: bool,
    ) -> Result<(), RequestError> {
        loop {
            let frame = match socket.next().await {
                Some(Ok(frame)) => frame,
                Some(Err(error)) => return Err(fault(&error)),
                None => return Err(RequestError::closed()),
            };
            let data = match frame {
                Frame::Pong(_) if is_ping && expected.is_none() => return Ok(()),
                Frame::Close(reason) => {
                    let why = reason.map_or_else(
                        || "the server closed the WebSocket".to_owned(),
                        |reason| format!("the server closed the WebSocket with {}", reason.code),
                    );
                    return Err(RequestError::new(ErrorKind::Closed, why));
                }
                Frame::Text(text) => bytes::Bytes::from(text),
                Frame::Binary(bytes) => bytes,
                _ => continue,
            };
            self.received += data.len() as u64;
            let is_expected = expected.is_some_and(|regex| regex.is_match(&data));
            // The messages are captured, of many skipped ones the last.
            if self.texts.len() >= MAX_SEEN {
                self.texts.remove(0);
            }
            self.texts.push(data);
            if is_expected {
                return Ok(());
            }
        }
    }

    fn timed_out(&self, exchange: &Exchange, timeout: Duration) -> RequestError {
        let expected = match &exchange.expect {
            Some(regex) => format!("no message matches {regex}"),
            None => "no pong".to_owned(),
        };
        let came = self.texts.last().map_or_else(String::new, |text| {
            let text: String = String::from_utf8_lossy(text).chars().take(100).collect();
            format!("; the last one was {text:?}")
        });
        let message = format!("{expected} within {timeout:?}{came}");
        RequestError::new(ErrorKind::Timeout, message)
    }
}

/// Largest number of messages that are kept while an expected one is awaited.
const MAX_SEEN: usize = 16;

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
