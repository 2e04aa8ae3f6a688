//! Connections to a target: kept alive, checked before reuse, bounded in number.

use super::{Target, Tls};
use crate::agent_connections::LeaseGuard;
use crate::buffer::Buffer;
use crate::deadline::{Deadline, Expired, Wait};
use crate::descriptors::is_exhausted;
use crate::problem::Problem;
use crate::stream::Stream;
use std::cell::Cell;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

/// A connection in use.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) stream: Stream,
    /// What the target has sent and nobody has dealt with.
    pub(crate) buffer: Buffer,
    /// It has carried a request before: the target may have closed it meanwhile.
    pub(crate) reused: bool,
    /// The last body was a long one.
    pub(crate) large: bool,
    owner: Owner,
}

/// What a connection leads to.
#[derive(Debug)]
enum Owner {
    Target(Place),
    Agent(LeaseGuard),
}

/// How the other end failed in the middle of an exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failed {
    /// It broke off.
    Closed,
    /// What it sent is no answer.
    Garbage,
    /// It took too long.
    Late,
}

/// A place among the connections to a target; given up when dropped.
#[derive(Debug)]
pub(super) struct Place {
    target: Rc<Target>,
    /// There is a connection in it.
    taken: bool,
}

impl Place {
    /// There is a connection in it now.
    pub(super) fn take(&mut self) {
        self.target.stats.open.add(1);
        self.taken = true;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let target = &self.target;
        target.open.set(target.open.get() - 1);
        target.freed.notify_one();
        if self.taken {
            target.stats.open.sub(1);
        }
    }
}

/// A request that waits for a place, until dropped.
struct Waiting<'t>(&'t Cell<usize>);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

/// A connection that waits for the next request.
#[derive(Debug)]
pub(super) struct Idle {
    connection: Box<Connection>,
    /// In sweeps of its target.
    since: u64,
}

/// Why there is no connection. Nothing has been sent: another target may be tried.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TakeError {
    /// Refused, unreachable, not resolved, or the TLS handshake failed.
    #[error("cannot connect: {0}")]
    Connect(io::Error),
    /// It took longer than the connect timeout.
    #[error("connect timeout")]
    Late(Expired),
    /// As many connections as there may be, and too many requests waiting for one.
    #[error("all connections are in use")]
    Busy,
}

impl TakeError {
    /// As a metrics label; `None` where the target was not even asked.
    pub(crate) fn label(&self) -> Option<&'static str> {
        match self {
            Self::Busy => None,
            Self::Connect(error) if is_exhausted(error) => None,
            Self::Connect(_) => Some("connect"),
            Self::Late(Expired::Wait(_)) => Some("connect-timeout"),
            Self::Late(Expired::Request) => Some(Problem::DeadlineExceeded.slug()),
        }
    }
}

impl Target {
    /// Takes an idle connection, or makes one.
    ///
    /// What is rare is boxed, here and in the rest of the data path: a request that needs none of
    /// it should not carry the room for it.
    pub(crate) async fn take(
        self: &Rc<Self>,
        deadline: &Deadline,
    ) -> Result<Box<Connection>, TakeError> {
        loop {
            if let Some(connection) = self.take_idle() {
                self.stats.reused.add(1);
                return Ok(connection);
            }
            if self.open.get() < self.most {
                return Box::pin(self.connect(deadline)).await;
            }
            Box::pin(self.wait_for_place(deadline)).await?;
        }
    }

    /// Takes a connection that has carried nothing, for a request that a stale one has lost.
    pub(crate) async fn take_fresh(
        self: &Rc<Self>,
        deadline: &Deadline,
    ) -> Result<Box<Connection>, TakeError> {
        while self.open.get() >= self.most {
            let oldest = self.idle.borrow_mut().pop_front();
            match oldest {
                Some(_) => self.stats.idle.sub(1),
                None => self.wait_for_place(deadline).await?,
            }
        }
        self.connect(deadline).await
    }

    fn take_idle(&self) -> Option<Box<Connection>> {
        loop {
            // The youngest: the others may then grow old and go.
            let idle = self.idle.borrow_mut().pop_back()?;
            self.stats.idle.sub(1);
            if self.is_usable(&idle) {
                let mut connection = idle.connection;
                connection.reused = true;
                return Some(connection);
            }
        }
    }

    /// Drops connections that are too old or that the target has closed. To be called once a
    /// second.
    pub(crate) fn sweep(self: &Rc<Self>) {
        self.sweeps.set(self.sweeps.get() + 1);
        let stale: VecDeque<Idle> = {
            let mut idle = self.idle.borrow_mut();
            let (keep, stale) = idle.drain(..).partition(|idle| self.is_usable(idle));
            *idle = keep;
            stale
        };
        self.stats.idle.sub(stale.len() as u64);
        drop(stale);
        if let Some(sessions) = &self.sessions {
            sessions.sweep(self.sweeps.get(), self.keep_alive_time);
        }
        self.refresh_addresses();
    }

    fn is_usable(&self, idle: &Idle) -> bool {
        let age = Duration::from_secs(self.sweeps.get() - idle.since);
        age < self.keep_alive_time && idle.connection.is_quiet()
    }

    /// Closes what is idle and keeps nothing from now on: a reload has dropped this target.
    pub(crate) fn retire(&self) {
        self.retired.set(true);
        let idle = std::mem::take(&mut *self.idle.borrow_mut());
        self.stats.idle.sub(idle.len() as u64);
        drop(idle);
        if let Some(sessions) = &self.sessions {
            sessions.clear();
        }
    }

