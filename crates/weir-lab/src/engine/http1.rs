//! HTTP/1.1: one request and its answer on an open connection.
//!
//! A small answer costs one send and one receive: the request is written at once, and a read that
//! did not fill the buffer tells tokio that nothing is left, so that the next one waits without
//! asking the kernel. The answer is parsed in the loop's buffer, where it was read.

use super::connection::Stream;
use super::event_loop::Loop;
use super::fault::Fault;
use super::plan::Keep;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use tokio::io::AsyncWrite;
use tokio::time::Sleep;
use weir_wire::{BodyDecoder, HeadLimits, Headers, Method, ResponseHead, Scan};

/// Most bytes of a body that are kept for checks and extractors.
pub(super) const LARGEST_KEPT: usize = 16 * 1024 * 1024;

/// Memory that a user keeps between answers.
const ROOM_KEPT: usize = 64 * 1024;

/// Limits of an answer's head.
const LIMITS: HeadLimits = HeadLimits { bytes: 256 * 1024, fields: 1000, target: 0 };

/// An open HTTP/1.1 connection.
pub(super) struct Http1 {
    stream: Stream,
    /// Of the request under way, what the kernel has not taken yet.
    unsent: Vec<u8>,
    /// Of the answer's head under way, what has come.
    partial: Vec<u8>,
    timer: Timer,
}

/// What is asked of a connection.
#[derive(Clone, Copy)]
pub(super) struct Ask {
    pub(super) method: Method,
    pub(super) start: u64,
    pub(super) timeout: Duration,
    pub(super) keep: Keep,
}

/// What is kept of an answer.
#[derive(Default)]
pub(super) struct Kept {
    pub(super) head: ResponseHead,
    /// Status line and fields, as they came.
    pub(super) text: Vec<u8>,
    pub(super) body: Vec<u8>,
    /// The body is longer than what is kept of it.
    pub(super) cut: bool,
}

/// An answer, whole.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Answer {
    pub(super) status: u16,
    /// The connection can be used again.
    pub(super) reusable: bool,
    /// Bytes received, and those of the body.
    pub(super) received: u64,
    pub(super) body: u64,
    pub(super) sent: u64,
    pub(super) first_byte: u64,
    pub(super) end: u64,
}

/// Where an answer under way is.
struct Progress {
    ask: Ask,
    written: bool,
    waited: bool,
    /// Of the body, once the head is there.
    body: Option<BodyDecoder>,
    reusable: bool,
    answer: Answer,
}

impl Http1 {
    pub(super) fn new(stream: Stream) -> Self {
        Self { stream, unsent: Vec::new(), partial: Vec::new(), timer: Timer::default() }
    }

    /// Whether the server has left it open: what the last turn of the loop found out is looked at,
    /// the kernel is not asked.
    pub(super) fn is_open(&mut self) -> bool {
        let mut byte = [0];
        let mut cx = Context::from_waker(Waker::noop());
        self.stream.poll_bytes(&mut cx, &mut byte).is_pending()
    }

    /// Sends a request and waits for its answer to be whole.
    pub(super) async fn exchange(
        &mut self,
        events: &Loop,
        message: &[u8],
        ask: Ask,
        kept: &mut Kept,
    ) -> Result<Answer, Fault> {
        let answer = Answer { sent: message.len() as u64, ..Answer::default() };
        let mut progress =
            Progress { ask, written: false, waited: false, body: None, reusable: true, answer };
        poll_fn(|cx| self.poll(cx, events, message, &mut progress, kept)).await
    }

