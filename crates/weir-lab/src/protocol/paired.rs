//! Rounds in which each case is measured once, so that figures are compared within a round.
//!
//! A round is valid if all its cases are. A round that is invalid, or disturbed by other programs, is
//! repeated, a bounded number of times. Of the valid rounds the least disturbed are used: chosen by
//! what other programs did, never by the figures.

use std::time::Duration;

/// Rules of the protocol.
#[derive(Clone, Debug, PartialEq)]
pub struct PairedRules {
    /// Valid rounds.
    pub rounds: usize,
    /// Rounds that may be repeated.
    pub repeats: usize,
    /// Load of each case before its first round.
    pub warm_up: Duration,
    /// Cores used by other programs above which a round is disturbed.
    pub others: f64,
    /// Length of the beginning of each round that is not measured, in whole seconds.
    pub cut: Duration,
    /// Share of failed requests up to which a round is valid.
    pub errors: f64,
}

/// A round of all cases.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PairedRound {
    /// Its number, from 1.
    pub number: usize,
    /// Every case was valid.
    pub is_valid: bool,
    /// Cores used by other programs, in the most disturbed case.
    pub others: f64,
}

impl PairedRules {
    fn is_good(&self, round: &PairedRound) -> bool {
        round.is_valid && round.others <= self.others
    }

    /// Number of rounds to run in all, after these complete ones.
    #[must_use]
    pub fn planned(&self, complete: &[PairedRound]) -> usize {
        let bad = complete.iter().filter(|round| !self.is_good(round)).count();
        self.rounds + bad.min(self.repeats)
    }

    /// Numbers of the used rounds, ascending.
    #[must_use]
    pub fn used(&self, complete: &[PairedRound]) -> Vec<usize> {
        let mut valid: Vec<&PairedRound> = complete.iter().filter(|round| round.is_valid).collect();
        valid.sort_by(|a, b| a.others.max(self.others).total_cmp(&b.others.max(self.others)));
        let mut numbers: Vec<usize> =
            valid.iter().take(self.rounds).map(|round| round.number).collect();
        numbers.sort_unstable();
        numbers
    }

    /// Number of disturbed rounds among the used ones.
    #[must_use]
    pub fn disturbed(&self, complete: &[PairedRound], used: &[usize]) -> usize {
        let is_used = |round: &&PairedRound| used.contains(&round.number);
        complete.iter().filter(is_used).filter(|round| !self.is_good(round)).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rounds(others: &[Option<f64>]) -> Vec<PairedRound> {
        let round = |(at, others): (usize, &Option<f64>)| PairedRound {
            number: at + 1,
            is_valid: others.is_some(),
            others: others.unwrap_or_default(),
        };
        others.iter().enumerate().map(round).collect()
    }

    #[test]
    fn bad_rounds_are_repeated_a_bounded_number_of_times() {
        let (warm_up, cut) = (Duration::ZERO, Duration::ZERO);
        let rules = PairedRules { rounds: 3, repeats: 2, warm_up, others: 0.1, cut, errors: 0.0 };
        assert_eq!(rules.planned(&[]), 3);
        assert_eq!(rules.planned(&rounds(&[Some(0.0), None])), 4);
        let all = rounds(&[Some(0.9), None, Some(0.05), None, Some(0.2)]);
        assert_eq!(rules.planned(&all), 5);
        assert_eq!(rules.used(&all), [1, 3, 5]);
        assert_eq!(rules.disturbed(&all, &[1, 3, 5]), 2);
        let many = rounds(&[Some(0.9), Some(0.01), Some(0.02), Some(0.03)]);
        assert_eq!(rules.used(&many), [2, 3, 4], "the disturbed round is left out");
        assert_eq!(rules.used(&rounds(&[None; 5])), [0_usize; 0]);
    }
}
