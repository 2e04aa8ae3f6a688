//! The thread that updates the Tracker's index.

use super::burst::Burst;
use super::messages::Messages;
use super::thread::{Running, Thread, ThreadContext};
use crate::data_folder::index_settings;
use anyhow::Context;
use std::sync::Arc;
use std::thread::park_timeout;
use std::time::Duration;
use weir_config::Config;
use weir_journal::Journal;
use weir_tracker::{Index, Indexer, Settings};

/// The thread.
const THREAD: Thread = Thread { name: "tracker", task: "tracker: indexing", nice: 0 };
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
    _thread: Running,
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
    let Some(settings) = index_settings(config) else { return Ok(None) };
    let settings = Settings { in_idle_time: true, ..settings };
    let (index, indexer) = Index::open(&config.data, Arc::clone(journal), settings)
        .with_context(|| format!("cannot open the index in {}", config.data.display()))?;
    let (burst, context) =
        (Burst::new(Arc::clone(journal), IDLE_INTERVAL), ThreadContext::new(messages));
    let worker = Worker { indexer, burst, context: context.clone() };
    let thread = THREAD.start(&context, || {}, worker, Worker::run, Worker::recover)?;
    Ok(Some(Tracker { index, _thread: thread }))
}

/// State of the thread.
struct Worker {
    indexer: Indexer,
    burst: Burst,
    context: ThreadContext,
}

impl Worker {
    fn recover(&mut self) {
        park_timeout(RETRY_INTERVAL);
        self.indexer.recover();
    }

    /// Follows the journal.
    fn run(&mut self) {
        while !self.context.stopped() {
            match self.indexer.step(STEP_TRANSACTIONS) {
                Ok(0) => self.pause(),
                Ok(_) => self.context.succeeded(),
                Err(error) => {
                    self.context.failed(&format!("tracker: {error}"));
                    park_timeout(RETRY_INTERVAL);
                }
            }
        }
        // The last records do not wait for the next start.
        let last = self.indexer.step(STEP_TRANSACTIONS).and_then(|_| self.indexer.seal());
        if let Err(error) = last {
            self.context.note(&format!("tracker: {error}"));
        }
    }

    /// Pauses until the end of a burst, unless there are searches.
    fn pause(&mut self) {
        loop {
            let is_searched = self.indexer.was_searched_recently();
            park_timeout(if is_searched { SEARCH_INTERVAL } else { IDLE_INTERVAL });
            let is_searched = self.indexer.was_searched_recently();
            if self.context.stopped() || is_searched || !self.burst.goes_on() {
                return;
            }
            self.indexer.set_behind();
        }
    }
}
