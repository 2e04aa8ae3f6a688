//! The body of a response, on its way to the client.

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

/// Where a response's bytes come from.
#[derive(Default)]
pub enum ResponseBody<'a> {
    /// There is none.
    #[default]
    Empty,
    /// All of it, in memory.
    Whole(Bytes),
    /// That of an upstream or an agent, as it comes.
    Upstream(UpstreamBody<'a>),
    /// A file, as it is read.
    File(Box<FileBody>),
    /// Another body that may not be longer than it may.
    Limited(Box<Limited<'a>>),
    /// Another body that somebody wants to have, too.
    Capture(Box<CaptureBody<'a>>),
    /// Another body, compressed on the way.
    Encoded(Box<EncodedBody<'a>>),
}

impl<'a> ResponseBody<'a> {
    /// Bytes of the whole, where that is known.
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

    /// Sees to it that there are at most so many bytes.
    ///
    /// # Errors
    /// It is known to have more.
    pub(crate) fn within(self, limit: u64) -> Result<Self, Rejection> {
        match self.length() {
            Some(length) if length > limit => Err(Problem::ResponseTooLarge.into()),
            Some(_) => Ok(self),
            None => Ok(Self::Limited(Box::new(Limited { inner: self, left: limit }))),
        }
    }

    /// The length to declare, where the answer does not do so itself. An upstream's answer to a HEAD
    /// has no bytes, which says nothing about the body that a GET would get.
    pub fn length_to_declare(&self, head: bool) -> Option<u64> {
        match self {
            Self::Upstream(_) if head => None,
            body => body.length(),
        }
    }

    /// Lets go of the request, if nothing of it is left to send: the connection it came by may
    /// then be looked at while the answer is sent.
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

    /// Hands all of it, unless it has more than so many bytes or breaks off, to `whole` in the end.
    pub fn capture(self, limit: u64, whole: impl FnOnce(Bytes) + 'static) -> Self {
        let whole: Box<dyn FnOnce(Bytes)> = Box::new(whole);
        Self::Capture(Box::new(CaptureBody {
            inner: self,
            bytes: Vec::new(),
            limit,
            whole: Some(whole),
        }))
    }

    /// Compresses it on the way.
    ///
    /// # Errors
    /// The body as it is: there is no memory for an encoder.
    pub fn encode(self, coding: ContentCoding, level: u32) -> Result<Self, Self> {
        let Ok(encoder) = PooledEncoder::take(coding, level) else { return Err(self) };
        Ok(Self::Encoded(Box::new(EncodedBody {
            inner: self,
            encoder: Some(encoder),
            holding: false,
            out: Bytes::new(),
        })))
    }

    /// The bytes at hand.
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

    /// Takes up to so many of the bytes at hand.
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

    /// It is over: what follows it.
    pub fn end(&mut self) -> BodyEnd {
        match self {
            Self::Upstream(body) => body.end(),
            Self::Limited(body) => body.inner.end(),
            Self::Capture(body) => body.inner.end(),
            Self::Encoded(body) => body.inner.end(),
            Self::Empty | Self::Whole(_) | Self::File(_) => BodyEnd::default(),
        }
    }

    /// Drops bytes at hand that are dealt with.
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

    /// What is at hand is known to be the rest of it.
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

    /// Waits until bytes are at hand (`true`) or the body is over (`false`).
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

    /// Reads all of it, of at most `limit` bytes, for what needs the whole.
    ///
    /// # Errors
    /// [`Problem::UpstreamUnmappable`] if it is longer; or it broke off.
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

    /// Goes on sending the request while the client is slow to take the answer: a client that
    /// sends all before it reads would otherwise wait for ever.
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

/// A body of unknown length, and how much it may still have.
pub struct Limited<'a> {
    inner: ResponseBody<'a>,
    left: u64,
}

/// A body that somebody wants to have whole when it is over.
pub struct CaptureBody<'a> {
    inner: ResponseBody<'a>,
    bytes: Vec<u8>,
    limit: u64,
    /// Gone once it is over, or too long.
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

/// Encoders kept for reuse by one worker: each holds a quarter of a MiB to a few.
const ENCODERS: usize = 16;

thread_local! {
    static FREE: RefCell<Vec<PooledEncoder>> = const { RefCell::new(Vec::new()) };
}

/// An encoder and what it was made for.
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

    /// Keeps it for the next answer; one that broke off is dropped instead.
    fn give_back(self) {
        let Some(encoder) = self.encoder.reset() else { return };
        FREE.with_borrow_mut(|free| {
            if free.len() < ENCODERS {
                free.push(Self { encoder, ..self });
            }
        });
    }
}

/// A body compressed as it passes.
pub struct EncodedBody<'a> {
    inner: ResponseBody<'a>,
    /// Gone once the end has been written.
    encoder: Option<PooledEncoder>,
    /// The encoder holds something back.
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
                    // The source pauses: what has come so far must not wait for the rest.
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
