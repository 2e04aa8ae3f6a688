//! Connections of a user.

use super::event_loop::Loop;
use super::fault::Fault;
use super::http1::Http1;
use super::http2::Http2;
use crate::program::Origin;
use crate::sample::ErrorKind;
use rustls_pki_types::ServerName;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

/// Most origins one user keeps a connection to; the oldest is closed for another one.
const KEPT: usize = 16;

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
    /// Where the connection to an origin is, if there is one. After time has passed (`rested`) it
    /// is looked whether the server has closed it meanwhile, and then there is none.
    pub(super) fn find(
        &mut self,
        origin: &Arc<Origin>,
        http2: bool,
        rested: bool,
    ) -> Option<usize> {
        let same = |(known, kind, _): &(Arc<Origin>, bool, Connection)| {
            *kind == http2 && (Arc::ptr_eq(known, origin) || known == origin)
        };
        let at = self.open.iter().position(same)?;
        if !rested || self.open[at].2.is_open() {
            return Some(at);
        }
        self.open.swap_remove(at);
        None
    }

    /// Keeps a connection; gives where it is.
    pub(super) fn put(
        &mut self,
        origin: Arc<Origin>,
        http2: bool,
        connection: Connection,
    ) -> usize {
        if self.open.len() >= KEPT {
            self.open.remove(0);
        }
        self.open.push((origin, http2, connection));
        self.open.len() - 1
    }

    /// The connection that [`Self::find`] or [`Self::put`] gave.
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
    /// Whether the server has left it open, as far as is known without asking the kernel.
    fn is_open(&mut self) -> bool {
        match self {
            Self::Http1(connection) => connection.is_open(),
            Self::Http2(connection) => connection.is_open(),
        }
    }

    /// Opens one.
    pub(super) async fn open(
        events: &Loop,
        origin: &Origin,
        http2: bool,
        limit: Duration,
    ) -> Result<Self, Fault> {
        let late = || Fault::new(ErrorKind::ConnectTimeout, format!("no connection in {limit:?}"));
        tokio::time::timeout(limit, Self::connect(events, origin, http2))
            .await
            .unwrap_or_else(|_| Err(late()))
    }

    async fn connect(events: &Loop, origin: &Origin, http2: bool) -> Result<Self, Fault> {
        let unknown = |why: &str| {
            Fault::new(ErrorKind::Resolve, format!("{} is not known: {why}", origin.host))
        };
        let addresses = events.resolve(origin).await.map_err(|e| unknown(&e.to_string()))?;
        let mut last = unknown("it has no address");
        for address in addresses.iter() {
            match TcpStream::connect(address).await {
                Ok(stream) => {
                    stream.set_nodelay(true).map_err(|error| Fault::of_connect(&error))?;
                    return Self::over(events, origin, http2, stream).await;
                }
                Err(error) => last = Fault::of_connect(&error),
            }
        }
        Err(last)
    }

    async fn over(
        events: &Loop,
        origin: &Origin,
        http2: bool,
        stream: TcpStream,
    ) -> Result<Self, Fault> {
        let stream = if origin.tls {
            let name = ServerName::try_from(origin.host.clone())
                .map_err(|_| Fault::new(ErrorKind::Tls, "the host is no name TLS can ask for"))?;
            let connector = events.common.tls.connector(http2);
            let connector = connector.map_err(|e| Fault::new(ErrorKind::Tls, e.to_string()))?;
            let stream = connector.connect(name, stream).await.map_err(|error| {
                let fault = Fault::of_connect(&error);
                // Closed in the middle of a handshake: it is TLS that failed.
                match fault.kind {
                    ErrorKind::Closed => Fault { kind: ErrorKind::Tls, ..fault },
                    _ => fault,
                }
            })?;
            if http2 && stream.get_ref().1.alpn_protocol() != Some(b"h2") {
                return Err(Fault::new(ErrorKind::Protocol, "the server does not speak HTTP/2"));
            }
            Stream::Tls(Box::new(stream))
        } else {
            Stream::Plain(stream)
        };
        Ok(if http2 {
            Self::Http2(Box::new(Http2::start(stream).await?))
        } else {
            Self::Http1(Box::new(Http1::new(stream)))
        })
    }
}

/// A connection's bytes.
pub(super) enum Stream {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

impl Stream {
    /// Reads into `buffer` as [`AsyncRead::poll_read`] does; gives the number of bytes.
    #[inline]
    pub(super) fn poll_bytes(
        &mut self,
        cx: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        let mut buffer = ReadBuf::new(buffer);
        match Pin::new(self).poll_read(cx, &mut buffer) {
            Poll::Ready(Ok(())) => Poll::Ready(Ok(buffer.filled().len())),
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl AsyncRead for Stream {
    #[inline]
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_read(cx, buffer),
            Self::Tls(stream) => Pin::new(stream).poll_read(cx, buffer),
        }
    }
}

impl AsyncWrite for Stream {
    #[inline]
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_write(cx, bytes),
            Self::Tls(stream) => Pin::new(stream).poll_write(cx, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_flush(cx),
            Self::Tls(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_shutdown(cx),
            Self::Tls(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}
