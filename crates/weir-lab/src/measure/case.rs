//! Progress of a case: its rounds, their sums and the result.

use super::observed::ObservedLoad;
use super::windows::Windows;
use super::{Method, RoundConditions, Settings};
use crate::engine::RateStep;
use crate::figures::Times;
use crate::program::{Label, Program};
use crate::protocol::{
    MeasuredRound, Outcome, PlannedRound, RoundSize, RoundUse, Rules, Stabilise, fixed,
};
use crate::record::Interval;
use crate::results::{Cell, Failure, Generator, Open, RoundFigures, Server, ServerRow, Total};
use crate::stats::{Spread, spread};
use crate::validity::{Evidence, MAX_ERROR_SHARE, Violation, violations};
use crate::verdict::{Verdict, VerdictInput, judge};
use std::collections::VecDeque;
use std::time::Duration;

/// Cores used by other processes of the machine from which on a remark is made.
const MIN_OTHER_CORES: f64 = 0.3;
/// A single run with fewer complete seconds is not divided into windows.
const MIN_DIVIDED_SECONDS: usize = 10;

/// A case to be measured.
#[derive(Clone, Debug)]
pub struct Case {
    /// Its name, factors, attributes and published figures.
    pub cell: Cell,
    /// The program's labels.
    pub labels: Vec<String>,
    /// Labels of transactions, which repeat requests.
    pub transactions: Vec<Label>,
    /// Offered requests per second of an open model, and its pacing quantum.
    pub rate: Option<(f64, Duration)>,
    /// Additional allowed send lag, for `find-max`.
    pub allowed_lag: Duration,
    /// An open model of any rate.
    pub open: bool,
    /// Size of the first round.
    pub size: RoundSize,
    /// Cases of the same block alternate; blocks follow each other.
    pub block: usize,
}

impl Case {
    /// A case of a program. Factors, attributes and published figures may be set afterwards.
    #[must_use]
    pub fn new(name: &str, program: &Program) -> Self {
        let open = program.groups.iter().any(|group| {
            use crate::program::Executor::{ArrivalRate, FindMax};
            matches!(group.executor, ArrivalRate(_) | FindMax(_))
        });
        Self {
            cell: Cell {
                name: name.to_owned(),
                offered: super::offered(program),
                ..Cell::default()
            },
            labels: program.labels.clone(),
            transactions: program.transactions(),
            rate: super::rate(program),
            allowed_lag: super::round_size::allowed_lag(program).unwrap_or_default(),
            open,
            size: super::size(program).unwrap_or(RoundSize::Iterations(1)),
            block: 0,
        }
    }

    /// An empty sum.
    pub(super) fn total(&self) -> Total {
        Total::new(self.labels.len(), self.open).without(&self.transactions)
    }
}

/// Remaining rounds.
#[derive(Debug)]
pub(super) enum Remaining {
    /// One run; `None` once done.
    Single(Option<PlannedRound>),
    /// The protocol.
    Stabilise(Box<Stabilise>, usize),
}

impl Remaining {
    pub(super) fn stabilise(rules: Rules, size: RoundSize) -> Self {
        let rounds = rules.rounds.max(3);
        Self::Stabilise(Box::new(Stabilise::new(rules, size)), rounds)
    }
}

/// A round with its sums.
#[derive(Debug)]
struct CountedRound {
    number: usize,
    total: Total,
    observed: ObservedLoad,
}

/// Progress of a case.
#[derive(Debug)]
pub(super) struct Progress {
    pub(super) case: Case,
    remaining: Remaining,
    /// The current round.
    total: Total,
    observed: ObservedLoad,
    /// Seconds of the current round.
    seconds: f64,
    /// Completed requests in each second of a single run.
    per_second: Vec<f64>,
    windows: Windows,
    /// The last valid rounds, which include the recorded ones.
    counted: VecDeque<CountedRound>,
    /// The last invalid round.
    invalid: Option<(CountedRound, Vec<Violation>)>,
    /// Rate steps of `find-max`, and the sums of the reported one.
    rate_steps: Vec<RateStep>,
    best_step: Option<(Total, ObservedLoad)>,
    /// Number of failures that are already reported as events.
    reported_failures: usize,
    pub(super) failure: Option<String>,
}