    pub(super) async fn wait_for_place(&self, deadline: &Deadline) -> Result<(), TakeError> {
        if self.waiting.get() >= self.most_waiting() {
            self.stats.busy.add(1);
            return Err(TakeError::Busy);
        }
        self.waiting.set(self.waiting.get() + 1);
        // Also if the client leaves meanwhile.
        let waiting = Waiting(&self.waiting);
        let freed = self.within_connect_timeout(deadline, self.freed.notified()).await;
        drop(waiting);
        freed.map_err(|_| {
            self.stats.busy.add(1);
            TakeError::Busy
        })
    }

    async fn connect(self: &Rc<Self>, deadline: &Deadline) -> Result<Box<Connection>, TakeError> {
        let (stream, mut place) = self.open_place(deadline).await?;
        place.take();
        Ok(Connection::new(stream, false, Owner::Target(place)))
    }

    /// Connects, without saying yet that there is a connection.
    pub(super) async fn open_place(
        self: &Rc<Self>,
        deadline: &Deadline,
    ) -> Result<(Stream, Place), TakeError> {
        self.open.set(self.open.get() + 1);
        let place = Place { target: Rc::clone(self), taken: false };
        self.stats.connects.add(1);
        let stream = self
            .within_connect_timeout(deadline, self.open_stream())
            .await
            .map_err(TakeError::Late)?
            .map_err(TakeError::Connect)?;
        Ok((stream, place))
    }

    pub(super) async fn within_connect_timeout<T>(
        &self,
        deadline: &Deadline,
        work: impl Future<Output = T>,
    ) -> Result<T, Expired> {
        let mut work = std::pin::pin!(work);
        deadline.progress();
        poll_fn(|cx| {
            if let Poll::Ready(done) = work.as_mut().poll(cx) {
                return Poll::Ready(Ok(done));
            }
            deadline.poll(cx, Wait::Connect, self.connect_timeout).map(Err)
        })
        .await
    }

    async fn open_stream(&self) -> io::Result<Stream> {
        let tcp = match self.address {
            Some(address) => TcpStream::connect(address).await?,
            None => Box::pin(self.connect_by_name()).await?,
        };
        tcp.set_nodelay(true)?;
        let Some(Tls { connector, name }) = &self.tls else { return Ok(Stream::tcp(tcp)) };
        let connector = TlsConnector::from(std::sync::Arc::clone(connector));
        let stream = Stream::client_tls(connector.connect(name.clone(), tcp).await?);
        if self.sessions.is_some() && stream.protocol().as_deref() != Some(b"h2") {
            return Err(io::Error::other("the server does not support HTTP/2"));
        }
        Ok(stream)
    }

    /// Tries every address of the name in turn. One that does not answer costs half of the time
    /// that is left, so that there is some for the next.
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
        self.doubt_addresses();
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

    /// One to a leased agent.
    pub(crate) fn to_agent(stream: Stream, reused: bool, hold: LeaseGuard) -> Box<Self> {
        Self::new(stream, reused, Owner::Agent(hold))
    }

    /// What holds the agent it leads to, if it leads to one.
    pub(crate) fn hold(&mut self) -> Option<&mut LeaseGuard> {
        match &mut self.owner {
            Owner::Target(_) => None,
            Owner::Agent(hold) => Some(hold),
        }
    }

    /// Reads more; 0 is the end.
    pub(crate) fn poll_fill(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let polled = self.stream.poll_read(cx, self.buffer.room(self.large));
        if let Poll::Ready(Ok(count)) = polled {
            self.buffer.grown(count);
        }
        self.buffer.release_if_empty();
        polled
    }

    /// Another connection to the same agent takes its place.
    pub(crate) fn replace_stream(&mut self, stream: Stream) {
        (self.stream, self.reused, self.buffer) = (stream, false, Buffer::default());
    }

    /// The answer did not come as it should.
    pub(crate) fn failed(self, how: Failed) {
        match self.owner {
            Owner::Target(place) => place.target.health.failed(Instant::now()),
            Owner::Agent(hold) => match how {
                Failed::Closed => hold.probe(),
                Failed::Garbage | Failed::Late => hold.kill(),
            },
        }
    }

    /// The answer is whole, but the connection is of no more use.
    pub(crate) fn close(self) {
        if let Owner::Agent(hold) = self.owner {
            hold.close();
        }
    }

    /// Keeps it for the next request, if there is room.
    pub(crate) fn keep(self: Box<Self>) {
        let target = match &self.owner {
            Owner::Target(place) => Rc::clone(&place.target),
            Owner::Agent(_) => return self.keep_to_agent(),
        };
        let room = !target.retired.get() && target.idle.borrow().len() < target.most_idle;
        if self.buffer.is_empty() && room {
            target.stats.idle.add(1);
            target
                .idle
                .borrow_mut()
                .push_back(Idle { connection: self, since: target.sweeps.get() });
            // Somebody may be waiting for a place, which this connection can be.
            if target.waiting.get() > 0 {
                target.freed.notify_one();
            }
        }
    }

    fn keep_to_agent(self) {
        let Self { stream, buffer, owner, .. } = self;
        match owner {
            Owner::Agent(hold) if buffer.is_empty() => hold.keep(stream),
            Owner::Agent(hold) => hold.close(),
            Owner::Target(_) => {}
        }
    }

    /// Neither closed nor talking out of turn. Costs no system call unless something came.
    fn is_quiet(&self) -> bool {
        self.stream.is_quiet()
    }
}
