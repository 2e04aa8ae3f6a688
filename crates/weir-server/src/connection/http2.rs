//! HTTP/2: every stream is a request like any other.
//!
//! The `h2` crate reads and writes the frames. Each stream has its own task, which waits for the
//! send window: deadlines hold while the client grants none.

mod head;
mod keep_alive;
mod stream;

use super::Start;
use bytes::Bytes;
use h2::server::{Builder, Connection};
use keep_alive::{KeepAlive, Watched};
use std::cell::Cell;
use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;
use weir_config::Limits;
use weir_gateway::worker::{Phase, Worker};
use weir_http::buffer::Buffer;
use weir_http::deadline::{Deadline, Wait};
use weir_http::stream::{PrefixedStream, Stream};

/// Largest DATA frame a client may send.
const FRAME: u32 = 16 * 1024;
/// Receive windows of a stream and of a connection, in bytes.
const STREAM_WINDOW: u32 = 256 * 1024;
const CONNECTION_WINDOW: u32 = 1024 * 1024;
/// Maximum number of bytes of one response that wait for the socket.
const SEND_BUFFER: usize = 128 * 1024;
/// Limit on a client without open streams after GOAWAY.
const FAREWELL: Duration = Duration::from_secs(2);

/// Serves a connection until it is closed.
///
/// Boxed: the state of HTTP/2 is large, and most connections do not need it.
pub(super) fn serve(
    start: Start,
    front: Buffer,
    stream: Stream,
) -> Pin<Box<impl Future<Output = ()>>> {
    Box::pin(run(start, front, stream))
}

async fn run(start: Start, front: Buffer, stream: Stream) {
    let worker = start.worker;
    let limits = worker.live().site.config.limits;
    let https = stream.is_tls();
    let (io, alive) = Watched::new(PrefixedStream::new(front, stream));
    let mut builder = Builder::new();
    builder
        .max_concurrent_streams(limits.http2_streams)
        .max_header_list_size(limits.header_bytes.min(1 << 24) as u32)
        .initial_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_frame_size(FRAME)
        .max_send_buffer_size(SEND_BUFFER);
    let idle = Deadline::default();
    let handshake = idle.within(Wait::Idle, limits.idle, builder.handshake(io));
    let Ok(Ok(mut connection)) = handshake.await else { return };
    idle.progress();
    let Some(ping) = connection.ping_pong() else { return };
    let mut served = Served {
        worker,
        limits,
        open: Rc::new(Cell::new(0)),
        idle,
        keep_alive: KeepAlive::new(alive, ping),
        reserve: start.reserve,
        leaving: false,
    };
    let _watch = poll_fn(|cx| Poll::Ready(worker.watch_phase(cx.waker().clone()))).await;
    poll_fn(|cx| {
        loop {
            match connection.poll_accept(cx) {
                Poll::Ready(Some(Ok((request, response)))) => {
                    let open = InFlight::new(&served.open);
                    let request = stream::Request { https, limits, request, response };
                    tokio::task::spawn_local(stream::serve(start.clone(), request, open));
                }
                Poll::Ready(Some(Err(_)) | None) => return Poll::Ready(()),
                Poll::Pending => match served.poll(&mut connection, cx) {
                    Poll::Ready(Then::Close) => return Poll::Ready(()),
                    // The PING is to be written.
                    Poll::Ready(Then::Write) => {}
                    Poll::Pending => return Poll::Pending,
                },
            }
        }
    })
    .await;
}

/// A connection between frames.
struct Served {
    worker: &'static Worker,
    limits: Limits,
    /// Number of open streams.
    open: Rc<Cell<usize>>,
    idle: Deadline,
    keep_alive: KeepAlive,
    /// Its descriptor is one of the last: it is closed as soon as possible.
    reserve: bool,
    /// GOAWAY has been sent.
    leaving: bool,
}

/// The next step of a connection.
enum Then {
    /// Frames wait to be written.
    Write,
    Close,
}

impl Served {
    /// Waits until the connection has been idle for too long, has to be drained or is dead.
    fn poll(
        &mut self,
        connection: &mut Connection<Watched, Bytes>,
        cx: &mut Context<'_>,
    ) -> Poll<Then> {
        let (wait, limit) = if self.leaving {
            (Wait::LastChance, FAREWELL)
        } else {
            (Wait::Idle, self.limits.idle)
        };
        let idle_ended = if self.open.get() == 0 {
            self.idle.poll(cx, wait, limit).is_ready()
        } else {
            self.idle.progress();
            false
        };
        if self.leaving && idle_ended {
            // `h2` would wait for a silent client until pings fail.
            return Poll::Ready(Then::Close);
        }
        let ends = idle_ended || self.reserve || self.worker.phase() >= Phase::Draining;
        if !self.leaving && ends {
            connection.graceful_shutdown();
            self.leaving = true;
            return Poll::Ready(Then::Write);
        }
        self.keep_alive.poll(cx).map(|alive| if alive { Then::Write } else { Then::Close })
    }
}

/// Counts the streams of a connection.
struct InFlight(Rc<Cell<usize>>);

impl InFlight {
    fn new(open: &Rc<Cell<usize>>) -> Self {
        open.set(open.get() + 1);
        Self(Rc::clone(open))
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}
