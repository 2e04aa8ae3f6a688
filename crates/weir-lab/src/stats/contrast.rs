//! Comparisons of groups of rounds, as factors: Welch's t on logarithms, equivalence by two
//! one-sided tests, main effects and interaction of two factors.
//!
//! All of them are linear contrasts of the means of logarithms, with a separate variance for each
//! group and the degrees of freedom of Welch and Satterthwaite.

use super::Interval;
use super::spread::{mean, t_below, t_quantile, variance};
use serde::{Deserialize, Serialize};

/// A factor between groups, with its interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ratio {
    /// The factor: ratio of geometric means.
    pub value: f64,
    /// Confidence interval.
    pub interval: Interval,
    /// Two-sided p-value.
    pub p: f64,
}

/// Result of an equivalence test.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Equivalence {
    /// Whether both one-sided tests reject: the groups differ by less than the margin.
    pub equivalent: bool,
    /// The larger of both p-values.
    pub p: f64,
    /// Second group over the first.
    pub ratio: f64,
}

/// Effects of two factors with two levels each, as factors on the measured quantity.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Effects {
    /// Turning the first factor on, averaged over both levels of the second.
    pub first: Ratio,
    /// Turning the second factor on, averaged over both levels of the first.
    pub second: Ratio,
    /// By how much the effect of one factor changes when the other is on: 1 without interaction.
    pub interaction: Ratio,
}

/// A contrast on the scale of logarithms, before it becomes a factor.
struct Estimate {
    value: f64,
    error: f64,
    freedom: f64,
}

/// The factor exp(Σ weight · mean(log x)) over groups of positive numbers; `None` if a group has
/// fewer than two or one of them is not positive and finite.
#[must_use]
pub fn contrast(groups: &[(&[f64], f64)], confidence: f64) -> Option<Ratio> {
    let Estimate { value, error, freedom } = estimate(groups)?;
    if error == 0.0 {
        let factor = value.exp();
        let p = if value == 0.0 { 1.0 } else { 0.0 };
        return Some(Ratio { value: factor, interval: Interval { low: factor, high: factor }, p });
    }
    let half = t_quantile(0.5 + confidence / 2.0, freedom)? * error;
    let p = 2.0 * t_below(-(value / error).abs(), freedom)?;
    let interval = Interval { low: (value - half).exp(), high: (value + half).exp() };
    Some(Ratio { value: value.exp(), interval, p })
}

/// The ratio `to / of`, Welch on logarithms.
#[must_use]
pub fn ratio(of: &[f64], to: &[f64], confidence: f64) -> Option<Ratio> {
    contrast(&[(of, -1.0), (to, 1.0)], confidence)
}

/// Two one-sided tests on logarithms: whether `first` and `second` differ by less than `margin`
/// (0.05: 5 %) at the level `alpha`. The margin is the same factor both ways, so that the order
/// of the groups does not matter.
#[must_use]
pub fn equivalence(first: &[f64], second: &[f64], margin: f64, alpha: f64) -> Option<Equivalence> {
    let Estimate { value, error, freedom } = estimate(&[(first, -1.0), (second, 1.0)])?;
    let bound = (1.0 + margin).ln();
    let p = if error == 0.0 {
        if value.abs() < bound { 0.0 } else { 1.0 }
    } else {
        let above = t_below((value - bound) / error, freedom)?;
        let below = t_below((-value - bound) / error, freedom)?;
        above.max(below)
    };
    Some(Equivalence { equivalent: p < alpha, p, ratio: value.exp() })
}

/// Main effects and interaction of a 2×2 design: `cells[first][second]` has the rounds of a
/// combination, 0 off and 1 on.
#[must_use]
pub fn effects(cells: [[&[f64]; 2]; 2], confidence: f64) -> Option<Effects> {
    let [[off_off, off_on], [on_off, on_on]] = cells;
    let weigh = |weights: [f64; 4]| {
        let groups = [off_off, off_on, on_off, on_on];
        let groups: Vec<(&[f64], f64)> = groups.into_iter().zip(weights).collect();
        contrast(&groups, confidence)
    };
    Some(Effects {
        first: weigh([-0.5, -0.5, 0.5, 0.5])?,
        second: weigh([-0.5, 0.5, -0.5, 0.5])?,
        interaction: weigh([1.0, -1.0, -1.0, 1.0])?,
    })
}

