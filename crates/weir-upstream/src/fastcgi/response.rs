//! The body of an agent's response, by FastCGI or CGI.

use super::FastCgiUpload;
use super::output::{Output, OutputError};
use crate::Connection;
use crate::attempt::{Failed, Upload};
use bytes::Bytes;
use std::future::poll_fn;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use weir_http::body::ResponseError;
use weir_http::deadline::{Deadline, Wait};
use weir_wire::Framing;

/// Limits from the last byte of a response to the end of the agent's output, in time and in further
/// bytes. Beyond them the connection is closed.
const END_TIMEOUT: Duration = Duration::from_secs(1);
const MAX_EXCESS_BYTES: usize = 1 << 20;

/// Reads a response's body while sending the rest of the request.
pub struct FastCgiResponse<'a> {
    /// Bytes that arrived with the head.
    front: Bytes,
    /// `None` once the response is complete.
    connection: Option<Box<Connection>>,
    upload: Option<Box<FastCgiUpload<'a>>>,
    output: Option<Output>,
    framing: Framing,
    /// Number of bytes still expected, if known.
    left: Option<u64>,
    /// Whether the request was sent completely.
    is_sent: bool,
    idle: Duration,
}

impl<'a> FastCgiResponse<'a> {
    pub(super) fn new(
        front: Bytes,
        connection: Box<Connection>,
        upload: FastCgiUpload<'a>,
        output: Output,
        framing: Framing,
        idle: Duration,
    ) -> Self {
        let left = framing.length();
        let mut body = Self {
            front,
            connection: Some(connection),
            is_sent: upload.progress.is_complete(),
            upload: (!upload.progress.is_finished()).then(|| Box::new(upload)),
            output: Some(output),
            framing,
            left,
            idle,
        };
        if let Some(left) = left {
            // Bytes beyond the declared length are dropped.
            body.front.truncate(usize::try_from(left).unwrap_or(usize::MAX));
        }
        body.finish_if_complete();
        body
    }

