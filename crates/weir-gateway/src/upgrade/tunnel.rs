//! Bytes both ways between a client and an upstream that have agreed on another protocol.
//!
//! Each direction has one buffer, and only while there is something in it: a side that is not read
//! from makes the other one wait. One timer watches over both.

use super::WEBSOCKET;
use super::frames::{self, Frames};
use crate::body::ResponseError;
use crate::buffer::Buffer;
use crate::clock;
use crate::deadline::{Expired, Wait};
use crate::exchange::Exchange;
use crate::labels::UpgradeEnd;
use crate::outgoing::Outgoing;
use crate::stream::Stream;
use crate::upstream::Upgraded;
use crate::worker::{Phase, Worker};
use std::future::poll_fn;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};
use weir_wire::{Known, encode};

/// How long one side of a WebSocket may stay when the other has gone: there is nothing left to say.
const LEFT_BEHIND: Duration = Duration::from_secs(10);
/// Status of a close frame of weir's own: going away (RFC 6455 section 7.4.1).
const GOING_AWAY: u16 = 1001;

/// Serves an upgraded connection until it ends; `out` may hold bytes that go in front. Whether the
/// client is still to be waited for.
pub(crate) async fn run(
    stream: &Stream,
    buffer: &mut Buffer,
    out: &mut Outgoing,
    exchange: &mut Exchange,
    upgraded: Upgraded,
    idle: Duration,
) -> bool {
    let worker = exchange.worker;
    let _open = Open::new(worker);
    exchange.set_timeout(None);
    let mut tunnel = Tunnel::new(stream, buffer, upgraded, exchange);
    let ended = match greet(stream, out, exchange, idle).await {
        true => {
            out.reset();
            poll_fn(|cx| tunnel.poll(exchange, cx)).await
        }
        false => UpgradeEnd::ClientReset,
    };
    worker.stats.upgrades[ended as usize].add(1);
    let lingers = matches!(
        ended,
        UpgradeEnd::Idle | UpgradeEnd::Lifetime | UpgradeEnd::Reload | UpgradeEnd::Stop
    );
    if lingers && tunnel.is_websocket {
        tunnel.say_goodbye();
    }
    tunnel.record(exchange, ended);
    match ended {
        // A connection that broke must not look as if it had ended.
        UpgradeEnd::UpstreamReset => stream.reset_on_drop(),
        UpgradeEnd::ClientReset => tunnel.upgraded.connection.stream.reset_on_drop(),
        _ => {}
    }
    lingers
}

/// Tells the client that its connection is another one now; `false` if it is gone.
async fn greet(stream: &Stream, out: &mut Outgoing, exchange: &Exchange, idle: Duration) -> bool {
    let head = out.head();
    encode::status_line(head, exchange.response.status);
    encode::fields(head, &exchange.response.headers);
    encode::field(head, Known::WeirTransactionId.name(), exchange.id.as_bytes());
    head.extend_from_slice(b"\r\n");
    exchange.deadline.progress();
    poll_fn(|cx| {
        while !out.is_empty() {
            match out.poll_write(stream, cx, b"") {
                Poll::Ready(Ok(_)) => {}
                Poll::Ready(Err(_)) => return Poll::Ready(false),
                Poll::Pending => {
                    return exchange.deadline.poll(cx, Wait::Client, idle).map(|_| false);
                }
            }
        }
        out.poll_flush(stream, cx).map(|flushed| flushed.is_ok())
    })
    .await
}

/// An upgraded connection that is counted as open, until dropped.
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
    client: &'c Stream,
    /// What has come from the client and is not sent yet.
    buffer: &'c mut Buffer,
    upgraded: Upgraded,
    is_websocket: bool,
    up: Way,
    down: Way,
    /// The other configuration has been seen.
    reloaded: bool,
    /// When it has lasted as long as it may, and why that is.
    end: Option<(Instant, UpgradeEnd)>,
    /// Who said first that it is over.
    first: Option<UpgradeEnd>,
}

/// One direction.
#[derive(Default)]
struct Way {
    bytes: u64,
    frames: Frames,
    /// There was more to read than a small buffer takes.
    large: bool,
    /// Something was written that may not have left: TLS keeps records back.
    unflushed: bool,
    /// The side it comes from sends no more.
    over: bool,
    /// The side it goes to has been told.
    told: bool,
    /// Something moved since the last question.
    moved: bool,
}

