//! Statistics of measurements: intervals, comparisons, trends, steady state.
//!
//! All functions are pure. An observation is one **round** (or one window of a long run), never one
//! request: requests of a round share warm caches, queue and disturbances, so that thousands of
//! them carry little more information than one. Comparisons use logarithms, because differences
//! between servers are factors.

mod change;
mod contrast;
mod rank;
mod resample;
mod spread;
mod steady;
mod trend;

pub use change::{WarmUpTrend, warm_up_trend};
pub use contrast::{Effects, Equivalence, Ratio, contrast, effects, equivalence, ratio};
pub use rank::{Ranks, mann_whitney};
pub use resample::bootstrap_ratio;
pub use spread::{Spread, local_variation, mean_interval, median, spread};
pub use steady::{Truncation, mser5};
pub use trend::{Trend, mann_kendall};

use serde::{Deserialize, Serialize};

/// A confidence interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

impl Interval {
    /// Whether the entire interval lies between `low` and `high`.
    #[must_use]
    pub fn within(self, low: f64, high: f64) -> bool {
        low < self.low && self.high < high
    }
}