    #[inline]
    fn poll(
        &mut self,
        cx: &mut Context<'_>,
        events: &Loop,
        message: &[u8],
        progress: &mut Progress,
        kept: &mut Kept,
    ) -> Poll<Result<Answer, Fault>> {
        if !progress.written {
            progress.written = true;
            match Pin::new(&mut self.stream).poll_write(cx, message) {
                Poll::Ready(Ok(sent)) if sent == message.len() => {}
                Poll::Ready(Ok(sent)) => self.unsent.extend_from_slice(&message[sent..]),
                Poll::Ready(Err(error)) => return Poll::Ready(Err(Fault::of(&error))),
                Poll::Pending => self.unsent.extend_from_slice(message),
            }
            if let Stream::Tls(_) = self.stream {
                self.poll_rest(cx)?;
            }
        } else if !self.unsent.is_empty() || matches!(self.stream, Stream::Tls(_)) {
            self.poll_rest(cx)?;
        }
        let mut buffer = events.scratch.borrow_mut();
        loop {
            let read = match self.stream.poll_bytes(cx, &mut buffer) {
                Poll::Ready(Ok(read)) => read,
                Poll::Ready(Err(error)) => return Poll::Ready(Err(Fault::of(&error))),
                Poll::Pending => return self.timer.poll(cx, events, progress),
            };
            let input = &buffer[..read];
            let whole = if read == 0 {
                progress.close()
            } else if self.partial.is_empty() {
                progress.take(events, input, kept, &mut self.partial)
            } else {
                self.partial.extend_from_slice(input);
                let input = std::mem::take(&mut self.partial);
                progress.take(events, &input, kept, &mut self.partial)
            };
            match whole {
                Ok(true) => {
                    return Poll::Ready(Ok(progress.finish(events, self.unsent.is_empty())));
                }
                Ok(false) => {}
                Err(fault) => return Poll::Ready(Err(fault)),
            }
            if progress.answer.first_byte == 0 {
                progress.answer.first_byte = events.now();
            }
        }
    }

    /// Sends what the kernel did not take; that it takes nothing is no error.
    fn poll_rest(&mut self, cx: &mut Context<'_>) -> Result<(), Fault> {
        let mut sent = 0;
        while sent < self.unsent.len() {
            match Pin::new(&mut self.stream).poll_write(cx, &self.unsent[sent..]) {
                Poll::Ready(Ok(0)) => return Err(Fault::closed()),
                Poll::Ready(Ok(more)) => sent += more,
                Poll::Ready(Err(error)) => return Err(Fault::of(&error)),
                Poll::Pending => break,
            }
        }
        self.unsent.drain(..sent);
        if let Stream::Tls(_) = self.stream {
            let flushed = Pin::new(&mut self.stream).poll_flush(cx);
            if let Poll::Ready(Err(error)) = flushed {
                return Err(Fault::of(&error));
            }
        }
        if self.unsent.is_empty() && self.unsent.capacity() > ROOM_KEPT {
            self.unsent = Vec::new();
        }
        Ok(())
    }
}

impl Progress {
    /// Takes bytes of the answer; whether it is whole. Bytes of an unfinished head go to `partial`.
    #[inline]
    fn take(
        &mut self,
        events: &Loop,
        input: &[u8],
        kept: &mut Kept,
        partial: &mut Vec<u8>,
    ) -> Result<bool, Fault> {
        let mut rest = input;
        while self.body.is_none() {
            let mut head = events.head.borrow_mut();
            let length = head
                .parse(rest, self.ask.method, &mut Scan::new(), &LIMITS)
                .map_err(|error| Fault::protocol(&error))?;
            let Some(length) = length else {
                partial.extend_from_slice(rest);
                return Ok(false);
            };
            self.answer.received += length as u64;
            if (100..200).contains(&head.status) && head.status != 101 {
                // An interim answer.
                rest = &rest[length..];
                continue;
            }
            self.answer.status = head.status;
            self.reusable = head.keep_alive && head.status != 101;
            self.body = Some(BodyDecoder::new(head.framing));
            if self.ask.keep >= Keep::Head {
                kept.text.clear();
                kept.text.extend_from_slice(&rest[..length]);
                kept.body.clear();
                kept.cut = false;
                std::mem::swap(&mut *head, &mut kept.head);
            }
            rest = &rest[length..];
        }
        self.take_body(rest, kept)
    }

