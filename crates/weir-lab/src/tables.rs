//! JMeter's Summary Report and Aggregate Report, with the same computation and format as JMeter
//! (`SamplingStatCalculator`), for comparison with its tables.

use crate::figures::{LabelFigures, Times};
use crate::jtl::Row;
use std::collections::BTreeMap;
use std::io::Write;

/// A column: the report that has it if the other one has not, its name, and its value for figures
/// over a number of seconds.
type Column = (Option<Report>, &'static str, fn(&LabelFigures, f64) -> String);

/// Columns of both reports, in order.
const COLUMNS: [Column; 15] = [
    (None, "Label", |figures, _| figures.label.clone()),
    (None, "# Samples", |figures, _| figures.samples.to_string()),
    (None, "Average", |figures, _| integer(figures.service.mean)),
    (Some(Report::Aggregate), "Median", |figures, _| integer(figures.service.p50)),
    (Some(Report::Aggregate), "90% Line", |figures, _| integer(figures.service.p90)),
    (Some(Report::Aggregate), "95% Line", |figures, _| integer(figures.service.p95)),
    (Some(Report::Aggregate), "99% Line", |figures, _| integer(figures.service.p99)),
    (None, "Min", |figures, _| integer(figures.service.min)),
    (None, "Max", |figures, _| integer(figures.service.max)),
    (Some(Report::Summary), "Std. Dev.", |figures, _| format!("{:.2}", figures.service.deviation)),
    (None, "Error %", |figures, _| format!("{:.3}%", 100.0 * figures.error_share())),
    (None, "Throughput", |figures, _| format!("{:.5}", figures.throughput)),
    (None, "Received KB/sec", |figures, seconds| rate(figures.received, seconds)),
    (None, "Sent KB/sec", |figures, seconds| rate(figures.sent, seconds)),
    (Some(Report::Summary), "Avg. Bytes", |figures, _| {
        format!("{:.1}", figures.received as f64 / figures.samples.max(1) as f64)
    }),
];

fn integer(ms: f64) -> String {
    (ms as u64).to_string()
}

fn rate(bytes: u64, seconds: f64) -> String {
    let seconds = if seconds > 0.0 { seconds } else { f64::INFINITY };
    format!("{:.2}", bytes as f64 / 1024.0 / seconds)
}

/// Largest number of labels; samples of further labels count only in the total.
const MAX_LABELS: usize = 10_000;

/// Kind of report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Report {
    /// Average, deviation and bytes.
    Summary,
    /// Average and percentiles.
    Aggregate,
}

impl Report {
    fn of_report(self) -> impl Iterator<Item = Column> {
        COLUMNS.into_iter().filter(move |(only, ..)| only.is_none_or(|report| report == self))
    }

    /// Names of its columns.
    pub fn columns(self) -> Vec<&'static str> {
        self.of_report().map(|(_, name, _)| name).collect()
    }

    /// The row of a label with samples of `window` seconds, as JMeter prints its figures. Times are
    /// integer milliseconds.
    pub fn row(self, figures: &LabelFigures, window: f64) -> Vec<String> {
        self.of_report().map(|(_, _, value)| value(figures, window)).collect()
    }

    /// Writes rows as CSV, like JMeter.
    ///
    /// # Errors
    /// The output cannot be written.
    pub fn write(
        self,
        out: impl Write,
        rows: impl IntoIterator<Item = Vec<String>>,
    ) -> csv::Result<()> {
        let mut table = csv::Writer::from_writer(out);
        table.write_record(self.columns())?;
        rows.into_iter().try_for_each(|row| table.write_record(row))?;
        Ok(table.flush()?)
    }
}

/// Samples of one label, or of all.
#[derive(Clone, Debug, Default)]
struct Line {
    /// Counts of samples by milliseconds.
    times: BTreeMap<u64, u64>,
    count: u64,
    errors: u64,
    sum: f64,
    squares: f64,
    bytes: u64,
    sent: u64,
    /// First start and last end, in milliseconds since 1970.
    window: Option<(u64, u64)>,
}

/// Both reports of a run. Memory grows with the number of different times, not with the number of
/// samples.
#[derive(Clone, Debug, Default)]
pub struct Tables {
    /// Labels in the order of their first sample.
    labels: Vec<String>,
    lines: BTreeMap<String, Line>,
    total: Line,
}

impl Tables {
    /// Counts a sample.
    pub fn add(&mut self, row: &Row<'_>) {
        self.total.add(row);
        if let Some(line) = self.lines.get_mut(&*row.label) {
            line.add(row);
        } else if self.labels.len() < MAX_LABELS {
            self.labels.push(row.label.to_string());
            self.lines.entry(row.label.to_string()).or_default().add(row);
        }
    }

