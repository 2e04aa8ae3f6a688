//! The body of a response, sent to the client.

use bytes::{Buf, Bytes};
use std::cell::RefCell;
use std::future::poll_fn;
use std::task::{Context, Poll, ready};
use weir_config::ContentCoding;
use weir_files::FileBody;
use weir_http::body::{BodyEnd, ResponseError};
use weir_http::compress::{Encoder, EncoderError};
use weir_http::deadline::Deadline;
use weir_http::problem::Problem;
use weir_http::rejection::Rejection;
use weir_upstream::UpstreamBody;

/// The source of a response body.
#[derive(Default)]
pub enum ResponseBody<'a> {
    /// No body.
    #[default]
    Empty,
    /// Buffered in memory.
    Whole(Bytes),
    /// Streamed from an upstream or an agent.
    Upstream(UpstreamBody<'a>),
    /// Streamed from a file.
    File(Box<FileBody>),
    /// Another body with a size limit.
    Limited(Box<Limited<'a>>),
    /// Another body, copied for a consumer.
    Capture(Box<CaptureBody<'a>>),
    /// Another body, compressed while it is sent.
    Encoded(Box<EncodedBody<'a>>),
}

impl<'a> ResponseBody<'a> {
    /// Length in bytes, if known.
    pub fn length(&self) -> Option<u64> {
        match self {
            Self::Empty => Some(0),
            Self::Whole(bytes) => Some(bytes.len() as u64),
            Self::Upstream(body) => body.length(),
            Self::File(body) => Some(body.length()),
            Self::Capture(body) => body.inner.length(),
            Self::Limited(_) | Self::Encoded(_) => None,
        }
    }

    /// Limits the body to this number of bytes.
    ///
    /// # Errors
    /// The known length exceeds the limit.
    pub(crate) fn within(self, limit: u64) -> Result<Self, Rejection> {
        match self.length() {
            Some(length) if length > limit => Err(Problem::ResponseTooLarge.into()),
            Some(_) => Ok(self),
            None => Ok(Self::Limited(Box::new(Limited { inner: self, left: limit }))),
        }
    }

    /// The length to declare, unless the response declares it itself. An upstream's response to
    /// HEAD has no bytes, which does not determine the length of the body for GET.
    pub fn length_to_declare(&self, head: bool) -> Option<u64> {
        match self {
            Self::Upstream(_) if head => None,
            body => body.length(),
        }
    }

    /// Detaches the body from the request, if the request was sent completely: the client
    /// connection can then be watched while the response is sent.
    pub fn detach(self) -> Result<ResponseBody<'static>, Self> {
        match self {
            Self::Empty => Ok(ResponseBody::Empty),
            Self::Whole(bytes) => Ok(ResponseBody::Whole(bytes)),
            Self::Upstream(body) => {
                body.detach().map(ResponseBody::Upstream).map_err(Self::Upstream)
            }
            Self::File(body) => Ok(ResponseBody::File(body)),
            Self::Capture(body) => {
                let CaptureBody { inner, bytes, limit, whole } = *body;
                match inner.detach() {
                    Ok(inner) => Ok(ResponseBody::Capture(Box::new(CaptureBody {
                        inner,
                        bytes,
                        limit,
                        whole,
                    }))),
                    Err(inner) => {
                        Err(Self::Capture(Box::new(CaptureBody { inner, bytes, limit, whole })))
                    }
                }
            }
            Self::Limited(body) => {
                let Limited { inner, left } = *body;
                match inner.detach() {
                    Ok(inner) => Ok(ResponseBody::Limited(Box::new(Limited { inner, left }))),
                    Err(inner) => Err(Self::Limited(Box::new(Limited { inner, left }))),
                }
            }
            Self::Encoded(body) => {
                let EncodedBody { inner, encoder, holding, out } = *body;
                match inner.detach() {
                    Ok(inner) => Ok(ResponseBody::Encoded(Box::new(EncodedBody {
                        inner,
                        encoder,
                        holding,
                        out,
                    }))),
                    Err(inner) => {
                        Err(Self::Encoded(Box::new(EncodedBody { inner, encoder, holding, out })))
                    }
                }
            }
        }
    }

    /// Passes the entire body to `whole` at its end, unless it exceeds the limit or is aborted.
    pub fn capture(self, limit: u64, whole: impl FnOnce(Bytes) + 'static) -> Self {
        let whole: Box<dyn FnOnce(Bytes)> = Box::new(whole);
        Self::Capture(Box::new(CaptureBody {
            inner: self,
            bytes: Vec::new(),
            limit,
            whole: Some(whole),
        }))
    }

    /// Compresses the body while it is sent.
    ///
    /// # Errors
    /// The unchanged body: there is no memory for an encoder.
    pub fn encode(self, coding: ContentCoding, level: u32) -> Result<Self, Self> {
        let Ok(encoder) = PooledEncoder::take(coding, level) else { return Err(self) };
        Ok(Self::Encoded(Box::new(EncodedBody {
            inner: self,
            encoder: Some(encoder),
            holding: false,
            out: Bytes::new(),
        })))
    }

    /// The buffered bytes.
    pub fn data(&self) -> &[u8] {
        match self {
            Self::Empty => b"",
            Self::Whole(bytes) => bytes,
            Self::Upstream(body) => body.data(),
            Self::File(body) => body.data(),
            Self::Limited(body) => body.inner.data(),
            Self::Capture(body) => body.inner.data(),
            Self::Encoded(body) => &body.out,
        }
    }

    /// Takes up to `most` of the buffered bytes.
    pub fn take(&mut self, most: usize) -> Bytes {
        match self {
            Self::Whole(bytes) => bytes.split_to(bytes.len().min(most)),
            Self::Upstream(body) => body.take(most),
            body => {
                let bytes = Bytes::copy_from_slice(&body.data()[..body.data().len().min(most)]);
                body.consume(bytes.len());
                bytes
            }
        }
    }

    /// Ends the body; returns its trailers and status.
    pub fn end(&mut self) -> BodyEnd {
        match self {
            Self::Upstream(body) => body.end(),
            Self::Limited(body) => body.inner.end(),
            Self::Capture(body) => body.inner.end(),
            Self::Encoded(body) => body.inner.end(),
            Self::Empty | Self::Whole(_) | Self::File(_) => BodyEnd::default(),
        }
    }

    /// Drops processed bytes from the buffer.
    pub fn consume(&mut self, count: usize) {
        match self {
            Self::Empty => {}
            Self::Whole(bytes) => bytes.advance(count),
            Self::Upstream(body) => body.consume(count),
            Self::File(body) => body.consume(count),
            Self::Capture(body) => body.consume(count),
            Self::Limited(body) => {
                body.left = body.left.saturating_sub(count as u64);
                body.inner.consume(count);
            }
            Self::Encoded(body) => body.out.advance(count),
        }
    }

    /// Whether the buffered bytes are known to be the rest of the body.
    pub fn is_last(&self) -> bool {
        match self {
            Self::Empty | Self::Whole(_) => true,
            Self::Upstream(body) => body.is_last(),
            Self::File(body) => body.is_last(),
            Self::Limited(body) => body.inner.is_last(),
            Self::Capture(body) => body.inner.is_last(),
            Self::Encoded(body) => body.encoder.is_none(),
        }
    }

    /// Waits until bytes are buffered (`true`) or the body ends (`false`).
    pub fn poll_data(
        &mut self,
        cx: &mut Context<'_>,
        deadline: &Deadline,
    ) -> Poll<Result<bool, ResponseError>> {
        if !self.data().is_empty() && !matches!(self, Self::Limited(_)) {
            return Poll::Ready(Ok(true));
        }
        match self {
            Self::Empty | Self::Whole(_) => Poll::Ready(Ok(false)),
            Self::Upstream(body) => body.poll_data(cx, deadline),
            Self::File(body) => body.poll_data(cx, deadline),
            Self::Capture(body) => {
                let more = ready!(body.inner.poll_data(cx, deadline))?;
                if !more {
                    body.end();
                }
                Poll::Ready(Ok(more))
            }
            Self::Limited(body) => {
                let more = ready!(body.inner.poll_data(cx, deadline))?;
                if body.inner.data().len() as u64 > body.left {
                    return Poll::Ready(Err(ResponseError::TooLarge));
                }
                Poll::Ready(Ok(more))
            }
            Self::Encoded(body) => body.poll_data(cx, deadline),
        }
    }

    /// Buffers the entire body, at most `limit` bytes.
    ///
    /// # Errors
    /// [`Problem::UpstreamUnmappable`] if the body is longer; or the body was aborted.
    pub(crate) async fn read_all(
        &mut self,
        deadline: &Deadline,
        limit: u64,
    ) -> Result<Vec<u8>, Rejection> {
        let too_large = || {
            Rejection::new(Problem::UpstreamUnmappable)
                .detail("the upstream's response is too large")
        };
        let length = self.length().unwrap_or(0);
        if length > limit {
            return Err(too_large());
        }
        let mut bytes = Vec::with_capacity(length as usize);
        while poll_fn(|cx| self.poll_data(cx, deadline)).await? {
            let data = self.data();
            if bytes.len() as u64 + data.len() as u64 > limit {
                return Err(too_large());
            }
            bytes.extend_from_slice(data);
            let count = data.len();
            self.consume(count);
        }
        Ok(bytes)
    }

    /// Continues to send the request while the client does not read the response: a client that
    /// sends its entire request before it reads would otherwise wait for ever.
    pub fn poll_request(&mut self, cx: &mut Context<'_>) {
        match self {
            Self::Empty | Self::Whole(_) | Self::File(_) => {}
            Self::Upstream(body) => body.poll_request(cx),
            Self::Limited(body) => body.inner.poll_request(cx),
            Self::Capture(body) => body.inner.poll_request(cx),
            Self::Encoded(body) => body.inner.poll_request(cx),
        }
    }
}

/// A body of unknown length, and the number of bytes still allowed.
pub struct Limited<'a> {
    inner: ResponseBody<'a>,
    left: u64,
}

/// A body that is passed to a consumer at its end.
pub struct CaptureBody<'a> {
    inner: ResponseBody<'a>,
    bytes: Vec<u8>,
    limit: u64,
    /// `None` after the end, or if the body is too long.
    whole: Option<Box<dyn FnOnce(Bytes)>>,
}

