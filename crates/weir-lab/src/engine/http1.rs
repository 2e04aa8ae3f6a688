//! HTTP/1.1: one request and its response on an open connection.
//!
//! A small response costs one send and one receive. The request is written at once. A read that
//! does not fill the buffer means for tokio that no bytes are left, so that the next read waits
//! without a system call. The response is parsed in the read buffer of the loop.

use super::connection::{Stream, poll_bytes, watch};
use super::event_loop::Loop;
use super::plan::Capture;
use super::request_error::RequestError;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use tokio::io::AsyncWrite;
use tokio::task::coop::unconstrained;
use tokio::time::{Instant, Sleep};
use tokio_util::either::Either;
use weir_wire::{BodyDecoder, HeadLimits, Headers, Method, ResponseHead, Scan};

/// Largest captured part of a body, for checks and extractors.
pub(super) const MAX_CAPTURED_BODY_BYTES: usize = 16 * 1024 * 1024;

/// Largest buffer that a user keeps between responses.
const MAX_IDLE_BUFFER_BYTES: usize = 64 * 1024;

/// Limits of the head of a response.
pub(super) const HEAD_LIMITS: HeadLimits =
    HeadLimits { bytes: 256 * 1024, fields: 1000, target: 0 };

/// An open HTTP/1.1 connection.
pub(super) struct Http1 {
    stream: Stream,
    /// Bytes of the current request that are not yet sent.
    unsent: Vec<u8>,
    /// Bytes of an incomplete response head.
    partial: Vec<u8>,
    timer: Timer,
}

/// Options of an exchange.
#[derive(Clone, Copy)]
pub(super) struct ExchangeOptions {
    pub(super) method: Method,
    pub(super) start: u64,
    pub(super) timeout: Duration,
    pub(super) capture: Capture,
}

/// The captured part of a response.
#[derive(Default)]
pub(super) struct CapturedResponse {
    pub(super) head: ResponseHead,
    /// Status line and fields, as received.
    pub(super) text: Vec<u8>,
    pub(super) body: Vec<u8>,
    /// The body is longer than the captured part.
    pub(super) truncated: bool,
}

/// Status, sizes and times of a complete response.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ResponseSummary {
    pub(super) status: u16,
    /// The connection can be reused.
    pub(super) reusable: bool,
    /// Received bytes, and received bytes of the body.
    pub(super) received: u64,
    pub(super) body: u64,
    pub(super) sent: u64,
    pub(super) first_byte: u64,
    pub(super) end: u64,
}

/// Progress of an exchange.
struct Progress {
    options: ExchangeOptions,
    written: bool,
    polled_timer: bool,
    /// Decoder of the body, after the head.
    body: Option<BodyDecoder>,
    reusable: bool,
    response: ResponseSummary,
}

impl Http1 {
    pub(super) fn new(stream: Stream) -> Self {
        Self { stream, unsent: Vec::new(), partial: Vec::new(), timer: Timer::default() }
    }

    /// The stream, before any request.
    pub(super) fn into_stream(self) -> Stream {
        self.stream
    }

    /// Whether the connection is open, as far as the event loop knows: without a system call.
    pub(super) fn is_open(&mut self) -> bool {
        let mut byte = [0];
        let mut cx = Context::from_waker(Waker::noop());
        poll_bytes(&mut self.stream, &mut cx, &mut byte).is_pending()
    }

    /// Sends a request and waits for the complete response.
    pub(super) async fn exchange(
        &mut self,
        events: &Loop,
        message: &[u8],
        options: ExchangeOptions,
        captured: &mut CapturedResponse,
    ) -> Result<ResponseSummary, RequestError> {
        let response = ResponseSummary { sent: message.len() as u64, ..ResponseSummary::default() };
        let mut progress = Progress {
            options,
            written: false,
            polled_timer: false,
            body: None,
            reusable: true,
            response,
        };
        poll_fn(|cx| self.poll(cx, events, message, &mut progress, captured)).await
    }

