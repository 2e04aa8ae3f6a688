//! JMeter's Summary Report and Aggregate Report, with the same computation and format as JMeter
//! (`SamplingStatCalculator`), for comparison with its tables.

use crate::jtl::{self, Row};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Columns of the Summary Report.
pub const SUMMARY: [&str; 11] = [
    "Label",
    "# Samples",
    "Average",
    "Min",
    "Max",
    "Std. Dev.",
    "Error %",
    "Throughput",
    "Received KB/sec",
    "Sent KB/sec",
    "Avg. Bytes",
];

/// Columns of the Aggregate Report.
pub const AGGREGATE: [&str; 13] = [
    "Label",
    "# Samples",
    "Average",
    "Median",
    "90% Line",
    "95% Line",
    "99% Line",
    "Min",
    "Max",
    "Error %",
    "Throughput",
    "Received KB/sec",
    "Sent KB/sec",
];

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

/// Samples of one label, or of all.
#[derive(Clone, Debug, Default)]
pub struct Line {
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

    /// The lines with their labels, in the order of their first sample.
    pub fn lines(&self) -> impl Iterator<Item = (&str, &Line)> {
        self.labels.iter().filter_map(|label| Some((&**label, self.lines.get(label)?)))
    }

    /// All samples together.
    pub fn total(&self) -> &Line {
        &self.total
    }

    /// The rows of a report, the last one `TOTAL`, as JMeter prints its figures.
    pub fn rows(&self, report: Report) -> Vec<Vec<String>> {
        let all = self.lines().chain([("TOTAL", &self.total)]);
        all.map(|(label, line)| line.row(label, report)).collect()
    }

    /// A report as CSV, like JMeter.
    pub fn csv(&self, report: Report) -> String {
        let mut out = format!("{}\n", report.columns().join(",")).into_bytes();
        for row in self.rows(report) {
            for (index, value) in row.iter().enumerate() {
                if index > 0 {
                    out.push(b',');
                }
                jtl::field(value, &mut out);
            }
            out.push(b'\n');
        }
        String::from_utf8_lossy(&out).into_owned()
    }

    /// A report for a terminal: aligned columns, figures to the right.
    pub fn text(&self, report: Report) -> String {
        let columns: Vec<String> = report.columns().iter().map(|&name| name.to_owned()).collect();
        aligned(&columns, &self.rows(report))
    }
}

/// A table for a terminal: text columns to the left, figures to the right.
pub fn aligned(columns: &[String], rows: &[Vec<String>]) -> String {
    let lines = || std::iter::once(columns).chain(rows.iter().map(Vec::as_slice));
    let is_word = |text: &String| text.starts_with(char::is_alphabetic);
    let shape = |column: usize| {
        let widest = lines().filter_map(|row| row.get(column)).map(|text| width(text)).max();
        let words = rows.iter().filter_map(|row| row.get(column)).any(is_word);
        (widest.unwrap_or_default(), column == 0 || words)
    };
    let shapes: Vec<(usize, bool)> = (0..columns.len()).map(shape).collect();
    let mut out = String::new();
    for row in lines() {
        let mut line = String::new();
        for (value, (width, words)) in row.iter().zip(&shapes) {
            // Writing to a string cannot fail.
            let _ = match words {
                true => write!(line, "{value:<width$}  "),
                false => write!(line, "{value:>width$}  "),
            };
        }
        out.push_str(line.trim_end());
        out.push('\n');
    }
    out
}

fn width(text: &str) -> usize {
    text.chars().count()
}

