//! An upstream that does exactly what a test tells it, byte by byte: by a script, or by hand.

use super::http::first;
use super::process::PATIENCE;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Serves connections by a script, each in a thread of its own, or hands them to the test.
pub(crate) struct Upstream {
    /// Where it listens.
    pub(crate) addr: SocketAddr,
    /// Connections for the test; none ever come when there is a script.
    peers: Receiver<Peer>,
    seen: Arc<Seen>,
}

#[derive(Default)]
struct Seen {
    connections: AtomicUsize,
    heads: Mutex<Vec<String>>,
    stop: AtomicBool,
}

/// A connection to the upstream.
pub(crate) struct Peer {
    stream: TcpStream,
    input: Vec<u8>,
    requests: usize,
    head: String,
    seen: Arc<Seen>,
}

impl Upstream {
    /// Starts it; the script gets the number of the connection, from 0, and the connection.
    pub(crate) fn start(script: impl Fn(usize, &mut Peer) + Send + Sync + 'static) -> Self {
        let script = Arc::new(script);
        let serve = move |number, mut peer: Peer| {
            let script = Arc::clone(&script);
            std::thread::spawn(move || script(number, &mut peer));
        };
        Self::serving(serve, channel().1)
    }

    /// One whose connections the test plays itself, as [`Upstream::accept`] gives them.
    pub(crate) fn by_hand() -> Self {
        let (sender, peers) = channel();
        // A test that is over takes no more of them.
        Self::serving(move |_, peer| drop(sender.send(peer)), peers)
    }

    fn serving(serve: impl Fn(usize, Peer) + Send + 'static, peers: Receiver<Peer>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let addr = listener.local_addr().expect("an address");
        let seen = Arc::new(Seen::default());
        let shared = Arc::clone(&seen);
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                if shared.stop.load(SeqCst) {
                    return;
                }
                let number = shared.connections.fetch_add(1, SeqCst);
                let _ = stream.set_nodelay(true);
                let _ = stream.set_read_timeout(Some(PATIENCE));
                let (input, seen) = (Vec::new(), Arc::clone(&shared));
                serve(number, Peer { stream, input, requests: 0, head: String::new(), seen });
            }
        });
        Self { addr, peers, seen }
    }

    /// The next connection of an upstream that is played by hand; it must come.
    pub(crate) fn accept(&self) -> Peer {
        self.peers.recv_timeout(PATIENCE).expect("weir connects")
    }

    /// One that answers every request of every connection with these bytes.
    pub(crate) fn responding(response: impl Into<Vec<u8>>) -> Self {
        let response = response.into();
        Self::start(move |_, peer| {
            while peer.request().is_some() {
                peer.send(&response);
            }
        })
    }

    /// Connections so far.
    pub(crate) fn connections(&self) -> usize {
        self.seen.connections.load(SeqCst)
    }

    /// Heads of the requests so far.
    pub(crate) fn heads(&self) -> Vec<String> {
        self.seen.heads.lock().expect("not poisoned").clone()
    }

    /// Waits until so many requests have come.
    pub(crate) fn wait_for_requests(&self, count: usize) {
        let end = Instant::now() + PATIENCE;
        while self.heads().len() < count {
            assert!(Instant::now() < end, "{} of {count} requests came", self.heads().len());
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Upstream {
    fn drop(&mut self) {
        self.seen.stop.store(true, SeqCst);
        let _ = TcpStream::connect(self.addr);
    }
}

impl Peer {
    /// Reads a request head; `None` when the connection is closed instead.
    pub(crate) fn head(&mut self) -> Option<String> {
        let end = loop {
            if let Some(at) = self.input.windows(4).position(|four| four == b"\r\n\r\n") {
                break at + 4;
            }
            if self.fill() == 0 {
                return None;
            }
        };
        let head = String::from_utf8_lossy(&self.input[..end]).into_owned();
        self.input.drain(..end);
        self.seen.heads.lock().expect("not poisoned").push(head.clone());
        self.requests += 1;
        self.head.clone_from(&head);
        Some(head)
    }

    /// The head of the last request.
    pub(crate) fn last_head(&self) -> String {
        self.head.clone()
    }

    /// Requests on this connection so far.
    pub(crate) fn requests(&self) -> usize {
        self.requests
    }

    /// Reads a request with its body; gives the body, chunks and all.
    pub(crate) fn request(&mut self) -> Option<Vec<u8>> {
        let head = self.head()?.to_ascii_lowercase();
        if head.contains("\r\ntransfer-encoding: chunked\r\n") {
            return self.until(b"0\r\n\r\n");
        }
        let length = head.split("\r\ncontent-length: ").nth(1);
        let length = length.and_then(|rest| rest.split("\r\n").next()?.parse().ok());
        let length = length.unwrap_or(0);
        while self.input.len() < length {
            if self.fill() == 0 {
                return None;
            }
        }
        Some(first(&mut self.input, length))
    }

    fn until(&mut self, end: &[u8]) -> Option<Vec<u8>> {
        loop {
            if let Some(at) = self.input.windows(end.len()).position(|bytes| bytes == end) {
                return Some(first(&mut self.input, at + end.len()));
            }
            if self.fill() == 0 {
                return None;
            }
        }
    }

    /// Reads exactly so many bytes; they must come.
    pub(crate) fn read(&mut self, count: usize) -> Vec<u8> {
        while self.input.len() < count {
            assert!(self.fill() > 0, "weir sends more");
        }
        first(&mut self.input, count)
    }

    /// Some bytes as they come; `None` when the connection is closed.
    pub(crate) fn some(&mut self) -> Option<Vec<u8>> {
        if self.input.is_empty() && self.fill() == 0 {
            return None;
        }
        Some(std::mem::take(&mut self.input))
    }

    /// Reads and drops bytes; gives how many came before the other side closed or `limit` was
    /// reached.
    pub(crate) fn drain(&mut self, limit: usize) -> usize {
        let mut count = self.input.len();
        self.input.clear();
        while count < limit {
            match self.fill() {
                0 => break,
                read => count += read,
            }
            self.input.clear();
        }
        count
    }

    /// Sends bytes as they are; `false` when the other side has closed.
    pub(crate) fn send(&mut self, bytes: impl AsRef<[u8]>) -> bool {
        self.stream.write_all(bytes.as_ref()).is_ok()
    }

    /// Sends nothing more, but reads on.
    pub(crate) fn finish(&mut self) {
        let _ = self.stream.shutdown(Shutdown::Write);
    }

    /// Makes the end of the script break the connection as a killed process does.
    pub(crate) fn reset(&mut self) {
        let _ = socket2::SockRef::from(&self.stream).set_linger(Some(Duration::ZERO));
    }

    /// Does nothing until the other side closes.
    pub(crate) fn hang(&mut self) {
        while self.fill() > 0 {
            self.input.clear();
        }
    }

    /// Reads once; 0 when the connection is over.
    fn fill(&mut self) -> usize {
        let mut buffer = [0; 64 * 1024];
        let count = loop {
            match self.stream.read(&mut buffer) {
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                read => break read.unwrap_or(0),
            }
        };
        self.input.extend_from_slice(&buffer[..count]);
        count
    }
}
