//! The request on its way to an upstream.

use crate::body::{RequestBody, RequestBodyError};
use crate::outgoing::Outgoing;
use crate::stream::Stream;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use weir_wire::{Framing, Method};

/// A request being sent.
pub(crate) struct Sending<'a> {
    out: Outgoing,
    body: RequestBody<'a>,
    framing: Framing,
    state: State,
    /// Length of the head, at the front of `out`.
    head: usize,
    /// All of the request is in `out`, so that it can be sent again.
    repeatable: bool,
    /// Something went out or came in since the last question.
    moved: bool,
    /// The client, not the upstream, is what is waited for.
    waits_for_client: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Body,
    /// Everything is in `out`, or there already.
    Last,
    Over,
    /// The upstream takes no more.
    Broken,
}

/// Why sending stopped.
pub(crate) enum SendingError {
    /// The body cannot be had.
    Client(RequestBodyError),
    /// The connection broke, the other end closed it, or the stream was reset.
    Upstream,
}

impl<'a> Sending<'a> {
    /// Starts on a request with this head. A body that is at hand and small goes with it.
    pub(crate) fn new(mut out: Outgoing, mut body: RequestBody<'a>) -> Self {
        let head = out.len();
        out.set_chunked(body.framing() == Framing::Chunked);
        // A head may have taken all of it.
        if out.has_room() && !body.is_done() && !body.data().is_empty() {
            let copied = out.take(body.data());
            body.consume(copied);
        }
        let mut state = State::Body;
        if body.is_done() {
            out.end();
            out.keep();
            state = State::Last;
        }
        Self {
            out,
            framing: body.framing(),
            body,
            state,
            head,
            repeatable: state == State::Last,
            moved: false,
            waits_for_client: false,
        }
    }

    /// Nothing more will be sent.
    pub(crate) fn is_over(&self) -> bool {
        matches!(self.state, State::Over | State::Broken)
    }

    /// All of it has been sent.
    pub(crate) fn is_complete(&self) -> bool {
        self.state == State::Over
    }

    /// Whether sending the request again, after the connection closed without a byte of answer,
    /// does no harm: nothing of it had gone out, or doing it twice is the same as once.
    pub(crate) fn may_repeat(&self, method: Method) -> bool {
        self.repeatable && (method.is_idempotent() || self.out.is_untouched())
    }

    /// Whether it can be sent as a whole to another target; `twice` if it may be dealt with twice.
    pub(crate) fn may_be_sent_on(&self, twice: bool) -> bool {
        let whole = self.out.is_untouched() && self.state != State::Broken;
        whole || (self.repeatable && (twice || self.out.is_untouched()))
    }

    /// How the body is framed.
    pub(crate) fn framing(&self) -> Framing {
        self.framing
    }

    /// The body as it goes out, if all of it is at hand, so that it can be sent twice.
    pub(crate) fn at_hand(&self) -> Option<Vec<u8>> {
        self.repeatable.then(|| self.out.behind(self.head).to_vec())
    }

    /// The same request once more, with another head; `body` is what is [`Sending::at_hand`].
    pub(crate) fn again(mut out: Outgoing, body: &[u8], framing: Framing) -> Sending<'static> {
        let head = out.len();
        out.head().extend_from_slice(body);
        out.keep();
        Sending {
            out,
            body: RequestBody::empty(),
            framing,
            state: State::Last,
            head,
            repeatable: true,
            moved: false,
            waits_for_client: false,
        }
    }

    /// Starts again, over another connection.
    pub(crate) fn rewind(&mut self) {
        self.out.rewind();
        self.state = State::Last;
    }

    /// Starts again, with another head, for another target.
    pub(crate) fn readdress(&mut self, head: &Outgoing) {
        if self.repeatable {
            self.rewind();
        }
        self.out.replace_head(self.head, head);
        self.head = head.len();
    }

    /// Nobody gets it. What has come of the body is recorded all the same.
    pub(crate) fn give_up(&mut self) {
        // A fault in it is not told: there is one already.
        let _ = self.body.drop_at_hand();
    }

    pub(crate) fn take_moved(&mut self) -> bool {
        std::mem::take(&mut self.moved)
    }

    pub(crate) fn waits_for_client(&self) -> bool {
        self.waits_for_client
    }

    /// How long the client may send nothing.
    pub(crate) fn client_idle(&self) -> Duration {
        self.body.idle()
    }

    /// Sends on until everything is out.
    pub(crate) fn poll(
        &mut self,
        stream: &Stream,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), SendingError>> {
        loop {
            if self.state == State::Body && self.out.has_room() {
                self.waits_for_client = false;
                match self.body.poll_data(cx, None) {
                    Poll::Ready(Ok(true)) => {
                        let copied = self.out.take(self.body.data());
                        self.body.consume(copied);
                        self.moved = true;
                        continue;
                    }
                    Poll::Ready(Ok(false)) => {
                        self.out.end();
                        self.state = State::Last;
                    }
                    Poll::Ready(Err(error)) => {
                        return Poll::Ready(Err(SendingError::Client(error)));
                    }
                    Poll::Pending if self.out.is_empty() => {
                        self.waits_for_client = true;
                        if ready!(self.out.poll_flush(stream, cx)).is_err() {
                            return self.broken();
                        }
                        return Poll::Pending;
                    }
                    Poll::Pending => {}
                }
            }
            if self.out.is_empty() {
                if ready!(self.out.poll_flush(stream, cx)).is_err() {
                    return self.broken();
                }
                self.state = State::Over;
                return Poll::Ready(Ok(()));
            }
            match ready!(self.out.poll_write(stream, cx, self.body.data())) {
                Ok(direct) => {
                    self.body.consume(direct);
                    self.moved = true;
                }
                Err(_) => return self.broken(),
            }
        }
    }

    fn broken(&mut self) -> Poll<Result<(), SendingError>> {
        self.state = State::Broken;
        Poll::Ready(Err(SendingError::Upstream))
    }
}
