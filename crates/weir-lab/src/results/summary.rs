//! `summary.json`: the result.

use super::{AgentFigures, BarOutcome, BarResult, Comparison, ExportFigures, History, Published};
use crate::engine::{Capacity, LoadStep};
use crate::figures::{LabelFigures, Times};
use crate::protocol::fixed::Fixed;
use crate::protocol::{LoggedRound, Outcome};
use crate::record::FailureGroup;
use crate::redaction;
use crate::stats::{Effects, Interval, Spread};
use crate::threshold::ThresholdResult;
use crate::validity::Violation;
use crate::verdict::Verdict;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Result of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Version of the format: 1.
    pub lab: u32,
    /// Name of the scenario, suite or plan.
    pub name: String,
    /// The verdict on the run: the worst one of the cases, or of the comparison.
    pub verdict: Verdict,
    /// Reasons of a verdict other than PASS.
    pub reasons: Vec<String>,
    /// Why the run ended early, if so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interrupted: Option<String>,
    /// The cases.
    pub cells: Vec<Cell>,
    /// Effects of the factors, if the run has exactly two with two levels each.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effects: Option<FactorEffects>,
    /// Comparisons of contenders.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub bars: Vec<BarResult>,
    /// Comparison with a baseline.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comparison: Option<Comparison>,
    /// Comparison with earlier runs of the same scenario.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub history: Option<History>,
    /// Receivers of metrics during the run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub exports: Vec<ExportFigures>,
}

/// One case: one point of the matrix.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    /// Its name, unique in the run, such as `tracker=true monitor=false`.
    pub name: String,
    /// Factors in the order of the scenario.
    pub factors: Vec<Factor>,
    /// Attributes for the columns of published tables.
    #[serde(default, rename = "traits")]
    pub attributes: CaseAttributes,
    /// The verdict.
    pub verdict: Verdict,
    /// Reasons of a verdict other than PASS.
    pub reasons: Vec<String>,
    /// Violated validity rules.
    #[serde(default, rename = "flaws", skip_serializing_if = "Vec::is_empty")]
    pub violations: Vec<Violation>,
    /// Requests per second: of the recorded rounds, or of the windows of a single run. `None`
    /// without a valid figure.
    pub throughput: Option<Spread>,
    /// 95 % interval of the mean throughput.
    pub interval: Option<Interval>,
    /// Seconds measured.
    pub window: f64,
    /// Figures of all samples, then of each label.
    pub labels: Vec<LabelFigures>,
    /// The recorded rounds, or windows of a single run, for comparisons.
    #[serde(default)]
    pub recorded: Vec<RoundFigures>,
    /// All rounds of the protocol.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rounds: Vec<LoggedRound>,
    /// Outcome of the protocol.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol: Option<Outcome>,
    /// Evaluation of a run of a fixed duration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fixed: Option<Fixed>,
    /// Offered requests per second, independent of the server: the rate of an open model, or of
    /// users that start one after the other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offered: Option<f64>,
    /// Rates of an open model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open: Option<Open>,
    /// The highest load that meets the objective of `find-max` or `steps`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity: Option<Capacity>,
    /// Steps of `find-max` or `steps`.
    #[serde(default, rename = "holds", skip_serializing_if = "Vec::is_empty")]
    pub load_steps: Vec<LoadStep>,
    /// Resources of the generator.
    #[serde(default)]
    pub generator: Generator,
    /// Agents of the last round, if several generators made the load.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub agents: Vec<AgentFigures>,
    /// Resources of the server, if observed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<Server>,
    /// Thresholds.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub thresholds: Vec<ThresholdResult>,
    /// Failed samples by message.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failures: Vec<Failure>,
    /// Published figures of this case.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub published: Vec<Published>,
    /// Remarks for the reader.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remarks: Vec<String>,
}

/// A factor of a case.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Factor {
    /// Its name.
    pub name: String,
    /// Value as written.
    pub value: String,
}

