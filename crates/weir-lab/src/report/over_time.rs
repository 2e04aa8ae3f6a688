//! Figures over time, folded into points while the rows of a run are read: those of a day with many labels are
//! gigabytes.

use crate::figures::{LabelFigures, Point};
use crate::results::series::Second;
use crate::sample::ErrorKind;
use serde::Serialize;
use std::collections::BTreeMap;

/// The label of all samples.
const TOTAL: &str = "TOTAL";
/// Difference of times that are the same.
const TOLERANCE: f64 = 1e-6;

/// The samples of a label. Lists of values have the length of the case's `time`.
#[derive(Debug, Default, Serialize)]
pub(super) struct LabelData {
    pub(super) name: String,
    /// By name: `offered` (iterations), `rate`, `p50`… `None` without an observation.
    pub(super) values: BTreeMap<String, Vec<Option<f64>>>,
    /// Failures per second by kind, only existing kinds.
    pub(super) errors: BTreeMap<&'static str, Vec<Option<f64>>>,
    /// Percentile spectra: (percent, ms).
    pub(super) service: Vec<(f64, f64)>,
    pub(super) response: Vec<(f64, f64)>,
    /// Response times by range ([`LabelFigures::response_histogram`]).
    pub(super) histogram: Vec<(usize, u64)>,
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

/// A second of the total.
#[derive(Clone, Debug)]
pub(super) struct Mark {
    time: f64,
    round: usize,
    stage: String,
    /// No sample started in it.
    is_tail: bool,
}

impl Mark {
    /// Of a row of the total; `None` for one of a label.
    pub(super) fn of(columns: &[String], second: &Second) -> Option<Self> {
        let Second { time, round, stage, .. } = second;
        let is_tail = second.value(columns, "started") == Some(0.0);
        let mark = || Self { time: *time, round: *round, stage: stage.clone(), is_tail };
        (second.label == TOTAL).then(mark)
    }
}

/// Points of whole seconds of one round.
#[derive(Debug, Default)]
pub(super) struct Axis {
    /// Seconds of a point.
    pub(super) every: usize,
    /// Ends of the points.
    pub(super) time: Vec<f64>,
    pub(super) round: Vec<usize>,
    pub(super) stage: Vec<String>,
    seconds: Vec<usize>,
    /// Times of seconds that are not drawn.
    tails: Vec<f64>,
}

impl Axis {
    /// The seconds of the total, in their order, as so many points at most.
    pub(super) fn new(seconds: &[Mark], points: usize) -> Self {
        let every = seconds.len().div_ceil(points).max(1);
        let mut axis = Self { every, ..Self::default() };
        for round in seconds.chunk_by(|a, b| a.round == b.round) {
            let drawn = without_tail(round);
            axis.tails.extend(round[drawn.len()..].iter().map(|tail| tail.time));
            for point in drawn.chunks(every) {
                let Some(last) = point.last() else { continue };
                axis.time.push(last.time);
                axis.round.push(last.round);
                axis.stage.push(last.stage.clone());
                axis.seconds.push(point.len());
            }
        }
        axis
    }

    /// Whether the second that ends at this time is not drawn.
    pub(super) fn leaves_out(&self, time: f64) -> bool {
        self.tails.iter().any(|tail| (tail - time).abs() < TOLERANCE)
    }
}

/// A round without its last second if that second only has the responses to earlier requests: a part
/// of a second would look like a collapse of the throughput.
fn without_tail(round: &[Mark]) -> &[Mark] {
    match round {
        [rest @ .., last] if !rest.is_empty() && last.is_tail => rest,
        _ => round,
    }
}

/// Values of one column in the seconds of a point.
#[derive(Clone, Copy, Default)]
struct Sum {
    sum: f64,
    count: u32,
    largest: f64,
}

/// The labels of a case, folded to the points of an axis.
pub(super) struct Folding {
    axis: Axis,
    /// The current point.
    at: usize,
    /// Places of the drawn columns, then of the kinds of errors, in the values of a row.
    places: Vec<Option<usize>>,
    expected: Option<usize>,
    labels: BTreeMap<String, Vec<Vec<Sum>>>,
}

impl Folding {
    /// Starts without rows; `columns` are those of the rows.
    pub(super) fn new(axis: Axis, columns: &[String], labels: &[&LabelFigures]) -> Self {
        let drawn = COLUMNS.iter().map(|(column, ..)| *column);
        let names = drawn.chain(ErrorKind::ALL.iter().map(|kind| kind.name()));
        let places: Vec<_> = names.map(|name| Second::place(columns, name)).collect();
        let empty = vec![vec![Sum::default(); axis.time.len()]; places.len()];
        let labels = labels.iter().map(|figures| (figures.label.clone(), empty.clone())).collect();
        let expected = Second::place(columns, "expected");
        Self { axis, at: 0, places, expected, labels }
    }

    /// Adds a row. Rows come in the order of their times.
    pub(super) fn add(&mut self, second: &Second) {
        while self.axis.time.get(self.at).is_some_and(|end| second.time > end + TOLERANCE) {
            self.at += 1;
        }
        // The last second of the round before may not be drawn.
        if self.axis.round.get(self.at) != Some(&second.round) {
            return;
        }
        let Some(sums) = self.labels.get_mut(&second.label) else { return };
        let value = |place: Option<usize>| second.values.get(place?).copied().flatten();
        for (at, (place, points)) in self.places.iter().zip(sums).enumerate() {
            let Some(mut found) = value(*place) else { continue };
            if COLUMNS.get(at).is_some_and(|(column, ..)| *column == "ok") {
                // Expected statuses are responses, too.
                found += value(self.expected).unwrap_or_default();
            }
            let Sum { sum, count, largest } = &mut points[self.at];
            *largest = if *count == 0 { found } else { largest.max(found) };
            (*sum, *count) = (*sum + found, *count + 1);
        }
    }

