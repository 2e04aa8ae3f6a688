//! The result of a search: the highest load that meets the objective, with its interval.

use super::step::{LoadStep, SearchedLoad};
use crate::stats::{Interval, mean_interval};
use serde::{Deserialize, Serialize};

/// Confidence of the interval.
const CONFIDENCE: f64 = 0.95;

/// The highest load that meets the objective.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Capacity {
    /// The load: `rate` or `users`.
    #[serde(flatten)]
    pub load: SearchedLoad,
    /// With several searches the 95 % t interval of the limits that they found, at least from the
    /// highest load that met the objective to the lowest load that missed it. With one search only the
    /// latter. `None` if no load missed it.
    pub interval: Option<Interval>,
    /// Completed searches.
    pub searches: usize,
    /// A longer step has confirmed it.
    pub confirmed: bool,
    /// The largest load of the settings met the objective: the limit is higher.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub at_least: bool,
}

/// The limit that one search found lies between these loads.
struct Bracket {
    met: f64,
    missed: f64,
}

impl Capacity {
    /// The result of these steps; `None` if no step met the objective.
    #[must_use]
    pub fn of(steps: &[LoadStep]) -> Option<Self> {
        let last = steps.iter().rfind(|step| step.met)?;
        let searches = steps.iter().map(|step| step.search).max().unwrap_or(0);
        let brackets: Vec<Bracket> =
            (1..=searches).filter_map(|number| Bracket::of(steps, number)).collect();
        let load = last.load;
        let load = if last.confirms { load } else { load.with(lowest(&brackets, load.value())) };
        let at_least = !steps.iter().any(|step| !step.met);
        Some(Self {
            load,
            interval: interval(&brackets, load.value()),
            searches: brackets.len().max(1),
            confirmed: last.confirms,
            at_least,
        })
    }
}

impl Bracket {
    /// The bracket of a search that has both loads.
    fn of(steps: &[LoadStep], search: usize) -> Option<Self> {
        let of = |met: bool| {
            let steps = steps.iter().filter(move |step| step.search == search);
            steps.filter(move |step| !step.confirms && step.met == met).map(|s| s.load.value())
        };
        let bracket = Self { met: of(true).reduce(f64::max)?, missed: of(false).reduce(f64::min)? };
        Some(bracket)
    }

    fn middle(&self) -> f64 {
        self.met.midpoint(self.missed)
    }
}

/// The lowest load that all searches found.
fn lowest(brackets: &[Bracket], otherwise: f64) -> f64 {
    brackets.iter().map(|bracket| bracket.met).reduce(f64::min).unwrap_or(otherwise)
}

/// The interval, which includes the reported load: the confirmation may have lowered it.
fn interval(brackets: &[Bracket], load: f64) -> Option<Interval> {
    let missed = brackets.iter().map(|bracket| bracket.missed).reduce(f64::max)?;
    let middles: Vec<f64> = brackets.iter().map(Bracket::middle).collect();
    let of_mean = mean_interval(&middles, CONFIDENCE);
    let low = lowest(brackets, load).min(load);
    Some(Interval {
        low: of_mean.map_or(low, |found| found.low.min(low)).max(0.0),
        high: of_mean.map_or(missed, |found| found.high.max(missed)),
    })
}
