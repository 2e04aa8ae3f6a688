//! A connection, from accept to its protocol.

mod disconnect_watch;
mod http1;
mod http2;

use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use weir_auth::certificate::Certificate;
use weir_gateway::worker::Worker;
use weir_http::buffer::Buffer;
use weir_http::problem::Problem;
use weir_http::rejection::Rejection;
use weir_http::socket::Socket;
use weir_http::stream::Stream;
use weir_net::descriptors::RESERVE_LIFETIME;
use weir_net::proxy_protocol::{self, Parsed};

/// Counts an open connection, until dropped.
struct Open(&'static Worker);

impl Open {
    /// Counts a connection, unless the limit is reached.
    fn new(worker: &'static Worker, limit: usize) -> Option<Self> {
        let before = worker.shared.connections.fetch_add(1, Relaxed);
        worker.stats.connections.add(1);
        let open = Self(worker);
        (before < limit).then_some(open)
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.shared.connections.fetch_sub(1, Relaxed);
        self.0.stats.connections.sub(1);
    }
}

/// Serves an accepted connection in a separate task.
pub(crate) fn start(worker: &'static Worker, listener: usize, tcp: TcpStream, peer: SocketAddr) {
    let limit = worker.live().site.config.limits.connections;
    let Some(open) = Open::new(worker, limit) else {
        worker.stats.refused_connections.add(1);
        return;
    };
    worker.stats.accepted.add(1);
    let reserve = worker.shared.descriptors.is_reserve(&tcp);
    tokio::task::spawn_local(async move {
        let _open = open;
        let served = serve(worker, listener, tcp, peer, reserve);
        if reserve {
            let _ = timeout(RESERVE_LIFETIME, Box::pin(served)).await;
        } else {
            served.await;
        }
    });
}

async fn serve(
    worker: &'static Worker,
    listener: usize,
    tcp: TcpStream,
    peer: SocketAddr,
    reserve: bool,
) {
    // A failure means that the connection is broken; the first read reports it.
    let _ = tcp.set_nodelay(true);
    let live = worker.live();
    let settings = &live.site.config.listen[listener];
    let limit = live.site.config.limits.header_time;
    let peer = if let Some(senders) = &settings.proxy_protocol {
        let sender = peer.ip().to_canonical();
        if !senders.iter().any(|network| network.contains(&sender)) {
            worker.stats.proxy_protocol_failures.add(1);
            return;
        }
        match Box::pin(timeout(limit, read_proxy_header(&tcp))).await {
            Ok(Ok(source)) => source.unwrap_or(peer),
            Ok(Err(_)) | Err(_) => {
                worker.stats.proxy_protocol_failures.add(1);
                return;
            }
        }
    } else {
        peer
    };
    let mut start = Start { worker, listener, peer, certificate: None, reserve };
    // Fails only if the runtime is at its end.
    let Ok(socket) = Socket::tcp(tcp) else { return };
    let Some(tls) = live.site.tls[listener].as_ref().map(|tls| Arc::clone(tls.config())) else {
        drop(live);
        return http1::serve(start, Stream::plain(socket)).await;
    };
    drop(live);
    // Boxed: a handshake needs much more memory than the connection afterwards.
    let handshake = Box::pin(timeout(limit, TlsAcceptor::from(tls).accept(socket)));
    let tls = match handshake.await {
        Ok(Ok(tls)) => tls,
        Ok(Err(error)) => {
            worker.stats.handshake_failures.add(1);
            return worker.handshakes.add(listener, peer, &error);
        }
        Err(_) => {
            worker.stats.handshake_failures.add(1);
            return worker.handshakes.add_timeout(listener, peer, limit);
        }
    };
    let certificates = tls.get_ref().1.peer_certificates().and_then(<[_]>::first);
    start.certificate = certificates.and_then(|der| Certificate::read(der)).map(Rc::new);
    let is_http2 = tls.get_ref().1.alpn_protocol() == Some(b"h2");
    let stream = Stream::tls(tls);
    if is_http2 {
        http2::serve(start, Buffer::default(), stream).await;
    } else {
        http1::serve(start, stream).await;
    }
}

/// Properties of a connection that its protocol needs.
#[derive(Clone)]
struct Start {
    worker: &'static Worker,
    listener: usize,
    peer: SocketAddr,
    /// The verified certificate of the client.
    certificate: Option<Rc<Certificate>>,
    /// Its descriptor is one of the last: requests are rejected, and the connection is closed.
    reserve: bool,
}

/// The rejection of requests on a connection in the reserve.
fn exhausted() -> Rejection {
    Rejection::new(Problem::DescriptorsExhausted).header("retry-after", "1".to_owned())
}

/// Interval of polling for the rest of a partial PROXY header.
const PROXY_HEADER_POLL: Duration = Duration::from_millis(5);

/// Reads exactly the PROXY protocol header, so that TLS finds its own first byte next.
async fn read_proxy_header(tcp: &TcpStream) -> io::Result<Option<SocketAddr>> {
    let mut bytes = [0; proxy_protocol::MAX_V2_BYTES];
    let mut peeked = 0;
    loop {
        let count = tcp.peek(&mut bytes).await?;
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        match proxy_protocol::parse(&bytes[..count]) {
            Err(error) => return Err(io::Error::new(io::ErrorKind::InvalidData, error)),
            Ok(Parsed::Done { consumed, source }) => {
                // These bytes are in the buffer of the socket already.
                let read = tcp.try_read(&mut bytes[..consumed])?;
                return if read == consumed {
                    Ok(source)
                } else {
                    Err(io::ErrorKind::UnexpectedEof.into())
                };
            }
            Ok(Parsed::Partial) => {
                if count == peeked {
                    // A peek is always ready once there are bytes.
                    tokio::time::sleep(PROXY_HEADER_POLL).await;
                }
                peeked = count;
            }
        }
    }
}
