//! Mann-Whitney's rank test: supports a comparison without an assumption about the distribution of
//! rounds.
//!
//! H. B. Mann and D. R. Whitney, Annals of Mathematical Statistics 18 (1947). The distribution is
//! exact with the existing ties: the number of choices of one group's ranks is counted.

use serde::{Deserialize, Serialize};
use statrs::distribution::{ContinuousCDF, Normal};

/// Largest number of observations for the exact distribution; beyond, the normal distribution is
/// used.
const MAX_EXACT: usize = 80;

/// Result of the rank test.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ranks {
    /// Number of pairs with the larger value in the second group; ties count half.
    pub u: f64,
    /// The same as a share of all pairs: 0.5 if neither group is larger.
    pub share: f64,
    /// Two-sided p-value.
    pub p: f64,
}

/// Compares two groups; `None` for an empty group or an invalid number.
#[must_use]
pub fn mann_whitney(first: &[f64], second: &[f64]) -> Option<Ranks> {
    let all: Vec<f64> = first.iter().chain(second).copied().collect();
    if first.is_empty() || second.is_empty() || all.iter().any(|value| value.is_nan()) {
        return None;
    }
    let ranks = doubled_ranks(&all);
    let (m, n) = (first.len(), second.len());
    let sum: usize = ranks[m..].iter().sum();
    let pairs = (m * n) as f64;
    let u = sum as f64 / 2.0 - (n * (n + 1)) as f64 / 2.0;
    let p = if all.len() <= MAX_EXACT { exact(&ranks, n, sum) } else { normal(&ranks, m, n, u) };
    Some(Ranks { u, share: u / pairs, p })
}

/// Twice the rank of each value, so that the mean ranks of ties are integers.
fn doubled_ranks(values: &[f64]) -> Vec<usize> {
    values
        .iter()
        .map(|value| {
            let below = values.iter().filter(|other| *other < value).count();
            let equal = values.iter().filter(|other| *other == value).count();
            2 * below + equal + 1
        })
        .collect()
}

/// Probability that the sum of `n` random ranks is at least as far from the middle.
fn exact(ranks: &[usize], n: usize, sum: usize) -> f64 {
    let total: usize = ranks.iter().sum();
    // ways[k][s]: number of ways in which k of the processed ranks add up to s.
    let mut ways = vec![vec![0.0_f64; total + 1]; n + 1];
    ways[0][0] = 1.0;
    for (seen, rank) in ranks.iter().enumerate() {
        for chosen in (1..=n.min(seen + 1)).rev() {
            let (fewer, these) = ways.split_at_mut(chosen);
            let (fewer, these) = (&fewer[chosen - 1], &mut these[0]);
            for at in *rank..=total {
                these[at] += fewer[at - rank];
            }
        }
    }
    // The middle is n/N of the total; times N to keep integers.
    let distance = |at: usize| (at * ranks.len()).abs_diff(total * n);
    let all: f64 = ways[n].iter().sum();
    let far: f64 = ways[n]
        .iter()
        .enumerate()
        .filter(|(at, _)| distance(*at) >= distance(sum))
        .map(|w| w.1)
        .sum();
    (far / all).min(1.0)
}

fn normal(ranks: &[usize], m: usize, n: usize, u: f64) -> f64 {
    let size = (m + n) as f64;
    let mut sorted = ranks.to_vec();
    sorted.sort_unstable();
    let ties: f64 = sorted
        .chunk_by(|a, b| a == b)
        .map(|tie| (tie.len() as f64).powi(3) - tie.len() as f64)
        .sum();
    let pairs = (m * n) as f64;
    let variance = pairs / 12.0 * ((size + 1.0) - ties / (size * (size - 1.0)));
    if variance <= 0.0 {
        return 1.0;
    }
    let z = ((u - pairs / 2.0).abs() - 0.5).max(0.0) / variance.sqrt();
    2.0 * Normal::standard().sf(z)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exact_as_in_the_tables() {
        // Five against five, completely separated: 2 of the 252 choices.
        let ranks = mann_whitney(&[1.0, 2.0, 3.0, 4.0, 5.0], &[6.0, 7.0, 8.0, 9.0, 10.0]);
        let ranks = ranks.expect("both");
        assert!((ranks.p - 2.0 / 252.0).abs() < 1e-12, "{ranks:?}");
        assert_eq!((ranks.u, ranks.share), (25.0, 1.0));
        // U = 3 of 25: P(U ≤ 3) = 7/252 by enumeration of small sums (1 + 1 + 2 + 3).
        let ranks = mann_whitney(&[1.0, 2.0, 3.0, 4.0, 8.0], &[5.0, 6.0, 7.0, 9.0, 10.0]);
        let ranks = ranks.expect("both");
        assert_eq!(ranks.u, 22.0);
        assert!((ranks.p - 14.0 / 252.0).abs() < 1e-12, "{ranks:?}");
    }

    #[test]
    fn ties_are_part_of_the_exact_distribution() {
        let ranks = mann_whitney(&[1.0, 1.0, 1.0], &[1.0, 1.0]).expect("both");
        assert_eq!((ranks.share, ranks.p), (0.5, 1.0));
        // Ranks 1.5, 1.5 | 3.5, 3.5: one of six choices at each end.
        let ranks = mann_whitney(&[1.0, 1.0], &[2.0, 2.0]).expect("both");
        assert!((ranks.p - 2.0 / 6.0).abs() < 1e-12, "{ranks:?}");
    }

    #[test]
    fn exact_and_normal_agree_where_they_meet() {
        let first: Vec<f64> = (0..40).map(f64::from).collect();
        let second: Vec<f64> = (0..40).map(|i| f64::from(i) + 8.5).collect();
        let all: Vec<f64> = first.iter().chain(&second).copied().collect();
        let ranks = doubled_ranks(&all);
        let found = mann_whitney(&first, &second).expect("both");
        let other = normal(&ranks, 40, 40, found.u);
        assert!((found.p - other).abs() < 0.002, "{found:?} {other}");
    }
}
