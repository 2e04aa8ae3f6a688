//! Data of the charts over time, as JSON in the page.
//!
//! Bounded: a case has at most [`MAX_POINTS`] points (fewer with many cases). Each point covers a
//! whole number of seconds of one round.

use crate::figures::{LabelFigures, Point};
use crate::protocol::RoundUse;
use crate::results::series::{self, BUCKETS, Heat, Second};
use crate::results::{Cell, StoredRun};
use crate::sample::ErrorKind;
use csv::StringRecord;
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::Path;

/// The label of all samples.
const TOTAL: &str = "TOTAL";
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

/// The samples of a label. Lists of values have the length of the case's `time`.
#[derive(Debug, Default, Serialize)]
struct LabelData {
    name: String,
    /// By name: `offered`, `rate`, `p50`… `None` without an observation.
    values: BTreeMap<String, Vec<Option<f64>>>,
    /// Failures per second by kind, only existing kinds.
    errors: BTreeMap<&'static str, Vec<Option<f64>>>,
    /// Percentile spectra: (percent, ms).
    service: Vec<(f64, f64)>,
    response: Vec<(f64, f64)>,
    /// Response times by range ([`LabelFigures::response_histogram`]).
    histogram: Vec<(usize, u64)>,
}

/// A subject over time.
#[derive(Debug, Default, Serialize)]
struct Observed {
    time: Vec<f64>,
    /// By name: `cpu`, `memory`… only observed ones.
    values: BTreeMap<String, Vec<Option<f64>>>,
}

/// Aggregation of several seconds to one point.
#[derive(Clone, Copy)]
enum Fold {
    /// By second: a label has rows only of seconds with samples.
    Rate,
    Mean,
    Max,
}

/// Drawn columns, their names, and the aggregation: rates are averaged; of times the worst second
/// is taken, so that no peak is lost.
const COLUMNS: [(&str, &str, Fold); 16] = [
    ("offered", "offered", Fold::Rate),
    ("dropped", "dropped", Fold::Rate),
    ("in_flight", "in_flight", Fold::Max),
    ("users", "users", Fold::Max),
    ("started", "started", Fold::Rate),
    ("received", "received", Fold::Rate),
    ("body", "body", Fold::Rate),
    ("decoded", "decoded", Fold::Rate),
    ("sent", "sent", Fold::Rate),
    ("response_p50", "p50", Fold::Mean),
    ("response_p95", "p95", Fold::Max),
    ("response_p99", "p99", Fold::Max),
    ("response_max", "max", Fold::Max),
    ("service_p50", "service_p50", Fold::Mean),
    ("service_p99", "service_p99", Fold::Max),
    ("ok", "rate", Fold::Rate),
];

/// Reads the data of a folder.
pub(super) fn chart_data(stored: &StoredRun) -> Data {
    let (columns, seconds) = series::read(&stored.path.join("series.csv")).unwrap_or_default();
    let heat = series::read_heat(&stored.path.join("heat.csv")).unwrap_or_default();
    let cells = &stored.summary.cells;
    let lines: usize = cells.iter().map(|cell| cell.labels.len().min(1 + MAX_LABELS)).sum();
    let points = (MAX_TOTAL_POINTS / lines.max(1)).clamp(60, MAX_POINTS);
    let cells = cells.iter().enumerate().map(|(at, cell)| {
        let seconds: Vec<&Second> = seconds.iter().filter(|row| row.cell == at).collect();
        let heat: Vec<&Heat> = heat.iter().filter(|row| row.cell == at).collect();
        let mut data = cell_data(&columns, &seconds, &heat, &labels(cell), points);
        data.name.clone_from(&cell.name);
        let recorded = cell.rounds.iter().filter(|round| round.used == RoundUse::Recorded);
        data.recorded = recorded.map(|round| round.number).collect();
        data
    });
    let observed = observed(&stored.path.join("server.csv")).unwrap_or_default();
    Data { cells: cells.collect(), observed }
}

/// The total, and the labels with the most samples.
fn labels(cell: &Cell) -> Vec<&LabelFigures> {
    let Some((total, labels)) = cell.labels.split_first() else { return Vec::new() };
    let mut labels: Vec<&LabelFigures> = labels.iter().filter(|label| label.samples > 0).collect();
    labels.sort_by_key(|label| std::cmp::Reverse(label.samples));
    labels.truncate(MAX_LABELS);
    [vec![total], labels].concat()
}

