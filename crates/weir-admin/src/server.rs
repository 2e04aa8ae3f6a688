//! The socket: bounded connections, bounded waiting.

use crate::live::Live;
use crate::pages::{self, Arrived, Sources};
use axum::{Extension, Router};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use weir_config::Admin;

/// Connections open at once; more are closed at once.
const CONNECTIONS: usize = 256;
/// Time for a request head to arrive, from the start of a connection or the last answer on.
const HEAD: Duration = Duration::from_secs(10);
/// Longest life of a connection, so that a client that does not read cannot hold one for ever.
const LIFE: Duration = Duration::from_secs(10 * 60);
/// Bytes of a request head.
const HEAD_BYTES: usize = 16 * 1024;

/// Why there is no admin listener.
#[derive(Debug, thiserror::Error)]
pub enum AdminError {
    /// The address cannot be bound.
    #[error("cannot listen on {addr} (admin): {error}")]
    Bind {
        /// The address.
        addr: SocketAddr,
        /// What the system says.
        error: std::io::Error,
    },
}

/// A socket that is bound and not served yet.
#[derive(Debug)]
pub struct Bound {
    listener: std::net::TcpListener,
    addr: SocketAddr,
    hosts: Vec<String>,
}

/// Binds the admin listener.
///
/// # Errors
/// The address cannot be bound; the text names it.
pub fn bind(admin: &Admin) -> Result<Bound, AdminError> {
    let bound = std::net::TcpListener::bind(admin.addr).and_then(|listener| {
        listener.set_nonblocking(true)?;
        let addr = listener.local_addr()?;
        Ok(Bound { listener, addr, hosts: admin.hosts.clone() })
    });
    bound.map_err(|error| AdminError::Bind { addr: admin.addr, error })
}

impl Bound {
    /// Where it listens.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Serves for as long as it is polled, on the current tokio runtime.
    pub async fn serve(self, sources: Sources) {
        let Ok(listener) = TcpListener::from_std(self.listener) else { return };
        let sources = Arc::new(sources);
        let live = Arc::new(Live::new(Arc::clone(&sources)));
        tokio::spawn(Arc::clone(&live).run());
        let router = pages::router(sources, live, self.hosts, self.addr.port());
        let open = Arc::new(Semaphore::new(CONNECTIONS));
        loop {
            let Ok((stream, _)) = listener.accept().await else {
                // Out of descriptors, most likely: give connections time to end.
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            };
            if let Ok(permit) = Arc::clone(&open).try_acquire_owned() {
                tokio::spawn(connection(stream, router.clone(), permit));
            }
        }
    }
}

async fn connection(stream: TcpStream, router: Router, permit: OwnedSemaphorePermit) {
    let local = stream.local_addr().map_or(crate::host::NOWHERE, |addr| addr.ip());
    let router = router.layer(Extension(Arrived(local)));
    let service = TowerToHyperService::new(router.into_service::<Incoming>());
    let serving = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD)
        .max_buf_size(HEAD_BYTES)
        .serve_connection(TokioIo::new(stream), service);
    // How a connection ends is its client's business.
    let _ = tokio::time::timeout(LIFE, serving).await;
    drop(permit);
}

#[cfg(test)]
mod tests;
