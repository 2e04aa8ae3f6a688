//! Passive health of a target, shared between workers.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// What requests have revealed about a target.
#[derive(Debug)]
pub(crate) struct Health {
    start: Instant,
    limit: AtomicU32,
    pause_ms: AtomicU64,
    failures: AtomicU32,
    /// Milliseconds after `start` until which it is out of service; 0: in service.
    out_until: AtomicU64,
}

impl Health {
    pub(crate) fn new() -> Self {
        Self {
            start: Instant::now(),
            limit: AtomicU32::new(0),
            pause_ms: AtomicU64::new(0),
            failures: AtomicU32::new(0),
            out_until: AtomicU64::new(0),
        }
    }

    /// Takes over settings.
    pub(crate) fn set(&self, settings: weir_config::Health) {
        self.limit.store(settings.failures, Relaxed);
        self.pause_ms.store(settings.pause.as_millis() as u64, Relaxed);
    }

    /// Whether a request may go there. After a pause one request may, and the target stays out
    /// for another pause unless that one succeeds.
    pub(crate) fn admits(&self, now: Instant) -> bool {
        let out_until = self.out_until.load(Relaxed);
        if out_until == 0 {
            return true;
        }
        let now = self.millis(now);
        now >= out_until
            && self.out_until.compare_exchange(out_until, self.next(now), Relaxed, Relaxed).is_ok()
    }

    /// In service, as a gauge says it.
    pub(crate) fn is_up(&self) -> bool {
        self.out_until.load(Relaxed) == 0
    }

    /// It answered.
    pub(crate) fn succeeded(&self) {
        if self.failures.load(Relaxed) != 0 {
            self.failures.store(0, Relaxed);
            self.out_until.store(0, Relaxed);
        }
    }

    /// It refused, reset, was late or sent garbage.
    pub(crate) fn failed(&self, now: Instant) {
        let failures = self.failures.fetch_add(1, Relaxed).saturating_add(1);
        let limit = self.limit.load(Relaxed);
        if limit > 0 && failures >= limit {
            self.out_until.store(self.next(self.millis(now)), Relaxed);
        }
    }

    fn next(&self, now_ms: u64) -> u64 {
        (now_ms + self.pause_ms.load(Relaxed)).max(1)
    }

    fn millis(&self, now: Instant) -> u64 {
        now.saturating_duration_since(self.start).min(Duration::from_secs(1 << 40)).as_millis()
            as u64
    }
}

/// Health of every target that was ever configured; outlives reloads.
#[derive(Debug, Default)]
pub(crate) struct Healths(Mutex<Vec<(String, String, Arc<Health>)>>);

impl Healths {
    /// The health of one target of one upstream.
    pub(crate) fn of(&self, upstream: &str, target: &str) -> Arc<Health> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, _, health)) = all.iter().find(|(u, t, _)| u == upstream && t == target) {
            return Arc::clone(health);
        }
        let health = Arc::new(Health::new());
        all.push((upstream.to_owned(), target.to_owned(), Arc::clone(&health)));
        health
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_goes_out_after_failures_in_a_row_and_one_request_tries_it_again() {
        let health = Health::new();
        let pause = Duration::from_secs(10);
        health.set(weir_config::Health { failures: 3, pause });
        let start = Instant::now();
        health.failed(start);
        health.failed(start);
        health.succeeded();
        health.failed(start);
        health.failed(start);
        assert!(health.admits(start), "two in a row are not three");
        health.failed(start);
        assert!(!health.is_up());
        assert!(!health.admits(start + pause / 2));
        let later = start + pause * 2;
        assert!(health.admits(later), "one request may try");
        assert!(!health.admits(later), "and only one");
        health.succeeded();
        assert!(health.admits(later) && health.is_up());
    }
}
