//! Two runs side by side: how much faster or slower each case is, with an interval.
//!
//! The headline is the ratio of throughputs of the recorded rounds with a 95 % interval (Welch on
//! logarithms); exact Mann-Whitney and a bootstrap by round support it. A case is **worse** if it
//! lost more than the margin and the interval excludes 1, **the same** if the whole interval lies
//! within the margin, and **unclear** if it does neither: then more rounds would be needed.

use crate::results::{Cell, Stored, Times};
use crate::stats::{Interval, Ranks, Ratio, bootstrap_ratio, mann_whitney, ratio};
use crate::verdict::Verdict;
use serde::{Deserialize, Serialize};

/// Largest loss that is none, unless somebody says otherwise.
pub const MARGIN: f64 = 0.05;
const CONFIDENCE: f64 = 0.95;

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
    /// Compares two runs case by case; cases are the same if their names are.
    #[must_use]
    pub fn of(before: &Stored, after: &Stored, margin: f64) -> Self {
        let find = |cells: &[Cell], name: &str| cells.iter().position(|cell| cell.name == name);
        let (old, new) = (&before.summary.cells, &after.summary.cells);
        let single = old.len() == 1 && new.len() == 1;
        let mut comparison = Self {
            before: before.path.display().to_string(),
            after: after.path.display().to_string(),
            margin,
            differences: differences(before, after),
            ..Self::default()
        };
        for cell in new {
            // Two runs of one case each are compared whatever their cases are called.
            match find(old, &cell.name).or_else(|| single.then_some(0)) {
                Some(at) => comparison.cells.push(compare(&old[at], cell, margin)),
                None => comparison.only_after.push(cell.name.clone()),
            }
        }
        if !single {
            let gone = old.iter().filter(|cell| find(new, &cell.name).is_none());
            comparison.only_before = gone.map(|cell| cell.name.clone()).collect();
        }
        comparison
    }

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

fn compare(before: &Cell, after: &Cell, margin: f64) -> CellComparison {
    let (old, new) = (before.throughputs(), after.throughputs());
    let believed = |cell: &Cell| !matches!(cell.verdict, Verdict::Invalid | Verdict::Unstable);
    let throughput = ratio(&old, &new, CONFIDENCE);
    let mean = |cell: &Cell| cell.throughput.map_or(0.0, |spread| spread.mean);
    let share = |cell: &Cell| cell.total().map_or(0.0, |figures| figures.error_share());
    CellComparison {
        name: after.name.clone(),
        judgement: match throughput {
            Some(ratio) if believed(before) && believed(after) => judgement(&ratio, margin),
            _ => Judgement::Incomparable,
        },
        before: mean(before),
        after: mean(after),
        throughput,
        bootstrap: bootstrap_ratio(&old, &new, CONFIDENCE),
        ranks: mann_whitney(&old, &new),
        times: times(before, after),
        errors: [share(before), share(after)],
    }
}

fn judgement(ratio: &Ratio, margin: f64) -> Judgement {
    let (low, high) = (1.0 / (1.0 + margin), 1.0 + margin);
    if ratio.interval.within(low, high) {
        Judgement::Same
    } else if ratio.value <= low && ratio.interval.high < 1.0 {
        Judgement::Worse
    } else if ratio.value >= high && ratio.interval.low > 1.0 {
        Judgement::Better
    } else {
        Judgement::Unclear
    }
}

fn times(before: &Cell, after: &Cell) -> Vec<TimeRatio> {
    ["mean", "p50", "p95", "p99", "max"]
        .into_iter()
        .map(|name| {
            let (old, new) = (rounds(before, name), rounds(after, name));
            let ratio = ratio(&old, &new, CONFIDENCE);
            TimeRatio { name: name.to_owned(), before: median(old), after: median(new), ratio }
        })
        .collect()
}

/// A figure of the response times of each recorded round.
fn rounds(cell: &Cell, name: &str) -> Vec<f64> {
    let of = |times: &Times| match name {
        "mean" => times.mean,
        "p50" => times.p50,
        "p95" => times.p95,
        "p99" => times.p99,
        _ => times.max,
    };
    cell.recorded.iter().map(|round| of(&round.response)).collect()
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or_default()
}

