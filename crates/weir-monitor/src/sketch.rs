//! Durations of calls: a sketch with a relative error of at most 1 %.
//!
//! It is DDSketch (Masson, Rim, Lee: DDSketch: A Fast and Fully-Mergeable Quantile Sketch with
//! Relative-Error Guarantees, VLDB 2019): value `v` counts in the bin `⌈log_γ v⌉` with
//! `γ = (1 + α) / (1 − α)`, and a bin's value is `2 γ^i / (γ + 1)`. Merging adds bins up, so an hour
//! made of minutes is the same as an hour counted at once. Durations are whole microseconds from 1
//! to `u32::MAX`, which is at most 1111 bins; none is ever collapsed.
//!
//! Format: a byte with the version, 1, then for each non-empty bin the difference to the previous
//! one (the first: to 0) and the count, both in LEB128.

use integer_encoding::{VarInt, VarIntReader};
use std::collections::BTreeMap;

/// α: the greatest relative error.
const ERROR: f64 = 0.01;
const GAMMA: f64 = (1.0 + ERROR) / (1.0 - ERROR);
/// Version of the format.
const VERSION: u8 = 1;

/// Durations in microseconds: the count of each bin.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sketch(BTreeMap<u16, u64>);

fn bin(micros: u32) -> u16 {
    // The greatest is 1109.
    (f64::from(micros.max(1)).ln() / GAMMA.ln()).ceil() as u16
}

fn value(bin: u16) -> f64 {
    2.0 * GAMMA.powi(i32::from(bin)) / (GAMMA + 1.0)
}

impl Sketch {
    pub(crate) fn add(&mut self, micros: u32) {
        self.count(bin(micros), 1);
    }

    fn count(&mut self, bin: u16, count: u64) {
        let sum = self.0.entry(bin).or_default();
        *sum = sum.saturating_add(count);
    }

    /// A percentile, in microseconds; none if the sketch is empty.
    pub(crate) fn percentile(&self, percent: u32) -> Option<u64> {
        let count: u64 = self.0.values().sum();
        let rank = u128::from(percent) * u128::from(count.checked_sub(1)?) / 100;
        let mut before = 0;
        let found = self.0.iter().find(|(_, count)| {
            before += u128::from(**count);
            before > rank
        });
        found.map(|(bin, _)| value(*bin).round() as u64)
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        other.0.iter().for_each(|(bin, count)| self.count(*bin, *count));
    }

    /// Removes what `other` has added.
    pub(crate) fn subtract(&mut self, other: &Self) {
        for (bin, count) in &other.0 {
            let left = self.0.get(bin).copied().unwrap_or_default().saturating_sub(*count);
            match left {
                0 => self.0.remove(bin),
                left => self.0.insert(*bin, left),
            };
        }
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(1 + self.0.len() * 3);
        out.push(VERSION);
        let mut before = 0;
        for (bin, count) in &self.0 {
            out.extend(u64::from(bin - before).encode_var_vec());
            out.extend(count.encode_var_vec());
            before = *bin;
        }
        out
    }

    /// None if the bytes are not a sketch.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut sketch = Self::default();
        sketch.add_encoded(bytes)?;
        Some(sketch)
    }

    /// Adds an encoded sketch. None if it is invalid: a part of it may have been added then.
    pub(crate) fn add_encoded(&mut self, bytes: &[u8]) -> Option<()> {
        let (version, mut rest) = bytes.split_first()?;
        if *version != VERSION {
            return None;
        }
        let mut bin = 0_u64;
        while !rest.is_empty() {
            bin = bin.checked_add(rest.read_varint().ok()?)?;
            self.count(u16::try_from(bin).ok()?, rest.read_varint().ok()?);
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(values: &[u32]) -> Sketch {
        let mut sketch = Sketch::default();
        values.iter().for_each(|value| sketch.add(*value));
        sketch
    }

    proptest! {
        #[test]
        fn quantiles_are_within_one_percent(
            mut values in prop::collection::vec(1..u32::MAX, 1..300),
            small in prop::collection::vec(1..5000_u32, 0..300),
            percent in 0..=100_u32,
        ) {
            values.extend(small);
            let sketch = of(&values);
            values.sort_unstable();
            let exact = f64::from(values[(values.len() - 1) * percent as usize / 100]);
            let percentile = sketch.percentile(percent).unwrap() as f64;
            // It is told in whole microseconds.
            prop_assert!((percentile - exact).abs() <= exact * ERROR + 0.5, "{percentile} for {exact}");
        }

        #[test]
        fn merged_is_counted_at_once_and_written_is_read(
            one in prop::collection::vec(any::<u32>(), 0..200),
            other in prop::collection::vec(any::<u32>(), 0..200),
        ) {
            let mut merged = of(&one);
            merged.merge(&of(&other));
            let all = of(&[&one[..], &other].concat());
            prop_assert_eq!(&merged, &all);
            prop_assert_eq!(Sketch::decode(&all.encode()), Some(all));
            merged.subtract(&of(&other));
            prop_assert_eq!(merged, of(&one));
        }

        #[test]
        fn anything_can_be_read(bytes in prop::collection::vec(any::<u8>(), 0..50)) {
            let _ = Sketch::decode(&bytes);
            let _ = Sketch::decode(&[&[VERSION], bytes.as_slice()].concat());
        }
    }

    #[test]
    fn the_empty_one_has_no_quantile() {
        assert_eq!(Sketch::default().percentile(50), None);
        assert_eq!(of(&[7]).percentile(0), Some(7));
        assert_eq!(of(&[0]).percentile(99), Some(1));
        assert!(of(&[u32::MAX]).0.keys().all(|bin| *bin < 1200));
    }
}
