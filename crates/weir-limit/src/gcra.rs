//! Rate limits with a burst: the generic cell rate algorithm on one atomic number.
//!
//! A bucket is its *theoretical arrival time* (TAT): the nanosecond at which it will be full again.
//! Each admission moves it on by `cost` = 1/rate, and it may be ahead of now by `depth` =
//! burst · cost at most. So if n requests are admitted between s and s + t, the TAT has moved on by
//! n · cost from s at the earliest to s + t + depth at most: **n ≤ burst + rate · t**, in every
//! interval, however many threads admit, and whatever the order in which they read the clock
//! (ITU-T I.371, appendix; the virtual scheduling form).
//!
//! Where 1/rate is no whole number of nanoseconds it is rounded up, so the bound holds as well.

use std::sync::atomic::{AtomicU64, Ordering};
use weir_config::Rate;

/// Deepest bucket in nanoseconds, 146 years: a deeper one would overflow. Slow rates with huge
/// bursts admit less at once than configured.
const DEEPEST: u64 = 1 << 62;

/// Rate and burst, in the numbers the algorithm needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Gcra {
    /// Nanoseconds until one request is refilled, at least 1.
    cost: u64,
    /// Nanoseconds from empty to full.
    depth: u64,
}

/// A bucket after a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Level {
    /// Requests that would be admitted now.
    pub(super) remaining: u64,
    /// Nanoseconds until the bucket is full.
    pub(super) full_in: u64,
}

impl Gcra {
    pub(super) fn new(rate: Rate) -> Self {
        let cost = rate.per.as_nanos().div_ceil(u128::from(rate.requests.max(1))).max(1);
        let cost = u64::try_from(cost).unwrap_or(DEEPEST).min(DEEPEST);
        Self { cost, depth: cost.saturating_mul(rate.burst.max(1)).min(DEEPEST) }
    }

    /// A part of this rule for one of so many nodes: rate and burst are divided; the burst is at least
    /// one request.
    pub(super) fn share(self, nodes: u32) -> Self {
        let nodes = u64::from(nodes.max(1));
        let cost = self.cost.saturating_mul(nodes).min(DEEPEST);
        let burst = (self.burst() / nodes).max(1);
        Self { cost, depth: cost.saturating_mul(burst).min(DEEPEST) }
    }

    /// Most requests at once.
    pub(super) fn burst(self) -> u64 {
        self.depth / self.cost
    }

    /// Nanoseconds until one request is refilled.
    pub(super) fn cost(self) -> u64 {
        self.cost
    }

    /// The level of a bucket that would admit so many requests now.
    pub(super) fn level_with(self, remaining: u64) -> Level {
        let used = self.burst().saturating_sub(remaining);
        Level { remaining, full_in: self.cost.saturating_mul(used).min(self.depth) }
    }

    /// Nanoseconds from empty to full.
    pub(super) fn depth(self) -> u64 {
        self.depth
    }

    /// Charges one request to the bucket at `now`; otherwise the nanoseconds until that is possible.
    pub(super) fn admit(self, tat: &AtomicU64, now: u64) -> Result<Level, u64> {
        let mut seen = tat.load(Ordering::Relaxed);
        loop {
            let next = self.next(seen, now)?;
            // Only the number itself is shared, so no order with other memory is needed.
            match tat.compare_exchange_weak(seen, next, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return Ok(self.level_at(next, now)),
                Err(other) => seen = other,
            }
        }
    }

    /// The result of [`Gcra::admit`] now; nothing is charged.
    pub(super) fn peek(self, tat: &AtomicU64, now: u64) -> Result<Level, u64> {
        let next = self.next(tat.load(Ordering::Relaxed), now)?;
        Ok(self.level_at(next, now))
    }

    /// The arrival time of a bucket after one more request; or the nanoseconds until that is possible.
    fn next(self, seen: u64, now: u64) -> Result<u64, u64> {
        let next = seen.max(now).saturating_add(self.cost);
        let ahead = next - now;
        if ahead > self.depth { Err(ahead - self.depth) } else { Ok(next) }
    }

