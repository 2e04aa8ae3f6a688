//! The body of an HTTP/1.1 response.

use super::Http1Upload;
use crate::Connection;
use crate::attempt::{Failed, Scope, Upload};
use std::task::{Context, Poll, ready};
use std::time::Duration;
use weir_http::body::ResponseError;
use weir_http::deadline::{Deadline, Wait};
use weir_wire::{BodyDecoder, Framing, ResponseHead};

/// Maximum number of bytes that are read of a discarded response to keep its connection.
const MAX_DISCARDED_BYTES: usize = 64 * 1024;

/// Reads a response's body while sending the rest of the request.
pub struct Http1Response<'a> {
    /// `None` once the response is complete.
    connection: Option<Box<Connection>>,
    /// The rest of the request; owns the client's side until the response is complete.
    upload: Option<Box<Http1Upload<'a>>>,
    decoder: BodyDecoder,
    framing: Framing,
    /// Number of bytes at the front of the buffer that are decoded body.
    ready: usize,
    /// Whether the connection can be reused.
    keep_alive: bool,
    idle: Duration,
}

impl<'a> Http1Response<'a> {
    /// A body that is read next.
    pub fn new(
        connection: Box<Connection>,
        upload: Http1Upload<'a>,
        response: &ResponseHead,
        idle: Duration,
    ) -> Self {
        let is_complete = !upload.progress.is_finished() || upload.progress.is_complete();
        let rest = (!upload.progress.is_finished()).then(|| Box::new(upload));
        Self::after(connection, rest, is_complete, response, idle)
    }

    /// A body with the `rest` of the request; `is_complete` unless sending was aborted.
    fn after(
        mut connection: Box<Connection>,
        rest: Option<Box<Http1Upload<'a>>>,
        is_complete: bool,
        response: &ResponseHead,
        idle: Duration,
    ) -> Self {
        connection.large = match response.framing {
            Framing::Length(length) => length > 6 * 1024,
            Framing::None => false,
            Framing::Chunked | Framing::UntilClose => connection.large,
        };
        let mut body = Self {
            connection: Some(connection),
            upload: rest,
            decoder: BodyDecoder::new(response.framing),
            framing: response.framing,
            ready: 0,
            keep_alive: response.keep_alive && is_complete,
            idle,
        };
        if body.decoder.is_done() {
            body.finish();
        }
        body
    }

    /// Discards a response. Its connection is kept if the response is completely buffered and the
    /// request `is_complete`.
    pub(super) fn discard(
        connection: Box<Connection>,
        is_complete: bool,
        response: &ResponseHead,
        scope: &Scope<'_>,
    ) {
        let idle = scope.timeouts.idle;
        let mut body = Http1Response::after(connection, None, is_complete, response, idle);
        let mut left = MAX_DISCARDED_BYTES;
        // Nothing is awaited, so there is no task to wake.
        let mut cx = Context::from_waker(std::task::Waker::noop());
        while body.connection.is_some()
            && left > 0
            && matches!(body.poll_data(&mut cx, scope.deadline), Poll::Ready(Ok(true)))
        {
            let count = body.data().len().min(left);
            body.consume(count);
            left -= count;
        }
    }

    /// Detaches the body from the request, if nothing of the request is left to send.
    pub fn detach(self) -> Result<Http1Response<'static>, Self> {
        if self.upload.is_some() {
            return Err(self);
        }
        let Self { connection, decoder, framing, ready, keep_alive, idle, .. } = self;
        Ok(Http1Response { connection, upload: None, decoder, framing, ready, keep_alive, idle })
    }

    /// Length in bytes, if known.
    pub fn length(&self) -> Option<u64> {
        self.framing.length()
    }

    /// Bytes that have arrived.
    pub fn data(&self) -> &[u8] {
        match &self.connection {
            Some(connection) => &connection.buffer.filled()[..self.ready],
            None => b"",
        }
    }

    /// Drops bytes from the front.
    pub fn consume(&mut self, count: usize) {
        if let Some(connection) = &mut self.connection {
            connection.buffer.consume(count);
            self.ready -= count;
            if self.ready == 0 && self.decoder.is_done() {
                self.finish();
            }
        }
    }

    /// Whether the buffered bytes are the last ones.
    pub fn is_last(&self) -> bool {
        self.decoder.is_done()
    }

    /// Waits for bytes; `false` at the end of the body.
    pub fn poll_data(
        &mut self,
        cx: &mut Context<'_>,
        deadline: &Deadline,
    ) -> Poll<Result<bool, ResponseError>> {
        self.poll_request(cx);
        loop {
            let Some(connection) = &mut self.connection else {
                return Poll::Ready(Ok(false));
            };
            let decoded = self.decoder.decode(connection.buffer.filled())?;
            connection.buffer.consume(decoded.data.start);
            self.ready = decoded.data.len();
            if self.ready > 0 {
                deadline.progress();
                return Poll::Ready(Ok(true));
            }
            if self.decoder.is_done() {
                self.finish();
                return Poll::Ready(Ok(false));
            }
            if decoded.consumed > 0 {
                continue;
            }
            match connection.poll_fill(cx) {
                Poll::Ready(Ok(0)) => {
                    self.keep_alive = false;
                    if self.decoder.close().is_err() {
                        return Poll::Ready(Err(self.failed(ResponseError::UpstreamClosed)));
                    }
                }
                Poll::Ready(Ok(_)) => {}
                Poll::Ready(Err(_)) => {
                    return Poll::Ready(Err(self.failed(ResponseError::UpstreamClosed)));
                }
                Poll::Pending => {
                    let expired = ready!(deadline.poll(cx, Wait::UpstreamBody, self.idle));
                    return Poll::Ready(Err(self.failed(ResponseError::TimedOut(expired))));
                }
            }
        }
    }

    /// Continues sending the request. Errors are ignored, as the response has arrived.
    pub fn poll_request(&mut self, cx: &mut Context<'_>) {
        if let (Some(upload), Some(connection)) = (&mut self.upload, &self.connection)
            && let Poll::Ready(sent) = upload.poll_send(connection, cx)
        {
            self.keep_alive &= sent.is_ok() && upload.progress.is_complete();
            self.upload = None;
        }
    }

    fn failed(&mut self, error: ResponseError) -> ResponseError {
        if let Some(connection) = self.connection.take() {
            let timed_out = matches!(error, ResponseError::TimedOut(_));
            connection.failed(if timed_out { Failed::TimedOut } else { Failed::Closed });
        }
        error
    }

    /// The response is complete: the connection is released, unless the request was not sent
    /// completely.
    fn finish(&mut self) {
        if let Some(connection) = self.connection.take() {
            if self.keep_alive && self.upload.is_none() {
                connection.check_in();
            } else {
                connection.close();
            }
        }
    }
}
