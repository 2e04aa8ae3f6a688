//! Streamed request bodies with backpressure: the client is read only as fast as the body is consumed;
//! and the end of response bodies.

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

/// Why a request body cannot be read on. Nothing more can be had of it.
#[derive(Debug, thiserror::Error)]
pub enum RequestBodyError {
    /// The client closed, reset the connection or cancelled the stream.
    #[error("the client closed the connection")]
    ClientClosed,
    /// The framing is broken.
    #[error("{0}")]
    Malformed(#[from] BodyError),
    /// It is longer than the limit.
    #[error("the body exceeds the limit")]
    TooLarge,
    /// No byte came in time.
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

/// What gets the bytes of a request's body as they are consumed.
pub trait BodyTap {
    /// These bytes pass.
    fn pass(&self, bytes: &[u8]);
    /// The end has been read; maybe more than once.
    fn end(&self);
    /// The body broke off.
    fn aborted(&self);
}

/// The body of a request, read as it is asked for.
pub struct RequestBody<'a> {
    source: Source<'a>,
    /// Bytes that may still come, by the route's limit.
    allowance: u64,
    /// How long it may make no progress.
    idle: Duration,
    /// Where bytes that clients sent are counted.
    received: Option<&'static Counter>,
    /// The record, and the mirrors, that are to have it.
    taps: [Option<Rc<dyn BodyTap>>; 2],
}

enum Source<'a> {
    Empty,
    Http1(Http1Body<'a>),
    Http2(Http2Body),
    /// All of it, in memory.
    Buffered(Buffered),
}

#[derive(Default)]
struct Buffered {
    bytes: Vec<u8>,
    at: usize,
}

impl<'a> RequestBody<'a> {
    /// What nobody limits, waits for, counts, records or copies yet.
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

    /// All of it. One without a byte has a length all the same, which is zero.
    pub fn buffered(bytes: Vec<u8>) -> Self {
        Self::new(Source::Buffered(Buffered { bytes, at: 0 }))
    }

    /// Sets the limit; refuses at once a body that says it is longer.
    pub fn limit(&mut self, bytes: u64) -> Result<(), RequestBodyError> {
        self.allowance = bytes;
        match self.framing() {
            Framing::Length(length) if length > bytes => Err(RequestBodyError::TooLarge),
            _ => Ok(()),
        }
    }

    /// How it is framed: [`Framing::Chunked`] when its length is not known.
    pub fn framing(&self) -> Framing {
        match &self.source {
            Source::Empty => Framing::None,
            Source::Http1(body) => body.framing(),
            Source::Http2(body) => body.framing(),
            Source::Buffered(buffered) => Framing::Length(buffered.bytes.len() as u64),
        }
    }

    /// The bytes at hand.
    pub fn data(&self) -> &[u8] {
        match &self.source {
            Source::Empty => b"",
            Source::Http1(body) => body.data(),
            Source::Http2(body) => body.data(),
            Source::Buffered(buffered) => &buffered.bytes[buffered.at..],
        }
    }

    /// From now on what is consumed is recorded.
    pub fn record(&mut self, tap: Option<Rc<dyn BodyTap>>) {
        self.taps[0] = tap;
        self.notify_end();
    }

    /// From now on what is consumed goes into copies, too, which are sent once it is whole.
    pub fn mirror(&mut self, tap: Rc<dyn BodyTap>) {
        self.taps[1] = Some(tap);
        self.notify_end();
    }

    /// Tells the taps when the end has been read.
    fn notify_end(&self) {
        if self.taps.iter().any(Option::is_some) && self.is_done() {
            self.taps.iter().flatten().for_each(|tap| tap.end());
        }
    }

    /// Drops bytes at hand that are dealt with.
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

    /// Takes up to so many of the bytes at hand.
    pub fn take(&mut self, most: usize) -> Bytes {
        let count = self.data().len().min(most);
        let bytes = match &self.source {
            Source::Http2(body) => body.shared(count),
            Source::Empty | Source::Http1(_) | Source::Buffered(_) => {
                Bytes::copy_from_slice(&self.data()[..count])
            }
        };
        self.consume(count);
        bytes
    }

    /// Whether something follows its end.
    pub fn has_trailers(&self) -> bool {
        matches!(&self.source, Source::Http2(body) if body.has_trailers())
    }

    /// What follows its end.
    pub fn take_trailers(&mut self) -> Option<http::HeaderMap> {
        match &mut self.source {
            Source::Http2(body) => body.take_trailers(),
            Source::Empty | Source::Http1(_) | Source::Buffered(_) => None,
        }
    }

    /// Takes what is in memory already, without waiting for more. The part of a request's bytes
    /// that came with its head, most often all of them.
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

    /// All of it, if it says how long it is and as much is in memory; to be asked for first.
    pub fn complete_if_buffered(&mut self) -> Result<Option<&[u8]>, RequestBodyError> {
        self.read_buffered()?;
        let length = match self.framing() {
            Framing::Length(length) => length,
            _ => return Ok(None),
        };
        Ok(Some(self.data()).filter(|data| data.len() as u64 == length))
    }

    /// Drops what is in memory already, without waiting for more: a fault in it is told, although
    /// nobody wants the body.
    pub fn discard_buffered(&mut self) -> Result<(), RequestBodyError> {
        loop {
            self.read_buffered()?;
            match self.data().len() {
                0 => return Ok(()),
                count => self.consume(count),
            }
        }
    }

    /// How long it may make no progress.
    pub fn idle(&self) -> Duration {
        self.idle
    }

    /// Nothing is at hand and nothing will come.
    pub fn is_done(&self) -> bool {
        match &self.source {
            Source::Empty => true,
            Source::Http1(body) => body.is_done(),
            Source::Http2(body) => body.is_done(),
            Source::Buffered(buffered) => buffered.at == buffered.bytes.len(),
        }
    }

    /// Waits until bytes are at hand (`true`) or the body is over (`false`); within the limits of
    /// `deadline`, unless the caller watches over another wait at the same time.
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

    /// Counts what has come to hand against the limit.
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

    /// Reads all of it, for policies that need the whole.
    pub async fn read_all(&mut self, deadline: &Deadline) -> Result<Vec<u8>, RequestBodyError> {
        let mut bytes = match self.framing() {
            // Not more than a buffer on the word of the client.
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
