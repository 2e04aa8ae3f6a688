//! The body of a response of an upstream or an agent, for all protocols.

use super::fastcgi::FastCgiResponse;
use super::{Http1Response, Http2Response};
use bytes::Bytes;
use std::future::poll_fn;
use std::task::{Context, Poll};
use weir_http::body::{BodyEnd, ResponseError};
use weir_http::deadline::Deadline;

/// A body in transfer, which also sends the rest of the request.
pub enum UpstreamBody<'a> {
    /// From an HTTP/1.1 target, or an HTTP agent.
    Http1(Http1Response<'a>),
    /// From an HTTP/2 target.
    Http2(Box<Http2Response<'a>>),
    /// From a FastCGI agent.
    FastCgi(Box<FastCgiResponse<'a>>),
}

impl<'a> From<Http1Response<'a>> for UpstreamBody<'a> {
    fn from(body: Http1Response<'a>) -> Self {
        Self::Http1(body)
    }
}

impl<'a> From<Box<Http2Response<'a>>> for UpstreamBody<'a> {
    fn from(body: Box<Http2Response<'a>>) -> Self {
        Self::Http2(body)
    }
}

macro_rules! with_body {
    ($self:expr, $body:ident => $call:expr) => {
        match $self {
            Self::Http1($body) => $call,
            Self::Http2($body) => $call,
            Self::FastCgi($body) => $call,
        }
    };
}

impl UpstreamBody<'_> {
    /// Detaches the body from the request, if nothing of the request is left to send.
    pub fn detach(self) -> Result<UpstreamBody<'static>, Self> {
        match self {
            Self::Http1(body) => body.detach().map(UpstreamBody::Http1).map_err(Self::Http1),
            Self::Http2(body) => body.detach().map(UpstreamBody::Http2).map_err(Self::Http2),
            Self::FastCgi(body) => body.detach().map(UpstreamBody::FastCgi).map_err(Self::FastCgi),
        }
    }

    /// Bytes of the entire body, if known.
    pub fn length(&self) -> Option<u64> {
        with_body!(self, body => body.length())
    }

    /// The buffered bytes.
    pub fn data(&self) -> &[u8] {
        with_body!(self, body => body.data())
    }

    /// Takes up to `max` of the buffered bytes.
    pub fn take(&mut self, max: usize) -> Bytes {
        if let Self::Http2(body) = self {
            return body.take(max);
        }
        let bytes = Bytes::copy_from_slice(&self.data()[..self.data().len().min(max)]);
        self.consume(bytes.len());
        bytes
    }

    /// Drops processed bytes.
    pub fn consume(&mut self, count: usize) {
        with_body!(self, body => body.consume(count))
    }

    /// Whether the buffered bytes are known to be the last ones.
    pub fn is_last(&self) -> bool {
        with_body!(self, body => body.is_last())
    }

    /// Waits for buffered bytes (`true`) or the end of the body (`false`).
    pub fn poll_data(
        &mut self,
        cx: &mut Context<'_>,
        deadline: &Deadline,
    ) -> Poll<Result<bool, ResponseError>> {
        with_body!(self, body => body.poll_data(cx, deadline))
    }

    /// Continues sending the request.
    pub fn poll_request(&mut self, cx: &mut Context<'_>) {
        with_body!(self, body => {
            body.poll_request(cx);
        });
    }

    /// Whether the response is known to have neither a body nor trailers.
    pub fn is_empty(&self) -> bool {
        matches!(self, Self::Http2(body) if body.is_empty())
    }

    /// The end of the body: trailers, and the status code of a gRPC call, which is counted.
    pub fn end(&mut self) -> BodyEnd {
        match self {
            Self::Http2(body) => body.end(),
            Self::Http1(_) | Self::FastCgi(_) => BodyEnd::default(),
        }
    }

    /// Reads and drops the body, up to `max` bytes. Returns the number of bytes.
    pub async fn discard(&mut self, deadline: &Deadline, max: u64) -> Result<u64, ResponseError> {
        let mut count = 0;
        while count <= max && poll_fn(|cx| self.poll_data(cx, deadline)).await? {
            let bytes = self.data().len();
            self.consume(bytes);
            count += bytes as u64;
        }
        Ok(count)
    }
}
