//! Figures of several nodes.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use weir_model::UnixMicros;

use super::durations::Bins;
use super::{CLASSES, Interval, Profile, SLOWEST, StageMean};

impl Profile {
    /// The figures over all nodes. Intervals are as wide as the widest.
    #[must_use]
    pub fn merge(all: Vec<Self>) -> Self {
        let mut sum = Self::default();
        let width = all.iter().map(|one| one.bucket_ms).max().unwrap_or(0).max(1);
        let mut intervals: BTreeMap<u64, ([u64; CLASSES], u64, Bins)> = BTreeMap::new();
        let mut durations = Bins::default();
        // Of each stage the sum over the transactions whose stages were read, in the order of a request.
        let mut stages: Vec<(String, u64)> = Vec::new();
        for one in all {
            sum.matched += one.matched;
            sum.failed += one.failed;
            sum.staged += one.staged;
            sum.cut |= one.cut;
            sum.incomplete |= one.incomplete;
            sum.payload |= one.payload;
            durations.merge(&one.durations);
            for Interval { time, classes, failed, durations } in one.intervals {
                let start = time.0 / (width * 1000) * (width * 1000);
                let (sums, failures, bins) = intervals.entry(start).or_default();
                sums.iter_mut().zip(classes).for_each(|(sum, count)| *sum += count);
                *failures += failed;
                bins.merge(&durations);
            }
            sum.slowest.extend(one.slowest);
            for StageMean { name, mean_us } in one.stages {
                let took = mean_us * one.staged;
                match stages.iter_mut().find(|(known, _)| *known == name) {
                    Some((_, sum)) => *sum += took,
                    None => stages.push((name, took)),
                }
            }
        }
        sum.bucket_ms = width;
        sum.durations = durations.finish();
        sum.slowest.sort_by_key(|one| Reverse(one.took_us));
        sum.slowest.truncate(SLOWEST);
        let staged = sum.staged.max(1);
        let mean = |(name, took)| StageMean { name, mean_us: took / staged };
        sum.stages = stages.into_iter().map(mean).collect();
        let interval = |(start, (classes, failed, bins)): (u64, (_, _, Bins))| Interval {
            time: UnixMicros(start),
            classes,
            failed,
            durations: bins.finish(),
        };
        sum.intervals = intervals.into_iter().map(interval).collect();
        sum
    }
}
