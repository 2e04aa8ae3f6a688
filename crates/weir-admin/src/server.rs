//! The socket, with limits of connections and times.

mod tls;

use crate::api::Origin;
use crate::host::Arrived;
use crate::live::Live;
use crate::pages;
use crate::sources::Sources;
use axum::{Extension, Router};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tls::AdminTls;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use weir_broker::Log;
use weir_config::Config;
use weir_net::handshake::Failures;
use weir_net::passed::{Passed, PassedSockets};
use weir_net::tls::{Certificates, TlsError};

/// Maximum number of connections; further ones are closed immediately.
const MAX_CONNECTIONS: usize = 256;
/// Timeout of a TLS handshake and of a request head, from the start of the connection or the last
/// response.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);
/// Longest life of a connection, so that a client that does not read cannot hold it forever.
const MAX_CONNECTION_AGE: Duration = Duration::from_secs(10 * 60);
/// Interval of reporting failed handshakes.
const REPORT_INTERVAL: Duration = Duration::from_secs(1);
/// Largest request head in bytes.
const MAX_HEAD_BYTES: usize = 16 * 1024;

/// Why the admin listener cannot be started.
#[derive(Debug, thiserror::Error)]
pub enum AdminError {
    /// The address cannot be bound.
    #[error("cannot listen on {addr} (admin): {error}")]
    Bind {
        /// The address.
        addr: SocketAddr,
        /// Error of the system.
        error: std::io::Error,
    },
    /// TLS cannot be set up.
    #[error("TLS of the admin listener cannot be set up: {0}")]
    Tls(#[from] TlsError),
}

/// A socket that is bound, but not served yet.
#[derive(Debug)]
pub struct Bound {
    listener: std::net::TcpListener,
    configured: SocketAddr,
    addr: SocketAddr,
    /// The service manager has the socket, too.
    permanent: bool,
    hosts: Vec<String>,
    tls: Option<AdminTls>,
}

/// Binds the admin listener, unless its socket was `passed`. A self-signed certificate is in the data
/// folder.
///
/// # Errors
/// The address cannot be bound, or the certificate cannot be used; the text names which.
pub fn bind(
    config: &Config,
    certificates: &Certificates,
    passed: &mut Passed,
) -> Result<Bound, AdminError> {
    let admin = &config.admin;
    let tls = AdminTls::new(config, certificates)?;
    let passed = passed.claim(admin.addr, true);
    let permanent = passed.as_ref().is_some_and(|passed| passed.permanent);
    let socket = match passed.and_then(|mut passed| passed.sockets.pop()) {
        Some(socket) => Ok(socket),
        None => std::net::TcpListener::bind(admin.addr),
    };
    let bound = socket.and_then(|listener| {
        listener.set_nonblocking(true)?;
        let (configured, addr) = (admin.addr, listener.local_addr()?);
        Ok(Bound { listener, configured, addr, permanent, hosts: hosts(config), tls })
    });
    bound.map_err(|error| AdminError::Bind { addr: admin.addr, error })
}

/// The accepted host names: those of the configuration, and that at which other nodes reach the
/// listener.
fn hosts(config: &Config) -> Vec<String> {
    let peers = config.fleet.as_ref().and_then(|fleet| fleet.peers.as_ref());
    let advertised = peers.map(|peers| peers.advertise.host.clone());
    config.admin.hosts.iter().cloned().chain(advertised).collect()
}

impl Bound {
    /// The bound address.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Whether the listener uses TLS.
    pub fn is_tls(&self) -> bool {
        self.tls.is_some()
    }

    /// A duplicate of the socket, for another process that takes it over.
    ///
    /// # Errors
    /// No descriptor is free.
    pub fn duplicate(&self) -> std::io::Result<PassedSockets> {
        let Self { configured, addr, permanent, .. } = *self;
        let sockets = vec![self.listener.try_clone()?];
        Ok(PassedSockets { configured, addr, admin: true, sockets, permanent })
    }

    /// Serves while it is polled, on the current tokio runtime; connections end with their current
    /// response once `closing` is set. Certificates are those of the configuration in force. `log`
    /// gets an occasional line about failed TLS handshakes; it must not block.
    pub async fn serve(mut self, sources: Sources, log: Log, closing: watch::Receiver<bool>) {
        let Ok(listener) = TcpListener::from_std(self.listener) else { return };
        let sources = Arc::new(sources);
        let live = Arc::new(Live::new(Arc::clone(&sources)));
        tokio::spawn(Arc::clone(&live).run());
        let origin = Origin { port: self.addr.port(), tls: self.tls.is_some() };
        let router = pages::router(Arc::clone(&sources), live, self.hosts, origin);
        let open = Arc::new(Semaphore::new(MAX_CONNECTIONS));
        let failures = Arc::new(Failures::default());
        if self.tls.is_some() {
            tokio::spawn(report(Arc::clone(&failures), self.addr, log));
        }
        loop {
            let Ok((stream, peer)) = listener.accept().await else {
                // Probably out of file descriptors: gives connections time to end.
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            };
            let Ok(permit) = Arc::clone(&open).try_acquire_owned() else { continue };
            let local = stream.local_addr().map_or(crate::host::NOWHERE, |addr| addr.ip());
            let arrived = Arrived { local, peer: peer.ip().to_canonical() };
            let router = router.clone().layer(Extension(arrived));
            let closing = closing.clone();
            match self.tls.as_mut().map(|tls| tls.acceptor(sources.gateway.site())) {
                None => drop(tokio::spawn(connection(stream, router, permit, closing))),
                Some(acceptor) => {
                    let failures = Arc::clone(&failures);
                    drop(tokio::spawn(async move {
                        match tokio::time::timeout(HEAD_TIMEOUT, acceptor.accept(stream)).await {
                            Ok(Ok((stream, certificate))) => {
                                let router = router.layer(Extension(certificate));
                                connection(stream, router, permit, closing).await;
                            }
                            Ok(Err(error)) => failures.add(0, peer, &error),
                            Err(_) => failures.add_timeout(0, peer, HEAD_TIMEOUT),
                        }
                    }));
                }
            }
        }
    }
}

/// Reports failed TLS handshakes.
async fn report(failures: Arc<Failures>, addr: SocketAddr, log: Log) {
    loop {
        tokio::time::sleep(REPORT_INTERVAL).await;
        let line = failures.due("admin", |_| Some(addr), Instant::now());
        line.into_iter().for_each(|line| log(line));
    }
}

async fn connection(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    router: Router,
    permit: OwnedSemaphorePermit,
    mut closing: watch::Receiver<bool>,
) {
    let service = TowerToHyperService::new(router.into_service::<Incoming>());
    let serving = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(MAX_HEAD_BYTES)
        .serve_connection(TokioIo::new(stream), service);
    let mut serving = pin!(serving);
    let until_end = async {
        tokio::select! {
            _ = serving.as_mut() => return,
            closing = closing.wait_for(|closing| *closing) => {
                if closing.is_ok() {
                    serving.as_mut().graceful_shutdown();
                }
            }
        }
        // Errors at the end of a connection concern the client only.
        let _ = serving.await;
    };
    let _ = tokio::time::timeout(MAX_CONNECTION_AGE, until_end).await;
    drop(permit);
}

#[cfg(test)]
mod tests;
