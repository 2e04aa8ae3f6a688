//! One sample: mean, spread, interval.

use super::Interval;
use serde::{Deserialize, Serialize};
use statrs::distribution::{ContinuousCDF, StudentsT};

/// Summary of observations.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// Number of observations.
    pub n: usize,
    /// Arithmetic mean.
    pub mean: f64,
    /// Standard deviation of the sample (n − 1); 0 for a single one.
    pub deviation: f64,
    /// Smallest.
    pub min: f64,
    /// Largest.
    pub max: f64,
}

/// Mean, deviation and extremes; `None` without observations or if one is not finite.
#[must_use]
pub fn spread(values: &[f64]) -> Option<Spread> {
    if values.is_empty() || values.iter().any(|value| !value.is_finite()) {
        return None;
    }
    let mean = mean(values);
    Some(Spread {
        n: values.len(),
        mean,
        deviation: variance(values).sqrt(),
        min: values.iter().copied().fold(f64::INFINITY, f64::min),
        max: values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
    })
}

/// Student's t interval of the mean; `None` with fewer than two observations.
#[must_use]
pub fn mean_interval(values: &[f64], confidence: f64) -> Option<Interval> {
    let spread = spread(values).filter(|spread| spread.n >= 2)?;
    let n = spread.n as f64;
    let half = t_quantile(0.5 + confidence / 2.0, n - 1.0)? * spread.deviation / n.sqrt();
    Some(Interval { low: spread.mean - half, high: spread.mean + half })
}

/// Coefficient of variation from one observation to the next: the standard deviation estimated
/// from successive differences (von Neumann et al., 1941), divided by the mean.
///
/// The usual variation of a server in warm-up includes the warm-up. This figure is free of the
/// trend and shows whether rounds are long enough. `None` with fewer than two observations or a
/// mean that is not positive.
#[must_use]
pub fn local_variation(values: &[f64]) -> Option<f64> {
    let spread = spread(values).filter(|spread| spread.n >= 2 && spread.mean > 0.0)?;
    let squares: f64 = values.windows(2).map(|pair| (pair[1] - pair[0]).powi(2)).sum();
    Some((squares / (2.0 * (spread.n - 1) as f64)).sqrt() / spread.mean)
}

/// Median of at least one value.
#[must_use]
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    if sorted.len() % 2 == 1 { sorted[middle] } else { (sorted[middle - 1] + sorted[middle]) / 2.0 }
}

/// Arithmetic mean of at least one value.
pub(super) fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// Variance of the sample (n − 1); 0 for fewer than two values.
pub(super) fn variance(values: &[f64]) -> f64 {
    if values.len() < 2 {
        return 0.0;
    }
    let mean = mean(values);
    values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (values.len() - 1) as f64
}

/// The `p` quantile of Student's t with `freedom` degrees of freedom.
pub(super) fn t_quantile(p: f64, freedom: f64) -> Option<f64> {
    let t = StudentsT::new(0.0, 1.0, freedom).ok()?;
    (p > 0.0 && p < 1.0).then(|| t.inverse_cdf(p))
}

/// Probability that Student's t with `freedom` degrees of freedom is below `t`.
pub(super) fn t_below(t: f64, freedom: f64) -> Option<f64> {
    Some(StudentsT::new(0.0, 1.0, freedom).ok()?.cdf(t))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_t_interval_as_in_the_tables() {
        // t(0.975, 4) = 2.776; the mean of 1..=5 is 3, the deviation sqrt(2.5).
        let interval = mean_interval(&[1.0, 2.0, 3.0, 4.0, 5.0], 0.95).expect("five");
        let half = 2.776_445 * 2.5_f64.sqrt() / 5.0_f64.sqrt();
        assert!((interval.low - (3.0 - half)).abs() < 1e-4, "{interval:?}");
        assert!((interval.high - (3.0 + half)).abs() < 1e-4, "{interval:?}");
    }

    #[test]
    fn one_observation_has_no_interval_and_none_no_spread() {
        assert_eq!(mean_interval(&[1.0], 0.95), None);
        assert_eq!(spread(&[]), None);
        assert_eq!(spread(&[1.0, f64::NAN]), None);
        assert_eq!(spread(&[2.0]).map(|spread| spread.deviation), Some(0.0));
    }

    #[test]
    fn variation_ignores_a_trend() {
        let rising: Vec<f64> = (0..20).map(|i| 100.0 + 5.0 * f64::from(i)).collect();
        let plain = spread(&rising).map(|s| s.deviation / s.mean).expect("many");
        let local = local_variation(&rising).expect("many");
        assert!(plain > 0.19 && local < 0.03, "{plain} {local}");
    }
}
