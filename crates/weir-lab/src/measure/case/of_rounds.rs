//! Results of several rounds: by the protocol, and of rounds of all contenders.

use super::{Paired, Progress};
use crate::measure::counted::{CountedRound, by_label};
use crate::protocol::{ProtocolResult, RoundUse, Stabilise};
use crate::results::{Cell, RoundFigures};
use crate::stats::{mean_interval, median, spread};
use crate::validity::Violation;

impl Progress {
    /// Adds the result of the protocol. Returns why the server is unstable.
    pub(super) fn stabilised(&self, cell: &mut Cell, protocol: &Stabilise) -> Option<String> {
        cell.rounds = protocol.log().to_vec();
        cell.protocol = protocol.outcome().cloned();
        let Some(outcome) = protocol.outcome() else {
            self.fill(cell, &self.counted);
            return Some("stopped before the server was stable".to_owned());
        };
        (cell.throughput, cell.interval) = (outcome.throughput, outcome.interval);
        cell.remarks.extend(outcome.remarks.iter().cloned());
        match outcome.result {
            ProtocolResult::Stable => {
                let recorded = |number| {
                    let mut log = protocol.log().iter();
                    log.any(|round| round.number == number && round.used == RoundUse::Recorded)
                };
                let shown = || self.counted.iter().filter(|round| recorded(round.number));
                let names = &self.case.labels.names();
                cell.recorded = shown().map(|round| round.figures(names)).collect();
                self.fill(cell, shown());
                None
            }
            // The last rounds are shown, and no round is recorded.
            ProtocolResult::Unstable => {
                self.fill(cell, &self.counted);
                Some(outcome.reason.clone())
            }
            ProtocolResult::Invalid => {
                self.fill(cell, self.invalid.iter().map(|(round, _)| round));
                cell.violations = self.violations().unwrap_or(vec![Violation::NoResponse]);
                None
            }
        }
    }

    /// Adds the result of rounds of all cases. Returns why there is none, if its own rounds are valid.
    pub(super) fn paired(&self, cell: &mut Cell, paired: &Paired) -> Option<String> {
        cell.rounds.clone_from(&paired.log);
        for round in &mut cell.rounds {
            if paired.used.contains(&round.number) {
                round.used = RoundUse::Recorded;
            } else if !round.violations.is_empty() {
                round.used = RoundUse::Invalid;
            }
        }
        let used = || self.counted.iter().filter(|round| paired.used.contains(&round.number));
        let names = &self.case.labels.names();
        let figures = |round: &CountedRound| RoundFigures {
            labels: by_label(&round.total, names),
            ..round.figures(names)
        };
        cell.recorded = used().map(figures).collect();
        cell.remarks.extend(paired.remark.clone());
        if cell.recorded.is_empty() {
            self.fill(
                cell,
                self.invalid.iter().map(|(round, _)| round).chain(&self.counted).take(1),
            );
            cell.violations = self.violations().unwrap_or_default();
            return Some("no round is valid for all contenders".to_owned());
        }
        self.fill(cell, used());
        let rates = cell.throughputs();
        (cell.throughput, cell.interval) = (spread(&rates), mean_interval(&rates, 0.95));
        let idle: Option<Vec<f64>> =
            cell.recorded.iter().map(|round| round.resources.as_ref()?.idle).collect();
        if let (Some(server), Some(idle)) = (&mut cell.server, idle) {
            server.idle = Some(median(&idle));
        }
        None
    }
}
