//! Answers of many lines, one JSON object each, which come as they are made.
//!
//! A reader that is slow is not waited for anywhere else: of a tail, what it has not read stays in
//! the journal, and comes when it reads on. Each response ends with the admin token, or the session,
//! that it is given by.

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

/// Batches that wait for a reader.
const WAITING: usize = 1;
/// How often the journal is looked at.
const PAUSE: Duration = Duration::from_millis(100);
/// How long nothing is sent, nearly, before an empty line shows that all is well.
const QUIET: Duration = Duration::from_secs(10);

/// How often it is asked whether a reader may still have more.
const GRANTED: Duration = Duration::from_millis(500);

/// Gives the next lines, which may be none for now, or that it has ended. It may block.
pub(super) type Source = Box<dyn FnMut() -> Option<String> + Send>;

/// When the next lines are asked for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Pace {
    /// At once.
    Steady,
    /// After a pause, since they come from what happens.
    Waiting,
}

/// The body. What waits for its reader is not given any more once the grant is gone.
struct Lines {
    receiver: Receiver<Bytes>,
    grant: Arc<Grant>,
}

/// An answer of lines, until they end, the reader is gone, or may have no more.
pub(super) fn respond(
    source: Source,
    pace: Pace,
    grant: Grant,
    permit: OwnedSemaphorePermit,
) -> Response {
    let (sender, receiver) = channel(WAITING);
    let grant = Arc::new(grant);
    let body = axum::body::Body::new(Lines { receiver, grant: Arc::clone(&grant) });
    tokio::spawn(async move {
        tokio::select! {
            () = send(source, pace, sender) => {}
            () = revoked(&grant) => {}
        }
        drop(permit);
    });
    ([(header::CONTENT_TYPE, "application/x-ndjson")], body).into_response()
}

/// Waits until a grant is gone.
async fn revoked(grant: &Grant) {
    while grant.holds() {
        tokio::time::sleep(GRANTED).await;
    }
}

async fn send(mut source: Source, pace: Pace, sender: Sender<Bytes>) {
    let mut quiet_since = tokio::time::Instant::now();
    // So that the head of the answer leaves at once.
    let mut lines = Bytes::from_static(b"\n");
    loop {
        if !lines.is_empty() {
            if sender.send(lines).await.is_err() {
                return;
            }
            quiet_since = tokio::time::Instant::now();
        }
        if pace == Pace::Waiting {
            tokio::select! {
                () = tokio::time::sleep(PAUSE) => {}
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
        let is_quiet = text.is_empty() && quiet_since.elapsed() > QUIET;
        lines = if is_quiet { Bytes::from_static(b"\n") } else { text.into() };
    }
}

/// An answer of server-sent events: the newest of those that a reader is ready for, for as long as
/// the grant holds.
pub(super) fn events(
    newest: watch::Receiver<Bytes>,
    grant: Grant,
    permit: OwnedSemaphorePermit,
) -> Response {
    let (sender, receiver) = channel(WAITING);
    let grant = Arc::new(grant);
    let body = axum::body::Body::new(Lines { receiver, grant: Arc::clone(&grant) });
    tokio::spawn(async move {
        tokio::select! {
            () = follow(newest, sender) => {}
            () = revoked(&grant) => {}
        }
        drop(permit);
    });
    ([(header::CONTENT_TYPE, "text/event-stream")], body).into_response()
}

async fn follow(mut newest: watch::Receiver<Bytes>, sender: Sender<Bytes>) {
    // Who is cut off comes back after a second.
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

/// A line for each.
pub(super) fn lines<T: Serialize>(all: &[T]) -> String {
    all.iter().map(line).collect()
}

/// A line for one.
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
