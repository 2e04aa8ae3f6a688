//! Stabilise, then measure.
//!
//! 1. Rounds with a flaw (an error, an unexpected status, a queue not drained, a generator at its
//!    limit) do not count.
//! 2. Rounds grow until one lasts [`Rules::least`] and their variation from one to the next is at
//!    most [`Rules::variation`]. With [`Rules::exact`] they do not, and the outcome says what that
//!    costs.
//! 3. The server is stable when the last `rounds` and the `rounds` before them are equivalent
//!    within `margin` (two one-sided tests on logarithms), and Mann-Kendall finds no trend in all
//!    of them.
//! 4. Then the **next** `rounds` are recorded, and both tests made again: the recorded ones against
//!    the last of those that decided, the trend over all. If they fail, it goes on.
//! 5. After `max_rounds` the outcome is unstable, and there is no number.
//!
//! Rounds that decide are never reported: of a server that warms up, those that happen to look
//! level are slow, and reporting them biases the result by as much as a quarter.

use super::{Ending, Entry, Extent, Order, Outcome, Round, Stage, Use};
use crate::stats::{equivalence, local_variation, mann_kendall, mean_interval, spread};
use serde::{Deserialize, Serialize};

/// Flawed rounds one after the other after which a server is given up.
const FLAWED: usize = 5;
/// A round that is too short becomes this much longer than `least`, so that a server that speeds
/// up while it warms does not make it too short again at once.
const AMPLE: f64 = 1.5;
/// At most this much longer from one round to the next.
const GROWTH: f64 = 20.0;

/// What the protocol demands.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Rules {
    /// Rounds recorded, and rounds in each half of those that decide.
    pub rounds: usize,
    /// Largest difference that counts as none: 0.05 is 5 %.
    pub margin: f64,
    /// Level of the equivalence test, and of the trend test.
    pub alpha: f64,
    /// Rounds after which it gives up.
    pub max_rounds: usize,
    /// Shortest round, in seconds.
    pub least: f64,
    /// Longest round, in seconds: rounds that vary too much grow up to it.
    pub longest: f64,
    /// Largest coefficient of variation from round to round.
    pub variation: f64,
    /// Keep the extent it began with.
    pub exact: bool,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            rounds: 5,
            margin: 0.05,
            alpha: 0.05,
            max_rounds: 60,
            least: 2.0,
            longest: 10.0,
            variation: 0.02,
            exact: false,
        }
    }
}

/// The protocol on its way.
#[derive(Clone, Debug)]
pub struct Stabilise {
    rules: Rules,
    extent: Extent,
    stage: Stage,
    log: Vec<Entry>,
    /// Which entries of the log count since the extent last changed.
    counted: Vec<usize>,
    flawed_in_a_row: usize,
    /// How many rounds counted when the server was found stable.
    decided: usize,
    outcome: Option<Outcome>,
}

impl Stabilise {
    /// Begins with rounds of `extent`.
    #[must_use]
    pub fn new(rules: Rules, extent: Extent) -> Self {
        let stage = if rules.exact { Stage::Stabilising } else { Stage::Calibrating };
        // Fewer than three a side decide nothing.
        let rules = Rules { rounds: rules.rounds.max(3), ..rules };
        Self {
            rules,
            extent,
            stage,
            log: Vec::new(),
            counted: Vec::new(),
            flawed_in_a_row: 0,
            decided: 0,
            outcome: None,
        }
    }

    /// The round to run next; `None` once there is an outcome.
    #[must_use]
    pub fn order(&self) -> Option<Order> {
        let order = Order { number: self.log.len() + 1, extent: self.extent, stage: self.stage };
        self.outcome.is_none().then_some(order)
    }

    /// Every round so far.
    #[must_use]
    pub fn log(&self) -> &[Entry] {
        &self.log
    }

    /// How it ended, once it has.
    #[must_use]
    pub fn outcome(&self) -> Option<&Outcome> {
        self.outcome.as_ref()
    }

