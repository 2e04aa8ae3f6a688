//! Comparison of two runs, as it is stored and reported: made by [`crate::compare`].

use crate::stats::{Interval, Ranks, Ratio};
use crate::verdict::Verdict;
use serde::{Deserialize, Serialize};

/// Two runs, compared.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// What the first run, the baseline, is called.
    pub before: String,
    /// What the second is called.
    pub after: String,
    /// Largest loss that is none: 0.05 is 5 %.
    pub margin: f64,
    /// Cases that both have.
    pub cells: Vec<CellComparison>,
    /// Cases that only the first has.
    pub only_before: Vec<String>,
    /// Cases that only the second has.
    pub only_after: Vec<String>,
    /// What else differs between the runs and may explain a difference, in words.
    pub differences: Vec<String>,
}

/// A case in both runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CellComparison {
    /// Its name.
    pub name: String,
    /// What is said about it.
    pub judgement: Judgement,
    /// Mean throughput before, requests a second.
    pub before: f64,
    /// Mean throughput after.
    pub after: f64,
    /// After over before; `None` if one has too few rounds.
    pub throughput: Option<Ratio>,
    /// The same by bootstrap.
    pub bootstrap: Option<Interval>,
    /// Ranks of the rounds.
    pub ranks: Option<Ranks>,
    /// Response times, after over before.
    pub times: Vec<TimeRatio>,
    /// Errors before and after, as shares.
    pub errors: [f64; 2],
}

/// How a figure of response times changed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TimeRatio {
    /// Its name: `mean`, `p50`, …
    pub name: String,
    /// Milliseconds before: median of the rounds'.
    pub before: f64,
    /// Milliseconds after.
    pub after: f64,
    /// After over before.
    pub ratio: Option<Ratio>,
}

/// What is said about a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Judgement {
    /// Faster than before, by more than the margin.
    Better,
    /// As good as before.
    Same,
    /// Slower than before, by more than the margin.
    Worse,
    /// The rounds cannot tell.
    Unclear,
    /// One of both has no figures that can be believed.
    Incomparable,
}

impl Judgement {
    /// The word, for tables.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Better => "better",
            Self::Same => "same",
            Self::Worse => "worse",
            Self::Unclear => "unclear",
            Self::Incomparable => "incomparable",
        }
    }
}

impl CellComparison {
    /// Why it is a regression, if it is one.
    #[must_use]
    pub fn reason(&self) -> Option<String> {
        let ratio = self.throughput.filter(|_| self.judgement == Judgement::Worse)?;
        Some(format!(
            "throughput is {:.1} % lower than the baseline ({:.1} instead of {:.1}/s; 95 % interval \
             of the ratio {:.3} to {:.3})",
            100.0 * (1.0 - ratio.value),
            self.after,
            self.before,
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

    /// Why it is a regression.
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
