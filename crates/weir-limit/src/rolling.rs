//! Rolling quotas: so many calls in any period of a given length.
//!
//! Time is cut into sub-windows of a 60th of that length. Calls are counted by sub-window, and those
//! of the current one and of the 60 before count. Any period of the length touches at most 61
//! sub-windows, so none admits more calls than the quota; the error is on the other side: a call
//! expires up to a 60th of the length late.

use super::keys::lock;
use super::tally::{Renewal, Tally};
use std::sync::Mutex;
use weir_config::{Quota, QuotaPeriod};

/// Sub-windows of a window.
const SUB_WINDOWS: u64 = 60;
/// Sub-windows whose calls count, with the current one.
const SLOTS: u64 = SUB_WINDOWS + 1;

const DAY: u64 = 86_400;

/// Length of a rolling quota's window in seconds; a month has 30 days, a year 365. A multiple of 60.
pub(super) fn length(per: QuotaPeriod) -> u64 {
    match per {
        QuotaPeriod::Minute => 60,
        QuotaPeriod::Hour => 3600,
        QuotaPeriod::Day => DAY,
        QuotaPeriod::Week => 7 * DAY,
        QuotaPeriod::Month => 30 * DAY,
        QuotaPeriod::Year => 365 * DAY,
    }
}

/// The seconds since 1970 whose calls count at `unix`.
pub(super) fn span(quota: &Quota, unix: u64) -> std::ops::Range<u64> {
    let step = length(quota.per) / SUB_WINDOWS;
    let slot = unix / step;
    slot.saturating_sub(SUB_WINDOWS) * step..slot.saturating_add(1).saturating_mul(step)
}

/// The calls of one consumer.
#[derive(Debug)]
pub(super) struct Rolling {
    per: QuotaPeriod,
    /// Length of a sub-window in seconds.
    step: u64,
    ring: Mutex<Ring>,
}

/// The level of a rolling quota.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Level {
    /// Calls that count.
    pub(super) used: u64,
    /// Seconds until one more is admitted; 0 if one is now.
    pub(super) free_in: u64,
    /// Seconds until no call counts any more.
    pub(super) empty_in: u64,
}

#[derive(Clone, Debug)]
struct Ring {
    /// Number of the sub-window reached, since 1970.
    at: u64,
    /// Calls of the sub-windows, each at its number modulo [`SLOTS`].
    calls: [u64; SLOTS as usize],
    total: u64,
    /// Calls of the sub-windows beyond leases.
    beyond: [u64; SLOTS as usize],
    /// The sub-window that there is a lease for, and how many calls.
    leased: (u64, u64),
}

impl Rolling {
    pub(super) fn new(per: QuotaPeriod) -> Self {
        Self { per, step: length(per) / SUB_WINDOWS, ring: Mutex::new(Ring::empty(0)) }
    }

    /// The length that the window was made for.
    pub(super) fn per(&self) -> QuotaPeriod {
        self.per
    }

    /// Length of a sub-window in seconds.
    pub(super) fn step(&self) -> u64 {
        self.step
    }

    /// Length of the window in seconds.
    pub(super) fn seconds(&self) -> u64 {
        self.step * SUB_WINDOWS
    }

    /// Counts a call if the quota is not exhausted; the level is that afterwards.
    ///
    /// A caller whose clock is behind counts in the sub-window reached. A count more than a window
    /// ahead was left by a clock that has been set back since, and begins anew.
    pub(super) fn admit(&self, calls: u64, unix: u64) -> Result<Level, Level> {
        lock(&self.ring).admit(calls, self.step, unix)
    }

    /// The result of [`Rolling::admit`] now; nothing is counted.
    pub(super) fn peek(&self, calls: u64, unix: u64) -> Result<Level, Level> {
        let mut copy = lock(&self.ring).clone();
        copy.admit(calls, self.step, unix)
    }

