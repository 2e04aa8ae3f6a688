//! Offset of an agent's clock, measured by round trips.

use std::collections::VecDeque;
use std::time::Duration;

/// Round trips of which the shortest one counts.
const WINDOW: usize = 16;
/// Largest drift of a clock: an absolute part, and a share of the passed time. Clocks that are corrected by
/// NTP differ by at most 0.05 %.
const MAX_DRIFT: (Duration, f64) = (Duration::from_millis(20), 0.001);

/// A round trip, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct RoundTrip {
    /// Time of the agent minus time of the controller.
    pub(super) offset: i128,
    /// Length: the offset is accurate to half of it.
    pub(super) length: u64,
    /// Time of the controller.
    at: u64,
}

impl RoundTrip {
    /// Sent and received in the controller's time, `remote` in the agent's.
    pub(super) fn new(sent: u64, remote: u64, received: u64) -> Self {
        let length = received.saturating_sub(sent);
        let offset = i128::from(remote) - i128::from(sent) - i128::from(length / 2);
        Self { offset, length, at: received }
    }
}

/// The offset of an agent's clock.
#[derive(Debug, Default)]
pub(super) struct Offset {
    first: VecDeque<RoundTrip>,
    last: VecDeque<RoundTrip>,
}

impl Offset {
    pub(super) fn add(&mut self, trip: RoundTrip) {
        if self.first.len() < WINDOW {
            self.first.push_back(trip);
        }
        if self.last.len() == WINDOW {
            self.last.pop_front();
        }
        self.last.push_back(trip);
    }

    /// The most accurate of the last round trips.
    pub(super) fn current(&self) -> Option<RoundTrip> {
        self.last.iter().min_by_key(|trip| trip.length).copied()
    }

    /// Change of the offset since the first round trips, in nanoseconds, beyond the accuracy of both.
    pub(super) fn drift(&self) -> u64 {
        let first = self.first.iter().min_by_key(|trip| trip.length);
        let (Some(first), Some(last)) = (first, self.current()) else { return 0 };
        let change = (last.offset - first.offset).unsigned_abs();
        let accuracy = u128::from(first.length / 2 + last.length / 2);
        u64::try_from(change.saturating_sub(accuracy)).unwrap_or(u64::MAX)
    }

    /// The drift if it is too large.
    pub(super) fn too_large(&self) -> Option<Duration> {
        let first = self.first.front()?;
        let passed = self.current()?.at.saturating_sub(first.at);
        let share = Duration::from_nanos((passed as f64 * MAX_DRIFT.1) as u64);
        let drift = Duration::from_nanos(self.drift());
        (drift > MAX_DRIFT.0.max(share)).then_some(drift)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn the_shortest_round_trip_has_the_offset() {
        let mut offset = Offset::default();
        offset.add(RoundTrip::new(0, 1_000 * MS + 9 * MS, 10 * MS));
        offset.add(RoundTrip::new(20 * MS, 1_020 * MS + MS, 22 * MS));
        let found = offset.current().expect("two");
        assert_eq!((found.offset, found.length), (i128::from(1_000 * MS), 2 * MS));
        assert_eq!(offset.too_large(), None, "within the accuracy");
    }

    #[test]
    fn a_clock_that_runs_differently_has_drifted() {
        let drifted = |per_mille: u64| {
            let mut offset = Offset::default();
            for at in (0..120_000).step_by(500) {
                let sent = at * MS;
                offset.add(RoundTrip::new(sent, sent + sent / 1_000 * per_mille, sent + MS));
            }
            offset.too_large().map(|drift| drift.as_millis())
        };
        assert_eq!(drifted(0), None);
        assert!(drifted(2).is_some_and(|ms| (200..250).contains(&ms)), "{:?}", drifted(2));
    }

    #[test]
    fn a_step_is_a_drift() {
        let mut offset = Offset::default();
        for at in 0..40_u64 {
            let step = if at < 20 { 0 } else { 50 * MS };
            offset.add(RoundTrip::new(at * 500 * MS, at * 500 * MS + step, at * 500 * MS + MS));
        }
        assert!(offset.too_large().is_some());
    }
}
