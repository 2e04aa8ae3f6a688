//! Numbers of attempts and jobs since the start.

use std::sync::atomic::{AtomicU64, Ordering};
use weir_store::ledger::AttemptState;

/// Attempts and jobs since weir was started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Attempts that succeeded.
    pub succeeded: u64,
    /// Attempts with another response, or an aborted one.
    pub failed: u64,
    /// Attempts that were rejected and not sent.
    pub refused: u64,
    /// Attempts that may have been sent: the outcome was unknown. An outcome that is found in the
    /// journal later is counted, too.
    pub unknown: u64,
    /// Jobs that were created.
    pub created: u64,
    /// Jobs that sent all of their transactions.
    pub finished: u64,
    /// Jobs that an operator cancelled.
    pub cancelled: u64,
}

/// The counters behind [`Statistics`].
#[derive(Debug, Default)]
pub(crate) struct Counters {
    succeeded: AtomicU64,
    failed: AtomicU64,
    refused: AtomicU64,
    pub(crate) unknown: AtomicU64,
    pub(crate) created: AtomicU64,
    pub(crate) finished: AtomicU64,
    pub(crate) cancelled: AtomicU64,
}

impl Counters {
    /// Counts an attempt whose outcome is persisted.
    pub(crate) fn count(&self, state: AttemptState) {
        let counter = match state {
            AttemptState::Sending => return,
            AttemptState::Succeeded => &self.succeeded,
            AttemptState::Failed => &self.failed,
            AttemptState::Refused => &self.refused,
            AttemptState::Unknown => &self.unknown,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn statistics(&self) -> Statistics {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Statistics {
            succeeded: get(&self.succeeded),
            failed: get(&self.failed),
            refused: get(&self.refused),
            unknown: get(&self.unknown),
            created: get(&self.created),
            finished: get(&self.finished),
            cancelled: get(&self.cancelled),
        }
    }
}