/// Attributes for the columns of published tables.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CaseAttributes {
    /// Concurrent users.
    pub users: Option<u64>,
    /// Size of the message, in bytes.
    pub message_bytes: Option<u64>,
    /// Delay of the backend, in milliseconds.
    pub delay_ms: Option<f64>,
    /// Heap of a JVM, such as `2G`.
    pub heap: Option<String>,
    /// GC throughput of a JVM in percent: the share of the time without pauses.
    pub gc_throughput: Option<f64>,
}

/// A recorded round, or a window of a single run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RoundFigures {
    /// Number, from 1.
    pub number: usize,
    /// Requests per second.
    pub throughput: f64,
    /// Share of failed requests.
    #[serde(default)]
    pub errors: f64,
    /// Response times.
    pub response: Times,
    /// Response times of each kind of request by its name, if there are several and contenders are
    /// compared.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, Times>,
    /// Counters of the server for each request.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub counters: BTreeMap<String, f64>,
    /// Resources, if measured for each round.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<Resources>,
}

/// Resources used in a round.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Resources {
    /// CPU time of the server's processes per request, in microseconds: user and system time, child
    /// processes included.
    pub cpu_us: Option<f64>,
    /// Largest resident memory of the server's processes, in bytes.
    pub memory: Option<u64>,
    /// Idle share of the server's cores; `None` unless its processes are pinned.
    pub idle: Option<f64>,
    /// Cores used by the backend.
    pub backend: Option<f64>,
    /// CPU time of the load generator per request, in microseconds.
    pub generator_cpu_us: f64,
    /// Cores used by other programs of the machine.
    pub others: f64,
    /// Share of the machine's time taken by its hypervisor.
    pub steal: f64,
    /// Memory of the server's processes without that of files at the end, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub anonymous_memory: Option<u64>,
    /// Bytes per request that the server's data folder grew by, with its deferred work.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk: Option<f64>,
    /// Largest number of open descriptors of the server's processes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub descriptors: Option<u64>,
    /// Largest resident memory of the load generator, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generator_memory: Option<u64>,
    /// Milliseconds from the start of the server until it was ready, if it was started for the round.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_ms: Option<f64>,
    /// CPU time per request of the server's threads with the name in `observe.thread`, in
    /// microseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thread_cpu_us: Option<f64>,
    /// The round with the deferred work of the server, if the Lab waited for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drained: Option<Drained>,
}

/// A round with the deferred work of the server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Drained {
    /// Milliseconds from the end of the load until the server was idle.
    pub ms: f64,
    /// CPU time of the server per request, in microseconds, until then.
    pub cpu_us: f64,
    /// Requests per second of the time until then.
    pub throughput: f64,
}

/// Rates of an open model.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Open {
    /// Offered requests per second; iterations if the size of these is unknown ([`Cell::offered`] is `None`).
    pub offered: f64,
    /// Requests of an iteration; `None` if their number varies, or differs between groups.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests: Option<f64>,
    /// Completed requests per second.
    pub achieved: f64,
    /// Dropped iterations.
    pub dropped: u64,
    /// Send lag in milliseconds.
    pub send_lag: Times,
}

/// Resources of the generator.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Generator {
    /// CPU time per request, in microseconds.
    pub cpu_us: f64,
    /// CPU of the busiest loop, as a share of a core.
    pub busiest: f64,
}

/// Resources of the server.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Server {
    /// CPU time per request, in microseconds.
    pub cpu_us: f64,
    /// CPU of the busiest thread, as a share of a core.
    pub busiest: Option<f64>,
    /// Largest resident memory, in bytes.
    pub memory: u64,
    /// Idle share of its cores, if its processes are pinned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle: Option<f64>,
}

/// Failed samples with the same label, kind and message.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Failure {
    /// Their label.
    pub label: String,
    /// Their kind.
    pub kind: String,
    /// The failed check, the error, or the reason phrase of the response.
    pub message: String,
    /// Number of samples.
    #[serde(default)]
    pub count: u64,
    /// End of the first sample, in seconds since the round started.
    #[serde(alias = "at")]
    pub first: f64,
    /// End of the last sample.
    #[serde(default)]
    pub last: f64,
    /// Status of the example; 0 without a response.
    pub status: u16,
    /// URL of the example.
    pub url: String,
    /// Head and beginning of the body of the example's request, without secrets.
    #[serde(default)]
    pub request: String,
    /// Likewise of the example's response.
    #[serde(default, alias = "body")]
    pub response: String,
}

