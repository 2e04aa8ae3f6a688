//! Result of a load command.

use crate::{output, table};
use serde_json::{Map, Value, json};
use std::path::Path;
use std::time::Duration;
use weir_lab::engine::Summary;
use weir_lab::figures::{LabelFigures, Times};
use weir_lab::measure::SERVER;
use weir_lab::record::FirstError;
use weir_lab::results::{ServerRow, Total};
use weir_lab::validity::{self, MAX_ERROR_SHARE};
use weir_lab::verdict::{Verdict, VerdictInput, judge};

/// The result.
pub(super) struct Report {
    figures: LabelFigures,
    verdict: Verdict,
    reasons: Vec<String>,
    errors: Vec<FirstError>,
    seconds: f64,
    interrupted: u64,
    /// The load was stopped before its end.
    stopped: bool,
    dropped: u64,
    /// CPU of the busiest thread of generator and server, as a share of a core.
    generator: f64,
    server: Option<f64>,
    open: bool,
}

impl Report {
    /// `schedule` is the rate and the quantum of an open model with one rate.
    pub(super) fn new(
        schedule: Option<(f64, Duration)>,
        summary: &Summary,
        total: &Total,
        names: &[String],
        rows: &[ServerRow],
    ) -> Self {
        let figures = total.figures(names).into_iter().next().unwrap_or_default();
        let (rate, quantum) = schedule.unzip();
        let mut evidence = total.evidence(rate, quantum.unwrap_or_default());
        let server = rows.iter().filter(|row| row.subject == SERVER);
        evidence.server = server.filter_map(|row| row.busiest_thread).reduce(f64::max);
        evidence.steal = mean(rows.iter().filter_map(|row| row.steal));
        let flaws = validity::violations(&evidence, MAX_ERROR_SHARE);
        let (verdict, reasons) =
            judge(&VerdictInput { violations: &flaws, ..VerdictInput::default() });
        Self {
            figures,
            verdict,
            reasons,
            errors: summary.total.first_errors.clone(),
            seconds: total.window(),
            interrupted: summary.interrupted,
            stopped: summary.stopped,
            dropped: total.dropped,
            generator: evidence.generator,
            server: evidence.server,
            open: summary.open,
        }
    }

    pub(super) fn exit_code(&self) -> u8 {
        self.verdict.exit_code()
    }

    /// Takes over the verdict of the stored run, which includes its baseline.
    pub(super) fn take_verdict(&mut self, run: &weir_lab::results::Summary) {
        self.verdict = run.verdict;
        self.reasons.clone_from(&run.reasons);
    }

    /// Prints the result, and the path of the report.
    pub(super) fn print(&self, as_json: bool, folder: Option<&Path>) {
        if as_json {
            let mut line = self.json();
            if let Some(folder) = folder {
                line["folder"] = folder.display().to_string().into();
            }
            output::line(&line.to_string());
        } else {
            output::text(&self.text());
            if let Some(folder) = folder {
                output::line(&format!("\n{}", folder.join("report.html").display()));
            }
        }
    }

    fn json(&self) -> Value {
        let percentiles = |times: &Times| -> Value {
            let values = times.percentiles();
            let named = Times::PERCENTILES.iter().zip(values);
            named
                .map(|((name, _), ms)| ((*name).to_owned(), json!(ms)))
                .collect::<Map<_, _>>()
                .into()
        };
        let figures = &self.figures;
        json!({
            "event": "result",
            "samples": figures.samples,
            "ok": figures.ok,
            "expected": figures.expected,
            "errors": figures.errors,
            "throughput": figures.throughput,
            "seconds": self.seconds,
            "mean": figures.response.mean,
            "max": figures.response.max,
            "percentiles": percentiles(&figures.response),
            "service_percentiles": percentiles(&figures.service),
            "received": figures.received,
            "sent": figures.sent,
            "connections": figures.connects,
            "dropped": self.dropped,
            "interrupted": self.interrupted,
            "stopped": self.stopped,
            "generator": self.generator,
            "server": self.server,
            "verdict": self.verdict,
            "reasons": self.reasons,
        })
    }

    fn text(&self) -> String {
        let figures = &self.figures;
        let mut text = format!(
            "\n{} requests in {:.2} s: {:.1}/s, {} ok, {} failed",
            figures.samples,
            self.seconds,
            figures.throughput,
            figures.ok,
            figures.failed()
        );
        for (count, word) in [
            (figures.expected, "expected"),
            (self.dropped, "dropped"),
            (self.interrupted, "interrupted"),
        ] {
            if count > 0 {
                text.push_str(&format!(", {count} {word}"));
            }
        }
        if self.stopped {
            text.push_str("\nstopped early: partial result");
        }
        text.push_str("\n\n");
        text.push_str(&self.times());
        text.push_str(&format!(
            "\n{} received, {} sent over {} connections\n",
            bytes(figures.received),
            bytes(figures.sent),
            figures.connects
        ));
        let percent = |share: f64| format!("{:.0} % of a core", 100.0 * share);
        text.push_str(&format!("busiest generator thread: {}", percent(self.generator)));
        if let Some(server) = self.server {
            text.push_str(&format!("; server: {}", percent(server)));
        }
        text.push_str(&self.failures());
        text.push_str(&format!("\n\n{}\n", self.verdict));
        for reason in &self.reasons {
            text.push_str(&format!("  {reason}\n"));
        }
        text
    }

    /// Times, in milliseconds.
    fn times(&self) -> String {
        let row = |name: &str, times: &Times| {
            let [p50, p75, p90, p95, _, p99, p99_9, _] = times.percentiles();
            let values = [times.mean, times.min, p50, p75, p90, p95, p99, p99_9, times.max];
            let mut cells: [String; 10] = Default::default();
            cells[0] = name.to_owned();
            for (cell, value) in cells[1..].iter_mut().zip(values) {
                *cell = format!("{value:.3}");
            }
            cells
        };
        let mut rows = vec![row("response time", &self.figures.response)];
        if self.open {
            rows.push(row("service time", &self.figures.service));
        }
        let header = ["MS", "MEAN", "MIN", "P50", "P75", "P90", "P95", "P99", "P99.9", "MAX"];
        table::table(header, &rows)
    }

    fn failures(&self) -> String {
        let mut text = String::new();
        let kinds = self.figures.errors.iter().filter(|(_, count)| **count > 0);
        for (kind, count) in kinds {
            text.push_str(&format!("\n\n{count} × {kind}"));
            for error in self.errors.iter().filter(|error| error.kind.name() == kind).take(1) {
                text.push_str(&format!("\n  {}", error.message));
            }
        }
        text
    }
}

fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = values.fold((0.0, 0.0), |(sum, count), value| (sum + value, count + 1.0));
    if count > 0.0 { sum / count } else { 0.0 }
}

fn bytes(count: u64) -> String {
    match count {
        0..10_000 => format!("{count} bytes"),
        10_000..10_000_000 => format!("{:.1} KiB", count as f64 / 1024.0),
        _ => format!("{:.1} MiB", count as f64 / 1_048_576.0),
    }
}
