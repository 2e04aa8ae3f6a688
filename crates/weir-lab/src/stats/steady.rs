//! End of the warm-up of a long run: MSER-5.
//!
//! K. P. White, "An effective truncation heuristic for bias reduction in simulation output",
//! Simulation 69 (1997): the beginning, in batches of five observations, is cut off where the
//! marginal standard error of the rest is smallest.

use super::spread::mean;
use serde::{Deserialize, Serialize};

/// Observations in a batch.
const BATCH_SIZE: usize = 5;

/// Result of MSER-5.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Truncation {
    /// Number of observations in the warm-up.
    pub cut: usize,
    /// Whether the minimum lies in the first half. If not, the sequence is too short for its
    /// warm-up, and the cut has no meaning.
    pub settled: bool,
}

/// MSER-5 of equidistant observations; `None` with fewer than ten batches or if an observation is
/// not finite.
#[must_use]
pub fn mser5(values: &[f64]) -> Option<Truncation> {
    let batches: Vec<f64> = values.chunks_exact(BATCH_SIZE).map(mean).collect();
    if batches.len() < 10 || batches.iter().any(|mean| !mean.is_finite()) {
        return None;
    }
    // From the end, so that each step adds one batch to the rest. Sums are taken around the overall
    // mean, because squares of large numbers lose precision.
    let middle = mean(&batches);
    let (mut sum, mut squares, mut count) = (0.0, 0.0, 0.0);
    let (mut best, mut smallest) = (0, f64::INFINITY);
    // A rest of fewer than five batches may have a small variance by chance.
    for (at, batch) in batches.iter().enumerate().rev() {
        let off = batch - middle;
        sum += off;
        squares += off * off;
        count += 1.0;
        let error = (squares - sum * sum / count).max(0.0) / (count * count);
        if count >= 5.0 && error <= smallest {
            (best, smallest) = (at, error);
        }
    }
    Some(Truncation { cut: best * BATCH_SIZE, settled: best <= batches.len() / 2 })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Noise without a random generator: a sequence that fills −1..1 evenly.
    fn noise(at: usize) -> f64 {
        (at as f64 * 0.618_033_988_75).fract() * 2.0 - 1.0
    }

    #[test]
    fn only_the_warm_up_is_cut() {
        let warming: Vec<f64> = (0..200)
            .map(|at| 1000.0 * (1.0 - 0.5 * (-(at as f64) / 10.0).exp()) + 10.0 * noise(at))
            .collect();
        let found = mser5(&warming).expect("long enough");
        assert!(found.settled && (20..=60).contains(&found.cut), "{found:?}");
        let flat: Vec<f64> = (0..200).map(|at| 1000.0 + 10.0 * noise(at)).collect();
        let found = mser5(&flat).expect("long enough");
        assert!(found.settled && found.cut <= 20, "{found:?}");
    }

    #[test]
    fn a_run_that_only_warms_up_is_not_settled() {
        let rising: Vec<f64> = (0..100).map(|at| 100.0 + at as f64).collect();
        assert_eq!(mser5(&rising).map(|found| found.settled), Some(false));
        assert_eq!(mser5(&rising[..49]), None);
    }
}
