//! The byte stream of a connection, plain or TLS, polled through a shared reference.
//!
//! One task reads the request body and writes the response at the same time; a `RefCell` that is
//! borrowed for one poll is sufficient on one thread.

use crate::socket::{PeerEvent, Socket};
use std::cell::RefCell;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, Waker, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::unix::pipe::{Receiver, Sender};
use tokio_rustls::TlsStream;

/// A connection.
#[derive(Debug)]
pub struct Stream {
    io: RefCell<Io>,
}

#[derive(Debug)]
enum Io {
    Plain(Socket),
    Tls(Box<TlsStream<Socket>>),
    Pipes(Box<Pipes>),
}

impl Io {
    fn socket(&self) -> Option<&Socket> {
        match self {
            Self::Plain(socket) => Some(socket),
            Self::Tls(tls) => Some(tls.get_ref().0),
            Self::Pipes(_) => None,
        }
    }
}

/// Standard input and output of a process.
#[derive(Debug)]
struct Pipes {
    output: Receiver,
    /// `None` once closed.
    input: Option<Sender>,
}

macro_rules! with_io {
    ($self:expr, $io:ident => $call:expr) => {
        match &mut *$self.io.borrow_mut() {
            Io::Plain(io) => {
                let $io = Pin::new(io);
                $call
            }
            Io::Tls(io) => {
                let $io = Pin::new(&mut **io);
                $call
            }
            Io::Pipes(io) => {
                let $io = Pin::new(&mut **io);
                $call
            }
        }
    };
}

impl AsyncRead for Pipes {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        room: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.output).poll_read(cx, room)
    }
}

impl AsyncWrite for Pipes {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match &mut self.input {
            Some(input) => Pin::new(input).poll_write(cx, bytes),
            None => Poll::Ready(Err(io::ErrorKind::BrokenPipe.into())),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.input = None;
        Poll::Ready(Ok(()))
    }
}

impl Stream {
    /// A connection without TLS.
    pub fn plain(socket: Socket) -> Self {
        Self { io: RefCell::new(Io::Plain(socket)) }
    }

    /// A TLS connection of a client, or to a server.
    pub fn tls(io: impl Into<TlsStream<Socket>>) -> Self {
        Self { io: RefCell::new(Io::Tls(Box::new(io.into()))) }
    }

    /// Standard input and output of a process.
    pub fn pipes(input: Sender, output: Receiver) -> Self {
        Self { io: RefCell::new(Io::Pipes(Box::new(Pipes { output, input: Some(input) }))) }
    }

    /// Whether the connection is encrypted.
    pub fn is_tls(&self) -> bool {
        matches!(&*self.io.borrow(), Io::Tls(_))
    }

    /// Address of the peer, over TCP.
    pub fn peer(&self) -> Option<std::net::SocketAddr> {
        self.io.borrow().socket()?.peer()
    }

    /// The protocol negotiated over TLS (RFC 7301).
    pub fn protocol(&self) -> Option<Vec<u8>> {
        match &*self.io.borrow() {
            Io::Tls(tls) => tls.get_ref().1.alpn_protocol().map(<[u8]>::to_vec),
            Io::Plain(_) | Io::Pipes(_) => None,
        }
    }

    /// Resets the connection on drop, instead of closing it in order.
    pub fn reset_on_drop(&self) {
        if let Some(socket) = self.io.borrow().socket() {
            socket.reset_on_drop();
        }
    }

    /// Reads into `room`; 0 is the end.
    pub fn poll_read(&self, cx: &mut Context<'_>, room: &mut [u8]) -> Poll<io::Result<usize>> {
        let mut room = ReadBuf::new(room);
        match with_io!(self, io => io.poll_read(cx, &mut room)) {
            Poll::Ready(Ok(())) => Poll::Ready(Ok(room.filled().len())),
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Pending => Poll::Pending,
        }
    }

    /// Waits for bytes or the end, without reading.
    pub fn poll_peer_event(&self, cx: &mut Context<'_>) -> Poll<PeerEvent> {
        let io = self.io.borrow();
        // Clients have no other connections.
        let Some(socket) = io.socket() else { return Poll::Pending };
        Poll::Ready(match ready!(socket.poll_peer_event(cx)) {
            // The orderly end of a TLS connection is an alert, which is data.
            PeerEvent::Data if matches!(*io, Io::Tls(_)) && socket.has_ended() => PeerEvent::End,
            event => event,
        })
    }

    /// Writes bytes of `first` and `second`, in this order and in one call if possible.
    pub fn poll_write(
        &self,
        cx: &mut Context<'_>,
        first: &[u8],
        second: &[u8],
    ) -> Poll<io::Result<usize>> {
        if second.is_empty() {
            return with_io!(self, io => io.poll_write(cx, first));
        }
        if first.is_empty() {
            return with_io!(self, io => io.poll_write(cx, second));
        }
        let both = [IoSlice::new(first), IoSlice::new(second)];
        with_io!(self, io => io.poll_write_vectored(cx, &both))
    }

    /// Prepares for [`Stream::is_quiet`]: from now on an event of the peer is noticed.
    pub fn watch_while_idle(&self) {
        if let Some(socket) = self.io.borrow().socket() {
            socket.watch();
        }
    }

    /// Whether the peer has neither closed the connection nor sent bytes. No system call unless
    /// there was an event.
    pub fn is_quiet(&self) -> bool {
        let mut byte = [0];
        self.poll_read(&mut Context::from_waker(Waker::noop()), &mut byte).is_pending()
    }

    /// Flushes written bytes, which TLS buffers; a plain connection does not.
    pub fn poll_flush(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        with_io!(self, io => io.poll_flush(cx))
    }

    /// Ends the writing side.
    pub fn poll_shutdown(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        with_io!(self, io => io.poll_shutdown(cx))
    }
}

/// A stream with prepended bytes that were read already, for libraries that read themselves.
pub struct PrefixedStream {
    front: crate::buffer::Buffer,
    stream: Stream,
}

impl PrefixedStream {
    /// Prepends the bytes of `front` to `stream`.
    pub fn new(front: crate::buffer::Buffer, stream: Stream) -> Self {
        Self { front, stream }
    }
}

impl AsyncRead for PrefixedStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        room: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.front.is_empty() {
            return with_io!(self.stream, io => io.poll_read(cx, room));
        }
        let take = self.front.len().min(room.remaining());
        room.put_slice(&self.front.filled()[..take]);
        self.front.consume(take);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for PrefixedStream {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.stream.poll_write(cx, bytes, b"")
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream.poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream.poll_shutdown(cx)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        with_io!(self.stream, io => io.poll_write_vectored(cx, bytes))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }
}
