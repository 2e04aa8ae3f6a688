//! What goes on with a client while it waits for an answer: interim ones are sent to it, and
//! whether it is still there is watched.
//!
//! A client that is gone would else be worked for until the upstream answers. Nothing is asked of
//! the system unless something has happened on the connection: the runtime knows that already.

use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::time::Sleep;
use weir_gateway::exchange::Exchange;
use weir_gateway::flow::{ClientClosed, flow};
use weir_gateway::response_body::ResponseBody;
use weir_http::body::RequestBody;
use weir_http::outgoing::Outgoing;
use weir_http::stream::{PeerEvent, Stream};

/// How long a client that sends no more is still worked for: it may have closed only its own
/// direction, as some do who have said all.
const HALF_CLOSED: Duration = Duration::from_secs(1);

/// Answers a request, unless the client leaves before that.
pub(super) async fn answer<'a>(
    stream: &Stream,
    exchange: &mut Exchange,
    out: &mut Outgoing,
    body: RequestBody<'a>,
) -> Result<ResponseBody<'a>, ClientClosed> {
    let interim = Rc::clone(&exchange.interim);
    interim.borrow_mut().clear();
    // Boxed: a connection between requests should not hold the room that one needs, and the
    // room of a request that needs no waiting is still in the cache from the one before.
    // Allocated first and then written in place: `Box::pin` would copy all of that room, as most of
    // it is still uninitialised (400 instructions a request).
    let mut flow = Box::into_pin(Box::write(Box::new_uninit(), flow(exchange, body)));
    let mut disconnect_watch = DisconnectWatch::Quiet;
    let answered = poll_fn(|cx| match flow.as_mut().poll(cx) {
        Poll::Ready(answer) => Poll::Ready(answer),
        Poll::Pending if !pass(&mut interim.borrow_mut(), stream, cx) => {
            Poll::Ready(Err(ClientClosed))
        }
        Poll::Pending => disconnect_watch.poll_disconnect(stream, cx).map(|()| Err(ClientClosed)),
    });
    let answered = answered.await;
    // What was not taken yet goes in front of the answer.
    if !interim.borrow().is_empty() {
        out.head().append(&mut interim.borrow_mut());
    }
    answered
}

/// Sends interim answers; false if the connection is of no use any more. They go whole into the
/// buffer of the socket, or wait until there is room.
fn pass(interim: &mut Vec<u8>, stream: &Stream, cx: &mut Context<'_>) -> bool {
    if interim.is_empty() {
        return true;
    }
    match stream.poll_write(cx, interim, b"") {
        Poll::Pending => true,
        Poll::Ready(Ok(count)) if count == interim.len() => {
            interim.clear();
            // TLS flushes on with the next write or read.
            !matches!(stream.poll_flush(cx), Poll::Ready(Err(_)))
        }
        Poll::Ready(_) => false,
    }
}

/// Watches a client while one request is answered.
enum DisconnectWatch {
    /// Nothing has come from it.
    Quiet,
    /// It sends no more.
    HalfClosed(Pin<Box<Sleep>>),
    /// It has sent more: the next request, behind which the end of the connection is not seen.
    Busy,
}

impl DisconnectWatch {
    /// Waits until the client is gone.
    fn poll_disconnect(&mut self, stream: &Stream, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            match self {
                Self::Quiet => match ready!(stream.poll_peer_event(cx)) {
                    PeerEvent::Data => *self = Self::Busy,
                    PeerEvent::End => {
                        *self = Self::HalfClosed(Box::pin(tokio::time::sleep(HALF_CLOSED)))
                    }
                    PeerEvent::Reset => return Poll::Ready(()),
                },
                Self::HalfClosed(patience) => return patience.as_mut().poll(cx),
                Self::Busy => return Poll::Pending,
            }
        }
    }
}
