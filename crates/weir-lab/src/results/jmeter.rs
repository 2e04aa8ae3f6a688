//! `summary-report.csv` and `aggregate-report.csv`: the figures of a run in the form of JMeter's
//! Summary Report and Aggregate Report, as [`crate::tables`] has them of a results file.
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
    let mut table = csv::Writer::from_writer(out);
    table.write_record(report.columns())?;
    let several = summary.cells.len() > 1;
    for cell in &summary.cells {
        for mut row in rows(&cell.labels, cell.window, report) {
            if several {
                row[0] = format!("{}: {}", cell.name, row[0]);
            }
            table.write_record(row)?;
        }
    }
    table.flush()?;
    Ok(())
}

/// The rows of a report for figures over `window` seconds. The first figures are the total, which
/// is the last row of a report.
#[must_use]
pub fn rows(labels: &[LabelFigures], window: f64, report: Report) -> Vec<Vec<String>> {
    let all = labels.iter().skip(1).chain(labels.first());
    all.map(|figures| row(figures, window, report)).collect()
}

fn row(figures: &LabelFigures, window: f64, report: Report) -> Vec<String> {
    let whole = |ms: f64| format!("{}", ms as u64);
    let rate = |bytes: u64| {
        let seconds = if window > 0.0 { window } else { f64::INFINITY };
        format!("{:.2}", bytes as f64 / 1024.0 / seconds)
    };
    let times = &figures.service;
    let range = [times.min, times.max].map(whole);
    let error = format!("{:.3}%", 100.0 * figures.error_share());
    let throughput = format!("{:.5}", figures.throughput);
    let (received, sent) = (rate(figures.received), rate(figures.sent));
    let mut row = vec![figures.label.clone(), figures.samples.to_string(), whole(times.mean)];
    match report {
        Report::Summary => {
            let bytes = figures.received as f64 / figures.samples.max(1) as f64;
            row.extend(range);
            row.push(format!("{:.2}", times.deviation));
            row.extend([error, throughput, received, sent, format!("{bytes:.1}")]);
        }
        Report::Aggregate => {
            row.extend([times.p50, times.p90, times.p95, times.p99].map(whole));
            row.extend(range);
            row.extend([error, throughput, received, sent]);
        }
    }
    row
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::Times;
    use crate::results::Cell;
    use crate::tables::{AGGREGATE, SUMMARY};

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
        assert_eq!(summary[0], SUMMARY.join(","));
        assert_eq!(summary[1], "\"a, b\",8,3,1,12,0.00,12.500%,4.00000,2.00,0.00,512.0");
        assert!(summary[2].starts_with("TOTAL,8,"), "{summary:?}");
        let aggregate = lines(Report::Aggregate);
        assert_eq!(aggregate[0], AGGREGATE.join(","));
        assert_eq!(aggregate[1], "\"a, b\",8,3,3,0,0,9,1,12,12.500%,4.00000,2.00,0.00");
    }
}
