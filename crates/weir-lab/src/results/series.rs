//! `series.csv` and `heat.csv`: figures of each second.
//!
//! `series.csv` has one row per second and label, `TOTAL` first. Columns: `time` (end of the
//! second, in seconds since the start of the run), `cell`, `round`, `stage`, `label`; `offered`
//! and `dropped` iterations, `in_flight`, `users` (only in the row of `TOTAL`); `started`, `ok`, `expected`, one
//! column for each kind of error; bytes `received`, `body`, `decoded`, `sent`; then service and
//! response times in milliseconds.
//!
//! `heat.csv` has counts of the response times of each second by range: `bucket` n is from
//! 10^(n/10) to 10^((n+1)/10) microseconds.

use crate::figures::ranges;
use crate::program::Label;
use crate::protocol::Stage;
use crate::record::{Interval, Tally};
use crate::sample::ErrorKind;
use hdrhistogram::Histogram;
use serde::Deserialize;
use std::path::Path;

/// Columns before the errors.
const HEAD: [&str; 12] = [
    "time",
    "cell",
    "round",
    "stage",
    "label",
    "offered",
    "dropped",
    "in_flight",
    "users",
    "started",
    "ok",
    "expected",
];
/// Columns after the errors, up to the times.
const BYTES: [&str; 4] = ["received", "body", "decoded", "sent"];
/// Times of a second, for each of service and response.
const TIMES: [&str; 6] = ["p50", "p90", "p95", "p99", "p99.9", "max"];
/// Ranges of response times: eight decades from a microsecond.
pub const BUCKETS: usize = 80;

/// The round of a second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RoundContext {
    /// Index of the case in the summary.
    pub cell: usize,
    /// The round, from 1.
    pub round: usize,
    /// Stage of the protocol; `None` without the protocol.
    pub stage: Option<Stage>,
    /// The second belongs to the warm-up that is cut off.
    pub warm_up: bool,
    /// Start of the round, in seconds since the start of the run.
    pub start: f64,
}

impl RoundContext {
    /// Value of the column `stage`.
    #[must_use]
    pub fn stage_name(self) -> &'static str {
        match self.stage {
            _ if self.warm_up => "warm-up",
            None => "measuring",
            Some(Stage::Calibrating) => "calibrating",
            Some(Stage::Stabilising) => "stabilising",
            Some(Stage::Recording) => "recording",
        }
    }
}

/// Names of all columns of `series.csv`.
#[must_use]
pub fn columns() -> Vec<String> {
    let errors = ErrorKind::ALL.iter().map(|kind| kind.name());
    let times = ["service", "response"];
    let times = times.iter().flat_map(|of| TIMES.iter().map(move |time| format!("{of}_{time}")));
    let plain = HEAD.into_iter().chain(errors).chain(BYTES).map(str::to_owned);
    plain.chain(times).collect()
}

/// The rows of a second: the total without transactions, then each label with started or completed
/// samples.
pub(super) fn rows(
    context: RoundContext,
    second: &Interval,
    names: &[String],
    transactions: &[Label],
) -> Vec<Vec<String>> {
    let mut rows = vec![row(context, second, "TOTAL", &second.all(transactions), true)];
    for (name, tally) in names.iter().zip(&second.labels) {
        if tally.started > 0 || tally.samples() > 0 {
            rows.push(row(context, second, name, tally, false));
        }
    }
    rows
}

fn row(
    context: RoundContext,
    second: &Interval,
    label: &str,
    tally: &Tally,
    is_total: bool,
) -> Vec<String> {
    let total_only = |count: u64| if is_total { count.to_string() } else { String::new() };
    let mut row = vec![
        format!("{:.3}", context.start + second.second as f64 + 1.0),
        context.cell.to_string(),
        context.round.to_string(),
        context.stage_name().to_owned(),
        label.to_owned(),
        total_only(second.offered),
        total_only(second.dropped),
        total_only(second.in_flight),
        total_only(second.users),
    ];
    let counts = [tally.started, tally.ok, tally.expected];
    let bytes = [tally.received, tally.body, tally.decoded, tally.sent];
    let counts = counts.iter().chain(&tally.errors).chain(&bytes);
    row.extend(counts.map(u64::to_string));
    for times in [&tally.service, tally.response()] {
        row.extend(of_second(times));
    }
    row
}

fn of_second(times: &Histogram<u64>) -> [String; TIMES.len()] {
    if times.is_empty() {
        return Default::default();
    }
    let show = |nanoseconds: u64| format!("{:.3}", nanoseconds as f64 / 1e6);
    let at = |percent| show(times.value_at_percentile(percent));
    [at(50.0), at(90.0), at(95.0), at(99.0), at(99.9), show(times.max())]
}