impl CaptureBody<'_> {
    fn consume(&mut self, count: usize) {
        if self.whole.is_some() {
            if (self.bytes.len() + count) as u64 > self.limit {
                self.whole = None;
                self.bytes = Vec::new();
            } else if let Some(data) = self.inner.data().get(..count) {
                self.bytes.extend_from_slice(data);
            }
        }
        self.inner.consume(count);
        if self.inner.is_last() && self.inner.data().is_empty() {
            self.end();
        }
    }

    fn end(&mut self) {
        if let Some(whole) = self.whole.take() {
            whole(Bytes::from(std::mem::take(&mut self.bytes)));
        }
    }
}

/// Maximum number of encoders kept for reuse by one worker: each takes 0.25 MiB to a few MiB.
const ENCODERS: usize = 16;

thread_local! {
    static FREE: RefCell<Vec<PooledEncoder>> = const { RefCell::new(Vec::new()) };
}

/// An encoder, and its coding and level.
struct PooledEncoder {
    encoder: Encoder,
    coding: ContentCoding,
    level: u32,
}

impl PooledEncoder {
    fn take(coding: ContentCoding, level: u32) -> Result<Self, EncoderError> {
        let found = FREE.with_borrow_mut(|free| {
            let fits = |capture: &Self| capture.coding == coding && capture.level == level;
            let at = free.iter().position(fits)?;
            Some(free.swap_remove(at))
        });
        found.map_or_else(|| Ok(Self { encoder: Encoder::new(coding, level)?, coding, level }), Ok)
    }

