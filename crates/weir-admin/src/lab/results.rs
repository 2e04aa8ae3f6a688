//! Stored runs, as shown by the console.

use super::{LabCase, LabComparison, LabDifference, LabResult, LabRun, LabTime};
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use weir_lab::compare::{self, MARGIN};
use weir_lab::results::{Cell, CellComparison, Run, StoredRun, Summary};

/// Maximum number of listed runs.
const MAX_RUNS: usize = 200;
/// Largest `run.json` and `summary.json`, and largest report.
const MAX_RESULT_BYTES: u64 = 16 << 20;
const MAX_REPORT_BYTES: u64 = 64 << 20;

/// All runs, the newest first.
pub(super) fn all(folder: &Path) -> Vec<LabResult> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let mut runs: Vec<LabResult> = names
        .filter_map(|name| {
            let folder = run_folder(folder, &name)?;
            let run = read::<Run>(&folder.join("run.json"))?;
            Some(result(&name, &run, read::<Summary>(&folder.join("summary.json")).as_ref()))
        })
        .collect();
    runs.sort_by(|a, b| b.started.cmp(&a.started));
    runs.truncate(MAX_RUNS);
    runs
}

/// One run.
pub(crate) fn run(folder: &Path, name: &str) -> Option<LabRun> {
    let folder = run_folder(folder, name)?;
    let run = read::<Run>(&folder.join("run.json"))?;
    let summary = read::<Summary>(&folder.join("summary.json"));
    let host = &run.host;
    Some(LabRun {
        result: result(name, &run, summary.as_ref()),
        command: run.command.join(" "),
        host: format!("{}, {} cores, {}", host.processor, host.cores, host.kernel),
        reasons: summary.as_ref().map(|summary| summary.reasons.clone()).unwrap_or_default(),
        cases: summary.iter().flat_map(|summary| &summary.cells).map(case).collect(),
        report: folder.join("report.html").is_file(),
    })
}

/// The report of a run.
pub(crate) fn report(folder: &Path, name: &str) -> Option<Vec<u8>> {
    bytes(&run_folder(folder, name)?.join("report.html"), MAX_REPORT_BYTES)
}

/// Comparison of two runs; the error names the unreadable one.
pub(crate) fn compare(folder: &Path, before: &str, after: &str) -> Result<LabComparison, String> {
    let stored = |name: &str| {
        let none = || format!("{name} has no result.");
        let folder = run_folder(folder, name).ok_or_else(none)?;
        let run = read(&folder.join("run.json")).ok_or_else(none)?;
        let summary = read(&folder.join("summary.json")).ok_or_else(none)?;
        Ok::<_, String>(StoredRun { path: PathBuf::from(name), run, summary })
    };
    let compared = compare::runs(&stored(before)?, &stored(after)?, MARGIN);
    let only = |run: &str, names: &[String]| {
        names.iter().map(|name| format!("only {run} has {name}")).collect::<Vec<_>>()
    };
    Ok(LabComparison {
        verdict: compared.verdict().to_string(),
        margin: compared.margin,
        cases: compared.cells.iter().map(difference).collect(),
        others: [only(before, &compared.only_before), only(after, &compared.only_after)].concat(),
        before: compared.before,
        after: compared.after,
        differences: compared.differences,
    })
}

fn difference(cell: &CellComparison) -> LabDifference {
    let time = |time: &weir_lab::results::TimeRatio| {
        Some(LabTime { name: time.name.clone(), before: time.before?, after: time.after? })
    };
    LabDifference {
        name: cell.name.clone(),
        judgement: cell.judgement.word().to_owned(),
        before: cell.before,
        after: cell.after,
        ratio: cell.throughput.map(|one| [one.value, one.interval.low, one.interval.high]),
        times: cell.times.iter().filter_map(time).collect(),
        errors: cell.errors,
    }
}

