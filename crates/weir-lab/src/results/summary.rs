//! `summary.json`: the result.

use super::{Comparison, Published};
use crate::engine::RateStep;
use crate::figures::{LabelFigures, Times};
use crate::protocol::fixed::Fixed;
use crate::protocol::{LoggedRound, Outcome};
use crate::record::FirstError;
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
    /// Comparison with a baseline.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comparison: Option<Comparison>,
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
    /// Rate steps of `find-max`.
    #[serde(default, rename = "holds", skip_serializing_if = "Vec::is_empty")]
    pub rate_steps: Vec<RateStep>,
    /// Resources of the generator.
    #[serde(default)]
    pub generator: Generator,
    /// Resources of the server, if observed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<Server>,
    /// Thresholds.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub thresholds: Vec<ThresholdResult>,
    /// First failed samples of each kind.
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
    /// Response times.
    pub response: Times,
}

/// Rates of an open model.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Open {
    /// Offered iterations per second.
    pub offered: f64,
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
}

/// A failed sample, one of the first of its kind.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Failure {
    /// Its label.
    pub label: String,
    /// Its kind.
    pub kind: String,
    /// Seconds since the round started.
    pub at: f64,
    /// Status; 0 without a response.
    pub status: u16,
    /// The error.
    pub message: String,
    /// The URL.
    pub url: String,
    /// Beginning of the body of the response.
    pub body: String,
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
    /// A failed sample for the report.
    #[must_use]
    pub fn new(error: &FirstError, names: &[String]) -> Self {
        let label = names.get(error.label.0 as usize).cloned().unwrap_or_default();
        Self {
            label,
            kind: error.kind.name().to_owned(),
            at: error.at as f64 / 1e9,
            status: error.status,
            message: error.message.clone(),
            url: error.url.clone(),
            body: error.body.clone(),
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
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::StepVerdict;
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
        let step = RateStep {
            rate: 100.0,
            achieved: 99.0,
            errors: 0.0,
            dropped: 0,
            confirms: false,
            met: false,
            verdict: StepVerdict::Errors,
        };
        let cell = Cell {
            violations: vec![Violation::Stalled { seconds: 1.0, of: 2.0 }],
            rate_steps: vec![step],
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
