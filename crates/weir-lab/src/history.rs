//! Comparison with earlier runs of the same scenario: trend and change point of each case.
//!
//! A pairwise comparison misses a slow decline, of which each step is within the margin. Over the last
//! [`MAX_RUNS`] runs it is a trend (Mann-Kendall; its size by Theil and Sen's slope) that is larger than the
//! margin. A step is the division with the clearest difference of ranks (Mann-Whitney, corrected for the
//! number of possible divisions).

use crate::compare::MARGIN;
use crate::results::{
    Cell, CellHistory, ChangePoint, FigureHistory, FolderError, History, StoredRun,
};
use crate::stats::{mann_kendall, mann_whitney, median};
use crate::verdict::Verdict;
use std::fs;
use std::path::{Path, PathBuf};

/// Runs that are compared, this one included.
pub const MAX_RUNS: usize = 10;
/// Most folders that are looked at.
const MAX_FOLDERS: usize = 1_000;
/// Fewest runs of a trend.
const MIN_TREND_RUNS: usize = 5;
/// Fewest runs on each side of a step.
const MIN_SIDE: usize = 3;
/// Largest probability of a finding by chance.
const SIGNIFICANCE: f64 = 0.05;

/// Compares the run of a folder with the runs in `others` (folders beside each other) and adds the result
/// to its summary. `None` without an earlier run of the same scenario.
///
/// # Errors
/// The folder has no finished run, or cannot be written.
pub fn add(folder: &Path, others: &Path) -> Result<Option<History>, FolderError> {
    let mut stored = StoredRun::read(folder)?;
    let earlier = earlier(&stored, others);
    if earlier.is_empty() {
        return Ok(None);
    }
    let history = compare(&earlier, &stored);
    stored.summary.history = Some(history.clone());
    stored.rewrite()?;
    Ok(Some(history))
}

/// The last earlier runs of the same scenario, oldest first. Damaged folders are skipped.
fn earlier(current: &StoredRun, others: &Path) -> Vec<StoredRun> {
    let own = fs::canonicalize(&current.path).ok();
    let entries = fs::read_dir(others).into_iter().flatten().filter_map(Result::ok);
    let mut folders: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    // The usual names end with the time of the run.
    folders.sort();
    folders.drain(..folders.len().saturating_sub(MAX_FOLDERS));
    folders.retain(|path| fs::canonicalize(path).ok() != own);
    let same = |run: &StoredRun| {
        !run.run.scenario_sha256.is_empty()
            && run.run.scenario_sha256 == current.run.scenario_sha256
            && run.run.quick == current.run.quick
            // Other machines have other figures; the names of runners of a pool differ.
            && run.run.host.processor == current.run.host.processor
            && run.run.host.cores == current.run.host.cores
            && run.run.started <= current.run.started
    };
    let runs = folders.iter().filter_map(|path| StoredRun::read(path).ok()).filter(same);
    let mut runs: Vec<StoredRun> = runs.collect();
    // RFC 3339 in UTC sorts as text.
    runs.sort_by(|one, other| one.run.started.cmp(&other.run.started));
    let surplus = runs.len().saturating_sub(MAX_RUNS - 1);
    runs.drain(..surplus);
    runs
}

fn compare(earlier: &[StoredRun], current: &StoredRun) -> History {
    let runs = || earlier.iter().chain([current]);
    let name = |run: &StoredRun| {
        let name = run.path.file_name().unwrap_or(run.path.as_os_str());
        name.to_string_lossy().into_owned()
    };
    let cell = |cell: &Cell| {
        let figure = |name_of: &str, value: fn(&Cell) -> Option<f64>| {
            let valid = |one: &&Cell| !matches!(one.verdict, Verdict::Invalid | Verdict::Unstable);
            let found = runs().filter_map(|run| {
                let mut cells = run.summary.cells.iter();
                let same = cells.find(|one| one.name == cell.name).filter(valid)?;
                Some((name(run), value(same).filter(|value| *value > 0.0)?))
            });
            let (names, values): (Vec<_>, Vec<_>) = found.unzip();
            figure_history(name_of, &names, values)
        };
        let throughput = |cell: &Cell| cell.throughput.map(|spread| spread.mean);
        let p99 = |cell: &Cell| cell.total().map(|total| total.response.p99);
        CellHistory {
            name: cell.name.clone(),
            figures: vec![figure("requests/s", throughput), figure("p99 ms", p99)],
        }
    };
    History {
        runs: runs().map(name).collect(),
        cells: current.summary.cells.iter().map(cell).collect(),
    }
}

