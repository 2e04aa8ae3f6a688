//! Data of the charts over time, as JSON in the page.
//!
//! Bounded: a case has at most [`MAX_POINTS`] points (fewer with many cases). Each point covers a
//! whole number of seconds of one round.

use super::over_time::{Axis, Folding, LabelData, Mark};
use crate::figures::LabelFigures;
use crate::protocol::RoundUse;
use crate::results::series::{self, BUCKETS, Heat};
use crate::results::{Cell, StoredRun};
use csv::StringRecord;
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::Path;

/// Points of a case.
const MAX_POINTS: usize = 1_200;
/// Points of all cases together.
const MAX_TOTAL_POINTS: usize = 24_000;
/// Points of each observed subject.
const MAX_OBSERVED_POINTS: usize = 2_000;
/// Labels of a case, with the most samples; besides the total.
const MAX_LABELS: usize = 20;
/// Subjects that are drawn.
const MAX_SUBJECTS: usize = 40;

/// The data of a page.
#[derive(Debug, Serialize)]
pub(super) struct Data {
    cells: Vec<CellData>,
    /// By subject.
    observed: BTreeMap<String, Observed>,
}

/// A case over time. All lists have the length of `time`.
#[derive(Debug, Default, Serialize)]
struct CellData {
    name: String,
    /// Seconds of a point.
    every: usize,
    /// End of the point, in seconds since the start of the run.
    time: Vec<f64>,
    round: Vec<usize>,
    stage: Vec<String>,
    /// Counts of response times by range, for each point.
    heat: Vec<BTreeMap<usize, u64>>,
    /// Recorded rounds; empty without the protocol.
    recorded: Vec<usize>,
    /// All samples, then those of each label.
    labels: Vec<LabelData>,
}

/// A subject over time.
#[derive(Debug, Default, Serialize)]
struct Observed {
    time: Vec<f64>,
    /// By name: `cpu`, `memory`… only observed ones.
    values: BTreeMap<String, Vec<Option<f64>>>,
}

/// Reads the data of a folder.
pub(super) fn chart_data(stored: &StoredRun) -> Data {
    let heat = series::read_heat(&stored.path.join("heat.csv")).unwrap_or_default();
    let cells = &stored.summary.cells;
    let drawn: Vec<Vec<&LabelFigures>> = cells.iter().map(labels).collect();
    let foldings = foldings(&stored.path.join("series.csv"), &drawn).unwrap_or_default();
    let mut foldings = foldings.into_iter();
    let cells = cells.iter().zip(&drawn).enumerate().map(|(at, (cell, drawn))| {
        let heat: Vec<&Heat> = heat.iter().filter(|row| row.cell == at).collect();
        let mut data = match foldings.next() {
            Some(folding) => cell_data(folding, &heat, drawn),
            None => CellData::default(),
        };
        let requests = cell.open.as_ref().and_then(|open| open.requests);
        data.labels.iter_mut().for_each(|label| name_offered(label, requests));
        data.name.clone_from(&cell.name);
        let recorded = cell.rounds.iter().filter(|round| round.used == RoundUse::Recorded);
        data.recorded = recorded.map(|round| round.number).collect();
        data
    });
    let cells = cells.collect();
    let observed = observed(&stored.path.join("server.csv")).unwrap_or_default();
    Data { cells, observed }
}

/// The rows of all cases, folded: the axis needs all seconds before the first one is added.
fn foldings(path: &Path, drawn: &[Vec<&LabelFigures>]) -> csv::Result<Vec<Folding>> {
    let mut marks: Vec<Vec<Mark>> = vec![Vec::new(); drawn.len()];
    let mut columns = Vec::new();
    series::each(path, &mut |known, second| {
        if columns.is_empty() {
            columns = known.to_vec();
        }
        if let (Some(marks), Some(mark)) = (marks.get_mut(second.cell), Mark::of(known, &second)) {
            marks.push(mark);
        }
    })?;
    let lines: usize = drawn.iter().map(Vec::len).sum();
    let points = (MAX_TOTAL_POINTS / lines.max(1)).clamp(60, MAX_POINTS);
    let folding = |(marks, labels): (Vec<Mark>, &Vec<&LabelFigures>)| {
        Folding::new(Axis::new(&marks, points), &columns, labels)
    };
    let mut foldings: Vec<Folding> = marks.into_iter().zip(drawn).map(folding).collect();
    series::each(path, &mut |_, second| {
        if let Some(folding) = foldings.get_mut(second.cell) {
            folding.add(&second);
        }
    })?;
    Ok(foldings)
}

