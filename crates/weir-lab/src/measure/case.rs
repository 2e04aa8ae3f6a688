//! A case on its way: its rounds, what is kept of them, and what they say in the end.

use super::seen::Seen;
use super::stretches::Stretches;
use super::{Circumstances, Method, Settings};
use crate::engine::{self, Hold};
use crate::figures::Times;
use crate::program::{Label, Program};
use crate::protocol::{Extent, Order, Outcome, Round, Rules, Stabilise, Use, fixed};
use crate::record::Interval;
use crate::results::{
    Cell, Factor, Failure, Generator, Held, Open, Published, RoundFigures, Server, ServerRow,
    Total, Traits,
};
use crate::stats::{Spread, spread};
use crate::validity::{ERRORS, Evidence, Flaw, flaws};
use crate::verdict::{Grounds, Verdict, judge};
use std::collections::VecDeque;
use std::time::Duration;

/// Cores that others of the machine may use without a remark.
const OTHERS: f64 = 0.3;
/// Whole seconds below which a single run is not divided.
const DIVIDED: usize = 10;

/// A case that is to be measured.
#[derive(Clone, Debug)]
pub struct Case {
    /// Its name, unique in the run; empty if there is only one.
    pub name: String,
    /// Its factors.
    pub factors: Vec<Factor>,
    /// What published tables have columns for.
    pub traits: Traits,
    /// What the published test says about it.
    pub published: Vec<Published>,
    /// The program's labels.
    pub labels: Vec<String>,
    /// Those of them that are requests once more.
    pub transactions: Vec<Label>,
    /// Requests a second that an open model offers, and its pacing quantum.
    pub rate: Option<(f64, Duration)>,
    /// Requests a second that users of a closed model bring in as they begin.
    pub offered: Option<f64>,
    /// How late requests may be beside what the rules allow, for `find-max`.
    pub lateness: Duration,
    /// It is an open model, whatever its rate.
    pub open: bool,
    /// How much the first round does.
    pub extent: Extent,
    /// Cases of the same block have their rounds in turn; blocks follow each other.
    pub block: usize,
}

impl Case {
    /// A case of a program; factors, traits and published figures may be set then.
    #[must_use]
    pub fn of(name: &str, program: &Program) -> Self {
        let open = program.groups.iter().any(|group| {
            use crate::program::Executor::{ArrivalRate, FindMax};
            matches!(group.executor, ArrivalRate { .. } | FindMax(_))
        });
        Self {
            name: name.to_owned(),
            factors: Vec::new(),
            traits: Traits::default(),
            published: Vec::new(),
            labels: program.labels.clone(),
            transactions: program.transactions(),
            rate: super::rate(program),
            offered: super::offered(program),
            lateness: super::size::lateness(program).unwrap_or_default(),
            open,
            extent: super::extent(program).unwrap_or(Extent::Iterations(1)),
            block: 0,
        }
    }

    /// Nothing yet.
    pub(super) fn total(&self) -> Total {
        Total::new(self.labels.len(), self.open).without(&self.transactions)
    }
}

/// What is left to do.
#[derive(Debug)]
pub(super) enum Rest {
    /// One run, unless it is done.
    Single(Option<Order>),
    /// The protocol.
    Stabilise(Box<Stabilise>, usize),
}

impl Rest {
    pub(super) fn stabilise(rules: Rules, extent: Extent) -> Self {
        let rounds = rules.rounds.max(3);
        Self::Stabilise(Box::new(Stabilise::new(rules, extent)), rounds)
    }
}

/// A round that counts.
#[derive(Debug)]
struct Kept {
    number: usize,
    total: Total,
    seen: Seen,
}

/// A case on its way.
#[derive(Debug)]
pub(super) struct Progress {
    pub(super) case: Case,
    rest: Rest,
    /// The round under way.
    total: Total,
    seen: Seen,
    /// Seconds of the round.
    seconds: f64,
    /// Requests answered in each second of a single run.
    per_second: Vec<f64>,
    stretches: Stretches,
    /// The last rounds that count: those recorded are among them.
    kept: VecDeque<Kept>,
    /// The last round that does not.
    flawed: Option<(Kept, Vec<Flaw>)>,
    /// Rates that `find-max` held, and what the one to be reported gave.
    holds: Vec<Held>,
    held: Option<(Total, Seen)>,
    /// Failures told of as events already.
    told: usize,
    pub(super) given_up: Option<String>,
}

