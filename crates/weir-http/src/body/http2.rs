//! A request body on HTTP/2.

use super::RequestBodyError;
use bytes::{Buf, Bytes};
use h2::RecvStream;
use h2::server::SendResponse;
use http::HeaderMap;
use std::cell::RefCell;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;
use weir_wire::Framing;

/// Bounds on reading a body that is not consumed (see [`linger`]).
const LINGER_BYTES: usize = 256 * 1024;
const LINGER: Duration = Duration::from_secs(1);

/// The response of a stream whose client waits for `100 (Continue)`: the body sends the interim
/// response, its stream the final one.
pub type SharedResponse = Rc<RefCell<SendResponse<Bytes>>>;

/// Reads the body of one stream.
pub struct Http2Body {
    /// `None` once this is dropped.
    incoming: Option<RecvStream>,
    data: Bytes,
    fresh: u64,
    framing: Framing,
    trailers: Option<HeaderMap>,
    /// Data and trailers have been read.
    is_finished: bool,
    /// Set while the client waits for `100 (Continue)` before it sends the body.
    continues: Option<SharedResponse>,
}

impl Http2Body {
    /// `declared` is the framing by the head.
    pub fn new(
        incoming: RecvStream,
        declared: Option<Framing>,
        continues: Option<SharedResponse>,
    ) -> Self {
        let is_finished = incoming.is_end_stream();
        let framing =
            if is_finished { Framing::None } else { declared.unwrap_or(Framing::Chunked) };
        let (data, trailers) = (Bytes::new(), None);
        Self { incoming: Some(incoming), data, fresh: 0, framing, trailers, is_finished, continues }
    }

    pub(super) fn framing(&self) -> Framing {
        self.framing
    }

    pub(super) fn data(&self) -> &[u8] {
        &self.data
    }

    /// The first `count` buffered bytes, not copied.
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
        let ended = || self.incoming.as_ref().is_none_or(RecvStream::is_end_stream);
        self.data.is_empty() && (self.is_finished || ended())
    }

    pub(super) fn fresh(&mut self) -> u64 {
        std::mem::take(&mut self.fresh)
    }

    /// Reads bytes that have arrived already. To wait for more, poll again.
    pub(super) fn read_buffered(&mut self) -> Result<(), RequestBodyError> {
        if self.data.is_empty() && !self.is_done() {
            let mut cx = Context::from_waker(Waker::noop());
            if let Poll::Ready(Err(error)) = self.poll_more(&mut cx) {
                return Err(error);
            }
        }
        Ok(())
    }

    /// Reads the body; sends `100 (Continue)` first if the client waits for it.
    pub(super) fn poll_data(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<bool, RequestBodyError>> {
        let polled = self.poll_more(cx);
        if let Some(response) = self.continues.take()
            && polled.is_pending()
        {
            let mut interim = http::Response::new(());
            *interim.status_mut() = http::StatusCode::CONTINUE;
            if response.borrow_mut().send_informational(interim).is_err() {
                return Poll::Ready(Err(RequestBodyError::ClientClosed));
            }
        }
        polled
    }

    fn poll_more(&mut self, cx: &mut Context<'_>) -> Poll<Result<bool, RequestBodyError>> {
        let Some(incoming) = self.incoming.as_mut().filter(|_| !self.is_finished) else {
            return Poll::Ready(Ok(false));
        };
        loop {
            match ready!(incoming.poll_data(cx)) {
                None => break,
                // For every reason of a reset the body is incomplete.
                Some(Err(_)) => return Poll::Ready(Err(RequestBodyError::ClientClosed)),
                Some(Ok(data)) => {
                    // Fails only for more bytes than were received.
                    let _ = incoming.flow_control().release_capacity(data.len());
                    if !data.is_empty() {
                        self.fresh += data.len() as u64;
                        self.data = data;
                        return Poll::Ready(Ok(true));
                    }
                }
            }
        }
        self.trailers =
            ready!(incoming.poll_trailers(cx)).map_err(|_| RequestBodyError::ClientClosed)?;
        self.is_finished = true;
        Poll::Ready(Ok(false))
    }
}

impl Drop for Http2Body {
    fn drop(&mut self) {
        if let Some(incoming) = self.incoming.take()
            && !self.is_finished
            && !incoming.is_end_stream()
        {
            tokio::task::spawn_local(linger(incoming));
        }
    }
}

/// Reads a body that is not consumed, within bounds. Otherwise the stream would be reset right
/// after the response (RFC 9113 section 8.1), and clients that still send take the reset for a
/// failure and lose the response (curl 7.88 does).
async fn linger(mut incoming: RecvStream) {
    let read = async {
        let mut left = LINGER_BYTES;
        while let Some(Ok(data)) = poll_fn(|cx| incoming.poll_data(cx)).await {
            let _ = incoming.flow_control().release_capacity(data.len());
            left = match left.checked_sub(data.len()) {
                Some(left) => left,
                None => break,
            };
        }
    };
    let _ = tokio::time::timeout(LINGER, read).await;
}