    /// Returns the encoder to the pool; one that was aborted is dropped.
    fn give_back(self) {
        let Some(encoder) = self.encoder.reset() else { return };
        FREE.with_borrow_mut(|free| {
            if free.len() < ENCODERS {
                free.push(Self { encoder, ..self });
            }
        });
    }
}

/// A body compressed while it is sent.
pub struct EncodedBody<'a> {
    inner: ResponseBody<'a>,
    /// `None` once the end has been written.
    encoder: Option<PooledEncoder>,
    /// The encoder has buffered input.
    holding: bool,
    out: Bytes,
}

impl EncodedBody<'_> {
    fn poll_data(
        &mut self,
        cx: &mut Context<'_>,
        deadline: &Deadline,
    ) -> Poll<Result<bool, ResponseError>> {
        let mut out = Vec::new();
        while out.is_empty() {
            let Some(capture) = &mut self.encoder else { return Poll::Ready(Ok(false)) };
            let encoder = &mut capture.encoder;
            let polled = self.inner.poll_data(cx, deadline);
            let encoded = match polled {
                Poll::Pending if self.holding => {
                    // The source pauses: the received bytes must not wait for the rest.
                    self.holding = false;
                    encoder.flush(&mut out)
                }
                _ if ready!(polled)? => {
                    let data = self.inner.data();
                    let count = data.len();
                    let encoded = encoder.write(data, &mut out);
                    self.inner.consume(count);
                    self.holding = true;
                    encoded
                }
                _ => {
                    let finished = encoder.finish(&mut out);
                    self.encoder.take().into_iter().for_each(PooledEncoder::give_back);
                    finished
                }
            };
            encoded.map_err(|_| ResponseError::Compression)?;
        }
        self.out = Bytes::from(out);
        Poll::Ready(Ok(true))
    }
}
