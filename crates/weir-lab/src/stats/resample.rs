//! Bootstrap by round: the interval of a ratio of any figure of a round, without an assumption
//! about its distribution.

use super::Interval;

/// Number of resamples.
const RESAMPLES: usize = 4_000;

/// Percentile bootstrap of `mean(to) / mean(of)`, rounds drawn with replacement within each group;
/// `None` if a group has fewer than three values, or one that is not positive and finite. The seed
/// is fixed, so that the same input has the same interval.
#[must_use]
pub fn bootstrap_ratio(of: &[f64], to: &[f64], confidence: f64) -> Option<Interval> {
    let fits = |values: &[f64]| {
        values.len() >= 3 && values.iter().all(|value| *value > 0.0 && value.is_finite())
    };
    if !fits(of) || !fits(to) {
        return None;
    }
    let mut random = fastrand::Rng::with_seed(0x7765_6972);
    let mut draw = |values: &[f64]| {
        (0..values.len()).map(|_| values[random.usize(..values.len())]).sum::<f64>()
            / values.len() as f64
    };
    let mut ratios: Vec<f64> = (0..RESAMPLES).map(|_| draw(to) / draw(of)).collect();
    ratios.sort_by(f64::total_cmp);
    let tail = (1.0 - confidence) / 2.0;
    let at = |share: f64| ratios[((share * RESAMPLES as f64) as usize).min(RESAMPLES - 1)];
    Some(Interval { low: at(tail), high: at(1.0 - tail) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holds_the_ratio_and_repeats_itself() {
        let (of, to) = ([100.0, 102.0, 98.0, 101.0, 99.0], [120.0, 118.0, 122.0, 121.0, 119.0]);
        let interval = bootstrap_ratio(&of, &to, 0.95).expect("enough");
        assert!((interval.low..=interval.high).contains(&1.2), "{interval:?}");
        assert!(interval.within(1.15, 1.25), "{interval:?}");
        assert_eq!(bootstrap_ratio(&of, &to, 0.95), Some(interval));
        assert_eq!(bootstrap_ratio(&of[..2], &to, 0.95), None);
    }
}
