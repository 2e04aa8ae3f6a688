//! Sending at a set rate.

use std::time::{Duration, Instant};

/// Arrears that are sent at once; the rest is dropped.
const MAX_ARREARS: Duration = Duration::from_secs(1);

/// A rate, and the number of requests sent since a start time.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// Requests a second.
    rate: f64,
    since: Instant,
    sent: u64,
}

impl Pace {
    /// Starts now.
    #[must_use]
    pub fn new(rate: f64, now: Instant) -> Self {
        Self { rate, since: now, sent: 0 }
    }

    /// Requests a second.
    #[must_use]
    pub fn rate(&self) -> f64 {
        self.rate
    }

    /// The number of requests to send now. Arrears of more than a second are dropped: the rate is a
    /// limit, too.
    pub fn due(&mut self, now: Instant) -> usize {
        let target = (now.saturating_duration_since(self.since).as_secs_f64() * self.rate) as u64;
        let due = target.saturating_sub(self.sent);
        let max = (self.rate * MAX_ARREARS.as_secs_f64()).max(1.0) as u64;
        if due > max {
            let behind = Duration::from_secs_f64(max as f64 / self.rate);
            self.since = now.checked_sub(behind).unwrap_or(now);
            self.sent = 0;
        }
        due.min(max) as usize
    }

    /// Counts requests that were sent.
    pub fn sent(&mut self, count: usize) {
        self.sent += count as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_held_however_often_it_is_asked() {
        for step in [3, 20, 700] {
            let start = Instant::now();
            let (mut pace, mut all) = (Pace::new(250.0, start), 0);
            for ms in (0..=20_000).step_by(step) {
                let due = pace.due(start + Duration::from_millis(ms));
                pace.sent(due);
                all += due;
            }
            assert!((4800..=5000).contains(&all), "{all} at steps of {step} ms");
        }
    }

    #[test]
    fn arrears_are_bounded() {
        let start = Instant::now();
        let mut pace = Pace::new(100.0, start);
        assert_eq!(pace.due(start + Duration::from_secs(60)), 100);
        pace.sent(100);
        assert_eq!(pace.due(start + Duration::from_secs(61)), 100);
    }

    #[test]
    fn slow_rates_are_rates() {
        let start = Instant::now();
        let mut pace = Pace::new(0.1, start);
        assert_eq!(pace.due(start + Duration::from_secs(9)), 0);
        assert_eq!(pace.due(start + Duration::from_secs(11)), 1);
        pace.sent(1);
        assert_eq!(pace.due(start + Duration::from_secs(12)), 0);
    }
}
