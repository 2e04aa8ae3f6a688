//! HTTP/2 connections to a target: each carries many requests at once.
//!
//! Each has a task of its own that reads and writes frames, as its requests are served by several
//! connections of clients. It ends when nobody can send over it any more and its last stream is over.

use super::connection::Place;
use super::{TakeError, Target};
use crate::deadline::Deadline;
use crate::stream::Rewound;
use bytes::Bytes;
use h2::client::{Builder, SendRequest};
use std::cell::{Cell, RefCell};
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

/// Most requests at once over one connection, if the target allows as many.
const STREAMS: usize = 100;
/// Room a target may fill before weir has read on, for one stream and for all of a connection.
const STREAM_WINDOW: u32 = 256 * 1024;
const CONNECTION_WINDOW: u32 = 1024 * 1024;
/// Largest head of an answer in bytes.
const HEAD: u32 = 64 * 1024;

/// The connections that one worker has to a target.
#[derive(Default)]
pub(super) struct Sessions {
    list: RefCell<Vec<Session>>,
    /// Somebody is making one, which others may wait for.
    connecting: Cell<bool>,
    /// Requests in flight.
    streams: Cell<usize>,
    /// Connections made so far.
    made: Cell<usize>,
}

struct Session {
    number: usize,
    peer: Option<SocketAddr>,
    send: SendRequest<Bytes>,
    /// Requests it carries.
    streams: Rc<Cell<usize>>,
    /// In sweeps of its target: since when it has had nothing to do.
    idle: Option<u64>,
}

impl std::fmt::Debug for Sessions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sessions").field("streams", &self.streams.get()).finish_non_exhaustive()
    }
}

/// A place for one request on a connection to a target; given up when dropped.
#[derive(Debug)]
pub(crate) struct Seat {
    target: Rc<Target>,
    number: usize,
    streams: Rc<Cell<usize>>,
    /// It has carried requests before: the target may have closed it meanwhile.
    pub(crate) reused: bool,
}

impl Seat {
    pub(crate) fn target(&self) -> &Rc<Target> {
        &self.target
    }

    /// The connection does not answer: no other request gets it.
    pub(crate) fn abandon(&self) {
        if let Some(sessions) = &self.target.sessions {
            sessions.forget(self.number);
        }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.streams.set(self.streams.get() - 1);
        let Some(sessions) = &self.target.sessions else { return };
        sessions.streams.set(sessions.streams.get() - 1);
        if self.target.waiting.get() > 0 {
            self.target.freed.notify_one();
        }
    }
}

/// Somebody makes a connection, until dropped.
struct Connecting<'t>(&'t Target, &'t Cell<bool>);

impl Drop for Connecting<'_> {
    fn drop(&mut self) {
        self.1.set(false);
        self.0.freed.notify_waiters();
    }
}

impl Sessions {
    /// Requests in flight.
    pub(super) fn busy(&self) -> usize {
        self.streams.get()
    }

    fn forget(&self, number: usize) {
        self.list.borrow_mut().retain(|one| one.number != number);
    }

    /// Lets connections go that have had nothing to do for so many sweeps.
    pub(super) fn sweep(&self, now: u64, patience: Duration) {
        self.list.borrow_mut().retain_mut(|one| {
            if one.streams.get() > 0 {
                one.idle = None;
                return true;
            }
            let since = *one.idle.get_or_insert(now);
            Duration::from_secs(now - since) < patience
        });
    }

    /// Keeps those that lead to where they should; the others go as soon as they have nothing to do.
    pub(super) fn retain(&self, mut should: impl FnMut(Option<SocketAddr>) -> bool) {
        self.list.borrow_mut().retain(|one| should(one.peer));
    }

    /// Each goes as soon as it has nothing to do.
    pub(super) fn clear(&self) {
        self.list.borrow_mut().clear();
    }
}

impl Target {
    /// Most requests that wait for a place.
    pub(super) fn most_waiting(&self) -> usize {
        let each = if self.sessions.is_some() { STREAMS } else { 1 };
        self.most.saturating_mul(each)
    }

    /// A place on a connection, and what requests are sent over it with.
    pub(crate) async fn seat(
        self: &Rc<Self>,
        deadline: &Deadline,
    ) -> Result<(Seat, SendRequest<Bytes>), TakeError> {
        let sessions = self.sessions.as_ref().ok_or(TakeError::Busy)?;
        loop {
            if let Some(found) = self.free_seat(sessions, true) {
                self.stats.reused.add(1);
                return Ok(found);
            }
            if !sessions.connecting.get() && self.open.get() < self.most {
                sessions.connecting.set(true);
                let made = Connecting(self, &sessions.connecting);
                Box::pin(self.open_session(sessions, deadline)).await?;
                drop(made);
                if let Some(found) = self.free_seat(sessions, false) {
                    return Ok(found);
                }
                continue;
            }
            Box::pin(self.wait_for_place(deadline)).await?;
        }
    }

    fn free_seat(
        self: &Rc<Self>,
        sessions: &Sessions,
        reused: bool,
    ) -> Option<(Seat, SendRequest<Bytes>)> {
        let mut list = sessions.list.borrow_mut();
        let session = list
            .iter_mut()
            .find(|one| one.streams.get() < one.send.current_max_send_streams().min(STREAMS))?;
        session.idle = None;
        let streams = Rc::clone(&session.streams);
        streams.set(streams.get() + 1);
        sessions.streams.set(sessions.streams.get() + 1);
        let seat = Seat { target: Rc::clone(self), number: session.number, streams, reused };
        Some((seat, session.send.clone()))
    }

    async fn open_session(
        self: &Rc<Self>,
        sessions: &Sessions,
        deadline: &Deadline,
    ) -> Result<(), TakeError> {
        let (stream, mut place) = self.open_place(deadline).await?;
        let peer = stream.peer();
        let mut builder = Builder::new();
        builder
            .initial_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .max_header_list_size(HEAD)
            .max_concurrent_streams(0)
            .enable_push(false);
        let io = Rewound::new(crate::buffer::Buffer::default(), stream);
        let shaken = self.within_connect_timeout(deadline, builder.handshake::<_, Bytes>(io));
        let (send, connection) = shaken
            .await
            .map_err(TakeError::Late)?
            .map_err(|error| TakeError::Connect(io::Error::other(error)))?;
        place.take();
        let number = sessions.made.get();
        sessions.made.set(number + 1);
        sessions.list.borrow_mut().push(Session {
            number,
            peer,
            send,
            streams: Rc::default(),
            idle: None,
        });
        tokio::task::spawn_local(drive(Rc::clone(self), number, connection, place));
        Ok(())
    }
}

/// Reads and writes the frames of a connection until it is over.
async fn drive(
    target: Rc<Target>,
    number: usize,
    connection: h2::client::Connection<Rewound, Bytes>,
    place: Place,
) {
    // Whoever waits for an answer is told of the error.
    let _ = connection.await;
    if let Some(sessions) = &target.sessions {
        sessions.forget(number);
    }
    drop(place);
}