fn result(name: &str, run: &Run, summary: Option<&Summary>) -> LabResult {
    let cells = || summary.iter().flat_map(|summary| &summary.cells);
    let throughput = |cell: &Cell| cell.throughput.map(|spread| spread.mean);
    LabResult {
        run: name.to_owned(),
        name: run.name.clone(),
        started: run.started.clone(),
        ended: run.ended.clone(),
        target: run.target.clone(),
        quick: run.quick,
        verdict: summary.map(|summary| summary.verdict.to_string()).unwrap_or_default(),
        cases: cells().count(),
        samples: cells().filter_map(Cell::total).map(|figures| figures.samples).sum(),
        throughput: cells().filter_map(throughput).max_by(f64::total_cmp),
    }
}

fn case(cell: &Cell) -> LabCase {
    let total = cell.total();
    LabCase {
        name: cell.name.clone(),
        verdict: cell.verdict.to_string(),
        reasons: cell.reasons.clone(),
        throughput: cell.throughput.map(|spread| spread.mean),
        samples: total.map_or(0, |figures| figures.samples),
        errors: total.map_or(0.0, |figures| figures.error_share()),
        times_ms: total.map_or([0.0; 4], |figures| {
            let times = &figures.response;
            [times.mean, times.p50, times.p90, times.p99]
        }),
    }
}

/// The folder with this name: not hidden, and not outside of the results folder.
fn run_folder(folder: &Path, name: &str) -> Option<PathBuf> {
    let right = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '+' | '@');
    if name.is_empty() || name.len() > 200 || name.starts_with('.') || !name.chars().all(right) {
        return None;
    }
    let path = folder.join(name);
    fs::symlink_metadata(&path).is_ok_and(|found| found.is_dir()).then_some(path)
}

fn read<T: serde::de::DeserializeOwned>(path: &Path) -> Option<T> {
    serde_json::from_slice(&bytes(path, MAX_RESULT_BYTES)?).ok()
}

/// Content of a file, unless too large or a symbolic link.
fn bytes(path: &Path, max: u64) -> Option<Vec<u8>> {
    let found = fs::symlink_metadata(path).ok()?;
    if !found.is_file() || found.len() > max {
        return None;
    }
    let mut bytes = Vec::new();
    fs::File::open(path).ok()?.take(max).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(folder: &Path, name: &str, started: &str) {
        let folder = folder.join(name);
        fs::create_dir_all(&folder).unwrap();
        let run = Run { name: "toro".to_owned(), started: started.to_owned(), ..Run::default() };
        fs::write(folder.join("run.json"), serde_json::to_string(&run).unwrap()).unwrap();
    }

    #[test]
    fn runs_are_listed_newest_first() {
        let folder = tempfile::tempdir().unwrap();
        written(folder.path(), "a", "2026-01-01T00:00:00Z");
        written(folder.path(), "b", "2026-01-02T00:00:00Z");
        let summary = serde_json::to_string(&Summary::default()).unwrap();
        fs::write(folder.path().join("a/summary.json"), summary).unwrap();
        fs::create_dir(folder.path().join("empty")).unwrap();
        let found = all(folder.path());
        let listed: Vec<_> =
            found.iter().map(|one| (one.run.as_str(), one.verdict.as_str())).collect();
        assert_eq!(listed, [("b", ""), ("a", "PASS")]);
        assert!(run(folder.path(), "a").is_some_and(|run| !run.report));
        assert!(compare(folder.path(), "a", "b").is_err_and(|why| why.contains('b')));
        assert!(compare(folder.path(), "a", "a").is_ok());
    }

    #[test]
    fn names_stay_in_the_folder() {
        let folder = tempfile::tempdir().unwrap();
        written(folder.path(), "lab/a", "");
        written(folder.path(), "other", "");
        let lab = folder.path().join("lab");
        std::os::unix::fs::symlink("../other", lab.join("link")).unwrap();
        std::os::unix::fs::symlink("/etc/passwd", lab.join("a/report.html")).unwrap();
        for name in ["../other", "..", ".", "", "/etc", "a/../../other", "link", "a\0"] {
            assert!(run(&lab, name).is_none(), "{name}");
        }
        assert!(run(&lab, "a").is_some());
        assert_eq!(report(&lab, "a"), None, "a link is no report");
    }
}
