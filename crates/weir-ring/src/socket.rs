//! A connected stream socket on the ring of its thread.

use crate::bytes::{Bytes, append};
use crate::kernel::{BUFFER_BYTES, Key, Order, Received, watch};
use crate::ring::{Member, Ring, Unsent};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags, Shutdown};
use std::cell::{Cell, RefCell};
use std::fmt;
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker, ready};
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::task::coop::poll_proceed;
use tokio::task::{AbortHandle, spawn_local};
use tokio::time::timeout;

/// Messages up to this size in bytes are copied, and sent with those of other sockets; larger ones are sent
/// by a call of their own.
const MAX_COPIED: usize = 8 << 10;
/// Most bytes of a socket that wait to be sent.
const MAX_UNSENT: usize = 64 << 10;
/// How long the peer of a dropped socket may take to accept the rest.
const ORPHAN_TIME: Duration = Duration::from_secs(30);
/// How often that is looked at.
const ORPHAN_INTERVAL: Duration = Duration::from_secs(1);

/// A connected stream socket, TCP or Unix.
///
/// Bytes that were written are sent at the end of the thread's turn; an error is reported by the next
/// write, flush or shutdown. After a drop what was written is still sent, as with every socket, for 30 s at most;
/// if too many dropped sockets wait for their peers already, the connection is reset.
#[derive(Debug)]
pub struct Socket {
    shared: Rc<Shared>,
    /// To be reset on drop.
    is_reset: Cell<bool>,
}

/// What a socket shares with its operations.
pub(crate) struct Shared {
    fd: OwnedFd,
    ring: Rc<Ring<Shared>>,
    read: RefCell<ReadSide>,
    write: RefCell<WriteSide>,
    /// When the socket was dropped.
    dropped: Cell<Option<Instant>>,
}

#[derive(Debug, Default)]
struct ReadSide {
    state: Reading,
    /// There may be bytes that a call would return at once.
    more: bool,
    /// The last call returned more than a provided buffer holds: the reader is in a long message, whose bytes
    /// are better received where they are to be than copied.
    is_long: bool,
    waker: Option<Waker>,
}

#[derive(Debug, Default)]
enum Reading {
    #[default]
    Idle,
    Started(Key),
    Received(Bytes),
    Ended,
    Failed(Errno),
}

#[derive(Debug, Default)]
struct WriteSide {
    /// Bytes behind those of the send in progress.
    unsent: Vec<u8>,
    /// The ring is to send them at the end of the turn.
    is_due: bool,
    is_sending: bool,
    /// The task that waits until the socket accepts bytes.
    blocked: Option<AbortHandle>,
    /// Dropped while it waited for that: one of the bounded number.
    is_orphan: bool,
    error: Option<Errno>,
    waker: Option<Waker>,
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The ring knows its sockets.
        f.debug_struct("Shared").field("fd", &self.fd).finish_non_exhaustive()
    }
}

impl WriteSide {
    /// Whether a send may begin.
    fn can_send(&self) -> bool {
        !self.is_sending
            && self.blocked.is_none()
            && self.error.is_none()
            && !self.unsent.is_empty()
    }

    /// Nothing is sent any more.
    fn fail(&mut self, error: Errno) {
        self.error = Some(error);
        self.unsent.clear();
    }
}

impl AsRawFd for Shared {
    fn as_raw_fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }
}

impl AsFd for Shared {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// What waits to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readable {
    /// Bytes.
    Data,
    /// The peer has closed its direction.
    End,
    /// The connection has failed.
    Failed,
}

impl Member for Shared {
    fn take_unsent(&self) -> Option<Unsent> {
        let write = &mut *self.write.borrow_mut();
        write.is_due = false;
        write.is_sending = write.can_send();
        write.is_sending.then(|| Unsent {
            bytes: std::mem::take(&mut write.unsent),
            is_awaited: write.waker.is_some(),
        })
    }

    fn sent(self: Rc<Self>, memory: Vec<u8>, count: Result<usize, Errno>) {
        let waker = {
            let write = &mut *self.write.borrow_mut();
            write.is_sending = false;
            match count {
                Ok(count) if count >= memory.len() => {}
                Ok(_) | Err(Errno::AGAIN) => {
                    let rest = &memory[count.unwrap_or(0)..];
                    write.unsent.splice(..0, rest.iter().copied());
                    self.wait_until_writable(write);
                }
                Err(error) => write.fail(error),
            }
            self.send_later(write);
            write.waker.take()
        };
        self.ring.release_memory(memory);
        wake(waker);
    }