fn cell_data(
    columns: &[String],
    seconds: &[&Second],
    heat: &[&Heat],
    labels: &[&LabelFigures],
    points: usize,
) -> CellData {
    let mut rows: BTreeMap<&str, Vec<&Second>> = BTreeMap::new();
    for second in seconds {
        rows.entry(&second.label).or_default().push(second);
    }
    let total = rows.get(TOTAL).map(Vec::as_slice).unwrap_or_default();
    let every = total.len().div_ceil(points).max(1);
    let rounds = total.chunk_by(|a, b| a.round == b.round);
    let mut axis: Vec<&[&Second]> = Vec::new();
    // Times of the last seconds that are not drawn.
    let mut tails = Vec::new();
    for round in rounds {
        let drawn = without_tail(columns, round);
        tails.extend(round[drawn.len()..].iter().map(|tail| tail.time));
        axis.extend(drawn.chunks(every));
    }
    let is_tail = |time: f64| tails.iter().any(|tail| (tail - time).abs() < 1e-6);
    let mut data = CellData { every, ..CellData::default() };
    let mut heat = heat.iter().filter(|row| !is_tail(row.time)).peekable();
    for last in axis.iter().filter_map(|point| point.last()) {
        data.time.push(last.time);
        data.round.push(last.round);
        data.stage.push(last.stage.clone());
        let mut counts = BTreeMap::new();
        while let Some(row) = heat.next_if(|row| row.time <= last.time + 1e-6) {
            for (bucket, count) in row.counts() {
                *counts.entry(bucket.min(BUCKETS)).or_default() += count;
            }
        }
        data.heat.push(counts);
    }
    let nothing = Vec::new();
    let of = |label: &&LabelFigures| {
        let rows = rows.get(label.label.as_str()).unwrap_or(&nothing);
        label_data(columns, &axis, rows, label)
    };
    data.labels = labels.iter().map(of).collect();
    data
}

/// A round without its last second if that second only has the responses to earlier requests: a part
/// of a second would look like a collapse of the throughput.
fn without_tail<'r, 's>(columns: &[String], round: &'r [&'s Second]) -> &'r [&'s Second] {
    match round {
        [rest @ .., last] if !rest.is_empty() && last.value(columns, "started") == Some(0.0) => {
            rest
        }
        _ => round,
    }
}

/// The samples of a label at the points of `axis`.
fn label_data(
    columns: &[String],
    axis: &[&[&Second]],
    rows: &[&Second],
    figures: &LabelFigures,
) -> LabelData {
    let points = |spectrum: &[Point]| spectrum.iter().map(|p| (p.percent, p.ms)).collect();
    let mut data = LabelData {
        name: figures.label.clone(),
        service: points(&figures.service_spectrum),
        response: points(&figures.response_spectrum),
        histogram: figures.response_histogram.clone(),
        ..LabelData::default()
    };
    let mut rows = rows.iter().peekable();
    for point in axis {
        let Some(last) = point.last() else { continue };
        let mut seconds = Vec::new();
        while let Some(second) = rows.next_if(|row| row.time <= last.time + 1e-6) {
            // The last second of the round before may not be drawn.
            if second.round == last.round {
                seconds.push(*second);
            }
        }
        for (column, name, fold) in COLUMNS {
            let values = seconds.iter().filter_map(|second| {
                let value = second.value(columns, column)?;
                // Expected statuses are responses, too.
                let expected = second.value(columns, "expected").filter(|_| column == "ok");
                Some(value + expected.unwrap_or_default())
            });
            data.values.entry(name.to_owned()).or_default().push(aggregate(
                values,
                fold,
                point.len(),
            ));
        }
        for kind in ErrorKind::ALL {
            let values = seconds.iter().filter_map(|second| second.value(columns, kind.name()));
            data.errors.entry(kind.name()).or_default().push(aggregate(
                values,
                Fold::Rate,
                point.len(),
            ));
        }
    }
    let some = |values: &[Option<f64>]| values.iter().flatten().any(|value| *value > 0.0);
    data.errors.retain(|_, values| some(values));
    data.values.retain(|_, values| values.iter().any(Option::is_some));
    data
}

