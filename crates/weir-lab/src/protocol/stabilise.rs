//! Steady-state detection, then measurement.
//!
//! 1. Invalid rounds (an error, an unexpected status, a queue not drained, a generator at its
//!    limit) are ignored.
//! 2. Rounds grow until one lasts [`Rules::min_round`] and the variation of successive rounds is at
//!    most [`Rules::variation`]. With [`Rules::exact`] they do not grow, and a remark states the
//!    consequence.
//! 3. The server is stable when the last `rounds` and the `rounds` before them are equivalent
//!    within `margin` (two one-sided tests on logarithms), and Mann-Kendall finds no trend in all
//!    of them.
//! 4. Then the **next** `rounds` are recorded, and both tests are repeated: equivalence of the
//!    recorded rounds and the last ones before them, no trend over all. If a test fails, rounds
//!    continue.
//! 5. After `max_rounds` the outcome is unstable, without a figure.
//!
//! Rounds before the decision are never reported: of a server in warm-up, rounds that look level by
//! chance are slow, and reporting them biases the result by up to a quarter.

use super::{
    LoggedRound, MeasuredRound, Outcome, PlannedRound, ProtocolResult, RoundSize, RoundUse, Stage,
};
use crate::stats::{equivalence, local_variation, mann_kendall, mean_interval, spread};
use serde::{Deserialize, Serialize};

/// Consecutive invalid rounds after which the case is invalid.
const MAX_INVALID_ROUNDS: usize = 5;
/// A short round grows to this multiple of `min_round`, so that a server that becomes faster does
/// not make it too short again at once.
const ROUND_LENGTH_MARGIN: f64 = 1.5;
/// Largest growth from one round to the next.
const MAX_GROWTH: f64 = 20.0;

/// Rules of the protocol.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Rules {
    /// Recorded rounds, and rounds in each half of those before the decision.
    pub rounds: usize,
    /// Largest difference of equivalent rounds: 0.05 is 5 %.
    pub margin: f64,
    /// Significance level of both tests.
    pub alpha: f64,
    /// Largest number of rounds.
    pub max_rounds: usize,
    /// Shortest round, in seconds.
    pub min_round: f64,
    /// Longest round, in seconds: noisy rounds grow up to this length.
    pub max_round: f64,
    /// Largest coefficient of variation of successive rounds.
    pub variation: f64,
    /// Keep the initial size.
    pub exact: bool,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            rounds: 5,
            margin: 0.05,
            alpha: 0.05,
            max_rounds: 60,
            min_round: 2.0,
            max_round: 10.0,
            variation: 0.02,
            exact: false,
        }
    }
}

/// State of the protocol.
#[derive(Clone, Debug)]
pub struct Stabilise {
    rules: Rules,
    size: RoundSize,
    stage: Stage,
    log: Vec<LoggedRound>,
    /// Valid entries of the log since the last change of the size.
    counted: Vec<usize>,
    consecutive_invalid: usize,
    /// Number of valid rounds when the server was found stable.
    decided: usize,
    outcome: Option<Outcome>,
}

impl Stabilise {
    /// Starts with rounds of this size.
    #[must_use]
    pub fn new(rules: Rules, size: RoundSize) -> Self {
        let stage = if rules.exact { Stage::Stabilising } else { Stage::Calibrating };
        // Fewer than three rounds on each side decide nothing.
        let rules = Rules { rounds: rules.rounds.max(3), ..rules };
        Self {
            rules,
            size,
            stage,
            log: Vec::new(),
            counted: Vec::new(),
            consecutive_invalid: 0,
            decided: 0,
            outcome: None,
        }
    }

    /// The next round; `None` after the outcome.
    #[must_use]
    pub fn next_round(&self) -> Option<PlannedRound> {
        let round = PlannedRound { number: self.log.len() + 1, size: self.size, stage: self.stage };
        self.outcome.is_none().then_some(round)
    }

    /// All completed rounds.
    #[must_use]
    pub fn log(&self) -> &[LoggedRound] {
        &self.log
    }

    /// The outcome, at the end.
    #[must_use]
    pub fn outcome(&self) -> Option<&Outcome> {
        self.outcome.as_ref()
    }