/// Which side broke.
enum Broken {
    From,
    To,
}

impl<'c> Tunnel<'c> {
    fn new(
        client: &'c Stream,
        buffer: &'c mut Buffer,
        upgraded: Upgraded,
        exchange: &Exchange,
    ) -> Self {
        let is_websocket = upgraded.protocol == WEBSOCKET;
        let (mut up, mut down) = (Way::default(), Way::default());
        // What came behind the heads.
        up.count(buffer.filled(), is_websocket);
        down.count(upgraded.connection.buffer.filled(), is_websocket);
        exchange.worker.stats.request_bytes.add(up.bytes);
        let end =
            upgraded.settings.lifetime.map(|time| (clock::now() + time, UpgradeEnd::Lifetime));
        exchange.deadline.set_request(end.map(|(end, _)| end));
        let (reloaded, first) = (false, None);
        Self { client, buffer, upgraded, is_websocket, up, down, reloaded, end, first }
    }

    fn poll(&mut self, exchange: &Exchange, cx: &mut Context<'_>) -> Poll<UpgradeEnd> {
        let worker = exchange.worker;
        let upstream = &mut *self.upgraded.connection;
        let before = self.up.bytes;
        let (client, frames) = (self.client, self.is_websocket);
        let up = self.up.poll(client, self.buffer, &upstream.stream, frames, cx);
        worker.stats.request_bytes.add(self.up.bytes - before);
        self.note_end(&up, UpgradeEnd::Client, self.up.over || self.up.frames.is_closed());
        let upstream = &mut *self.upgraded.connection;
        let down = self.down.poll(&upstream.stream, &mut upstream.buffer, client, frames, cx);
        self.note_end(&down, UpgradeEnd::Upstream, self.down.over || self.down.frames.is_closed());
        match (&up, &down) {
            (Poll::Ready(Err(Broken::From)), _) | (_, Poll::Ready(Err(Broken::To))) => {
                return Poll::Ready(self.broke(UpgradeEnd::ClientReset));
            }
            (Poll::Ready(Err(Broken::To)), _) | (_, Poll::Ready(Err(Broken::From))) => {
                return Poll::Ready(self.broke(UpgradeEnd::UpstreamReset));
            }
            (Poll::Ready(Ok(())), Poll::Ready(Ok(()))) => {
                return Poll::Ready(self.first.unwrap_or(UpgradeEnd::Client));
            }
            _ => {}
        }
        if worker.phase() >= Phase::Closing && self.may_say_goodbye() {
            return Poll::Ready(UpgradeEnd::Stop);
        }
        if !self.reloaded && !worker.serves(exchange.live()) {
            self.reloaded = true;
            let most = self.upgraded.settings.reload;
            let end = clock::now() + most.mul_f64(0.5 + fastrand::f64() / 2.0);
            if self.end.is_none_or(|(other, _)| end < other) {
                self.end = Some((end, UpgradeEnd::Reload));
                exchange.deadline.set_request(Some(end));
            }
        }
        if std::mem::take(&mut self.up.moved) | std::mem::take(&mut self.down.moved) {
            exchange.deadline.progress();
        }
        let half = self.is_websocket && (self.up.told || self.down.told);
        let settings = &self.upgraded.settings;
        let (wait, limit) = match half {
            true => (Wait::LeftBehind, settings.idle.min(LEFT_BEHIND)),
            false => (Wait::Upgraded, settings.idle),
        };
        Poll::Ready(match ready!(exchange.deadline.poll(cx, wait, limit)) {
            Expired::Request => self.end.map_or(UpgradeEnd::Lifetime, |(_, why)| why),
            Expired::Wait(_) => self.first.filter(|_| half).unwrap_or(UpgradeEnd::Idle),
        })
    }

    fn note_end(&mut self, way: &Poll<Result<(), Broken>>, side: UpgradeEnd, over: bool) {
        if self.first.is_none() && (over || matches!(way, Poll::Ready(Ok(())))) {
            self.first = Some(side);
        }
    }

    /// A side that breaks once a close frame has passed only does not wait for the other's.
    fn broke(&self, side: UpgradeEnd) -> UpgradeEnd {
        let closed = self.up.frames.is_closed() && self.down.frames.is_closed();
        self.first.filter(|_| closed).unwrap_or(side)
    }

