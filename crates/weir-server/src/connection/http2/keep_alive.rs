//! Keep-alive of HTTP/2 connections: a PING to a silent client.

use h2::{Ping, PingPong};
use std::cell::Cell;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use weir_http::deadline::{Deadline, Wait};
use weir_http::stream::PrefixedStream;

/// Silence of a connection before a PING, and after the PING before the connection counts as dead.
const PING_INTERVAL: Duration = Duration::from_secs(20);

/// A stream that records activity: received bytes, and bytes that a full socket accepts again. A
/// slow client that reads a long response sends little, and its PONG waits behind that response.
pub(super) struct Watched {
    io: PrefixedStream,
    /// The socket was full.
    full: bool,
    alive: Rc<Cell<bool>>,
}

impl Watched {
    /// The stream, and the flag that activity sets.
    pub(super) fn new(io: PrefixedStream) -> (Self, Rc<Cell<bool>>) {
        let alive = Rc::new(Cell::new(false));
        (Self { io, full: false, alive: Rc::clone(&alive) }, alive)
    }

    fn record_write(&mut self, polled: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
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
        self.record_write(polled)
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
        self.record_write(polled)
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
    /// A PING was sent; any activity is awaited.
    ping_sent: bool,
}

impl KeepAlive {
    pub(super) fn new(alive: Rc<Cell<bool>>, ping: PingPong) -> Self {
        Self { alive, ping, silence: Deadline::default(), ping_sent: false }
    }

    /// Ready when a PING waits to be written (`true`), or the client is dead (`false`).
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<bool> {
        // The bytes of the PONG are activity already; it is read so that another PING can be sent.
        let _ = self.ping.poll_pong(cx);
        loop {
            if self.alive.take() {
                self.ping_sent = false;
                self.silence.progress();
            }
            ready!(self.silence.poll(cx, Wait::Idle, PING_INTERVAL));
            if self.ping_sent {
                return Poll::Ready(false);
            }
            self.ping_sent = true;
            // If it cannot be sent, the PING before it has no PONG yet: that counts as sent.
            if self.ping.send_ping(Ping::opaque()).is_ok() {
                return Poll::Ready(true);
            }
        }
    }
}