/// Effects of two factors.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FactorEffects {
    /// Name of the first.
    pub first: String,
    /// Name of the second.
    pub second: String,
    /// Effects on the throughput, as factors.
    pub effects: Effects,
}

impl Failure {
    /// A group of failed samples for the report.
    #[must_use]
    pub fn new(group: &FailureGroup, names: &[String]) -> Self {
        let seconds = |nanoseconds: u64| nanoseconds as f64 / 1e9;
        Self {
            label: names.get(group.label.0 as usize).cloned().unwrap_or_default(),
            kind: group.kind.name().to_owned(),
            message: redaction::message(&group.message),
            count: group.count,
            first: seconds(group.first),
            last: seconds(group.last),
            status: group.example.status,
            url: redaction::parameters(&group.example.url),
            request: redaction::exchange(&group.example.request),
            response: redaction::exchange(&group.example.response),
        }
    }
}

impl Cell {
    /// Figures of all samples.
    #[must_use]
    pub fn total(&self) -> Option<&LabelFigures> {
        self.labels.first()
    }

    /// Throughput of each recorded round.
    #[must_use]
    pub fn throughputs(&self) -> Vec<f64> {
        self.recorded.iter().map(|round| round.throughput).collect()
    }

    /// Value of a factor.
    #[must_use]
    pub fn factor(&self, name: &str) -> Option<&str> {
        self.factors.iter().find(|factor| factor.name == name).map(|factor| factor.value.as_str())
    }
}

impl Summary {
    /// Sets verdict, reasons and effects from the cases and the comparison.
    pub fn conclude(&mut self) {
        self.lab = 1;
        self.effects = super::effects::factor_effects(&self.cells);
        let compared = self.comparison.as_ref().map_or(Verdict::Pass, Comparison::verdict);
        let verdicts = self.cells.iter().map(|cell| cell.verdict);
        self.verdict = verdicts.fold(compared, Verdict::max);
        let several = self.cells.len() > 1;
        self.reasons = Vec::new();
        for cell in &self.cells {
            for reason in &cell.reasons {
                let prefix = if several { format!("{}: ", cell.name) } else { String::new() };
                self.reasons.push(format!("{prefix}{reason}"));
            }
        }
        let missed = self.bars.iter().filter(|bar| bar.outcome == BarOutcome::Missed);
        for bar in missed {
            self.verdict = self.verdict.max(Verdict::Fail);
            self.reasons.push(format!("{} is missed: {}", bar.name(), bar.found()));
        }
        if let Some(comparison) = &self.comparison {
            self.reasons.extend(comparison.reasons());
        }
    }

    /// Name of a case; the only case of a run may be called like the run.
    #[must_use]
    pub fn name_of<'s>(&'s self, cell: &'s Cell) -> &'s str {
        if cell.name.is_empty() { &self.name } else { &cell.name }
    }

    /// Sources of the published figures, in their order.
    #[must_use]
    pub fn sources(&self) -> Vec<&str> {
        let mut sources: Vec<&str> = Vec::new();
        for published in self.cells.iter().flat_map(|cell| &cell.published) {
            if !sources.contains(&published.source.as_str()) {
                sources.push(&published.source);
            }
        }
        sources
    }

