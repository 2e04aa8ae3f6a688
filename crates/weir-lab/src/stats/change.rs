//! Trend of a long run: flat, warm-up, slow-down or no steady state.
//!
//! The sequence is divided into segments of constant level: optimal partitioning with PELT's
//! pruning (R. Killick et al., JASA 107, 2012), normal costs of mean and variance. The segments are
//! classified as by E. Barrett et al. ("Virtual machine warmup blows hot and cold", OOPSLA 2017):
//! the last segment, with preceding segments of about the same level, is the steady state if it is
//! long enough.

use super::spread::mean;
use serde::{Deserialize, Serialize};

/// Longest sequence; longer ones are averaged.
const MAX_VALUES: usize = 1_200;
/// Shortest segment.
const MIN_SEGMENT: usize = 3;
/// Penalty of a further segment, in units of ln n (Barrett et al. use 15).
const PENALTY: f64 = 15.0;
/// Segments with a smaller difference of levels are equal.
const MAX_LEVEL_DIFFERENCE: f64 = 0.03;
/// Smallest share of the steady state in the run.
const MIN_STEADY_SHARE: f64 = 0.25;

/// Trend of a quantity for which larger is better (throughput). Positions are indexes of the
/// sequence, usually seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum WarmUpTrend {
    /// Flat: one level.
    Flat,
    /// Warm-up: slower at first.
    WarmUp {
        /// Start of the steady state.
        until: usize,
    },
    /// Slow-down: faster at first.
    Slowdown {
        /// Start of the slow steady state.
        from: usize,
    },
    /// No steady state: the last quarter has several levels.
    NoSteadyState,
}

/// Classifies a sequence; `None` with fewer than twelve values or a non-finite one.
#[must_use]
pub fn warm_up_trend(values: &[f64]) -> Option<WarmUpTrend> {
    if values.len() < 12 || values.iter().any(|value| !value.is_finite()) {
        return None;
    }
    let every = values.len().div_ceil(MAX_VALUES);
    let thinned: Vec<f64> = values.chunks(every).map(mean).collect();
    let found = segments(&thinned);
    let (&last, _) = found.split_last()?;
    let level = mean(&thinned[last..]);
    let is_similar = |from: usize, to: usize| {
        (mean(&thinned[from..to]) / level - 1.0).abs() < MAX_LEVEL_DIFFERENCE
    };
    // Include preceding segments with the level of the last one.
    let mut steady = last;
    for pair in found.windows(2).rev() {
        if !is_similar(pair[0], pair[1]) {
            break;
        }
        steady = pair[0];
    }
    let found = if steady == 0 {
        WarmUpTrend::Flat
    } else if ((thinned.len() - steady) as f64) < MIN_STEADY_SHARE * thinned.len() as f64 {
        WarmUpTrend::NoSteadyState
    } else if mean(&thinned[..steady]) < level {
        WarmUpTrend::WarmUp { until: steady * every }
    } else {
        WarmUpTrend::Slowdown { from: steady * every }
    };
    Some(found)
}

/// Prefix sums, for the cost of any segment in constant time.
struct Sums {
    values: Vec<f64>,
    squares: Vec<f64>,
    /// Lower limit of the variance: a segment of equal numbers would have infinite likelihood.
    floor: f64,
}

impl Sums {
    fn new(values: &[f64]) -> Self {
        let middle = mean(values);
        let mut sums = Self { values: vec![0.0], squares: vec![0.0], floor: 0.0 };
        let (mut sum, mut square) = (0.0, 0.0);
        for value in values {
            let off = value - middle;
            sum += off;
            square += off * off;
            sums.values.push(sum);
            sums.squares.push(square);
        }
        sums.floor = (middle.abs() * 1e-3).powi(2).max(f64::MIN_POSITIVE);
        sums
    }

    /// Twice the negative log-likelihood of a segment, up to a constant.
    fn cost(&self, from: usize, to: usize) -> f64 {
        let n = (to - from) as f64;
        let sum = self.values[to] - self.values[from];
        let square = self.squares[to] - self.squares[from];
        let variance = ((square - sum * sum / n) / n).max(self.floor);
        n * variance.ln()
    }
}

/// Starts of the segments; the first one is 0.
fn segments(values: &[f64]) -> Vec<usize> {
    let n = values.len();
    let sums = Sums::new(values);
    let penalty = PENALTY * (n as f64).ln();
    let mut best = vec![f64::INFINITY; n + 1];
    let mut starts = vec![0; n + 1];
    best[0] = -penalty;
    let mut candidates = vec![0];
    for end in MIN_SEGMENT..=n {
        for &from in candidates.iter().filter(|from| end - **from >= MIN_SEGMENT) {
            let total = best[from] + sums.cost(from, end) + penalty;
            if total < best[end] {
                (best[end], starts[end]) = (total, from);
            }
        }
        candidates.retain(|&from| {
            end - from < MIN_SEGMENT || best[from] + sums.cost(from, end) <= best[end]
        });
        candidates.push(end + 1 - MIN_SEGMENT);
    }
    let mut found = Vec::new();
    let mut at = n;
    while at > 0 {
        at = starts[at];
        found.push(at);
    }
    found.reverse();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn around(level: f64, count: usize, seed: u64) -> Vec<f64> {
        let mut random = fastrand::Rng::with_seed(seed);
        (0..count).map(|_| level * (1.0 + 0.02 * (random.f64() - 0.5))).collect()
    }

    fn of(parts: &[(f64, usize)]) -> Option<WarmUpTrend> {
        let values: Vec<f64> =
            parts.iter().zip(1..).flat_map(|((level, n), seed)| around(*level, *n, seed)).collect();
        warm_up_trend(&values)
    }

    #[test]
    fn every_course_is_recognised() {
        assert_eq!(of(&[(1000.0, 120)]), Some(WarmUpTrend::Flat));
        assert_eq!(of(&[(1000.0, 60), (1010.0, 60)]), Some(WarmUpTrend::Flat), "1 % is alike");
        match of(&[(400.0, 20), (800.0, 20), (1000.0, 80)]) {
            Some(WarmUpTrend::WarmUp { until }) => assert!((39..=41).contains(&until), "{until}"),
            other => panic!("{other:?}"),
        }
        match of(&[(1000.0, 50), (700.0, 50)]) {
            Some(WarmUpTrend::Slowdown { from }) => assert!((49..=51).contains(&from), "{from}"),
            other => panic!("{other:?}"),
        }
        let falling = [(1000.0, 30), (900.0, 30), (800.0, 30), (700.0, 15)];
        assert_eq!(of(&falling), Some(WarmUpTrend::NoSteadyState));
    }

    #[test]
    fn long_and_odd_sequences_are_bounded() {
        let Some(WarmUpTrend::WarmUp { until }) = of(&[(500.0, 2_000), (1000.0, 10_000)]) else {
            panic!("a warm-up")
        };
        assert!((1_980..=2_020).contains(&until), "{until}");
        assert_eq!(
            warm_up_trend(&[0.0; 100]),
            Some(WarmUpTrend::Flat),
            "a server that answers nothing"
        );
        assert_eq!(warm_up_trend(&[1.0; 11]), None);
    }
}