    fn received(&self, bytes: Result<Option<Received>, Errno>, more: bool, keep: bool) {
        let waker = {
            let read = &mut *self.read.borrow_mut();
            // Without a buffer a call finds out: another receive might have none either.
            read.more = more || matches!(bytes, Err(Errno::NOBUFS));
            read.state = match bytes {
                // Nobody reads them.
                Ok(Some(_)) if self.dropped.get().is_some() => Reading::Ended,
                Ok(Some(received)) if keep => Reading::Received(Bytes::Provided(received)),
                Ok(Some(received)) => Reading::Received(Bytes::Own(received.to_vec(), 0)),
                Ok(None) => Reading::Ended,
                Err(Errno::NOBUFS) => Reading::Idle,
                Err(error) => Reading::Failed(error),
            };
            read.waker.take()
        };
        wake(waker);
    }

    fn readable(&self, outcome: Result<(), Errno>) {
        let waker = {
            let read = &mut *self.read.borrow_mut();
            if matches!(read.state, Reading::Started(_)) {
                read.state = outcome.map_or_else(Reading::Failed, |()| Reading::Idle);
                read.more = true;
            }
            read.waker.take()
        };
        wake(waker);
    }
}

impl Shared {
    /// Has the ring send what is unsent at the end of the turn, unless a send is in progress.
    fn send_later(self: &Rc<Self>, write: &mut WriteSide) {
        if !write.is_due && write.can_send() {
            write.is_due = true;
            self.ring.send_later(Rc::clone(self));
        }
    }

    /// Lets writers wait until the socket accepts bytes.
    fn wait_until_writable(self: &Rc<Self>, write: &mut WriteSide) {
        if self.ring.is_over() {
            return write.fail(Errno::CANCELED);
        }
        if write.blocked.is_none() {
            self.ring.count_blocked(1);
            write.blocked = Some(spawn_local(unblock(Rc::clone(self))).abort_handle());
            if self.dropped.get().is_some() {
                self.orphan(write);
            }
        }
    }

    /// The dropped socket waits until its peer takes the rest, and counts until it is closed; resets the
    /// connection if too many do.
    fn orphan(&self, write: &mut WriteSide) {
        if write.is_orphan {
            return;
        }
        write.is_orphan = self.ring.add_orphan();
        if !write.is_orphan {
            self.reset();
            write.fail(Errno::NOBUFS);
            self.forget_blocked(write);
        }
    }

    /// Has the connection be reset when its descriptor is closed.
    fn reset(&self) {
        // Fails if the connection is closed already.
        let _ = rustix::net::sockopt::set_socket_linger(&self.fd, Some(Duration::ZERO));
    }

    /// The socket accepts bytes, or is given up.
    fn unblocked(self: &Rc<Self>, outcome: Result<(), Errno>) {
        let waker = {
            let write = &mut *self.write.borrow_mut();
            self.forget_blocked(write);
            if let Err(error) = outcome {
                // Its peer must not take what has arrived for all.
                self.reset();
                write.fail(error);
            }
            self.send_later(write);
            write.waker.take()
        };
        wake(waker);
    }

    fn forget_blocked(&self, write: &mut WriteSide) {
        if let Some(task) = write.blocked.take() {
            self.ring.count_blocked(-1);
            task.abort();
        }
    }

    /// Whether a dropped socket has had its time to send the rest.
    fn is_given_up(&self) -> bool {
        self.dropped.get().is_some_and(|since| since.elapsed() >= ORPHAN_TIME)
    }

    /// Starts a receive, or in a long message the wait for one, unless bytes, the end or an error are there.
    fn start_receive(self: &Rc<Self>, read: &mut ReadSide) {
        if matches!(read.state, Reading::Idle) {
            let order = if read.is_long { Order::Wait } else { Order::Receive };
            read.state = Reading::Started(self.ring.start(Rc::clone(self), order));
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        if self.write.get_mut().is_orphan {
            self.ring.remove_orphan();
        }
    }
}

/// Waits until a socket accepts bytes, also after its drop. By the runtime: a wait of io_uring ends for a peer
/// that has closed its own direction, too.
async fn unblock(shared: Rc<Shared>) {
    let outcome = match watch(Rc::clone(&shared), Interest::WRITABLE) {
        Err(error) => Err(Errno::from_io_error(&error).unwrap_or(Errno::IO)),
        Ok(watched) => loop {
            if shared.is_given_up() {
                break Err(Errno::TIMEDOUT);
            }
            match timeout(ORPHAN_INTERVAL, watched.writable()).await {
                Ok(Ok(_)) => break Ok(()),
                Ok(Err(_)) => break Err(Errno::CANCELED),
                Err(_) => {}
            }
        },
    };
    shared.unblocked(outcome);
}

/// Wakes a task, while nothing of the socket is borrowed.
fn wake(waker: Option<Waker>) {
    if let Some(waker) = waker {
        waker.wake();
    }
}

fn wait(waker: &mut Option<Waker>, cx: &Context<'_>) {
    match waker {
        Some(waker) => waker.clone_from(cx.waker()),
        None => *waker = Some(cx.waker().clone()),
    }
}

impl Socket {
    pub(crate) fn new(ring: Rc<Ring<Shared>>, fd: OwnedFd) -> Self {
        let (read, write) = Default::default();
        let shared = Rc::new(Shared { fd, ring, read, write, dropped: Cell::default() });
        Self { shared, is_reset: Cell::default() }
    }

