//! How much is sent at a time, and when.

use std::time::{Duration, Instant};

/// Most documents of a bulk request.
pub(crate) const MAX_DOCS: usize = 2_000;
/// Most bytes of a bulk request, unless a single document is longer.
pub(crate) const MAX_BYTES: usize = 5 << 20;
/// Bulk requests in flight.
pub(crate) const MAX_IN_FLIGHT: usize = 2;
/// Fewest documents of a bulk request after failures; requests that are too large have fewer.
const MIN_DOCS: usize = 50;
/// Delay after the first failure; it doubles with each further one.
const MIN_DELAY: Duration = Duration::from_millis(250);
/// Longest delay.
const MAX_DELAY: Duration = Duration::from_secs(30);

/// Size of bulk requests and backoff.
#[derive(Debug)]
pub(crate) struct Pace {
    docs: usize,
    bytes: usize,
    delay: Duration,
    until: Option<Instant>,
}

impl Pace {
    pub(crate) fn new() -> Self {
        Self { docs: MAX_DOCS, bytes: MAX_BYTES, delay: Duration::ZERO, until: None }
    }

    /// Most documents and bytes of the next bulk request.
    pub(crate) fn limits(&self) -> (usize, usize) {
        (self.docs, self.bytes)
    }

    /// Bulk requests that may be in flight: after a failure one, until it has succeeded.
    pub(crate) fn max_in_flight(&self) -> usize {
        if self.is_failing() { 1 } else { MAX_IN_FLIGHT }
    }

    pub(crate) fn is_failing(&self) -> bool {
        !self.delay.is_zero()
    }

    /// How long nothing may be sent.
    pub(crate) fn wait(&self, now: Instant) -> Duration {
        self.until.map_or(Duration::ZERO, |until| until.saturating_duration_since(now))
    }

    /// Everything of a request was accepted or rejected for good.
    pub(crate) fn succeeded(&mut self) {
        self.docs = (self.docs * 2).min(MAX_DOCS);
        self.bytes = (self.bytes * 2).min(MAX_BYTES);
        (self.delay, self.until) = (Duration::ZERO, None);
    }

    /// OpenSearch is overloaded or unavailable.
    pub(crate) fn failed(&mut self, now: Instant) {
        // One that is already small because requests were too large stays so.
        self.docs = (self.docs / 2).max(MIN_DOCS.min(self.docs));
        self.delay = (self.delay * 2).clamp(MIN_DELAY, MAX_DELAY);
        self.until = Some(now + self.delay);
    }

    /// Nothing helps until an operator has changed something: now and then it is tried again.
    pub(crate) fn paused(&mut self, now: Instant) {
        self.delay = MAX_DELAY;
        self.until = Some(now + MAX_DELAY);
    }

    /// A request of so many documents and bytes was too large.
    pub(crate) fn too_large(&mut self, docs: usize, bytes: usize) {
        self.docs = (docs / 2).max(1);
        self.bytes = (bytes / 2).max(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_shrink_with_failures_and_grow_again() {
        let (mut pace, now) = (Pace::new(), Instant::now());
        let mut waits = Vec::new();
        for _ in 0..10 {
            pace.failed(now);
            waits.push(pace.wait(now).as_millis());
        }
        assert_eq!(waits, [250, 500, 1000, 2000, 4000, 8000, 16000, 30000, 30000, 30000]);
        assert_eq!((pace.limits().0, pace.max_in_flight()), (MIN_DOCS, 1));
        for _ in 0..6 {
            pace.succeeded();
        }
        assert_eq!(pace.limits(), (MAX_DOCS, MAX_BYTES));
        assert_eq!((pace.wait(now), pace.max_in_flight()), (Duration::ZERO, MAX_IN_FLIGHT));
        pace.too_large(3, 3_000);
        assert_eq!(pace.limits(), (1, 1_500));
        pace.failed(now);
        assert_eq!(pace.limits().0, 1);
    }
}
