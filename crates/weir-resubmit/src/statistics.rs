//! Numbers of attempts and jobs since the start.

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

impl Statistics {
    /// Counts an attempt whose outcome is persisted.
    pub(crate) fn count(&mut self, state: AttemptState) {
        match state {
            AttemptState::Sending => {}
            AttemptState::Succeeded => self.succeeded += 1,
            AttemptState::Failed => self.failed += 1,
            AttemptState::Refused => self.refused += 1,
            AttemptState::Unknown => self.unknown += 1,
        }
    }
}
