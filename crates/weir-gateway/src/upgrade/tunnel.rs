//! Copies bytes in both directions between a client and an upstream that have switched to another
//! protocol.
//!
//! Each direction has one buffer, allocated only while it holds bytes: if one side does not read,
//! the other one waits. One timer limits both.

use super::WEBSOCKET;
use super::frames::{self, Frames};
use crate::context;
use crate::worker::{Live, Phase, Worker};
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};
use weir_http::buffer::Buffer;
use weir_http::clock;
use weir_http::deadline::{Deadline, Expired, Wait};
use weir_http::stream::Stream;
use weir_http::write_buffer::WriteBuffer;
use weir_telemetry::labels::UpgradeEnd;
use weir_upstream::Upgraded;
use weir_wire::{Known, ResponseHead, encode};

/// Idle timeout of a WebSocket after one side has closed: the other one is expected to respond with
/// its close frame at once.
const HALF_CLOSE_TIMEOUT: Duration = Duration::from_secs(10);
/// Status of the close frames of weir: going away (RFC 6455 section 7.4.1).
const GOING_AWAY: u16 = 1001;

/// The end of an upgraded connection.
pub struct TunnelReport {
    /// The reason.
    pub ended: UpgradeEnd,
    /// Bytes from the client.
    pub bytes_in: u64,
    /// Bytes to the client.
    pub bytes_out: u64,
    /// Properties of the transaction.
    pub properties: Vec<(String, String)>,
    /// weir has closed the connection: it lingers for the client.
    pub lingers: bool,
}

/// Serves an upgraded connection until it ends. `out` may hold bytes to be sent before the
/// `response`.
pub async fn run(
    (stream, buffer, out): (&Stream, &mut Buffer, &mut WriteBuffer),
    context: &context::Context<'_>,
    response: &ResponseHead,
    upgraded: Upgraded,
    idle: Duration,
) -> TunnelReport {
    let worker = context.worker;
    let _open = Open::new(worker);
    context.deadline.set_request(None);
    let mut tunnel = Tunnel::new(stream, buffer, upgraded, context);
    write_head(out, response, context.arrival.id.as_bytes());
    let ended = match send_head(stream, out, context.deadline, idle).await {
        true => {
            out.reset();
            poll_fn(|cx| tunnel.poll(cx)).await
        }
        false => UpgradeEnd::ClientReset,
    };
    worker.stats.upgrades[ended as usize].add(1);
    let lingers = matches!(
        ended,
        UpgradeEnd::Idle | UpgradeEnd::Lifetime | UpgradeEnd::Reload | UpgradeEnd::Stop
    );
    if lingers && tunnel.is_websocket {
        tunnel.send_close_frames();
    }
    match ended {
        // An aborted connection must not look as if it had ended in order.
        UpgradeEnd::UpstreamReset => stream.reset_on_drop(),
        UpgradeEnd::ClientReset => tunnel.upgraded.connection.stream.reset_on_drop(),
        _ => {}
    }
    TunnelReport {
        ended,
        bytes_in: tunnel.up.bytes,
        bytes_out: tunnel.down.bytes,
        properties: tunnel.properties(ended),
        lingers,
    }
}

fn write_head(out: &mut WriteBuffer, response: &ResponseHead, id: &[u8]) {
    let head = out.head();
    encode::status_line(head, response.status);
    encode::fields(head, &response.headers);
    encode::field(head, Known::WeirTransactionId.name(), id);
    head.extend_from_slice(b"\r\n");
}

/// Sends the head to the client; `false` if the client has disconnected.
async fn send_head(
    stream: &Stream,
    out: &mut WriteBuffer,
    deadline: &Deadline,
    idle: Duration,
) -> bool {
    deadline.progress();
    poll_fn(|cx| {
        while !out.is_empty() {
            match out.poll_write(stream, cx, b"") {
                Poll::Ready(Ok(_)) => {}
                Poll::Ready(Err(_)) => return Poll::Ready(false),
                Poll::Pending => return deadline.poll(cx, Wait::Client, idle).map(|_| false),
            }
        }
        out.poll_flush(stream, cx).map(|flushed| flushed.is_ok())
    })
    .await
}

/// Counts an open upgraded connection, until dropped.
struct Open(&'static Worker);

impl Open {
    fn new(worker: &'static Worker) -> Self {
        worker.stats.upgrades_open.add(1);
        Self(worker)
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.stats.upgrades_open.sub(1);
    }
}

/// Both directions.
struct Tunnel<'c> {
    worker: &'static Worker,
    live: &'c Rc<Live>,
    deadline: &'c Deadline,
    client: &'c Stream,
    /// Bytes from the client that are not sent yet.
    buffer: &'c mut Buffer,
    upgraded: Upgraded,
    is_websocket: bool,
    up: Direction,
    down: Direction,
    /// The configuration was reloaded.
    reloaded: bool,
    /// Deadline, and the reason for it.
    end: Option<(Instant, UpgradeEnd)>,
    /// The side that ended first.
    first: Option<UpgradeEnd>,
}