    /// Takes in how the ordered round went. A round after the outcome is ignored.
    pub fn observe(&mut self, round: Round) {
        if self.outcome.is_some() {
            return;
        }
        let fine = round.flaws.is_empty() && round.throughput > 0.0 && round.throughput.is_finite();
        self.log.push(Entry {
            number: self.log.len() + 1,
            extent: self.extent,
            seconds: round.took.as_secs_f64(),
            throughput: round.throughput,
            used: if fine { Use::WarmUp } else { Use::Flawed },
            flaws: round.flaws,
        });
        if fine {
            self.flawed_in_a_row = 0;
            self.counted.push(self.log.len() - 1);
            self.advance();
        } else {
            self.flawed_in_a_row += 1;
        }
        if self.outcome.is_none() {
            self.give_up();
        }
    }

    fn advance(&mut self) {
        let rounds = self.rules.rounds;
        if self.stage == Stage::Calibrating && self.too_short() {
            return self.grow(self.growth());
        }
        match self.stage {
            Stage::Calibrating if self.counted.len() >= rounds => {
                if self.too_noisy() {
                    return self.grow(2.0);
                }
                self.stage = Stage::Stabilising;
            }
            Stage::Recording if self.counted.len() == self.decided + rounds => {
                if self.recorded_holds() {
                    return self.finish();
                }
                self.stage = Stage::Stabilising;
            }
            _ => {}
        }
        if self.stage != Stage::Stabilising {
            return;
        }
        if !self.rules.exact && self.counted.len() >= rounds && self.too_short() {
            // It has become so much faster that its rounds say too little now.
            self.stage = Stage::Calibrating;
            return self.grow(self.growth());
        }
        if self.is_stable() {
            self.decided = self.counted.len();
            self.stage = Stage::Recording;
        }
    }

    /// Seconds and throughputs of the last `count` rounds that count.
    fn last(&self, count: usize) -> impl Iterator<Item = &Entry> {
        let from = self.counted.len().saturating_sub(count);
        self.counted[from..].iter().map(|at| &self.log[*at])
    }

    fn throughputs(&self, count: usize) -> Vec<f64> {
        self.last(count).map(|entry| entry.throughput).collect()
    }

    /// Whether the last rounds are too short; while calibrating the last one decides.
    fn too_short(&self) -> bool {
        let count = if self.stage == Stage::Calibrating { 1 } else { self.rules.rounds };
        self.last(count).all(|entry| entry.seconds < self.rules.least)
    }

    fn growth(&self) -> f64 {
        let seconds = self.last(1).map(|entry| entry.seconds).fold(0.0, f64::max);
        if seconds <= 0.0 { GROWTH } else { (AMPLE * self.rules.least / seconds).min(GROWTH) }
    }

    fn too_noisy(&self) -> bool {
        let room = self.last(1).all(|entry| entry.seconds * 2.0 <= self.rules.longest);
        let variation = local_variation(&self.throughputs(self.rules.rounds));
        room && variation.is_some_and(|variation| variation > self.rules.variation)
    }

    /// Longer rounds from now on: those so far say nothing about theirs.
    fn grow(&mut self, factor: f64) {
        for at in self.counted.drain(..) {
            self.log[at].used = Use::Calibration;
        }
        self.extent = self.extent.times(factor);
    }

    fn is_stable(&self) -> bool {
        let rounds = self.rules.rounds;
        let values = self.throughputs(2 * rounds);
        values.len() == 2 * rounds && self.holds(&values[..rounds], &values[rounds..], &values)
    }

    fn recorded_holds(&self) -> bool {
        let rounds = self.rules.rounds;
        let values = self.throughputs(3 * rounds);
        self.holds(&values[rounds..2 * rounds], &values[2 * rounds..], &values)
    }

