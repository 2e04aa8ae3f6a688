//! The thread that keeps the Tracker's index up to date.
//!
//! If it stops, the journal keeps all it has not read, until it is full. So nothing that it tells
//! may hold it up, and a panic does not end it.

use super::burst::Burst;
use super::messages::Messages;
use crate::tracker::index_settings;
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

/// Its name.
const THREAD: &str = "tracker";
/// Transactions indexed at a time, between looks at whether to stop.
const STEP: usize = 4096;
/// Pause when there is nothing to index.
const PAUSE: Duration = Duration::from_millis(100);
/// The same while somebody searches: what is not indexed, each search reads itself.
const SHORT_PAUSE: Duration = Duration::from_millis(20);
/// Pause after a failure: a full disk does not empty itself in a moment.
const RETRY: Duration = Duration::from_secs(5);

/// The index of a running server, and the thread that writes it.
pub(super) struct Tracker {
    pub(super) index: Index,
    thread: Option<JoinHandle<()>>,
    stop: Arc<AtomicBool>,
    /// Dropped to end a pause.
    wake: Option<mpsc::Sender<()>>,
}

/// Opens the index and starts its thread, unless nothing is to be indexed. A journal that is only
/// there to count keeps nothing for it.
pub(super) fn start(
    config: &Config,
    journal: &Arc<Journal>,
    messages: &Messages,
) -> anyhow::Result<Option<Tracker>> {
    if !config.tracker.enabled {
        Index::remove_checkpoint(journal)?;
        return Ok(None);
    }
    let Some(settings) = index_settings(config) else { return Ok(None) };
    let settings = Settings { in_idle_time: true, ..settings };
    let (index, indexer) = Index::open(&config.data, Arc::clone(journal), settings)
        .with_context(|| format!("cannot open the index in {}", config.data.display()))?;
    let stop = Arc::new(AtomicBool::new(false));
    let (wake, woken) = mpsc::channel();
    let run = {
        let (stop, messages) = (Arc::clone(&stop), messages.clone());
        let burst = Burst::new(Arc::clone(journal), PAUSE);
        move || run(indexer, burst, &stop, &woken, &messages)
    };
    tell_panics(messages.clone(), THREAD);
    let thread = std::thread::Builder::new().name(THREAD.to_owned()).spawn(run)?;
    Ok(Some(Tracker { index, thread: Some(thread), stop, wake: Some(wake) }))
}

/// Has panics of a thread told as everything else, and only where they were: their text may have a
/// part of a payload in it.
pub(super) fn tell_panics(messages: Messages, thread: &'static str) {
    let others = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        let place = panic.location().filter(|_| std::thread::current().name() == Some(thread));
        match place {
            Some(place) => messages.err(format!("weir: {thread} panicked at {place}")),
            None => others(panic),
        }
    }));
}

/// Follows the journal, again after each panic.
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
        let _ = woken.recv_timeout(RETRY);
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
        match indexer.step(STEP) {
            Ok(0) => rest(indexer, burst, woken),
            Ok(_) => failing = false,
            Err(error) => {
                // Once, until it works again.
                if !std::mem::replace(&mut failing, true) {
                    messages.err(format!("weir: tracker: {error}"));
                }
                let _ = woken.recv_timeout(RETRY);
            }
        }
    }
    // What came last is not left to the next start.
    let last = indexer.step(STEP).and_then(|_| indexer.seal());
    if let Err(error) = last {
        messages.err(format!("weir: tracker: {error}"));
    }
}

/// Pauses, and goes on pausing while a burst comes in, unless somebody searches.
fn rest(indexer: &Indexer, burst: &mut Burst, woken: &mpsc::Receiver<()>) {
    let pause = || if indexer.was_searched_recently() { SHORT_PAUSE } else { PAUSE };
    while let Err(RecvTimeoutError::Timeout) = woken.recv_timeout(pause()) {
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
            // A panic has been told already.
            let _ = thread.join();
        }
    }
}
