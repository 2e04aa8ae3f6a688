//! Whether the client of an HTTP/2 connection is still there.

use h2::{Ping, PingPong};
use std::cell::Cell;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use weir_http::deadline::{Deadline, Wait};
use weir_http::stream::Rewound;

/// How long a connection may be silent before a PING, and behind the PING before the connection
/// counts as dead.
const PING: Duration = Duration::from_secs(20);

/// A stream that notes signs of life: bytes that came, and bytes that a full socket takes again. A
/// slow client that reads a long response sends little, and its PONG waits behind that response.
pub(super) struct Watched {
    io: Rewound,
    /// The socket was full.
    full: bool,
    alive: Rc<Cell<bool>>,
}

impl Watched {
    /// The stream, and the mark that a sign of life sets.
    pub(super) fn new(io: Rewound) -> (Self, Rc<Cell<bool>>) {
        let alive = Rc::new(Cell::new(false));
        (Self { io, full: false, alive: Rc::clone(&alive) }, alive)
    }

    fn note_written(&mut self, polled: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        match polled {
            Poll::Pending => self.full = true,
            Poll::Ready(Ok(_)) if self.full => {
                self.full = false;
                self.alive.set(true);
            }
            Poll::Ready(_) => {}
        }
        polled
    }
}

impl AsyncRead for Watched {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        room: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.io).poll_read(cx, room);
        if matches!(polled, Poll::Ready(Ok(()))) {
            self.alive.set(true);
        }
        polled
    }
}

impl AsyncWrite for Watched {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.io).poll_write(cx, bytes);
        self.note_written(polled)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.io).poll_write_vectored(cx, bytes);
        self.note_written(polled)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }
}

/// Sends PINGs to a silent client.
pub(super) struct KeepAlive {
    alive: Rc<Cell<bool>>,
    ping: PingPong,
    silence: Deadline,
    /// A PING has been sent; what follows is the wait for any sign of life.
    asked: bool,
}

impl KeepAlive {
    pub(super) fn new(alive: Rc<Cell<bool>>, ping: PingPong) -> Self {
        Self { alive, ping, silence: Deadline::default(), asked: false }
    }

    /// Ready when a PING waits to be written (`true`), or the client is dead (`false`).
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<bool> {
        // The bytes of the PONG are a sign of life already; it is taken so that another PING can be sent.
        let _ = self.ping.poll_pong(cx);
        loop {
            if self.alive.take() {
                self.asked = false;
                self.silence.progress();
            }
            ready!(self.silence.poll(cx, Wait::Idle, PING));
            if self.asked {
                return Poll::Ready(false);
            }
            self.asked = true;
            // One that could not be sent, as its forerunner has no PONG yet, is as good as sent.
            if self.ping.send_ping(Ping::opaque()).is_ok() {
                return Poll::Ready(true);
            }
        }
    }
}
