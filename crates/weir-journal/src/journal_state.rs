//! What a journal and its maintenance threads share.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

use crate::catalog::budget::Budget;
use crate::checkpoint::Checkpoints;
use crate::lane_state::LaneState;
use crate::manifest::Manifest;
use crate::os::thread_waker::ThreadWaker;
use crate::preallocator::Preallocator;
use crate::settings::Settings;
use crate::statistics::Statistics;

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
    /// Held during each pass of sealing, retention and manifest; true once another process has
    /// taken these over.
    pub(crate) released: Mutex<bool>,
    pub(crate) wakers: Wakers,
    /// Sealing is so far behind that it does not wait for idle time.
    pub(crate) seal_delayed: AtomicBool,
    /// What happened since the journal was opened, lanes apart.
    pub(crate) counters: Mutex<Statistics>,
}

impl JournalState {
    /// Full segments that are not sealed yet.
    pub(crate) fn unsealed(&self) -> usize {
        let full = |lane: &LaneState| {
            let end = lane.shared.end().segment();
            lane.catalog.segments.read().raw.range(..end).count()
        };
        self.lanes.iter().map(full).sum()
    }

    /// What happened since the journal was opened.
    pub(crate) fn statistics(&self) -> Statistics {
        let mut sum = *self.counters.lock();
        sum.unsealed = self.unsealed() as u64;
        sum.disk_bytes = self.budget.used();
        for LaneState { catalog, shared } in &self.lanes {
            sum.damaged_bytes += catalog.files.damage.bytes();
            sum.records += shared.records.load(Ordering::Relaxed);
            sum.bytes += shared.bytes.load(Ordering::Relaxed);
            sum.refused += shared.refused.load(Ordering::Relaxed);
            sum.shortened += shared.shortened.load(Ordering::Relaxed);
            sum.errors += shared.errors.load(Ordering::Relaxed);
            sum.errors += shared.disk_errors.load(Ordering::Relaxed);
            sum.segments += shared.segments.load(Ordering::Relaxed);
            sum.pending_counts += shared.pending_counts.load(Ordering::Relaxed);
        }
        sum
    }
}
