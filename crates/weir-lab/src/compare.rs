//! Comparison of two runs: the throughput ratio of each case, with an interval.
//!
//! The headline is the ratio of the throughputs of the recorded rounds with a 95 % interval (Welch
//! on logarithms). Exact Mann-Whitney and a bootstrap by round support the ratio. A case is
//! **worse** if its throughput fell by more than the margin and the interval excludes 1. A case is
//! **the same** if the entire interval lies within the margin. A case is **unclear** otherwise:
//! more rounds are needed.

use crate::results::{Cell, CellComparison, Comparison, Judgement, Run, StoredRun, TimeRatio};
use crate::stats::{Ratio, bootstrap_ratio, mann_whitney, median, ratio};
use crate::verdict::Verdict;

/// Default margin: a loss of up to 5 % is no regression.
pub const MARGIN: f64 = 0.05;
const CONFIDENCE: f64 = 0.95;

/// Compares two runs case by case. Cases are matched by name.
#[must_use]
pub fn runs(before: &StoredRun, after: &StoredRun, margin: f64) -> Comparison {
    let find = |cells: &[Cell], name: &str| cells.iter().position(|cell| cell.name == name);
    let (old, new) = (&before.summary.cells, &after.summary.cells);
    let single = old.len() == 1 && new.len() == 1;
    let mut comparison = Comparison {
        before: before.path.display().to_string(),
        after: after.path.display().to_string(),
        margin,
        differences: differences(before, after),
        ..Comparison::default()
    };
    for cell in new {
        // Two runs of one case each are compared regardless of the case names.
        match find(old, &cell.name).or_else(|| single.then_some(0)) {
            Some(at) => comparison.cells.push(cells(&old[at], cell, margin)),
            None => comparison.only_after.push(cell.name.clone()),
        }
    }
    if !single {
        let gone = old.iter().filter(|cell| find(new, &cell.name).is_none());
        comparison.only_before = gone.map(|cell| cell.name.clone()).collect();
    }
    comparison
}

fn cells(before: &Cell, after: &Cell, margin: f64) -> CellComparison {
    let (old, new) = (before.throughputs(), after.throughputs());
    let believed = |cell: &Cell| !matches!(cell.verdict, Verdict::Invalid | Verdict::Unstable);
    let throughput = ratio(&old, &new, CONFIDENCE);
    let mean = |cell: &Cell| cell.throughput.map(|spread| spread.mean);
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
    let (low, high) = (1.0 - margin, 1.0 + margin);
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
            let median = |rounds: Vec<f64>| (!rounds.is_empty()).then(|| median(&rounds));
            TimeRatio { name: name.to_owned(), before: median(old), after: median(new), ratio }
        })
        .collect()
}

/// A figure of the response times of each recorded round.
fn rounds(cell: &Cell, name: &str) -> Vec<f64> {
    cell.recorded.iter().filter_map(|round| round.response.named(name)).collect()
}

/// Differences between the runs besides the measured figures.
fn differences(before: &StoredRun, after: &StoredRun) -> Vec<String> {
    let (old, new) = (&before.run, &after.run);
    let facts = |run: &Run| {
        [
            ("host", run.host.name.clone()),
            ("kernel", run.host.kernel.clone()),
            ("processor", run.host.processor.clone()),
            ("cores", run.host.cores.to_string()),
            ("generator", run.version.clone()),
            ("server", run.server.clone()),
            ("target", run.target.clone()),
            ("scenario (SHA-256)", run.scenario_sha256.clone()),
        ]
    };
    let differ = facts(old).into_iter().zip(facts(new)).filter(|(old, new)| old != new);
    let mut found: Vec<String> =
        differ.map(|((fact, a), (_, b))| format!("{fact}: {a:?} before, {b:?} after")).collect();
    if old.quick || new.quick {
        found.push("one of the runs is a quick run: do not publish this comparison".to_owned());
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::Times;
    use crate::results::{RoundFigures, Summary};
    use crate::stats::spread;
    use std::path::PathBuf;

    fn stored(cells: &[(&str, f64, f64)]) -> StoredRun {
        let cell = |(name, level, noise): &(&str, f64, f64)| {
            let rounds: Vec<RoundFigures> = [-1.0, 0.5, 0.0, 1.0, -0.5]
                .iter()
                .zip(1..)
                .map(|(off, number)| RoundFigures {
                    number,
                    throughput: level * (1.0 + noise * off),
                    response: Times { p99: 1e6 / level, ..Times::default() },
                    ..RoundFigures::default()
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
        StoredRun { path: PathBuf::from("run"), run: Run::default(), summary }
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
        let comparison = runs(&before, &after, MARGIN);
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
    fn a_regression_has_its_size() {
        let comparison =
            runs(&stored(&[("a", 1000.0, 0.01)]), &stored(&[("b", 900.0, 0.01)]), MARGIN);
        assert_eq!(comparison.verdict(), Verdict::Regression);
        let reasons = comparison.reasons();
        assert!(reasons[0].starts_with("throughput is 10.0 % lower"), "{reasons:?}");
        let p99 = comparison.cells[0].times.iter().find(|time| time.name == "p99").expect("there");
        assert!((p99.ratio.expect("five rounds").value - 10.0 / 9.0).abs() < 1e-9);
    }

    #[test]
    fn invalid_runs_are_not_compared() {
        let mut after = stored(&[("a", 500.0, 0.01)]);
        after.summary.cells[0].verdict = Verdict::Invalid;
        let comparison = runs(&stored(&[("a", 1000.0, 0.01)]), &after, MARGIN);
        assert_eq!(comparison.cells[0].judgement, Judgement::Incomparable);
        assert_eq!(comparison.verdict(), Verdict::Pass);
    }

    #[test]
    fn other_circumstances_are_named() {
        let before = stored(&[]);
        let mut after = stored(&[]);
        after.run.host.cores = 64;
        after.run.quick = true;
        let differences = runs(&before, &after, MARGIN).differences;
        assert_eq!(differences.len(), 2, "{differences:?}");
        assert!(differences[0].starts_with("cores"), "{differences:?}");
    }
}
