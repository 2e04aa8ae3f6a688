//! Streamed responses of JSON lines or server-sent events.
//!
//! Nothing waits for a slow reader: the unread part of a tail stays in the journal and is sent when
//! the reader continues. A response ends when its admin token is revoked or its session ends.

use crate::access::Grant;
use axum::body::Bytes;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use http_body::{Body, Frame};
use serde::Serialize;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::sync::{OwnedSemaphorePermit, watch};
use tokio::time::Instant;

/// Queued batches of a response.
const MAX_QUEUED_BATCHES: usize = 1;
/// Interval of reading the journal.
pub(super) const READ_INTERVAL: Duration = Duration::from_millis(100);
/// Approximate idle time after which a keep-alive line is sent.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(10);

/// Interval of checking the grant of a response.
const GRANT_CHECK_INTERVAL: Duration = Duration::from_millis(500);

/// When the next lines are read.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Pace {
    /// Immediately.
    Steady,
    /// After an interval, since they arrive in real time.
    Waiting,
}

/// The body. Queued lines are discarded when the grant ends.
struct Lines {
    receiver: Receiver<Bytes>,
    grant: Arc<Grant>,
}

/// A response of lines, until their end, the reader leaves, or the grant ends. `source` returns the
/// next lines, possibly empty, or `None` at the end; it may block.
pub(super) fn respond(
    source: impl FnMut() -> Option<String> + Send + 'static,
    pace: Pace,
    grant: Grant,
    permit: OwnedSemaphorePermit,
) -> Response {
    stream("application/x-ndjson", grant, permit, |sender| send(source, pace, sender))
}

/// A response of the lines that `send` sends, while the grant holds.
pub(super) fn respond_with<F: Future<Output = Result<(), ReaderLeft>> + Send + 'static>(
    grant: Grant,
    permit: OwnedSemaphorePermit,
    send: impl FnOnce(LineSender) -> F,
) -> Response {
    stream("application/x-ndjson", grant, permit, |sender| {
        let sending = send(LineSender { sender, quiet_since: Instant::now() });
        async move {
            // Whoever has left gets nothing more.
            let _ = sending.await;
        }
    })
}

/// The reader has closed the connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReaderLeft;

/// Sends lines to a reader, and waits for the reader.
pub(super) struct LineSender {
    sender: Sender<Bytes>,
    quiet_since: Instant,
}

impl LineSender {
    /// Sends lines, unless there are none.
    pub(super) async fn send(&mut self, lines: String) -> Result<(), ReaderLeft> {
        if !lines.is_empty() {
            self.sender.send(lines.into()).await.map_err(|_| ReaderLeft)?;
            self.quiet_since = Instant::now();
        }
        Ok(())
    }

    /// Waits for what is to be sent next. Meanwhile `pending` lines are sent, and keep-alives.
    pub(super) async fn wait<T>(
        &mut self,
        pending: &mut String,
        next: impl Future<Output = T>,
    ) -> Result<T, ReaderLeft> {
        let (mut next, started) = (std::pin::pin!(next), Instant::now());
        loop {
            let due = match pending.is_empty() {
                true => self.quiet_since + KEEP_ALIVE_INTERVAL,
                false => started + READ_INTERVAL,
            };
            tokio::select! {
                next = &mut next => return Ok(next),
                () = self.sender.closed() => return Err(ReaderLeft),
                () = tokio::time::sleep_until(due) => {}
            }
            let lines = std::mem::take(pending);
            self.send(if lines.is_empty() { "\n".to_owned() } else { lines }).await?;
        }
    }
}

/// A response of what `send` puts into a queue, while the grant holds.
fn stream<F: Future<Output = ()> + Send + 'static>(
    content_type: &'static str,
    grant: Grant,
    permit: OwnedSemaphorePermit,
    send: impl FnOnce(Sender<Bytes>) -> F,
) -> Response {
    let (sender, receiver) = channel(MAX_QUEUED_BATCHES);
    let grant = Arc::new(grant);
    let body = axum::body::Body::new(Lines { receiver, grant: Arc::clone(&grant) });
    let sending = send(sender);
    tokio::spawn(async move {
        tokio::select! {
            () = sending => {}
            () = revoked(&grant) => {}
        }
        drop(permit);
    });
    ([(header::CONTENT_TYPE, content_type)], body).into_response()
}

/// Waits until the grant ends.
async fn revoked(grant: &Grant) {
    while grant.holds() {
        tokio::time::sleep(GRANT_CHECK_INTERVAL).await;
    }
}

async fn send(
    mut source: impl FnMut() -> Option<String> + Send + 'static,
    pace: Pace,
    sender: Sender<Bytes>,
) {
    let mut quiet_since = Instant::now();
    // So that the response head is sent immediately.
    let mut lines = Bytes::from_static(b"\n");
    loop {
        if !lines.is_empty() {
            if sender.send(lines).await.is_err() {
                return;
            }
            quiet_since = Instant::now();
        }
        if pace == Pace::Waiting {
            tokio::select! {
                () = tokio::time::sleep(READ_INTERVAL) => {}
                () = sender.closed() => return,
            }
        } else if sender.is_closed() {
            return;
        }
        let read = tokio::task::spawn_blocking(move || {
            let read = source();
            (source, read)
        });
        let Ok((again, Some(text))) = read.await else { return };
        source = again;
        let is_quiet = text.is_empty() && quiet_since.elapsed() > KEEP_ALIVE_INTERVAL;
        lines = if is_quiet { Bytes::from_static(b"\n") } else { text.into() };
    }
}

/// A response of server-sent events, while the grant holds. A slow reader gets the newest event
/// only.
pub(super) fn events(
    newest: watch::Receiver<Bytes>,
    grant: Grant,
    permit: OwnedSemaphorePermit,
) -> Response {
    stream("text/event-stream", grant, permit, |sender| follow(newest, sender))
}

async fn follow(mut newest: watch::Receiver<Bytes>, sender: Sender<Bytes>) {
    // A disconnected client reconnects after a second.
    let mut event = Bytes::from_static(b"retry: 1000\n\n");
    while sender.send(event).await.is_ok() {
        let changed = tokio::select! {
            changed = newest.changed() => changed,
            () = sender.closed() => break,
        };
        if changed.is_err() {
            break;
        }
        event = newest.borrow_and_update().clone();
    }
}

/// Values as JSON lines.
pub(super) fn lines<T: Serialize>(all: &[T]) -> String {
    all.iter().map(line).collect()
}

/// A value as a JSON line.
pub(super) fn line<T: Serialize>(one: &T) -> String {
    serde_json::to_string(one).map(|text| text + "\n").unwrap_or_default()
}

impl Body for Lines {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let polled = self.receiver.poll_recv(context);
        polled.map(|lines| lines.filter(|_| self.grant.holds()).map(|lines| Ok(Frame::data(lines))))
    }
}

/// What `send` sends.
#[cfg(test)]
pub(super) fn collect_lines<F: Future<Output = Result<(), ReaderLeft>>>(
    send: impl FnOnce(LineSender) -> F,
) -> String {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(async {
        let (sender, mut receiver) = channel(MAX_QUEUED_BATCHES);
        let sending = send(LineSender { sender, quiet_since: Instant::now() });
        let receiving = async {
            let mut all = Vec::new();
            while let Some(lines) = receiver.recv().await {
                all.extend_from_slice(&lines);
            }
            String::from_utf8(all).unwrap()
        };
        tokio::join!(sending, receiving).1
    })
}
