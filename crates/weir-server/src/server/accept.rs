//! Accepting connections, until the very last one of a stop.
//!
//! Closing a listening socket resets what is in its queue, and what is in the middle of a handshake.
//! So before it is closed a filter drops every new SYN, while handshakes under way go on to their
//! end, and what is in the queue is accepted. A client whose SYN was dropped sends it again after a
//! second, and is then refused: no connection is ever established and not served.

use crate::connection;
use socket2::{SockFilter, SockRef};
use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::sync::watch;
use weir_gateway::worker::{Control, Phase, Worker};
use weir_net::descriptors::{Spares, is_exhausted};

/// How long accepting pauses when the process is out of descriptors.
const PAUSE: Duration = Duration::from_millis(50);
/// How long handshakes that were under way may take when no new one begins.
const HANDSHAKES: Duration = Duration::from_millis(250);

/// A listening socket that is open, as long as this lives.
#[derive(Debug)]
pub(crate) struct Accepting(Arc<AtomicUsize>);

impl Accepting {
    /// Counts one.
    pub(crate) fn new(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Relaxed);
        Self(Arc::clone(count))
    }
}

impl Drop for Accepting {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

/// A listening socket of a worker.
pub(super) struct Listener {
    pub(super) worker: &'static Worker,
    /// Which of the configuration.
    pub(super) index: usize,
    pub(super) socket: tokio::net::TcpListener,
    pub(super) spares: Spares,
}

impl Listener {
    /// Accepts until the phase says no; then whatever has begun already.
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
        // Refused, a handshake may end between the last look and the close.
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
        // Asked without the runtime, which may think that there is nothing, or that this task has had
        // its share.
        if let Ok(socket) = socket.into_std() {
            accept_rest(worker, index, &socket);
        }
        drop(accepting);
    }

    async fn next(&mut self) {
        match self.socket.accept().await {
            Ok((tcp, peer)) => connection::start(self.worker, self.index, tcp, peer),
            Err(error) if is_exhausted(&error) => self.turn_away().await,
            Err(_) => {}
        }
    }

    /// Without a descriptor the connection stays in the queue, and its client hangs: a spare one is
    /// given up for it, the client is told, and the connection closed.
    async fn turn_away(&mut self) {
        self.worker.stats.descriptors_exhausted.add(1);
        if self.spares.give_up() {
            // Ready at once: there is one in the queue. Another thread may have been faster than
            // this one to take the descriptor; the next round gives up another.
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

/// Accepts what is in the queue. It becomes no longer meanwhile.
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
            // That one has gone.
            Err(_) => {}
        }
    }
}

/// Tells a client why, as far as that goes without waiting.
fn refuse(tcp: &TcpStream) {
    const BODY: &str = "{\"type\":\"urn:weir:problem:descriptors-exhausted\",\
        \"title\":\"No file descriptors are available\",\"status\":503}";
    let text = format!(
        "HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/problem+json\r\nretry-after: 1\r\n\
         connection: close\r\ncontent-length: {}\r\n\r\n{BODY}",
        BODY.len()
    );
    // Its socket's buffer is empty: the text goes in whole.
    let _ = tcp.try_write(text.as_bytes());
    let _ = SockRef::from(tcp).shutdown(std::net::Shutdown::Write);
    // What it has sent is read, or closing would reset the connection and take the answer away.
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
    // An error means that the gateway is gone, which is a stop as well.
    let _ = control.wait_for(|control| control.phase >= Phase::Closing).await;
}

/// Turns listening sockets into ones of this thread's runtime.
pub(super) fn listeners(
    worker: &'static Worker,
    sockets: Vec<std::net::TcpListener>,
) -> io::Result<Vec<Listener>> {
    let made = sockets.into_iter().enumerate().map(|(index, socket)| {
        let socket = tokio::net::TcpListener::from_std(socket)?;
        Ok(Listener { worker, index, socket, spares: Spares::open() })
    });
    made.collect()
}
