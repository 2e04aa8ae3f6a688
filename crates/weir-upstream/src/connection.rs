//! The connection pool of a target: keep-alive connections, checked before reuse, bounded in
//! number.

use super::address::{Address, connect_unix};
use super::attempt::Failed;
use super::{Target, Tls};
use crate::agent_connections::LeaseGuard;
use std::cell::Cell;
use std::collections::VecDeque;
use std::io;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use weir_http::buffer::Buffer;
use weir_http::deadline::{Deadline, Expired, Wait};
use weir_http::problem::Problem;
use weir_http::socket::Socket;
use weir_http::stream::Stream;
use weir_net::descriptors::is_exhausted;

/// A connection in use.
#[derive(Debug)]
pub struct Connection {
    /// The byte stream.
    pub stream: Stream,
    /// Received bytes that are not processed yet.
    pub buffer: Buffer,
    /// Whether the connection has carried a request before: the other end may have closed it
    /// meanwhile.
    pub reused: bool,
    /// Whether the last body was a long one.
    pub large: bool,
    owner: Owner,
}

/// The other end.
#[derive(Debug)]
enum Owner {
    Target(ConnectionPermit),
    Agent(LeaseGuard),
}

/// A permit for one of the connections of a target; released on drop.
#[derive(Debug)]
pub(super) struct ConnectionPermit {
    target: Rc<Target>,
    /// Whether the connection is open.
    is_open: bool,
}

impl ConnectionPermit {
    /// Marks the connection as open.
    pub(super) fn occupy(&mut self) {
        self.target.stats.open.add(1);
        self.is_open = true;
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        let target = &self.target;
        target.open.set(target.open.get() - 1);
        target.released.notify_one();
        if self.is_open {
            target.stats.open.sub(1);
        }
    }
}

/// A pending request, waiting for a connection until dropped.
struct Pending<'t>(&'t Cell<usize>);

impl Drop for Pending<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

/// An idle connection.
#[derive(Debug)]
pub(super) struct Idle {
    connection: Box<Connection>,
    /// Start of the idle time, in ticks of its target.
    since: u64,
}

/// Why no connection is available. Nothing has been sent: another target may be tried.
#[derive(Debug, thiserror::Error)]
pub enum CheckOutError {
    /// Refused, unreachable, not resolved, or the TLS handshake failed.
    #[error("cannot connect: {0}")]
    Connect(io::Error),
    /// The connect timeout or the deadline of the request expired.
    #[error("connect timeout")]
    TimedOut(Expired),
    /// All permitted connections are in use, and too many requests are pending.
    #[error("all connections are in use")]
    Busy,
}

impl CheckOutError {
    /// As a metrics label; `None` if the target was not contacted.
    pub(crate) fn label(&self) -> Option<&'static str> {
        match self {
            Self::Busy => None,
            Self::Connect(error) if is_exhausted(error) => None,
            Self::Connect(_) => Some("connect"),
            Self::TimedOut(Expired::Wait(_)) => Some("connect-timeout"),
            Self::TimedOut(Expired::Request) => Some(Problem::DeadlineExceeded.slug()),
        }
    }
}

impl Target {
    /// Checks out an idle connection, or opens one.
    ///
    /// Rare branches are boxed, here and in the rest of the data path, so that other requests do
    /// not reserve memory for them.
    pub(super) async fn check_out(
        self: &Rc<Self>,
        deadline: &Deadline,
    ) -> Result<Box<Connection>, CheckOutError> {
        loop {
            if let Some(connection) = self.check_out_idle() {
                self.stats.reused.add(1);
                return Ok(connection);
            }
            if self.open.get() < self.max_connections {
                return Box::pin(self.connect(deadline)).await;
            }
            Box::pin(self.wait_for_permit(deadline)).await?;
        }
    }

    /// Opens a new connection, for a request that was lost on a stale one.
    pub(super) async fn check_out_fresh(
        self: &Rc<Self>,
        deadline: &Deadline,
    ) -> Result<Box<Connection>, CheckOutError> {
        while self.open.get() >= self.max_connections {
            let oldest = self.idle.borrow_mut().pop_front();
            match oldest {
                Some(_) => self.stats.idle.sub(1),
                None => self.wait_for_permit(deadline).await?,
            }
        }
        self.connect(deadline).await
    }

