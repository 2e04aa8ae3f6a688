//! A request body on HTTP/2, read from hyper.

use super::RequestBodyError;
use bytes::{Buf, Bytes};
use http_body::Body as _;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use weir_wire::Framing;

/// Reads the body of one stream.
pub(crate) struct Http2Body {
    incoming: hyper::body::Incoming,
    data: Bytes,
    fresh: u64,
    framing: Framing,
}

impl Http2Body {
    pub(crate) fn new(incoming: hyper::body::Incoming) -> Self {
        let framing = match incoming.size_hint().exact() {
            _ if incoming.is_end_stream() => Framing::None,
            Some(length) => Framing::Length(length),
            None => Framing::Chunked,
        };
        Self { incoming, data: Bytes::new(), fresh: 0, framing }
    }

    pub(super) fn framing(&self) -> Framing {
        self.framing
    }

    pub(super) fn data(&self) -> &[u8] {
        &self.data
    }

    pub(super) fn consume(&mut self, count: usize) {
        self.data.advance(count);
    }

    pub(super) fn is_done(&self) -> bool {
        self.data.is_empty() && self.incoming.is_end_stream()
    }

    pub(super) fn fresh(&mut self) -> u64 {
        std::mem::take(&mut self.fresh)
    }

    pub(super) fn poll_data(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<bool, RequestBodyError>> {
        loop {
            match ready!(Pin::new(&mut self.incoming).poll_frame(cx)) {
                None => return Poll::Ready(Ok(false)),
                Some(Err(_)) => return Poll::Ready(Err(RequestBodyError::Gone)),
                Some(Ok(frame)) => {
                    // Trailers of requests go no further.
                    let Ok(data) = frame.into_data() else { continue };
                    if !data.is_empty() {
                        self.fresh += data.len() as u64;
                        self.data = data;
                        return Poll::Ready(Ok(true));
                    }
                }
            }
        }
    }
}