/// One direction.
#[derive(Default)]
struct Direction {
    bytes: u64,
    frames: Frames,
    /// More bytes were available than fit a small buffer.
    large: bool,
    /// Written bytes may be buffered: TLS keeps records back.
    unflushed: bool,
    /// The source has ended.
    ended: bool,
    /// The destination was shut down.
    shut_down: bool,
    /// Bytes moved since the last check.
    moved: bool,
}

/// The aborted side.
enum Aborted {
    From,
    To,
}

impl<'c> Tunnel<'c> {
    fn new(
        client: &'c Stream,
        buffer: &'c mut Buffer,
        upgraded: Upgraded,
        context: &context::Context<'c>,
    ) -> Self {
        let context::Context { worker, live, deadline, .. } = *context;
        let is_websocket = upgraded.protocol == WEBSOCKET;
        let (mut up, mut down) = (Direction::default(), Direction::default());
        // Bytes that arrived with the heads.
        up.count(buffer.filled(), is_websocket);
        down.count(upgraded.connection.buffer.filled(), is_websocket);
        worker.stats.request_bytes.add(up.bytes);
        let end =
            upgraded.settings.lifetime.map(|time| (clock::now() + time, UpgradeEnd::Lifetime));
        deadline.set_request(end.map(|(end, _)| end));
        Self {
            worker,
            live,
            deadline,
            client,
            buffer,
            upgraded,
            is_websocket,
            up,
            down,
            reloaded: false,
            end,
            first: None,
        }
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<UpgradeEnd> {
        let (worker, deadline) = (self.worker, self.deadline);
        let upstream = &mut *self.upgraded.connection;
        let before = self.up.bytes;
        let (client, frames) = (self.client, self.is_websocket);
        let up = self.up.poll(client, self.buffer, &upstream.stream, frames, cx);
        worker.stats.request_bytes.add(self.up.bytes - before);
        self.note_end(&up, UpgradeEnd::Client, self.up.ended || self.up.frames.is_closed());
        let upstream = &mut *self.upgraded.connection;
        let down = self.down.poll(&upstream.stream, &mut upstream.buffer, client, frames, cx);
        self.note_end(&down, UpgradeEnd::Upstream, self.down.ended || self.down.frames.is_closed());
        match (&up, &down) {
            (Poll::Ready(Err(Aborted::From)), _) | (_, Poll::Ready(Err(Aborted::To))) => {
                return Poll::Ready(self.aborted_by(UpgradeEnd::ClientReset));
            }
            (Poll::Ready(Err(Aborted::To)), _) | (_, Poll::Ready(Err(Aborted::From))) => {
                return Poll::Ready(self.aborted_by(UpgradeEnd::UpstreamReset));
            }
            (Poll::Ready(Ok(())), Poll::Ready(Ok(()))) => {
                return Poll::Ready(self.first.unwrap_or(UpgradeEnd::Client));
            }
            _ => {}
        }
        if worker.phase() >= Phase::Closing && self.may_send_close_frames() {
            return Poll::Ready(UpgradeEnd::Stop);
        }
        let handed_over = worker.phase() >= Phase::HandedOver;
        if !self.reloaded && (handed_over || !worker.serves(self.live)) {
            self.reloaded = true;
            let mut most = self.upgraded.settings.reload;
            if handed_over {
                most = most.min(worker.live().site.config.drain.upgrade);
            }
            let end = clock::now() + most.mul_f64(0.5 + fastrand::f64() / 2.0);
            if self.end.is_none_or(|(other, _)| end < other) {
                self.end = Some((end, UpgradeEnd::Reload));
                deadline.set_request(Some(end));
            }
        }
        if std::mem::take(&mut self.up.moved) | std::mem::take(&mut self.down.moved) {
            deadline.progress();
        }
        let half = self.is_websocket && (self.up.shut_down || self.down.shut_down);
        let settings = &self.upgraded.settings;
        let (wait, limit) = match half {
            true => (Wait::HalfClosed, settings.idle.min(HALF_CLOSE_TIMEOUT)),
            false => (Wait::Upgraded, settings.idle),
        };
        Poll::Ready(match ready!(deadline.poll(cx, wait, limit)) {
            Expired::Request => self.end.map_or(UpgradeEnd::Lifetime, |(_, why)| why),
            Expired::Wait(_) => self.first.filter(|_| half).unwrap_or(UpgradeEnd::Idle),
        })
    }

    fn note_end(&mut self, result: &Poll<Result<(), Aborted>>, side: UpgradeEnd, ended: bool) {
        if self.first.is_none() && (ended || matches!(result, Poll::Ready(Ok(())))) {
            self.first = Some(side);
        }
    }

    /// The side at fault for a reset. After the close frames of both sides it is no fault.
    fn aborted_by(&self, side: UpgradeEnd) -> UpgradeEnd {
        let closed = self.up.frames.is_closed() && self.down.frames.is_closed();
        self.first.filter(|_| closed).unwrap_or(side)
    }

    /// Both streams are at the end of a frame, where weir can insert its own.
    fn may_send_close_frames(&self) -> bool {
        let upstream = &self.upgraded.connection.buffer;
        self.is_websocket
            && (self.down.frames.is_between() || self.down.frames.is_closed())
            && self.buffer.is_empty()
            && upstream.is_empty()
    }

    /// Sends close frames to both sides, where a frame may begin. Bytes that cannot be written at
    /// once are dropped.
    fn send_close_frames(&mut self) {
        let mut cx = Context::from_waker(std::task::Waker::noop());
        let mut send = |stream: &Stream, frame: &[u8]| {
            let _ = stream.poll_write(&mut cx, frame, b"");
            let _ = stream.poll_flush(&mut cx);
        };
        let upstream = &self.upgraded.connection;
        if self.down.frames.is_between() && upstream.buffer.is_empty() {
            send(self.client, &frames::close(GOING_AWAY, None));
        }
        if self.up.frames.is_between() && self.buffer.is_empty() {
            let mask = fastrand::u32(..).to_ne_bytes();
            send(&upstream.stream, &frames::close(GOING_AWAY, Some(mask)));
        }
    }

    /// Properties of the transaction.
    fn properties(&self, ended: UpgradeEnd) -> Vec<(String, String)> {
        let mut list = vec![
            ("upgrade", self.upgraded.protocol.clone()),
            ("upgrade_ended_by", <&str>::from(ended).to_owned()),
        ];
        if self.is_websocket {
            list.push(("upgrade_messages_in", self.up.frames.messages().to_string()));
            list.push(("upgrade_messages_out", self.down.frames.messages().to_string()));
            let (up, down) = (self.up.frames.status(), self.down.frames.status());
            let status =
                if self.first == Some(UpgradeEnd::Upstream) { down.or(up) } else { up.or(down) };
            list.extend(status.map(|status| ("upgrade_close_status", status.to_string())));
        }
        list.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
    }
}

impl Direction {
    /// Counts bytes that were read.
    fn count(&mut self, bytes: &[u8], frames: bool) {
        self.bytes += bytes.len() as u64;
        if frames {
            self.frames.pass(bytes);
        }
    }

