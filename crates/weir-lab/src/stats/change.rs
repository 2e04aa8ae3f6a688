//! How a long run goes on: level, faster, slower, or never level.
//!
//! The sequence is cut into stretches of one level each where that explains it best: optimal
//! partitioning with PELT's pruning (R. Killick et al., JASA 107, 2012), normal costs of mean and
//! variance. What the stretches mean is decided as E. Barrett et al. do ("Virtual machine warmup
//! blows hot and cold", OOPSLA 2017): the last stretch, with those before it that are as good as
//! alike, is the steady state if it is long enough.

use super::spread::mean;
use serde::{Deserialize, Serialize};

/// Longest sequence looked at; longer ones are averaged down to it.
const LONGEST: usize = 1_200;
/// Shortest stretch.
const SHORTEST: usize = 3;
/// What another stretch costs, in units of ln n (Barrett et al. use 15).
const PENALTY: f64 = 15.0;
/// Stretches whose levels differ by less are alike.
const ALIKE: f64 = 0.03;
/// The steady state is at least this share of the run.
const STEADY: f64 = 0.25;

/// How a quantity of which more is better (throughput) went on over a run. Positions are those of
/// the sequence, usually seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum Course {
    /// One level from beginning to end.
    Flat,
    /// Slower at first.
    WarmUp {
        /// Where the steady state begins.
        until: usize,
    },
    /// Faster at first.
    Slowdown {
        /// Where the steady state, the slow one, begins.
        from: usize,
    },
    /// The last quarter is not of one level.
    NoSteadyState,
}

/// Finds out how a sequence goes on; `None` with fewer than twelve values or if one is no finite
/// number.
#[must_use]
pub fn course(values: &[f64]) -> Option<Course> {
    if values.len() < 12 || values.iter().any(|value| !value.is_finite()) {
        return None;
    }
    let every = values.len().div_ceil(LONGEST);
    let thinned: Vec<f64> = values.chunks(every).map(mean).collect();
    let stretches = stretches(&thinned);
    let (&last, _) = stretches.split_last()?;
    let level = mean(&thinned[last..]);
    let alike = |from: usize, to: usize| (mean(&thinned[from..to]) / level - 1.0).abs() < ALIKE;
    // Back over everything that is like the end.
    let mut steady = last;
    for pair in stretches.windows(2).rev() {
        if !alike(pair[0], pair[1]) {
            break;
        }
        steady = pair[0];
    }
    let found = if steady == 0 {
        Course::Flat
    } else if ((thinned.len() - steady) as f64) < STEADY * thinned.len() as f64 {
        Course::NoSteadyState
    } else if mean(&thinned[..steady]) < level {
        Course::WarmUp { until: steady * every }
    } else {
        Course::Slowdown { from: steady * every }
    };
    Some(found)
}

/// Sums before each position, to have the cost of any stretch at once.
struct Sums {
    values: Vec<f64>,
    squares: Vec<f64>,
    /// No stretch is calmer than this: one of equal numbers would explain itself infinitely well.
    floor: f64,
}

impl Sums {
    fn of(values: &[f64]) -> Self {
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

    /// Twice the negative logarithm of the likelihood of the stretch, up to a constant.
    fn cost(&self, from: usize, to: usize) -> f64 {
        let n = (to - from) as f64;
        let sum = self.values[to] - self.values[from];
        let square = self.squares[to] - self.squares[from];
        let variance = ((square - sum * sum / n) / n).max(self.floor);
        n * variance.ln()
    }
}

/// Where stretches begin; the first begins at 0.
fn stretches(values: &[f64]) -> Vec<usize> {
    let n = values.len();
    let sums = Sums::of(values);
    let penalty = PENALTY * (n as f64).ln();
    let mut best = vec![f64::INFINITY; n + 1];
    let mut begins = vec![0; n + 1];
    best[0] = -penalty;
    let mut candidates = vec![0];
    for end in SHORTEST..=n {
        for &from in candidates.iter().filter(|from| end - **from >= SHORTEST) {
            let total = best[from] + sums.cost(from, end) + penalty;
            if total < best[end] {
                (best[end], begins[end]) = (total, from);
            }
        }
        candidates.retain(|&from| {
            end - from < SHORTEST || best[from] + sums.cost(from, end) <= best[end]
        });
        candidates.push(end + 1 - SHORTEST);
    }
    let mut found = Vec::new();
    let mut at = n;
    while at > 0 {
        at = begins[at];
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

    fn of(parts: &[(f64, usize)]) -> Option<Course> {
        let values: Vec<f64> =
            parts.iter().zip(1..).flat_map(|((level, n), seed)| around(*level, *n, seed)).collect();
        course(&values)
    }

    #[test]
    fn every_course_is_recognised() {
        assert_eq!(of(&[(1000.0, 120)]), Some(Course::Flat));
        assert_eq!(of(&[(1000.0, 60), (1010.0, 60)]), Some(Course::Flat), "1 % is alike");
        match of(&[(400.0, 20), (800.0, 20), (1000.0, 80)]) {
            Some(Course::WarmUp { until }) => assert!((39..=41).contains(&until), "{until}"),
            other => panic!("{other:?}"),
        }
        match of(&[(1000.0, 50), (700.0, 50)]) {
            Some(Course::Slowdown { from }) => assert!((49..=51).contains(&from), "{from}"),
            other => panic!("{other:?}"),
        }
        let falling = [(1000.0, 30), (900.0, 30), (800.0, 30), (700.0, 15)];
        assert_eq!(of(&falling), Some(Course::NoSteadyState));
    }

    #[test]
    fn long_and_odd_sequences_are_bounded() {
        let Some(Course::WarmUp { until }) = of(&[(500.0, 2_000), (1000.0, 10_000)]) else {
            panic!("a warm-up")
        };
        assert!((1_980..=2_020).contains(&until), "{until}");
        assert_eq!(course(&[0.0; 100]), Some(Course::Flat), "a server that answers nothing");
        assert_eq!(course(&[1.0; 11]), None);
    }
}
