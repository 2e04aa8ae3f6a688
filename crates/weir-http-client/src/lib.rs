//! HTTP/1.1 client for requests outside the data path: events, telemetry, the admin API, metrics
//! pages.
//!
//! A [`Connection`] sends one request after the other. There is no pool, and no redirect is followed.
//! Timeouts and limits of bodies belong to the caller: dropping a future closes its connection.

use bytes::Bytes;
use http::{HeaderMap, Request, Response, header};
use http_body_util::Full;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use rustls_pki_types::ServerName;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, ToSocketAddrs, UnixStream};
use tokio_rustls::TlsConnector;

pub use hyper::Error;
pub use hyper::body::Incoming;

/// TLS settings of a connection.
#[derive(Clone, Debug)]
pub struct Tls {
    /// Trusted certificates, client certificate, versions and protocols.
    pub config: Arc<ClientConfig>,
    /// Name in the certificate of the server.
    pub name: ServerName<'static>,
}

/// Why a connection cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// Name resolution, TCP or the Unix domain socket.
    #[error(transparent)]
    Tcp(io::Error),
    /// The TLS handshake.
    #[error(transparent)]
    Tls(io::Error),
    /// HTTP.
    #[error(transparent)]
    Http(#[from] hyper::Error),
}

/// `Retry-After` of a response, if it is a number of seconds (RFC 9110, 10.2.3).
#[must_use]
pub fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let seconds = headers.get(header::RETRY_AFTER)?.to_str().ok()?.trim().parse().ok()?;
    Some(Duration::from_secs(seconds))
}

/// A connection to a server.
#[derive(Debug)]
pub struct Connection(SendRequest<Full<Bytes>>);

impl Connection {
    /// Connects to the first reachable address, in the Tokio runtime of the caller.
    ///
    /// # Errors
    /// See [`ConnectError`].
    pub async fn open(address: impl ToSocketAddrs, tls: Option<Tls>) -> Result<Self, ConnectError> {
        let stream = TcpStream::connect(address).await.map_err(ConnectError::Tcp)?;
        stream.set_nodelay(true).map_err(ConnectError::Tcp)?;
        let Some(Tls { config, name }) = tls else { return Self::start(stream).await };
        let stream = TlsConnector::from(config).connect(name, stream).await;
        Self::start(stream.map_err(ConnectError::Tls)?).await
    }

    /// Connects to a Unix domain socket.
    ///
    /// # Errors
    /// See [`ConnectError`].
    pub async fn open_unix(path: &Path) -> Result<Self, ConnectError> {
        Self::start(UnixStream::connect(path).await.map_err(ConnectError::Tcp)?).await
    }

    async fn start<S>(stream: S) -> Result<Self, ConnectError>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let (sender, connection) = handshake(TokioIo::new(stream)).await?;
        // The task ends with the sender.
        tokio::spawn(connection);
        Ok(Self(sender))
    }

    /// Waits until the previous response is complete. Returns whether another request can be sent.
    pub async fn is_reusable(&mut self) -> bool {
        self.0.ready().await.is_ok()
    }

    /// Sends a request with its `Host` header. Returns the head of the response.
    ///
    /// # Errors
    /// The connection failed, or the response is not HTTP/1.
    pub async fn send(
        &mut self,
        request: Request<Full<Bytes>>,
    ) -> hyper::Result<Response<Incoming>> {
        self.0.send_request(request).await
    }
}
