//! The body of an HTTP/2 response.

use super::{Http2Upload, StreamPermit};
use bytes::{Buf, Bytes};
use h2::RecvStream;
use http::{HeaderMap, HeaderValue};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};
use weir_http::body::{BodyEnd, ResponseError};
use weir_http::deadline::{Deadline, Expired, Wait};
use weir_http::grpc;
use weir_wire::Framing;

/// Reads a response's body while sending the rest of the request.
pub struct Http2Response<'a> {
    permit: StreamPermit,
    /// The rest of the request.
    upload: Option<Http2Upload<'a>>,
    incoming: RecvStream,
    data: Bytes,
    framing: Framing,
    /// Received trailers.
    trailers: Option<HeaderMap>,
    is_finished: bool,
    idle: Duration,
    /// Whether this is the response to a gRPC call.
    is_grpc: bool,
}

impl<'a> Http2Response<'a> {
    pub(super) fn new(
        permit: StreamPermit,
        upload: Http2Upload<'a>,
        incoming: RecvStream,
        framing: Framing,
        idle: Duration,
        is_grpc: bool,
    ) -> Self {
        let upload = Some(upload).filter(|upload| !upload.progress.is_finished());
        let is_finished = incoming.is_end_stream();
        let (data, trailers) = (Bytes::new(), None);
        Self { permit, upload, incoming, data, framing, trailers, is_finished, idle, is_grpc }
    }

    /// Detaches the body from the request, if nothing of the request is left to send.
    pub fn detach(self: Box<Self>) -> Result<Box<Http2Response<'static>>, Box<Self>> {
        if self.upload.is_some() {
            return Err(self);
        }
        let Self { permit, incoming, data, framing, trailers, is_finished, idle, is_grpc, .. } =
            *self;
        let upload = None;
        let body = Http2Response {
            permit,
            upload,
            incoming,
            data,
            framing,
            trailers,
            is_finished,
            idle,
            is_grpc,
        };
        Ok(Box::new(body))
    }

    /// Length in bytes, if known.
    pub fn length(&self) -> Option<u64> {
        self.framing.length()
    }

    /// Bytes that have arrived.
    pub fn data(&self) -> &[u8] {
        &self.data
    }

    /// Takes up to `max` of the buffered bytes, without copying them.
    pub fn take(&mut self, max: usize) -> Bytes {
        let count = self.data.len().min(max);
        let bytes = self.data.slice(..count);
        self.consume(count);
        bytes
    }

    /// Drops bytes from the front.
    pub fn consume(&mut self, count: usize) {
        self.data.advance(count);
        // Fails only for more bytes than were received.
        let _ = self.incoming.flow_control().release_capacity(count);
    }

    /// Whether the buffered bytes are the last ones.
    pub fn is_last(&self) -> bool {
        self.is_finished || self.incoming.is_end_stream()
    }

    /// Waits for bytes; `false` at the end of the body.
    pub fn poll_data(
        &mut self,
        cx: &mut Context<'_>,
        deadline: &Deadline,
    ) -> Poll<Result<bool, ResponseError>> {
        if self.poll_request(cx) {
            deadline.progress();
        }
        loop {
            if self.is_finished {
                return Poll::Ready(Ok(false));
            }
            match self.incoming.poll_data(cx) {
                Poll::Ready(Some(Ok(data))) if data.is_empty() => continue,
                Poll::Ready(Some(Ok(data))) => {
                    self.data = data;
                    deadline.progress();
                    return Poll::Ready(Ok(true));
                }
                Poll::Ready(Some(Err(error))) => return Poll::Ready(Err(self.failed(&error))),
                Poll::Ready(None) => match self.incoming.poll_trailers(cx) {
                    Poll::Ready(Ok(trailers)) => {
                        (self.trailers, self.is_finished) = (trailers, true);
                        continue;
                    }
                    Poll::Ready(Err(error)) => return Poll::Ready(Err(self.failed(&error))),
                    Poll::Pending => {}
                },
                Poll::Pending => {}
            }
            let expired = ready!(deadline.poll(cx, Wait::UpstreamBody, self.idle));
            if expired != Expired::Request {
                self.permit.target().health.failed(Instant::now());
            }
            return Poll::Ready(Err(ResponseError::TimedOut(expired)));
        }
    }

    /// Continues sending the request; returns whether there was progress. Errors are ignored, as
    /// the response has arrived.
    pub fn poll_request(&mut self, cx: &mut Context<'_>) -> bool {
        let Some(upload) = &mut self.upload else { return false };
        let is_finished = upload.poll(cx).is_ready();
        let moved = upload.progress.take_moved();
        if is_finished {
            self.upload = None;
        }
        moved
    }

    /// The end of the body: trailers, and the status code of a gRPC call, which is counted.
    pub fn end(&mut self) -> BodyEnd {
        let Some(trailers) = self.trailers.take() else { return BodyEnd::default() };
        let status = trailers.get("grpc-status").filter(|_| self.is_grpc);
        let grpc_status = grpc::code(status.map(HeaderValue::as_bytes));
        if let Some(code) = grpc_status {
            self.permit.target().stats.grpc[code].add(1);
        }
        BodyEnd { trailers: Some(trailers), grpc_status }
    }

    /// Whether the response has neither a body nor trailers.
    pub fn is_empty(&self) -> bool {
        self.incoming.is_end_stream()
    }

    fn failed(&mut self, error: &h2::Error) -> ResponseError {
        self.permit.target().health.failed(Instant::now());
        if error.is_io() || error.is_go_away() {
            self.permit.abandon();
        }
        ResponseError::UpstreamClosed
    }
}