fn estimate(groups: &[(&[f64], f64)]) -> Option<Estimate> {
    let mut value = 0.0;
    let (mut error, mut satterthwaite) = (0.0, 0.0);
    for (values, weight) in groups {
        let logs = logarithms(values)?;
        let part = weight * weight * variance(&logs) / logs.len() as f64;
        value += weight * mean(&logs);
        error += part;
        satterthwaite += part * part / (logs.len() - 1) as f64;
    }
    let freedom = if satterthwaite > 0.0 { error * error / satterthwaite } else { 1.0 };
    Some(Estimate { value, error: error.sqrt(), freedom })
}

fn logarithms(values: &[f64]) -> Option<Vec<f64>> {
    let fits = values.len() >= 2 && values.iter().all(|value| *value > 0.0 && value.is_finite());
    fits.then(|| values.iter().map(|value| value.ln()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn about(left: f64, right: f64) -> bool {
        (left - right).abs() < 1e-3 * right.abs().max(1e-3)
    }

    #[test]
    fn a_ratio_is_welchs() {
        // Logarithms 1, 2, 3 and 3, 5, 7: difference 3, error² = 1/3 + 4/3, df = (5/3)² / (1/18 +
        // 16/18) = 2.941; t = 2.3238, two-sided p = 0.1044 (R: t.test).
        let of: Vec<f64> = [1.0_f64, 2.0, 3.0].iter().map(|x| x.exp()).collect();
        let to: Vec<f64> = [3.0_f64, 5.0, 7.0].iter().map(|x| x.exp()).collect();
        let ratio = ratio(&of, &to, 0.95).expect("enough");
        assert!(about(ratio.value, 3.0_f64.exp()), "{ratio:?}");
        assert!((ratio.p - 0.1044).abs() < 0.002, "{ratio:?}");
        assert!((ratio.interval.low..=ratio.interval.high).contains(&1.0), "{ratio:?}");
    }

    #[test]
    fn swapping_the_groups_inverts_the_ratio() {
        let (a, b) = ([100.0, 103.0, 98.0, 101.0], [131.0, 127.0, 133.0]);
        let there = ratio(&a, &b, 0.95).expect("enough");
        let back = ratio(&b, &a, 0.95).expect("enough");
        assert!(about(there.value * back.value, 1.0));
        assert!(about(there.interval.low * back.interval.high, 1.0));
        assert!(there.interval.low > 1.0 && there.p < 0.001, "{there:?}");
    }

    #[test]
    fn equivalence_needs_little_noise_as_well_as_a_small_difference() {
        let quiet = [100.0, 100.4, 99.7, 100.1, 99.9];
        let near = [101.0, 101.2, 100.7, 101.1, 100.9];
        let far = [106.0, 106.2, 105.8, 106.1, 105.9];
        let noisy = [80.0, 121.0, 95.0, 118.0, 90.0];
        let equivalent =
            |a: &[f64], b: &[f64]| equivalence(a, b, 0.05, 0.05).expect("enough").equivalent;
        assert!(equivalent(&quiet, &near));
        assert!(!equivalent(&quiet, &far));
        assert!(!equivalent(&quiet, &noisy));
        assert!(equivalent(&[5.0, 5.0], &[5.1, 5.1]), "without any noise the difference decides");
        assert!(!equivalent(&[5.0, 5.0], &[5.3, 5.3]));
    }

    #[test]
    fn two_factors_and_their_interaction() {
        let around = |x: f64| [0.99 * x, x, 1.01 * x, 1.005 * x, 0.995 * x];
        let (none, second, first) = (around(1000.0), around(800.0), around(500.0));
        let independent = around(400.0);
        let found = effects([[&none, &second], [&first, &independent]], 0.95).expect("enough");
        assert!(about(found.first.value, 0.5) && about(found.second.value, 0.8), "{found:?}");
        let interaction = found.interaction.interval;
        assert!((interaction.low..=interaction.high).contains(&1.0), "{found:?}");

        let worse = around(300.0);
        let found = effects([[&none, &second], [&first, &worse]], 0.95).expect("enough");
        assert!(about(found.interaction.value, 0.75), "{found:?}");
        assert!(found.interaction.interval.high < 1.0, "{found:?}");
    }

    #[test]
    fn values_without_a_logarithm_have_no_ratio() {
        assert_eq!(ratio(&[1.0, 0.0], &[1.0, 1.0], 0.95), None);
        assert_eq!(ratio(&[1.0], &[1.0, 1.0], 0.95), None);
        assert_eq!(ratio(&[1.0, f64::NAN], &[1.0, 1.0], 0.95), None);
    }
}