impl Progress {
    pub(super) fn new(case: Case, method: &Method) -> Self {
        Self {
            remaining: Remaining::new(method, case.size),
            total: case.total(),
            observed: ObservedLoad::default(),
            seconds: 0.0,
            per_second: Vec::new(),
            windows: Windows::default(),
            counted: VecDeque::new(),
            invalid: None,
            rate_steps: Vec::new(),
            best_step: None,
            reported_failures: 0,
            failure: None,
            case,
        }
    }

    /// The next round.
    pub(super) fn next_round(&self) -> Option<PlannedRound> {
        if self.failure.is_some() {
            return None;
        }
        match &self.remaining {
            Remaining::Single(order) => *order,
            Remaining::Stabilise(protocol, _) => protocol.next_round(),
        }
    }

    pub(super) fn outcome(&self) -> Option<&Outcome> {
        match &self.remaining {
            Remaining::Single(_) => None,
            Remaining::Stabilise(protocol, _) => protocol.outcome(),
        }
    }

    /// Seconds of the last round.
    pub(super) fn last_length(&self) -> f64 {
        self.seconds
    }

    pub(super) fn start_round(&mut self) {
        self.total = self.case.total();
        self.observed = ObservedLoad::default();
        self.seconds = 0.0;
        self.reported_failures = 0;
    }

    pub(super) fn second(&mut self, second: &Interval, warm_up: bool) {
        let last_end = second.labels.iter().map(|tally| tally.last_end).max().unwrap_or(0);
        self.seconds = self.seconds.max(last_end as f64 / 1e9);
        if matches!(self.remaining, Remaining::Single(_)) {
            let samples = second.all(&self.case.transactions).samples();
            let at = usize::try_from(second.second).unwrap_or(usize::MAX);
            // Seconds without samples may be missing.
            if at < self.per_second.len() + 86_400 {
                self.per_second.resize(self.per_second.len().max(at + 1), 0.0);
                self.per_second[at] += samples as f64;
            }
            if !warm_up {
                self.windows.add(second, &self.case);
            }
        }
        if !warm_up {
            self.total.add(second);
        }
    }

    pub(super) fn observe(&mut self, rows: &[ServerRow], cut: u64) {
        for row in rows.iter().filter(|row| row.time > cut as f64) {
            self.observed.add(row, cut as f64);
        }
    }

    /// Adds a rate step of `find-max`. The highest rate that met the objective is reported.
    pub(super) fn rate_step(&mut self, step: &RateStep) {
        self.total.end_round(0);
        let empty = self.case.total();
        let total = std::mem::replace(&mut self.total, empty);
        let observed = self.observed;
        self.observed = observed.reset();
        // If no rate met the objective, the last one is reported.
        if step.met || !self.rate_steps.iter().any(|step| step.met) {
            self.best_step = Some((total, observed));
        }
        self.rate_steps.push(step.clone());
    }

    /// Ends the current round.
    pub(super) fn end(&mut self, conditions: RoundConditions, method: &Method) {
        self.total.end_round(super::cut(method).saturating_mul(1_000_000_000));
        let empty = self.case.total();
        let total = std::mem::replace(&mut self.total, empty);
        let (total, observed) = self.best_step.take().unwrap_or((total, self.observed));
        let RoundConditions { undrained, count_mismatch: miscounted } = conditions;
        let evidence = Evidence { undrained, miscounted, ..self.evidence(&total, &observed) };
        match &mut self.remaining {
            Remaining::Single(order) => {
                *order = None;
                let round = CountedRound { number: 1, total, observed };
                match violations(&evidence, MAX_ERROR_SHARE) {
                    found if found.is_empty() => self.counted.push_back(round),
                    found => self.invalid = Some((round, found)),
                }
            }
            Remaining::Stabilise(protocol, rounds) => {
                let Some(order) = protocol.next_round() else { return };
                let found = violations(&evidence, 0.0);
                protocol.observe(MeasuredRound {
                    duration: Duration::from_secs_f64(total.window()),
                    throughput: evidence.throughput,
                    violations: found.clone(),
                });
                let round = CountedRound { number: order.number, total, observed };
                if found.is_empty() {
                    self.counted.push_back(round);
                } else {
                    self.invalid = Some((round, found));
                }
                while self.counted.len() > *rounds {
                    self.counted.pop_front();
                }
            }
        }
    }

