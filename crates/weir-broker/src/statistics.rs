//! Figures of a pool, in the terms of Progress' brokers. They are documents of the admin API, too.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use weir_model::bins::{self, STEPS};

/// Bins of [`bins::place`]: the exact values, and 30 doublings, up to 2^36 µs, which is 19 hours.
const BINS: usize = STEPS * 31;

/// A histogram of durations with logarithmic buckets, for percentiles; about 16 KiB.
#[derive(Clone, Debug)]
pub(crate) struct DurationHistogram {
    counts: Box<[u64; BINS]>,
    count: u64,
    sum: u64,
    max: u64,
}

impl Default for DurationHistogram {
    fn default() -> Self {
        Self { counts: Box::new([0; BINS]), count: 0, sum: 0, max: 0 }
    }
}

/// Times in seconds; percentiles within 1 %.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct DurationSummary {
    /// Number of values.
    pub count: u64,
    /// Their sum.
    #[serde(skip)]
    pub sum: f64,
    /// Mean.
    pub mean: f64,
    /// Maximum.
    pub max: f64,
    /// Median.
    pub p50: f64,
    /// 95th percentile.
    pub p95: f64,
    /// 99th percentile.
    pub p99: f64,
}

/// The bin of a value; the last one has all larger values, too.
fn bucket(micros: u64) -> usize {
    let (octave, bin) = bins::place(micros);
    (octave * STEPS + bin).min(BINS - 1)
}

/// The middle of a bin.
fn middle(bucket: usize) -> u64 {
    bins::middle(bucket / STEPS, bucket % STEPS)
}

impl DurationHistogram {
    pub(crate) fn record(&mut self, duration: std::time::Duration) {
        let micros = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
        self.counts[bucket(micros)] += 1;
        self.count += 1;
        self.sum = self.sum.saturating_add(micros);
        self.max = self.max.max(micros);
    }

    pub(crate) fn summary(&self) -> DurationSummary {
        let seconds = |micros: u64| micros as f64 / 1e6;
        let percentile = |percent: u64| {
            let rank = (self.count * percent).div_ceil(100);
            let mut seen = 0;
            let found = self.counts.iter().position(|count| {
                seen += count;
                seen >= rank && rank > 0
            });
            found.map_or(0.0, |bucket| seconds(middle(bucket).min(self.max)))
        };
        DurationSummary {
            count: self.count,
            sum: seconds(self.sum),
            mean: if self.count == 0 { 0.0 } else { seconds(self.sum) / self.count as f64 },
            max: seconds(self.max),
            p50: percentile(50),
            p95: percentile(95),
            p99: percentile(99),
        }
    }
}

/// Counters of a pool.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) served: u64,
    pub(crate) rejected_full: u64,
    pub(crate) rejected_wait: u64,
    pub(crate) rejected_unavailable: u64,
    pub(crate) started: u64,
    pub(crate) failed_starts: u64,
    pub(crate) restarted: u64,
    pub(crate) crashed: u64,
    pub(crate) killed: u64,
    pub(crate) peak: usize,
    pub(crate) log_dropped: u64,
    pub(crate) wait: DurationHistogram,
    pub(crate) duration: DurationHistogram,
}

/// Agents by state.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AgentStates {
    /// With a request.
    pub busy: usize,
    /// Idle.
    pub available: usize,
    /// Started, not ready yet.
    pub starting: usize,
    /// Draining, or not known to be healthy.
    pub locked: usize,
    /// Maximum number of agents.
    pub max: usize,
    /// Process ids of the agents that weir started.
    // In any order.
    pub pids: Vec<u32>,
}

/// Queue of waiting requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct QueueLength {
    /// Current length.
    pub current: usize,
    /// Peak length.
    pub peak: usize,
    /// Maximum length.
    pub max: usize,
}

/// Status of a pool; counters count since the start of weir.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct PoolSnapshot {
    /// Name of the pool.
    #[serde(rename = "pool")]
    pub name: String,
    /// Protocol of the agents: `fastcgi`, `http` or `cgi`.
    pub protocol: String,
    /// The pool is ready, as far as is known.
    // Not all of its agents have failed.
    pub ready: bool,
    /// Last error of an agent, until an agent serves again.
    #[serde(default, rename = "trouble", skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
    /// Current agents.
    pub agents: AgentStates,
    /// Waiting requests.
    pub queue: QueueLength,
    /// Requests served.
    pub served: u64,
    /// Requests rejected because the queue was full.
    pub rejected_full: u64,
    /// Requests rejected because their wait timed out.
    pub rejected_wait: u64,
    /// Requests rejected because no agent could be started.
    pub rejected_unavailable: u64,
    /// Agents started.
    pub started: u64,
    /// Agent starts that failed.
    pub failed_starts: u64,
    /// Agents recycled: by requests, age, memory or command.
    pub restarted: u64,
    /// Agents that exited unexpectedly.
    pub crashed: u64,
    /// Agents killed because of a timeout or a protocol error.
    pub killed: u64,
    /// Log lines of agents that were dropped by the rate limit.
    pub log_dropped: u64,
    /// Time that requests waited for an agent.
    pub request_wait: DurationSummary,
    /// Time that agents needed for requests.
    pub request_duration: DurationSummary,
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn every_value_is_in_the_bucket_whose_bounds_enclose_it() {
        for micros in (0..5000).chain([1 << 20, (1 << 36) - 1, (1 << 30) - 1, 1 << 30]) {
            let bucket = bucket(micros);
            assert_eq!(super::bucket(middle(bucket)), bucket, "{micros}");
            assert!(middle(bucket).abs_diff(micros) * 2 * STEPS as u64 <= micros, "{micros}");
        }
        assert_eq!(bucket(u64::MAX), BINS - 1);
    }

    #[test]
    fn percentiles_are_near_and_the_mean_is_exact() {
        let mut durations = DurationHistogram::default();
        assert_eq!(durations.summary(), DurationSummary::default());
        for millis in 1..=100 {
            durations.record(Duration::from_millis(millis));
        }
        let summary = durations.summary();
        assert_eq!((summary.count, summary.max), (100, 0.1));
        assert!((summary.mean - 0.0505).abs() < 1e-9);
        for (found, exact) in [(summary.p50, 0.05), (summary.p95, 0.095), (summary.p99, 0.099)] {
            assert!((found - exact).abs() <= exact * 0.01, "{found} for {exact}");
        }
    }
}