    /// Counts a call if fewer are counted in the sub-window reached than are leased for it, or fewer
    /// than `overdraft` were counted beyond leases in the whole window; the tally is that afterwards.
    /// `calls` is the quota, for the times only.
    pub(super) fn admit_leased(
        &self,
        calls: u64,
        overdraft: u64,
        unix: u64,
    ) -> Result<(Tally, Renewal), (Tally, Renewal)> {
        let mut ring = lock(&self.ring);
        ring.reach(unix / self.step);
        let slot = ring.at;
        let (used, leased) = ring.leased_in(slot);
        let is_leased = used < leased;
        if !is_leased && ring.overdrawn() >= overdraft {
            return Err((ring.tally(self.step), self.renewal(&ring, calls, unix)));
        }
        ring.count(slot, 1);
        ring.beyond[(slot % SLOTS) as usize] += u64::from(!is_leased);
        Ok((ring.tally(self.step), self.renewal(&ring, calls, unix)))
    }

    /// The tally of the sub-window that a call at `unix` counts in; nothing is counted.
    pub(super) fn tally(&self, calls: u64, unix: u64) -> (Tally, Renewal) {
        let mut ring = lock(&self.ring).clone();
        ring.reach(unix / self.step);
        (ring.tally(self.step), self.renewal(&ring, calls, unix))
    }

    /// Calls counted beyond leases in the window that ends at `unix`.
    pub(super) fn overdrawn(&self, unix: u64) -> u64 {
        let mut ring = lock(&self.ring).clone();
        ring.reach(unix / self.step);
        ring.overdrawn()
    }

    /// Calls counted and leased in the sub-window that begins at this second.
    pub(super) fn leased_in(&self, start: u64) -> (u64, u64) {
        lock(&self.ring).leased_in(start / self.step)
    }

    /// Opens the lease of the sub-window that begins at this second with the calls counted in it.
    /// Other leases are forfeit.
    pub(super) fn open_lease(&self, start: u64) {
        let slot = start / self.step;
        let mut ring = lock(&self.ring);
        let (used, _) = ring.leased_in(slot);
        ring.leased = (slot, used);
    }

    /// Adds calls to the lease of the sub-window that begins at this second; returns those leased
    /// now, `None` if the lease is that of another one.
    pub(super) fn extend_lease(&self, start: u64, calls: u64) -> Option<u64> {
        let mut ring = lock(&self.ring);
        let (slot, leased) = &mut ring.leased;
        (*slot == start / self.step).then(|| {
            *leased = leased.saturating_add(calls);
            *leased
        })
    }

    /// Forgets the lease.
    pub(super) fn close_lease(&self) {
        lock(&self.ring).leased = (0, 0);
    }

    /// When calls become available again: where leases are exhausted, not before the next sub-window.
    fn renewal(&self, ring: &Ring, calls: u64, unix: u64) -> Renewal {
        let Level { free_in, empty_in, .. } = ring.level(calls, self.step, unix);
        let next = (ring.at + 1).saturating_mul(self.step).saturating_sub(unix);
        Renewal { reset: empty_in, window: self.seconds(), retry: free_in.max(next).max(1) }
    }

    /// Refunds a call that was counted at `unix`.
    pub(super) fn refund(&self, unix: u64) {
        let mut ring = lock(&self.ring);
        let first = ring.at.saturating_sub(SUB_WINDOWS);
        // A clock that was behind counted in the sub-window reached.
        for slot in [(unix / self.step).clamp(first, ring.at), ring.at] {
            let calls = &mut ring.calls[(slot % SLOTS) as usize];
            if *calls > 0 {
                *calls -= 1;
                ring.total -= 1;
                return;
            }
        }
    }

    /// The level at `unix`, with a quota of so many calls.
    pub(super) fn level(&self, calls: u64, unix: u64) -> Level {
        let mut ring = lock(&self.ring).clone();
        ring.reach(unix / self.step);
        ring.level(calls, self.step, unix)
    }

    /// The sub-windows in which there were calls: their first second since 1970, and how many.
    pub(super) fn read(&self) -> Vec<(u64, u64)> {
        let ring = lock(&self.ring).clone();
        ring.counted().map(|(slot, calls)| (slot * self.step, calls)).collect()
    }

    /// Restores earlier calls: their times in seconds since 1970, and how many. A higher count of a
    /// sub-window is kept.
    pub(super) fn restore(&self, counts: &[(u64, u64)]) {
        self.merge(counts, u64::saturating_sub);
    }