    fn evidence(&self, total: &Total, observed: &ObservedLoad) -> Evidence {
        let (rate, quantum) = self.case.rate.unzip();
        Evidence {
            server: observed.busiest(),
            steal: if observed.host > 0.0 { observed.steal / observed.host } else { 0.0 },
            ..total.evidence(rate, quantum.unwrap_or_default().max(self.case.allowed_lag))
        }
    }

    /// First failed samples of the last round as events, each one once.
    pub(super) fn take_failures(&mut self, start: f64) -> Vec<(f64, String)> {
        let last = match (&self.invalid, self.counted.back()) {
            (Some((invalid, _)), Some(valid)) if valid.number > invalid.number => valid,
            (Some((invalid, _)), _) => invalid,
            (None, Some(valid)) => valid,
            (None, None) => return Vec::new(),
        };
        let errors =
            last.total.sum().first_errors.get(self.reported_failures..).unwrap_or_default();
        let event = |error| {
            let failure = Failure::new(error, &self.case.labels);
            let Failure { kind, label, message, .. } = &failure;
            (start + failure.at, format!("{label}: {kind}: {message}"))
        };
        let events = errors.iter().map(event).collect();
        self.reported_failures = last.total.sum().first_errors.len();
        events
    }

    /// The result of the case.
    pub(super) fn cell(self, settings: &Settings) -> Cell {
        let mut cell = Cell { rate_steps: self.rate_steps.clone(), ..self.case.cell.clone() };
        if let Some(why) = &self.failure {
            (cell.verdict, cell.reasons) = (Verdict::Invalid, vec![why.clone()]);
        }
        let mut unstable = None;
        match &self.remaining {
            Remaining::Single(_) => self.single(&mut cell, settings),
            Remaining::Stabilise(protocol, _) => unstable = self.stabilised(&mut cell, protocol),
        }
        cell.thresholds = settings
            .thresholds
            .iter()
            .map(|threshold| threshold.check(&cell.name, &cell.labels))
            .collect();
        if self.failure.is_none() {
            (cell.verdict, cell.reasons) = judge(&VerdictInput {
                violations: &cell.violations,
                unstable: unstable.as_deref(),
                thresholds: &cell.thresholds,
                quick: settings.quick,
            });
        }
        if let Some(lowest) = self.lowest_failed_rate() {
            cell.throughput = None;
            cell.verdict = Verdict::Fail;
            cell.reasons.insert(0, format!("no rate met the objective, not even {lowest:.0}/s"));
        }
        cell
    }

    /// The lowest rate of `find-max` if none met the objective.
    fn lowest_failed_rate(&self) -> Option<f64> {
        let none = self.failure.is_none() && !self.rate_steps.iter().any(|step| step.met);
        self.rate_steps.iter().map(|step| step.rate).reduce(f64::min).filter(|_| none)
    }

    /// Adds the result of the protocol. Returns why the server is unstable.
    fn stabilised(&self, cell: &mut Cell, protocol: &Stabilise) -> Option<String> {
        use crate::protocol::ProtocolResult;
        cell.rounds = protocol.log().to_vec();
        cell.protocol = protocol.outcome().cloned();
        let ending = cell.protocol.as_ref().map(|outcome| outcome.result);
        let because = cell.protocol.as_ref().map(|outcome| outcome.reason.clone());
        if let Some(outcome) = &cell.protocol {
            (cell.throughput, cell.interval) = (outcome.throughput, outcome.interval);
            cell.remarks.extend(outcome.remarks.iter().cloned());
        }
        let recorded = |number: usize| {
            cell.rounds
                .iter()
                .any(|round| round.number == number && round.used == RoundUse::Recorded)
        };
        // Without a steady state, the last rounds are shown, and no round is recorded.
        let shown: Vec<&CountedRound> = match ending {
            Some(ProtocolResult::Stable) => {
                self.counted.iter().filter(|round| recorded(round.number)).collect()
            }
            Some(ProtocolResult::Invalid) => self.invalid.iter().map(|(round, _)| round).collect(),
            _ => self.counted.iter().collect(),
        };
        if ending == Some(ProtocolResult::Stable) {
            let names = &self.case.labels;
            cell.recorded =
                shown.iter().map(|round| figures(round.number, &round.total, names)).collect();
        }
        self.fill(cell, &shown);
        match ending {
            Some(ProtocolResult::Stable) => None,
            Some(ProtocolResult::Invalid) => {
                let found = self.invalid.as_ref().map(|(_, violations)| violations.clone());
                cell.violations =
                    found.filter(|found| !found.is_empty()).unwrap_or(vec![Violation::NoResponse]);
                None
            }
            Some(ProtocolResult::Unstable) => because,
            None => Some("stopped before the server was stable".to_owned()),
        }
    }

