//! Whether a client is still there while it waits for an answer.
//!
//! A client that is gone would else be worked for until the upstream answers. Nothing is asked of
//! the system unless something has happened on the connection: the runtime knows that already.

use crate::stream::{Sign, Stream};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::time::Sleep;

/// How long a client that sends no more is still worked for: it may have closed only its own
/// direction, as some do who have said all.
const HALF_CLOSED: Duration = Duration::from_secs(1);

/// Watches a client while one request is answered.
pub(super) enum Presence {
    /// Nothing has come from it.
    Quiet,
    /// It sends no more.
    HalfClosed(Pin<Box<Sleep>>),
    /// It has sent more: the next request, behind which the end of the connection is not seen.
    Busy,
}

impl Presence {
    /// Waits until the client is gone.
    pub(super) fn poll_gone(&mut self, stream: &Stream, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            match self {
                Self::Quiet => match ready!(stream.poll_sign(cx)) {
                    Sign::Data => *self = Self::Busy,
                    Sign::End => {
                        *self = Self::HalfClosed(Box::pin(tokio::time::sleep(HALF_CLOSED)))
                    }
                    Sign::Reset => return Poll::Ready(()),
                },
                Self::HalfClosed(patience) => return patience.as_mut().poll(cx),
                Self::Busy => return Poll::Pending,
            }
        }
    }
}
