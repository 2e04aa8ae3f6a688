//! How many attempts and jobs there were.

use super::ledger::AttemptState;
use std::sync::atomic::{AtomicU64, Ordering};

/// What was done since weir was started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Attempts that were answered with success.
    pub succeeded: u64,
    /// Attempts that were answered otherwise, or whose answer broke off.
    pub failed: u64,
    /// Attempts about which nothing was done.
    pub refused: u64,
    /// Attempts of which nobody knows whether they were sent. One that the journal knows of after
    /// all is counted as what it is, too.
    pub unknown: u64,
    /// Jobs that were made.
    pub made: u64,
    /// Times that nothing was left to be sent of a job.
    pub finished: u64,
    /// Jobs that somebody ended.
    pub cancelled: u64,
}

/// The same, as it is counted.
#[derive(Debug, Default)]
pub(super) struct Counts {
    succeeded: AtomicU64,
    failed: AtomicU64,
    refused: AtomicU64,
    pub(super) unknown: AtomicU64,
    pub(super) made: AtomicU64,
    pub(super) finished: AtomicU64,
    pub(super) cancelled: AtomicU64,
}

impl Counts {
    /// An attempt has ended, and that is written down.
    pub(super) fn ended(&self, state: AttemptState) {
        let counter = match state {
            AttemptState::Sending => return,
            AttemptState::Succeeded => &self.succeeded,
            AttemptState::Failed => &self.failed,
            AttemptState::Refused => &self.refused,
            AttemptState::Unknown => &self.unknown,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn statistics(&self) -> Statistics {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Statistics {
            succeeded: get(&self.succeeded),
            failed: get(&self.failed),
            refused: get(&self.refused),
            unknown: get(&self.unknown),
            made: get(&self.made),
            finished: get(&self.finished),
            cancelled: get(&self.cancelled),
        }
    }
}
