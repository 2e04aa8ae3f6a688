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
    /// Another body that is limited, copied or compressed.
    Layered(Box<LayeredBody<'a>>),
}

impl<'a> ResponseBody<'a> {
    /// Length in bytes, if known.
    pub fn length(&self) -> Option<u64> {
        match self {
            Self::Empty => Some(0),
            Self::Whole(bytes) => Some(bytes.len() as u64),
            Self::Upstream(body) => body.length(),
            Self::File(body) => Some(body.length()),
            Self::Layered(body) => match body.layer {
                Layer::Capture(_) => body.inner.length(),
                Layer::Limit(_) | Layer::Encoding(_) => None,
            },
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
            None => Ok(self.with(Layer::Limit(limit))),
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
            Self::Layered(body) => {
                let LayeredBody { inner, layer } = *body;
                match inner.detach() {
                    Ok(inner) => Ok(inner.with(layer)),
                    Err(inner) => Err(inner.with(layer)),
                }
            }
        }
    }

    fn with(self, layer: Layer) -> Self {
        Self::Layered(Box::new(LayeredBody { inner: self, layer }))
    }

    /// Passes the entire body to `whole` at its end, unless it exceeds the limit or is aborted.
    pub fn capture(self, limit: u64, whole: impl FnOnce(Bytes) + 'static) -> Self {
        let whole = Some(Box::new(whole) as Box<dyn FnOnce(Bytes)>);
        self.with(Layer::Capture(Capture { bytes: Vec::new(), limit, whole }))
    }

    /// Compresses the body while it is sent.
    ///
    /// # Errors
    /// The unchanged body: there is no memory for an encoder.
    pub fn encode(self, coding: ContentCoding, level: u32) -> Result<Self, Self> {
        let Ok(encoder) = PooledEncoder::take(coding, level) else { return Err(self) };
        let encoding = Encoding { encoder: Some(encoder), holding: false, out: Bytes::new() };
        Ok(self.with(Layer::Encoding(encoding)))
    }

    /// The buffered bytes.
    pub fn data(&self) -> &[u8] {
        match self {
            Self::Empty => b"",
            Self::Whole(bytes) => bytes,
            Self::Upstream(body) => body.data(),
            Self::File(body) => body.data(),
            Self::Layered(body) => match &body.layer {
                Layer::Encoding(encoding) => &encoding.out,
                Layer::Limit(_) | Layer::Capture(_) => body.inner.data(),
            },
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
            Self::Layered(body) => body.inner.end(),
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
            Self::Layered(body) => body.consume(count),
        }
    }

    /// Whether the buffered bytes are known to be the rest of the body.
    pub fn is_last(&self) -> bool {
        match self {
            Self::Empty | Self::Whole(_) => true,
            Self::Upstream(body) => body.is_last(),
            Self::File(body) => body.is_last(),
            Self::Layered(body) => match &body.layer {
                Layer::Encoding(encoding) => encoding.encoder.is_none(),
                Layer::Limit(_) | Layer::Capture(_) => body.inner.is_last(),
            },
        }
    }

    /// Waits until bytes are buffered (`true`) or the body ends (`false`).
    pub fn poll_data(
        &mut self,
        cx: &mut Context<'_>,
        deadline: &Deadline,
    ) -> Poll<Result<bool, ResponseError>> {
        if let Self::Layered(body) = self {
            return body.poll_data(cx, deadline);
        }
        if !self.data().is_empty() {
            return Poll::Ready(Ok(true));
        }
        match self {
            Self::Upstream(body) => body.poll_data(cx, deadline),
            Self::File(body) => body.poll_data(cx, deadline),
            Self::Empty | Self::Whole(_) | Self::Layered(_) => Poll::Ready(Ok(false)),
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
            Self::Layered(body) => body.inner.poll_request(cx),
        }
    }
}

/// Another body, and what is done with its bytes.
pub struct LayeredBody<'a> {
    inner: ResponseBody<'a>,
    layer: Layer,
}

enum Layer {
    /// The length is unknown; so many bytes are still allowed.
    Limit(u64),
    Capture(Capture),
    Encoding(Encoding),
}

impl LayeredBody<'_> {
    fn consume(&mut self, count: usize) {
        match &mut self.layer {
            Layer::Limit(left) => *left = left.saturating_sub(count as u64),
            Layer::Capture(capture) => return capture.consume(&mut self.inner, count),
            Layer::Encoding(encoding) => return encoding.out.advance(count),
        }
        self.inner.consume(count);
    }

    fn poll_data(
        &mut self,
        cx: &mut Context<'_>,
        deadline: &Deadline,
    ) -> Poll<Result<bool, ResponseError>> {
        let inner = &mut self.inner;
        if let Layer::Encoding(encoding) = &mut self.layer {
            return encoding.poll_data(inner, cx, deadline);
        }
        let more = ready!(inner.poll_data(cx, deadline))?;
        match &mut self.layer {
            Layer::Limit(left) if inner.data().len() as u64 > *left => {
                return Poll::Ready(Err(ResponseError::TooLarge));
            }
            Layer::Capture(capture) if !more => capture.end(),
            _ => {}
        }
        Poll::Ready(Ok(more))
    }
}

/// Passes the bytes of a body to a consumer at its end.
struct Capture {
    bytes: Vec<u8>,
    limit: u64,
    /// `None` after the end, or if the body is too long.
    whole: Option<Box<dyn FnOnce(Bytes)>>,
}

impl Capture {
    fn consume(&mut self, inner: &mut ResponseBody<'_>, count: usize) {
        if self.whole.is_some() {
            if (self.bytes.len() + count) as u64 > self.limit {
                self.whole = None;
                self.bytes = Vec::new();
            } else if let Some(data) = inner.data().get(..count) {
                self.bytes.extend_from_slice(data);
            }
        }
        inner.consume(count);
        if inner.is_last() && inner.data().is_empty() {
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

/// Compresses a body while it is sent.
struct Encoding {
    /// `None` once the end has been written.
    encoder: Option<PooledEncoder>,
    /// The encoder has buffered input.
    holding: bool,
    out: Bytes,
}

impl Encoding {
    fn poll_data(
        &mut self,
        inner: &mut ResponseBody<'_>,
        cx: &mut Context<'_>,
        deadline: &Deadline,
    ) -> Poll<Result<bool, ResponseError>> {
        if !self.out.is_empty() {
            return Poll::Ready(Ok(true));
        }
        let mut out = Vec::new();
        while out.is_empty() {
            let Some(capture) = &mut self.encoder else { return Poll::Ready(Ok(false)) };
            let encoder = &mut capture.encoder;
            let polled = inner.poll_data(cx, deadline);
            let encoded = match polled {
                Poll::Pending if self.holding => {
                    // The source pauses: the received bytes must not wait for the rest.
                    self.holding = false;
                    encoder.flush(&mut out)
                }
                _ if ready!(polled)? => {
                    let data = inner.data();
                    let count = data.len();
                    let encoded = encoder.write(data, &mut out);
                    inner.consume(count);
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
