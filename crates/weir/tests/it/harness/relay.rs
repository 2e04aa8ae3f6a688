//! A TCP relay between a client and a server, which impairs the connections through it.

use super::daemon::free_address;
use std::collections::HashMap;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const READ_CHUNK_BYTES: usize = 64 * 1024;

/// What a relay does with connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Forwards.
    Pass,
    /// Has no connections and rejects new ones: the server is down.
    Refuse,
    /// Accepts connections and forwards nothing, in either direction, until the mode changes: the
    /// network loses packets. What was sent meanwhile arrives then.
    BlackHole,
    /// Forwards what it reads at a time after this delay, in each direction.
    Delay(Duration),
}

/// A running relay; it ends its connections when dropped.
pub(crate) struct Relay {
    addr: SocketAddr,
    shared: Arc<Shared>,
    acceptor: Option<Acceptor>,
}

impl Relay {
    /// Starts one that forwards to `target`. Where nothing listens there, it accepts connections and
    /// ends them.
    pub(crate) fn new(target: SocketAddr) -> Self {
        let shared = Arc::new(Shared {
            target,
            state: Mutex::new(State {
                mode: Mode::Pass,
                pattern: None,
                connections: HashMap::new(),
                accepted: 0,
                lost_responses: 0,
            }),
            changed: Condvar::new(),
        });
        let bound = || {
            let addr = free_address();
            Some((addr, TcpListener::bind(addr).ok()?))
        };
        // Another process may take the address first.
        let (addr, listener) = (0..5).find_map(|_| bound()).expect("a free address");
        let acceptor = Some(Acceptor::start(listener, &shared));
        Self { addr, shared, acceptor }
    }

    /// Where it listens, in every mode.
    pub(crate) fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Changes the mode, of existing connections, too.
    pub(crate) fn set(&mut self, mode: Mode) {
        if mode == Mode::Refuse {
            self.shared.lock().mode = mode;
            // New connections are rejected once this returns.
            self.acceptor = None;
            self.cut();
            return;
        }
        if self.acceptor.is_none() {
            let listener = TcpListener::bind(self.addr).expect("its address is free");
            self.acceptor = Some(Acceptor::start(listener, &self.shared));
        }
        self.shared.lock().mode = mode;
        self.shared.changed.notify_all();
    }

    /// Ends all connections.
    pub(crate) fn cut(&self) {
        for (_, connection) in self.shared.lock().connections.drain() {
            connection.end();
        }
        self.shared.changed.notify_all();
    }

    /// Loses one response: the next bytes from a client that contain `pattern` reach the server, on
    /// whichever connection; the connection ends when the server responds, before any byte of that
    /// reaches the client. Not for TLS.
    pub(crate) fn cut_after(&self, pattern: &[u8]) {
        self.shared.lock().pattern = Some((pattern.to_vec(), Fault::LostResponse));
    }

    /// Changes the mode to [`Mode::BlackHole`] when a client sends the pattern, which does not arrive any
    /// more. Not for TLS.
    pub(crate) fn black_hole_at(&self, pattern: &[u8]) {
        self.shared.lock().pattern = Some((pattern.to_vec(), Fault::BlackHole));
    }

    /// Whether it is a black hole.
    pub(crate) fn is_black_hole(&self) -> bool {
        self.shared.lock().mode == Mode::BlackHole
    }

    /// How many responses were lost by [`Relay::cut_after`].
    pub(crate) fn lost_responses(&self) -> u64 {
        self.shared.lock().lost_responses
    }

    /// How many connections there are.
    pub(crate) fn connections(&self) -> usize {
        self.shared.lock().connections.len()
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.acceptor = None;
        self.cut();
    }
}

/// A thread that accepts connections; the listener is closed when this is dropped.
struct Acceptor {
    listener: Arc<TcpListener>,
    thread: Option<JoinHandle<()>>,
}

impl Acceptor {
    fn start(listener: TcpListener, shared: &Arc<Shared>) -> Self {
        let listener = Arc::new(listener);
        let (accepting, shared) = (Arc::clone(&listener), Arc::clone(shared));
        let thread = std::thread::spawn(move || {
            loop {
                let client = match accepting.accept() {
                    Ok((client, _)) => client,
                    Err(error) if error.kind() == ErrorKind::ConnectionAborted => continue,
                    Err(_) => return,
                };
                let shared = Arc::clone(&shared);
                std::thread::spawn(move || shared.serve(client));
            }
        });
        Self { listener, thread: Some(thread) }
    }
}

