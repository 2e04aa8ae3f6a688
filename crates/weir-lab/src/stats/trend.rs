//! Trend test: Mann-Kendall.
//!
//! H. B. Mann, "Nonparametric tests against trend", Econometrica 13 (1945); M. G. Kendall, "Rank
//! correlation methods" (1975). Without ties the distribution of the statistic is exact, with ties
//! it is the normal one with Kendall's correction.

use serde::{Deserialize, Serialize};
use statrs::distribution::{ContinuousCDF, Normal};

/// Longest sequence for the exact distribution; beyond, the normal distribution is
/// indistinguishable.
const MAX_EXACT: usize = 60;

/// Trend of a sequence.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trend {
    /// Kendall's tau: 1 always up, −1 always down, 0 neither.
    pub tau: f64,
    /// Two-sided p-value.
    pub p: f64,
}

/// Mann-Kendall test of values in the order of observation; `None` with fewer than three or if one
/// is not a number.
#[must_use]
pub fn mann_kendall(values: &[f64]) -> Option<Trend> {
    let n = values.len();
    if n < 3 || values.iter().any(|value| value.is_nan()) {
        return None;
    }
    let mut score = 0_i64;
    for (at, earlier) in values.iter().enumerate() {
        for later in &values[at + 1..] {
            score += i64::from(later > earlier) - i64::from(later < earlier);
        }
    }
    let ties = tie_sizes(values);
    let pairs = (n * (n - 1) / 2) as f64;
    let p =
        if ties.is_empty() && n <= MAX_EXACT { exact(n, score) } else { normal(n, score, &ties) };
    Some(Trend { tau: score as f64 / pairs, p })
}

/// Counts of the values that occur more than once.
fn tie_sizes(values: &[f64]) -> Vec<usize> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.chunk_by(|a, b| a == b).map(<[f64]>::len).filter(|size| *size > 1).collect()
}

/// P(|S| ≥ |score|) over all orders of n different values: permutations counted by inversions.
fn exact(n: usize, score: i64) -> f64 {
    // probabilities[k]: probability that an order of the processed values has k inversions.
    let mut probabilities = vec![1.0];
    for size in 2..=n {
        let mut next = vec![0.0; probabilities.len() + size - 1];
        for (inversions, probability) in probabilities.iter().enumerate() {
            for more in 0..size {
                next[inversions + more] += probability / size as f64;
            }
        }
        probabilities = next;
    }
    let pairs = (n * (n - 1) / 2) as i64;
    // S = pairs − 2 · inversions.
    let far =
        |(inversions, _): &(usize, &f64)| (pairs - 2 * *inversions as i64).abs() >= score.abs();
    probabilities.iter().enumerate().filter(far).map(|(_, p)| p).sum::<f64>().min(1.0)
}

fn normal(n: usize, score: i64, ties: &[usize]) -> f64 {
    let term = |count: usize| {
        let count = count as f64;
        count * (count - 1.0) * (2.0 * count + 5.0)
    };
    let variance = (term(n) - ties.iter().copied().map(term).sum::<f64>()) / 18.0;
    if variance <= 0.0 || score == 0 {
        return 1.0;
    }
    // Continuity: S moves in steps of two without ties, the usual correction is one.
    let z = (score.abs() - 1) as f64 / variance.sqrt();
    2.0 * Normal::standard().sf(z)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exact_for_short_sequences() {
        // Of 5! orders one has S = 10 and one S = −10.
        let trend = mann_kendall(&[1.0, 2.0, 3.0, 4.0, 5.0]).expect("five");
        assert!((trend.p - 2.0 / 120.0).abs() < 1e-12, "{trend:?}");
        assert_eq!(trend.tau, 1.0);
        // Kendall's table: n = 10, S = 23 has a one-sided probability of 0.023.
        assert!((exact(10, 23) / 2.0 - 0.023).abs() < 0.0005);
    }

    #[test]
    fn exact_and_normal_agree_where_they_meet() {
        let (exact, normal) = (exact(40, 170), normal(40, 170, &[]));
        assert!((exact - normal).abs() < 0.002, "{exact} {normal}");
    }

    #[test]
    fn ties_take_away_certainty_and_equal_values_have_no_trend() {
        assert_eq!(mann_kendall(&[3.0; 10]).map(|t| (t.tau, t.p)), Some((0.0, 1.0)));
        let tied = mann_kendall(&[1.0, 1.0, 2.0, 2.0, 3.0, 3.0, 4.0, 4.0]).expect("eight");
        assert!(tied.p < 0.01 && tied.tau < 1.0, "{tied:?}");
        assert_eq!(mann_kendall(&[1.0, 2.0]), None);
    }
}
