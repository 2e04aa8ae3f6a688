//! A request body on HTTP/2, read from hyper.

use super::RequestBodyError;
use bytes::{Buf, Bytes};
use http::HeaderMap;
use http_body::Body as _;
use hyper::body::Incoming;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;
use weir_wire::Framing;

/// What is read, and for how long, of a body that nobody wanted (see [`linger`]).
const LINGER_BYTES: usize = 256 * 1024;
const LINGER: Duration = Duration::from_secs(1);

/// Reads the body of one stream.
pub(crate) struct Http2Body {
    /// There until it is dropped.
    incoming: Option<Incoming>,
    data: Bytes,
    fresh: u64,
    framing: Framing,
    trailers: Option<HeaderMap>,
}

impl Http2Body {
    pub(crate) fn new(incoming: Incoming) -> Self {
        let framing = match incoming.size_hint().exact() {
            _ if incoming.is_end_stream() => Framing::None,
            Some(length) => Framing::Length(length),
            None => Framing::Chunked,
        };
        Self { incoming: Some(incoming), data: Bytes::new(), fresh: 0, framing, trailers: None }
    }

    pub(super) fn framing(&self) -> Framing {
        self.framing
    }

    pub(super) fn data(&self) -> &[u8] {
        &self.data
    }

    /// So many of the bytes at hand, not copied.
    pub(super) fn shared(&self, count: usize) -> Bytes {
        self.data.slice(..count)
    }

    pub(super) fn has_trailers(&self) -> bool {
        self.trailers.is_some()
    }

    pub(super) fn take_trailers(&mut self) -> Option<HeaderMap> {
        self.trailers.take()
    }

    pub(super) fn consume(&mut self, count: usize) {
        self.data.advance(count);
    }

    pub(super) fn is_done(&self) -> bool {
        self.data.is_empty() && self.incoming.as_ref().is_none_or(Incoming::is_end_stream)
    }

    pub(super) fn fresh(&mut self) -> u64 {
        std::mem::take(&mut self.fresh)
    }

    /// Takes what has come already. Whoever waits for more polls again.
    pub(super) fn take_at_hand(&mut self) -> Result<(), RequestBodyError> {
        if self.data.is_empty() && !self.is_done() {
            let mut cx = Context::from_waker(Waker::noop());
            if let Poll::Ready(Err(error)) = self.poll_data(&mut cx) {
                return Err(error);
            }
        }
        Ok(())
    }

    pub(super) fn poll_data(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<bool, RequestBodyError>> {
        let Some(incoming) = &mut self.incoming else { return Poll::Ready(Ok(false)) };
        loop {
            match ready!(Pin::new(&mut *incoming).poll_frame(cx)) {
                None => return Poll::Ready(Ok(false)),
                Some(Err(_)) => return Poll::Ready(Err(RequestBodyError::Gone)),
                Some(Ok(frame)) => {
                    let data = match frame.into_data() {
                        Ok(data) => data,
                        Err(frame) => {
                            self.trailers = frame.into_trailers().ok();
                            continue;
                        }
                    };
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

impl Drop for Http2Body {
    fn drop(&mut self) {
        if let Some(incoming) = self.incoming.take()
            && !incoming.is_end_stream()
        {
            tokio::task::spawn_local(linger(incoming));
        }
    }
}

/// Reads a body that nobody wanted, within bounds. When the rest of a request is given up, the
/// stream is reset right behind its answer (RFC 9113 section 8.1), and clients that still send
/// take the reset for a failure and lose the answer (curl 7.88 does).
async fn linger(mut incoming: Incoming) {
    let read = async {
        let mut left = LINGER_BYTES;
        while let Some(Ok(frame)) = poll_fn(|cx| Pin::new(&mut incoming).poll_frame(cx)).await {
            left = match left.checked_sub(frame.data_ref().map_or(0, Bytes::len)) {
                Some(left) => left,
                None => break,
            };
        }
    };
    let _ = tokio::time::timeout(LINGER, read).await;
}
