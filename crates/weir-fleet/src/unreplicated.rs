//! What is missing if this node is lost now: calls that it has recorded and not replicated.
//!
//! The node reports their number, and its rate, with each replication, about once a second. If its data is
//! lost, at most so many calls are missing, and those of the time since.

use std::collections::VecDeque;
use std::time::{Duration, Instant};
use weir_monitor::{Monitor, Recorded};

/// Time of the highest rate.
const RATE_TIME: Duration = Duration::from_secs(60);
/// Shortest time over which a rate is measured.
const RATE_STEP: Duration = Duration::from_millis(900);
/// Time after the last report in which a lost node may have recorded calls, in seconds: it reports about
/// once a second, and a report may take as long.
pub(crate) const UNREPORTED: f64 = 3.0;

/// The records of this node, and what of them is replicated.
#[derive(Debug, Default)]
pub(crate) struct Unreplicated {
    /// The counts of this process; `None`: it counts no calls.
    monitor: Option<Monitor>,
    replicated: u64,
    /// Records when the rate was measured last.
    last: Option<(Instant, u64)>,
    /// Rates of the last minute.
    rates: VecDeque<(Instant, f64)>,
}

/// What is reported.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct UnreplicatedReport {
    /// Calls recorded and not replicated.
    pub(crate) calls: u64,
    /// The highest rate of the last minute, in calls per second.
    pub(crate) rate: f64,
}

impl Unreplicated {
    pub(crate) fn new(monitor: Option<Monitor>) -> Self {
        Self { monitor, ..Self::default() }
    }

    fn recorded(&self) -> Option<Recorded> {
        self.monitor.as_ref()?.recorded()
    }

    /// Records that are counted now: to be called before the counts are read that are replicated.
    pub(crate) fn counted(&self) -> Option<u64> {
        self.recorded().map(|recorded| recorded.counted)
    }

    /// What the node reports, if records up to `counted` are replicated with this report, or as many as
    /// before. `None` until that is known: the last report holds.
    pub(crate) fn report(&mut self, counted: Option<u64>) -> Option<UnreplicatedReport> {
        let Recorded { appended, .. } = self.recorded()?;
        let replicated = counted.unwrap_or(self.replicated);
        self.measure(appended, Instant::now());
        let rate = self.rates.iter().map(|(_, rate)| *rate).fold(0.0, f64::max);
        Some(UnreplicatedReport { calls: appended.saturating_sub(replicated), rate })
    }

    /// The transaction with the report is committed.
    pub(crate) fn replicated(&mut self, counted: Option<u64>) {
        self.replicated = counted.unwrap_or(self.replicated);
    }

    fn measure(&mut self, appended: u64, now: Instant) {
        if let Some((at, before)) = self.last {
            let seconds = now.saturating_duration_since(at);
            if seconds < RATE_STEP {
                return;
            }
            let rate = appended.saturating_sub(before) as f64 / seconds.as_secs_f64();
            self.rates.push_back((now, rate));
        }
        self.last = Some((now, appended));
        let is_old = |(at, _): &(Instant, f64)| now.saturating_duration_since(*at) > RATE_TIME;
        while self.rates.front().is_some_and(is_old) {
            self.rates.pop_front();
        }
    }
}

/// The most calls that a lost node has recorded and not replicated, by its last report.
pub(crate) const MISSING: &str = "pending + ceil(rate * $3)::bigint";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_the_highest_of_the_last_minute() {
        let (mut calls, start) = (Unreplicated::default(), Instant::now());
        let second = |n: u64| start + Duration::from_secs(n);
        for (at, appended) in [(0, 0), (1, 100), (2, 110), (3, 110)] {
            calls.measure(appended, second(at));
        }
        // Too short to be a rate.
        calls.measure(150, second(3) + Duration::from_millis(10));
        let highest = |calls: &Unreplicated| calls.rates.iter().map(|r| r.1).fold(0.0, f64::max);
        assert!((highest(&calls) - 100.0).abs() < 0.001);
        calls.measure(200, second(62));
        assert!(highest(&calls) < 11.0, "{:?}", calls.rates);
    }
}