    fn holds(&self, before: &[f64], after: &[f64], all: &[f64]) -> bool {
        let alike = equivalence(before, after, self.rules.margin, self.rules.alpha);
        alike.is_some_and(|alike| alike.holds)
            && mann_kendall(all).is_some_and(|trend| trend.p > self.rules.alpha)
    }

    fn finish(&mut self) {
        let recorded: Vec<usize> = self.counted[self.decided..].to_vec();
        for at in &recorded {
            self.log[*at].used = Use::Recorded;
        }
        let decided_at = self.log[self.counted[self.decided - 1]].number;
        let because = format!(
            "rounds up to {decided_at} show a steady state, the {} after them confirm it",
            recorded.len()
        );
        let values = self.throughputs(self.rules.rounds);
        self.outcome = Some(Outcome {
            result: Ending::Stable,
            because,
            decided_at: Some(decided_at),
            throughput: spread(&values),
            interval: mean_interval(&values, 0.95),
            remarks: self.remarks(&values),
        });
    }

    fn remarks(&self, recorded: &[f64]) -> Vec<String> {
        let mut remarks = Vec::new();
        let seconds: f64 = self.last(self.rules.rounds).map(|entry| entry.seconds).sum();
        let mean = seconds / self.rules.rounds as f64;
        if mean < self.rules.least {
            remarks.push(format!(
                "a round lasts {mean:.2} s; below {} s scheduling and start-up weigh too much",
                self.rules.least
            ));
        }
        if let Some(variation) = local_variation(recorded).filter(|v| *v > self.rules.variation) {
            remarks.push(format!(
                "rounds vary by {:.1} %, more than {:.1} %",
                100.0 * variation,
                100.0 * self.rules.variation
            ));
        }
        remarks
    }

    fn give_up(&mut self) {
        let flawed = self.log.iter().filter(|entry| entry.used == Use::Flawed).count();
        let (result, because) = if self.flawed_in_a_row >= FLAWED {
            (
                Ending::Invalid,
                format!("{FLAWED} rounds one after the other do not count: {}", self.last_flaw()),
            )
        } else if self.log.len() < self.rules.max_rounds {
            return;
        } else if 2 * flawed > self.log.len() {
            let all = self.log.len();
            (
                Ending::Invalid,
                format!("{flawed} of {all} rounds do not count: {}", self.last_flaw()),
            )
        } else {
            (Ending::Unstable, self.why_unstable())
        };
        self.outcome = Some(Outcome {
            result,
            because,
            decided_at: None,
            throughput: None,
            interval: None,
            remarks: Vec::new(),
        });
    }

    fn last_flaw(&self) -> String {
        let flaw = self.log.iter().rev().find_map(|entry| entry.flaws.first());
        flaw.map_or_else(|| "no request was answered".to_owned(), ToString::to_string)
    }

    fn why_unstable(&self) -> String {
        let values = self.throughputs(2 * self.rules.rounds);
        let all = self.log.len();
        if values.len() < 2 * self.rules.rounds {
            return format!("not stable after {all} rounds: too few of them are long enough");
        }
        let (before, after) = values.split_at(self.rules.rounds);
        let change = equivalence(before, after, self.rules.margin, self.rules.alpha);
        let trend = mann_kendall(&values).filter(|trend| trend.p <= self.rules.alpha);
        match (trend, change) {
            (Some(trend), Some(change)) => format!(
                "not stable after {all} rounds: throughput still {}, by {:.1} % in the last {}",
                if trend.tau > 0.0 { "rises" } else { "falls" },
                100.0 * (change.ratio - 1.0).abs(),
                values.len(),
            ),
            (_, change) => format!(
                "not stable after {all} rounds: they vary by {:.1} %, too much to tell whether the \
                 last {} differ from those before by less than {:.0} % (they differ by {:.1} %)",
                100.0 * local_variation(&values).unwrap_or_default(),
                self.rules.rounds,
                100.0 * self.rules.margin,
                100.0 * change.map_or(0.0, |change| (change.ratio - 1.0).abs()),
            ),
        }
    }
}