fn figure_history(name: &str, runs: &[String], values: Vec<f64>) -> FigureHistory {
    let change = change_along_trend(&values);
    let trend = mann_kendall(&values).filter(|_| values.len() >= MIN_TREND_RUNS);
    let change_point = change_point(runs, &values);
    FigureHistory {
        name: name.to_owned(),
        change,
        p: trend.map(|trend| trend.p),
        has_trend: trend.is_some_and(|trend| trend.p < SIGNIFICANCE) && change.abs() > MARGIN,
        change_point,
        values,
    }
}

/// Change from the first to the last value along the median of all slopes.
fn change_along_trend(values: &[f64]) -> f64 {
    let mut slopes = Vec::new();
    for (at, earlier) in values.iter().enumerate() {
        for (distance, later) in values[at..].iter().enumerate().skip(1) {
            slopes.push((later.ln() - earlier.ln()) / distance as f64);
        }
    }
    if slopes.is_empty() {
        return 0.0;
    }
    (median(&slopes) * (values.len() - 1) as f64).exp() - 1.0
}

/// The clearest step, if it is larger than the margin and not by chance.
fn change_point(runs: &[String], values: &[f64]) -> Option<ChangePoint> {
    let divisions = MIN_SIDE..=values.len().checked_sub(MIN_SIDE)?;
    let count = divisions.clone().count() as f64;
    let candidate = |at: usize| {
        let (before, after) = values.split_at(at);
        let p = mann_whitney(before, after)?.p;
        Some((p, at, median(before), median(after)))
    };
    let size = |before: f64, after: f64| (after / before).ln().abs();
    let found = divisions.filter_map(candidate).min_by(|one, other| {
        let sizes = size(other.2, other.3).total_cmp(&size(one.2, one.3));
        one.0.total_cmp(&other.0).then(sizes)
    });
    let (p, at, before, after) = found?;
    let step = (after / before - 1.0).abs();
    // A steady trend has differences at every division: a step is most of the whole change.
    let range = values.iter().copied().fold(f64::MIN, f64::max)
        / values.iter().copied().fold(f64::MAX, f64::min);
    let is_step = size(before, after) > 0.7 * range.ln();
    (p * count < SIGNIFICANCE && step > MARGIN && is_step).then(|| ChangePoint {
        run: runs.get(at).cloned().unwrap_or_default(),
        before,
        after,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn history(values: &[f64]) -> FigureHistory {
        let runs: Vec<String> = (0..values.len()).map(|at| format!("run-{at}")).collect();
        figure_history("requests/s", &runs, values.to_vec())
    }

    #[test]
    fn a_slow_decline_within_the_margin_of_each_step_is_a_trend() {
        let values: Vec<f64> = (0..10).map(|at| 1_000.0 * 0.99_f64.powi(at)).collect();
        let found = history(&values);
        assert!(found.has_trend && (found.change + 0.0865).abs() < 0.001, "{found:?}");
        assert_eq!(found.change_point, None);
        assert!(!history(&values[..4]).has_trend, "too few runs");
    }

    #[test]
    fn a_step_is_found_where_it_is() {
        let values = [1000.0, 1010.0, 990.0, 1005.0, 995.0, 880.0, 890.0, 885.0, 879.0, 891.0];
        let point = history(&values).change_point.expect("a step");
        assert_eq!((point.run.as_str(), point.before, point.after), ("run-5", 1000.0, 885.0));
    }

    #[test]
    fn noise_is_neither() {
        let values = [1000.0, 1030.0, 980.0, 1010.0, 970.0, 1020.0, 990.0, 1005.0, 1015.0, 985.0];
        let found = history(&values);
        assert!(!found.has_trend && found.change_point.is_none(), "{found:?}");
        assert!(!history(&[]).has_trend && !history(&[5.0]).has_trend);
    }
}
