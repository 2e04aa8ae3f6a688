//! Durations of requests: counts by logarithm, with quantiles within 1 % of the exact value.
//!
//! It is DDSketch (Masson, Rim, Lee: DDSketch: A Fast and Fully-Mergeable Quantile Sketch with
//! Relative-Error Guarantees, VLDB 2019) with the mapping by linear interpolation between powers of
//! two: the bits of the number are its bin, so that a worker needs no logarithm. With 64 bins an
//! octave a value is known to a 128th. Values are whole microseconds from 0 to `u32::MAX`, as they
//! are recorded; those below 128 are exact. An octave takes memory once it has a value.

use integer_encoding::{VarInt, VarIntReader};
use std::collections::BTreeMap;
use std::sync::OnceLock;
use weir_http::counter::Counter;
use weir_model::bins::{BITS, STEPS, middle, place};

/// Octaves: that of the values below [`STEPS`], and one for each power of two from there.
const OCTAVES: usize = 33 - BITS as usize;

/// Counts that one worker writes and all threads read.
#[derive(Debug, Default)]
pub struct Recorder([OnceLock<Box<[Counter; STEPS]>>; OCTAVES]);

impl Recorder {
    /// Counts one; from the thread of the worker only.
    pub fn record(&self, micros: u32) {
        let (octave, bin) = place(micros.into());
        let octave =
            self.0[octave].get_or_init(|| Box::new(std::array::from_fn(|_| Counter::default())));
        octave[bin].add(1);
    }

    /// Adds the counts to a sketch.
    pub fn add_to(&self, sketch: &mut Sketch) {
        for (number, octave) in (0..).zip(&self.0) {
            if let Some(octave) = octave.get() {
                let sums = sketch.octave(number);
                sums.iter_mut().zip(octave.iter()).for_each(|(sum, one)| *sum += one.get());
            }
        }
    }
}

/// Durations in microseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sketch {
    /// Counts of each octave that has any.
    octaves: BTreeMap<u8, Box<[u64; STEPS]>>,
}

impl Sketch {
    fn octave(&mut self, number: u8) -> &mut [u64; STEPS] {
        self.octaves.entry(number).or_insert_with(|| Box::new([0; STEPS]))
    }

    /// Counts so many of one duration.
    pub fn add(&mut self, micros: u32, count: u64) {
        let (octave, bin) = place(micros.into());
        self.octave(octave as u8)[bin] += count;
    }

    /// Adds all of another one.
    pub fn merge(&mut self, other: &Self) {
        for (number, octave) in &other.octaves {
            let sums = self.octave(*number);
            sums.iter_mut().zip(octave.iter()).for_each(|(sum, one)| *sum += one);
        }
    }

    /// The difference to `before`, an earlier state.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        let mut since = self.clone();
        for (number, octave) in &before.octaves {
            let counts = since.octave(*number);
            counts.iter_mut().zip(octave.iter()).for_each(|(now, old)| {
                *now = now.saturating_sub(*old);
            });
        }
        since.octaves.retain(|_, octave| octave.iter().any(|count| *count > 0));
        since
    }

    /// Octave, bin and count of each bin with counts.
    fn bins(&self) -> impl Iterator<Item = (usize, usize, u64)> {
        let octaves = self.octaves.iter();
        let bins = octaves.flat_map(|(octave, counts)| {
            counts.iter().enumerate().map(|(bin, count)| (usize::from(*octave), bin, *count))
        });
        bins.filter(|(_, _, count)| *count > 0)
    }

    /// A percentile in microseconds; `None` if the sketch is empty.
    #[must_use]
    pub fn percentile(&self, percent: u32) -> Option<u64> {
        let count: u64 = self.bins().map(|(_, _, count)| count).sum();
        let rank = u128::from(percent) * u128::from(count.checked_sub(1)?) / 100;
        let mut before = 0;
        let mut bins = self.bins();
        let found = bins.find(|(_, _, count)| {
            before += u128::from(*count);
            before > rank
        });
        found.map(|(octave, bin, _)| middle(octave, bin))
    }

    /// A compact encoding: for each bin its distance from the one before and its count, both in
    /// LEB128.
    #[must_use]
    pub fn encode(&self) -> Box<[u8]> {
        let mut out = Vec::new();
        let mut before = 0;
        for (octave, bin, count) in self.bins() {
            let number = octave * STEPS + bin;
            out.extend((number - before).encode_var_vec());
            out.extend(count.encode_var_vec());
            before = number;
        }
        out.into_boxed_slice()
    }

    /// Adds an encoded sketch.
    pub fn add_encoded(&mut self, mut bytes: &[u8]) {
        let mut number = 0_usize;
        while let (Ok(distance), Ok(count)) = (bytes.read_varint(), bytes.read_varint::<u64>()) {
            number = number.saturating_add(distance);
            if number >= OCTAVES * STEPS {
                return;
            }
            self.octave((number / STEPS) as u8)[number % STEPS] += count;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values of every size, the same in every run.
    fn values() -> Vec<u32> {
        let mut seed = 7_u64;
        let mut next = move || {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (seed >> 32) as u32
        };
        (0..5000).map(|turn| next() >> (turn % 32)).collect()
    }

    #[test]
    fn every_quantile_is_within_one_percent() {
        for count in [1, 2, 10, 5000] {
            let mut values = values()[..count].to_vec();
            let recorder = Recorder::default();
            values.iter().for_each(|value| recorder.record(*value));
            let mut sketch = Sketch::default();
            recorder.add_to(&mut sketch);
            values.sort_unstable();
            for percent in 0..=100 {
                let exact = values[(values.len() - 1) * percent as usize / 100];
                let told = sketch.percentile(percent).unwrap();
                let error = told.abs_diff(u64::from(exact)) as f64;
                assert!(error <= f64::from(exact) / 128.0, "{told} for {exact}");
            }
        }
        assert_eq!(Sketch::default().percentile(50), None);
    }

    #[test]
    fn the_ends_and_small_values_are_exact_or_near() {
        for value in (0..=300).chain([1 << 20, u32::MAX - 1, u32::MAX]) {
            let (octave, bin) = place(value.into());
            assert!(octave < OCTAVES && bin < STEPS, "{value}");
            let middle = middle(octave, bin);
            assert!(value > 128 || middle == u64::from(value), "{middle} for {value}");
            assert_eq!(place(middle), (octave, bin));
        }
    }

    #[test]
    fn merged_encoded_and_taken_apart_it_is_the_same() {
        let values = values();
        let of = |values: &[u32]| {
            let mut sketch = Sketch::default();
            values.iter().for_each(|value| sketch.add(*value, 1));
            sketch
        };
        let (one, other) = (of(&values[..2000]), of(&values[2000..]));
        let mut merged = one.clone();
        merged.merge(&other);
        assert_eq!(merged, of(&values));
        assert_eq!(merged.since(&one), other);
        assert_eq!(merged.since(&merged), Sketch::default());
        let mut read = Sketch::default();
        read.add_encoded(&one.encode());
        read.add_encoded(&other.encode());
        assert_eq!(read, merged);
        read.add_encoded(&[0xff; 30]);
    }
}
