//! An upstream under the test's own hand: each connection is played as the test says.

use super::process::PATIENCE;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

/// A listening socket whose connections the test answers itself.
pub(crate) struct Backend(TcpListener);

impl Backend {
    /// On a free port.
    pub(crate) fn bind() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        listener.set_nonblocking(true).expect("a socket");
        Self(listener)
    }

    /// Where it listens.
    pub(crate) fn addr(&self) -> SocketAddr {
        self.0.local_addr().expect("it is bound")
    }

    /// The next connection; it must come.
    pub(crate) fn accept(&self) -> Peer {
        let deadline = Instant::now() + PATIENCE;
        loop {
            match self.0.accept() {
                Ok((stream, _)) => {
                    stream.set_nonblocking(false).expect("a socket");
                    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
                    stream.set_nodelay(true).expect("no delay");
                    return Peer(stream);
                }
                Err(error) => {
                    assert!(Instant::now() < deadline, "nobody connects: {error}");
                    std::thread::sleep(Duration::from_millis(2));
                }
            }
        }
    }
}

/// A connection from weir.
pub(crate) struct Peer(TcpStream);

impl Peer {
    /// Reads up to the end of a head, and no further.
    pub(crate) fn head(&mut self) -> String {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.extend(self.read(1));
        }
        String::from_utf8(head).expect("a head in UTF-8")
    }

    /// Reads exactly so many bytes.
    pub(crate) fn read(&mut self, count: usize) -> Vec<u8> {
        let mut bytes = vec![0; count];
        self.0.read_exact(&mut bytes).expect("weir sends more");
        bytes
    }

    /// Sends bytes as they are; `false` when weir has closed.
    pub(crate) fn send(&mut self, bytes: impl AsRef<[u8]>) -> bool {
        self.0.write_all(bytes.as_ref()).is_ok()
    }
}