/// What differs between the runs besides what was measured.
fn differences(before: &Stored, after: &Stored) -> Vec<String> {
    let (old, new) = (&before.run, &after.run);
    let host = |run: &crate::results::Run| {
        let host = &run.host;
        [host.name.clone(), host.kernel.clone(), host.processor.clone(), host.cores.to_string()]
    };
    let mut found = Vec::new();
    let mut differ = |what: &str, a: &str, b: &str| {
        if a != b {
            found.push(format!("{what}: {a:?} before, {b:?} after"));
        }
    };
    let names = ["host", "kernel", "processor", "cores"];
    for (what, (a, b)) in names.iter().zip(host(old).iter().zip(host(new).iter())) {
        differ(what, a, b);
    }
    differ("generator", &old.version, &new.version);
    differ("server", &old.server, &new.server);
    differ("target", &old.target, &new.target);
    differ("scenario (SHA-256)", &old.scenario_sha256, &new.scenario_sha256);
    if old.quick || new.quick {
        found.push("a quick run is in it: no comparison for a headline".to_owned());
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::{RoundFigures, Run, Summary};
    use crate::stats::spread;
    use std::path::PathBuf;

    fn stored(cells: &[(&str, f64, f64)]) -> Stored {
        let cell = |(name, level, noise): &(&str, f64, f64)| {
            let rounds: Vec<RoundFigures> = [-1.0, 0.5, 0.0, 1.0, -0.5]
                .iter()
                .zip(1..)
                .map(|(off, number)| RoundFigures {
                    number,
                    throughput: level * (1.0 + noise * off),
                    response: Times { p99: 1e6 / level, ..Times::default() },
                })
                .collect();
            let throughputs: Vec<f64> = rounds.iter().map(|round| round.throughput).collect();
            Cell {
                name: (*name).to_owned(),
                throughput: spread(&throughputs),
                recorded: rounds,
                ..Cell::default()
            }
        };
        let summary = Summary { cells: cells.iter().map(cell).collect(), ..Summary::default() };
        Stored { path: PathBuf::from("run"), run: Run::default(), summary }
    }

    #[test]
    fn every_judgement() {
        let before = stored(&[
            ("same", 1000.0, 0.01),
            ("worse", 1000.0, 0.01),
            ("better", 1000.0, 0.01),
            ("unclear", 1000.0, 0.2),
            ("gone", 1.0, 0.0),
        ]);
        let after = stored(&[
            ("same", 1010.0, 0.01),
            ("worse", 800.0, 0.01),
            ("better", 1200.0, 0.01),
            ("unclear", 950.0, 0.2),
            ("new", 1.0, 0.0),
        ]);
        let comparison = Comparison::of(&before, &after, MARGIN);
        for cell in &comparison.cells {
            assert_eq!(cell.judgement.word(), cell.name, "{cell:?}");
        }
        assert_eq!(comparison.cells.len(), 4);
        assert_eq!(
            (comparison.only_before, comparison.only_after),
            (vec!["gone".into()], vec!["new".into()])
        );
    }

    #[test]
    fn a_regression_says_how_much() {
        let comparison =
            Comparison::of(&stored(&[("a", 1000.0, 0.01)]), &stored(&[("b", 900.0, 0.01)]), MARGIN);
        assert_eq!(comparison.verdict(), Verdict::Regression);
        let reasons = comparison.reasons();
        assert!(reasons[0].starts_with("throughput is 10.0 % lower"), "{reasons:?}");
        let p99 = comparison.cells[0].times.iter().find(|time| time.name == "p99").expect("there");
        assert!((p99.ratio.expect("five rounds").value - 10.0 / 9.0).abs() < 1e-9);
    }

    #[test]
    fn what_cannot_be_believed_is_not_compared() {
        let mut after = stored(&[("a", 500.0, 0.01)]);
        after.summary.cells[0].verdict = Verdict::Invalid;
        let comparison = Comparison::of(&stored(&[("a", 1000.0, 0.01)]), &after, MARGIN);
        assert_eq!(comparison.cells[0].judgement, Judgement::Incomparable);
        assert_eq!(comparison.verdict(), Verdict::Pass);
    }

    #[test]
    fn other_circumstances_are_named() {
        let before = stored(&[]);
        let mut after = stored(&[]);
        after.run.host.cores = 64;
        after.run.quick = true;
        let differences = Comparison::of(&before, &after, MARGIN).differences;
        assert_eq!(differences.len(), 2, "{differences:?}");
        assert!(differences[0].starts_with("cores"), "{differences:?}");
    }
}
