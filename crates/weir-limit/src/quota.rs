//! Calendar quotas: a number of calls per calendar period of a time zone.
//!
//! A window and its count share one 64-bit atomic, so that a window rolls and a call is counted in
//! one step: no window admits more calls than the quota, however many threads admit while it rolls.

use super::tally::{Renewal, Tally};
use jiff::civil::Weekday;
use jiff::{Timestamp, ToSpan, Unit, Zoned, ZonedRound};
use std::sync::atomic::{AtomicU64, Ordering};
use weir_config::{Quota, QuotaPeriod};

/// Bits of the count; the 28 above hold the window's first minute since 1970, until the year 2480.
const COUNT_BITS: u32 = 36;
const COUNT_MASK: u64 = (1 << COUNT_BITS) - 1;

/// The last minute a window may begin at.
const LAST_MINUTE: u32 = (1 << (u64::BITS - COUNT_BITS)) - 2;

/// A calendar window, in minutes since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Window {
    start: u32,
    end: u32,
}

impl Window {
    /// Its first second, since 1970.
    pub(super) fn begin(self) -> u64 {
        u64::from(self.start) * 60
    }

    /// Length in seconds.
    pub(super) fn seconds(self) -> u64 {
        u64::from(self.end - self.start) * 60
    }

    /// When calls become available again.
    pub(super) fn renewal(self, unix: u64) -> Renewal {
        let reset = self.ends_in(unix);
        Renewal { reset, window: self.seconds(), retry: reset.max(1) }
    }

    /// Seconds from `unix` to its end.
    pub(super) fn ends_in(self, unix: u64) -> u64 {
        (u64::from(self.end) * 60).saturating_sub(unix)
    }
}

/// The quota of one plan, with its current window. Shared by all consumers of the plan.
#[derive(Debug)]
pub(super) struct Calendar {
    quota: Quota,
    /// The window found last: start minute above, length in minutes below. 0 before the first.
    current: AtomicU64,
}

impl Calendar {
    pub(super) fn new(quota: Quota) -> Self {
        Self { quota, current: AtomicU64::new(0) }
    }

    /// Calls in a window; counts have 36 bits, so it is 68 billion at most.
    pub(super) fn calls(&self) -> u64 {
        self.quota.calls.min(COUNT_MASK)
    }

    /// The window that `unix` (seconds since 1970) is in. The calendar is computed once a window.
    pub(super) fn window(&self, unix: u64) -> Window {
        let minute = u32::try_from(unix / 60).unwrap_or(u32::MAX).min(LAST_MINUTE);
        let packed = self.current.load(Ordering::Relaxed);
        let (start, length) = ((packed >> 32) as u32, packed as u32);
        if minute >= start && minute - start < length {
            return Window { start, end: start + length };
        }
        let window = self.compute(unix).unwrap_or(Window { start: minute, end: minute + 1 });
        let packed = u64::from(window.start) << 32 | u64::from(window.end - window.start);
        self.current.store(packed, Ordering::Relaxed);
        window
    }

    /// `None` beyond the range of counts.
    fn compute(&self, unix: u64) -> Option<Window> {
        let instant = Timestamp::from_second(i64::try_from(unix).ok()?).ok()?;
        let (start, end) =
            bounds(&instant.to_zoned(self.quota.zone.clone()), self.quota.per).ok()?;
        let minute =
            |zoned: &Zoned| u32::try_from(zoned.timestamp().as_second().div_euclid(60)).ok();
        let (start, end) = (minute(&start)?, minute(&end)?);
        (start < end && start <= LAST_MINUTE).then_some(Window { start, end })
    }
}

/// Beginning and end of the period `now` is in. Days, weeks and longer begin at the first instant of
/// the civil day, which is not always midnight; hours and minutes are those of the wall clock.
fn bounds(now: &Zoned, per: QuotaPeriod) -> Result<(Zoned, Zoned), jiff::Error> {
    let trunc = |unit| now.round(ZonedRound::new().smallest(unit).mode(jiff::RoundMode::Trunc));
    let day = now.start_of_day()?;
    let (start, length) = match per {
        QuotaPeriod::Minute => (trunc(Unit::Minute)?, 1.minute()),
        QuotaPeriod::Hour => (trunc(Unit::Hour)?, 1.hour()),
        QuotaPeriod::Day => (day, 1.day()),
        QuotaPeriod::Week => {
            let back = i64::from(day.weekday().since(Weekday::Monday));
            (day.checked_sub(back.days())?.start_of_day()?, 1.week())
        }
        QuotaPeriod::Month => (day.first_of_month()?.start_of_day()?, 1.month()),
        QuotaPeriod::Year => (day.first_of_year()?.start_of_day()?, 1.year()),
    };
    let end = start.checked_add(length)?;
    let end = match per {
        QuotaPeriod::Minute | QuotaPeriod::Hour => end,
        _ => end.start_of_day()?,
    };
    Ok((start, end))
}