impl Report {
    /// Its columns.
    pub fn columns(self) -> &'static [&'static str] {
        match self {
            Self::Summary => &SUMMARY,
            Self::Aggregate => &AGGREGATE,
        }
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

    /// Samples.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Samples that failed.
    pub fn errors(&self) -> u64 {
        self.errors
    }

    /// Bytes received and sent.
    pub fn bytes(&self) -> (u64, u64) {
        (self.bytes, self.sent)
    }

    /// Mean of the times in milliseconds.
    pub fn mean(&self) -> f64 {
        if self.count == 0 { 0.0 } else { self.sum / self.count as f64 }
    }

    /// Population standard deviation in milliseconds.
    pub fn deviation(&self) -> f64 {
        if self.count == 0 {
            return 0.0;
        }
        (self.squares / self.count as f64 - self.mean().powi(2)).max(0.0).sqrt()
    }

    /// Seconds from the first start to the last end.
    fn seconds(&self) -> f64 {
        self.window.map_or(0.0, |(first, last)| (last - first) as f64 / 1000.0)
    }

    /// Samples per second; `None` for a window below one millisecond.
    pub fn throughput(&self) -> Option<f64> {
        let seconds = self.seconds();
        (seconds > 0.0).then(|| self.count as f64 / seconds)
    }

    /// The smallest time with a cumulative count of at least `round(n·p)`, in milliseconds.
    pub fn percentile(&self, p: f64) -> u64 {
        let target = (self.count as f64 * p).round() as u64;
        let mut seen = 0;
        let found = self.times.iter().find(|(_, count)| {
            seen += **count;
            seen >= target
        });
        found.map_or(0, |(time, _)| *time)
    }

    fn min(&self) -> u64 {
        self.times.first_key_value().map_or(0, |(time, _)| *time)
    }

    fn max(&self) -> u64 {
        self.times.last_key_value().map_or(0, |(time, _)| *time)
    }

    fn row(&self, label: &str, report: Report) -> Vec<String> {
        let per_second = |amount: f64| match self.seconds() {
            seconds if seconds > 0.0 => amount / seconds,
            _ => 0.0,
        };
        let share = if self.count == 0 { 0.0 } else { self.errors as f64 / self.count as f64 };
        let error = format!("{:.3}%", share * 100.0);
        let throughput = format!("{:.5}", self.throughput().unwrap_or(0.0));
        let received = format!("{:.2}", per_second(self.bytes as f64 / 1024.0));
        let sent = format!("{:.2}", per_second(self.sent as f64 / 1024.0));
        let head = [label.to_owned(), self.count.to_string(), (self.mean() as u64).to_string()];
        let range = [self.min().to_string(), self.max().to_string()];
        let mut row = head.to_vec();
        match report {
            Report::Summary => {
                let bytes = self.bytes as f64 / self.count.max(1) as f64;
                row.extend(range);
                row.push(format!("{:.2}", self.deviation()));
                row.extend([error, throughput, received, sent, format!("{bytes:.1}")]);
            }
            Report::Aggregate => {
                row.extend([0.5, 0.9, 0.95, 0.99].map(|p| self.percentile(p).to_string()));
                row.extend(range);
                row.extend([error, throughput, received, sent]);
            }
        }
        row
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

    #[test]
    fn figures_are_those_of_jmeter() {
        let tables = tables();
        // 100 samples from 1.000 s to 1.990 + 0.100 s: 1.09 s.
        assert_eq!(
            tables.csv(Report::Summary).lines().last(),
            Some("TOTAL,100,50,1,100,28.87,10.000%,91.74312,91.74,45.87,1024.0")
        );
        assert_eq!(
            tables.csv(Report::Aggregate).lines().last(),
            Some("TOTAL,100,50,50,90,95,99,1,100,10.000%,91.74312,91.74,45.87")
        );
        let rows = tables.rows(Report::Aggregate);
        assert_eq!(rows[0][..8], ["even", "50", "50", "49", "89", "95", "99", "1"]);
        assert_eq!(rows[1][..3], ["odd, \"so\"", "50", "51"]);
        assert!(tables.csv(Report::Summary).contains("\n\"odd, \"\"so\"\"\",50,51,"));
    }

    #[test]
    fn nothing_and_an_instant_have_figures_too() {
        let none = Tables::default().rows(Report::Summary);
        assert_eq!(
            none,
            [["TOTAL", "0", "0", "0", "0", "0.00", "0.000%", "0.00000", "0.00", "0.00", "0.0"]]
        );
        let mut one = Tables::default();
        one.add(&Row { label: "x".into(), success: true, ..Row::default() });
        assert_eq!(one.total().throughput(), None);
        assert_eq!(one.total().percentile(0.99), 0);
    }

    #[test]
    fn a_terminal_gets_columns_in_line() {
        let text = tables().text(Report::Summary);
        let ends: Vec<usize> = text.lines().map(str::len).collect();
        assert!(ends.iter().all(|end| *end == ends[0]), "{text}");
    }
}
