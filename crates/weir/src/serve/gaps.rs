//! The thread that stores gaps: transactions that could not be recorded or metered, so that
//! affected figures are marked, also after a restart.

use super::messages::Messages;
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;
use weir_journal::Journal;
use weir_server::Gateway;
use weir_store::gaps::{Gap, Gaps};

/// Name of the thread.
const THREAD: &str = "gaps";
/// Interval of checks.
const INTERVAL: Duration = Duration::from_secs(1);

/// The running thread. On drop it stores remaining gaps and ends.
pub(super) struct Watching {
    thread: Option<JoinHandle<()>>,
    /// Dropped to end the pause.
    wake: Option<mpsc::Sender<()>>,
}

/// Starts the thread.
///
/// # Errors
/// The thread cannot be started.
pub(super) fn start(
    gaps: Gaps,
    gateway: &Arc<Gateway>,
    journal: &Arc<Journal>,
    messages: &Messages,
) -> std::io::Result<Watching> {
    let (wake, woken) = mpsc::channel();
    let (gateway, journal) = (Arc::clone(gateway), Arc::clone(journal));
    let messages = messages.clone();
    let run = move || {
        let (mut before, mut failing) = (Gap::default(), false);
        loop {
            let ended = woken.recv_timeout(INTERVAL) != Err(mpsc::RecvTimeoutError::Timeout);
            let now = missing(&gateway, &journal);
            gaps.add(since(now, before));
            before = now;
            match gaps.write() {
                Ok(()) => failing = false,
                Err(error) => {
                    // Once, until it works again.
                    if !std::mem::replace(&mut failing, true) {
                        messages.err(format!("weir: gaps cannot be recorded: {error}"));
                    }
                }
            }
            if ended {
                return;
            }
        }
    };
    let thread = std::thread::Builder::new().name(THREAD.to_owned()).spawn(run)?;
    Ok(Watching { thread: Some(thread), wake: Some(wake) })
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

impl Drop for Watching {
    fn drop(&mut self) {
        self.wake = None;
        if let Some(thread) = self.thread.take() {
            // A panic has been reported already.
            let _ = thread.join();
        }
    }
}
