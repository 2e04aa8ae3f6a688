//! Lengths of pauses.

use super::User;
use crate::program::{Distribution, Pause};

impl User {
    /// Length of a pause in milliseconds.
    pub(in crate::engine) fn pause_millis(&mut self, pause: &Pause) -> f64 {
        let mut scope = self.scope();
        let (offset, spread) = (pause.offset.number(&mut scope), pause.spread.number(&mut scope));
        offset + random_part(pause.distribution, (offset, spread), scope.values.random())
    }
}

/// The random part of a pause.
fn random_part(
    distribution: Distribution,
    (offset, spread): (f64, f64),
    random: &mut fastrand::Rng,
) -> f64 {
    match distribution {
        Distribution::None => 0.0,
        Distribution::Uniform => spread * random.f64(),
        Distribution::Normal => spread * normal(random),
        Distribution::Poisson => poisson(random, spread),
        Distribution::Exponential => -spread * (1.0 - random.f64()).ln(),
        Distribution::LogNormal => offset * ((spread * normal(random)).exp() - 1.0),
    }
}

/// A standard normal number (Box and Muller).
fn normal(random: &mut fastrand::Rng) -> f64 {
    let radius = (-2.0 * (1.0 - random.f64()).ln()).sqrt();
    radius * (std::f64::consts::TAU * random.f64()).cos()
}

/// A Poisson number: by multiplication up to a mean of 500, above approximated by the normal
/// distribution.
fn poisson(random: &mut fastrand::Rng, mean: f64) -> f64 {
    if mean > 500.0 {
        return (mean + mean.sqrt() * normal(random)).round().max(0.0);
    }
    let limit = (-mean).exp();
    let (mut product, mut number) = (random.f64(), 0.0);
    while product > limit {
        product *= random.f64();
        number += 1.0;
    }
    number
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_normal_pause_has_its_median_and_percentile() {
        let mut random = fastrand::Rng::with_seed(7);
        let sigma = 4_f64.ln() / 1.644_853_627;
        let mut part = || random_part(Distribution::LogNormal, (2000.0, sigma), &mut random);
        let mut lengths: Vec<f64> = (0..100_000).map(|_| 2000.0 + part()).collect();
        lengths.sort_by(f64::total_cmp);
        let is_near = |at: usize, expected: f64| (lengths[at] / expected - 1.0).abs() < 0.03;
        assert!(is_near(50_000, 2000.0), "{}", lengths[50_000]);
        assert!(is_near(95_000, 8000.0), "{}", lengths[95_000]);
        assert!(lengths[0] > 0.0);
    }
}