/// The calls of one consumer: a window, and how many were counted in it and how many are leased for
/// it. Leases are opened and extended by one thread at a time; a lease of a window only grows.
#[derive(Debug, Default)]
pub(super) struct Used {
    counted: AtomicU64,
    leased: AtomicU64,
}

impl Used {
    /// Counts a call if the quota of the window is not exhausted; returns the remaining calls.
    ///
    /// A caller whose clock is behind and still in the window before counts in the one the counter
    /// has reached. A counter more than a window ahead was left by a clock that has been set back
    /// since, and begins anew.
    pub(super) fn admit(&self, calls: u64, window: Window) -> Result<u64, ()> {
        let counted = self.counted.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |seen| {
            let (start, count) = Self::in_window(seen, window);
            (count < calls).then_some(u64::from(start) << COUNT_BITS | (count + 1))
        });
        let (_, before) = Self::in_window(counted.map_err(|_| ())?, window);
        Ok(calls - before - 1)
    }

    /// Counts a call if fewer are counted in the window than are leased for it, and `overdraft` more;
    /// the tally is that afterwards. The window is found as by [`Used::admit`], and the lease that
    /// counts is that of the window found.
    pub(super) fn admit_leased(&self, window: Window, overdraft: u64) -> Result<Tally, Tally> {
        let mut seen = self.counted.load(Ordering::Relaxed);
        loop {
            let tally = self.tally_of(seen, window);
            // As a lease of this window only grows, an old value admits no more than the current one.
            if tally.used >= tally.leased.saturating_add(overdraft).min(COUNT_MASK) {
                return Err(tally);
            }
            let next = pack(tally.start, tally.used + 1);
            let (success, failure) = (Ordering::Relaxed, Ordering::Relaxed);
            match self.counted.compare_exchange_weak(seen, next, success, failure) {
                Ok(_) => return Ok(Tally { used: tally.used + 1, ..tally }),
                Err(other) => seen = other,
            }
        }
    }

    /// The tally of the window that a call in `window` counts in.
    pub(super) fn tally(&self, window: Window) -> Tally {
        self.tally_of(self.counted.load(Ordering::Relaxed), window)
    }

    fn tally_of(&self, counted: u64, window: Window) -> Tally {
        let (start, used) = Self::in_window(counted, window);
        let start = u64::from(start) * 60;
        Tally { start, used, leased: count_in(self.leased.load(Ordering::Relaxed), start) }
    }

    /// Calls counted and leased in the window that begins at this second.
    pub(super) fn leased_in(&self, start: u64) -> (u64, u64) {
        let used = count_in(self.counted.load(Ordering::Relaxed), start);
        (used, count_in(self.leased.load(Ordering::Relaxed), start))
    }

    /// Opens the lease of the window that begins at this second with the calls counted in it; from
    /// now on, a caller whose clock is behind counts in this window. Other leases are forfeit. Of calls
    /// counted before, at most `leased` were leased: the others are an overdraft.
    pub(super) fn open_lease(&self, start: u64, leased: u64) {
        let _ = self.counted.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |seen| {
            (seen >> COUNT_BITS < start / 60).then_some(pack(start, 0))
        });
        let used = count_in(self.counted.load(Ordering::Relaxed), start);
        self.leased.store(pack(start, used.min(leased)), Ordering::Relaxed);
    }

    /// Adds calls to the lease of the window that begins at this second; returns those leased now,
    /// `None` if the lease is that of another window.
    pub(super) fn extend_lease(&self, start: u64, calls: u64) -> Option<u64> {
        let extended = self.leased.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |seen| {
            let leased = (seen & COUNT_MASK).saturating_add(calls).min(COUNT_MASK);
            (seen >> COUNT_BITS == start / 60).then_some(pack(start, leased))
        });
        extended.ok().map(|_| count_in(self.leased.load(Ordering::Relaxed), start))
    }

    /// Forgets the lease.
    pub(super) fn close_lease(&self) {
        self.leased.store(0, Ordering::Relaxed);
    }

    /// The result of [`Used::admit`] now; nothing is counted.
    pub(super) fn peek(&self, calls: u64, window: Window) -> Result<u64, ()> {
        calls.checked_sub(self.in_force(window) + 1).ok_or(())
    }

    /// Refunds a call that was counted with this window. If the counter has reached another window,
    /// that keeps its calls: none of them may be this one.
    pub(super) fn refund(&self, window: Window) {
        let _ = self.counted.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |seen| {
            let (start, count) = Self::in_window(seen, window);
            let count = count.checked_sub(1)?;
            (start == window.start).then_some(u64::from(start) << COUNT_BITS | count)
        });
    }

    /// The window start and count a call in `window` finds.
    fn in_window(packed: u64, window: Window) -> (u32, u64) {
        let (start, count) = ((packed >> COUNT_BITS) as u32, packed & COUNT_MASK);
        let length = window.end - window.start;
        if start < window.start || start >= window.end.saturating_add(length) {
            (window.start, 0)
        } else if start < window.end {
            // It may be that of a shorter period, before a reload.
            (window.start, count)
        } else {
            (start, count)
        }
    }

    /// Calls counted in the window that a call in `window` counts in.
    pub(super) fn in_force(&self, window: Window) -> u64 {
        Self::in_window(self.counted.load(Ordering::Relaxed), window).1
    }

    /// Start of the window in seconds since 1970, and calls counted in it.
    pub(super) fn read(&self) -> (u64, u64) {
        let packed = self.counted.load(Ordering::Relaxed);
        ((packed >> COUNT_BITS) * 60, packed & COUNT_MASK)
    }

    /// Restores an earlier count, unless there is a later window or a higher count already. The calls
    /// were admitted by earlier leases, so an open lease grows with them.
    pub(super) fn restore(&self, start: u64, count: u64) {
        let packed = pack(start, count);
        let before = self.counted.fetch_max(packed, Ordering::Relaxed);
        if before < packed {
            self.extend_lease(start, count.saturating_sub(count_in(before, start)));
        }
    }

    /// Adds calls that were admitted elsewhere, unless there is a later window already. They were
    /// admitted by leases of that process, so an open lease grows with them.
    pub(super) fn add(&self, start: u64, calls: u64) {
        let added = self.counted.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |seen| {
            let is_later = seen >> COUNT_BITS > start / 60;
            (!is_later).then(|| pack(start, count_in(seen, start).saturating_add(calls)))
        });
        if added.is_ok() {
            self.extend_lease(start, calls);
        }
    }
}