/// The total, and the labels with the most samples.
fn labels(cell: &Cell) -> Vec<&LabelFigures> {
    let Some((total, labels)) = cell.labels.split_first() else { return Vec::new() };
    let mut labels: Vec<&LabelFigures> = labels.iter().filter(|label| label.samples > 0).collect();
    labels.sort_by_key(|label| std::cmp::Reverse(label.samples));
    labels.truncate(MAX_LABELS);
    [vec![total], labels].concat()
}

fn cell_data(folding: Folding, heat: &[&Heat], labels: &[&LabelFigures]) -> CellData {
    let (axis, labels) = folding.end(labels);
    let mut data = CellData { labels, ..CellData::default() };
    let mut heat = heat.iter().filter(|row| !axis.leaves_out(row.time)).peekable();
    for end in &axis.time {
        let mut counts = BTreeMap::new();
        while let Some(row) = heat.next_if(|row| row.time <= end + 1e-6) {
            for (bucket, count) in row.counts() {
                *counts.entry(bucket.min(BUCKETS)).or_default() += count;
            }
        }
        data.heat.push(counts);
    }
    CellData { every: axis.every, time: axis.time, round: axis.round, stage: axis.stage, ..data }
}

/// What was offered, in the unit of what was answered: `series.csv` has iterations. Those of an unknown size get a name
/// of their own. A closed model offers nothing.
fn name_offered(label: &mut LabelData, requests: Option<f64>) {
    let offered = label.values.remove("offered").unwrap_or_default();
    if !offered.iter().flatten().any(|iterations| *iterations > 0.0) {
        return;
    }
    let Some(requests) = requests else {
        label.values.insert("offered_iterations".to_owned(), offered);
        return;
    };
    let in_requests = |iterations: f64| (iterations * requests * 1e3).round() / 1e3;
    let offered = offered.into_iter().map(|iterations| iterations.map(in_requests)).collect();
    label.values.insert("offered".to_owned(), offered);
}

/// Reads `server.csv`. Invalid lines are skipped, such as the last one of a killed run.
fn observed(path: &Path) -> csv::Result<BTreeMap<String, Observed>> {
    let mut reader = csv::ReaderBuilder::new().flexible(true).from_path(path)?;
    let columns = reader.headers()?.clone();
    let mut subjects: BTreeMap<String, Vec<(f64, StringRecord)>> = BTreeMap::new();
    for row in reader.records().filter_map(Result::ok) {
        let time = row.get(0).and_then(|text| text.parse().ok());
        let (Some(time), Some(subject)) = (time, row.get(1)) else { continue };
        if subjects.len() < MAX_SUBJECTS || subjects.contains_key(subject) {
            subjects.entry(subject.to_owned()).or_default().push((time, row));
        }
    }
    let of = |rows: Vec<(f64, StringRecord)>| {
        let every = rows.len().div_ceil(MAX_OBSERVED_POINTS).max(1);
        let mut found = Observed::default();
        for (time, row) in rows.iter().step_by(every) {
            found.time.push(*time);
            for (name, value) in columns.iter().zip(row).skip(2) {
                found.values.entry(name.to_owned()).or_default().push(value.parse().ok());
            }
        }
        found.values.retain(|_, values| values.iter().any(Option::is_some));
        found
    };
    Ok(subjects.into_iter().map(|(subject, rows)| (subject, of(rows))).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offered(values: Vec<Option<f64>>, requests: Option<f64>) -> LabelData {
        let mut label = LabelData::default();
        label.values.insert("offered".to_owned(), values);
        name_offered(&mut label, requests);
        label
    }

    #[test]
    fn what_is_offered_has_the_unit_of_what_is_answered_or_a_name_of_its_own() {
        let values = vec![Some(100.0), None, Some(0.0)];
        let known = offered(values.clone(), Some(3.0)).values;
        assert_eq!(known["offered"], [Some(300.0), None, Some(0.0)]);
        let unknown = offered(values.clone(), None).values;
        assert_eq!(unknown["offered_iterations"], values);
        assert!(!unknown.contains_key("offered") && !known.contains_key("offered_iterations"));
        assert!(offered(vec![Some(0.0), None], Some(3.0)).values.is_empty(), "a closed model");
    }

    #[test]
    fn observed_columns_are_read_by_their_names() {
        let read = |text: &str| {
            let file = tempfile::NamedTempFile::new().expect("a file");
            std::fs::write(file.path(), text).expect("written");
            observed(file.path()).expect("read").remove("server").expect("the server").values
        };
        let now = read("time,subject,descriptors,sockets,gauge\n1,server,9,3,\n2,server,9,,\n");
        assert_eq!(now["sockets"], [Some(3.0), None]);
        let earlier = read("time,subject,descriptors,gauge\n1,server,9,\n");
        assert_eq!(earlier["descriptors"], [Some(9.0)]);
        assert!(!earlier.contains_key("sockets"), "without the column");
    }
}
