//! A connection's bytes, plain or TLS, polled through a shared reference.
//!
//! The request body is read and the answer is written by the same task at the same time; a
//! `RefCell` borrowed for the length of one poll is all the sharing that takes on one thread.

use rustix::event::{PollFd, PollFlags};
use std::cell::RefCell;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, Waker, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::unix::pipe::{Receiver, Sender};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::{client, server};

/// One connection.
#[derive(Debug)]
pub struct Stream {
    io: RefCell<Io>,
}

#[derive(Debug)]
enum Io {
    Tcp(TcpStream),
    Server(Box<server::TlsStream<TcpStream>>),
    Client(Box<client::TlsStream<TcpStream>>),
    Unix(UnixStream),
    Pipes(Box<Pipes>),
}

/// Standard input and output of a process.
#[derive(Debug)]
struct Pipes {
    output: Receiver,
    /// Gone once it is closed.
    input: Option<Sender>,
}

/// What the other side has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeerEvent {
    /// It has sent something.
    Data,
    /// It sends no more.
    End,
    /// It has broken the connection.
    Reset,
}

/// Whether the end of what the other side sends has come, read or not.
fn has_ended(tcp: &TcpStream) -> bool {
    let mut asked = [PollFd::new(tcp, PollFlags::RDHUP)];
    let now = rustix::event::Timespec::default();
    let answered = rustix::event::poll(&mut asked, Some(&now));
    answered.is_ok_and(|count| count > 0)
}

macro_rules! with_io {
    ($self:expr, $io:ident => $call:expr) => {
        match &mut *$self.io.borrow_mut() {
            Io::Tcp(io) => {
                let $io = Pin::new(io);
                $call
            }
            Io::Server(io) => {
                let $io = Pin::new(&mut **io);
                $call
            }
            Io::Client(io) => {
                let $io = Pin::new(&mut **io);
                $call
            }
            Io::Unix(io) => {
                let $io = Pin::new(io);
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
    /// A plain TCP connection.
    pub fn tcp(io: TcpStream) -> Self {
        Self { io: RefCell::new(Io::Tcp(io)) }
    }

    /// A TLS connection of a client.
    pub fn server_tls(io: server::TlsStream<TcpStream>) -> Self {
        Self { io: RefCell::new(Io::Server(Box::new(io))) }
    }

    /// A TLS connection to a server.
    pub fn client_tls(io: client::TlsStream<TcpStream>) -> Self {
        Self { io: RefCell::new(Io::Client(Box::new(io))) }
    }

    /// A connection over a Unix domain socket.
    pub fn unix(io: UnixStream) -> Self {
        Self { io: RefCell::new(Io::Unix(io)) }
    }

    /// What a process reads, and what it writes.
    pub fn pipes(input: Sender, output: Receiver) -> Self {
        Self { io: RefCell::new(Io::Pipes(Box::new(Pipes { output, input: Some(input) }))) }
    }

    /// Whether the connection is encrypted.
    pub fn is_tls(&self) -> bool {
        matches!(&*self.io.borrow(), Io::Server(_) | Io::Client(_))
    }

    /// Where it leads to, over TCP.
    pub fn peer(&self) -> Option<std::net::SocketAddr> {
        match &*self.io.borrow() {
            Io::Tcp(tcp) => tcp.peer_addr().ok(),
            Io::Server(tls) => tls.get_ref().0.peer_addr().ok(),
            Io::Client(tls) => tls.get_ref().0.peer_addr().ok(),
            Io::Unix(_) | Io::Pipes(_) => None,
        }
    }

    /// The protocol that was agreed on with a server over TLS (RFC 7301).
    pub fn protocol(&self) -> Option<Vec<u8>> {
        match &*self.io.borrow() {
            Io::Client(tls) => tls.get_ref().1.alpn_protocol().map(<[u8]>::to_vec),
            Io::Tcp(_) | Io::Server(_) | Io::Unix(_) | Io::Pipes(_) => None,
        }
    }

    /// Lets the other side see a reset when this is dropped, not an orderly end.
    pub fn reset_on_drop(&self) {
        let set = match &*self.io.borrow() {
            Io::Tcp(tcp) => tcp.set_zero_linger(),
            Io::Server(tls) => tls.get_ref().0.set_zero_linger(),
            Io::Client(tls) => tls.get_ref().0.set_zero_linger(),
            Io::Unix(_) | Io::Pipes(_) => Ok(()),
        };
        // It fails on a connection that is gone already.
        let _ = set;
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

    /// Waits for anything to come, and leaves it where it is.
    pub fn poll_peer_event(&self, cx: &mut Context<'_>) -> Poll<PeerEvent> {
        let io = self.io.borrow();
        let (tcp, tls) = match &*io {
            Io::Tcp(tcp) => (tcp, false),
            Io::Server(tls) => (tls.get_ref().0, true),
            Io::Client(tls) => (tls.get_ref().0, true),
            // No client comes by these.
            Io::Unix(_) | Io::Pipes(_) => return Poll::Pending,
        };
        let mut byte = [0];
        let peeked = ready!(tcp.poll_peek(cx, &mut ReadBuf::new(&mut byte)));
        Poll::Ready(match peeked {
            Ok(0) => PeerEvent::End,
            // Whoever ends a TLS connection in order says so first.
            Ok(_) if tls && has_ended(tcp) => PeerEvent::End,
            Ok(_) => PeerEvent::Data,
            Err(_) => PeerEvent::Reset,
        })
    }

    /// Writes some of `first` and `second`, in this order and in one call where possible.
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

    /// Neither closed nor talking out of turn. Costs no system call unless something came.
    pub fn is_quiet(&self) -> bool {
        let mut byte = [0];
        self.poll_read(&mut Context::from_waker(Waker::noop()), &mut byte).is_pending()
    }

    /// TLS keeps written bytes back until they are flushed; a plain connection does not.
    pub fn poll_flush(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        with_io!(self, io => io.poll_flush(cx))
    }

    /// Ends the writing side.
    pub fn poll_shutdown(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        with_io!(self, io => io.poll_shutdown(cx))
    }
}

/// A stream with bytes in front that were read from it already, for libraries that do their own
/// reading.
pub struct PrefixedStream {
    front: crate::buffer::Buffer,
    stream: Stream,
}

impl PrefixedStream {
    /// `stream`, with the bytes of `front` before it.
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