    fn check_out_idle(&self) -> Option<Box<Connection>> {
        loop {
            // The most recently used connection, so that the others age and are evicted.
            let idle = self.idle.borrow_mut().pop_back()?;
            self.stats.idle.sub(1);
            if self.is_usable(&idle) {
                let mut connection = idle.connection;
                connection.reused = true;
                return Some(connection);
            }
        }
    }

    /// Evicts idle connections that are too old or were closed by the target, and refreshes the DNS
    /// resolution when due. To be called once a second.
    pub fn tick(self: &Rc<Self>) {
        self.ticks.set(self.ticks.get() + 1);
        let stale: VecDeque<Idle> = {
            let mut idle = self.idle.borrow_mut();
            let (keep, stale) = idle.drain(..).partition(|idle| self.is_usable(idle));
            *idle = keep;
            stale
        };
        self.stats.idle.sub(stale.len() as u64);
        drop(stale);
        if let Some(http2) = &self.http2 {
            http2.evict_idle(self.ticks.get(), self.keep_alive_time);
        }
        self.refresh_addresses();
    }

    fn is_usable(&self, idle: &Idle) -> bool {
        let age = Duration::from_secs(self.ticks.get() - idle.since);
        age < self.keep_alive_time && idle.connection.is_quiet()
    }

    /// Closes idle connections and keeps none from now on: a reload has removed this target.
    pub fn drain(&self) {
        self.draining.set(true);
        let idle = std::mem::take(&mut *self.idle.borrow_mut());
        self.stats.idle.sub(idle.len() as u64);
        drop(idle);
        if let Some(http2) = &self.http2 {
            http2.drain();
        }
    }

    pub(super) async fn wait_for_permit(&self, deadline: &Deadline) -> Result<(), CheckOutError> {
        if self.pending.get() >= self.max_pending() {
            self.stats.busy.add(1);
            return Err(CheckOutError::Busy);
        }
        self.pending.set(self.pending.get() + 1);
        // Also decremented if the client disconnects meanwhile.
        let pending = Pending(&self.pending);
        let released = self.released.notified();
        let released = deadline.within(Wait::Connect, self.connect_timeout, released).await;
        drop(pending);
        released.map_err(|_| {
            self.stats.busy.add(1);
            CheckOutError::Busy
        })
    }

    async fn connect(
        self: &Rc<Self>,
        deadline: &Deadline,
    ) -> Result<Box<Connection>, CheckOutError> {
        let (stream, mut permit) = self.connect_with_permit(deadline).await?;
        permit.occupy();
        Ok(Connection::new(stream, false, Owner::Target(permit)))
    }

    /// Connects. The connection does not count as open yet.
    pub(super) async fn connect_with_permit(
        self: &Rc<Self>,
        deadline: &Deadline,
    ) -> Result<(Stream, ConnectionPermit), CheckOutError> {
        self.open.set(self.open.get() + 1);
        let permit = ConnectionPermit { target: Rc::clone(self), is_open: false };
        self.stats.connects.add(1);
        let stream = deadline
            .within(Wait::Connect, self.connect_timeout, self.connect_stream())
            .await
            .map_err(CheckOutError::TimedOut)?
            .map_err(CheckOutError::Connect)?;
        Ok((stream, permit))
    }

    async fn connect_stream(&self) -> io::Result<Stream> {
        let tcp = match &self.address {
            Some(Address::Unix(path)) => {
                return Ok(Stream::plain(Socket::unix(connect_unix(path).await?)?));
            }
            Some(Address::Tcp(address)) => TcpStream::connect(address).await?,
            None => Box::pin(self.connect_by_name()).await?,
        };
        tcp.set_nodelay(true)?;
        let socket = Socket::tcp(tcp)?;
        let Some(Tls { connector, name }) = &self.tls else { return Ok(Stream::plain(socket)) };
        let connector = TlsConnector::from(std::sync::Arc::clone(connector));
        let stream = Stream::tls(connector.connect(name.clone(), socket).await?);
        if self.http2.is_some() && stream.protocol().as_deref() != Some(b"h2") {
            return Err(io::Error::other("the server does not support HTTP/2"));
        }
        Ok(stream)
    }

