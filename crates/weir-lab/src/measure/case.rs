//! Progress of a case: its rounds, their sums and the result.

mod of_rounds;

use super::counted::{CountedRound, foreign_times, resources};
use super::observed::ObservedLoad;
use super::windows::Windows;
use super::{Method, RoundConditions, Settings};
use crate::engine::{Capacity, LoadStep, SearchedLoad};
use crate::figures::Times;
use crate::program::{Label, Labels, Program};
use crate::protocol::{
    LoggedRound, MeasuredRound, Outcome, PlannedRound, RoundSize, RoundUse, Stabilise, Stage, fixed,
};
use crate::record::Interval;
use crate::results::{
    AgentFigures, AgentRound, Cell, Failure, Generator, Open, Server, ServerRow, Total,
};
use crate::stats::{Spread, spread};
use crate::stop::StopWatch;
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
    /// Name in bars.
    pub contender: String,
    /// Name of the values of the matrix.
    pub load: String,
    /// Values of the matrix.
    pub values: Vec<(String, String)>,
}

impl Case {
    /// A case of a program. Factors, attributes and published figures may be set afterwards.
    #[must_use]
    pub fn new(name: &str, program: &Program) -> Self {
        let open = program.groups.iter().any(|group| group.executor.is_open());
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
            contender: String::new(),
            load: String::new(),
            values: Vec::new(),
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
    /// Rounds of all cases.
    Paired(Box<Paired>),
}

/// Rounds of a case among those of all cases.
#[derive(Debug)]
struct Paired {
    size: RoundSize,
    planned: usize,
    log: Vec<LoggedRound>,
    /// Cores used by other programs in each round.
    others: Vec<f64>,
    /// Numbers of the reported rounds.
    used: Vec<usize>,
    remark: Option<String>,
}

impl Remaining {
    /// The rounds of a case at the start.
    fn new(method: &Method, size: RoundSize) -> Self {
        match method {
            Method::Once | Method::Fixed { .. } => {
                Self::Single(Some(PlannedRound { number: 1, size, stage: Stage::Recording }))
            }
            Method::Stabilise(rules) => {
                Self::Stabilise(Box::new(Stabilise::new(rules.clone(), size)), rules.rounds.max(3))
            }
            Method::Paired(rules) => Self::Paired(Box::new(Paired {
                size,
                planned: rules.planned(&[]),
                log: Vec::new(),
                others: Vec::new(),
                used: Vec::new(),
                remark: None,
            })),
        }
    }
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
    /// Steps of `find-max` or `steps`, and the sums of the reported one.
    load_steps: Vec<LoadStep>,
    /// Agents of the last round.
    agents: Vec<AgentFigures>,
    best_step: Option<(Total, ObservedLoad)>,
    /// Why there is no result, and the verdict.
    pub(super) failure: Option<(Verdict, String)>,
    stop: StopWatch,
    /// A condition that ended the run.
    pub(super) stop_reason: Option<String>,
}

impl Progress {
    pub(super) fn new(case: Case, settings: &Settings) -> Self {
        Self {
            remaining: Remaining::new(&settings.method, case.size),
            stop: StopWatch::new(&settings.stop),
            stop_reason: None,
            total: case.total(),
            observed: ObservedLoad::default(),
            seconds: 0.0,
            per_second: Vec::new(),
            windows: Windows::default(),
            counted: VecDeque::new(),
            invalid: None,
            load_steps: Vec::new(),
            agents: Vec::new(),
            best_step: None,
            failure: None,
            case,
        }
    }

    /// The next round.
    pub(super) fn next_round(&self) -> Option<PlannedRound> {
        if self.failure.is_some() || self.stop_reason.is_some() {
            return None;
        }
        self.planned()
    }

    fn planned(&self) -> Option<PlannedRound> {
        match &self.remaining {
            Remaining::Single(order) => *order,
            Remaining::Stabilise(protocol, _) => protocol.next_round(),
            Remaining::Paired(paired) => {
                let number = paired.log.len() + 1;
                let round = PlannedRound { number, size: paired.size, stage: Stage::Recording };
                (number <= paired.planned).then_some(round)
            }
        }
    }

