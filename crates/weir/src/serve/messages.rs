//! Lines for standard output and standard error, written by a separate thread.
//!
//! A full pipe blocks only this thread. Lines wait in a bounded queue; with a full queue they are
//! dropped and counted.

use crate::output;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::Duration;

/// Largest number of waiting lines.
const MAX_QUEUED: usize = 256;
/// Time to write the remaining lines at exit.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(1);

enum Line {
    Out(String),
    Err(String),
    /// Signals that all previous lines are written.
    Done(SyncSender<()>),
}

/// The queue.
#[derive(Clone)]
pub(crate) struct Messages {
    queue: SyncSender<Line>,
    dropped: Arc<AtomicU64>,
}

impl Messages {
    /// Starts the thread.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub(crate) fn start() -> std::io::Result<Self> {
        let (queue, lines) = sync_channel(MAX_QUEUED);
        std::thread::Builder::new().name("messages".to_owned()).spawn(move || {
            for line in lines {
                match line {
                    Line::Out(text) => output::line(&text),
                    Line::Err(text) => output::note(&text),
                    Line::Done(done) => {
                        let _ = done.send(());
                    }
                }
            }
        })?;
        Ok(Self { queue, dropped: Arc::new(AtomicU64::new(0)) })
    }

    /// Queues a line for standard output.
    pub(crate) fn out(&self, text: String) {
        self.put(Line::Out(text));
    }

    /// Queues a line for standard error.
    pub(crate) fn err(&self, text: String) {
        self.put(Line::Err(text));
    }

    /// Lines dropped so far.
    pub(crate) fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// Waits for a limited time until everything is written.
    pub(crate) fn finish(&self) {
        let (done, written) = sync_channel(1);
        if self.queue.try_send(Line::Done(done)).is_ok() {
            let _ = written.recv_timeout(FLUSH_TIMEOUT);
        }
    }

    fn put(&self, line: Line) {
        if self.queue.try_send(line).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}
