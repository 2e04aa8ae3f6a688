//! Durations in logarithmic bins.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Bins of each power of two: a duration is known to a 32nd.
const BITS: u32 = 4;

/// Durations of transactions, in microseconds. Quantiles are exact to a 32nd.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Durations {
    /// Half of them took at most so long.
    pub p50_us: u64,
    /// 90 % took at most so long.
    pub p90_us: u64,
    /// 99 % took at most so long.
    pub p99_us: u64,
    /// The longest one.
    pub max_us: u64,
    /// Histogram: the least duration of a bin, and how many are in it. There are 16 bins for each power of two.
    #[schema(value_type = Vec<[u64; 2]>)]
    pub bins: Vec<(u64, u64)>,
}

/// Durations that are being counted.
#[derive(Clone, Debug, Default)]
pub(super) struct Bins {
    counts: BTreeMap<u64, u64>,
    max: u64,
}

/// The least duration of the bin of a duration: its five highest bits.
fn least(duration: u64) -> u64 {
    let shift = duration.checked_ilog2().and_then(|log| log.checked_sub(BITS)).unwrap_or(0);
    duration >> shift << shift
}

/// The middle of a bin.
fn middle(least: u64) -> u64 {
    let shift = least.checked_ilog2().and_then(|log| log.checked_sub(BITS)).unwrap_or(0);
    least + ((1 << shift) - 1) / 2
}

impl Bins {
    pub(super) fn add(&mut self, duration: u64) {
        *self.counts.entry(least(duration)).or_default() += 1;
        self.max = self.max.max(duration);
    }

    pub(super) fn merge(&mut self, other: &Durations) {
        for (least, count) in &other.bins {
            *self.counts.entry(*least).or_default() += count;
        }
        self.max = self.max.max(other.max_us);
    }

    pub(super) fn finish(self) -> Durations {
        let total: u64 = self.counts.values().sum();
        // The least duration that enough others are not longer than.
        let quantile = |percent: u64| {
            let mut left = (total * percent).div_ceil(100).max(1);
            for (least, count) in &self.counts {
                if *count >= left {
                    return middle(*least).min(self.max);
                }
                left -= count;
            }
            0
        };
        let [p50_us, p90_us, p99_us] = [50, 90, 99].map(quantile);
        let bins = self.counts.into_iter().collect();
        Durations { p50_us, p90_us, p99_us, max_us: self.max, bins }
    }
}

#[cfg(test)]
mod tests {
    use super::{Bins, least, middle};

    #[test]
    fn a_bin_is_a_32nd_of_its_values() {
        for duration in (0..100_000).chain([u64::MAX / 3, u64::MAX]) {
            let (low, shown) = (least(duration), middle(least(duration)));
            assert!(low <= duration && least(low) == low && least(shown) == low, "{duration}");
            assert!(shown.abs_diff(duration) <= duration / 32 + 1, "{duration}: {shown}");
        }
    }

    #[test]
    fn quantiles_are_of_the_values() {
        let mut bins = Bins::default();
        (1..=100).for_each(|number| bins.add(number * 1000));
        let one = bins.finish();
        let near = |found: u64, expected: u64| found.abs_diff(expected) <= expected / 32 + 1;
        assert!(near(one.p50_us, 50_000) && near(one.p90_us, 90_000) && near(one.p99_us, 99_000));
        assert_eq!(one.max_us, 100_000);
        let mut sum = Bins::default();
        sum.merge(&one);
        sum.merge(&one);
        assert_eq!((sum.clone().finish().p50_us, sum.finish().bins[0].1), (one.p50_us, 2));
        assert_eq!(Bins::default().finish().p99_us, 0);
    }
}