    #[inline]
    fn poll(
        &mut self,
        cx: &mut Context<'_>,
        events: &Loop,
        message: &[u8],
        progress: &mut Progress,
        captured: &mut CapturedResponse,
    ) -> Poll<Result<ResponseSummary, RequestError>> {
        if !progress.written {
            progress.written = true;
            match Pin::new(&mut self.stream).poll_write(cx, message) {
                Poll::Ready(Ok(sent)) if sent == message.len() => {}
                Poll::Ready(Ok(sent)) => self.unsent.extend_from_slice(&message[sent..]),
                Poll::Ready(Err(error)) => return Poll::Ready(Err(RequestError::from_io(&error))),
                Poll::Pending => self.unsent.extend_from_slice(message),
            }
            // A part is left, or records of TLS: the socket says when it accepts more.
            if !self.unsent.is_empty() || matches!(self.stream, Either::Right(_)) {
                self.poll_unsent(cx)?;
            }
        } else if !self.unsent.is_empty() || matches!(self.stream, Either::Right(_)) {
            self.poll_unsent(cx)?;
        }
        let mut buffer = events.scratch.borrow_mut();
        loop {
            let read = match poll_bytes(&mut self.stream, cx, &mut buffer) {
                Poll::Ready(Ok(read)) => read,
                Poll::Ready(Err(error)) => return Poll::Ready(Err(RequestError::from_io(&error))),
                Poll::Pending => return self.timer.poll(cx, events, progress),
            };
            let input = &buffer[..read];
            let complete = if read == 0 {
                progress.close()
            } else if self.partial.is_empty() {
                progress.read(events, input, captured, &mut self.partial)
            } else {
                self.partial.extend_from_slice(input);
                let input = std::mem::take(&mut self.partial);
                progress.read(events, &input, captured, &mut self.partial)
            };
            match complete {
                Ok(true) => {
                    watch(&self.stream);
                    return Poll::Ready(Ok(progress.finish(events, self.unsent.is_empty())));
                }
                Ok(false) => {}
                Err(fault) => return Poll::Ready(Err(fault)),
            }
            if progress.response.first_byte == 0 {
                progress.response.first_byte = events.now();
            }
        }
    }

    /// Sends the unsent bytes. A full socket buffer is no error.
    fn poll_unsent(&mut self, cx: &mut Context<'_>) -> Result<(), RequestError> {
        let mut sent = 0;
        while sent < self.unsent.len() {
            match Pin::new(&mut self.stream).poll_write(cx, &self.unsent[sent..]) {
                Poll::Ready(Ok(0)) => return Err(RequestError::closed()),
                Poll::Ready(Ok(more)) => sent += more,
                Poll::Ready(Err(error)) => return Err(RequestError::from_io(&error)),
                Poll::Pending => break,
            }
        }
        self.unsent.drain(..sent);
        if let Either::Right(_) = self.stream {
            let flushed = Pin::new(&mut self.stream).poll_flush(cx);
            if let Poll::Ready(Err(error)) = flushed {
                return Err(RequestError::from_io(&error));
            }
        }
        if self.unsent.is_empty() && self.unsent.capacity() > MAX_IDLE_BUFFER_BYTES {
            self.unsent = Vec::new();
        }
        Ok(())
    }
}

impl Progress {
    /// Reads bytes of the response. Returns whether the response is complete. Bytes of an
    /// incomplete head go to `partial`.
    #[inline]
    fn read(
        &mut self,
        events: &Loop,
        input: &[u8],
        captured: &mut CapturedResponse,
        partial: &mut Vec<u8>,
    ) -> Result<bool, RequestError> {
        let mut rest = input;
        while self.body.is_none() {
            let mut head = events.head.borrow_mut();
            let length = head
                .parse(rest, self.options.method, &mut Scan::new(), &HEAD_LIMITS)
                .map_err(|error| RequestError::protocol(&error))?;
            let Some(length) = length else {
                partial.extend_from_slice(rest);
                return Ok(false);
            };
            self.response.received += length as u64;
            if (100..200).contains(&head.status) && head.status != 101 {
                // An interim response.
                rest = &rest[length..];
                continue;
            }
            self.response.status = head.status;
            self.reusable = head.keep_alive && head.status != 101;
            self.body = Some(BodyDecoder::new(head.framing));
            if head.status >= 400 {
                // The report shows an example of each failure.
                self.options.capture = Capture::Body;
            }
            if self.options.capture >= Capture::Head {
                captured.text.clear();
                captured.text.extend_from_slice(&rest[..length]);
                captured.body.clear();
                captured.truncated = false;
                std::mem::swap(&mut *head, &mut captured.head);
            }
            rest = &rest[length..];
        }
        self.read_body(rest, captured)
    }

    #[inline]
    fn read_body(
        &mut self,
        mut rest: &[u8],
        captured: &mut CapturedResponse,
    ) -> Result<bool, RequestError> {
        let Some(body) = &mut self.body else { return Ok(false) };
        loop {
            if body.is_done() {
                // Surplus bytes could be read as the next response: do not reuse the connection.
                self.reusable &= rest.is_empty();
                self.response.received += rest.len() as u64;
                return Ok(true);
            }
            let found = body.decode(rest).map_err(|error| RequestError::protocol(&error))?;
            if found.consumed == 0 {
                return Ok(false);
            }
            self.response.received += found.consumed as u64;
            self.response.body += found.data.len() as u64;
            if self.options.capture == Capture::Body {
                captured.add(&rest[found.data]);
            }
            rest = &rest[found.consumed..];
        }
    }

    /// The server closed the connection. Returns whether the response is complete.
    fn close(&mut self) -> Result<bool, RequestError> {
        self.reusable = false;
        let complete = self.body.as_mut().is_some_and(|body| body.close().is_ok());
        if complete { Ok(true) } else { Err(RequestError::closed()) }
    }

    fn finish(&mut self, events: &Loop, all_sent: bool) -> ResponseSummary {
        let end = events.now();
        let first_byte = if self.response.first_byte == 0 { end } else { self.response.first_byte };
        // A response before the end of the request: the rest of the request must not follow.
        ResponseSummary { reusable: self.reusable && all_sent, end, first_byte, ..self.response }
    }
}