/// The window that begins at this second, with a count.
fn pack(start: u64, count: u64) -> u64 {
    (start / 60) << COUNT_BITS | count.min(COUNT_MASK)
}

/// The count of a number if its window begins at this second, else 0.
fn count_in(packed: u64, start: u64) -> u64 {
    if packed >> COUNT_BITS == start / 60 { packed & COUNT_MASK } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::tz::TimeZone;

    fn unix(text: &str) -> u64 {
        u64::try_from(text.parse::<Timestamp>().expect("a time").as_second()).expect("after 1970")
    }

    fn calendar(per: QuotaPeriod, zone: &str) -> Calendar {
        Calendar::new(Quota {
            calls: 3,
            per,
            zone: TimeZone::get(zone).expect("a zone"),
            rolling: false,
        })
    }

    fn window(per: QuotaPeriod, zone: &str, at: &str) -> (u64, u64) {
        let window = calendar(per, zone).window(unix(at));
        (u64::from(window.start) * 60, u64::from(window.end) * 60)
    }

    #[test]
    fn windows_follow_the_calendar_of_their_zone() {
        use QuotaPeriod::{Day, Hour, Minute, Month, Week, Year};
        for (per, zone, at, start, end) in [
            (Minute, "UTC", "2026-11-21T09:15:59Z", "2026-11-21T09:15:00Z", "2026-11-21T09:16:00Z"),
            (Hour, "UTC", "2026-11-21T09:15:59Z", "2026-11-21T09:00:00Z", "2026-11-21T10:00:00Z"),
            (
                Hour,
                "Asia/Kolkata",
                "2026-11-21T09:15:00Z",
                "2026-11-21T08:30:00Z",
                "2026-11-21T09:30:00Z",
            ),
            (Day, "UTC", "2026-11-21T23:59:59Z", "2026-11-21T00:00:00Z", "2026-11-22T00:00:00Z"),
            (
                Day,
                "Europe/Berlin",
                "2026-11-21T23:30:00Z",
                "2026-11-21T23:00:00Z",
                "2026-11-22T23:00:00Z",
            ),
            // 23 and 25 hours.
            (
                Day,
                "Europe/Berlin",
                "2026-03-29T12:00:00Z",
                "2026-03-28T23:00:00Z",
                "2026-03-29T22:00:00Z",
            ),
            (
                Day,
                "Europe/Berlin",
                "2026-10-25T12:00:00Z",
                "2026-10-24T22:00:00Z",
                "2026-10-25T23:00:00Z",
            ),
            // A Sunday still belongs to the week that began on Monday.
            (Week, "UTC", "2026-11-22T12:00:00Z", "2026-11-16T00:00:00Z", "2026-11-23T00:00:00Z"),
            (Week, "UTC", "2026-11-23T00:00:00Z", "2026-11-23T00:00:00Z", "2026-11-30T00:00:00Z"),
            (Month, "UTC", "2028-02-29T12:00:00Z", "2028-02-01T00:00:00Z", "2028-03-01T00:00:00Z"),
            (
                Month,
                "America/New_York",
                "2026-12-01T04:59:00Z",
                "2026-11-01T04:00:00Z",
                "2026-12-01T05:00:00Z",
            ),
            (Year, "UTC", "2026-11-21T00:00:00Z", "2026-01-01T00:00:00Z", "2027-01-01T00:00:00Z"),
        ] {
            assert_eq!(window(per, zone, at), (unix(start), unix(end)), "{per:?} {zone} {at}");
        }
    }

    #[test]
    fn a_window_found_once_is_used_until_it_ends() {
        let calendar = calendar(QuotaPeriod::Day, "UTC");
        let first = calendar.window(unix("2026-11-21T00:00:00Z"));
        assert_eq!(calendar.window(unix("2026-11-21T23:59:59Z")), first);
        let second = calendar.window(unix("2026-11-22T00:00:00Z"));
        assert_eq!(second.start, first.end);
        assert_eq!(second.ends_in(unix("2026-11-22T23:59:30Z")), 30);
        assert_eq!(calendar.window(u64::MAX).seconds(), 60);
    }

    #[test]
    fn calls_are_counted_by_window() {
        let (used, today) = (Used::default(), Window { start: 1440, end: 2880 });
        assert_eq!([(); 4].map(|()| used.admit(3, today)), [Ok(2), Ok(1), Ok(0), Err(())]);
        let tomorrow = Window { start: 2880, end: 4320 };
        assert_eq!(used.admit(3, tomorrow), Ok(2));
        assert_eq!(used.admit(3, today), Ok(1), "a late clock counts in the window reached");
        assert_eq!(used.read(), (2880 * 60, 2));
        assert_eq!(used.admit(0, tomorrow), Err(()));
    }

    #[test]
    fn a_call_is_given_back_where_it_was_counted() {
        let (used, today) = (Used::default(), Window { start: 1440, end: 2880 });
        used.refund(today);
        assert_eq!([(); 2].map(|()| used.admit(2, today)), [Ok(1), Ok(0)]);
        used.refund(today);
        assert_eq!(used.in_force(today), 1);
        assert_eq!([(); 2].map(|()| used.admit(2, today)), [Ok(0), Err(())]);
        used.refund(Window { start: 2880, end: 4320 });
        assert_eq!(used.in_force(today), 2, "a window that nobody has called in");
    }

    #[test]
    fn a_clock_set_far_back_begins_anew() {
        let used = Used::default();
        used.admit(1, Window { start: 144_000, end: 145_440 }).expect("room");
        assert_eq!(used.admit(1, Window { start: 1440, end: 2880 }), Ok(0));
    }

    #[test]
    fn counts_can_be_restored_but_never_lowered() {
        let (used, today) = (Used::default(), Window { start: 1440, end: 2880 });
        used.restore(1440 * 60, 2);
        assert_eq!(used.admit(3, today), Ok(0));
        used.restore(1440 * 60, 1);
        used.restore(0, 900);
        assert_eq!(used.admit(3, today), Err(()));
    }

    #[test]
    fn calls_admitted_elsewhere_are_added() {
        let used = Used::default();
        used.add(1440 * 60, 2);
        used.add(1440 * 60, 1);
        assert_eq!(used.read(), (1440 * 60, 3));
        used.add(0, 900);
        assert_eq!(used.read(), (1440 * 60, 3));
        used.add(2880 * 60, 1);
        assert_eq!(used.read(), (2880 * 60, 1));
    }

    #[test]
    fn threads_that_roll_the_window_admit_no_more_than_the_quota_in_each() {
        let windows = [Window { start: 0, end: 10 }, Window { start: 10, end: 20 }];
        for _ in 0..200 {
            let used = Used::default();
            let barrier = std::sync::Barrier::new(2);
            let admit = || {
                barrier.wait();
                let tries = windows.iter().flat_map(|window| std::iter::repeat_n(window, 20));
                tries.filter(|window| used.admit(7, **window).is_ok()).count()
            };
            let admitted: usize = std::thread::scope(|scope| {
                let threads = [scope.spawn(admit), scope.spawn(admit)];
                threads.into_iter().map(|thread| thread.join().expect("no panic")).sum()
            });
            assert!((7..=14).contains(&admitted), "{admitted}");
            assert_eq!(used.read(), (10 * 60, 7));
        }
    }

    #[test]
    fn a_lease_is_that_of_its_window() {
        let used = Used::default();
        let (today, tomorrow) =
            (Window { start: 1440, end: 2880 }, Window { start: 2880, end: 4320 });
        let start = |window: Window| window.begin();
        let none = Tally { start: start(today), used: 0, leased: 0 };
        assert_eq!(used.admit_leased(today, 0), Err(none));
        assert_eq!(used.extend_lease(start(today), 3), None, "not open");
        used.open_lease(start(today), u64::MAX);
        assert_eq!(used.extend_lease(start(today), 3), Some(3));
        assert_eq!(used.admit_leased(today, 0), Ok(Tally { used: 1, leased: 3, ..none }));
        assert_eq!(used.admit_leased(tomorrow, 0), Err(Tally { start: start(tomorrow), ..none }));
        used.open_lease(start(tomorrow), u64::MAX);
        assert_eq!(used.admit_leased(today, 0), Err(Tally { start: start(tomorrow), ..none }));
        assert_eq!(used.extend_lease(start(today), 3), None);
        assert!(used.admit_leased(tomorrow, 1).is_ok() && used.admit_leased(tomorrow, 1).is_err());
    }

    #[test]
    fn an_overdraft_of_an_earlier_run_stays_one() {
        let (used, today) = (Used::default(), Window { start: 10, end: 20 });
        used.restore(today.begin(), 7);
        used.open_lease(today.begin(), 5);
        assert_eq!(used.leased_in(today.begin()), (7, 5));
        assert!(used.admit_leased(today, 2).is_err(), "it is used up");
        assert!(used.admit_leased(today, 3).is_ok());
    }

    #[test]
    fn threads_that_roll_the_window_admit_no_more_than_is_leased_for_each() {
        let windows = [Window { start: 10, end: 20 }, Window { start: 20, end: 30 }];
        for _ in 0..500 {
            let used = Used::default();
            used.open_lease(windows[0].begin(), u64::MAX);
            used.extend_lease(windows[0].begin(), 7);
            let barrier = std::sync::Barrier::new(3);
            let admit = |order: [Window; 2]| {
                barrier.wait();
                let tries = order.iter().flat_map(|window| std::iter::repeat_n(window, 20));
                tries.filter(|window| used.admit_leased(**window, 0).is_ok()).count()
            };
            let [first, second] = windows;
            let admitted: usize = std::thread::scope(|scope| {
                let callers = [[first, second], [second, first]].map(|order| {
                    let admit = &admit;
                    scope.spawn(move || admit(order))
                });
                barrier.wait();
                used.open_lease(second.begin(), u64::MAX);
                used.extend_lease(second.begin(), 2);
                used.extend_lease(second.begin(), 3);
                callers.into_iter().map(|thread| thread.join().expect("no panic")).sum()
            });
            let (later, leased) = used.leased_in(second.begin());
            assert!(later <= 5 && leased == 5 && admitted as u64 <= 7 + later, "{admitted}");
        }
    }
}
