//! Rounds in which every case of a block is measured once.

use super::case::Progress;
use super::{Measurement, Method};
use crate::bars::{self, RoundPair, ScenarioBar};
use crate::protocol::{PairedRound, PairedRules};
use crate::results::{BarResult, Cell, RoundFigures};
use crate::stats::median;

impl Measurement {
    /// Plans the further rounds of a block: bad rounds are repeated.
    pub(super) fn plan_rounds(&mut self, block: usize) {
        let Method::Paired(rules) = self.settings.method.clone() else { return };
        let planned = rules.planned(&self.complete_rounds(block));
        for case in self.cases.iter_mut().filter(|case| case.case.block == block) {
            case.plan(planned);
        }
    }

    /// The rounds that every case of a block has completed.
    fn complete_rounds(&self, block: usize) -> Vec<PairedRound> {
        let cases: Vec<&Progress> =
            self.cases.iter().filter(|case| case.case.block == block).collect();
        // A failed case does not hold up the others.
        let cases: Vec<&Progress> =
            cases.into_iter().filter(|case| case.failure.is_none()).collect();
        let complete = cases.iter().map(|case| case.tries()).min().unwrap_or(0);
        let round = |number: usize| PairedRound {
            number,
            is_valid: cases.iter().all(|case| case.is_valid(number)),
            others: cases.iter().map(|case| case.others(number)).fold(0.0, f64::max),
        };
        (1..=complete).map(round).collect()
    }

    /// Selects the rounds that are reported.
    pub(super) fn select_rounds(&mut self) {
        let Method::Paired(rules) = self.settings.method.clone() else { return };
        let blocks: Vec<usize> = self.cases.iter().map(|case| case.case.block).collect();
        for block in 0..=blocks.into_iter().max().unwrap_or(0) {
            let complete = self.complete_rounds(block);
            let used = rules.used(&complete);
            let remark = remark(&rules, &complete, &used);
            for case in self.cases.iter_mut().filter(|case| case.case.block == block) {
                case.select(used.clone(), remark.clone());
            }
        }
    }

    /// The lowest median rate that a case reached in the cells with these values of the matrix.
    #[must_use]
    pub fn lowest_rate(&self, values: &[(String, String)]) -> Option<f64> {
        let is_of = |case: &&Progress| values.iter().all(|value| case.case.values.contains(value));
        let rate = |case: &Progress| {
            let rates = case.rates();
            (!rates.is_empty()).then(|| median(&rates))
        };
        self.cases.iter().filter(is_of).filter_map(rate).reduce(f64::min)
    }
}

/// A remark about missing or disturbed rounds.
fn remark(rules: &PairedRules, complete: &[PairedRound], used: &[usize]) -> Option<String> {
    let disturbed = rules.disturbed(complete, used);
    if used.len() < rules.rounds {
        return Some(format!(
            "only {} of {} rounds are valid for all contenders, after {} rounds",
            used.len(),
            rules.rounds,
            complete.len()
        ));
    }
    (disturbed > 0).then(|| {
        format!(
            "other programs used more than {:.0} % of a core in {disturbed} of {} rounds",
            100.0 * rules.others,
            used.len()
        )
    })
}

/// Name, load and values of the matrix of a cell.
type Contender = (String, String, Vec<(String, String)>);

/// Results of the bars under each load, for the contenders of all cells.
pub(super) fn results(
    all: &[ScenarioBar],
    contenders: &[Contender],
    cells: &[Cell],
) -> Vec<BarResult> {
    let mut loads: Vec<(&String, &Vec<(String, String)>)> = Vec::new();
    for (_, load, values) in contenders {
        if !loads.iter().any(|(known, _)| *known == load) {
            loads.push((load, values));
        }
    }
    let rounds = |name: &str, load: &str| {
        let at = contenders.iter().position(|(known, of, _)| known == name && of == load);
        at.and_then(|at| cells.get(at)).map_or(&[][..], |cell| &cell.recorded[..])
    };
    let mut found = Vec::new();
    for bar in all {
        for (load, _) in loads.iter().filter(|(_, values)| bar.applies_to(values)) {
            let subject = rounds(&bar.bar.subject, load);
            let reference = bar.bar.reference().map_or(subject, |name| rounds(name, load));
            found.push(bars::judge(bar, load, &pairs(subject, reference)));
        }
    }
    found
}

/// Rounds with the same number.
fn pairs<'r>(subject: &'r [RoundFigures], reference: &'r [RoundFigures]) -> Vec<RoundPair<'r>> {
    let pair = |subject: &'r RoundFigures| {
        let reference = reference.iter().find(|round| round.number == subject.number)?;
        Some(RoundPair { subject, reference })
    };
    subject.iter().filter_map(pair).collect()
}
