//! FastCGI and CGI: requests to agents of a pool.

mod output;
mod response;
mod upload;

pub(crate) use response::FastCgiResponse;
pub use upload::FastCgiUpload;

use super::Connection;
use super::attempt::{Failure, RESPONSE_LIMITS, Reached, Scope};
use bytes::Bytes;
use output::{Output, OutputError};
use response::settle;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use weir_wire::cgi::CgiScan;
use weir_wire::fastcgi::ProtocolStatus;
use weir_wire::{Framing, HeadError, ResponseHead};

/// Maximum size of a body that is buffered before its first byte is sent, so that the agent is free
/// before the client has the response.
const MAX_BUFFERED_BYTES: usize = 32 * 1024;

/// Data that arrived with the head of a response.
pub struct Head {
    /// The start of the body.
    body: Vec<u8>,
    /// A local redirect (RFC 3875 section 6.2.2): path and query of the resource to serve instead.
    redirect: Option<String>,
    output: Option<Output>,
}

/// Response of an agent.
pub enum AgentOutcome<'a> {
    /// The entire body.
    Buffered(Bytes),
    /// A response, with its body.
    Response(Box<FastCgiResponse<'a>>),
    /// A local redirect.
    Redirect(String),
}

impl Head {
    /// The response that begins with this head.
    pub fn finish<'a>(
        self,
        mut connection: Box<Connection>,
        upload: FastCgiUpload<'a>,
        framing: Framing,
        idle: Duration,
    ) -> AgentOutcome<'a> {
        let Self { body: mut front, redirect, output } = self;
        let Some(mut output) = output else { return AgentOutcome::Buffered(Bytes::new()) };
        if let Some(location) = redirect {
            settle(connection, output, upload.progress.is_complete());
            return AgentOutcome::Redirect(location);
        }
        while front.len() < MAX_BUFFERED_BYTES
            && matches!(output.advance(&mut connection), Ok(true))
        {
            let count = output.ready();
            if count == 0 {
                break;
            }
            front.extend_from_slice(&connection.buffer.filled()[..count]);
            output.consume(&mut connection, count);
        }
        let is_complete = output.end().is_some() && output.ready() == 0;
        let fits = match framing {
            Framing::Length(length) => front.len() as u64 == length,
            Framing::None | Framing::Chunked | Framing::UntilClose => true,
        };
        if is_complete && fits && upload.progress.is_complete() {
            settle(connection, output, true);
            return match framing {
                Framing::None => AgentOutcome::Response(Box::new(FastCgiResponse::empty())),
                _ => AgentOutcome::Buffered(Bytes::from(front)),
            };
        }
        let front = Bytes::from(front);
        let body = FastCgiResponse::new(front, connection, upload, output, framing, idle);
        AgentOutcome::Response(Box::new(body))
    }
}

/// State of reading the head of a response.
#[derive(Default)]
pub struct HeadReader {
    scan: CgiScan,
    /// Bytes of the head.
    head: Vec<u8>,
}

impl HeadReader {
    /// Reads the head; returns the start of the body.
    fn poll(
        &mut self,
        connection: &mut Connection,
        output: &mut Output,
        response: &mut ResponseHead,
        scope: &Scope<'_>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Vec<u8>, Failure>> {
        loop {
            let has_more = ready!(output.poll(connection, cx)).map_err(|error| match error {
                OutputError::Closed if self.head.is_empty() && connection.buffer.is_empty() => {
                    Failure::Closed(Reached::NoResponse)
                }
                OutputError::Closed => Failure::Closed(Reached::PartOfHead),
                OutputError::ProtocolError(error) => Failure::protocol_error(error.to_string()),
            })?;
            if !has_more {
                return Poll::Ready(Err(self.ended(output)));
            }
            let count = output.ready();
            self.head.extend_from_slice(&connection.buffer.filled()[..count]);
            output.consume(connection, count);
            let parsed = self.scan.parse(&self.head, scope.method, response, &RESPONSE_LIMITS);
            if let Some(length) = parsed.map_err(|error| Failure::protocol_error(text(error)))? {
                return Poll::Ready(Ok(self.head.split_off(length)));
            }
        }
    }

    /// The location of a local redirect, if the response is one.
    fn redirect(&self, response: &ResponseHead) -> Option<String> {
        self.scan.local_redirect(response).map(str::to_owned)
    }

    /// The output ended without a head.
    fn ended(&self, output: &Output) -> Failure {
        match output.end() {
            Some(Some(end)) if end.protocol == ProtocolStatus::Overloaded => Failure::Overloaded,
            Some(Some(end)) if end.protocol != ProtocolStatus::Complete => {
                Failure::protocol_error("the agent did not accept the request")
            }
            Some(Some(_)) => Failure::protocol_error("the response has no head"),
            _ if self.head.is_empty() => Failure::Closed(Reached::NoResponse),
            _ => Failure::Closed(Reached::PartOfHead),
        }
    }
}

fn text(error: HeadError) -> String {
    match error {
        // The start line of HTTP corresponds to the status of CGI.
        HeadError::StartLine => "the response has no head or no valid status".to_owned(),
        error => error.to_string(),
    }
}