    /// The rows of a report: labels in the order of their first sample, then `TOTAL`.
    pub fn rows(&self, report: Report) -> Vec<Vec<String>> {
        let lines = self.labels.iter().filter_map(|label| Some((&**label, self.lines.get(label)?)));
        let all = lines.chain([("TOTAL", &self.total)]);
        all.map(|(label, line)| report.row(&line.figures(label), line.seconds())).collect()
    }
}

impl Line {
    fn add(&mut self, row: &Row<'_>) {
        *self.times.entry(row.elapsed).or_default() += 1;
        self.count += 1;
        self.errors += u64::from(!row.success);
        self.sum += row.elapsed as f64;
        self.squares += (row.elapsed as f64).powi(2);
        self.bytes = self.bytes.saturating_add(row.bytes);
        self.sent = self.sent.saturating_add(row.sent_bytes);
        let end = row.time_stamp.saturating_add(row.elapsed);
        let (first, last) = self.window.unwrap_or((row.time_stamp, end));
        self.window = Some((first.min(row.time_stamp), last.max(end)));
    }

    /// Seconds from the first start to the last end.
    fn seconds(&self) -> f64 {
        self.window.map_or(0.0, |(first, last)| (last - first) as f64 / 1000.0)
    }

    fn figures(&self, label: &str) -> LabelFigures {
        let (count, seconds) = (self.count.max(1) as f64, self.seconds());
        let mean = self.sum / count;
        let time = |found: Option<(&u64, &u64)>| found.map_or(0.0, |(time, _)| *time as f64);
        let percentile = |p| self.percentile(p) as f64;
        LabelFigures {
            label: label.to_owned(),
            samples: self.count,
            errors: [(String::new(), self.errors)].into(),
            throughput: if seconds > 0.0 { self.count as f64 / seconds } else { 0.0 },
            service: Times {
                mean,
                // The population's deviation.
                deviation: (self.squares / count - mean.powi(2)).max(0.0).sqrt(),
                min: time(self.times.first_key_value()),
                p50: percentile(0.5),
                p90: percentile(0.9),
                p95: percentile(0.95),
                p99: percentile(0.99),
                max: time(self.times.last_key_value()),
                ..Times::default()
            },
            received: self.bytes,
            sent: self.sent,
            ..LabelFigures::default()
        }
    }

    /// The smallest time with a cumulative count of at least `round(n·p)`, in milliseconds.
    fn percentile(&self, p: f64) -> u64 {
        let target = (self.count as f64 * p).round() as u64;
        let mut count = 0;
        let found = self.times.iter().find(|(_, more)| {
            count += **more;
            count >= target
        });
        found.map_or(0, |(time, _)| *time)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tables() -> Tables {
        let mut tables = Tables::default();
        for number in 0..100 {
            tables.add(&Row {
                time_stamp: 1_000 + number * 10,
                elapsed: number + 1,
                label: if number % 2 == 0 { "even" } else { "odd, \"so\"" }.into(),
                success: number % 10 != 0,
                bytes: 1_024,
                sent_bytes: 512,
                ..Row::default()
            });
        }
        tables
    }

    fn csv(tables: &Tables, report: Report) -> String {
        let mut out = Vec::new();
        report.write(&mut out, tables.rows(report)).expect("memory");
        String::from_utf8(out).expect("text")
    }

    #[test]
    fn figures_are_those_of_jmeter() {
        let tables = tables();
        // 100 samples from 1.000 s to 1.990 + 0.100 s: 1.09 s.
        assert_eq!(
            csv(&tables, Report::Summary).lines().last(),
            Some("TOTAL,100,50,1,100,28.87,10.000%,91.74312,91.74,45.87,1024.0")
        );
        assert_eq!(
            csv(&tables, Report::Aggregate).lines().last(),
            Some("TOTAL,100,50,50,90,95,99,1,100,10.000%,91.74312,91.74,45.87")
        );
        let rows = tables.rows(Report::Aggregate);
        assert_eq!(rows[0][..8], ["even", "50", "50", "49", "89", "95", "99", "1"]);
        assert_eq!(rows[1][..3], ["odd, \"so\"", "50", "51"]);
        assert!(csv(&tables, Report::Summary).contains("\n\"odd, \"\"so\"\"\",50,51,"));
    }

    #[test]
    fn no_samples_and_an_instant_have_figures() {
        let none = Tables::default().rows(Report::Summary);
        assert_eq!(
            none,
            [["TOTAL", "0", "0", "0", "0", "0.00", "0.000%", "0.00000", "0.00", "0.00", "0.0"]]
        );
        let mut one = Tables::default();
        one.add(&Row { label: "x".into(), success: true, ..Row::default() });
        let row =
            ["TOTAL", "1", "0", "0", "0", "0", "0", "0", "0", "0.000%", "0.00000", "0.00", "0.00"];
        assert_eq!(one.rows(Report::Aggregate)[1], row);
    }
}
