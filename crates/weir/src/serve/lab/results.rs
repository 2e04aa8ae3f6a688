//! Stored runs, as shown by the console.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use weir_admin::lab::{LabCase, LabComparison, LabDifference, LabResult, LabRun, LabTime};
use weir_lab::compare::{self, MARGIN};
use weir_lab::results::{Cell, CellComparison, Run, StoredRun, Summary};

/// Most runs that are listed.
const MOST: usize = 200;
/// Largest `run.json` and `summary.json`, and largest report.
const RESULT: u64 = 16 << 20;
const REPORT: u64 = 64 << 20;

/// All runs, the newest first.
pub(super) fn all(folder: &Path) -> Vec<LabResult> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let mut runs: Vec<LabResult> = names
        .filter_map(|name| {
            let place = place(folder, &name)?;
            let run = read::<Run>(&place.join("run.json"))?;
            Some(result(&name, &run, read::<Summary>(&place.join("summary.json")).as_ref()))
        })
        .collect();
    runs.sort_by(|a, b| b.started.cmp(&a.started));
    runs.truncate(MOST);
    runs
}

/// One run.
pub(super) fn run(folder: &Path, name: &str) -> Option<LabRun> {
    let place = place(folder, name)?;
    let run = read::<Run>(&place.join("run.json"))?;
    let summary = read::<Summary>(&place.join("summary.json"));
    let host = &run.host;
    Some(LabRun {
        result: result(name, &run, summary.as_ref()),
        command: run.command.join(" "),
        host: format!("{}, {} cores, {}", host.processor, host.cores, host.kernel),
        reasons: summary.as_ref().map(|summary| summary.reasons.clone()).unwrap_or_default(),
        cases: summary.iter().flat_map(|summary| &summary.cells).map(case).collect(),
        report: place.join("report.html").is_file(),
    })
}

/// The report of a run.
pub(super) fn report(folder: &Path, name: &str) -> Option<Vec<u8>> {
    bytes(&place(folder, name)?.join("report.html"), REPORT)
}

/// Comparison of two runs.
pub(super) fn compare(folder: &Path, before: &str, after: &str) -> Result<LabComparison, String> {
    let stored = |name: &str| {
        let none = || format!("{name} has no result.");
        let place = place(folder, name).ok_or_else(none)?;
        let run = read(&place.join("run.json")).ok_or_else(none)?;
        let summary = read(&place.join("summary.json")).ok_or_else(none)?;
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
    let time = |time: &weir_lab::results::TimeRatio| LabTime {
        name: time.name.clone(),
        before: time.before,
        after: time.after,
    };
    LabDifference {
        name: cell.name.clone(),
        judgement: cell.judgement.word().to_owned(),
        before: cell.before,
        after: cell.after,
        ratio: cell.throughput.map(|one| [one.value, one.interval.low, one.interval.high]),
        times: cell.times.iter().map(time).collect(),
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
fn place(folder: &Path, name: &str) -> Option<PathBuf> {
    let right = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '+' | '@');
    if name.is_empty() || name.len() > 200 || name.starts_with('.') || !name.chars().all(right) {
        return None;
    }
    let place = folder.join(name);
    fs::symlink_metadata(&place).is_ok_and(|found| found.is_dir()).then_some(place)
}

fn read<T: serde::de::DeserializeOwned>(path: &Path) -> Option<T> {
    serde_json::from_slice(&bytes(path, RESULT)?).ok()
}

/// Content of a file, unless too large or a symbolic link.
fn bytes(path: &Path, most: u64) -> Option<Vec<u8>> {
    let found = fs::symlink_metadata(path).ok()?;
    if !found.is_file() || found.len() > most {
        return None;
    }
    let mut bytes = Vec::new();
    fs::File::open(path).ok()?.take(most).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(folder: &Path, name: &str, started: &str) {
        let place = folder.join(name);
        fs::create_dir_all(&place).unwrap();
        let run = Run { name: "toro".to_owned(), started: started.to_owned(), ..Run::default() };
        fs::write(place.join("run.json"), serde_json::to_string(&run).unwrap()).unwrap();
    }

    #[test]
    fn folders_with_a_run_are_listed_the_newest_first_finished_or_not() {
        let folder = tempfile::tempdir().unwrap();
        written(folder.path(), "a", "2026-01-01T00:00:00Z");
        written(folder.path(), "b", "2026-01-02T00:00:00Z");
        let summary = serde_json::to_string(&Summary::default()).unwrap();
        fs::write(folder.path().join("a/summary.json"), summary).unwrap();
        fs::create_dir(folder.path().join("empty")).unwrap();
        let found = all(folder.path());
        let told: Vec<_> =
            found.iter().map(|one| (one.run.as_str(), one.verdict.as_str())).collect();
        assert_eq!(told, [("b", ""), ("a", "PASS")]);
        assert!(run(folder.path(), "a").is_some_and(|run| !run.report));
        assert!(compare(folder.path(), "a", "b").is_err_and(|why| why.contains('b')));
        assert!(compare(folder.path(), "a", "a").is_ok());
    }

    #[test]
    fn names_lead_nowhere_else() {
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
