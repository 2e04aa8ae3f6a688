//! Streamed request bodies with backpressure: the client is read only as fast as the body is
//! consumed; and the end of response bodies.

mod end;
mod http1;
mod http2;

pub use end::{BodyEnd, ResponseError};
pub use http1::{Http1Body, Incoming};
pub use http2::{Http2Body, SharedResponse};

use crate::counter::Counter;
use crate::deadline::{Deadline, Expired, Wait};
use crate::problem::Problem;
use crate::rejection::Rejection;
use bytes::Bytes;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use weir_wire::{BodyError, Framing};

/// Why the rest of a request body cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum RequestBodyError {
    /// The client closed, reset the connection or cancelled the stream.
    #[error("the client closed the connection")]
    ClientClosed,
    /// The framing is malformed.
    #[error("{0}")]
    Malformed(#[from] BodyError),
    /// The body exceeds the limit.
    #[error("the body exceeds the limit")]
    TooLarge,
    /// No byte arrived in time.
    #[error("the body was not received in time")]
    TimedOut(Expired),
}

impl From<RequestBodyError> for Rejection {
    fn from(error: RequestBodyError) -> Self {
        match error {
            RequestBodyError::ClientClosed => Self::new(Problem::BadBody)
                .detail("the client closed the connection")
                .closed_by_client(),
            RequestBodyError::Malformed(error) => {
                Self::new(Problem::BadBody).detail(error.to_string())
            }
            RequestBodyError::TooLarge => Self::new(Problem::BodyTooLarge),
            RequestBodyError::TimedOut(expired) => Self::from(expired),
        }
    }
}

/// Receives the bytes of a request body as they are consumed.
pub trait BodyTap {
    /// These bytes are consumed.
    fn pass(&self, bytes: &[u8]);
    /// The end was read; may be called more than once.
    fn end(&self);
    /// The body was aborted.
    fn aborted(&self);
}

/// The body of a request, read on demand.
pub struct RequestBody<'a> {
    source: Source<'a>,
    /// Remaining bytes within the limit of the route.
    allowance: u64,
    /// Idle timeout.
    idle: Duration,
    /// Counter of received bytes.
    received: Option<&'static Counter>,
    /// The recorder and the mirrors.
    taps: [Option<Rc<dyn BodyTap>>; 2],
}

enum Source<'a> {
    Empty,
    Http1(Http1Body<'a>),
    Http2(Http2Body),
    /// The entire body, in memory.
    Buffered(Buffered),
}

#[derive(Default)]
struct Buffered {
    bytes: Vec<u8>,
    at: usize,
}

impl<'a> RequestBody<'a> {
    /// A body without limit, timeout, counter and taps.
    fn new(source: Source<'a>) -> Self {
        Self {
            source,
            allowance: u64::MAX,
            idle: Duration::ZERO,
            received: None,
            taps: [None, None],
        }
    }

    /// A request without a body.
    pub fn empty() -> Self {
        Self { allowance: 0, ..Self::new(Source::Empty) }
    }

    /// The body of a request on HTTP/1.x; `received` counts its bytes.
    pub fn http1(body: Http1Body<'a>, idle: Duration, received: &'static Counter) -> Self {
        Self { idle, received: Some(received), ..Self::new(Source::Http1(body)) }
    }

    /// The body of a request on HTTP/2; `received` counts its bytes.
    pub fn http2(body: Http2Body, idle: Duration, received: &'static Counter) -> Self {
        Self { idle, received: Some(received), ..Self::new(Source::Http2(body)) }
    }

    /// A buffered body; an empty one has the length 0.
    pub fn buffered(bytes: Vec<u8>) -> Self {
        Self::new(Source::Buffered(Buffered { bytes, at: 0 }))
    }

    /// Sets the limit; an error if the declared length exceeds it.
    pub fn limit(&mut self, bytes: u64) -> Result<(), RequestBodyError> {
        self.allowance = bytes;
        match self.framing() {
            Framing::Length(length) if length > bytes => Err(RequestBodyError::TooLarge),
            _ => Ok(()),
        }
    }

    /// Framing of the body; [`Framing::Chunked`] if the length is unknown.
    pub fn framing(&self) -> Framing {
        match &self.source {
            Source::Empty => Framing::None,
            Source::Http1(body) => body.framing(),
            Source::Http2(body) => body.framing(),
            Source::Buffered(buffered) => Framing::Length(buffered.bytes.len() as u64),
        }
    }

    /// The buffered bytes.
    pub fn data(&self) -> &[u8] {
        match &self.source {
            Source::Empty => b"",
            Source::Http1(body) => body.data(),
            Source::Http2(body) => body.data(),
            Source::Buffered(buffered) => &buffered.bytes[buffered.at..],
        }
    }

    /// Records the bytes consumed from now on.
    pub fn record(&mut self, tap: Option<Rc<dyn BodyTap>>) {
        self.taps[0] = tap;
        self.notify_end();
    }

    /// Mirrors the bytes consumed from now on.
    pub fn mirror(&mut self, tap: Rc<dyn BodyTap>) {
        self.taps[1] = Some(tap);
        self.notify_end();
    }

    /// Notifies the taps once the end was read.
    fn notify_end(&self) {
        if self.taps.iter().any(Option::is_some) && self.is_done() {
            self.taps.iter().flatten().for_each(|tap| tap.end());
        }
    }