    fn single(&self, cell: &mut Cell, settings: &Settings) {
        let shown: Vec<&CountedRound> =
            self.counted.iter().chain(self.invalid.iter().map(|f| &f.0)).collect();
        self.fill(cell, &shown);
        cell.violations =
            self.invalid.as_ref().map(|(_, violations)| violations.clone()).unwrap_or_default();
        if shown.is_empty() {
            cell.violations.push(Violation::NoResponse);
        }
        // The last second is incomplete.
        let complete = self.per_second.len().saturating_sub(1).min(self.seconds as usize);
        let cut = usize::try_from(super::cut(&settings.method)).unwrap_or(usize::MAX);
        let evaluated = fixed::evaluate(&self.per_second[..complete], cut);
        let mean = cell.total().map(|total| total.throughput).filter(|mean| *mean > 0.0);
        cell.throughput = mean.and_then(|mean| match evaluated.throughput {
            Some(found) if complete.saturating_sub(cut) >= MIN_DIVIDED_SECONDS => {
                Some(Spread { mean, ..found })
            }
            _ => spread(&[mean]),
        });
        if complete.saturating_sub(cut) >= MIN_DIVIDED_SECONDS {
            cell.interval = evaluated.interval;
            cell.recorded = self.windows.figures(&self.case.labels);
        }
        if !matches!(settings.method, Method::Fixed { .. }) {
            cell.remarks.extend(evaluated.remarks.iter().cloned());
        }
        if matches!(settings.method, Method::Fixed { .. }) {
            cell.fixed = Some(evaluated);
        }
    }

    /// Adds the figures of several rounds.
    fn fill(&self, cell: &mut Cell, rounds: &[&CountedRound]) {
        let mut total = self.case.total();
        let mut observed = ObservedLoad::default();
        for round in rounds {
            total.merge(&round.total);
            observed.merge(&round.observed);
        }
        cell.labels = total.figures(&self.case.labels);
        cell.window = total.window();
        let samples = cell.labels.first().map_or(0, |figures| figures.samples).max(1) as f64;
        let busiest = total.busiest_loop();
        cell.generator = Generator { cpu_us: total.generator_cpu() * 1e6 / samples, busiest };
        cell.server = observed.busiest().map(|busiest| Server {
            cpu_us: observed.cpu * 1e6 / samples,
            busiest: Some(busiest),
            memory: observed.memory,
        });
        if let Some(cores) =
            observed.others(total.generator_cpu()).filter(|cores| *cores >= MIN_OTHER_CORES)
        {
            let text = format!(
                "other processes of this machine used {cores:.1} cores besides generator and server"
            );
            cell.remarks.push(text);
        }
        cell.attributes.gc_throughput = observed
            .paused
            .filter(|_| cell.window > 0.0)
            .map(|paused| 100.0 * (1.0 - (paused / cell.window).min(1.0)));
        if self.case.open {
            let achieved = cell.labels.first().map_or(0.0, |figures| figures.throughput);
            let planned = total.sum().offered as f64 / cell.window.max(f64::MIN_POSITIVE);
            let offered = self.case.rate.map_or(planned, |(rate, _)| rate);
            let send_lag =
                total.sum().send_lag.as_ref().map_or_else(Times::default, Times::from_histogram);
            cell.offered = Some(offered);
            cell.open = Some(Open { offered, achieved, dropped: total.sum().dropped, send_lag });
        }
        cell.failures = total
            .sum()
            .first_errors
            .iter()
            .map(|error| Failure::new(error, &self.case.labels))
            .collect();
    }
}

pub(super) fn figures(number: usize, total: &Total, names: &[String]) -> RoundFigures {
    let all = total.figures(names).into_iter().next().unwrap_or_default();
    RoundFigures { number, throughput: all.throughput, response: all.response }
}