    /// Adds calls that were admitted elsewhere: their times in seconds since 1970, and how many.
    pub(super) fn add(&self, counts: &[(u64, u64)]) {
        self.merge(counts, |calls, _| calls);
    }

    /// `more` says how many calls to add, from those given and those counted in their sub-window.
    fn merge(&self, counts: &[(u64, u64)], more: impl Fn(u64, u64) -> u64) {
        let mut other = Ring::empty(0);
        other.fill(self.step, counts.iter().copied());
        let mut ring = lock(&self.ring);
        let last = other.at.max(ring.at);
        ring.reach(last);
        for (slot, calls) in other.counted() {
            if slot.saturating_add(SUB_WINDOWS) >= ring.at {
                let more = more(calls, ring.calls[(slot % SLOTS) as usize]);
                ring.count(slot, more);
                // They were admitted by other leases.
                if ring.leased.0 == slot {
                    ring.leased.1 = ring.leased.1.saturating_add(more);
                }
            }
        }
    }

    /// The same calls, counted in a window of another length from `unix` on. Each counts as if it
    /// had been made at the end of the sub-window it was counted in.
    pub(super) fn resampled(&self, per: QuotaPeriod, unix: u64) -> Self {
        let counts = self.read();
        let other = Self::new(per);
        let ends = counts.iter().map(|(start, calls)| ((start + self.step - 1).min(unix), *calls));
        lock(&other.ring).fill(other.step, ends);
        other
    }
}

impl Ring {
    fn empty(at: u64) -> Self {
        Self {
            at,
            calls: [0; SLOTS as usize],
            total: 0,
            beyond: [0; SLOTS as usize],
            leased: (0, 0),
        }
    }

    /// Counts a call if the quota is not exhausted.
    fn admit(&mut self, calls: u64, step: u64, unix: u64) -> Result<Level, Level> {
        self.reach(unix / step);
        if self.total >= calls {
            return Err(self.level(calls, step, unix));
        }
        let slot = self.at;
        self.count(slot, 1);
        Ok(self.level(calls, step, unix))
    }

    /// Adds calls with their times, in any order, to an empty ring.
    fn fill(&mut self, step: u64, counts: impl Iterator<Item = (u64, u64)> + Clone) {
        let last = counts.clone().map(|(time, _)| time / step).max().unwrap_or(0);
        self.reach(last);
        for (time, calls) in counts {
            if (time / step).saturating_add(SUB_WINDOWS) >= last {
                self.count(time / step, calls);
            }
        }
    }

    /// Advances to a sub-window: drops calls that do not count any more.
    fn reach(&mut self, slot: u64) {
        let (ahead, behind) = (slot.saturating_sub(self.at), self.at.saturating_sub(slot));
        if ahead > SUB_WINDOWS || behind > SUB_WINDOWS {
            *self = Self::empty(slot);
            return;
        }
        for next in self.at + 1..=self.at + ahead {
            let expired = std::mem::take(&mut self.calls[(next % SLOTS) as usize]);
            self.total -= expired;
            self.beyond[(next % SLOTS) as usize] = 0;
        }
        self.at += ahead;
    }

    /// Calls beyond leases that count.
    fn overdrawn(&self) -> u64 {
        self.beyond.iter().sum()
    }

    /// Calls counted and leased in a sub-window.
    fn leased_in(&self, slot: u64) -> (u64, u64) {
        let is_held = slot <= self.at && slot.saturating_add(SUB_WINDOWS) >= self.at;
        let used = if is_held { self.calls[(slot % SLOTS) as usize] } else { 0 };
        (used, if self.leased.0 == slot { self.leased.1 } else { 0 })
    }

    fn tally(&self, step: u64) -> Tally {
        let (used, leased) = self.leased_in(self.at);
        Tally { start: self.at * step, used, leased }
    }

    fn count(&mut self, slot: u64, calls: u64) {
        let room = u64::MAX - self.total;
        self.calls[(slot % SLOTS) as usize] += calls.min(room);
        self.total += calls.min(room);
    }

