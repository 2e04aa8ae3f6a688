//! Accepts connections, also those in the queue at the end of a drain.
//!
//! Closing a listening socket resets the connections in its queue, and unfinished handshakes.
//! Before it is closed a filter therefore drops every new SYN, unfinished handshakes complete, and
//! the connections in the queue are accepted. A client whose SYN was dropped sends it again after a
//! second, and is then refused: no connection is ever established and not served.
//!
//! A socket that another process has too is left as it is: that process accepts what is in its
//! queue.

use crate::connection;
use socket2::{SockFilter, SockRef};
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::sync::watch;
use weir_gateway::worker::{Control, Phase, Worker};
use weir_net::descriptors::{Spares, is_exhausted};

/// Pause of accepting when the process is out of descriptors.
const PAUSE: Duration = Duration::from_millis(50);
/// Limit on unfinished handshakes when no new one starts.
const HANDSHAKES: Duration = Duration::from_millis(250);

/// Counts an open listening socket, until dropped.
#[derive(Debug)]
pub(crate) struct Accepting {
    count: Arc<AtomicUsize>,
    /// Another process has the socket, too.
    shared: Arc<AtomicBool>,
}

impl Accepting {
    /// Counts a listening socket.
    pub(crate) fn new(count: &Arc<AtomicUsize>, shared: &Arc<AtomicBool>) -> Self {
        count.fetch_add(1, Relaxed);
        Self { count: Arc::clone(count), shared: Arc::clone(shared) }
    }
}

impl Drop for Accepting {
    fn drop(&mut self) {
        self.count.fetch_sub(1, Relaxed);
    }
}

/// A listening socket of a worker.
pub(super) struct Listener {
    pub(super) worker: &'static Worker,
    /// Index in the configuration.
    pub(super) index: usize,
    pub(super) socket: tokio::net::TcpListener,
    pub(super) spares: Spares,
}

impl Listener {
    /// Accepts until the phase ends it; then the connections that are established already.
    pub(super) async fn accept(
        mut self,
        accepting: Accepting,
        mut control: watch::Receiver<Control>,
    ) {
        loop {
            tokio::select! {
                biased;
                () = self.next() => {}
                () = closing(&mut control) => break,
            }
        }
        if accepting.shared.load(Relaxed) {
            return;
        }
        // A handshake may complete between the last accept and the close.
        let _ = SockRef::from(&self.socket).attach_filter(&no_new_connections());
        let end = tokio::time::sleep(HANDSHAKES);
        tokio::pin!(end);
        loop {
            tokio::select! {
                biased;
                () = self.next() => {}
                () = &mut end => break,
            }
        }
        let Self { worker, index, socket, .. } = self;
        // Without the runtime, which may not have seen the connection yet, or may have used up the
        // budget of this task.
        if let Ok(socket) = socket.into_std() {
            accept_rest(worker, index, &socket);
        }
        drop(accepting);
    }

    async fn next(&mut self) {
        match self.socket.accept().await {
            Ok((tcp, peer)) => connection::start(self.worker, self.index, tcp, peer),
            Err(error) if is_exhausted(&error) => self.reject_connection().await,
            Err(_) => {}
        }
    }

    /// Without a descriptor the connection stays in the queue, and its client hangs: a spare
    /// descriptor is released, the client gets an error, and the connection is closed.
    async fn reject_connection(&mut self) {
        self.worker.stats.descriptors_exhausted.add(1);
        if self.spares.release_one() {
            // Ready at once: a connection is in the queue. If another thread took the descriptor
            // first, the next round releases another one.
            if let Ok(Ok((tcp, _))) = tokio::time::timeout(PAUSE, self.socket.accept()).await {
                let live = self.worker.live();
                if live.site.tls[self.index].is_none() {
                    refuse(&tcp);
                }
            }
        } else {
            tokio::time::sleep(PAUSE).await;
        }
        self.spares.refill();
    }
}

/// Accepts the connections in the queue, which does not grow any more.
fn accept_rest(worker: &'static Worker, index: usize, socket: &std::net::TcpListener) {
    loop {
        let accepted = socket.accept().and_then(|(tcp, peer)| {
            tcp.set_nonblocking(true)?;
            Ok((TcpStream::from_std(tcp)?, peer))
        });
        match accepted {
            Ok((tcp, peer)) => connection::start(worker, index, tcp, peer),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock || is_exhausted(&error) => {
                return;
            }
            // The client has disconnected.
            Err(_) => {}
        }
    }
}

/// Sends the error to a client, if that is possible without waiting.
fn refuse(tcp: &TcpStream) {
    const BODY: &str = "{\"type\":\"urn:weir:problem:descriptors-exhausted\",\
        \"title\":\"No file descriptors are available\",\"status\":503}";
    let text = format!(
        "HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/problem+json\r\nretry-after: 1\r\n\
         connection: close\r\ncontent-length: {}\r\n\r\n{BODY}",
        BODY.len()
    );
    // The buffer of the socket is empty: the text fits.
    let _ = tcp.try_write(text.as_bytes());
    let _ = SockRef::from(tcp).shutdown(std::net::Shutdown::Write);
    // Received bytes are read: closing with unread bytes resets the connection, and the response is
    // lost.
    let mut bytes = [0; 16 * 1024];
    while matches!(tcp.try_read(&mut bytes), Ok(1..)) {}
}

/// A program (classic BPF) for a listening socket: a segment with SYN and without ACK is dropped.
/// Flags are in byte 13 of the TCP header, where the packet begins for a socket's filter.
fn no_new_connections() -> [SockFilter; 5] {
    const LOAD_BYTE: u16 = 0x30; // BPF_LD | BPF_B | BPF_ABS
    const AND: u16 = 0x54; // BPF_ALU | BPF_AND | BPF_K
    const JUMP_IF_EQUAL: u16 = 0x15; // BPF_JMP | BPF_JEQ | BPF_K
    const RETURN: u16 = 0x06; // BPF_RET | BPF_K
    const SYN: u32 = 0x02;
    const ACK: u32 = 0x10;
    [
        SockFilter::new(LOAD_BYTE, 0, 0, 13),
        SockFilter::new(AND, 0, 0, SYN | ACK),
        SockFilter::new(JUMP_IF_EQUAL, 0, 1, SYN),
        SockFilter::new(RETURN, 0, 0, 0),
        SockFilter::new(RETURN, 0, 0, u32::MAX),
    ]
}

async fn closing(control: &mut watch::Receiver<Control>) {
    // An error means that the gateway was dropped, which ends accepting, too.
    let _ = control.wait_for(|control| control.phase >= Phase::HandedOver).await;
}

/// Registers listening sockets with the runtime of this thread; each comes with the index of its
/// listener in the configuration.
pub(super) fn listeners(
    worker: &'static Worker,
    sockets: Vec<(usize, std::net::TcpListener)>,
) -> io::Result<Vec<Listener>> {
    let registered = sockets.into_iter().map(|(index, socket)| {
        let socket = tokio::net::TcpListener::from_std(socket)?;
        Ok(Listener { worker, index, socket, spares: Spares::open() })
    });
    registered.collect()
}