/// A value of so many seconds; `None` without any.
fn aggregate(values: impl Iterator<Item = f64>, fold: Fold, seconds: usize) -> Option<f64> {
    let (mut sum, mut count, mut largest) = (0.0, 0.0, f64::NEG_INFINITY);
    for value in values {
        sum += value;
        count += 1.0;
        largest = largest.max(value);
    }
    let value = match fold {
        Fold::Rate => sum / seconds as f64,
        Fold::Mean => sum / count,
        Fold::Max => largest,
    };
    (count > 0.0).then_some((value * 1e3).round() / 1e3)
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

    fn second(time: f64, round: usize, ok: f64, p99: f64) -> Second {
        let columns = series::columns();
        let mut values = vec![None; columns.len() - 5];
        let mut set = |name: &str, value| {
            let at = columns.iter().position(|column| column == name).expect(name);
            values[at - 5] = Some(value);
        };
        set("ok", ok);
        set("response_p99", p99);
        set("timeout", 0.0);
        set("http_503", if time > 9.5 { 4.0 } else { 0.0 });
        let (stage, label) = ("recording".to_owned(), "TOTAL".to_owned());
        Second { time, cell: 0, round, stage, label, values }
    }

    #[test]
    fn points_stay_within_rounds_and_keep_peaks() {
        let seconds: Vec<Second> = (1..=10)
            .map(|at| {
                let round = if at <= 7 { 1 } else { 2 };
                second(f64::from(at), round, 100.0, if at == 3 { 900.0 } else { 5.0 })
            })
            .collect();
        let seconds: Vec<&Second> = seconds.iter().collect();
        let heat = [
            Heat { time: 2.0, cell: 0, counts: "3:5 4:1".to_owned() },
            Heat { time: 3.0, cell: 0, counts: "3:5".to_owned() },
        ];
        let heat: Vec<&Heat> = heat.iter().collect();
        let mut tail = second(11.0, 2, 3.0, 70.0);
        let started = series::columns().iter().position(|column| column == "started").unwrap();
        tail.values[started - 5] = Some(0.0);
        let seconds = [seconds, vec![&tail]].concat();
        let busy = Second { label: "busy".to_owned(), ..second(9.0, 2, 10.0, 70.0) };
        let seconds = [seconds, vec![&busy]].concat();
        let figures = |label: &str| LabelFigures { label: label.to_owned(), ..Default::default() };
        let (total, label) = (figures("TOTAL"), figures("busy"));
        let data = cell_data(&series::columns(), &seconds, &heat, &[&total, &label], 3);
        assert_eq!(data.every, 4);
        assert_eq!((data.time, data.round), (vec![4.0, 7.0, 10.0], vec![1, 1, 2]));
        assert_eq!(data.heat[0], [(3, 10), (4, 1)].into());
        let [data, busy] = &data.labels[..] else { panic!("two labels") };
        assert_eq!(busy.values["rate"], [None, None, Some(3.333)], "in one of three seconds");
        assert_eq!(data.values["p99"], [Some(900.0), Some(5.0), Some(5.0)]);
        assert_eq!(data.values["rate"][0], Some(100.0));
        assert_eq!(data.errors.keys().collect::<Vec<_>>(), [&"http_503"]);
        assert!(!data.values.contains_key("offered"), "nothing was seen of it");
    }

    #[test]
    fn the_last_responses_of_a_round_are_not_those_of_the_next_one() {
        let started = series::columns().iter().position(|column| column == "started").unwrap();
        let mut tail = second(2.2, 1, 30.0, 900.0);
        tail.values[started - 5] = Some(0.0);
        let seconds = [second(1.0, 1, 100.0, 5.0), second(2.0, 1, 100.0, 5.0), tail];
        let seconds = [seconds.to_vec(), vec![second(3.2, 2, 100.0, 5.0)]].concat();
        let seconds: Vec<&Second> = seconds.iter().collect();
        let heat = |time, counts: &str| Heat { time, cell: 0, counts: counts.to_owned() };
        let heat = [heat(2.0, "3:5"), heat(2.2, "9:30"), heat(3.2, "3:7")];
        let heat: Vec<&Heat> = heat.iter().collect();
        let total = LabelFigures { label: "TOTAL".to_owned(), ..Default::default() };
        let data = cell_data(&series::columns(), &seconds, &heat, &[&total], 100);
        assert_eq!((data.time, data.round), (vec![1.0, 2.0, 3.2], vec![1, 1, 2]));
        assert_eq!(data.heat[2], [(3, 7)].into());
        assert_eq!(data.labels[0].values["rate"][2], Some(100.0));
        assert_eq!(data.labels[0].values["p99"][2], Some(5.0));
    }
}
