//! Connections of a user.

use super::event_loop::Loop;
use super::http1::Http1;
use super::http2::Http2;
use super::request_error::RequestError;
use super::tls::Handshake;
use crate::program::{ClientOptions, Origin, Timeouts};
use crate::sample::ErrorKind;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt, ReadBuf};
use tokio::net::{TcpSocket, TcpStream};
use tokio_rustls::client::TlsStream;
use tokio_util::either::Either;

/// Largest number of open connections of a user, one per origin. The oldest one is closed for a new
/// one.
const MAX_CONNECTIONS: usize = 16;
/// Largest head of a proxy's answer.
const MAX_PROXY_HEAD_BYTES: usize = 16 * 1024;

/// An open connection.
pub(super) enum Connection {
    Http1(Box<Http1>),
    Http2(Box<Http2>),
}

/// A user's open connections, one for each origin.
#[derive(Default)]
pub(super) struct Connections {
    open: Vec<(Arc<Origin>, bool, Connection)>,
}

impl Connections {
    /// Index of the connection to an origin. After a pause (`paused`), a connection that the server
    /// closed meanwhile is removed and not returned.
    pub(super) fn find(
        &mut self,
        origin: &Arc<Origin>,
        http2: bool,
        paused: bool,
    ) -> Option<usize> {
        let same = |(known, kind, _): &(Arc<Origin>, bool, Connection)| {
            *kind == http2 && (Arc::ptr_eq(known, origin) || known == origin)
        };
        let at = self.open.iter().position(same)?;
        if !paused || self.open[at].2.is_open() {
            return Some(at);
        }
        self.open.swap_remove(at);
        None
    }

    /// Stores a connection and returns its index.
    pub(super) fn insert(
        &mut self,
        origin: Arc<Origin>,
        http2: bool,
        connection: Connection,
    ) -> usize {
        if self.open.len() >= MAX_CONNECTIONS {
            self.open.remove(0);
        }
        self.open.push((origin, http2, connection));
        self.open.len() - 1
    }

    /// The connection with an index of [`Self::find`] or [`Self::insert`].
    pub(super) fn at(&mut self, at: usize) -> &mut Connection {
        &mut self.open[at].2
    }

    /// Closes a connection.
    pub(super) fn close(&mut self, at: usize) {
        self.open.swap_remove(at);
    }

    /// Closes all of them.
    pub(super) fn clear(&mut self) {
        self.open.clear();
    }
}

impl Connection {
    /// Whether the connection is open, as far as known without a system call.
    fn is_open(&mut self) -> bool {
        match self {
            Self::Http1(connection) => connection.is_open(),
            Self::Http2(connection) => connection.is_open(),
        }
    }

    /// Opens a connection, of HTTP/2 or not, within a time.
    pub(super) async fn open(
        events: &Loop,
        origin: &Origin,
        client: &ClientOptions,
        (http2, timeouts): (bool, Timeouts),
        tls: Option<Handshake<'_>>,
    ) -> Result<Self, RequestError> {
        let connect = Self::connect(events, origin, client, (http2, timeouts.response), tls);
        within(timeouts.connect, "connection", connect).await
    }

    async fn connect(
        events: &Loop,
        origin: &Origin,
        client: &ClientOptions,
        (http2, handshake): (bool, Duration),
        tls: Option<Handshake<'_>>,
    ) -> Result<Self, RequestError> {
        let (host, port) = match &client.proxy {
            Some((host, port)) => (host.as_str(), *port),
            None => (origin.host.as_str(), origin.port),
        };
        let of_table = client.hosts.iter().find(|(name, _)| name.eq_ignore_ascii_case(host));
        let name = of_table.map_or(host, |(_, address)| address.as_str());
        let unknown = |why: &str| {
            RequestError::new(ErrorKind::Resolve, format!("{host} cannot be resolved: {why}"))
        };
        let addresses = events.resolve((name, port)).await.map_err(|e| unknown(&e.to_string()))?;
        let mut last = unknown("no address");
        for address in addresses.iter() {
            match connect_from(client.source, *address).await {
                Ok(mut stream) => {
                    stream.set_nodelay(true).map_err(|error| RequestError::from_connect(&error))?;
                    if client.proxy.is_some() && origin.tls {
                        within(handshake, "tunnel of the proxy", tunnel(&mut stream, origin))
                            .await?;
                    }
                    let started = Self::start(stream, tls, http2);
                    return within(handshake, "TLS handshake", started).await;
                }
                Err(error) => last = RequestError::from_connect(&error),
            }
        }
        Err(last)
    }