    /// Notices from now on what the peer does, so that a read without a task finds it.
    pub fn watch(&self) {
        let read = &mut *self.shared.read.borrow_mut();
        // Otherwise such a read asks the system.
        if !read.more {
            self.shared.start_receive(read);
        }
    }

    /// Waits until there is something to read, without reading.
    pub fn poll_readable(&self, cx: &mut Context<'_>) -> Poll<Readable> {
        let read = &mut *self.shared.read.borrow_mut();
        if read.more && matches!(read.state, Reading::Idle) {
            match peek(&self.shared.fd) {
                Ok(0) => read.state = Reading::Ended,
                Ok(_) => return Poll::Ready(Readable::Data),
                Err(Errno::AGAIN | Errno::INTR) => read.more = false,
                Err(error) => read.state = Reading::Failed(error),
            }
        }
        self.shared.start_receive(read);
        match &read.state {
            Reading::Received(_) => Poll::Ready(Readable::Data),
            Reading::Ended => Poll::Ready(Readable::End),
            Reading::Failed(_) => Poll::Ready(Readable::Failed),
            Reading::Idle | Reading::Started(_) => {
                wait(&mut read.waker, cx);
                Poll::Pending
            }
        }
    }

    /// Whether writers wait until the socket accepts bytes.
    #[cfg(test)]
    pub(crate) fn is_blocked(&self) -> bool {
        self.shared.write.borrow().blocked.is_some()
    }

    /// Reads as [`AsyncRead`] does. Calls of its own are part of the budget of a task.
    fn poll_read_shared(
        &self,
        cx: &mut Context<'_>,
        room: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if room.remaining() == 0 {
            return Poll::Ready(Ok(()));
        }
        let read = &mut *self.shared.read.borrow_mut();
        loop {
            match &mut read.state {
                Reading::Received(bytes) => {
                    let count = bytes.rest().len().min(room.remaining());
                    room.put_slice(&bytes.rest()[..count]);
                    bytes.consume(count);
                    if bytes.rest().is_empty() {
                        read.state = Reading::Idle;
                    }
                    return Poll::Ready(Ok(()));
                }
                Reading::Ended => return Poll::Ready(Ok(())),
                Reading::Failed(error) => return Poll::Ready(Err((*error).into())),
                Reading::Idle if read.more => {
                    let progress = ready!(poll_proceed(cx));
                    match receive(&self.shared.fd, room) {
                        Ok(0) => read.state = Reading::Ended,
                        Ok(count) => {
                            progress.made_progress();
                            read.is_long = count > BUFFER_BYTES;
                            // What fits the room may be all.
                            read.more = room.remaining() == 0;
                            return Poll::Ready(Ok(()));
                        }
                        Err(Errno::AGAIN) => read.more = false,
                        Err(Errno::INTR) => {}
                        Err(error) => read.state = Reading::Failed(error),
                    }
                }
                Reading::Idle => self.shared.start_receive(read),
                Reading::Started(_) => {
                    wait(&mut read.waker, cx);
                    return Poll::Pending;
                }
            }
        }
    }

