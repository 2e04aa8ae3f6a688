//! The request on its way to an agent: as FastCGI records, or as the plain input of a program.

use crate::body::RequestBody;
use crate::buffer;
use crate::proxy::sending::SendingError;
use crate::stream::Stream;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use weir_wire::Method;
use weir_wire::fastcgi::request;

/// When so much waits, it is written before more is taken.
const FULL: usize = 16 * 1024;
/// Most that is taken at once.
const PIECE: usize = 32 * 1024;

/// A request being sent.
pub(crate) struct Feeding<'a> {
    out: Bytes,
    written: usize,
    body: RequestBody<'a>,
    /// In records.
    framed: bool,
    state: State,
    /// All of the request is in `out`, so that it can be sent again.
    repeatable: bool,
    moved: bool,
    waits_for_client: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Body,
    Last,
    Over,
    Broken,
}

impl<'a> Feeding<'a> {
    /// Starts with what goes before the body. A small body that is at hand goes with it.
    pub(super) fn new(head: Vec<u8>, body: RequestBody<'a>, framed: bool) -> Self {
        let mut feeding = Self {
            out: Bytes(head),
            written: 0,
            body,
            framed,
            state: State::Body,
            repeatable: false,
            moved: false,
            waits_for_client: false,
        };
        while feeding.out.0.len() < FULL && !feeding.body.data().is_empty() {
            feeding.take();
        }
        if feeding.body.is_done() {
            feeding.end();
            feeding.repeatable = framed;
        }
        feeding
    }

    fn take(&mut self) {
        let data = self.body.data();
        let count = data.len().min(PIECE);
        if self.framed {
            request::stdin(&mut self.out.0, &data[..count]);
        } else {
            self.out.0.extend_from_slice(&data[..count]);
        }
        self.body.consume(count);
        self.moved = true;
    }

    fn end(&mut self) {
        if self.framed {
            request::stdin_end(&mut self.out.0);
        }
        self.state = State::Last;
    }

    pub(super) fn is_over(&self) -> bool {
        matches!(self.state, State::Over | State::Broken)
    }

    pub(super) fn is_complete(&self) -> bool {
        self.state == State::Over
    }

    /// Whether sending it again after the connection closed without a byte of answer does no harm.
    pub(super) fn may_repeat(&self, method: Method) -> bool {
        self.repeatable && (method.is_idempotent() || self.written == 0)
    }

    pub(super) fn rewind(&mut self) {
        (self.written, self.state) = (0, State::Last);
    }

    pub(super) fn take_moved(&mut self) -> bool {
        std::mem::take(&mut self.moved)
    }

    pub(super) fn waits_for_client(&self) -> bool {
        self.waits_for_client
    }

    pub(super) fn client_idle(&self) -> Duration {
        self.body.idle()
    }

    /// Sends on until everything is out.
    pub(super) fn poll(
        &mut self,
        stream: &Stream,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), SendingError>> {
        loop {
            if self.state == State::Body && self.out.0.len() - self.written < FULL {
                self.waits_for_client = false;
                match self.body.poll_data(cx, None) {
                    Poll::Ready(Ok(true)) => {
                        self.take();
                        continue;
                    }
                    Poll::Ready(Ok(false)) => self.end(),
                    Poll::Ready(Err(error)) => {
                        return Poll::Ready(Err(SendingError::Client(error)));
                    }
                    Poll::Pending if self.written == self.out.0.len() => {
                        self.waits_for_client = true;
                        return Poll::Pending;
                    }
                    Poll::Pending => {}
                }
            }
            if self.written == self.out.0.len() {
                if !self.framed && ready!(stream.poll_shutdown(cx)).is_err() {
                    return self.broken();
                }
                self.state = State::Over;
                return Poll::Ready(Ok(()));
            }
            match ready!(stream.poll_write(cx, &self.out.0[self.written..], b"")) {
                Ok(count) if count > 0 => {
                    self.written += count;
                    self.moved = true;
                    if self.written == self.out.0.len() && !self.repeatable {
                        self.out.0.clear();
                        self.written = 0;
                    }
                }
                _ => return self.broken(),
            }
        }
    }

    fn broken(&mut self) -> Poll<Result<(), SendingError>> {
        self.state = State::Broken;
        Poll::Ready(Err(SendingError::Upstream))
    }

    /// The body cannot be had, or nobody waits for the answer: what tells an agent so.
    pub(super) fn abort(&self, stream: &Stream) {
        if self.framed && self.written == self.out.0.len() {
            let mut wish = Vec::new();
            request::abort(&mut wish);
            // The connection is closed anyway: there is no waiting for room.
            let _ =
                stream.poll_write(&mut Context::from_waker(std::task::Waker::noop()), &wish, b"");
        }
    }
}

/// Bytes whose memory is used again.
struct Bytes(Vec<u8>);

impl Drop for Bytes {
    fn drop(&mut self) {
        buffer::give_back_vec(std::mem::take(&mut self.0));
    }
}
