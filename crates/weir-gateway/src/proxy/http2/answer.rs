//! The body of an answer that comes by HTTP/2.

use super::Outflow;
use crate::body::{AnswerError, BodyEnd};
use crate::deadline::{Deadline, Expired, Wait};
use crate::grpc;
use crate::upstream::Seat;
use bytes::{Buf, Bytes};
use h2::RecvStream;
use http::HeaderMap;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};
use weir_wire::Framing;

/// Reads an answer's body, and meanwhile sends what is left of the request.
pub(crate) struct StreamBody<'a> {
    seat: Seat,
    /// What is left of the request.
    outflow: Option<Outflow<'a>>,
    incoming: RecvStream,
    data: Bytes,
    framing: Framing,
    /// What has come behind it.
    trailers: Option<HeaderMap>,
    over: bool,
    idle: Duration,
    is_grpc: bool,
}

impl<'a> StreamBody<'a> {
    pub(super) fn new(
        seat: Seat,
        outflow: Outflow<'a>,
        incoming: RecvStream,
        framing: Framing,
        idle: Duration,
        is_grpc: bool,
    ) -> Self {
        let outflow = Some(outflow).filter(|outflow| !outflow.is_over());
        let over = incoming.is_end_stream();
        let (data, trailers) = (Bytes::new(), None);
        Self { seat, outflow, incoming, data, framing, trailers, over, idle, is_grpc }
    }

    /// Lets go of the request, if nothing of it is left to send.
    pub(crate) fn detach(self: Box<Self>) -> Result<Box<StreamBody<'static>>, Box<Self>> {
        if self.outflow.is_some() {
            return Err(self);
        }
        let Self { seat, incoming, data, framing, trailers, over, idle, is_grpc, .. } = *self;
        let outflow = None;
        let body =
            StreamBody { seat, outflow, incoming, data, framing, trailers, over, idle, is_grpc };
        Ok(Box::new(body))
    }

    pub(crate) fn length(&self) -> Option<u64> {
        self.framing.length()
    }

    pub(crate) fn data(&self) -> &[u8] {
        &self.data
    }

    /// Takes up to so many of the bytes at hand, without copying them.
    pub(crate) fn take(&mut self, most: usize) -> Bytes {
        let count = self.data.len().min(most);
        let bytes = self.data.slice(..count);
        self.consume(count);
        bytes
    }

    pub(crate) fn consume(&mut self, count: usize) {
        self.data.advance(count);
        // It fails only for more than has come.
        let _ = self.incoming.flow_control().release_capacity(count);
    }

    pub(crate) fn is_last(&self) -> bool {
        self.over || self.incoming.is_end_stream()
    }

    pub(crate) fn poll_data(
        &mut self,
        cx: &mut Context<'_>,
        deadline: &Deadline,
    ) -> Poll<Result<bool, AnswerError>> {
        if self.poll_request(cx) {
            deadline.progress();
        }
        loop {
            if self.over {
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
                        (self.trailers, self.over) = (trailers, true);
                        continue;
                    }
                    Poll::Ready(Err(error)) => return Poll::Ready(Err(self.failed(&error))),
                    Poll::Pending => {}
                },
                Poll::Pending => {}
            }
            let expired = ready!(deadline.poll(cx, Wait::UpstreamBody, self.idle));
            if expired != Expired::Request {
                self.seat.target().health.failed(Instant::now());
            }
            return Poll::Ready(Err(AnswerError::Late(expired)));
        }
    }

    /// Sends on what is left of the request, and says whether anything moved. Its errors do not
    /// matter: the answer is there.
    pub(crate) fn poll_request(&mut self, cx: &mut Context<'_>) -> bool {
        let Some(outflow) = &mut self.outflow else { return false };
        let over = outflow.poll(cx).is_ready();
        let moved = outflow.take_moved();
        if over {
            self.outflow = None;
        }
        moved
    }

    /// It is over: the trailers, and the status of a gRPC call, which is counted.
    pub(crate) fn end(&mut self) -> BodyEnd {
        let Some(trailers) = self.trailers.take() else { return BodyEnd::default() };
        let grpc_status = grpc::code(&trailers).filter(|_| self.is_grpc);
        if let Some(code) = grpc_status {
            self.seat.target().stats.grpc[code].add(1);
        }
        BodyEnd { trailers: Some(trailers), grpc_status }
    }

    fn failed(&mut self, error: &h2::Error) -> AnswerError {
        self.seat.target().health.failed(Instant::now());
        if error.is_io() || error.is_go_away() {
            self.seat.abandon();
        }
        AnswerError::UpstreamClosed
    }
}