    /// A complete response without a body, for example to HEAD.
    pub(super) fn empty() -> FastCgiResponse<'static> {
        FastCgiResponse {
            front: Bytes::new(),
            connection: None,
            upload: None,
            output: None,
            framing: Framing::None,
            left: Some(0),
            is_sent: true,
            idle: Duration::ZERO,
        }
    }

    /// Detaches the body from the request, if nothing of the request is left to send.
    pub fn detach(self: Box<Self>) -> Result<Box<FastCgiResponse<'static>>, Box<Self>> {
        if self.upload.is_some() {
            return Err(self);
        }
        let Self { front, connection, output, framing, left, is_sent, idle, .. } = *self;
        let upload = None;
        Ok(Box::new(FastCgiResponse {
            front,
            connection,
            upload,
            output,
            framing,
            left,
            is_sent,
            idle,
        }))
    }

    /// Length in bytes, if known.
    pub fn length(&self) -> Option<u64> {
        self.framing.length()
    }

    /// Bytes that have arrived.
    pub fn data(&self) -> &[u8] {
        if !self.front.is_empty() {
            return &self.front;
        }
        match (&self.connection, &self.output) {
            (Some(connection), Some(output)) => {
                let ready = output.ready();
                let count = self
                    .left
                    .map_or(ready, |left| ready.min(usize::try_from(left).unwrap_or(usize::MAX)));
                &connection.buffer.filled()[..count]
            }
            _ => b"",
        }
    }

    /// Drops bytes from the front.
    pub fn consume(&mut self, count: usize) {
        if let Some(left) = &mut self.left {
            *left -= count as u64;
        }
        if !self.front.is_empty() {
            let _ = self.front.split_to(count);
        } else if let (Some(connection), Some(output)) = (&mut self.connection, &mut self.output) {
            output.consume(connection, count);
        }
        self.finish_if_complete();
    }

    /// Whether the buffered bytes are known to be the last ones.
    pub fn is_last(&self) -> bool {
        match self.left {
            Some(left) => self.data().len() as u64 == left,
            None => {
                let rest = self.output.as_ref();
                rest.is_none_or(|output| output.end().is_some() && output.ready() == 0)
            }
        }
    }

    /// Waits for bytes; `false` at the end of the body.
    pub fn poll_data(
        &mut self,
        cx: &mut Context<'_>,
        deadline: &Deadline,
    ) -> Poll<Result<bool, ResponseError>> {
        self.poll_request(cx);
        if !self.data().is_empty() {
            return Poll::Ready(Ok(true));
        }
        let (Some(connection), Some(output)) = (&mut self.connection, &mut self.output) else {
            return Poll::Ready(Ok(false));
        };
        match output.poll(connection, cx) {
            Poll::Ready(Ok(true)) => {
                deadline.progress();
                Poll::Ready(Ok(true))
            }
            Poll::Ready(Ok(false)) if self.left.is_some_and(|left| left > 0) => {
                // The body is shorter than declared.
                self.close();
                Poll::Ready(Err(ResponseError::UpstreamClosed))
            }
            Poll::Ready(Ok(false)) => {
                self.finish();
                Poll::Ready(Ok(false))
            }
            Poll::Ready(Err(OutputError::Closed)) => {
                Poll::Ready(Err(self.failed(Failed::Closed, ResponseError::UpstreamClosed)))
            }
            Poll::Ready(Err(OutputError::ProtocolError(error))) => {
                let error = ResponseError::AgentProtocolError(error);
                Poll::Ready(Err(self.failed(Failed::ProtocolError, error)))
            }
            Poll::Pending => {
                let expired = ready!(deadline.poll(cx, Wait::UpstreamBody, self.idle));
                Poll::Ready(Err(self.failed(Failed::TimedOut, ResponseError::TimedOut(expired))))
            }
        }
    }

    /// Continues sending the request. Errors are ignored, as the response has arrived.
    pub fn poll_request(&mut self, cx: &mut Context<'_>) {
        if let (Some(upload), Some(connection)) = (&mut self.upload, &self.connection)
            && let Poll::Ready(sent) = upload.poll_send(connection, cx)
        {
            self.is_sent = sent.is_ok() && upload.progress.is_complete();
            self.upload = None;
        }
    }

    fn failed(&mut self, how: Failed, error: ResponseError) -> ResponseError {
        self.output = None;
        if let Some(connection) = self.connection.take() {
            connection.failed(how);
        }
        error
    }

    fn finish_if_complete(&mut self) {
        let all = match (self.left, &self.output) {
            (Some(left), _) => left == 0,
            (None, Some(output)) => output.end().is_some() && output.ready() == 0,
            (None, None) => true,
        };
        if all && self.front.is_empty() {
            self.finish();
        }
    }

    /// The response is complete. The agent is released when its output has ended.
    fn finish(&mut self) {
        let (Some(connection), Some(output)) = (self.connection.take(), self.output.take()) else {
            return;
        };
        settle(connection, output, self.is_sent && self.upload.is_none());
    }

    fn close(&mut self) {
        self.output = None;
        if let Some(connection) = self.connection.take() {
            connection.close();
        }
    }
}

/// Releases an agent whose response is complete: at once, or when its output has ended. `is_sent`
/// if the request was sent completely.
pub(super) fn settle(mut connection: Box<Connection>, mut output: Output, is_sent: bool) {
    let ended = output.ready() == 0 && matches!(output.advance(&mut connection), Ok(true));
    if ended && output.ready() == 0 {
        return release(connection, &output, is_sent);
    }
    tokio::task::spawn_local(async move {
        let mut excess = 0;
        let ending = poll_fn(|cx| {
            while ready!(output.poll(&mut connection, cx))? {
                let count = output.ready();
                excess += count;
                output.consume(&mut connection, count);
                if excess > MAX_EXCESS_BYTES {
                    return Poll::Ready(Err(OutputError::Closed));
                }
            }
            Poll::Ready(Ok(()))
        });
        match tokio::time::timeout(END_TIMEOUT, ending).await {
            Ok(Ok(())) => release(connection, &output, is_sent),
            Ok(Err(OutputError::ProtocolError(_))) => connection.failed(Failed::ProtocolError),
            Ok(Err(OutputError::Closed)) | Err(_) => connection.failed(Failed::Closed),
        }
    });
}

fn release(connection: Box<Connection>, output: &Output, is_sent: bool) {
    if is_sent && output.leaves_connection() {
        connection.check_in();
    } else {
        connection.close();
    }
}
