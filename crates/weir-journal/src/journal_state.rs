//! What a journal and its maintenance threads share.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use crate::catalog::budget::Budget;
use crate::checkpoint::Checkpoints;
use crate::lane_state::LaneState;
use crate::manifest::Manifest;
use crate::os::thread_waker::ThreadWaker;
use crate::preallocator::Preallocator;
use crate::recovery::RecoveryReport;
use crate::settings::Settings;

/// The maintenance threads.
#[derive(Clone, Debug, Default)]
pub(crate) struct Wakers {
    pub(crate) supply: Arc<ThreadWaker>,
    pub(crate) urgent: Arc<ThreadWaker>,
    pub(crate) seal: Arc<ThreadWaker>,
    pub(crate) sync: Arc<ThreadWaker>,
}

/// What a journal and its maintenance threads share.
#[derive(Debug)]
pub(crate) struct JournalState {
    pub(crate) settings: Settings,
    pub(crate) budget: Budget,
    pub(crate) checkpoints: Arc<Checkpoints>,
    pub(crate) lanes: Vec<LaneState>,
    /// One for each lane that is written to.
    pub(crate) preallocators: Vec<Mutex<Preallocator>>,
    pub(crate) manifest: Manifest,
    pub(crate) wakers: Wakers,
    /// Sealing is so far behind that it does not wait for idle time.
    pub(crate) seal_delayed: AtomicBool,
    pub(crate) counters: Counters,
}

/// What happened since the journal was opened, lanes apart.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) sealed: AtomicU64,
    pub(crate) dropped: AtomicU64,
    pub(crate) errors: AtomicU64,
    /// Missing files when the journal was opened, and the transactions in them.
    pub(crate) missing_files: AtomicU64,
    pub(crate) missing_transactions: AtomicU64,
    /// Checkpoints that were damaged when the journal was opened.
    pub(crate) damaged_checkpoints: AtomicU64,
}

impl Counters {
    /// Counts what opening the journal has found.
    pub(crate) fn count_report(&self, report: &RecoveryReport) {
        let missing = || report.missing.iter().filter(|file| !file.accepted);
        self.missing_files.store(missing().count() as u64, Ordering::Relaxed);
        let transactions = missing().map(|file| file.transactions).sum();
        self.missing_transactions.store(transactions, Ordering::Relaxed);
        self.damaged_checkpoints.store(report.checkpoints.len() as u64, Ordering::Relaxed);
    }
}

impl JournalState {
    /// Full segments that are not sealed yet.
    pub(crate) fn unsealed(&self) -> usize {
        let full = |lane: &LaneState| {
            let end = lane.shared.end().segment();
            lane.catalog.read().raw.range(..end).count()
        };
        self.lanes.iter().map(full).sum()
    }
}
