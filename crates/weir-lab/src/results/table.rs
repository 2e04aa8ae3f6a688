//! `summary.csv`: one row per case and label, with the columns of WSO2's published performance
//! tables.
//!
//! Throughput and times include failed samples, as in JMeter's tables. Standard deviation, minimum,
//! maximum and percentiles are response times; KB is 1024 bytes.

use super::{Cell, Summary};
use crate::figures::{LabelFigures, Times};
use std::io::Write;

/// A row: the name of a case, the case, and the figures of a label.
type Row<'r> = (&'r str, &'r Cell, &'r LabelFigures);

/// A column: its name, and its value in a row.
type Column = (&'static str, fn(Row<'_>) -> String);

/// Columns of searches for the highest load, after the others.
const OF_SEARCHES: [Column; 4] = [
    ("Highest Load", |(_, cell, _)| or_empty(cell.capacity.as_ref().map(|c| two(c.load.value())))),
    ("Unit of the Highest Load", |(_, cell, _)| {
        or_empty(cell.capacity.as_ref().map(|c| c.load.unit()))
    }),
    ("Highest Load, Lower End of 95 % Interval", |(_, cell, _)| {
        or_empty(cell.capacity.as_ref().and_then(|c| c.interval).map(|found| two(found.low)))
    }),
    ("Highest Load, Upper End of 95 % Interval", |(_, cell, _)| {
        or_empty(cell.capacity.as_ref().and_then(|c| c.interval).map(|found| two(found.high)))
    }),
];

/// The columns, in order.
const COLUMNS: [Column; 27] = [
    ("Scenario Name", |(name, ..)| name.to_owned()),
    ("Heap Size", |(_, cell, _)| or_empty(cell.attributes.heap.as_ref())),
    ("Concurrent Users", |(_, cell, _)| or_empty(cell.attributes.users)),
    ("Message Size (Bytes)", |(_, cell, _)| or_empty(cell.attributes.message_bytes)),
    ("Back-end Service Delay (ms)", |(_, cell, _)| or_empty(cell.attributes.delay_ms)),
    ("Label", |(.., figures)| figures.label.clone()),
    ("# Samples", |(.., figures)| figures.samples.to_string()),
    ("Error Count", |(.., figures)| figures.failed().to_string()),
    ("Error %", |(.., figures)| two(100.0 * figures.error_share())),
    ("Throughput (Requests/sec)", |(.., figures)| two(figures.throughput)),
    ("Average Response Time (ms)", |(.., figures)| time(figures, |times| times.mean)),
    // Little's law.
    ("Average Users in the System", |(.., figures)| {
        let mean = figures.response_time(|times| times.mean);
        or_empty(mean.map(|mean| two(figures.throughput * mean / 1e3)))
    }),
    ("Standard Deviation of Response Time (ms)", |(.., figures)| {
        time(figures, |times| times.deviation)
    }),
    ("Minimum Response Time (ms)", |(.., figures)| time(figures, |times| times.min)),
    ("Maximum Response Time (ms)", |(.., figures)| time(figures, |times| times.max)),
    ("75th Percentile of Response Time (ms)", |(.., figures)| time(figures, |times| times.p75)),
    ("90th Percentile of Response Time (ms)", |(.., figures)| time(figures, |times| times.p90)),
    ("95th Percentile of Response Time (ms)", |(.., figures)| time(figures, |times| times.p95)),
    ("98th Percentile of Response Time (ms)", |(.., figures)| time(figures, |times| times.p98)),
    ("99th Percentile of Response Time (ms)", |(.., figures)| time(figures, |times| times.p99)),
    ("99.9th Percentile of Response Time (ms)", |(.., figures)| time(figures, |times| times.p99_9)),
    ("Received (KB/sec)", |(_, cell, figures)| rate(figures.received, cell)),
    ("Sent (KB/sec)", |(_, cell, figures)| rate(figures.sent, cell)),
    ("GC Throughput (%)", |(_, cell, _)| or_empty(cell.attributes.gc_throughput.map(two))),
    // These are not WSO2's.
    ("Server CPU per Request (µs)", |(_, cell, _)| {
        or_empty(cell.server.as_ref().map(|server| two(server.cpu_us)))
    }),
    ("Server Memory (Bytes)", |(_, cell, _)| {
        or_empty(cell.server.as_ref().map(|server| server.memory).filter(|memory| *memory > 0))
    }),
    ("Server Idle (%)", |(_, cell, _)| {
        or_empty(cell.server.as_ref().and_then(|server| Some(two(100.0 * server.idle?))))
    }),
];