    /// Tries all addresses of the name in turn. Each except the last gets half of the remaining
    /// time, so that an address that does not respond leaves time for the next one.
    async fn connect_by_name(&self) -> io::Result<TcpStream> {
        let end = Instant::now() + self.connect_timeout;
        let mut last = io::Error::new(io::ErrorKind::NotFound, "the host name has no address");
        let mut addresses = self.addresses().await?.into_iter().peekable();
        while let Some(address) = addresses.next() {
            let connecting = TcpStream::connect(address);
            let connected = if addresses.peek().is_some() {
                let half = end.saturating_duration_since(Instant::now()) / 2;
                timeout(half, connecting).await.unwrap_or_else(|late| Err(late.into()))
            } else {
                connecting.await
            };
            match connected {
                Ok(tcp) => return Ok(tcp),
                Err(error) => last = error,
            }
        }
        self.suspect_addresses();
        Err(last)
    }
}

impl Idle {
    pub(super) fn stream(&self) -> &Stream {
        &self.connection.stream
    }
}

impl Connection {
    fn new(stream: Stream, reused: bool, owner: Owner) -> Box<Self> {
        Box::new(Self { stream, buffer: Buffer::default(), reused, large: false, owner })
    }

    /// A connection to a leased agent.
    pub fn to_agent(stream: Stream, reused: bool, lease: LeaseGuard) -> Box<Self> {
        Self::new(stream, reused, Owner::Agent(lease))
    }

    /// The lease of the agent, if the connection has one.
    pub(super) fn lease(&mut self) -> Option<&mut LeaseGuard> {
        match &mut self.owner {
            Owner::Target(_) => None,
            Owner::Agent(lease) => Some(lease),
        }
    }

    /// Reads more; 0 is the end.
    pub fn poll_fill(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let polled = self.stream.poll_read(cx, self.buffer.room(self.large));
        if let Poll::Ready(Ok(count)) = polled {
            self.buffer.grown(count);
        }
        self.buffer.release_if_empty();
        polled
    }

    /// Replaces the stream by that of another connection to the same agent.
    pub(crate) fn replace_stream(&mut self, stream: Stream) {
        (self.stream, self.reused, self.buffer) = (stream, false, Buffer::default());
    }

    /// The other end failed before the response was complete.
    pub fn failed(self, how: Failed) {
        match self.owner {
            Owner::Target(permit) => permit.target.health.failed(Instant::now()),
            Owner::Agent(lease) => match how {
                Failed::Closed => lease.probe(),
                Failed::ProtocolError | Failed::TimedOut => lease.kill(),
            },
        }
    }

    /// The response is complete, but the connection cannot be reused.
    pub fn close(self) {
        if let Owner::Agent(lease) = self.owner {
            lease.close();
        }
    }

    /// Checks the connection in for reuse, unless enough are idle.
    pub(super) fn check_in(self: Box<Self>) {
        let target = match &self.owner {
            Owner::Target(permit) => Rc::clone(&permit.target),
            Owner::Agent(_) => return self.check_in_to_agent(),
        };
        let has_room = !target.draining.get() && target.idle.borrow().len() < target.max_idle;
        if self.buffer.is_empty() && has_room {
            target.stats.idle.add(1);
            self.stream.watch_while_idle();
            let idle = Idle { connection: self, since: target.ticks.get() };
            target.idle.borrow_mut().push_back(idle);
            // A pending request may get this connection.
            if target.pending.get() > 0 {
                target.released.notify_one();
            }
        }
    }

    fn check_in_to_agent(self) {
        let Self { stream, buffer, owner, .. } = self;
        match owner {
            Owner::Agent(lease) if buffer.is_empty() => lease.check_in(stream),
            Owner::Agent(lease) => lease.close(),
            Owner::Target(_) => {}
        }
    }

    /// Whether the idle connection is neither closed nor sending. Needs no system call unless bytes
    /// arrived.
    fn is_quiet(&self) -> bool {
        self.stream.is_quiet()
    }
}
