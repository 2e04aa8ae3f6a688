//! A tail as the body of an answer: one JSON object a line, for as long as somebody reads it.
//!
//! A reader that is slow is not waited for anywhere else: what it has not read stays in the
//! journal, and comes when it reads on.

use crate::tracker::Tail;
use axum::body::Bytes;
use http_body::{Body, Frame};
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::sync::OwnedSemaphorePermit;
use tokio::sync::mpsc::{Receiver, Sender, channel};

/// Batches that wait for a reader.
const WAITING: usize = 1;
/// How often the journal is looked at.
const PAUSE: Duration = Duration::from_millis(100);
/// Pauses after which an empty line shows that all is well.
const QUIET: u32 = 100;

/// The body.
#[derive(Debug)]
pub(super) struct Lines(Receiver<Bytes>);

impl Lines {
    /// Follows until the reader is gone or nothing more can be read.
    pub(super) fn follow(tail: Tail, permit: OwnedSemaphorePermit) -> Self {
        let (sender, receiver) = channel(WAITING);
        tokio::spawn(async move {
            follow(tail, sender).await;
            drop(permit);
        });
        Self(receiver)
    }
}

async fn follow(mut tail: Tail, sender: Sender<Bytes>) {
    let mut quiet = 0;
    // So that the head of the answer leaves at once.
    let mut lines = Bytes::from_static(b"\n");
    loop {
        if !lines.is_empty() && sender.send(lines).await.is_err() {
            return;
        }
        tokio::select! {
            () = tokio::time::sleep(PAUSE) => {}
            () = sender.closed() => return,
        }
        let read = tokio::task::spawn_blocking(move || {
            let read = tail();
            (tail, read.map(|list| list.iter().map(line).collect::<String>()))
        });
        let Ok((again, Ok(text))) = read.await else { return };
        tail = again;
        quiet = if text.is_empty() { quiet + 1 } else { 0 };
        lines = if quiet >= QUIET {
            quiet = 0;
            Bytes::from_static(b"\n")
        } else {
            text.into()
        };
    }
}

fn line(summary: &crate::tracker::Summary) -> String {
    serde_json::to_string(summary).map(|text| text + "\n").unwrap_or_default()
}

impl Body for Lines {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.poll_recv(context).map(|lines| lines.map(|lines| Ok(Frame::data(lines))))
    }
}
