//! Sums of a run since its start, by case and label, as metrics.

mod families;

use hdrhistogram::Histogram;
use std::collections::BTreeMap;
use weir_lab::program::{Label, Labels, Program, Step, Url};
use weir_lab::record::{Interval, Tally, histogram};
use weir_lab::sample::ErrorKind;

/// Upper bounds of the buckets of durations in seconds: those of OpenTelemetry's conventions, with finer ones
/// below 5 ms, and longer ones for servers at their limit.
const BOUNDS: [f64; 21] = [
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75,
    1.0, 2.5, 5.0, 7.5, 10.0, 30.0, 60.0,
];

/// Sums of all cases.
#[derive(Default)]
pub(super) struct Sums {
    cases: Vec<Case>,
    /// The loaded case.
    current: usize,
}

/// Sums of a case.
struct Case {
    name: String,
    labels: Labels,
    /// Labels of transactions, which repeat requests.
    transactions: Vec<Label>,
    /// What is known of the requests of each label.
    targets: BTreeMap<Label, Target>,
    /// By label; `None` without samples.
    sums: Vec<Option<Box<LabelSums>>>,
    offered: u64,
    dropped: u64,
    send_lag: Option<Buckets>,
    generator_cpu: u64,
    users: u64,
    in_flight: u64,
    /// Something has changed since the last batch.
    is_new: bool,
}

/// Method and server of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Target {
    method: String,
    /// Address and port, if they have no variables.
    server: Option<(String, u16)>,
}

/// Sums of a label.
struct LabelSums {
    service: Buckets,
    /// Open models only.
    response: Option<Buckets>,
    /// Response times since the last batch.
    window: Histogram<u64>,
    ok: u64,
    expected: u64,
    /// By kind and status; 0 if unknown.
    failed: BTreeMap<(ErrorKind, u16), u64>,
    received: u64,
    sent: u64,
    connects: u64,
}

/// A histogram with the bounds [`BOUNDS`].
#[derive(Clone, Default)]
struct Buckets {
    counts: [u64; BOUNDS.len() + 1],
    /// Seconds.
    sum: f64,
}

impl Sums {
    /// The following seconds are of this case and program.
    pub(super) fn start(&mut self, name: &str, program: &Program) {
        self.end_load();
        let known = self.cases.iter().position(|case| case.name == name);
        self.current = known.unwrap_or_else(|| {
            self.cases.push(Case::new(name));
            self.cases.len() - 1
        });
        let case = &mut self.cases[self.current];
        case.labels = program.labels.clone();
        case.transactions = program.transactions();
        case.targets = targets(program);
    }

    /// Adds a second of the loaded case.
    pub(super) fn add(&mut self, second: &Interval) {
        if let Some(case) = self.cases.get_mut(self.current) {
            case.add(second);
        }
    }

    /// No users are active.
    pub(super) fn end_load(&mut self) {
        if let Some(case) = self.cases.get_mut(self.current) {
            (case.users, case.in_flight) = (0, 0);
            case.is_new = true;
        }
    }
}

impl Case {
    fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            labels: Labels::default(),
            transactions: Vec::new(),
            targets: BTreeMap::new(),
            sums: Vec::new(),
            offered: 0,
            dropped: 0,
            send_lag: None,
            generator_cpu: 0,
            users: 0,
            in_flight: 0,
            is_new: true,
        }
    }

    fn add(&mut self, second: &Interval) {
        self.is_new = true;
        self.offered += second.offered;
        self.dropped += second.dropped;
        self.generator_cpu += second.generator_cpu;
        (self.users, self.in_flight) = (second.users, second.in_flight);
        if let Some(lag) = &second.send_lag {
            self.send_lag.get_or_insert_default().add(lag);
        }
        if self.sums.len() < second.labels.len() {
            self.sums.resize_with(second.labels.len(), || None);
        }
        for (sums, tally) in self.sums.iter_mut().zip(&second.labels) {
            if tally.samples() > 0 {
                sums.get_or_insert_with(Box::default).add(tally);
            }
        }
        for group in second.failures.groups() {
            let sums = self.sums.get_mut(group.label.0 as usize).and_then(Option::as_mut);
            if let (Some(sums), Some(status)) = (sums, group.status()) {
                sums.specify(group.kind, status, group.count);
            }
        }
    }
}

impl Default for LabelSums {
    fn default() -> Self {
        Self {
            service: Buckets::default(),
            response: None,
            window: histogram(),
            ok: 0,
            expected: 0,
            failed: BTreeMap::new(),
            received: 0,
            sent: 0,
            connects: 0,
        }
    }
}

impl LabelSums {
    fn add(&mut self, tally: &Tally) {
        self.service.add(&tally.service);
        if let Some(response) = &tally.response {
            self.response.get_or_insert_default().add(response);
        }
        // Both grow, and have the same digits.
        let _ = self.window.add(tally.response());
        self.ok += tally.ok;
        self.expected += tally.expected;
        for (kind, count) in ErrorKind::ALL.iter().zip(tally.errors) {
            if count > 0 {
                *self.failed.entry((*kind, 0)).or_default() += count;
            }
        }
        self.received += tally.received;
        self.sent += tally.sent;
        self.connects += tally.connects;
    }

    /// So many failures of a kind, counted already, have this status.
    fn specify(&mut self, kind: ErrorKind, status: u16, count: u64) {
        let Some(unknown) = self.failed.get_mut(&(kind, 0)).filter(|_| status > 0) else { return };
        let count = count.min(*unknown);
        *unknown -= count;
        *self.failed.entry((kind, status)).or_default() += count;
    }
}

impl Buckets {
    /// Adds times in nanoseconds.
    fn add(&mut self, times: &Histogram<u64>) {
        for value in times.iter_recorded() {
            // Of all times that the histogram does not distinguish, the shortest.
            let shortest = times.lowest_equivalent(value.value_iterated_to());
            let seconds = shortest as f64 / 1e9;
            self.counts[BOUNDS.partition_point(|bound| *bound < seconds)] += value.count_at_value();
        }
        self.sum += times.mean() * times.len() as f64 / 1e9;
    }

    fn count(&self) -> u64 {
        self.counts.iter().sum()
    }
}

/// Method and server by label, where all requests of the label have the same.
fn targets(program: &Program) -> BTreeMap<Label, Target> {
    let mut targets: BTreeMap<Label, Option<Target>> = BTreeMap::new();
    for step in program.steps() {
        let Step::Request(request) = step else { continue };
        let server = match &request.url {
            Url::Parts { origin, .. } => Some((origin.host.clone(), origin.port)),
            _ => None,
        };
        let target = Some(Target { method: request.method.clone(), server });
        let known = targets.entry(request.label).or_insert_with(|| target.clone());
        if *known != target {
            *known = None;
        }
    }
    targets.into_iter().filter_map(|(label, target)| Some((label, target?))).collect()
}

#[cfg(test)]
mod tests;
