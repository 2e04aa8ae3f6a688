//! HTTP/2 connections to a target: each carries many requests at once.
//!
//! Each connection has a task that reads and writes frames, as its streams belong to several client
//! connections. The task ends when no request can be sent over the connection any more and the last
//! stream has ended.

use crate::Target;
use crate::connection::{CheckOutError, ConnectionPermit};
use bytes::Bytes;
use h2::client::{Builder, SendRequest};
use std::cell::{Cell, RefCell};
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;
use weir_http::deadline::{Deadline, Wait};
use weir_http::stream::PrefixedStream;

/// Maximum number of concurrent streams per connection, if the target permits as many.
const MAX_STREAMS: usize = 100;
/// Flow-control windows in bytes, of a stream and of a connection.
const STREAM_WINDOW: u32 = 256 * 1024;
const CONNECTION_WINDOW: u32 = 1024 * 1024;
/// Maximum length of the head of a response in bytes.
const MAX_HEAD_BYTES: u32 = 64 * 1024;

/// The connections of one worker to a target.
#[derive(Default)]
pub(crate) struct Http2Connections {
    list: RefCell<Vec<Http2Connection>>,
    /// Whether a connection is being opened, which requests may wait for.
    connecting: Cell<bool>,
    /// Requests in flight.
    streams: Cell<usize>,
    /// Number of connections opened.
    opened: Cell<usize>,
}

struct Http2Connection {
    number: usize,
    peer: Option<SocketAddr>,
    send: SendRequest<Bytes>,
    /// Number of streams of the connection.
    streams: Rc<Cell<usize>>,
    /// Start of the idle time, in ticks of its target.
    idle: Option<u64>,
}

impl std::fmt::Debug for Http2Connections {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Http2Connections")
            .field("streams", &self.streams.get())
            .finish_non_exhaustive()
    }
}

/// Permit for a stream on a connection to a target; released on drop.
#[derive(Debug)]
pub(crate) struct StreamPermit {
    target: Rc<Target>,
    number: usize,
    streams: Rc<Cell<usize>>,
    /// Whether the connection has carried requests before: the target may have closed it meanwhile.
    pub reused: bool,
}

impl StreamPermit {
    /// The target of the connection.
    pub(crate) fn target(&self) -> &Rc<Target> {
        &self.target
    }

    /// The connection does not respond: it gets no further requests.
    pub(crate) fn abandon(&self) {
        if let Some(http2) = &self.target.http2 {
            http2.remove(self.number);
        }
    }
}

impl Drop for StreamPermit {
    fn drop(&mut self) {
        self.streams.set(self.streams.get() - 1);
        let Some(http2) = &self.target.http2 else { return };
        http2.streams.set(http2.streams.get() - 1);
        if self.target.pending.get() > 0 {
            self.target.released.notify_one();
        }
    }
}

/// Marks that a connection is being opened, until dropped.
struct Connecting<'t>(&'t Target, &'t Cell<bool>);

impl Drop for Connecting<'_> {
    fn drop(&mut self) {
        self.1.set(false);
        self.0.released.notify_waiters();
    }
}

impl Http2Connections {
    /// Requests in flight.
    pub(crate) fn busy(&self) -> usize {
        self.streams.get()
    }

    fn remove(&self, number: usize) {
        self.list.borrow_mut().retain(|one| one.number != number);
    }

    /// Evicts connections that have been idle for `keep_alive`, at tick `now`.
    pub(crate) fn evict_idle(&self, now: u64, keep_alive: Duration) {
        self.list.borrow_mut().retain_mut(|one| {
            if one.streams.get() > 0 {
                one.idle = None;
                return true;
            }
            let since = *one.idle.get_or_insert(now);
            Duration::from_secs(now - since) < keep_alive
        });
    }

    /// Keeps connections to addresses that `should` stay; the others are drained.
    pub(crate) fn retain(&self, mut should: impl FnMut(Option<SocketAddr>) -> bool) {
        self.list.borrow_mut().retain(|one| should(one.peer));
    }

    /// Drains all connections.
    pub(crate) fn drain(&self) {
        self.list.borrow_mut().clear();
    }
}

impl Target {
    /// Maximum number of pending requests.
    pub(crate) fn max_pending(&self) -> usize {
        let each = if self.http2.is_some() { MAX_STREAMS } else { 1 };
        self.max_connections.saturating_mul(each)
    }

    /// A permit for a stream, and the handle that sends its request.
    pub(super) async fn open_stream(
        self: &Rc<Self>,
        deadline: &Deadline,
    ) -> Result<(StreamPermit, SendRequest<Bytes>), CheckOutError> {
        let http2 = self.http2.as_ref().ok_or(CheckOutError::Busy)?;
        loop {
            if let Some(found) = self.try_open_stream(http2, true) {
                self.stats.reused.add(1);
                return Ok(found);
            }
            if !http2.connecting.get() && self.open.get() < self.max_connections {
                http2.connecting.set(true);
                let connecting = Connecting(self, &http2.connecting);
                Box::pin(self.connect_http2(http2, deadline)).await?;
                drop(connecting);
                if let Some(found) = self.try_open_stream(http2, false) {
                    return Ok(found);
                }
                continue;
            }
            Box::pin(self.wait_for_permit(deadline)).await?;
        }
    }

    fn try_open_stream(
        self: &Rc<Self>,
        http2: &Http2Connections,
        reused: bool,
    ) -> Option<(StreamPermit, SendRequest<Bytes>)> {
        let mut list = http2.list.borrow_mut();
        let connection = list
            .iter_mut()
            .find(|one| one.streams.get() < one.send.current_max_send_streams().min(MAX_STREAMS))?;
        connection.idle = None;
        let streams = Rc::clone(&connection.streams);
        streams.set(streams.get() + 1);
        http2.streams.set(http2.streams.get() + 1);
        let permit =
            StreamPermit { target: Rc::clone(self), number: connection.number, streams, reused };
        Some((permit, connection.send.clone()))
    }

    async fn connect_http2(
        self: &Rc<Self>,
        http2: &Http2Connections,
        deadline: &Deadline,
    ) -> Result<(), CheckOutError> {
        let (stream, mut permit) = self.connect_with_permit(deadline).await?;
        let peer = stream.peer();
        let mut builder = Builder::new();
        builder
            .initial_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .max_header_list_size(MAX_HEAD_BYTES)
            .max_concurrent_streams(0)
            .enable_push(false);
        let io = PrefixedStream::new(weir_http::buffer::Buffer::default(), stream);
        let handshake = builder.handshake::<_, Bytes>(io);
        let (send, connection) = deadline
            .within(Wait::Connect, self.connect_timeout, handshake)
            .await
            .map_err(CheckOutError::TimedOut)?
            .map_err(|error| CheckOutError::Connect(io::Error::other(error)))?;
        permit.occupy();
        let number = http2.opened.get();
        http2.opened.set(number + 1);
        http2.list.borrow_mut().push(Http2Connection {
            number,
            peer,
            send,
            streams: Rc::default(),
            idle: None,
        });
        tokio::task::spawn_local(run_connection(Rc::clone(self), number, connection, permit));
        Ok(())
    }
}

/// Reads and writes the frames of a connection until its end.
async fn run_connection(
    target: Rc<Target>,
    number: usize,
    connection: h2::client::Connection<PrefixedStream, Bytes>,
    permit: ConnectionPermit,
) {
    // Requests in flight get the error.
    let _ = connection.await;
    if let Some(http2) = &target.http2 {
        http2.remove(number);
    }
    drop(permit);
}