    /// Refunds what [`Gcra::admit`] charged, because another limit rejected the request. The bucket is
    /// never fuller than it would have been without both.
    pub(super) fn refund(self, tat: &AtomicU64) {
        let _ = tat.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |seen| {
            Some(seen.saturating_sub(self.cost))
        });
    }

    /// Nanoseconds until a bucket is full that has rejected with this wait.
    pub(super) fn full_after_rejection(self, wait: u64) -> u64 {
        (self.depth - self.cost).saturating_add(wait)
    }

    /// The level of a bucket.
    pub(super) fn level(self, tat: &AtomicU64, now: u64) -> Level {
        self.level_at(tat.load(Ordering::Relaxed), now)
    }

    fn level_at(self, tat: u64, now: u64) -> Level {
        let full_in = tat.saturating_sub(now);
        Level { remaining: self.depth.saturating_sub(full_in) / self.cost, full_in }
    }

    /// Converts a bucket from the rules of `before` to these: the requests that were charged stay
    /// charged, and are refilled at the new rate.
    pub(super) fn migrate(self, before: Gcra, tat: &AtomicU64, now: u64) {
        let _ = tat.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |seen| {
            let used = u128::from(seen.saturating_sub(now));
            let used = (used * u128::from(self.cost)).div_ceil(u128::from(before.cost));
            let used = u64::try_from(used).unwrap_or(u64::MAX).min(self.depth);
            (seen > now).then(|| now.saturating_add(used))
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::sync::Mutex;
    use std::time::Duration;
    use weir_config::RateScope;

    fn rate(requests: u64, per: Duration, burst: u64) -> Gcra {
        Gcra::new(Rate { requests, per, burst, scope: RateScope::Fleet })
    }

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn burst_at_once_then_one_per_interval() {
        let gcra = rate(10, Duration::from_secs(1), 3);
        let tat = AtomicU64::new(0);
        let now = 5 * SECOND;
        assert_eq!(gcra.admit(&tat, now), Ok(Level { remaining: 2, full_in: SECOND / 10 }));
        assert_eq!(gcra.admit(&tat, now).map(|l| l.remaining), Ok(1));
        assert_eq!(gcra.admit(&tat, now).map(|l| l.remaining), Ok(0));
        assert_eq!(gcra.admit(&tat, now), Err(SECOND / 10));
        assert_eq!(gcra.admit(&tat, now + SECOND / 10 - 1), Err(1));
        assert!(gcra.admit(&tat, now + SECOND / 10).is_ok());
        assert_eq!(gcra.level(&tat, now + SECOND), Level { remaining: 3, full_in: 0 });
    }

    #[test]
    fn extreme_rates_neither_overflow_nor_admit_more() {
        let slow = rate(1, Duration::from_secs(86_400), u64::MAX);
        let tat = AtomicU64::new(0);
        assert!(slow.admit(&tat, u64::MAX / 2).is_ok());
        let never = rate(1, Duration::from_secs(u64::MAX), 1);
        assert!(never.admit(&AtomicU64::new(0), 0).is_ok());
        assert!(never.admit(&AtomicU64::new(1), 0).is_err());
        let fast = rate(u64::MAX, Duration::from_secs(1), 1);
        assert_eq!(fast.burst(), 1);
        assert!(fast.admit(&AtomicU64::new(u64::MAX), u64::MAX).is_err() || fast.burst() == 1);
    }

    #[test]
    fn a_rate_without_whole_nanoseconds_is_rounded_to_fewer() {
        assert_eq!(rate(3, Duration::from_secs(1), 1).cost, 333_333_334);
    }

    #[test]
    fn what_was_taken_stays_taken_when_the_rate_changes() {
        let before = rate(1, Duration::from_secs(3600), 10);
        let after = rate(10, Duration::from_secs(1), 20);
        let tat = AtomicU64::new(0);
        for _ in 0..10 {
            before.admit(&tat, SECOND).expect("within the burst");
        }
        after.migrate(before, &tat, SECOND);
        assert_eq!(after.level(&tat, SECOND).remaining, 10);
        assert_eq!(after.level(&tat, 2 * SECOND).remaining, 20);
        let smaller = rate(1, Duration::from_secs(1), 5);
        smaller.migrate(after, &tat, SECOND);
        assert_eq!(smaller.level(&tat, SECOND).remaining, 0);
        assert_eq!(smaller.level(&tat, 2 * SECOND).remaining, 1);
    }

    /// Asserts the bound for every interval that begins and ends with an admission; others hold no
    /// more in no less time.
    fn assert_bound(mut admitted: Vec<u64>, gcra: Gcra, requests: u128, per: u128) {
        admitted.sort_unstable();
        for (first, from) in admitted.iter().enumerate() {
            for (last, to) in admitted.iter().enumerate().skip(first) {
                let count = (last - first + 1) as u128;
                let elapsed = u128::from(to - from);
                // count ≤ burst + requests · t / per, without division.
                let allowed = u128::from(gcra.burst()) * per + requests * elapsed;
                assert!(count * per <= allowed, "{count} in {elapsed} ns");
            }
        }
    }

    proptest! {
        #[test]
        fn no_interval_holds_more_than_burst_and_rate_allow(
            requests in 1u64..2_000, burst in 1u64..20,
            steps in prop::collection::vec((0u64..40_000_000, any::<bool>(), 0u64..5_000_000), 1..200),
        ) {
            let gcra = rate(requests, Duration::from_secs(1), burst);
            let tat = AtomicU64::new(0);
            let (mut clock, mut admitted) = (10_000_000, Vec::new());
            for (step, refund, late) in steps {
                clock += step;
                // A thread that read the clock a while ago.
                let now = clock - late;
                if gcra.admit(&tat, now).is_ok() {
                    if refund {
                        gcra.refund(&tat);
                    } else {
                        admitted.push(now);
                    }
                }
            }
            assert_bound(admitted, gcra, u128::from(requests), u128::from(SECOND));
        }

        #[test]
        fn shares_admit_together_no_more_than_the_whole(
            requests in 1u64..2_000, burst in 1u64..200, nodes in 1u32..9,
            steps in prop::collection::vec((0u64..40_000_000, 0usize..8), 1..200),
        ) {
            let whole = rate(requests, Duration::from_secs(1), burst.max(nodes.into()));
            let share = whole.share(nodes);
            let tats: Vec<_> = (0..nodes).map(|_| AtomicU64::new(0)).collect();
            let (mut clock, mut admitted) = (SECOND, Vec::new());
            for (step, node) in steps {
                clock += step;
                if share.admit(&tats[node % tats.len()], clock).is_ok() {
                    admitted.push(clock);
                }
            }
            assert_bound(admitted, whole, u128::from(requests), u128::from(SECOND));
        }

        #[test]
        fn a_steady_stream_at_the_rate_is_never_refused(requests in 1u64..100_000, burst in 1u64..5) {
            let gcra = rate(requests, Duration::from_secs(1), burst);
            let tat = AtomicU64::new(0);
            for n in 0..200 {
                prop_assert!(gcra.admit(&tat, n * gcra.cost).is_ok());
            }
        }
    }

    #[test]
    fn two_threads_on_one_key_never_get_more_through() {
        let gcra = rate(1000, Duration::from_secs(1), 50);
        let tat = AtomicU64::new(0);
        let clock = AtomicU64::new(SECOND);
        let admitted = Mutex::new(Vec::new());
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    let mut mine = Vec::new();
                    for _ in 0..20_000 {
                        // Virtual time passes as both threads ask.
                        let now = clock.fetch_add(SECOND / 20_000, Ordering::Relaxed);
                        if gcra.admit(&tat, now).is_ok() {
                            mine.push(now);
                        }
                    }
                    admitted.lock().expect("not poisoned").extend(mine);
                });
            }
        });
        let admitted = admitted.into_inner().expect("not poisoned");
        // 40,000 tries over two seconds: everything the bucket gives is taken.
        assert!((2049..=2050).contains(&admitted.len()), "{}", admitted.len());
        assert_bound(admitted, gcra, 1000, u128::from(SECOND));
    }
}
