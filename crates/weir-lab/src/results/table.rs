//! `summary.csv`: one row per case and label, with the columns of WSO2's published performance
//! tables.
//!
//! Throughput and times include failed samples, as in JMeter's tables. Standard deviation, minimum,
//! maximum and percentiles are response times; KB is 1024 bytes.

use super::{Cell, Summary};
use crate::figures::LabelFigures;
use std::io::Write;

/// The columns, in order.
pub const COLUMNS: [&str; 24] = [
    "Scenario Name",
    "Heap Size",
    "Concurrent Users",
    "Message Size (Bytes)",
    "Back-end Service Delay (ms)",
    "Label",
    "# Samples",
    "Error Count",
    "Error %",
    "Throughput (Requests/sec)",
    "Average Response Time (ms)",
    "Average Users in the System",
    "Standard Deviation of Response Time (ms)",
    "Minimum Response Time (ms)",
    "Maximum Response Time (ms)",
    "75th Percentile of Response Time (ms)",
    "90th Percentile of Response Time (ms)",
    "95th Percentile of Response Time (ms)",
    "98th Percentile of Response Time (ms)",
    "99th Percentile of Response Time (ms)",
    "99.9th Percentile of Response Time (ms)",
    "Received (KB/sec)",
    "Sent (KB/sec)",
    "GC Throughput (%)",
];

/// Writes the table.
///
/// # Errors
/// The output cannot be written.
pub fn write(out: impl Write, summary: &Summary) -> csv::Result<()> {
    let mut table = csv::Writer::from_writer(out);
    table.write_record(COLUMNS)?;
    for cell in &summary.cells {
        let name = if cell.name.is_empty() { &summary.name } else { &cell.name };
        for figures in &cell.labels {
            table.write_record(row(name, cell, figures))?;
        }
    }
    table.flush()?;
    Ok(())
}

fn row(name: &str, cell: &Cell, figures: &LabelFigures) -> [String; COLUMNS.len()] {
    let traits = &cell.attributes;
    let count = |value: Option<u64>| value.map(|value| value.to_string()).unwrap_or_default();
    let two = |value: f64| format!("{value:.2}");
    let rate = |bytes: u64| two(bytes as f64 / 1024.0 / cell.window.max(f64::MIN_POSITIVE));
    let times = &figures.response;
    [
        name.to_owned(),
        traits.heap.clone().unwrap_or_default(),
        count(traits.users),
        count(traits.message_bytes),
        traits.delay_ms.map(|delay| format!("{delay}")).unwrap_or_default(),
        figures.label.clone(),
        figures.samples.to_string(),
        figures.failed().to_string(),
        two(100.0 * figures.error_share()),
        two(figures.throughput),
        two(times.mean),
        // Little's law.
        two(figures.throughput * times.mean / 1e3),
        two(times.deviation),
        two(times.min),
        two(times.max),
        two(times.p75),
        two(times.p90),
        two(times.p95),
        two(times.p98),
        two(times.p99),
        two(times.p99_9),
        rate(figures.received),
        rate(figures.sent),
        traits.gc_throughput.map(two).unwrap_or_default(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::Times;
    use crate::results::CaseAttributes;

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
        assert!(row.ends_with(",240.50,0.00,1000.00,0.00,"), "{row}");
        assert_eq!(text.lines().count(), 2);
    }
}