fn or_empty(value: Option<impl ToString>) -> String {
    value.map(|value| value.to_string()).unwrap_or_default()
}

/// A number with two decimals.
fn two(value: f64) -> String {
    format!("{value:.2}")
}

/// A response time; empty if it is not reported.
fn time(figures: &LabelFigures, of: fn(&Times) -> f64) -> String {
    or_empty(figures.response_time(of).map(two))
}

fn rate(bytes: u64, cell: &Cell) -> String {
    two(bytes as f64 / 1024.0 / cell.window.max(f64::MIN_POSITIVE))
}

/// Writes the table.
///
/// # Errors
/// The output cannot be written.
pub fn write(out: impl Write, summary: &Summary) -> csv::Result<()> {
    let mut table = csv::Writer::from_writer(out);
    let searches = summary.cells.iter().any(|cell| cell.capacity.is_some());
    let columns = || COLUMNS.iter().chain(OF_SEARCHES.iter().filter(|_| searches));
    table.write_record(columns().map(|(name, _)| *name))?;
    for cell in &summary.cells {
        for figures in &cell.labels {
            let row = (summary.name_of(cell), cell, figures);
            table.write_record(columns().map(|(_, value)| value(row)))?;
        }
    }
    Ok(table.flush()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::{Capacity, SearchedLoad};
    use crate::figures::Times;
    use crate::results::CaseAttributes;
    use crate::stats::Interval;

    #[test]
    fn a_row_as_in_the_published_tables() {
        let figures = LabelFigures {
            label: "echo".to_owned(),
            samples: 9_000,
            errors: [("timeout".to_owned(), 90)].into(),
            throughput: 900.0,
            response: Times { mean: 110.0, p99: 240.5, ..Times::default() },
            received: 10_240_000,
            ..LabelFigures::default()
        };
        let cell = Cell {
            name: "echo, 100 users".to_owned(),
            attributes: CaseAttributes {
                users: Some(100),
                message_bytes: Some(1024),
                ..CaseAttributes::default()
            },
            window: 10.0,
            labels: vec![figures],
            ..Cell::default()
        };
        let summary = Summary { cells: vec![cell], ..Summary::default() };
        let mut out = Vec::new();
        write(&mut out, &summary).expect("memory");
        let text = String::from_utf8(out).expect("text");
        let row = text.lines().nth(1).expect("a row");
        assert!(
            row.starts_with(
                "\"echo, 100 users\",,100,1024,,echo,9000,90,1.00,900.00,110.00,99.00,"
            ),
            "{row}"
        );
        assert!(row.ends_with(",240.50,,1000.00,0.00,,,,"), "no p99.9 was reported: {row}");
        assert_eq!(text.lines().count(), 2);
    }

    #[test]
    fn the_highest_number_of_users_is_in_columns_of_its_own() {
        let capacity = Capacity {
            load: SearchedLoad::Users(420),
            interval: Some(Interval { low: 410.0, high: 435.5 }),
            searches: 3,
            confirmed: true,
            at_least: false,
        };
        let labels = vec![LabelFigures { label: "echo".to_owned(), ..LabelFigures::default() }];
        let cell = Cell { labels, capacity: Some(capacity), ..Cell::default() };
        let summary = Summary { cells: vec![cell], ..Summary::default() };
        let mut out = Vec::new();
        write(&mut out, &summary).expect("memory");
        let text = String::from_utf8(out).expect("text");
        let row = text.lines().nth(1).expect("a row");
        assert!(row.ends_with(",420.00,users,410.00,435.50"), "{row}");
        assert_eq!(text.lines().next().map(|head| head.matches("Highest Load").count()), Some(4));
    }
}