    /// A frame of weir's own can stand behind what both sides have been sent.
    fn may_say_goodbye(&self) -> bool {
        let upstream = &self.upgraded.connection.buffer;
        self.is_websocket
            && (self.down.frames.is_between() || self.down.frames.is_closed())
            && self.buffer.is_empty()
            && upstream.is_empty()
    }

    /// Tells both sides that weir ends it, where a frame may stand. What they do not take at once
    /// they do not get: nobody waits for that.
    fn say_goodbye(&mut self) {
        let mut cx = Context::from_waker(std::task::Waker::noop());
        let mut say = |stream: &Stream, frame: &[u8]| {
            let _ = stream.poll_write(&mut cx, frame, b"");
            let _ = stream.poll_flush(&mut cx);
        };
        let upstream = &self.upgraded.connection;
        if self.down.frames.is_between() && upstream.buffer.is_empty() {
            say(self.client, &frames::close(GOING_AWAY, None));
        }
        if self.up.frames.is_between() && self.buffer.is_empty() {
            let mask = fastrand::u32(..).to_ne_bytes();
            say(&upstream.stream, &frames::close(GOING_AWAY, Some(mask)));
        }
    }

    /// Writes down what has passed and how it ended.
    fn record(&self, exchange: &mut Exchange, ended: UpgradeEnd) {
        let mut facts = vec![
            ("upgrade", self.upgraded.protocol.clone()),
            ("upgrade_ended_by", ended.as_str().to_owned()),
        ];
        if self.is_websocket {
            facts.push(("upgrade_messages_in", self.up.frames.messages().to_string()));
            facts.push(("upgrade_messages_out", self.down.frames.messages().to_string()));
            let (up, down) = (self.up.frames.status(), self.down.frames.status());
            let status =
                if self.first == Some(UpgradeEnd::Upstream) { down.or(up) } else { up.or(down) };
            facts.extend(status.map(|status| ("upgrade_close_status", status.to_string())));
        }
        let notes = exchange.notes.get_or_insert_default();
        notes.properties.extend(facts.into_iter().map(|(name, fact)| (name.to_owned(), fact)));
        exchange.sent = self.down.bytes;
        exchange.tunnelled(self.up.bytes, self.down.bytes);
        match ended {
            UpgradeEnd::ClientReset => exchange.abort(None),
            UpgradeEnd::UpstreamReset => exchange.abort(Some(&ResponseError::UpstreamClosed)),
            _ => exchange.complete(b""),
        }
    }
}

impl Way {
    /// These bytes have come.
    fn count(&mut self, bytes: &[u8], frames: bool) {
        self.bytes += bytes.len() as u64;
        if frames {
            self.frames.pass(bytes);
        }
    }

    /// Moves bytes until there are none or they are not taken; ready once all have been and there
    /// will be no more.
    fn poll(
        &mut self,
        from: &Stream,
        buffer: &mut Buffer,
        to: &Stream,
        frames: bool,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), Broken>> {
        loop {
            if self.told {
                return Poll::Ready(Ok(()));
            }
            if !buffer.is_empty() {
                match ready!(to.poll_write(cx, buffer.filled(), b"")) {
                    Ok(count @ 1..) => buffer.consume(count),
                    Ok(0) | Err(_) => return Poll::Ready(Err(Broken::To)),
                }
                (self.moved, self.unflushed) = (true, true);
                continue;
            }
            if self.unflushed {
                if ready!(to.poll_flush(cx)).is_err() {
                    return Poll::Ready(Err(Broken::To));
                }
                self.unflushed = false;
            }
            if self.over {
                if ready!(to.poll_shutdown(cx)).is_err() {
                    return Poll::Ready(Err(Broken::To));
                }
                (self.told, self.moved) = (true, true);
                continue;
            }
            let room = buffer.room(self.large);
            let size = room.len();
            let read = from.poll_read(cx, room);
            match read {
                Poll::Ready(Ok(0)) => self.over = true,
                Poll::Ready(Ok(count)) => {
                    self.large = count == size;
                    buffer.grown(count);
                    self.count(buffer.filled(), frames);
                }
                Poll::Ready(Err(_)) => return Poll::Ready(Err(Broken::From)),
                Poll::Pending => {}
            }
            buffer.release_if_empty();
            ready!(read.map(|_| ()));
        }
    }
}
