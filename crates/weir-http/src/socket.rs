//! A connected socket: on the ring of its thread if there is one, otherwise watched by its runtime.

use rustix::event::{PollFd, PollFlags};
use rustix::net::SocketAddrAny;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use weir_ring::Readable;

/// A connected socket.
#[derive(Debug)]
pub struct Socket {
    io: Io,
}

#[derive(Debug)]
enum Io {
    Ring(weir_ring::Socket),
    Tcp(TcpStream),
    Unix(UnixStream),
}

/// An event of the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeerEvent {
    /// The peer has sent bytes.
    Data,
    /// The peer has closed its direction.
    End,
    /// The peer has reset the connection.
    Reset,
}

macro_rules! with_io {
    ($self:expr, $io:ident => $call:expr) => {
        match &mut $self.get_mut().io {
            Io::Ring(io) => {
                let $io = Pin::new(io);
                $call
            }
            Io::Tcp(io) => {
                let $io = Pin::new(io);
                $call
            }
            Io::Unix(io) => {
                let $io = Pin::new(io);
                $call
            }
        }
    };
}

impl Socket {
    /// A TCP connection.
    ///
    /// # Errors
    ///
    /// The runtime does not let go of the socket.
    pub fn tcp(tcp: TcpStream) -> io::Result<Self> {
        let io = match weir_ring::is_started() {
            true => Io::Ring(weir_ring::adopt(tcp.into_std()?.into())?),
            false => Io::Tcp(tcp),
        };
        Ok(Self { io })
    }

    /// A connection over a Unix domain socket.
    ///
    /// # Errors
    ///
    /// As of [`Socket::tcp`].
    pub fn unix(unix: UnixStream) -> io::Result<Self> {
        let io = match weir_ring::is_started() {
            true => Io::Ring(weir_ring::adopt(unix.into_std()?.into())?),
            false => Io::Unix(unix),
        };
        Ok(Self { io })
    }

    /// Address of the peer, over TCP.
    pub(crate) fn peer(&self) -> Option<SocketAddr> {
        let address: SocketAddrAny = rustix::net::getpeername(self).ok()??;
        SocketAddr::try_from(address).ok()
    }

    /// Resets the connection on drop, instead of closing it in order.
    pub(crate) fn reset_on_drop(&self) {
        match &self.io {
            Io::Ring(ring) => ring.reset_on_drop(),
            // Fails if the connection is closed already.
            Io::Tcp(tcp) => drop(tcp.set_zero_linger()),
            Io::Unix(_) => {}
        }
    }

    /// Whether the peer has closed its direction, even if bytes are unread.
    pub(crate) fn has_ended(&self) -> bool {
        let mut sockets = [PollFd::new(self, PollFlags::RDHUP)];
        let now = rustix::event::Timespec::default();
        let polled = rustix::event::poll(&mut sockets, Some(&now));
        polled.is_ok_and(|count| count > 0)
    }

    /// Notices from now on what the peer does; without a ring the runtime does so.
    pub(crate) fn watch(&self) {
        if let Io::Ring(ring) = &self.io {
            ring.watch();
        }
    }

    /// Waits for bytes or the end, without reading; of a TCP connection.
    pub(crate) fn poll_peer_event(&self, cx: &mut Context<'_>) -> Poll<PeerEvent> {
        Poll::Ready(match &self.io {
            Io::Ring(ring) => match ready!(ring.poll_readable(cx)) {
                Readable::Data => PeerEvent::Data,
                Readable::End => PeerEvent::End,
                Readable::Failed => PeerEvent::Reset,
            },
            Io::Tcp(tcp) => match ready!(tcp.poll_peek(cx, &mut ReadBuf::new(&mut [0]))) {
                Ok(0) => PeerEvent::End,
                Ok(_) => PeerEvent::Data,
                Err(_) => PeerEvent::Reset,
            },
            Io::Unix(_) => return Poll::Pending,
        })
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.io {
            Io::Ring(io) => io.as_fd(),
            Io::Tcp(io) => io.as_fd(),
            Io::Unix(io) => io.as_fd(),
        }
    }
}

impl AsyncRead for Socket {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        room: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        with_io!(self, io => io.poll_read(cx, room))
    }
}

impl AsyncWrite for Socket {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        with_io!(self, io => io.poll_write(cx, bytes))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        with_io!(self, io => io.poll_write_vectored(cx, bytes))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        with_io!(self, io => io.poll_flush(cx))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        with_io!(self, io => io.poll_shutdown(cx))
    }
}
