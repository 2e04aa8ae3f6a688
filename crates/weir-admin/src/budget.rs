//! Budgets: a burst that is refilled by one in each interval.

use std::time::{Duration, Instant};

/// A remaining budget.
pub(crate) struct Budget {
    burst: u32,
    /// Interval after which one more is available, in whole seconds.
    interval: Duration,
    left: u32,
    pub(crate) since: Instant,
}

impl Budget {
    /// A full budget.
    pub(crate) fn new(burst: u32, interval: Duration, now: Instant) -> Self {
        Self { burst, interval, left: burst, since: now }
    }

    /// Consumes one; false if none is left.
    pub(crate) fn take(&mut self, now: Instant) -> bool {
        let refilled = now.duration_since(self.since).as_secs() / self.interval.as_secs();
        if refilled > 0 {
            let refilled = u32::try_from(refilled).unwrap_or(self.burst);
            self.left = self.left.saturating_add(refilled).min(self.burst);
            self.since = now;
        }
        let any = self.left > 0;
        self.left = self.left.saturating_sub(1);
        any
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_is_refilled_up_to_the_burst() {
        let (now, interval) = (Instant::now(), Duration::from_secs(1));
        let mut budget = Budget::new(20, interval, now);
        assert!((0..20).all(|_| budget.take(now)));
        assert!(!budget.take(now));
        assert!(budget.take(now + interval));
        assert!(!budget.take(now + interval));
        let later = now + Duration::from_secs(1_000_000);
        assert_eq!((0..100).filter(|_| budget.take(later)).count(), 20);
    }
}
