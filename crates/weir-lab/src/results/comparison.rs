//! Comparison of two runs, as stored and reported; made by [`crate::compare`].

use crate::stats::{Interval, Ranks, Ratio};
use crate::verdict::Verdict;
use serde::{Deserialize, Serialize};

/// Comparison of two runs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// Name of the first run, the baseline.
    pub before: String,
    /// Name of the second run.
    pub after: String,
    /// Margin: 0.05 is 5 %.
    pub margin: f64,
    /// Cases of both runs.
    pub cells: Vec<CellComparison>,
    /// Cases only in the first run.
    pub only_before: Vec<String>,
    /// Cases only in the second run.
    pub only_after: Vec<String>,
    /// Other differences between the runs that may be the cause, as text.
    pub differences: Vec<String>,
}

/// A case in both runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CellComparison {
    /// Its name.
    pub name: String,
    /// The judgement.
    pub judgement: Judgement,
    /// Mean throughput before, in requests per second; `None` without a figure.
    pub before: Option<f64>,
    /// Mean throughput after.
    pub after: Option<f64>,
    /// After over before; `None` if one has too few rounds.
    pub throughput: Option<Ratio>,
    /// Interval of the ratio by bootstrap.
    pub bootstrap: Option<Interval>,
    /// Rank test of the rounds.
    pub ranks: Option<Ranks>,
    /// Response times, after over before.
    pub times: Vec<TimeRatio>,
    /// Errors before and after, as shares.
    pub errors: [f64; 2],
}

/// Change of a figure of response times.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TimeRatio {
    /// Its name: `mean`, `p50`, …
    pub name: String,
    /// Milliseconds before: median of the rounds; `None` without any.
    pub before: Option<f64>,
    /// Milliseconds after.
    pub after: Option<f64>,
    /// After over before.
    pub ratio: Option<Ratio>,
}

/// Judgement on a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, strum::IntoStaticStr)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum Judgement {
    /// Faster than before, by more than the margin.
    Better,
    /// Same as before, within the margin.
    Same,
    /// Slower than before, by more than the margin.
    Worse,
    /// Too few or too noisy rounds.
    Unclear,
    /// One of the runs has no valid figures.
    Incomparable,
}

impl Judgement {
    /// The word, for tables.
    #[must_use]
    pub fn word(self) -> &'static str {
        self.into()
    }
}

impl CellComparison {
    /// Change of the 99th percentile.
    #[must_use]
    pub fn p99(&self) -> Option<&TimeRatio> {
        self.times.iter().find(|time| time.name == "p99")
    }

    /// Reason of a regression; `None` without one.
    #[must_use]
    pub fn reason(&self) -> Option<String> {
        let ratio = self.throughput.filter(|_| self.judgement == Judgement::Worse)?;
        let (before, after) = self.before.zip(self.after)?;
        Some(format!(
            "throughput is {:.1} % lower than the baseline ({after:.1} instead of {before:.1}/s; 95 % interval \
             of the ratio {:.3} to {:.3})",
            100.0 * (1.0 - ratio.value),
            ratio.interval.low,
            ratio.interval.high,
        ))
    }
}

impl Comparison {
    /// REGRESSION if a case is worse.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        let worse = self.cells.iter().any(|cell| cell.judgement == Judgement::Worse);
        if worse { Verdict::Regression } else { Verdict::Pass }
    }

    /// Reasons of the regression.
    #[must_use]
    pub fn reasons(&self) -> Vec<String> {
        let several = self.cells.len() > 1;
        let place = |cell: &CellComparison| match several {
            true => format!("{}: ", cell.name),
            false => String::new(),
        };
        let reason = |cell: &CellComparison| Some(format!("{}{}", place(cell), cell.reason()?));
        self.cells.iter().filter_map(reason).collect()
    }
}
