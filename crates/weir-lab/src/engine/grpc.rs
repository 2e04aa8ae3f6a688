//! Calls of gRPC (`grpc/doc/PROTOCOL-HTTP2.md`), one at a time on the user's HTTP/2 connection.

mod exchange;
pub(super) mod reflection;

use super::connection::Connection;
use super::event_loop::Loop;
use super::http2;
use super::plan::PreparedRequest;
use super::request_error::RequestError;
use super::send::{Destination, ExchangeTotals};
use super::stream::Messages;
use super::user::User;
use crate::grpc::Status;
use crate::program::{CheckKind, GrpcCall, Label, Request, Stream, StreamKind};
use crate::sample::{ErrorKind, Outcome};
use exchange::Exchange;
use percent_encoding::percent_decode;
use std::borrow::Cow;
use weir_wire::Headers;

/// Why a call has no status.
struct CallError {
    fault: RequestError,
    /// The server has certainly not processed the call.
    is_unprocessed: bool,
}

impl From<RequestError> for CallError {
    fn from(fault: RequestError) -> Self {
        Self { fault, is_unprocessed: false }
    }
}

impl From<hyper::Error> for CallError {
    fn from(error: hyper::Error) -> Self {
        Self { fault: http2::fault(&error), is_unprocessed: http2::is_unprocessed(&error) }
    }
}

impl User {
    /// Executes a call. One that the server has certainly not processed is sent once more on a new
    /// connection, as clients of gRPC do (proposal A6).
    pub(super) async fn call(
        &mut self,
        events: &Loop,
        prepared: &PreparedRequest,
        (call, label): (&GrpcCall, Option<Label>),
        (destination, hidden): (&Destination<'_>, bool),
        sum: &mut ExchangeTotals,
    ) -> Result<(), RequestError> {
        let Some(bound) = call.bound.get() else {
            return Err(RequestError::request("the schema of the call is not known"));
        };
        let (first, json) = bound.first(&mut self.scope()).map_err(RequestError::request)?;
        if let Destination::Built { .. } = destination {
            // As checks and examples show it.
            self.message.bytes.truncate(self.message.head);
            self.message.bytes.extend_from_slice(json.as_bytes());
        }
        let (origin, target) = destination.origin_and_target();
        let url = origin.url(target);
        let is_stream = bound.method.is_client_streaming() || bound.method.is_server_streaming();
        let label = label.unwrap_or_else(|| match is_stream {
            true => self.message_label(events, prepared),
            false => prepared.request.label,
        });
        let (mut retries, mut sampled) = (false, 0);
        loop {
            let (at, is_new) = self.connect(events, prepared, destination, sum).await?;
            let start = (first.clone(), events.now());
            let mut exchange = Exchange::new((call, bound), prepared, start, sampled);
            let messages = Messages { label, url: &url, status: 200, hidden };
            let result = self.exchange_call(events, at, destination, &mut exchange, messages).await;
            exchange.add_to(sum, events.now());
            if result.is_err() || !prepared.request.keep_alive {
                self.connections.close(at);
            }
            match result {
                Err(failed) if failed.is_unprocessed && !is_new && !retries => {
                    (retries, sampled) = (true, exchange.sampled);
                }
                result => return result.map_err(|failed| failed.fault),
            }
        }
    }

    /// The label of the messages of a call whose schema was not known before the run.
    fn message_label(&self, events: &Loop, prepared: &PreparedRequest) -> Label {
        let labels = &events.common.plan.program.labels;
        let name = labels.name(prepared.request.label, |name| format!("{name} message"));
        events.label(&name, false)
    }

    /// Index of the open connection, and whether it is new.
    async fn connect(
        &mut self,
        events: &Loop,
        prepared: &PreparedRequest,
        destination: &Destination<'_>,
        sum: &mut ExchangeTotals,
    ) -> Result<(usize, bool), RequestError> {
        let (origin, _) = destination.origin_and_target();
        self.paused = false;
        // Also without a pause the server may be about to end the connection.
        if let Some(at) = self.connections.find(origin, true, true) {
            return Ok((at, false));
        }
        let (before, request) = (events.now(), &prepared.request);
        let how = (true, request.timeouts);
        let to = (&**origin, true);
        let tls = events.common.tls.prepare(&mut self.tls, Some(&self.values), to)?;
        let opened = Connection::open(events, origin, &request.client, how, tls).await;
        sum.connect += events.now() - before;
        Ok((self.connections.insert(origin.clone(), true, opened?), true))
    }
}

/// The outcome of a call with a status.
pub(super) fn outcome(request: &Request, status: Status) -> Outcome {
    let is_checked = || request.checks.iter().any(|check| matches!(check.kind, CheckKind::Grpc(_)));
    let is_expected = || match request.stream.as_deref() {
        Some(Stream { kind: StreamKind::Grpc(call), .. }) => call.expected.contains(status),
        _ => false,
    };
    match status {
        Status::Ok => Outcome::Ok,
        _ if is_checked() => Outcome::Ok,
        _ if is_expected() => Outcome::Expected,
        status => Outcome::Error(ErrorKind::from_grpc(status)),
    }
}

/// A status with the message of the server.
pub(super) fn reason(status: Status, headers: &Headers) -> Cow<'static, str> {
    let message = headers.get("grpc-message").unwrap_or_default();
    if message.is_empty() {
        return Cow::Borrowed(status.name());
    }
    let message = percent_decode(message).decode_utf8_lossy();
    Cow::Owned(format!("{}: {message}", status.name()))
}