impl Progress {
    pub(super) fn new(case: Case, method: &Method) -> Self {
        Self {
            rest: Rest::of(method, case.extent),
            total: case.total(),
            seen: Seen::default(),
            seconds: 0.0,
            per_second: Vec::new(),
            stretches: Stretches::default(),
            kept: VecDeque::new(),
            flawed: None,
            holds: Vec::new(),
            held: None,
            told: 0,
            given_up: None,
            case,
        }
    }

    /// The next round.
    pub(super) fn order(&self) -> Option<Order> {
        if self.given_up.is_some() {
            return None;
        }
        match &self.rest {
            Rest::Single(order) => *order,
            Rest::Stabilise(protocol, _) => protocol.order(),
        }
    }

    pub(super) fn outcome(&self) -> Option<&Outcome> {
        match &self.rest {
            Rest::Single(_) => None,
            Rest::Stabilise(protocol, _) => protocol.outcome(),
        }
    }

    /// Seconds of the round that ended last.
    pub(super) fn last_length(&self) -> f64 {
        self.seconds
    }

    pub(super) fn begin(&mut self) {
        self.total = self.case.total();
        self.seen = Seen::default();
        self.seconds = 0.0;
        self.told = 0;
    }

    pub(super) fn second(&mut self, second: &Interval, warm_up: bool) {
        let last_end = second.labels.iter().map(|tally| tally.last_end).max().unwrap_or(0);
        self.seconds = self.seconds.max(last_end as f64 / 1e9);
        if matches!(self.rest, Rest::Single(_)) {
            let samples = second.all(&self.case.transactions).samples();
            let at = usize::try_from(second.second).unwrap_or(usize::MAX);
            // A second without anything may not have been handed over.
            if at < self.per_second.len() + 86_400 {
                self.per_second.resize(self.per_second.len().max(at + 1), 0.0);
                self.per_second[at] += samples as f64;
            }
            if !warm_up {
                self.stretches.add(second, &self.case);
            }
        }
        if !warm_up {
            self.total.add(second);
        }
    }

    pub(super) fn observe(&mut self, rows: &[ServerRow], cut: u64) {
        for row in rows.iter().filter(|row| row.time > cut as f64) {
            self.seen.add(row, cut as f64);
        }
    }

    /// Takes in a rate that `find-max` held: the highest that kept the promise is what is reported.
    pub(super) fn hold(&mut self, hold: &Hold) {
        self.total.end_round(0);
        let empty = self.case.total();
        let total = std::mem::replace(&mut self.total, empty);
        let seen = self.seen;
        self.seen = seen.next();
        let kept = hold.verdict == engine::Verdict::Kept;
        // Without any that kept it, the last one says how it was.
        if kept || !self.holds.iter().any(|hold| hold.kept) {
            self.held = Some((total, seen));
        }
        self.holds.push(Held {
            rate: hold.rate,
            achieved: hold.achieved,
            errors: hold.errors,
            dropped: hold.dropped,
            confirms: hold.confirms,
            kept,
            verdict: hold.verdict.to_string(),
        });
    }

    /// Ends the round under way.
    pub(super) fn end(&mut self, circumstances: Circumstances, method: &Method) {
        self.total.end_round(super::cut(method).saturating_mul(1_000_000_000));
        let empty = self.case.total();
        let total = std::mem::replace(&mut self.total, empty);
        let (total, seen) = self.held.take().unwrap_or((total, self.seen));
        let Circumstances { undrained, miscounted } = circumstances;
        let evidence = Evidence { undrained, miscounted, ..self.evidence(&total, &seen) };
        match &mut self.rest {
            Rest::Single(order) => {
                *order = None;
                let kept = Kept { number: 1, total, seen };
                match flaws(&evidence, ERRORS) {
                    found if found.is_empty() => self.kept.push_back(kept),
                    found => self.flawed = Some((kept, found)),
                }
            }
            Rest::Stabilise(protocol, rounds) => {
                let Some(order) = protocol.order() else { return };
                let found = flaws(&evidence, 0.0);
                protocol.observe(Round {
                    took: Duration::from_secs_f64(total.window()),
                    throughput: evidence.throughput,
                    flaws: found.clone(),
                });
                let kept = Kept { number: order.number, total, seen };
                if found.is_empty() {
                    self.kept.push_back(kept);
                } else {
                    self.flawed = Some((kept, found));
                }
                while self.kept.len() > *rounds {
                    self.kept.pop_front();
                }
            }
        }
    }

