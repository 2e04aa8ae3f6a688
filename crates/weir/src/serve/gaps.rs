//! The thread that stores gaps: transactions that could not be recorded or metered, so that
//! affected figures are marked, also after a restart.

use super::messages::Messages;
use super::thread::{Running, Thread, ThreadContext};
use std::sync::Arc;
use std::time::Duration;
use weir_journal::Journal;
use weir_server::Gateway;
use weir_store::gaps::{Gap, Gaps};

/// The thread.
const THREAD: Thread = Thread { name: "gaps", task: "gaps", nice: 0 };
/// Interval of checks.
const INTERVAL: Duration = Duration::from_secs(1);

/// State of the thread.
struct Worker {
    gaps: Gaps,
    gateway: Arc<Gateway>,
    journal: Arc<Journal>,
    context: ThreadContext,
    /// Gaps at the last check.
    before: Gap,
}

/// Starts the thread. On drop it stores the remaining gaps.
///
/// # Errors
/// The thread cannot be started.
pub(super) fn start(
    gaps: Gaps,
    gateway: &Arc<Gateway>,
    journal: &Arc<Journal>,
    messages: &Messages,
) -> std::io::Result<Running> {
    let context = ThreadContext::new(messages);
    let worker = Worker {
        gaps,
        gateway: Arc::clone(gateway),
        journal: Arc::clone(journal),
        context: context.clone(),
        before: Gap::default(),
    };
    THREAD.start(&context, || {}, worker, Worker::run, Worker::pause)
}

impl Worker {
    fn pause(&mut self) {
        std::thread::park_timeout(INTERVAL);
    }

    fn run(&mut self) {
        let mut stopped = false;
        while !stopped {
            self.pause();
            // The last gaps are stored before the end.
            stopped = self.context.stopped();
            let now = missing(&self.gateway, &self.journal);
            self.gaps.add(since(now, self.before));
            self.before = now;
            match self.gaps.write() {
                Ok(()) => self.context.succeeded(),
                Err(error) => self.context.failed(&format!("gaps cannot be recorded: {error}")),
            }
        }
    }
}

/// Gaps since the start.
fn missing(gateway: &Gateway, journal: &Journal) -> Gap {
    let stats = gateway.stats();
    Gap {
        unrecorded: stats.totals.unrecorded,
        shortened: journal.statistics().shortened,
        uncounted: stats.totals.uncounted,
    }
}

fn since(now: Gap, before: Gap) -> Gap {
    Gap {
        unrecorded: now.unrecorded.saturating_sub(before.unrecorded),
        shortened: now.shortened.saturating_sub(before.shortened),
        uncounted: now.uncounted.saturating_sub(before.uncounted),
    }
}
