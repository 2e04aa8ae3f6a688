//! The circuit breaker of Redis.
//!
//! Three failures in a row open it. It closes after some successes in a row, one at each
//! [`PROBE_INTERVAL`]: after one second at first, so that a restart of Redis costs no more than that;
//! if it opens again soon, after twice the time, up to five seconds.

use std::time::{Duration, Instant};

/// Interval of the attempts while it is open.
pub(super) const PROBE_INTERVAL: Duration = Duration::from_millis(200);
/// Failures in a row that open it.
const MAX_FAILURES: u32 = 3;
/// Successes in a row that close it: at first, and at most.
const SUCCESSES: (u32, u32) = (5, 25);
/// The time for which it must be closed, so that Redis counts as stable.
const STABLE: Duration = Duration::from_secs(30);

/// The circuit breaker.
#[derive(Debug)]
pub(super) struct Breaker {
    state: State,
    /// Successes in a row that close it.
    needed: u32,
    /// When it was closed last.
    closed: Option<Instant>,
}

#[derive(Debug)]
enum State {
    /// Redis is used; failures in a row.
    Closed(u32),
    /// Redis is not used; successes in a row.
    Open(u32),
}

impl Breaker {
    /// One that the first success closes.
    pub(super) fn new() -> Self {
        Self { state: State::Open(0), needed: 1, closed: None }
    }

    pub(super) fn is_open(&self) -> bool {
        matches!(self.state, State::Open(_))
    }

    /// Redis has failed.
    pub(super) fn failed(&mut self, now: Instant) {
        match &mut self.state {
            State::Closed(failures) if *failures + 1 < MAX_FAILURES => *failures += 1,
            State::Closed(_) => {
                let is_stable = self.closed.is_none_or(|at| now.duration_since(at) >= STABLE);
                let (least, most) = SUCCESSES;
                self.needed = if is_stable { least } else { (2 * self.needed).clamp(least, most) };
                self.state = State::Open(0);
            }
            State::Open(successes) => *successes = 0,
        }
    }

    /// Redis has responded in time.
    pub(super) fn succeeded(&mut self, now: Instant) {
        match &mut self.state {
            State::Closed(failures) => *failures = 0,
            State::Open(successes) if *successes + 1 < self.needed => *successes += 1,
            State::Open(_) => {
                self.state = State::Closed(0);
                self.closed = Some(now);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn repeat(times: u32, mut change: impl FnMut()) {
        (0..times).for_each(|_| change());
    }

    /// Successes until it is closed.
    fn successes_to_close(breaker: &mut Breaker, now: Instant) -> u32 {
        let mut successes = 0;
        while breaker.is_open() {
            breaker.succeeded(now);
            successes += 1;
        }
        successes
    }

    #[test]
    fn three_failures_in_a_row_open_it_and_successes_in_a_row_close_it() {
        let now = Instant::now();
        let mut breaker = Breaker::new();
        breaker.failed(now);
        assert_eq!(successes_to_close(&mut breaker, now), 1);
        let later = now + STABLE;
        repeat(2, || breaker.failed(later));
        breaker.succeeded(later);
        repeat(2, || breaker.failed(later));
        assert!(!breaker.is_open());
        breaker.failed(later);
        assert!(breaker.is_open());
        // One second, and from the start after a failure.
        assert_eq!(PROBE_INTERVAL * SUCCESSES.0, Duration::from_secs(1));
        repeat(4, || breaker.succeeded(later));
        breaker.failed(later);
        assert_eq!(successes_to_close(&mut breaker, later), 5);
    }

    #[test]
    fn it_stays_open_for_longer_if_it_opens_again_soon() {
        let now = Instant::now();
        let mut breaker = Breaker::new();
        let mut needed = Vec::new();
        for _ in 0..5 {
            needed.push(successes_to_close(&mut breaker, now));
            repeat(MAX_FAILURES, || breaker.failed(now));
        }
        assert_eq!(needed, [1, 5, 10, 20, 25]);
        successes_to_close(&mut breaker, now);
        repeat(MAX_FAILURES, || breaker.failed(now + STABLE));
        assert_eq!(successes_to_close(&mut breaker, now + STABLE), 5);
    }
}