    /// Sets the number of rounds of all cases.
    pub(super) fn plan(&mut self, planned: usize) {
        if let Remaining::Paired(paired) = &mut self.remaining {
            paired.planned = planned;
        }
    }

    /// Sets the reported rounds, and a remark about them.
    pub(super) fn select(&mut self, used: Vec<usize>, remark: Option<String>) {
        if let Remaining::Paired(paired) = &mut self.remaining {
            (paired.used, paired.remark) = (used, remark);
        }
    }

    fn logged(&self) -> &[LoggedRound] {
        match &self.remaining {
            Remaining::Single(_) => &[],
            Remaining::Stabilise(protocol, _) => protocol.log(),
            Remaining::Paired(paired) => &paired.log,
        }
    }

    /// Number of completed rounds.
    pub(super) fn tries(&self) -> usize {
        self.logged().len()
    }

    /// Whether a completed round is valid.
    pub(super) fn is_valid(&self, number: usize) -> bool {
        self.logged().get(number - 1).is_some_and(|round| round.violations.is_empty())
    }

    /// Cores used by other programs in a completed round.
    pub(super) fn others(&self, number: usize) -> f64 {
        match &self.remaining {
            Remaining::Paired(paired) => paired.others.get(number - 1).copied().unwrap_or(0.0),
            _ => 0.0,
        }
    }

    /// Rates of the valid rounds.
    pub(super) fn rates(&self) -> Vec<f64> {
        self.counted.iter().map(|round| round.total.throughput()).collect()
    }

    pub(super) fn outcome(&self) -> Option<&Outcome> {
        match &self.remaining {
            Remaining::Single(_) | Remaining::Paired(_) => None,
            Remaining::Stabilise(protocol, _) => protocol.outcome(),
        }
    }

