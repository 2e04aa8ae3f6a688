//! The retry budget: a share of the requests of the last seconds.

use std::cell::RefCell;
use std::time::Instant;

/// Seconds of the window.
const WINDOW: usize = 10;

/// Requests and retries of one worker to one upstream. Each worker applies the share to its own
/// requests, so it holds for all of them together.
#[derive(Debug)]
pub(crate) struct Budget {
    start: Instant,
    /// Slots by second modulo the window.
    slots: RefCell<[Slot; WINDOW]>,
}

/// Requests and retries of one second.
#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    /// Seconds since the start.
    second: u64,
    requests: u64,
    repeats: u64,
}

impl Budget {
    pub(super) fn new(start: Instant) -> Self {
        Self { start, slots: RefCell::default() }
    }

    /// Counts a first attempt.
    pub(crate) fn request(&self, now: Instant) {
        let second = self.second(now);
        let mut slots = self.slots.borrow_mut();
        Slot::at(&mut slots, second).requests += 1;
    }

    /// Whether the budget admits a retry, which is then counted. `share` is in hundredths of a
    /// percent, `minimum` that of this worker, for the entire window.
    pub(crate) fn spend(&self, share: u32, minimum: f64, now: Instant) -> bool {
        let second = self.second(now);
        let mut slots = self.slots.borrow_mut();
        let recent = slots.iter().filter(|slot| slot.second + WINDOW as u64 > second);
        let (requests, repeats) =
            recent.fold((0, 0), |(r, s), slot| (r + slot.requests, s + slot.repeats));
        let allowed = requests as f64 * f64::from(share) / 10_000.0 + minimum;
        let admitted = (repeats + 1) as f64 <= allowed;
        if admitted {
            Slot::at(&mut slots, second).repeats += 1;
        }
        admitted
    }

    fn second(&self, now: Instant) -> u64 {
        now.saturating_duration_since(self.start).as_secs()
    }
}

impl Slot {
    fn at(slots: &mut [Self; WINDOW], second: u64) -> &mut Self {
        let slot = &mut slots[second as usize % WINDOW];
        if slot.second != second {
            *slot = Self { second, ..Self::default() };
        }
        slot
    }
}

/// A worker's part of the retries that are always permitted, per window.
pub(crate) fn minimum_of_worker(per_second: u32, workers: usize) -> f64 {
    f64::from(per_second) * WINDOW as f64 / workers.max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn spent(budget: &Budget, minimum: f64, now: Instant) -> usize {
        (0..10_000).take_while(|_| budget.spend(2000, minimum, now)).count()
    }

    #[test]
    fn a_share_of_the_requests_of_the_window_and_no_more() {
        let start = Instant::now();
        let budget = Budget::new(start);
        let at = |seconds| start + Duration::from_secs(seconds);
        assert_eq!(spent(&budget, 0.0, start), 0, "a share of nothing");
        (0..100).for_each(|_| budget.request(at(1)));
        assert_eq!(spent(&budget, 0.0, at(1)), 20);
        assert_eq!(spent(&budget, 0.0, at(10)), 0, "it is spent");
        (0..10).for_each(|_| budget.request(at(10)));
        assert_eq!(spent(&budget, 0.0, at(10)), 2);
        assert_eq!(spent(&budget, 0.0, at(19)), 0, "requests are forgotten, repeats are, too");
    }

    #[test]
    fn a_minimum_is_there_without_any_request() {
        let start = Instant::now();
        let budget = Budget::new(start);
        let minimum = minimum_of_worker(3, 2);
        assert_eq!(spent(&budget, minimum, start), 15);
        let later = start + Duration::from_secs(9);
        assert_eq!(spent(&budget, minimum, later), 0);
        assert_eq!(spent(&budget, minimum, later + Duration::from_secs(1)), 15);
    }

    #[test]
    fn never_more_than_the_share_however_the_load_comes() {
        let start = Instant::now();
        let budget = Budget::new(start);
        let mut random = fastrand::Rng::with_seed(7);
        let (mut requests, mut repeats, mut now) = (0u64, 0u64, start);
        for step in 0..200_000u64 {
            now += Duration::from_millis(random.u64(..3));
            // Load varies, the error rate stays.
            if (step / 20_000) % 2 == 0 && random.bool() {
                budget.request(now);
                requests += 1;
            }
            repeats += u64::from(budget.spend(2000, 0.0, now));
        }
        assert!(repeats > 0 && repeats * 5 <= requests, "{repeats} of {requests}");
    }
}
