//! Sending at a set rate.

use std::time::{Duration, Instant};

/// How much of what was not sent in time is caught up with at once.
const CAUGHT_UP: Duration = Duration::from_secs(1);

/// A rate, and how far it has been followed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    /// A second.
    rate: f64,
    since: Instant,
    sent: u64,
}

impl Pace {
    pub(super) fn new(rate: f64, now: Instant) -> Self {
        Self { rate, since: now, sent: 0 }
    }

    pub(super) fn rate(&self) -> f64 {
        self.rate
    }

    /// How many are to be sent now. What could not be sent for longer than a second is not made up
    /// for: the rate is a limit, too.
    pub(super) fn due(&mut self, now: Instant) -> usize {
        let wanted = (now.saturating_duration_since(self.since).as_secs_f64() * self.rate) as u64;
        let due = wanted.saturating_sub(self.sent);
        let most = (self.rate * CAUGHT_UP.as_secs_f64()).max(1.0) as u64;
        if due > most {
            let behind = Duration::from_secs_f64(most as f64 / self.rate);
            self.since = now.checked_sub(behind).unwrap_or(now);
            self.sent = 0;
        }
        due.min(most) as usize
    }

    pub(super) fn sent(&mut self, count: usize) {
        self.sent += count as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_held_however_often_it_is_asked() {
        for step in [3, 20, 700] {
            let begun = Instant::now();
            let (mut pace, mut all) = (Pace::new(250.0, begun), 0);
            for ms in (0..=20_000).step_by(step) {
                let due = pace.due(begun + Duration::from_millis(ms));
                pace.sent(due);
                all += due;
            }
            assert!((4800..=5000).contains(&all), "{all} at steps of {step} ms");
        }
    }

    #[test]
    fn what_stood_still_is_not_made_up_for() {
        let begun = Instant::now();
        let mut pace = Pace::new(100.0, begun);
        assert_eq!(pace.due(begun + Duration::from_secs(60)), 100);
        pace.sent(100);
        assert_eq!(pace.due(begun + Duration::from_secs(61)), 100);
    }

    #[test]
    fn slow_rates_are_rates() {
        let begun = Instant::now();
        let mut pace = Pace::new(0.1, begun);
        assert_eq!(pace.due(begun + Duration::from_secs(9)), 0);
        assert_eq!(pace.due(begun + Duration::from_secs(11)), 1);
        pace.sent(1);
        assert_eq!(pace.due(begun + Duration::from_secs(12)), 0);
    }
}