    fn evidence(&self, total: &Total, seen: &Seen) -> Evidence {
        let (rate, quantum) = self.case.rate.unzip();
        Evidence {
            server: seen.busiest(),
            steal: if seen.host > 0.0 { seen.steal / seen.host } else { 0.0 },
            ..total.evidence(rate, quantum.unwrap_or_default().max(self.case.lateness))
        }
    }

    /// First failed samples of the round that ended last, each once, as events.
    pub(super) fn take_failures(&mut self, start: f64) -> Vec<(f64, String)> {
        let last = match (&self.flawed, self.kept.back()) {
            (Some((flawed, _)), Some(kept)) if kept.number > flawed.number => kept,
            (Some((flawed, _)), _) => flawed,
            (None, Some(kept)) => kept,
            (None, None) => return Vec::new(),
        };
        let errors = last.total.first_errors.get(self.told..).unwrap_or_default();
        let told = |error| {
            let failure = Failure::of(error, &self.case.labels);
            let Failure { kind, label, message, .. } = &failure;
            (start + failure.at, format!("{label}: {kind}: {message}"))
        };
        let events = errors.iter().map(told).collect();
        self.told = last.total.first_errors.len();
        events
    }

    /// What the case says in the end.
    pub(super) fn cell(self, settings: &Settings) -> Cell {
        let mut cell = Cell {
            name: self.case.name.clone(),
            factors: self.case.factors.clone(),
            traits: self.case.traits.clone(),
            published: self.case.published.clone(),
            offered: self.case.offered,
            holds: self.holds.clone(),
            ..Cell::default()
        };
        if let Some(why) = &self.given_up {
            (cell.verdict, cell.reasons) = (Verdict::Invalid, vec![why.clone()]);
        }
        let mut unstable = None;
        match &self.rest {
            Rest::Single(_) => self.single(&mut cell, settings),
            Rest::Stabilise(protocol, _) => unstable = self.stabilised(&mut cell, protocol),
        }
        cell.thresholds = settings
            .thresholds
            .iter()
            .map(|threshold| threshold.check(&cell.name, &cell.labels))
            .collect();
        if self.given_up.is_none() {
            (cell.verdict, cell.reasons) = judge(&Grounds {
                flaws: &cell.flaws,
                unstable: unstable.as_deref(),
                thresholds: &cell.thresholds,
                quick: settings.quick,
            });
        }
        if let Some(lowest) = self.lowest_in_vain() {
            cell.throughput = None;
            cell.verdict = Verdict::Fail;
            cell.reasons.insert(0, format!("no rate kept the promise, not even {lowest:.0}/s"));
        }
        cell
    }

    /// The lowest rate that `find-max` tried, if none kept its promise.
    fn lowest_in_vain(&self) -> Option<f64> {
        let none = self.given_up.is_none() && !self.holds.iter().any(|hold| hold.kept);
        self.holds.iter().map(|hold| hold.rate).reduce(f64::min).filter(|_| none)
    }

    /// Fills in what the protocol found; gives why it is unstable.
    fn stabilised(&self, cell: &mut Cell, protocol: &Stabilise) -> Option<String> {
        use crate::protocol::Ending;
        cell.rounds = protocol.log().to_vec();
        cell.protocol = protocol.outcome().cloned();
        let ending = cell.protocol.as_ref().map(|outcome| outcome.result);
        let because = cell.protocol.as_ref().map(|outcome| outcome.because.clone());
        if let Some(outcome) = &cell.protocol {
            (cell.throughput, cell.interval) = (outcome.throughput, outcome.interval);
            cell.remarks.extend(outcome.remarks.iter().cloned());
        }
        let recorded = |number: usize| {
            cell.rounds.iter().any(|round| round.number == number && round.used == Use::Recorded)
        };
        // Without a steady state, the last rounds say how it was, and nothing is recorded.
        let shown: Vec<&Kept> = match ending {
            Some(Ending::Stable) => self.kept.iter().filter(|kept| recorded(kept.number)).collect(),
            Some(Ending::Invalid) => self.flawed.iter().map(|(kept, _)| kept).collect(),
            _ => self.kept.iter().collect(),
        };
        if ending == Some(Ending::Stable) {
            let names = &self.case.labels;
            cell.recorded =
                shown.iter().map(|kept| figures(kept.number, &kept.total, names)).collect();
        }
        self.fill(cell, &shown);
        match ending {
            Some(Ending::Stable) => None,
            Some(Ending::Invalid) => {
                let found = self.flawed.as_ref().map(|(_, flaws)| flaws.clone());
                cell.flaws = found.filter(|found| !found.is_empty()).unwrap_or(vec![Flaw::Nothing]);
                None
            }
            Some(Ending::Unstable) => because,
            None => Some("it was stopped before the server was stable".to_owned()),
        }
    }

