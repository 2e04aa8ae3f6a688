//! The thread that updates the Tracker's index.
//!
//! If the thread stops, the journal keeps all unread records until it is full. Therefore messages
//! must not block the thread, and a panic does not end it.

use super::burst::Burst;
use super::messages::Messages;
use anyhow::Context;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::RecvTimeoutError;
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;
use weir_config::Config;
use weir_journal::Journal;
use weir_tracker::{Index, Indexer, Settings};

/// Name of the thread.
const THREAD: &str = "tracker";
/// Transactions of one step, between checks for a stop.
const STEP_TRANSACTIONS: usize = 4096;
/// Pause without new records.
const IDLE_INTERVAL: Duration = Duration::from_millis(100);
/// Pause while there are searches: a search reads unindexed records itself.
const SEARCH_INTERVAL: Duration = Duration::from_millis(20);
/// Pause after a failure: a full disk takes time to clear.
const RETRY_INTERVAL: Duration = Duration::from_secs(5);

/// The index of a running server, and the thread that writes it.
pub(super) struct Tracker {
    pub(super) index: Index,
    thread: Option<JoinHandle<()>>,
    stop: Arc<AtomicBool>,
    /// Dropped to end a pause.
    wake: Option<mpsc::Sender<()>>,
}

/// Opens the index and starts its thread, if indexing is enabled. A journal for metering only keeps
/// no records for it.
pub(super) fn start(
    config: &Config,
    journal: &Arc<Journal>,
    messages: &Messages,
) -> anyhow::Result<Option<Tracker>> {
    if !config.tracker.enabled {
        Index::remove_checkpoint(journal)?;
        return Ok(None);
    }
    let Some(settings) = Settings::from_config(config) else { return Ok(None) };
    let settings = Settings { in_idle_time: true, ..settings };
    let (index, indexer) = Index::open(&config.data, Arc::clone(journal), settings)
        .with_context(|| format!("cannot open the index in {}", config.data.display()))?;
    let stop = Arc::new(AtomicBool::new(false));
    let (wake, woken) = mpsc::channel();
    let run = {
        let (stop, messages) = (Arc::clone(&stop), messages.clone());
        let burst = Burst::new(Arc::clone(journal), IDLE_INTERVAL);
        move || run(indexer, burst, &stop, &woken, &messages)
    };
    report_panics(messages.clone(), THREAD);
    let thread = std::thread::Builder::new().name(THREAD.to_owned()).spawn(run)?;
    Ok(Some(Tracker { index, thread: Some(thread), stop, wake: Some(wake) }))
}

/// Reports panics of a thread as messages, with their location only: their text may contain a part of
/// a payload.
pub(super) fn report_panics(messages: Messages, thread: &'static str) {
    let default = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        let location = panic.location().filter(|_| std::thread::current().name() == Some(thread));
        match location {
            Some(location) => messages.err(format!("weir: {thread} panicked at {location}")),
            None => default(panic),
        }
    }));
}

/// Follows the journal; restarts after a panic.
fn run(
    mut indexer: Indexer,
    mut burst: Burst,
    stop: &AtomicBool,
    woken: &mpsc::Receiver<()>,
    messages: &Messages,
) {
    loop {
        let follow = || follow(&mut indexer, &mut burst, stop, woken, messages);
        let ended = catch_unwind(AssertUnwindSafe(follow));
        if ended.is_ok() || stop.load(Ordering::Relaxed) {
            return;
        }
        messages.err("weir: tracker: indexing panicked; restarting".into());
        let _ = woken.recv_timeout(RETRY_INTERVAL);
        indexer.recover();
    }
}

fn follow(
    indexer: &mut Indexer,
    burst: &mut Burst,
    stop: &AtomicBool,
    woken: &mpsc::Receiver<()>,
    messages: &Messages,
) {
    let mut failing = false;
    while !stop.load(Ordering::Relaxed) {
        match indexer.step(STEP_TRANSACTIONS) {
            Ok(0) => pause(indexer, burst, woken),
            Ok(_) => failing = false,
            Err(error) => {
                // Once, until the next success.
                if !std::mem::replace(&mut failing, true) {
                    messages.err(format!("weir: tracker: {error}"));
                }
                let _ = woken.recv_timeout(RETRY_INTERVAL);
            }
        }
    }
    // The last records do not wait for the next start.
    let last = indexer.step(STEP_TRANSACTIONS).and_then(|_| indexer.seal());
    if let Err(error) = last {
        messages.err(format!("weir: tracker: {error}"));
    }
}

/// Pauses until the end of a burst, unless there are searches.
fn pause(indexer: &Indexer, burst: &mut Burst, woken: &mpsc::Receiver<()>) {
    let interval = || if indexer.was_searched_recently() { SEARCH_INTERVAL } else { IDLE_INTERVAL };
    while let Err(RecvTimeoutError::Timeout) = woken.recv_timeout(interval()) {
        if indexer.was_searched_recently() || !burst.goes_on() {
            return;
        }
        indexer.set_behind();
    }
}

impl Drop for Tracker {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.wake = None;
        if let Some(thread) = self.thread.take() {
            // A panic has been reported already.
            let _ = thread.join();
        }
    }
}
