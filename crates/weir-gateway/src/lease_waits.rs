//! Requests of a worker that wait for the lease of a limit.

use std::cell::Cell;

/// Most requests of a worker that wait for leases at a time.
const MAX_WAITS: usize = 1024;

/// The number of requests of one worker that wait for leases.
#[derive(Debug, Default)]
pub(crate) struct LeaseWaits(Cell<usize>);

/// A request that waits, until dropped.
#[derive(Debug)]
pub(crate) struct LeaseWait<'w>(&'w Cell<usize>);

impl LeaseWaits {
    /// Begins a wait; `None` if too many requests wait already.
    pub(crate) fn begin(&self) -> Option<LeaseWait<'_>> {
        (self.0.get() < MAX_WAITS).then(|| {
            self.0.set(self.0.get() + 1);
            LeaseWait(&self.0)
        })
    }
}

impl Drop for LeaseWait<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_are_bounded_and_end() {
        let waits = LeaseWaits::default();
        let all: Vec<_> = (0..MAX_WAITS).map_while(|_| waits.begin()).collect();
        assert_eq!(all.len(), MAX_WAITS);
        assert!(waits.begin().is_none());
        drop(all);
        assert!(waits.begin().is_some());
    }
}