    /// The object at the end of the output of `--json`.
    #[must_use]
    pub fn line(&self) -> serde_json::Value {
        let totals = || self.cells.iter().filter_map(Cell::total);
        let mut errors = BTreeMap::new();
        for kind in crate::sample::ErrorKind::ALL {
            let of = |figures: &LabelFigures| figures.errors.get(kind.name()).copied();
            errors.insert(kind.name(), totals().filter_map(of).sum::<u64>());
        }
        let window: f64 = self.cells.iter().map(|cell| cell.window).sum();
        let samples: u64 = totals().map(|figures| figures.samples).sum();
        let mut line = serde_json::json!({
            "event": "result",
            "verdict": self.verdict,
            "reasons": self.reasons,
            "interrupted": self.interrupted.is_some(),
            "samples": samples,
            "errors": errors,
            "throughput": if window > 0.0 { samples as f64 / window } else { 0.0 },
            "percentiles": percentiles(totals().next()),
        });
        if let [cell] = &self.cells[..]
            && let Some(capacity) = &cell.capacity
        {
            line["capacity"] = serde_json::json!(capacity);
        }
        if self.cells.len() > 1 {
            line["cells"] = self.cells.iter().map(cell_line).collect();
        }
        line
    }
}

/// Percentiles of response times in milliseconds. In a run with several cases these are of the
/// first case, and each case has its own.
fn percentiles(figures: Option<&LabelFigures>) -> serde_json::Value {
    let times = figures.map(|figures| figures.response.clone()).unwrap_or_default();
    let mut percentiles = times.named_percentiles();
    percentiles.insert("max".to_owned(), times.max.into());
    percentiles.into()
}

fn cell_line(cell: &Cell) -> serde_json::Value {
    serde_json::json!({
        "name": cell.name,
        "verdict": cell.verdict,
        "samples": cell.total().map_or(0, |figures| figures.samples),
        "errors": cell.total().map_or(0, LabelFigures::failed),
        "throughput": cell.throughput.map(|spread| spread.mean),
        "interval": cell.interval,
        "percentiles": percentiles(cell.total()),
        "capacity": cell.capacity,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::{SearchedLoad, StepVerdict};
    use crate::protocol::{LoggedRound, ProtocolResult, RoundSize, RoundUse};
    use crate::stats::WarmUpTrend;

    #[test]
    fn names_in_summary_json_are_stable() {
        let round = LoggedRound {
            number: 1,
            size: RoundSize::Iterations(5),
            seconds: 2.0,
            throughput: 2.5,
            used: RoundUse::Invalid,
            violations: vec![Violation::NoResponse],
        };
        let outcome = Outcome {
            result: ProtocolResult::Invalid,
            reason: "no response".to_owned(),
            decided_at: None,
            throughput: None,
            interval: None,
            remarks: Vec::new(),
        };
        let mut fixed = crate::protocol::fixed::evaluate(&[1.0; 60], 10);
        fixed.trend = Some(WarmUpTrend::Flat);
        let threshold = ThresholdResult {
            threshold: "rps>1".to_owned(),
            cell: String::new(),
            met: true,
            found: "2.5/s".to_owned(),
            about_errors: false,
        };
        let step = LoadStep {
            load: SearchedLoad::Rate(100.0),
            search: 1,
            achieved: 99.0,
            errors: 0.0,
            dropped: 0,
            confirms: false,
            met: false,
            verdict: StepVerdict::Errors,
        };
        let cell = Cell {
            violations: vec![Violation::Stalled { seconds: 1.0, of: 2.0 }],
            load_steps: vec![step],
            thresholds: vec![threshold],
            rounds: vec![round],
            protocol: Some(outcome),
            fixed: Some(fixed),
            ..Cell::default()
        };
        let json = serde_json::to_value(&cell).expect("plain");
        assert_eq!(json["traits"]["users"], serde_json::Value::Null);
        assert_eq!(json["flaws"][0]["kind"], "held-up");
        assert_eq!(json["holds"][0]["kept"], false);
        assert_eq!(json["holds"][0]["verdict"], "too many errors");
        assert_eq!(json["thresholds"][0]["kept"], true);
        assert_eq!(json["rounds"][0]["extent"]["iterations"], 5);
        assert_eq!(json["rounds"][0]["used"], "flawed");
        assert_eq!(json["rounds"][0]["flaws"][0]["kind"], "nothing");
        assert_eq!(json["protocol"]["because"], "no response");
        assert_eq!(json["fixed"]["stretches"].as_array().map(Vec::len), Some(10));
        assert_eq!(json["fixed"]["course"]["kind"], "flat");
        assert_eq!(serde_json::from_value::<Cell>(json).expect("the same"), cell);
    }
}