    pub(super) fn start_round(&mut self) {
        self.stop.reset();
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

    /// Checks the conditions of `stop` with a second of the load.
    pub(super) fn watch_stop(&mut self, second: &Interval) {
        if self.stop_reason.is_none() {
            let Case { labels, transactions, .. } = &self.case;
            self.stop_reason = self.stop.second(second, labels, transactions);
        }
    }

    /// The samples up to now were those of the ramp-up of a step.
    pub(super) fn step_ramped(&mut self) {
        self.total = self.case.total();
        self.observed = self.observed.reset();
    }

    pub(super) fn observe(&mut self, rows: &[ServerRow], cut: u64) {
        for row in rows.iter().filter(|row| row.time > cut as f64) {
            self.observed.add(row, cut as f64);
        }
    }

    /// Adds a step of `find-max` or `steps`. The highest load that met the objective is reported.
    pub(super) fn load_step(&mut self, step: &LoadStep) {
        self.total.end_round(0);
        let empty = self.case.total();
        let total = std::mem::replace(&mut self.total, empty);
        let observed = self.observed;
        self.observed = observed.reset();
        // If no load met the objective, the last one is reported.
        if step.met || !self.load_steps.iter().any(|step| step.met) {
            self.best_step = Some((total, observed));
        }
        self.load_steps.push(step.clone());
    }

    /// Ends the current round.
    pub(super) fn end(&mut self, conditions: RoundConditions, method: &Method) {
        self.total.end_round(super::cut(method).saturating_mul(1_000_000_000));
        let empty = self.case.total();
        let total = std::mem::replace(&mut self.total, empty);
        let (total, mut observed) = self.best_step.take().unwrap_or((total, self.observed));
        let RoundConditions { undrained, count_mismatch, counters, usage, foreign_times, agents } =
            conditions;
        observed.set_generators(&total, foreign_times.is_some(), &agents);
        let idle_others = usage.and_then(|usage| usage.idle_others);
        if idle_others.is_some() {
            observed.forget_others();
        }
        let miscounted = count_mismatch;
        let mut evidence = Evidence { undrained, miscounted, ..self.evidence(&total, &observed) };
        if let Some(times) = &foreign_times {
            evidence.mean = Duration::from_secs_f64(times.mean.max(0.0) / 1e3);
        }
        let Some(PlannedRound { number, .. }) = self.planned() else { return };
        let resources = usage.map(|usage| resources(&usage, &total, &observed));
        let allowed_errors = match (&self.remaining, method) {
            (Remaining::Single(_), _) => MAX_ERROR_SHARE,
            (_, Method::Paired(rules)) => rules.errors,
            _ => 0.0,
        };
        if let Some(resources) = &resources {
            evidence.steal = resources.steal;
            evidence.others = idle_others.or(evidence.others);
        }
        if matches!(self.remaining, Remaining::Paired(_)) {
            // A generator at its limit limits the rate, which its bars state; the CPU time of a
            // request stays valid.
            evidence.generator = 0.0;
        }
        let mut found = violations(&evidence, allowed_errors);
        self.judge_agents(&agents, &evidence, &mut found);
        match &mut self.remaining {
            Remaining::Single(order) => *order = None,
            Remaining::Paired(paired) => {
                paired.log.push(LoggedRound {
                    number,
                    size: paired.size,
                    seconds: total.window(),
                    throughput: evidence.throughput,
                    used: RoundUse::Discarded,
                    violations: found.clone(),
                });
                paired.others.push(resources.as_ref().map_or(0.0, |resources| resources.others));
            }
            Remaining::Stabilise(protocol, _) => protocol.observe(MeasuredRound {
                duration: Duration::from_secs_f64(total.window()),
                throughput: evidence.throughput,
                violations: found.clone(),
            }),
        }
        let round = CountedRound { number, total, observed, resources, foreign_times, counters };
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

    /// With agents, the limits of the generator are those of each one.
    fn judge_agents(
        &mut self,
        agents: &[AgentRound],
        evidence: &Evidence,
        found: &mut Vec<Violation>,
    ) {
        if agents.is_empty() {
            return;
        }
        found.retain(|violation| !violation.is_of_generator());
        let of = |agent: &AgentRound| agent.violations(evidence.quantum, evidence.server);
        found.extend(agents.iter().flat_map(of));
        self.agents = agents.iter().map(AgentRound::figures).collect();
    }

    fn evidence(&self, total: &Total, observed: &ObservedLoad) -> Evidence {
        let (rate, quantum) = self.case.rate.unzip();
        Evidence {
            server: observed.busiest(),
            others: observed.others(),
            server_waiting: observed.waiting_for_others(),
            steal: if observed.host > 0.0 { observed.steal / observed.host } else { 0.0 },
            ..total.evidence(rate, quantum.unwrap_or_default().max(self.case.allowed_lag))
        }
    }

    /// Failed samples of the last round by message, as events.
    pub(super) fn failures(&self, start: f64) -> Vec<(f64, String)> {
        let invalid = self.invalid.iter().map(|(round, _)| round);
        let last = self.counted.back().into_iter().chain(invalid).max_by_key(|round| round.number);
        let event = |error| {
            let Failure { kind, label, message, first, count, .. } =
                Failure::new(error, &self.case.labels.names());
            (start + first, format!("{label}: {kind}: {message} ({count})"))
        };
        let errors = last.into_iter().flat_map(|round| round.total.sum().failures.groups());
        errors.map(event).collect()
    }

    /// The result of the case.
    pub(super) fn cell(self, settings: &Settings) -> Cell {
        let mut cell = Cell {
            capacity: Capacity::of(&self.load_steps),
            load_steps: self.load_steps.clone(),
            agents: self.agents.clone(),
            ..self.case.cell.clone()
        };
        if let Some((verdict, why)) = &self.failure {
            (cell.verdict, cell.reasons) = (*verdict, vec![why.clone()]);
        }
        let unstable = match &self.remaining {
            Remaining::Single(_) => self.single(&mut cell, settings),
            Remaining::Stabilise(protocol, _) => self.stabilised(&mut cell, protocol),
            Remaining::Paired(paired) => self.paired(&mut cell, paired),
        };
        cell.thresholds = settings
            .thresholds
            .iter()
            .map(|threshold| threshold.check(&cell.name, &cell.labels))
            .collect();
        let met = settings.thresholds.iter().zip(&cell.thresholds).filter(|(_, found)| found.met);
        if !settings.quick && self.failure.is_none() {
            cell.violations.extend(met.filter_map(|(t, _)| t.too_few_samples(&cell.labels)));
        }
        if self.failure.is_none() {
            (cell.verdict, cell.reasons) = judge(&VerdictInput {
                violations: &cell.violations,
                unstable: unstable.as_deref(),
                stopped: self.stop_reason.as_deref(),
                thresholds: &cell.thresholds,
                quick: settings.quick,
            });
        }
        if let Some(lowest) = self.lowest_failed_load() {
            cell.throughput = None;
            cell.verdict = Verdict::Fail;
            let (kind, load) = match lowest {
                SearchedLoad::Rate(_) => ("rate", lowest.to_string()),
                SearchedLoad::Users(_) => ("number of users", lowest.to_string()),
            };
            cell.reasons.insert(0, format!("no {kind} met the objective, not even {load}"));
        }
        cell
    }

    /// The lowest load of a search if none met the objective.
    fn lowest_failed_load(&self) -> Option<SearchedLoad> {
        let none = self.failure.is_none() && !self.load_steps.iter().any(|step| step.met);
        let loads = self.load_steps.iter().map(|step| step.load);
        loads.min_by(|one, other| one.value().total_cmp(&other.value())).filter(|_| none)
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
            self.load_steps.is_empty() && complete.saturating_sub(cut) >= MIN_DIVIDED_SECONDS;
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
        let mut exact = Some(0.0);
        let rounds: Vec<&CountedRound> = rounds.into_iter().collect();
        for round in &rounds {
            total.merge(&round.total);
            observed.merge(&round.observed);
            let cpu_us = round.resources.as_ref().and_then(|resources| resources.cpu_us);
            exact =
                exact.zip(cpu_us).map(|(sum, us)| sum + us * round.total.all().samples() as f64);
        }
        // The CPU clocks of processes are more exact than regular samples.
        if let Some(micros) = exact.filter(|micros| *micros > 0.0) {
            observed.cpu = micros / 1e6;
        }
        cell.labels = total.figures(&self.case.labels.names());
        if let Some(times) = foreign_times(rounds.iter().copied()) {
            for figures in &mut cell.labels {
                // The generators of a closed model report the same for both.
                if !self.case.open {
                    figures.service.clone_from(&times);
                }
                figures.response.clone_from(&times);
            }
        }
        cell.window = total.window();
        let samples = cell.labels.first().map_or(0, |figures| figures.samples).max(1) as f64;
        let busiest = total.busiest_loop();
        cell.generator = Generator { cpu_us: total.generator_cpu() * 1e6 / samples, busiest };
        cell.server = observed.busiest().map(|busiest| Server {
            cpu_us: observed.cpu * 1e6 / samples,
            busiest: Some(busiest),
            memory: observed.memory,
            idle: None,
        });
        if let Some(cores) = observed.others().filter(|cores| *cores >= MIN_OTHER_CORES) {
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
            let iterations = total.sum().offered as f64 / cell.window.max(f64::MIN_POSITIVE);
            let requests = self.case.requests;
            // A constant rate is one of requests, also of several groups with iterations of their own.
            let rate = self.case.rate.map(|(rate, _)| rate);
            // Iterations of unknown size are not comparable with requests.
            cell.offered = rate.or(requests.map(|requests| iterations * requests));
            let offered = cell.offered.unwrap_or(iterations);
            let send_lag =
                total.sum().send_lag.as_ref().map_or_else(Times::default, Times::from_histogram);
            let dropped = total.sum().dropped;
            cell.open = Some(Open { offered, requests, achieved, dropped, send_lag });
        }
        cell.failures = total
            .sum()
            .failures
            .groups()
            .iter()
            .map(|error| Failure::new(error, &self.case.labels.names()))
            .collect();
    }
}
