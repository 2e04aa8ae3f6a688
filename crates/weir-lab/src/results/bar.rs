//! Results of bars, as stored and reported; made by [`crate::bars`].

use crate::stats::Interval;
use serde::{Deserialize, Serialize};

/// Whether a bar holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, strum::Display)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum BarOutcome {
    /// The whole interval is within the bound.
    Met,
    /// The whole interval is beyond the bound.
    Missed,
    /// The interval includes the bound, or there are too few rounds.
    #[default]
    Inconclusive,
}

/// Result of a bar under one load.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct BarResult {
    /// The bar as written.
    pub bar: String,
    /// Its title.
    pub title: String,
    /// Values of the matrix, such as `load=saturated`; empty without a matrix.
    pub load: String,
    /// Whether the bar holds.
    pub outcome: BarOutcome,
    /// Median figure of the subject, with its unit.
    pub subject: String,
    /// Median figure of the reference; empty for an absolute bar.
    pub reference: String,
    /// Median over the rounds of ratio, difference or figure; `None` without a common valid round.
    pub value: Option<f64>,
    /// Lowest and highest round.
    pub range: Option<Interval>,
    /// 95 % interval over the rounds; `None` with fewer than two.
    pub interval: Option<Interval>,
    /// Unit of value, range and interval: empty for a ratio.
    pub unit: String,
    /// Number of rounds.
    pub rounds: usize,
    /// Factor of a ratio.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub factor: Option<f64>,
    /// Higher figures are better.
    #[serde(default)]
    pub at_least: bool,
    /// Label in the chart of all scenarios.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overview: Option<String>,
    /// Why the bar is missed, as stated in the scenario.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Conditions of the measurement that limit the comparison.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

impl BarResult {
    /// A value with its unit: `0.78`, `+12.30 µs`.
    #[must_use]
    pub fn show(&self, value: f64) -> String {
        match self.unit.as_str() {
            "" => format!("{value:.3}"),
            "bytes" => format!("{:.1} MiB", value / f64::from(1 << 20)),
            "/s" => format!("{value:.0}/s"),
            "count" => format!("{value:.0}"),
            "bytes a request" => format!("{value:.0} bytes"),
            "%" => format!("{value:.3} %"),
            unit => format!("{value:.2} {unit}"),
        }
    }

    /// Value with its interval: `0.780 (0.772 to 0.789)`.
    #[must_use]
    pub fn found(&self) -> String {
        let Some(value) = self.value else { return "not measured".to_owned() };
        match self.interval.or(self.range) {
            Some(Interval { low, high }) => {
                format!("{} ({} to {})", self.show(value), self.show(low), self.show(high))
            }
            None => self.show(value),
        }
    }

    /// Name of the bar under its load.
    #[must_use]
    pub fn name(&self) -> String {
        if self.load.is_empty() {
            self.bar.clone()
        } else {
            format!("{} at {}", self.bar, self.load)
        }
    }
}