    /// Adds a measured round. A round after the outcome is ignored.
    pub fn observe(&mut self, round: MeasuredRound) {
        if self.outcome.is_some() {
            return;
        }
        let fine =
            round.violations.is_empty() && round.throughput > 0.0 && round.throughput.is_finite();
        self.log.push(LoggedRound {
            number: self.log.len() + 1,
            size: self.size,
            seconds: round.duration.as_secs_f64(),
            throughput: round.throughput,
            used: if fine { RoundUse::WarmUp } else { RoundUse::Invalid },
            violations: round.violations,
        });
        if fine {
            self.consecutive_invalid = 0;
            self.counted.push(self.log.len() - 1);
            self.advance();
        } else {
            self.consecutive_invalid += 1;
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
                if self.recorded_is_stable() {
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
            // The server became so much faster that its rounds are too short.
            self.stage = Stage::Calibrating;
            return self.grow(self.growth());
        }
        if self.is_stable() {
            self.decided = self.counted.len();
            self.stage = Stage::Recording;
        }
    }

    /// The last `count` valid rounds.
    fn last(&self, count: usize) -> impl Iterator<Item = &LoggedRound> {
        let from = self.counted.len().saturating_sub(count);
        self.counted[from..].iter().map(|at| &self.log[*at])
    }

    fn throughputs(&self, count: usize) -> Vec<f64> {
        self.last(count).map(|entry| entry.throughput).collect()
    }

    /// Whether the last rounds are too short; during calibration only the last one counts.
    fn too_short(&self) -> bool {
        let count = if self.stage == Stage::Calibrating { 1 } else { self.rules.rounds };
        self.last(count).all(|entry| entry.seconds < self.rules.min_round)
    }

    fn growth(&self) -> f64 {
        let seconds = self.last(1).map(|entry| entry.seconds).fold(0.0, f64::max);
        if seconds <= 0.0 {
            MAX_GROWTH
        } else {
            (ROUND_LENGTH_MARGIN * self.rules.min_round / seconds).min(MAX_GROWTH)
        }
    }

    fn too_noisy(&self) -> bool {
        let room = self.last(1).all(|entry| entry.seconds * 2.0 <= self.rules.max_round);
        let variation = local_variation(&self.throughputs(self.rules.rounds));
        room && variation.is_some_and(|variation| variation > self.rules.variation)
    }

    /// Longer rounds from now on: earlier rounds do not count any more.
    fn grow(&mut self, factor: f64) {
        for at in self.counted.drain(..) {
            self.log[at].used = RoundUse::Calibration;
        }
        self.size = self.size.times(factor);
    }

    fn is_stable(&self) -> bool {
        let rounds = self.rules.rounds;
        let values = self.throughputs(2 * rounds);
        values.len() == 2 * rounds
            && self.is_equivalent(&values[..rounds], &values[rounds..], &values)
    }

    fn recorded_is_stable(&self) -> bool {
        let rounds = self.rules.rounds;
        let values = self.throughputs(3 * rounds);
        self.is_equivalent(&values[rounds..2 * rounds], &values[2 * rounds..], &values)
    }

    fn is_equivalent(&self, before: &[f64], after: &[f64], all: &[f64]) -> bool {
        let equivalence_found = equivalence(before, after, self.rules.margin, self.rules.alpha);
        equivalence_found.is_some_and(|equivalence_found| equivalence_found.equivalent)
            && mann_kendall(all).is_some_and(|trend| trend.p > self.rules.alpha)
    }

    fn finish(&mut self) {
        let recorded = &self.counted[self.decided..];
        for at in recorded {
            self.log[*at].used = RoundUse::Recorded;
        }
        let decided_at = self.log[self.counted[self.decided - 1]].number;
        let reason = format!(
            "rounds up to {decided_at} show a steady state, the following {} confirm it",
            recorded.len()
        );
        let values = self.throughputs(self.rules.rounds);
        self.outcome = Some(Outcome {
            result: ProtocolResult::Stable,
            reason,
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
        if mean < self.rules.min_round {
            remarks.push(format!(
                "a round lasts {mean:.2} s; below {} s the influence of scheduling and start-up is too large",
                self.rules.min_round
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
        let invalid = self.log.iter().filter(|entry| entry.used == RoundUse::Invalid).count();
        let all = self.log.len();
        let are_invalid = |rounds: String| {
            let reason = format!("{rounds} rounds are invalid: {}", self.last_violation());
            (ProtocolResult::Invalid, reason)
        };
        let (result, reason) = if self.consecutive_invalid >= MAX_INVALID_ROUNDS {
            are_invalid(format!("{MAX_INVALID_ROUNDS} consecutive"))
        } else if all < self.rules.max_rounds {
            return;
        } else if 2 * invalid > all {
            are_invalid(format!("{invalid} of {all}"))
        } else {
            (ProtocolResult::Unstable, self.why_unstable())
        };
        self.outcome = Some(Outcome {
            result,
            reason,
            decided_at: None,
            throughput: None,
            interval: None,
            remarks: Vec::new(),
        });
    }

    fn last_violation(&self) -> String {
        let violation = self.log.iter().rev().find_map(|entry| entry.violations.first());
        violation.map_or_else(|| "no request got a response".to_owned(), ToString::to_string)
    }

    /// Variation of the last valid rounds, whatever their length.
    fn recent_variation(&self) -> f64 {
        let valid = self.log.iter().filter(|entry| entry.used != RoundUse::Invalid);
        let recent: Vec<f64> =
            valid.rev().take(2 * self.rules.rounds).map(|entry| entry.throughput).collect();
        local_variation(&recent).unwrap_or_default()
    }

    fn why_unstable(&self) -> String {
        let values = self.throughputs(2 * self.rules.rounds);
        let all = self.log.len();
        if values.len() < 2 * self.rules.rounds {
            return format!(
                "not stable after {all} rounds: they vary by {:.1} %; {} of them are valid and have the last length, {} \
                 are needed",
                100.0 * self.recent_variation(),
                self.counted.len(),
                2 * self.rules.rounds,
            );
        }
        let (before, after) = values.split_at(self.rules.rounds);
        let change = equivalence(before, after, self.rules.margin, self.rules.alpha);
        let trend = mann_kendall(&values).filter(|trend| trend.p <= self.rules.alpha);
        match (trend, change) {
            (Some(trend), Some(change)) => format!(
                "not stable after {all} rounds: the throughput still {}, by {:.1} % in the last {}",
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
