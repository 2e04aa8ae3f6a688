//! Progress of a case: its rounds, their sums and the result.

use super::observed::ObservedLoad;
use super::windows::Windows;
use super::{Method, RoundConditions, Settings};
use crate::engine::RateStep;
use crate::figures::Times;
use crate::program::{Label, Labels, Program};
use crate::protocol::{
    MeasuredRound, Outcome, PlannedRound, ProtocolResult, RoundSize, RoundUse, Stabilise, Stage,
    fixed,
};
use crate::record::Interval;
use crate::results::{Cell, Failure, Generator, Open, RoundFigures, Server, ServerRow, Total};
use crate::stats::{Spread, spread};
use crate::validity::{Evidence, MAX_ERROR_SHARE, MIN_OTHER_CORES, Violation, violations};
use crate::verdict::{Verdict, VerdictInput, judge};
use std::collections::VecDeque;
use std::time::Duration;

/// A single run with fewer complete seconds is not divided into windows.
const MIN_DIVIDED_SECONDS: usize = 10;

/// A case to be measured.
#[derive(Clone, Debug)]
pub struct Case {
    /// Its name, factors, attributes and published figures.
    pub cell: Cell,
    /// The program's labels.
    pub labels: Labels,
    /// Labels of transactions, which repeat requests.
    pub transactions: Vec<Label>,
    /// Offered requests per second of an open model, and its pacing quantum.
    pub rate: Option<(f64, Duration)>,
    /// Additional allowed send lag, for `find-max`.
    pub allowed_lag: Duration,
    /// An open model of any rate.
    pub open: bool,
    /// Requests of an iteration; `None` if their number varies, or differs between groups.
    pub requests: Option<f64>,
    /// Throughput and users are constant once the users have started, if the server is: a change of
    /// the throughput is one of the server.
    pub constant: bool,
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
            use crate::program::Executor::{ArrivalRate, Arrivals, FindMax};
            matches!(group.executor, ArrivalRate(_) | FindMax(_) | Arrivals(_))
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
            requests: super::round_size::requests_of_iteration(program),
            constant: super::round_size::is_constant(program),
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
enum Remaining {
    /// One run; `None` once done.
    Single(Option<PlannedRound>),
    /// The protocol.
    Stabilise(Box<Stabilise>, usize),
}

impl Remaining {
    /// The rounds of a case at the start.
    fn new(method: &Method, size: RoundSize) -> Self {
        let Method::Stabilise(rules) = method else {
            return Self::Single(Some(PlannedRound { number: 1, size, stage: Stage::Recording }));
        };
        Self::Stabilise(Box::new(Stabilise::new(rules.clone(), size)), rules.rounds.max(3))
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
    /// Seconds of the current round, or of the last one.
    pub(super) seconds: f64,
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

    pub(super) fn start_round(&mut self) {
        self.total = self.case.total();
        self.observed = ObservedLoad::default();
        self.seconds = 0.0;
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
        let Some(PlannedRound { number, .. }) = self.next_round() else { return };
        let allowed_errors = match self.remaining {
            Remaining::Single(_) => MAX_ERROR_SHARE,
            Remaining::Stabilise(..) => 0.0,
        };
        let found = violations(&evidence, allowed_errors);
        match &mut self.remaining {
            Remaining::Single(order) => *order = None,
            Remaining::Stabilise(protocol, _) => protocol.observe(MeasuredRound {
                duration: Duration::from_secs_f64(total.window()),
                throughput: evidence.throughput,
                violations: found.clone(),
            }),
        }
        let round = CountedRound { number, total, observed };
        if !found.is_empty() {
            self.invalid = Some((round, found));
            return;
        }
        self.counted.push_back(round);
        if let Remaining::Stabilise(_, rounds) = self.remaining
            && self.counted.len() > rounds
        {
            self.counted.pop_front();
        }
    }

    fn evidence(&self, total: &Total, observed: &ObservedLoad) -> Evidence {
        let (rate, quantum) = self.case.rate.unzip();
        Evidence {
            server: observed.busiest(),
            others: observed.others(total.generator_cpu()),
            steal: if observed.host > 0.0 { observed.steal / observed.host } else { 0.0 },
            ..total.evidence(rate, quantum.unwrap_or_default().max(self.case.allowed_lag))
        }
    }

    /// First failed samples of the last round as events.
    pub(super) fn failures(&self, start: f64) -> Vec<(f64, String)> {
        let invalid = self.invalid.iter().map(|(round, _)| round);
        let last = self.counted.back().into_iter().chain(invalid).max_by_key(|round| round.number);
        let event = |error| {
            let Failure { kind, label, message, at, .. } =
                Failure::new(error, &self.case.labels.names());
            (start + at, format!("{label}: {kind}: {message}"))
        };
        let errors = last.into_iter().flat_map(|round| &round.total.sum().first_errors);
        errors.map(event).collect()
    }

    /// The result of the case.
    pub(super) fn cell(self, settings: &Settings) -> Cell {
        let mut cell = Cell { rate_steps: self.rate_steps.clone(), ..self.case.cell.clone() };
        if let Some(why) = &self.failure {
            (cell.verdict, cell.reasons) = (Verdict::Invalid, vec![why.clone()]);
        }
        let unstable = match &self.remaining {
            Remaining::Single(_) => self.single(&mut cell, settings),
            Remaining::Stabilise(protocol, _) => self.stabilised(&mut cell, protocol),
        };
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
                let figures = shown().map(|round| figures(round.number, &round.total, names));
                cell.recorded = figures.collect();
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

    /// Violated rules of the last invalid round.
    fn violations(&self) -> Option<Vec<Violation>> {
        self.invalid.as_ref().map(|(_, violations)| violations.clone())
    }

    /// Adds the result of one run. Returns why the server is unstable.
    fn single(&self, cell: &mut Cell, settings: &Settings) -> Option<String> {
        self.fill(cell, self.counted.iter().chain(self.invalid.iter().map(|(round, _)| round)));
        cell.violations = self.violations().unwrap_or_default();
        if self.counted.is_empty() && self.invalid.is_none() {
            cell.violations.push(Violation::NoResponse);
        }
        // The last second is incomplete.
        let complete = self.per_second.len().saturating_sub(1).min(self.seconds as usize);
        let cut = usize::try_from(super::cut(&settings.method)).unwrap_or(usize::MAX);
        let evaluated = fixed::evaluate(&self.per_second[..complete], cut);
        // The seconds of `find-max` have different rates.
        let is_divided =
            self.rate_steps.is_empty() && complete.saturating_sub(cut) >= MIN_DIVIDED_SECONDS;
        let mean = cell.total().map(|total| total.throughput).filter(|mean| *mean > 0.0);
        cell.throughput = mean.and_then(|mean| match evaluated.throughput {
            Some(found) if is_divided => Some(Spread { mean, ..found }),
            _ => spread(&[mean]),
        });
        if is_divided {
            cell.interval = evaluated.interval;
            cell.recorded = self.windows.figures(&self.case.labels.names());
        }
        let unsteady = evaluated.unsteady.clone().filter(|_| self.case.constant);
        if let Method::Fixed { .. } = settings.method {
            cell.fixed = Some(evaluated);
            return unsteady;
        }
        // A run of which nothing is cut off includes the warm-up.
        cell.remarks.extend(evaluated.remarks);
        cell.remarks.extend(unsteady);
        None
    }

    /// Adds the figures of several rounds.
    fn fill<'r>(&self, cell: &mut Cell, rounds: impl IntoIterator<Item = &'r CountedRound>) {
        let mut total = self.case.total();
        let mut observed = ObservedLoad::default();
        for round in rounds {
            total.merge(&round.total);
            observed.merge(&round.observed);
        }
        cell.labels = total.figures(&self.case.labels.names());
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
            let planned = planned * self.case.requests.unwrap_or(1.0);
            let offered = self.case.rate.map_or(planned, |(rate, _)| rate);
            let send_lag =
                total.sum().send_lag.as_ref().map_or_else(Times::default, Times::from_histogram);
            // Iterations of unknown size are not comparable with requests.
            cell.offered = self.case.requests.map(|_| offered);
            cell.open = Some(Open { offered, achieved, dropped: total.sum().dropped, send_lag });
        }
        cell.failures = total
            .sum()
            .first_errors
            .iter()
            .map(|error| Failure::new(error, &self.case.labels.names()))
            .collect();
    }
}

pub(super) fn figures(number: usize, total: &Total, names: &[String]) -> RoundFigures {
    let all = total.figures(names).into_iter().next().unwrap_or_default();
    RoundFigures { number, throughput: all.throughput, response: all.response }
}
