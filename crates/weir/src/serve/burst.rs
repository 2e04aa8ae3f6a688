//! Priority of bursts: followers of the journal wait for the end of a burst.
//!
//! Under constant load followers do not wait: no pause would come, and every unread record makes
//! searches slower.

use std::sync::Arc;
use std::time::Duration;
use weir_journal::Journal;

/// Records within a pause that are a burst: more than a block of the index.
const BURST_RECORDS: u64 = 128;
/// Longest wait for the end of a burst.
const MAX_WAIT: Duration = Duration::from_secs(1);

/// Observed bursts of a follower.
#[derive(Debug)]
pub(super) struct Burst {
    journal: Arc<Journal>,
    wait: Wait,
}

#[derive(Debug)]
struct Wait {
    /// Records of the journal at the last check.
    recorded: u64,
    /// Pause of the follower without new records.
    pause: Duration,
    /// Remaining wait; reset after a quiet pause.
    remaining: Duration,
}

impl Burst {
    pub(super) fn new(journal: Arc<Journal>, pause: Duration) -> Self {
        let recorded = journal.statistics().records;
        Self { journal, wait: Wait { recorded, pause, remaining: MAX_WAIT } }
    }

    /// Called after each pause: whether another pause is due.
    pub(super) fn goes_on(&mut self) -> bool {
        self.wait.goes_on(self.journal.statistics().records)
    }
}

impl Wait {
    fn goes_on(&mut self, recorded: u64) -> bool {
        let arrived = recorded.saturating_sub(std::mem::replace(&mut self.recorded, recorded));
        if arrived < BURST_RECORDS {
            self.remaining = MAX_WAIT;
            return false;
        }
        self.remaining = self.remaining.saturating_sub(self.pause);
        !self.remaining.is_zero()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_is_waited_for_and_load_that_stays_is_not() {
        let mut wait = Wait { recorded: 0, pause: Duration::from_millis(100), remaining: MAX_WAIT };
        assert!(!wait.goes_on(BURST_RECORDS - 1), "a little traffic is no burst");
        assert!(wait.goes_on(5_000) && wait.goes_on(9_000));
        assert!(!wait.goes_on(9_010), "it is over");
        let pauses =
            (1..=30).map(|n| wait.goes_on(10_000 + n * BURST_RECORDS)).take_while(|on| *on);
        assert_eq!(pauses.count(), 9, "a second at most");
        assert!(!wait.goes_on(100_000) && !wait.goes_on(200_000), "no more of it");
        assert!(!wait.goes_on(200_000) && wait.goes_on(300_000), "until it was quiet once");
    }
}