    /// Writes as [`AsyncWrite`] does.
    fn poll_write_shared(
        &self,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let write = &mut *self.shared.write.borrow_mut();
        if let Some(error) = write.error {
            return Poll::Ready(Err(error.into()));
        }
        let length: usize = parts.iter().map(|part| part.len()).sum();
        if length == 0 {
            return Poll::Ready(Ok(0));
        }
        if write.blocked.is_none() && !write.is_sending && write.unsent.len() + length > MAX_COPIED
        {
            let progress = ready!(poll_proceed(cx));
            match self.send(write, parts) {
                Ok(count) => {
                    progress.made_progress();
                    if count < length {
                        self.shared.wait_until_writable(write);
                    }
                    if count > 0 {
                        return Poll::Ready(Ok(count));
                    }
                }
                Err(Errno::AGAIN) => self.shared.wait_until_writable(write),
                Err(error) => {
                    write.fail(error);
                    return Poll::Ready(Err(error.into()));
                }
            }
        }
        let free = MAX_UNSENT.saturating_sub(write.unsent.len());
        if free == 0 || write.blocked.is_some() {
            wait(&mut write.waker, cx);
            return Poll::Pending;
        }
        if write.unsent.capacity() == 0 {
            write.unsent = self.shared.ring.take_memory();
        }
        let count = length.min(free);
        append(&mut write.unsent, parts, count);
        self.shared.send_later(write);
        Poll::Ready(Ok(count))
    }

    /// Sends what is unsent and then `parts`, in a call of its own; returns the number of bytes of `parts`.
    fn send(&self, write: &mut WriteSide, parts: &[IoSlice<'_>]) -> Result<usize, Errno> {
        let before = write.unsent.len();
        let sent = loop {
            let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
            let mut ancillary = SendAncillaryBuffer::default();
            let all: Vec<IoSlice<'_>>;
            let slices = if before == 0 {
                parts
            } else {
                all = std::iter::once(IoSlice::new(&write.unsent))
                    .chain(parts.iter().copied())
                    .collect();
                &all
            };
            match rustix::net::sendmsg(&self.shared.fd, slices, &mut ancillary, flags) {
                Err(Errno::INTR) => {}
                sent => break sent?,
            }
        };
        if before > 0 {
            write.unsent.drain(..sent.min(before));
            if write.unsent.is_empty() {
                self.shared.ring.release_memory(std::mem::take(&mut write.unsent));
            }
        }
        Ok(sent.saturating_sub(before))
    }

    /// Flushes as [`AsyncWrite`] does: what was written is on its way, as it is in the buffer of a socket.
    fn poll_flush_shared(&self) -> Poll<io::Result<()>> {
        let error = self.shared.write.borrow().error;
        Poll::Ready(error.map_or(Ok(()), |error| Err(error.into())))
    }

    /// Ends the writing side, once everything is sent.
    fn poll_shutdown_shared(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let write = &mut *self.shared.write.borrow_mut();
        if let Some(error) = write.error {
            return Poll::Ready(Err(error.into()));
        }
        if write.is_sending || !write.unsent.is_empty() {
            wait(&mut write.waker, cx);
            return Poll::Pending;
        }
        Poll::Ready(match rustix::net::shutdown(&self.shared.fd, Shutdown::Write) {
            Ok(()) | Err(Errno::NOTCONN) => Ok(()),
            Err(error) => Err(error.into()),
        })
    }

    /// Resets the connection on drop, without what is unsent.
    pub fn reset_on_drop(&self) {
        self.shared.reset();
        self.is_reset.set(true);
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.shared.fd.as_fd()
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        let ring = &self.shared.ring;
        let mut read = self.shared.read.borrow_mut();
        read.waker = None;
        if let Reading::Started(key) = read.state {
            ring.cancel(key);
        }
        read.state = Reading::Ended;
        self.shared.dropped.set(Some(Instant::now()));
        let write = &mut *self.shared.write.borrow_mut();
        write.waker = None;
        if self.is_reset.get() {
            write.unsent.clear();
            self.shared.forget_blocked(write);
        } else if write.blocked.is_some() {
            self.shared.orphan(write);
        }
    }
}

/// Reads what is there.
fn receive(fd: &OwnedFd, room: &mut ReadBuf<'_>) -> Result<usize, Errno> {
    let count = rustix::net::recv(fd, room.initialize_unfilled(), RecvFlags::DONTWAIT)?.0;
    room.advance(count);
    Ok(count)
}

/// Number of bytes that are there, 0 at the end, at most 1.
fn peek(fd: &OwnedFd) -> Result<usize, Errno> {
    Ok(rustix::net::recv(fd, &mut [0; 1], RecvFlags::DONTWAIT | RecvFlags::PEEK)?.1)
}

impl AsyncRead for Socket {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        room: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.poll_read_shared(cx, room)
    }
}

impl AsyncWrite for Socket {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_write_shared(cx, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.poll_write_shared(cx, parts)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_flush_shared()
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_shutdown_shared(cx)
    }
}