    /// The axis, and the samples of the labels in this order.
    pub(super) fn end(self, labels: &[&LabelFigures]) -> (Axis, Vec<LabelData>) {
        let data = labels.iter().map(|figures| self.label(figures)).collect();
        (self.axis, data)
    }

    fn label(&self, figures: &LabelFigures) -> LabelData {
        let points = |spectrum: &[Point]| spectrum.iter().map(|p| (p.percent, p.ms)).collect();
        let mut data = LabelData {
            name: figures.label.clone(),
            service: points(&figures.service_spectrum),
            response: points(&figures.response_spectrum),
            histogram: figures.response_histogram.clone(),
            ..LabelData::default()
        };
        let nothing = Vec::new();
        let sums = self.labels.get(&figures.label).unwrap_or(&nothing);
        let folded = |points: &[Sum], fold| -> Vec<Option<f64>> {
            points.iter().zip(&self.axis.seconds).map(|(sum, n)| sum.folded(fold, *n)).collect()
        };
        for ((_, name, fold), points) in COLUMNS.iter().zip(sums) {
            data.values.insert((*name).to_owned(), folded(points, *fold));
        }
        for (kind, points) in ErrorKind::ALL.iter().zip(sums.iter().skip(COLUMNS.len())) {
            data.errors.insert(kind.name(), folded(points, Fold::Rate));
        }
        let some = |values: &[Option<f64>]| values.iter().flatten().any(|value| *value > 0.0);
        data.errors.retain(|_, values| some(values));
        data.values.retain(|_, values| values.iter().any(Option::is_some));
        data
    }
}

impl Sum {
    /// The value of a point of so many seconds; `None` without any.
    fn folded(self, fold: Fold, seconds: usize) -> Option<f64> {
        let value = match fold {
            Fold::Rate => self.sum / seconds as f64,
            Fold::Mean => self.sum / f64::from(self.count),
            Fold::Max => self.largest,
        };
        (self.count > 0).then_some((value * 1e3).round() / 1e3)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::series;

    fn second(time: f64, round: usize, ok: f64, p99: f64) -> Second {
        let columns = series::columns();
        let mut values = vec![None; columns.len() - 5];
        let mut set = |name: &str, value| {
            values[Second::place(&columns, name).expect(name)] = Some(value);
        };
        set("ok", ok);
        set("started", ok);
        set("response_p99", p99);
        set("timeout", 0.0);
        set("http_503", if time > 9.5 { 4.0 } else { 0.0 });
        let (stage, label) = ("recording".to_owned(), TOTAL.to_owned());
        Second { time, cell: 0, round, stage, label, values }
    }

    /// The last second of a round, in which nothing starts.
    fn tail(time: f64, round: usize) -> Second {
        let mut tail = second(time, round, 30.0, 900.0);
        tail.values[Second::place(&series::columns(), "started").expect("known")] = Some(0.0);
        tail
    }

    fn folded(seconds: &[Second], labels: &[&str], points: usize) -> (Axis, Vec<LabelData>) {
        let columns = series::columns();
        let marks: Vec<Mark> =
            seconds.iter().filter_map(|second| Mark::of(&columns, second)).collect();
        let figures =
            |label: &&str| LabelFigures { label: (*label).to_owned(), ..Default::default() };
        let figures: Vec<LabelFigures> = labels.iter().map(figures).collect();
        let figures: Vec<&LabelFigures> = figures.iter().collect();
        let mut folding = Folding::new(Axis::new(&marks, points), &columns, &figures);
        seconds.iter().for_each(|second| folding.add(second));
        folding.end(&figures)
    }

    #[test]
    fn points_stay_within_rounds_and_keep_peaks() {
        let mut seconds: Vec<Second> = (1..=10)
            .map(|at| {
                let round = if at <= 7 { 1 } else { 2 };
                second(f64::from(at), round, 100.0, if at == 3 { 900.0 } else { 5.0 })
            })
            .collect();
        seconds.push(tail(11.0, 2));
        seconds.insert(9, Second { label: "busy".to_owned(), ..second(9.0, 2, 10.0, 70.0) });
        let (axis, data) = folded(&seconds, &[TOTAL, "busy"], 3);
        assert_eq!(axis.every, 4);
        assert_eq!((axis.time, axis.round), (vec![4.0, 7.0, 10.0], vec![1, 1, 2]));
        let [data, busy] = &data[..] else { panic!("two labels") };
        assert_eq!(busy.values["rate"], [None, None, Some(3.333)], "in one of three seconds");
        assert_eq!(data.values["p99"], [Some(900.0), Some(5.0), Some(5.0)]);
        assert_eq!(data.values["rate"][0], Some(100.0));
        assert_eq!(data.errors.keys().collect::<Vec<_>>(), [&"http_503"]);
        assert!(!data.values.contains_key("offered"), "nothing was seen of it");
    }

    #[test]
    fn the_last_responses_of_a_round_are_not_those_of_the_next_one() {
        let seconds = [
            second(1.0, 1, 100.0, 5.0),
            second(2.0, 1, 100.0, 5.0),
            tail(2.2, 1),
            second(3.2, 2, 100.0, 5.0),
        ];
        let (axis, data) = folded(&seconds, &[TOTAL], 100);
        assert_eq!((&axis.time, &axis.round), (&vec![1.0, 2.0, 3.2], &vec![1, 1, 2]));
        assert!(axis.leaves_out(2.2) && !axis.leaves_out(2.0));
        assert_eq!(data[0].values["rate"][2], Some(100.0));
        assert_eq!(data[0].values["p99"][2], Some(5.0));
    }
}
