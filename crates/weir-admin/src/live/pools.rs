//! Recent history of pools, by second.

use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use utoipa::ToSchema;
use weir_broker::{DurationSummary, PoolSnapshot};

/// Maximum number of seconds, and of pools.
const MAX_SECONDS: usize = 900;
const MAX_POOLS: usize = 64;

/// History of a pool, in columns.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub(crate) struct PoolHistory {
    /// Name of the pool.
    pub(crate) pool: String,
    /// Seconds since 1970, oldest first.
    pub(crate) at: Vec<u64>,
    /// Busy agents.
    pub(crate) busy: Vec<u64>,
    /// Waiting requests.
    pub(crate) waiting: Vec<u64>,
    /// Requests completed in the second.
    pub(crate) served: Vec<u64>,
    /// Mean wait of the requests of the second in microseconds; absent without requests.
    pub(crate) wait_us: Vec<Option<u64>>,
    /// Mean duration of the requests of the second in microseconds; absent without requests.
    pub(crate) took_us: Vec<Option<u64>>,
}

/// History of all pools.
#[derive(Debug, Default)]
pub(super) struct PoolHistories(Vec<PoolRing>);

#[derive(Debug, Default)]
struct PoolRing {
    pool: String,
    points: VecDeque<Point>,
    /// Totals of the previous second.
    before: Option<[(u64, f64); 3]>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Point {
    at: u64,
    busy: u64,
    waiting: u64,
    served: u64,
    wait_us: Option<u64>,
    took_us: Option<u64>,
}

impl PoolHistories {
    /// Adds the current values. Removed pools are dropped.
    pub(super) fn add(&mut self, now: u64, pools: &[PoolSnapshot]) {
        self.0.retain(|one| pools.iter().any(|pool| pool.name == one.pool));
        for pool in pools.iter().take(MAX_POOLS) {
            let known = self.0.iter().position(|one| one.pool == pool.name);
            let at = known.unwrap_or_else(|| {
                self.0.push(PoolRing { pool: pool.name.clone(), ..PoolRing::default() });
                self.0.len() - 1
            });
            self.0[at].add(now, pool);
        }
    }

    /// The history of a period, in seconds since 1970.
    pub(super) fn between(&self, from: u64, to: u64) -> Vec<PoolHistory> {
        self.0.iter().map(|one| one.between(from, to)).collect()
    }
}

impl PoolRing {
    fn add(&mut self, now: u64, pool: &PoolSnapshot) {
        let totals = [(pool.served, 0.0), sum(&pool.request_wait), sum(&pool.request_duration)];
        if let Some([served, wait, took]) = self.before.replace(totals) {
            if self.points.len() >= MAX_SECONDS {
                self.points.pop_front();
            }
            self.points.push_back(Point {
                at: now,
                busy: pool.agents.busy as u64,
                waiting: pool.queue.current as u64,
                served: pool.served.saturating_sub(served.0),
                wait_us: mean(wait, totals[1]),
                took_us: mean(took, totals[2]),
            });
        }
    }

    fn between(&self, from: u64, to: u64) -> PoolHistory {
        let mut history = PoolHistory { pool: self.pool.clone(), ..PoolHistory::default() };
        for point in self.points.iter().filter(|point| (from..=to).contains(&point.at)) {
            history.at.push(point.at);
            history.busy.push(point.busy);
            history.waiting.push(point.waiting);
            history.served.push(point.served);
            history.wait_us.push(point.wait_us);
            history.took_us.push(point.took_us);
        }
        history
    }
}

/// Number and sum in seconds.
fn sum(summary: &DurationSummary) -> (u64, f64) {
    (summary.count, summary.sum)
}

/// Mean of the new values in microseconds; `None` if the counters restarted.
fn mean(before: (u64, f64), now: (u64, f64)) -> Option<u64> {
    let count = now.0.checked_sub(before.0).filter(|count| *count > 0)?;
    let seconds = (now.1 - before.1).max(0.0);
    Some((seconds / count as f64 * 1e6).round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_broker::QueueLength;

    fn snapshot(served: u64, sum: f64) -> PoolSnapshot {
        let summary = DurationSummary { count: served, sum, ..DurationSummary::default() };
        PoolSnapshot {
            name: "a".to_owned(),
            served,
            request_wait: summary,
            request_duration: summary,
            queue: QueueLength { current: 3, ..QueueLength::default() },
            ..PoolSnapshot::default()
        }
    }

    #[test]
    fn a_second_has_what_came_in_it() {
        let mut history = PoolHistories::default();
        history.add(1, &[snapshot(10, 0.1)]);
        history.add(2, &[snapshot(20, 0.3)]);
        history.add(3, &[snapshot(20, 0.3)]);
        let [pool] = &history.between(0, 9)[..] else { panic!("one pool") };
        assert_eq!(
            (&pool.at[..], &pool.served[..], pool.waiting[0]),
            (&[2, 3][..], &[10, 0][..], 3)
        );
        assert_eq!(pool.wait_us, [Some(20_000), None], "ten of 20 ms came to ten of 10 ms");
        assert_eq!(history.between(3, 9)[0].at, [3]);
        history.add(4, &[]);
        assert!(history.between(0, 9).is_empty(), "it is gone");
    }

    #[test]
    fn it_is_bounded() {
        let mut history = PoolHistories::default();
        for second in 0..2 * MAX_SECONDS as u64 {
            history.add(second, &[snapshot(second, 1.0)]);
        }
        assert_eq!(history.between(0, u64::MAX)[0].at.len(), MAX_SECONDS);
    }
}