    #[inline]
    fn take_body(&mut self, mut rest: &[u8], kept: &mut Kept) -> Result<bool, Fault> {
        let Some(body) = &mut self.body else { return Ok(false) };
        loop {
            if body.is_done() {
                // More than one answer: what follows cannot be told from the next one.
                self.reusable &= rest.is_empty();
                self.answer.received += rest.len() as u64;
                return Ok(true);
            }
            let found = body.decode(rest).map_err(|error| Fault::protocol(&error))?;
            if found.consumed == 0 {
                return Ok(false);
            }
            self.answer.received += found.consumed as u64;
            self.answer.body += found.data.len() as u64;
            if self.ask.keep == Keep::Body {
                kept.add(&rest[found.data]);
            }
            rest = &rest[found.consumed..];
        }
    }

    /// The server closed the connection; whether that ends the answer.
    fn close(&mut self) -> Result<bool, Fault> {
        self.reusable = false;
        let whole = self.body.as_mut().is_some_and(|body| body.close().is_ok());
        if whole { Ok(true) } else { Err(Fault::closed()) }
    }

    fn finish(&mut self, events: &Loop, all_sent: bool) -> Answer {
        let end = events.now();
        let first_byte = if self.answer.first_byte == 0 { end } else { self.answer.first_byte };
        // An answer before the request was whole: the rest of it must not follow.
        Answer { reusable: self.reusable && all_sent, end, first_byte, ..self.answer }
    }
}

impl Kept {
    /// Adds bytes of a body, up to the limit.
    pub(super) fn add(&mut self, bytes: &[u8]) {
        let room = LARGEST_KEPT - self.body.len().min(LARGEST_KEPT);
        self.cut |= bytes.len() > room;
        self.body.extend_from_slice(&bytes[..bytes.len().min(room)]);
    }

    /// Forgets what was kept, and gives memory back that few answers need.
    pub(super) fn clear(&mut self) {
        self.text.clear();
        self.body.clear();
        if self.body.capacity() > ROOM_KEPT {
            self.body = Vec::new();
        }
        self.cut = false;
    }

    /// The answer's fields.
    pub(super) fn headers(&self) -> &Headers {
        &self.head.headers
    }
}

/// The limit in time of a connection's answers: one timer that is set again only when it has run
/// off, as nearly every answer comes long before it.
#[derive(Default)]
struct Timer {
    sleep: Option<Pin<Box<Sleep>>>,
    /// What it is set to, nanoseconds since the run's start.
    until: u64,
}

impl Timer {
    fn poll(
        &mut self,
        cx: &mut Context<'_>,
        events: &Loop,
        progress: &mut Progress,
    ) -> Poll<Result<Answer, Fault>> {
        let start = progress.ask.start;
        let limit = u64::try_from(progress.ask.timeout.as_nanos()).unwrap_or(u64::MAX);
        let deadline = start.saturating_add(limit);
        let is_set = self.sleep.is_some() && self.until > start && self.until <= deadline;
        if is_set && !std::mem::replace(&mut progress.waited, true) {
            // It runs off later than now, and wakes this task, which then comes by here again.
            return Poll::Pending;
        }
        progress.waited = true;
        if !is_set {
            self.set(events, deadline);
        }
        while let Some(sleep) = &mut self.sleep {
            if sleep.as_mut().poll(cx).is_pending() {
                return Poll::Pending;
            }
            if events.now() >= deadline {
                self.until = 0;
                return Poll::Ready(Err(Fault::late()));
            }
            self.set(events, deadline);
        }
        Poll::Pending
    }

    fn set(&mut self, events: &Loop, deadline: u64) {
        self.until = deadline;
        let instant = events.instant(deadline);
        match &mut self.sleep {
            Some(sleep) => sleep.as_mut().reset(instant),
            None => self.sleep = Some(Box::pin(tokio::time::sleep_until(instant))),
        }
    }
}
