//! A single run in stretches.

use super::case::{Case, figures};
use crate::record::Interval;
use crate::results::{RoundFigures, Total};

/// Stretches that are kept; when there are more, two become one.
const STRETCHES: usize = 20;

/// A single run in stretches of equal length, of which there are never many: when there are, two
/// become one.
#[derive(Debug)]
pub(super) struct Stretches {
    width: u64,
    /// Each with the number of seconds in it.
    all: Vec<(Total, u64)>,
}

impl Default for Stretches {
    fn default() -> Self {
        Self { width: 1, all: Vec::new() }
    }
}

impl Stretches {
    pub(super) fn add(&mut self, second: &Interval, case: &Case) {
        let full = self.all.last().is_none_or(|(_, seconds)| *seconds >= self.width);
        if full && self.all.len() == STRETCHES {
            self.halve();
        }
        if full {
            self.all.push((case.total(), 0));
        }
        if let Some((total, seconds)) = self.all.last_mut() {
            total.add(second);
            *seconds += 1;
        }
    }

    fn halve(&mut self) {
        self.width *= 2;
        let mut pairs = std::mem::take(&mut self.all).into_iter();
        while let Some((mut total, mut seconds)) = pairs.next() {
            if let Some((next, more)) = pairs.next() {
                total.merge(&next);
                seconds += more;
            }
            self.all.push((total, seconds));
        }
    }

    /// Figures of the stretches that are whole, without the last one, whose last second is not.
    pub(super) fn figures(&self, names: &[String]) -> Vec<RoundFigures> {
        let whole = self.all.len().saturating_sub(1);
        let stretch = |(at, (total, seconds)): (usize, &(Total, u64))| {
            let mut found = figures(at + 1, total, names);
            found.throughput = total.all().samples() as f64 / (*seconds).max(1) as f64;
            found
        };
        self.all[..whole].iter().enumerate().map(stretch).collect()
    }
}
