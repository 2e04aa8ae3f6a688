//! What a pool counts, in the terms of Progress' brokers.

/// Finest resolution: a microsecond. Values up to 128 µs are exact, above they are known to a 128th.
const STEPS: usize = 64;
/// Doublings above the exact values: up to 2^36 µs, which is 19 hours.
const DOUBLINGS: usize = 30;

/// Durations, as percentiles need them: counts by logarithm, in about 16 KiB.
#[derive(Clone, Debug)]
pub(crate) struct Durations {
    counts: Box<[u64; STEPS * (DOUBLINGS + 1)]>,
    count: u64,
    sum: u64,
    max: u64,
}

impl Default for Durations {
    fn default() -> Self {
        Self { counts: Box::new([0; STEPS * (DOUBLINGS + 1)]), count: 0, sum: 0, max: 0 }
    }
}

/// Durations summed up, in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Spread {
    /// How many.
    pub count: u64,
    /// Their sum.
    pub sum: f64,
    /// Mean; 0 without any.
    pub mean: f64,
    /// The longest.
    pub max: f64,
    /// Half of them took no longer; as all percentiles known to 1 %.
    pub p50: f64,
    /// 95 of 100 took no longer.
    pub p95: f64,
    /// 99 of 100 took no longer.
    pub p99: f64,
}

fn bucket(micros: u64) -> usize {
    if micros < STEPS as u64 {
        return micros as usize;
    }
    let doublings = (micros.ilog2() - STEPS.ilog2()) as usize;
    let within = (micros >> doublings) as usize - STEPS;
    (STEPS * (doublings + 1) + within).min(STEPS * (DOUBLINGS + 1) - 1)
}

/// The middle of a bucket.
fn middle(bucket: usize) -> u64 {
    if bucket < STEPS {
        return bucket as u64;
    }
    let (doublings, within) = (bucket / STEPS - 1, bucket % STEPS);
    (((STEPS + within) as u64) << doublings) + ((1_u64 << doublings) - 1) / 2
}

impl Durations {
    pub(crate) fn record(&mut self, duration: std::time::Duration) {
        let micros = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
        self.counts[bucket(micros)] += 1;
        self.count += 1;
        self.sum = self.sum.saturating_add(micros);
        self.max = self.max.max(micros);
    }

    pub(crate) fn spread(&self) -> Spread {
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
        Spread {
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

/// Everything about a pool that only grows.
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
    pub(crate) wait: Durations,
    pub(crate) duration: Durations,
}

/// Agents by what they are doing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AgentStates {
    /// They have not answered for the first time yet.
    pub starting: usize,
    /// They wait for a request.
    pub available: usize,
    /// They have one.
    pub busy: usize,
    /// They take no more: about to be replaced, or not known to be well.
    pub locked: usize,
}

/// A pool at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PoolSnapshot {
    /// Its name.
    pub name: String,
    /// What its agents speak: `fastcgi`, `http` or `cgi`.
    pub protocol: &'static str,
    /// It can serve, as far as is known: not all of its agents have failed.
    pub ready: bool,
    /// Why the last agent could not be started, until one can again.
    pub trouble: Option<String>,
    /// Agents by state.
    pub agents: AgentStates,
    /// Process ids of its agents, in no order.
    pub pids: Vec<u32>,
    /// Most agents there may be.
    pub max: usize,
    /// Requests that wait now.
    pub queue: usize,
    /// Most that may.
    pub queue_max: usize,
    /// Most that have waited at once.
    pub queue_peak: usize,
    /// Requests answered.
    pub served: u64,
    /// Requests refused because the queue was full.
    pub rejected_full: u64,
    /// Requests refused because they had waited too long.
    pub rejected_wait: u64,
    /// Requests refused because the pool could not be started.
    pub rejected_unavailable: u64,
    /// Agents started.
    pub started: u64,
    /// Agents that never answered.
    pub failed_starts: u64,
    /// Agents replaced as planned: by requests, age, memory or order.
    pub restarted: u64,
    /// Agents that ended by themselves.
    pub crashed: u64,
    /// Agents that were killed because a request took too long or their answer was garbage.
    pub killed: u64,
    /// Lines of standard error that were not logged because there were too many.
    pub log_dropped: u64,
    /// How long requests waited for an agent.
    pub wait: Spread,
    /// How long agents took for requests.
    pub duration: Spread,
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
        assert_eq!(bucket(u64::MAX), STEPS * (DOUBLINGS + 1) - 1);
    }

    #[test]
    fn percentiles_are_near_and_the_mean_is_exact() {
        let mut durations = Durations::default();
        assert_eq!(durations.spread(), Spread::default());
        for millis in 1..=100 {
            durations.record(Duration::from_millis(millis));
        }
        let spread = durations.spread();
        assert_eq!((spread.count, spread.max), (100, 0.1));
        assert!((spread.mean - 0.0505).abs() < 1e-9);
        for (found, exact) in [(spread.p50, 0.05), (spread.p95, 0.095), (spread.p99, 0.099)] {
            assert!((found - exact).abs() <= exact * 0.01, "{found} for {exact}");
        }
    }
}