    /// Sub-windows with calls, oldest first.
    fn counted(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let slots = self.at.saturating_sub(SUB_WINDOWS)..=self.at;
        let all = slots.map(|slot| (slot, self.calls[(slot % SLOTS) as usize]));
        all.filter(|(_, calls)| *calls > 0)
    }

    fn level(&self, calls: u64, step: u64, unix: u64) -> Level {
        let leaves =
            |slot: u64| slot.saturating_add(SLOTS).saturating_mul(step).saturating_sub(unix);
        let (mut left, mut free_in, mut empty_in) = (self.total, 0, 0);
        for (slot, expired) in self.counted() {
            empty_in = leaves(slot);
            if left >= calls {
                free_in = empty_in;
            }
            left -= expired;
        }
        Level { used: self.total, free_in, empty_in }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::VecDeque;
    use std::sync::atomic::{AtomicU64, Ordering};

    /// A time at which windows of every length are under way.
    const NOW: u64 = 1_767_225_630;

    fn hour() -> Rolling {
        Rolling::new(QuotaPeriod::Hour)
    }

    fn admitted(rolling: &Rolling, calls: u64, unix: u64, tries: u64) -> u64 {
        (0..tries).filter(|_| rolling.admit(calls, unix).is_ok()).count() as u64
    }

    #[test]
    fn a_call_is_given_back_where_it_was_counted() {
        let quota = hour();
        quota.refund(NOW);
        assert!(quota.admit(3, NOW).is_ok() && quota.admit(3, NOW + 120).is_ok());
        quota.refund(NOW);
        assert_eq!(quota.read(), [((NOW + 120) / 60 * 60, 1)]);
        // Counted by a clock that was behind.
        quota.refund(NOW);
        assert_eq!(quota.level(3, NOW + 120).used, 0);
        quota.refund(NOW);
        assert_eq!(quota.level(3, NOW + 120).used, 0);
    }

    #[test]
    fn every_length_has_sixty_whole_sub_windows() {
        use QuotaPeriod::{Day, Hour, Minute, Month, Week, Year};
        for per in [Minute, Hour, Day, Week, Month, Year] {
            let rolling = Rolling::new(per);
            assert_eq!(rolling.step * 60, length(per));
            assert_eq!(admitted(&rolling, 3, NOW, 5), 3, "{per:?}");
            let slot_end = (NOW / rolling.step + 1) * rolling.step;
            assert_eq!(admitted(&rolling, 3, slot_end + length(per) - 1, 5), 0, "{per:?}");
            assert_eq!(admitted(&rolling, 3, slot_end + length(per), 5), 3, "{per:?}");
        }
    }

    #[test]
    fn a_call_counts_for_its_window_and_at_most_a_sixtieth_longer() {
        let rolling = hour();
        let start = 60 * 1_000_000;
        // One at the beginning of a sub-window, one at the end of the next.
        assert_eq!(rolling.admit(2, start).map(|level| level.used), Ok(1));
        assert_eq!(rolling.admit(2, start + 119).map(|level| level.used), Ok(2));
        let full = rolling.admit(2, start + 120).unwrap_err();
        assert_eq!(full, Level { used: 2, free_in: 3660 - 120, empty_in: 3720 - 120 });
        assert!(rolling.admit(2, start + 3659).is_err());
        assert_eq!(rolling.admit(2, start + 3660).map(|level| level.used), Ok(2));
        assert_eq!(rolling.level(2, start + 3719).used, 2);
        assert_eq!(rolling.level(2, start + 3720).used, 1);
    }

    #[test]
    fn in_no_window_are_more_admitted_than_the_quota_says() {
        with_numbers(|next| {
            let (rolling, quota) = (Rolling::new(QuotaPeriod::Minute), 1 + next() % 40);
            let (mut now, mut window) = (NOW, VecDeque::new());
            for _ in 0..2000 {
                now += [0, 0, 0, 1, 1, 3, 20, 90][(next() % 8) as usize];
                let admitted = rolling.admit(quota, now).is_ok();
                while window.front().is_some_and(|first| first + 60 <= now) {
                    window.pop_front();
                }
                if admitted {
                    window.push_back(now);
                }
                assert!(window.len() as u64 <= quota);
                // Nor fewer than in a window that is a sub-window longer.
                let longer = rolling.level(quota, now).used;
                assert!(admitted || longer == quota);
            }
        });
    }

    /// Runs with numbers that are the same every time.
    fn with_numbers(mut run: impl FnMut(&mut dyn FnMut() -> u64)) {
        for seed in 1..=20_u64 {
            let mut state = seed;
            run(&mut || {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                state >> 33
            });
        }
    }

    #[test]
    fn a_clock_a_little_behind_counts_in_the_sub_window_reached_one_far_behind_begins_anew() {
        let rolling = hour();
        rolling.admit(2, NOW).expect("room");
        assert_eq!(rolling.admit(2, NOW - 1800).map(|level| level.used), Ok(2));
        assert!(rolling.admit(2, NOW).is_err());
        assert_eq!(rolling.admit(2, NOW - 8000).map(|level| level.used), Ok(1));
        assert!(rolling.admit(2, u64::MAX).is_ok());
    }

    #[test]
    fn a_quota_made_smaller_waits_until_enough_has_gone() {
        let rolling = hour();
        let start = 60 * 1_000_000;
        (0..4).for_each(|minute| assert!(rolling.admit(9, start + minute * 60).is_ok()));
        let full = rolling.admit(2, start + 240).unwrap_err();
        assert_eq!(full.free_in, 3660 + 120 - 240);
        assert_eq!(rolling.level(0, start + 240).free_in, full.empty_in);
    }

    #[test]
    fn counts_can_be_restored_but_never_lowered() {
        let before = hour();
        (0..50).for_each(|n| assert!(before.admit(99, NOW + n * 100).is_ok()));
        let after = hour();
        after.restore(&before.read());
        assert_eq!(after.read(), before.read());
        // The minutes of a longer sub-window are added up; what is too old is left out.
        let day = Rolling::new(QuotaPeriod::Day);
        let slot = NOW / 1440 * 1440;
        day.restore(&[(slot, 2), (slot + 60, 3), (slot - 60, 1), (slot - 2 * DAY, 7)]);
        assert_eq!(day.level(9, NOW).used, 6);
        (0..3).for_each(|_| assert!(day.admit(9, NOW).is_ok()));
        day.restore(&[(slot, 4)]);
        assert_eq!(day.level(9, NOW).used, 9);
        day.restore(&[(slot - 3 * DAY, 4)]);
        assert_eq!(day.level(9, NOW).used, 9);
        day.add(&[(slot, 2), (slot - 3 * DAY, 4)]);
        assert_eq!(day.level(99, NOW).used, 11);
    }

    #[test]
    fn another_length_keeps_the_calls() {
        let rolling = hour();
        (0..10).for_each(|n| assert!(rolling.admit(99, NOW + n * 60).is_ok()));
        let now = NOW + 600;
        assert_eq!(rolling.resampled(QuotaPeriod::Day, now).level(99, now).used, 10);
        let minute = rolling.resampled(QuotaPeriod::Minute, now).level(99, now);
        assert!((1..=2).contains(&minute.used), "{minute:?}");
    }

    #[test]
    fn eight_threads_admit_exactly_the_quota() {
        const QUOTA: u64 = 10_000;
        let rolling = hour();
        for round in 0..3 {
            let (start, clock) = (NOW + round * 7200, AtomicU64::new(0));
            let admit = || {
                let now = || start + clock.fetch_add(1, Ordering::Relaxed) / 16;
                (0..2000).filter(|_| rolling.admit(QUOTA, now()).is_ok()).count()
            };
            let admitted: usize = std::thread::scope(|scope| {
                let threads: Vec<_> = (0..8).map(|_| scope.spawn(admit)).collect();
                threads.into_iter().map(|thread| thread.join().expect("no panic")).sum()
            });
            assert_eq!(admitted as u64, QUOTA, "of 16,000");
            assert_eq!(rolling.read().iter().map(|(_, calls)| calls).sum::<u64>(), QUOTA);
        }
    }
}
