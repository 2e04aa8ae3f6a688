//! `summary.json`: the result.

use super::{Comparison, Published};
use crate::figures::{LabelFigures, Times};
use crate::protocol::fixed::Fixed;
use crate::protocol::{Entry, Outcome};
use crate::record::FirstError;
use crate::stats::{Effects, Interval, Spread};
use crate::threshold::Kept;
use crate::validity::Flaw;
use crate::verdict::Verdict;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Everything a run says.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Version of the format: 1.
    pub lab: u32,
    /// Name of the scenario, suite or plan.
    pub name: String,
    /// The verdict on all of it: the worst of the cases', or that of the comparison.
    pub verdict: Verdict,
    /// Why it is not PASS, in words.
    pub reasons: Vec<String>,
    /// Why it ended before its end, if it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interrupted: Option<String>,
    /// The cases.
    pub cells: Vec<Cell>,
    /// Effects of the factors, where there are exactly two with two levels each.
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
    /// Its factors in the order of the scenario.
    pub factors: Vec<Factor>,
    /// What published tables have columns for.
    #[serde(default)]
    pub traits: Traits,
    /// The verdict on it.
    pub verdict: Verdict,
    /// Why it is not PASS, in words.
    pub reasons: Vec<String>,
    /// What is wrong with the measurement.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub flaws: Vec<Flaw>,
    /// Requests a second: of the recorded rounds, or of the stretches of a single run. `None`
    /// where there is no number to report.
    pub throughput: Option<Spread>,
    /// 95 % interval of its mean.
    pub interval: Option<Interval>,
    /// Seconds measured.
    pub window: f64,
    /// Figures of all samples, then of each label.
    pub labels: Vec<LabelFigures>,
    /// The recorded rounds, or stretches of a single run: what comparisons are made of.
    #[serde(default)]
    pub recorded: Vec<RoundFigures>,
    /// Every round, if the protocol was followed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rounds: Vec<Entry>,
    /// How the protocol ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol: Option<Outcome>,
    /// What a run of a fixed duration amounts to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fixed: Option<Fixed>,
    /// Requests a second that the load brings to the server, whatever it answers: the rate of an open
    /// model, or that of users who begin one after the other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offered: Option<f64>,
    /// An open model's rates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open: Option<Open>,
    /// Rates that `find-max` held.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub holds: Vec<Held>,
    /// What the generator needed.
    #[serde(default)]
    pub generator: Generator,
    /// What the server needed, if it was observed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<Server>,
    /// Thresholds.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub thresholds: Vec<Kept>,
    /// First failed samples of each kind.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failures: Vec<Failure>,
    /// What the published test says about this case.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub published: Vec<Published>,
    /// Remarks a reader should know.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remarks: Vec<String>,
}

/// A factor of a case.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Factor {
    /// Its name.
    pub name: String,
    /// Its value, as it was written.
    pub value: String,
}

/// What published tables have columns for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Traits {
    /// Concurrent users.
    pub users: Option<u64>,
    /// Size of the message, in bytes.
    pub message_bytes: Option<u64>,
    /// Delay of the backend, in milliseconds.
    pub delay_ms: Option<f64>,
    /// Heap of a JVM, such as `2G`.
    pub heap: Option<String>,
    /// Share of the time in which a JVM did not pause to collect garbage, in percent.
    pub gc_throughput: Option<f64>,
}

/// A recorded round, or a stretch of a single run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RoundFigures {
    /// Its number, from 1.
    pub number: usize,
    /// Requests a second.
    pub throughput: f64,
    /// Response times.
    pub response: Times,
}

/// Rates of an open model.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Open {
    /// Iterations a second asked for.
    pub offered: f64,
    /// Requests a second answered.
    pub achieved: f64,
    /// Iterations left out.
    pub dropped: u64,
    /// How late requests were sent, in milliseconds.
    pub send_lag: Times,
}

/// A rate that `find-max` held.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Held {
    /// Iterations a second asked for.
    pub rate: f64,
    /// Samples a second that succeeded.
    pub achieved: f64,
    /// Share of samples that failed.
    pub errors: f64,
    /// Iterations left out.
    pub dropped: u64,
    /// It was held longer, to confirm what had been found.
    pub confirms: bool,
    /// The promise was kept.
    pub kept: bool,
    /// How it was judged, in words.
    pub verdict: String,
}

/// What the generator needed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Generator {
    /// CPU time a request, in microseconds.
    pub cpu_us: f64,
    /// Share of its core that the busiest loop used.
    pub busiest: f64,
}

/// What the server needed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Server {
    /// CPU time a request, in microseconds.
    pub cpu_us: f64,
    /// Share of a core that its busiest thread used.
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
    /// Its status; 0 if no answer came.
    pub status: u16,
    /// What was wrong.
    pub message: String,
    /// The URL.
    pub url: String,
    /// The beginning of the answer's body.
    pub body: String,
}

/// Effects of two factors.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FactorEffects {
    /// Name of the first.
    pub first: String,
    /// Name of the second.
    pub second: String,
    /// Factors on the throughput.
    pub effects: Effects,
}

impl Failure {
    /// The sample as it is reported.
    #[must_use]
    pub fn of(error: &FirstError, names: &[String]) -> Self {
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
        self.effects = super::effects::of(&self.cells);
        let compared = self.comparison.as_ref().map_or(Verdict::Pass, Comparison::verdict);
        let verdicts = self.cells.iter().map(|cell| cell.verdict);
        self.verdict = crate::verdict::worst(verdicts.chain([compared]));
        let several = self.cells.len() > 1;
        self.reasons = Vec::new();
        for cell in &self.cells {
            for reason in &cell.reasons {
                let place = if several { format!("{}: ", cell.name) } else { String::new() };
                self.reasons.push(format!("{place}{reason}"));
            }
        }
        if let Some(comparison) = &self.comparison {
            self.reasons.extend(comparison.reasons());
        }
    }

    /// The one object that ends the output of `--json`.
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

/// Percentiles of response times in milliseconds; of the first case, in a run with several each
/// case has its own.
fn percentiles(figures: Option<&LabelFigures>) -> serde_json::Value {
    let times = figures.map(|figures| figures.response.clone()).unwrap_or_default();
    let mut percentiles = serde_json::Map::new();
    for ((name, _), value) in Times::PERCENTILES.iter().zip(times.percentiles()) {
        percentiles.insert((*name).to_owned(), value.into());
    }
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
