//! While a client waits for a response: interim responses are sent to it, and a disconnect is
//! detected.
//!
//! Without this, a request whose client disconnected would occupy weir until the upstream responds.
//! There is no system call unless the runtime reports an event on the connection.

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
use weir_http::socket::PeerEvent;
use weir_http::stream::Stream;
use weir_http::write_buffer::WriteBuffer;

/// Limit on a half-closed client: some clients close their direction after the request.
const HALF_CLOSED_TIMEOUT: Duration = Duration::from_secs(1);

/// Serves a request, unless the client disconnects before the response.
pub(super) async fn serve<'a>(
    stream: &Stream,
    exchange: &mut Exchange,
    out: &mut WriteBuffer,
    body: RequestBody<'a>,
) -> Result<ResponseBody<'a>, ClientClosed> {
    let interim = Rc::clone(&exchange.interim);
    interim.borrow_mut().clear();
    // Boxed: a connection between requests should not hold the memory of a request, and the memory
    // of the request before is still in the CPU cache.
    // Allocated first and then written in place: `Box::pin` would copy all of that memory, as most
    // of it is still uninitialised (400 instructions a request).
    let mut flow = Box::into_pin(Box::write(Box::new_uninit(), flow(exchange, body)));
    let mut disconnect_watch = DisconnectWatch::Quiet;
    let served = poll_fn(|cx| match flow.as_mut().poll(cx) {
        Poll::Ready(response) => Poll::Ready(response),
        Poll::Pending if !send_interim(&mut interim.borrow_mut(), stream, cx) => {
            Poll::Ready(Err(ClientClosed))
        }
        Poll::Pending => disconnect_watch.poll_disconnect(stream, cx).map(|()| Err(ClientClosed)),
    });
    let served = served.await;
    // Interim responses that were not sent yet precede the response.
    if !interim.borrow().is_empty() {
        out.head().append(&mut interim.borrow_mut());
    }
    served
}

/// Sends interim responses; `false` if the connection is unusable. All of them fit into the buffer
/// of the socket, or they wait.
fn send_interim(interim: &mut Vec<u8>, stream: &Stream, cx: &mut Context<'_>) -> bool {
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

/// Watches a client while a request is served.
enum DisconnectWatch {
    /// No event.
    Quiet,
    /// The client has closed its direction.
    HalfClosed(Pin<Box<Sleep>>),
    /// The client has sent further bytes: the next request, which hides the end of the connection.
    Busy,
}

impl DisconnectWatch {
    /// Waits until the client disconnects.
    fn poll_disconnect(&mut self, stream: &Stream, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            match self {
                Self::Quiet => match ready!(stream.poll_peer_event(cx)) {
                    PeerEvent::Data => *self = Self::Busy,
                    PeerEvent::End => {
                        *self = Self::HalfClosed(Box::pin(tokio::time::sleep(HALF_CLOSED_TIMEOUT)))
                    }
                    PeerEvent::Reset => return Poll::Ready(()),
                },
                Self::HalfClosed(timeout) => return timeout.as_mut().poll(cx),
                Self::Busy => return Poll::Pending,
            }
        }
    }
}