/// A row of `heat.csv`: `bucket:count` for each non-empty range.
pub(super) fn heat(second: &Interval, transactions: &[Label]) -> String {
    let mut counts = [0_u64; BUCKETS];
    let is_request = |at: &usize| !transactions.iter().any(|label| label.0 as usize == *at);
    for (_, tally) in second.labels.iter().enumerate().filter(|(at, _)| is_request(at)) {
        for (bucket, count) in ranges(tally.response(), 10.0) {
            counts[bucket.min(BUCKETS - 1)] += count;
        }
    }
    let some = counts.iter().enumerate().filter(|(_, count)| **count > 0);
    some.map(|(bucket, count)| format!("{bucket}:{count}")).collect::<Vec<_>>().join(" ")
}

/// A row of `series.csv`, as read.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct Second {
    /// End of the second, since the run started.
    pub time: f64,
    /// The case.
    pub cell: usize,
    /// The round.
    pub round: usize,
    /// See [`RoundContext::stage_name`].
    pub stage: String,
    /// The label.
    pub label: String,
    /// Counts and times, in the order of [`columns`] from `offered` on; `None` for an empty one.
    pub values: Vec<Option<f64>>,
}

impl Second {
    /// Value of a column by name.
    #[must_use]
    pub fn value(&self, columns: &[String], name: &str) -> Option<f64> {
        self.values.get(Self::place(columns, name)?).copied().flatten()
    }

    /// Place of a column in the values of a row.
    #[must_use]
    pub fn place(columns: &[String], name: &str) -> Option<usize> {
        columns.iter().position(|column| column == name)?.checked_sub(5)
    }
}

/// Calls `visit` with the names of the columns and each row of `series.csv`, one after the other: rows of a day with
/// many labels do not fit into memory. Invalid lines are skipped, such as the last one of a killed run.
///
/// # Errors
/// The file cannot be read.
pub fn each(path: &Path, visit: &mut dyn FnMut(&[String], Second)) -> csv::Result<()> {
    let mut reader = csv::ReaderBuilder::new().flexible(true).from_path(path)?;
    let columns: Vec<String> = reader.headers()?.iter().map(str::to_owned).collect();
    // By position: the values are the rest of a row.
    let seconds = reader.records().filter_map(|row| row.ok()?.deserialize(None).ok());
    seconds.for_each(|second| visit(&columns, second));
    Ok(())
}

/// A row of `heat.csv`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub(crate) struct Heat {
    /// End of the second, since the run started.
    pub(crate) time: f64,
    /// The case.
    pub(crate) cell: usize,
    /// `bucket:count`, separated by spaces.
    pub(crate) counts: String,
}

impl Heat {
    /// Ranges with their counts.
    pub(crate) fn counts(&self) -> impl Iterator<Item = (usize, u64)> {
        self.counts.split(' ').filter_map(|pair| {
            let (bucket, count) = pair.split_once(':')?;
            Some((bucket.parse().ok()?, count.parse().ok()?))
                .filter(|(bucket, _)| *bucket < BUCKETS)
        })
    }
}

/// Reads `heat.csv`; invalid lines are skipped.
pub(crate) fn read_heat(path: &Path) -> csv::Result<Vec<Heat>> {
    let mut reader = csv::ReaderBuilder::new().flexible(true).from_path(path)?;
    Ok(reader.deserialize().filter_map(Result::ok).collect())
}

#[cfg(test)]
mod tests {
    use super::super::total::tests::second as sample;
    use super::*;

    fn context() -> RoundContext {
        RoundContext {
            cell: 2,
            round: 7,
            stage: Some(Stage::Recording),
            warm_up: false,
            start: 100.0,
        }
    }

    #[test]
    fn a_row_has_every_column() {
        let rows =
            rows(context(), &sample(3, 250, 4), &["echo, x".to_owned(), "unused".to_owned()], &[]);
        assert_eq!(rows.len(), 2, "all together and one label");
        assert!(rows.iter().all(|row| row.len() == columns().len()));
        let value = |name: &str| {
            let at = columns().iter().position(|column| column == name).expect(name);
            rows[0][at].clone()
        };
        assert_eq!(value("time"), "104.000");
        assert_eq!((value("stage").as_str(), value("offered").as_str()), ("recording", "250"));
        assert_eq!(value("http_503"), "0", "zeros are there");
        assert!(value("response_p99").starts_with("8.0"), "{}", value("response_p99"));
        assert_eq!(rows[1][5], "", "what is offered belongs to no label");
    }

    #[test]
    fn heat_counts_every_response_time() {
        let heat = heat(&sample(0, 250, 4), &[]);
        // 8 ms are 8000 µs: 10 · log10 is 39.03.
        assert_eq!(heat, "39:250");
        let row = Heat { time: 0.0, cell: 0, counts: "0:1 79:2 80:9 x:1".to_owned() };
        assert_eq!(row.counts().collect::<Vec<_>>(), [(0, 1), (79, 2)]);
    }
}