    /// Drops buffered bytes that are processed.
    pub fn consume(&mut self, count: usize) {
        self.taps.iter().flatten().for_each(|tap| tap.pass(&self.data()[..count]));
        match &mut self.source {
            Source::Empty => {}
            Source::Http1(body) => body.consume(count),
            Source::Http2(body) => body.consume(count),
            Source::Buffered(buffered) => buffered.at += count,
        }
        self.notify_end();
    }

    /// Takes up to `max` of the buffered bytes.
    pub fn take(&mut self, max: usize) -> Bytes {
        let count = self.data().len().min(max);
        let bytes = match &self.source {
            Source::Http2(body) => body.shared(count),
            Source::Empty | Source::Http1(_) | Source::Buffered(_) => {
                Bytes::copy_from_slice(&self.data()[..count])
            }
        };
        self.consume(count);
        bytes
    }

    /// Whether trailers follow the body.
    pub fn has_trailers(&self) -> bool {
        matches!(&self.source, Source::Http2(body) if body.has_trailers())
    }

    /// The trailers.
    pub fn take_trailers(&mut self) -> Option<http::HeaderMap> {
        match &mut self.source {
            Source::Http2(body) => body.take_trailers(),
            Source::Empty | Source::Http1(_) | Source::Buffered(_) => None,
        }
    }

    /// Reads the bytes that have arrived already, without waiting: those that came with the head,
    /// mostly the entire body.
    pub fn read_buffered(&mut self) -> Result<(), RequestBodyError> {
        let taken = match &mut self.source {
            Source::Http1(body) => body.decode(),
            Source::Http2(body) => body.read_buffered(),
            Source::Empty | Source::Buffered(_) => Ok(()),
        };
        taken.inspect_err(|_| self.abort_taps())?;
        self.notify_end();
        self.within_limit()
    }

    /// The entire body, if its length is declared and all bytes are buffered. Call before anything
    /// is consumed.
    pub fn complete_if_buffered(&mut self) -> Result<Option<&[u8]>, RequestBodyError> {
        self.read_buffered()?;
        let length = match self.framing() {
            Framing::Length(length) => length,
            _ => return Ok(None),
        };
        Ok(Some(self.data()).filter(|data| data.len() as u64 == length))
    }

    /// Discards the bytes that have arrived already, without waiting: their faults are reported,
    /// although the body is not consumed.
    pub fn discard_buffered(&mut self) -> Result<(), RequestBodyError> {
        loop {
            self.read_buffered()?;
            match self.data().len() {
                0 => return Ok(()),
                count => self.consume(count),
            }
        }
    }

    /// Idle timeout.
    pub fn idle(&self) -> Duration {
        self.idle
    }

    /// All bytes were consumed, and none will arrive.
    pub fn is_done(&self) -> bool {
        match &self.source {
            Source::Empty => true,
            Source::Http1(body) => body.is_done(),
            Source::Http2(body) => body.is_done(),
            Source::Buffered(buffered) => buffered.at == buffered.bytes.len(),
        }
    }

    /// Waits until bytes are buffered (`true`) or the body has ended (`false`), within the limits
    /// of `deadline`; `None` if the caller limits another wait at the same time.
    pub fn poll_data(
        &mut self,
        cx: &mut Context<'_>,
        deadline: Option<&Deadline>,
    ) -> Poll<Result<bool, RequestBodyError>> {
        if !self.data().is_empty() {
            return Poll::Ready(Ok(true));
        }
        let polled = match &mut self.source {
            Source::Empty | Source::Buffered(_) => return Poll::Ready(Ok(false)),
            Source::Http1(body) => body.poll_data(cx),
            Source::Http2(body) => body.poll_data(cx),
        };
        if polled.is_pending() {
            let Some(deadline) = deadline else { return Poll::Pending };
            let expired = ready!(deadline.poll(cx, Wait::RequestBody, self.idle));
            return Poll::Ready(Err(RequestBodyError::TimedOut(expired)));
        }
        if let Some(deadline) = deadline {
            deadline.progress();
        }
        let more = ready!(polled).inspect_err(|_| self.abort_taps())?;
        self.notify_end();
        self.within_limit()?;
        Poll::Ready(Ok(more))
    }

    fn abort_taps(&self) {
        self.taps.iter().flatten().for_each(|tap| tap.aborted());
    }

    /// Counts received bytes against the limit.
    fn within_limit(&mut self) -> Result<(), RequestBodyError> {
        let fresh = match &mut self.source {
            Source::Http1(body) => body.fresh(),
            Source::Http2(body) => body.fresh(),
            Source::Empty | Source::Buffered(_) => 0,
        };
        if let Some(received) = self.received.filter(|_| fresh > 0) {
            received.add(fresh);
        }
        match self.allowance.checked_sub(fresh) {
            Some(left) => {
                self.allowance = left;
                Ok(())
            }
            None => Err(RequestBodyError::TooLarge),
        }
    }

    /// Reads the entire body, for policies that need it.
    pub async fn read_all(&mut self, deadline: &Deadline) -> Result<Vec<u8>, RequestBodyError> {
        let mut bytes = match self.framing() {
            // A declared length alone reserves no more than one buffer.
            Framing::Length(length) => Vec::with_capacity(length.min(64 * 1024) as usize),
            _ => Vec::new(),
        };
        self.read_buffered()?;
        while std::future::poll_fn(|cx| self.poll_data(cx, Some(deadline))).await? {
            bytes.extend_from_slice(self.data());
            let count = self.data().len();
            self.consume(count);
        }
        Ok(bytes)
    }
}