    fn single(&self, cell: &mut Cell, settings: &Settings) {
        let shown: Vec<&Kept> = self.kept.iter().chain(self.flawed.iter().map(|f| &f.0)).collect();
        self.fill(cell, &shown);
        cell.flaws = self.flawed.as_ref().map(|(_, flaws)| flaws.clone()).unwrap_or_default();
        if shown.is_empty() {
            cell.flaws.push(Flaw::Nothing);
        }
        // The last second is not whole.
        let whole = self.per_second.len().saturating_sub(1).min(self.seconds as usize);
        let cut = usize::try_from(super::cut(&settings.method)).unwrap_or(usize::MAX);
        let evaluated = fixed::evaluate(&self.per_second[..whole], cut);
        let mean = cell.total().map(|total| total.throughput).filter(|mean| *mean > 0.0);
        cell.throughput = mean.and_then(|mean| match evaluated.throughput {
            Some(found) if whole.saturating_sub(cut) >= DIVIDED => Some(Spread { mean, ..found }),
            _ => spread(&[mean]),
        });
        if whole.saturating_sub(cut) >= DIVIDED {
            cell.interval = evaluated.interval;
            cell.recorded = self.stretches.figures(&self.case.labels);
        }
        if !matches!(settings.method, Method::Fixed { .. }) {
            cell.remarks.extend(evaluated.remarks.iter().cloned());
        }
        if matches!(settings.method, Method::Fixed { .. }) {
            cell.fixed = Some(evaluated);
        }
    }

    /// Figures of rounds together.
    fn fill(&self, cell: &mut Cell, rounds: &[&Kept]) {
        let mut total = self.case.total();
        let mut seen = Seen::default();
        for kept in rounds {
            total.merge(&kept.total);
            seen.merge(&kept.seen);
        }
        cell.labels = total.figures(&self.case.labels);
        cell.window = total.window();
        let samples = cell.labels.first().map_or(0, |figures| figures.samples).max(1) as f64;
        let busiest = total.busiest_loop();
        cell.generator = Generator { cpu_us: total.generator_cpu * 1e6 / samples, busiest };
        cell.server = seen.busiest().map(|busiest| Server {
            cpu_us: seen.cpu * 1e6 / samples,
            busiest: Some(busiest),
            memory: seen.memory,
        });
        if let Some(cores) = seen.others(total.generator_cpu).filter(|cores| *cores >= OTHERS) {
            let text =
                format!("others of this machine used {cores:.1} cores beside generator and server");
            cell.remarks.push(text);
        }
        cell.traits.gc_throughput = seen
            .paused
            .filter(|_| cell.window > 0.0)
            .map(|paused| 100.0 * (1.0 - (paused / cell.window).min(1.0)));
        if self.case.open {
            let achieved = cell.labels.first().map_or(0.0, |figures| figures.throughput);
            let planned = total.offered as f64 / cell.window.max(f64::MIN_POSITIVE);
            let offered = self.case.rate.map_or(planned, |(rate, _)| rate);
            let send_lag = Times::of(&total.send_lag);
            cell.offered = Some(offered);
            cell.open = Some(Open { offered, achieved, dropped: total.dropped, send_lag });
        }
        cell.failures =
            total.first_errors.iter().map(|error| Failure::of(error, &self.case.labels)).collect();
    }
}

pub(super) fn figures(number: usize, total: &Total, names: &[String]) -> RoundFigures {
    let all = total.figures(names).into_iter().next().unwrap_or_default();
    RoundFigures { number, throughput: all.throughput, response: all.response }
}