    /// Copies bytes until there are none or they cannot be written; ready at the end of the source.
    fn poll(
        &mut self,
        from: &Stream,
        buffer: &mut Buffer,
        to: &Stream,
        frames: bool,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), Aborted>> {
        loop {
            if self.shut_down {
                return Poll::Ready(Ok(()));
            }
            if !buffer.is_empty() {
                match ready!(to.poll_write(cx, buffer.filled(), b"")) {
                    Ok(count @ 1..) => buffer.consume(count),
                    Ok(0) | Err(_) => return Poll::Ready(Err(Aborted::To)),
                }
                (self.moved, self.unflushed) = (true, true);
                continue;
            }
            if self.unflushed {
                if ready!(to.poll_flush(cx)).is_err() {
                    return Poll::Ready(Err(Aborted::To));
                }
                self.unflushed = false;
            }
            if self.ended {
                if ready!(to.poll_shutdown(cx)).is_err() {
                    return Poll::Ready(Err(Aborted::To));
                }
                (self.shut_down, self.moved) = (true, true);
                continue;
            }
            let room = buffer.room(self.large);
            let size = room.len();
            let read = from.poll_read(cx, room);
            match read {
                Poll::Ready(Ok(0)) => self.ended = true,
                Poll::Ready(Ok(count)) => {
                    self.large = count == size;
                    buffer.grown(count);
                    self.count(buffer.filled(), frames);
                }
                Poll::Ready(Err(_)) => return Poll::Ready(Err(Aborted::From)),
                Poll::Pending => {}
            }
            buffer.release_if_empty();
            ready!(read.map(|_| ()));
        }
    }
}