impl Drop for Acceptor {
    fn drop(&mut self) {
        // The thread's call returns, and with the thread the socket ends.
        let _ = socket2::SockRef::from(&*self.listener).shutdown(Shutdown::Both);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// What the threads of a relay have in common.
struct Shared {
    target: SocketAddr,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Fault {
    /// The response does not arrive.
    LostResponse,
    /// Neither do the bytes, nor anything that comes later.
    BlackHole,
}

struct State {
    mode: Mode,
    /// What happens once when a client sends these bytes.
    pattern: Option<(Vec<u8>, Fault)>,
    connections: HashMap<u64, Connection>,
    /// Number of the next connection.
    accepted: u64,
    lost_responses: u64,
}

struct Connection {
    client: TcpStream,
    /// None before it is connected.
    server: Option<TcpStream>,
    /// The next response is lost.
    doomed: bool,
}

impl Connection {
    fn end(&self) {
        for stream in std::iter::once(&self.client).chain(&self.server) {
            // The other side may have closed it.
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Forwards in both directions until both have ended, or the connection has.
    fn serve(&self, client: TcpStream) {
        let Some(id) = self.register(&client) else { return };
        if self.permit(id)
            && let Ok(server) = TcpStream::connect(self.target)
            && self.connected(id, &server)
        {
            std::thread::scope(|scope| {
                scope.spawn(|| self.forward_requests(id, &client, &server));
                self.forward_responses(id, &server, &client);
            });
        }
        self.lock().connections.remove(&id);
    }

    /// The number of a new connection; none if it came too late.
    fn register(&self, client: &TcpStream) -> Option<u64> {
        // Nothing is to be held back but by the relay.
        client.set_nodelay(true).ok()?;
        let client = client.try_clone().ok()?;
        let mut state = self.lock();
        if state.mode == Mode::Refuse {
            return None;
        }
        let id = state.accepted;
        state.accepted += 1;
        state.connections.insert(id, Connection { client, server: None, doomed: false });
        Some(id)
    }

    /// Notes the other half of a connection; `false` if it has been cut.
    fn connected(&self, id: u64, server: &TcpStream) -> bool {
        let Ok(other) = server.try_clone() else { return false };
        let mut state = self.lock();
        let Some(connection) = state.connections.get_mut(&id) else { return false };
        connection.server = Some(other);
        server.set_nodelay(true).is_ok()
    }

    fn forward_requests(&self, id: u64, client: &TcpStream, server: &TcpStream) {
        // What came last, for a pattern may be split.
        let mut recent = Vec::new();
        each_chunk(client, |chunk| {
            self.look_for_pattern(id, &mut recent, chunk);
            if !self.permit(id) {
                return false;
            }
            (&mut &*server).write_all(chunk).is_ok()
        });
        if self.permit(id) {
            let _ = server.shutdown(Shutdown::Write);
        }
    }

    fn forward_responses(&self, id: u64, server: &TcpStream, client: &TcpStream) {
        let mut lost = false;
        each_chunk(server, |chunk| {
            // The rest is read, too: unread bytes would reset the connection, and the server could
            // lose what it has not yet read.
            if lost {
                return true;
            }
            if !self.permit(id) {
                return false;
            }
            lost = self.lose_response(id);
            if lost {
                let _ = client.shutdown(Shutdown::Both);
                return true;
            }
            (&mut &*client).write_all(chunk).is_ok()
        });
        if self.permit(id) {
            let _ = client.shutdown(Shutdown::Write);
        }
    }

    /// Waits until bytes of a connection may pass; `false` if it has been cut.
    fn permit(&self, id: u64) -> bool {
        let mut state = self.lock();
        let from = Instant::now();
        while state.connections.contains_key(&id) {
            let remaining = match state.mode {
                Mode::Pass => return true,
                Mode::Delay(delay) => delay.saturating_sub(from.elapsed()),
                Mode::Refuse | Mode::BlackHole => Duration::MAX,
            };
            if remaining.is_zero() {
                return true;
            }
            let waited = self.changed.wait_timeout(state, remaining.min(Duration::from_secs(3600)));
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        false
    }

    /// Does what is to happen at the pattern; the pattern is then used up.
    fn look_for_pattern(&self, id: u64, recent: &mut Vec<u8>, chunk: &[u8]) {
        recent.extend_from_slice(chunk);
        let mut state = self.lock();
        let Some((pattern, fault)) = &state.pattern else {
            recent.clear();
            return;
        };
        if memchr::memmem::find(recent, pattern).is_none() {
            recent.drain(..recent.len().saturating_sub(pattern.len() - 1));
            return;
        }
        let fault = *fault;
        state.pattern = None;
        match fault {
            Fault::BlackHole => state.mode = Mode::BlackHole,
            Fault::LostResponse => {
                if let Some(connection) = state.connections.get_mut(&id) {
                    connection.doomed = true;
                }
            }
        }
    }

    /// Whether the response that has come now is to be lost.
    fn lose_response(&self, id: u64) -> bool {
        let mut state = self.lock();
        let doomed = state.connections.get(&id).is_some_and(|connection| connection.doomed);
        state.lost_responses += u64::from(doomed);
        doomed
    }
}

/// Reads until the end, an error, or until `take` gives `false`.
fn each_chunk(mut stream: &TcpStream, mut take: impl FnMut(&[u8]) -> bool) {
    let mut buffer = vec![0; READ_CHUNK_BYTES];
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => return,
            Ok(read) => {
                if !take(&buffer[..read]) {
                    return;
                }
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(_) => return,
        }
    }
}