    /// The connection of a socket.
    pub(super) async fn start(
        stream: TcpStream,
        tls: Option<Handshake<'_>>,
        http2: bool,
    ) -> Result<Self, RequestError> {
        let stream = socket(stream).map_err(|error| RequestError::from_connect(&error))?;
        let stream = if let Some(tls) = tls {
            let stream = tls.perform(stream).await?;
            if http2 && stream.get_ref().1.alpn_protocol() != Some(b"h2") {
                return Err(RequestError::new(
                    ErrorKind::Protocol,
                    "the server does not support HTTP/2",
                ));
            }
            Either::Right(Box::new(stream))
        } else {
            Either::Left(stream)
        };
        Ok(if http2 {
            Self::Http2(Box::new(Http2::start(stream).await?))
        } else {
            Self::Http1(Box::new(Http1::new(stream)))
        })
    }
}

/// Runs a part of opening a connection for at most `limit`.
async fn within<T>(
    limit: Duration,
    what: &str,
    part: impl Future<Output = Result<T, RequestError>>,
) -> Result<T, RequestError> {
    tokio::time::timeout(limit, part).await.unwrap_or_else(|_| {
        let why = format!("no {what} within {limit:?}");
        Err(RequestError::new(ErrorKind::ConnectTimeout, why))
    })
}

/// Connects from a local address.
async fn connect_from(source: Option<IpAddr>, address: SocketAddr) -> io::Result<TcpStream> {
    let Some(source) = source else { return TcpStream::connect(address).await };
    let socket = if source.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    socket.bind(SocketAddr::new(source, 0))?;
    socket.connect(address).await
}

/// Asks an HTTP proxy for a tunnel.
async fn tunnel(stream: &mut TcpStream, origin: &Origin) -> Result<(), RequestError> {
    let authority = origin.host_and_port();
    let request = format!("CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n\r\n");
    let broken = |error: io::Error| RequestError::from_connect(&error);
    stream.write_all(request.as_bytes()).await.map_err(broken)?;
    let mut head = Vec::new();
    // Byte by byte, since what follows belongs to TLS.
    while !head.ends_with(b"\r\n\r\n") {
        if head.len() >= MAX_PROXY_HEAD_BYTES {
            return Err(RequestError::new(ErrorKind::Protocol, "the proxy's head is too large"));
        }
        head.push(stream.read_u8().await.map_err(broken)?);
    }
    match status_of(&head) {
        Some(200..300) => Ok(()),
        Some(status) => {
            let message = format!("the proxy rejected the tunnel with status {status}");
            Err(RequestError::new(ErrorKind::Protocol, message))
        }
        None => Err(RequestError::new(ErrorKind::Protocol, "the proxy's answer is not HTTP")),
    }
}

/// The status of a head, whose reason may be missing.
fn status_of(head: &[u8]) -> Option<u16> {
    let line = head.split(|&byte| byte == b'\n').next()?.trim_ascii_end();
    let mut parts = line.split(|&byte| byte == b' ');
    parts.next().filter(|version| version.starts_with(b"HTTP/1."))?;
    let status = std::str::from_utf8(parts.next()?).ok()?;
    status.parse().ok().filter(|_| status.len() == 3)
}

/// A connected socket: on the ring of the loop if there is one.
pub(super) type Socket = Either<weir_ring::Socket, TcpStream>;

/// A connection without TLS or with it.
pub(super) type Stream = Either<Socket, Box<TlsStream<Socket>>>;

fn socket(stream: TcpStream) -> io::Result<Socket> {
    Ok(match weir_ring::is_started() {
        true => Either::Left(weir_ring::adopt(stream.into_std()?.into())?),
        false => Either::Right(stream),
    })
}

/// Notices from now on what the server does, without a read.
pub(super) fn watch(stream: &Stream) {
    let socket = match stream {
        Either::Left(socket) => socket,
        Either::Right(tls) => tls.get_ref().0,
    };
    // Without a ring the runtime does so.
    if let Either::Left(socket) = socket {
        socket.watch();
    }
}

/// Reads into `buffer` like [`AsyncRead::poll_read`] and returns the number of bytes.
#[inline]
pub(super) fn poll_bytes(
    stream: &mut Stream,
    cx: &mut Context<'_>,
    buffer: &mut [u8],
) -> Poll<io::Result<usize>> {
    let mut buffer = ReadBuf::new(buffer);
    Pin::new(stream).poll_read(cx, &mut buffer).map_ok(|()| buffer.filled().len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_line_needs_no_reason() {
        assert_eq!(status_of(b"HTTP/1.1 200\r\n\r\n"), Some(200));
        assert_eq!(status_of(b"HTTP/1.0 204 No Content\r\na: b\r\n\r\n"), Some(204));
        for head in ["", "HTTP/1.1\r\n", "HTTP/1.1 x\r\n", "HTTP/1.1 20\r\n", "SSH-2 200 a\r\n"] {
            assert_eq!(status_of(head.as_bytes()), None, "{head:?}");
        }
    }
}
