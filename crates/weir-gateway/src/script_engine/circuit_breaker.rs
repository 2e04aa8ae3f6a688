//! The circuit breaker of a route whose script is stopped repeatedly.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// This many stops within `WINDOW` open the breaker for `OPEN_TIME`.
const MAX_STOPS: usize = 3;
const WINDOW: Duration = Duration::from_secs(60);
const OPEN_TIME: Duration = Duration::from_secs(30);

/// The circuit breaker of a script, shared by all workers.
#[derive(Debug)]
pub(crate) struct CircuitBreaker {
    made: Instant,
    /// Milliseconds since `made` until which it is open; 0: it was never open.
    until: AtomicU64,
    stops: Mutex<Vec<Instant>>,
}

impl Default for CircuitBreaker {
    fn default() -> Self {
        Self { made: Instant::now(), until: AtomicU64::new(0), stops: Mutex::default() }
    }
}

impl CircuitBreaker {
    /// Seconds until the breaker closes, at least 1; `None` if it is closed.
    pub(crate) fn suspended(&self) -> Option<u64> {
        let until = self.until.load(Relaxed);
        if until == 0 {
            return None;
        }
        let left = Duration::from_millis(until).checked_sub(self.made.elapsed())?;
        Some(left.as_secs() + 1)
    }

    /// Counts a stopped call.
    pub(crate) fn stopped(&self) {
        self.stopped_at(Instant::now());
    }

    fn stopped_at(&self, now: Instant) {
        let mut stops = self.stops.lock().unwrap_or_else(PoisonError::into_inner);
        stops.retain(|stop| now.saturating_duration_since(*stop) < WINDOW);
        stops.push(now);
        if stops.len() >= MAX_STOPS {
            stops.clear();
            let until = now.saturating_duration_since(self.made) + OPEN_TIME;
            self.until.store(until.as_millis() as u64, Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_stops_within_a_minute_suspend_for_half_of_one() {
        let guard = CircuitBreaker::default();
        let now = guard.made;
        guard.stopped_at(now);
        guard.stopped_at(now + Duration::from_secs(61));
        guard.stopped_at(now + Duration::from_secs(62));
        assert_eq!(guard.suspended(), None);
        guard.stopped_at(now + Duration::from_secs(63));
        // The clock does not advance: the stops are in the future.
        let seconds = guard.suspended().expect("it is suspended");
        assert!((63..=94).contains(&seconds), "{seconds}");
        let over = CircuitBreaker::default();
        over.until.store(1, Relaxed);
        std::thread::sleep(Duration::from_millis(2));
        assert_eq!(over.suspended(), None);
    }
}
