//! A run among earlier runs of the same scenario, as stored and reported; made by [`crate::history`].

use serde::{Deserialize, Serialize};

/// A run and the runs before it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct History {
    /// Names of the folders, oldest first; the last one is this run.
    pub runs: Vec<String>,
    /// Cases of this run.
    pub cells: Vec<CellHistory>,
}

/// Figures of a case in all runs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CellHistory {
    /// Name of the case.
    pub name: String,
    /// One for each figure.
    pub figures: Vec<FigureHistory>,
}

/// A figure in all runs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FigureHistory {
    /// `requests/s` or `p99`.
    pub name: String,
    /// Values, oldest first; runs without a valid value are left out.
    pub values: Vec<f64>,
    /// Change from the first to the last run along the trend: −0.1 is 10 % less.
    pub change: f64,
    /// Probability of such a trend by chance (Mann-Kendall); `None` with fewer than five runs.
    pub p: Option<f64>,
    /// The change along the trend is larger than the margin, and not by chance.
    pub has_trend: bool,
    /// A step between two runs.
    pub change_point: Option<ChangePoint>,
}

/// A step between two runs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ChangePoint {
    /// Folder of the first run after the step.
    pub run: String,
    /// Median before.
    pub before: f64,
    /// Median after.
    pub after: f64,
}

impl History {
    /// Trends and steps, as text.
    #[must_use]
    pub fn findings(&self) -> Vec<String> {
        let mut findings = Vec::new();
        for cell in &self.cells {
            let place =
                if cell.name.is_empty() { String::new() } else { format!("{}: ", cell.name) };
            for figure in &cell.figures {
                let FigureHistory { name, values, change, .. } = figure;
                let (percent, runs) = (100.0 * change, values.len());
                if figure.has_trend {
                    let word = if *change < 0.0 { "falls" } else { "rises" };
                    findings.push(format!(
                        "{place}{name} {word} steadily: {percent:+.1} % over the last {runs} runs"
                    ));
                }
                if let Some(ChangePoint { run, before, after }) = &figure.change_point {
                    let percent = 100.0 * (after / before - 1.0);
                    findings.push(format!(
                        "{place}{name} changed by {percent:+.1} % with the run {run}: {before:.2} → {after:.2}"
                    ));
                }
            }
        }
        findings
    }
}
