//! `summary-report.csv` and `aggregate-report.csv`: the figures of a run in the format of JMeter's
//! Summary Report and Aggregate Report, like those that [`crate::tables`] computes from a results
//! file.
//!
//! Times are integer milliseconds, as in JMeter. Percentiles come from histograms and are accurate
//! to 0.1 %. In a run with several cases a label is prefixed with its case.

use super::Summary;
use crate::figures::LabelFigures;
use crate::tables::Report;
use std::io::Write;

/// Writes a report: every label of every case, each case's `TOTAL` last.
///
/// # Errors
/// The output cannot be written.
pub(super) fn write(out: impl Write, summary: &Summary, report: Report) -> csv::Result<()> {
    let several = summary.cells.len() > 1;
    let rows = summary.cells.iter().flat_map(|cell| {
        rows(&cell.labels, cell.window, report).into_iter().map(move |mut row| {
            if several {
                row[0] = format!("{}: {}", cell.name, row[0]);
            }
            row
        })
    });
    report.write(out, rows)
}

/// The rows of a report for figures over `window` seconds. The first figures are the total, which
/// is the last row of a report.
#[must_use]
pub fn rows(labels: &[LabelFigures], window: f64, report: Report) -> Vec<Vec<String>> {
    let all = labels.iter().skip(1).chain(labels.first());
    all.map(|figures| report.row(figures, window)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::Times;
    use crate::results::Cell;

    fn lines(report: Report) -> Vec<String> {
        let figures = |label: &str, samples| LabelFigures {
            label: label.to_owned(),
            samples,
            errors: [("timeout".to_owned(), 1)].into(),
            throughput: samples as f64 / 2.0,
            service: Times {
                mean: 3.7,
                min: 1.0,
                p50: 3.0,
                p99: 9.9,
                max: 12.2,
                ..Times::default()
            },
            received: 4096,
            ..LabelFigures::default()
        };
        let labels = vec![figures("TOTAL", 8), figures("a, b", 8)];
        let cell = Cell { window: 2.0, labels, ..Cell::default() };
        let mut out = Vec::new();
        let summary = Summary { cells: vec![cell], ..Summary::default() };
        write(&mut out, &summary, report).expect("memory");
        String::from_utf8(out).expect("text").lines().map(str::to_owned).collect()
    }

    #[test]
    fn rows_are_those_of_jmeter_and_the_total_comes_last() {
        let summary = lines(Report::Summary);
        assert_eq!(summary[0], Report::Summary.columns().join(","));
        assert_eq!(summary[1], "\"a, b\",8,3,1,12,0.00,12.500%,4.00000,2.00,0.00,512.0");
        assert!(summary[2].starts_with("TOTAL,8,"), "{summary:?}");
        let aggregate = lines(Report::Aggregate);
        assert_eq!(aggregate[0], Report::Aggregate.columns().join(","));
        assert_eq!(aggregate[1], "\"a, b\",8,3,3,0,0,9,1,12,12.500%,4.00000,2.00,0.00");
    }
}
