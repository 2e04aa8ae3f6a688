//! Windows of a single run.

use super::case::Case;
use super::counted::figures;
use crate::record::Interval;
use crate::results::{RoundFigures, Total};

/// Largest number of windows; beyond, neighbours are merged.
const MAX_WINDOWS: usize = 20;

/// A single run in windows of equal length. If they become too many, neighbours are merged.
#[derive(Debug)]
pub(super) struct Windows {
    width: u64,
    /// Windows with their number of seconds.
    all: Vec<(Total, u64)>,
}

impl Default for Windows {
    fn default() -> Self {
        Self { width: 1, all: Vec::new() }
    }
}

impl Windows {
    pub(super) fn add(&mut self, second: &Interval, case: &Case) {
        let full = self.all.last().is_none_or(|(_, seconds)| *seconds >= self.width);
        if full && self.all.len() == MAX_WINDOWS {
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

    /// Figures of the complete windows. The last window is left out: its last second is incomplete.
    pub(super) fn figures(&self, names: &[String]) -> Vec<RoundFigures> {
        let complete = self.all.len().saturating_sub(1);
        let window = |(at, (total, seconds)): (usize, &(Total, u64))| {
            let mut found = figures(at + 1, total, names);
            found.throughput = total.all().samples() as f64 / (*seconds).max(1) as f64;
            found
        };
        self.all[..complete].iter().enumerate().map(window).collect()
    }
}