impl CapturedResponse {
    /// Adds bytes of a body, up to the limit.
    pub(super) fn add(&mut self, bytes: &[u8]) {
        let room = MAX_CAPTURED_BODY_BYTES - self.body.len().min(MAX_CAPTURED_BODY_BYTES);
        self.truncated |= bytes.len() > room;
        self.body.extend_from_slice(&bytes[..bytes.len().min(room)]);
    }

    /// Clears the captured response and frees large buffers.
    pub(super) fn clear(&mut self) {
        self.text.clear();
        self.body.clear();
        if self.body.capacity() > MAX_IDLE_BUFFER_BYTES {
            self.body = Vec::new();
        }
        self.truncated = false;
    }

    /// The fields of the response.
    pub(super) fn headers(&self) -> &Headers {
        &self.head.headers
    }
}

/// The response timeout of a connection. The timer is only reset after it expired, since almost
/// every response arrives long before.
#[derive(Default)]
struct Timer {
    sleep: Option<Pin<Box<Sleep>>>,
    /// Deadline of the timer, in nanoseconds since the start of the run.
    until: u64,
    /// The task that the timer wakes.
    waker: Option<Waker>,
}

impl Timer {
    fn poll(
        &mut self,
        cx: &mut Context<'_>,
        events: &Loop,
        progress: &mut Progress,
    ) -> Poll<Result<ResponseSummary, RequestError>> {
        let start = progress.options.start;
        let limit = u64::try_from(progress.options.timeout.as_nanos()).unwrap_or(u64::MAX);
        let deadline = start.saturating_add(limit);
        let is_set = self.sleep.is_some() && self.until > start && self.until <= deadline;
        let is_first = !std::mem::replace(&mut progress.polled_timer, true);
        if is_first && is_set && self.will_wake(cx.waker()) {
            return Poll::Pending;
        }
        if !is_set {
            self.set(events.instant(deadline), deadline);
        }
        while self.poll_sleep(cx) {
            if events.now() >= deadline {
                self.until = 0;
                return Poll::Ready(Err(RequestError::timed_out()));
            }
            self.set(events.instant(deadline), deadline);
        }
        Poll::Pending
    }

    /// Whether the timer is still to expire, and then wakes this task. Another task may have used the
    /// connection before: resources of a page that are requested in parallel are a task each.
    fn will_wake(&self, waker: &Waker) -> bool {
        self.sleep.as_ref().is_some_and(|sleep| !sleep.is_elapsed())
            && self.waker.as_ref().is_some_and(|known| known.will_wake(waker))
    }

    /// Whether the timer has expired; otherwise it wakes this task when it does.
    fn poll_sleep(&mut self, cx: &mut Context<'_>) -> bool {
        let Some(sleep) = &mut self.sleep else { return false };
        if !self.waker.as_ref().is_some_and(|known| known.will_wake(cx.waker())) {
            self.waker = Some(cx.waker().clone());
        }
        // Without the budget of the task: a body that arrives without a gap uses all of it, so that the
        // timer would never expire.
        Pin::new(&mut unconstrained(sleep.as_mut())).poll(cx).is_ready()
    }

    fn set(&mut self, instant: Instant, deadline: u64) {
        self.until = deadline;
        match &mut self.sleep {
            Some(sleep) => sleep.as_mut().reset(instant),
            None => self.sleep = Some(Box::pin(tokio::time::sleep_until(instant))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::task::Wake;

    #[derive(Default)]
    struct Wakes(AtomicU32);

    impl Wake for Wakes {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn timer(after: Duration) -> Timer {
        let mut timer = Timer::default();
        timer.set(Instant::now() + after, 1);
        timer
    }

    #[tokio::test]
    async fn the_timer_wakes_the_task_that_used_the_connection_last() {
        let mut timer = timer(Duration::from_millis(20));
        let tasks = [Arc::<Wakes>::default(), Arc::<Wakes>::default()];
        let wakers = tasks.clone().map(Waker::from);
        assert!(!timer.poll_sleep(&mut Context::from_waker(&wakers[0])));
        assert!(timer.will_wake(&wakers[0]) && !timer.will_wake(&wakers[1]));
        assert!(!timer.poll_sleep(&mut Context::from_waker(&wakers[1])));
        assert!(timer.will_wake(&wakers[1]));
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert_eq!(tasks.map(|task| task.0.load(Ordering::Relaxed)), [0, 1]);
        assert!(!timer.will_wake(&wakers[1]), "it has expired");
    }

    #[tokio::test]
    async fn a_task_without_budget_sees_that_the_timer_has_expired() {
        let mut timer = timer(Duration::ZERO);
        tokio::time::sleep(Duration::from_millis(5)).await;
        poll_fn(|cx| {
            while std::pin::pin!(tokio::task::coop::consume_budget()).poll(cx).is_ready() {}
            assert!(timer.poll_sleep(cx));
            Poll::Ready(())
        })
        .await;
    }
}
