//! The statistics that decide what a measurement says: intervals, comparisons, trends, steady
//! state.
//!
//! Everything here is a pure function of numbers. An observation is one **round** (or one stretch
//! of a long run), never one request: requests of a round share its warm caches, its queue and its
//! neighbours on the machine, so that thousands of them say little more than one. Comparisons are
//! made on logarithms, because what differs between servers is a factor.

mod change;
mod contrast;
mod rank;
mod resample;
mod spread;
mod steady;
mod trend;

pub use change::{Course, course};
pub use contrast::{Effects, Equivalence, Ratio, contrast, effects, equivalence, ratio};
pub use rank::{Ranks, mann_whitney};
pub use resample::bootstrap_ratio;
pub use spread::{Spread, local_variation, mean_interval, spread};
pub use steady::{Truncation, mser5};
pub use trend::{Trend, mann_kendall};

use serde::{Deserialize, Serialize};

/// From where to where a value lies, with the confidence it was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

impl Interval {
    /// Whether `value` lies inside, ends included.
    #[must_use]
    pub fn contains(self, value: f64) -> bool {
        self.low <= value && value <= self.high
    }

    /// Whether all of it lies between `low` and `high`.
    #[must_use]
    pub fn within(self, low: f64, high: f64) -> bool {
        low < self.low && self.high < high
    }
}
