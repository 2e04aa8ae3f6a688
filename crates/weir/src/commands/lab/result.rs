//! Result of a load command.

use super::load::Loaded;
use crate::{output, table};
use serde_json::{Value, json};
use std::path::Path;
use std::time::Duration;
use weir_lab::figures::{LabelFigures, Times};
use weir_lab::measure::SERVER;
use weir_lab::redaction;
use weir_lab::validity::{self, MAX_ERROR_SHARE};
use weir_lab::verdict::{Verdict, VerdictInput, judge};

/// The result.
pub(super) struct Report<'l> {
    loaded: &'l Loaded,
    figures: LabelFigures,
    verdict: Verdict,
    reasons: Vec<String>,
    /// CPU of the busiest thread of the server, as a share of a core.
    server: Option<f64>,
}

impl<'l> Report<'l> {
    /// `schedule` is the rate and the quantum of an open model with one rate.
    pub(super) fn new(schedule: Option<(f64, Duration)>, loaded: &'l Loaded) -> Self {
        let Loaded { total, names, observed, .. } = loaded;
        let (rate, quantum) = schedule.unzip();
        let mut evidence = total.evidence(rate, quantum.unwrap_or_default());
        let server = observed.iter().filter(|row| row.subject == SERVER);
        evidence.server = server.filter_map(|row| row.busiest_thread).reduce(f64::max);
        evidence.steal = mean(observed.iter().filter_map(|row| row.steal));
        let violations = validity::violations(&evidence, MAX_ERROR_SHARE);
        let (verdict, reasons) =
            judge(&VerdictInput { violations: &violations, ..VerdictInput::default() });
        let figures = total.figures(names).into_iter().next().unwrap_or_default();
        Self { loaded, figures, verdict, reasons, server: evidence.server }
    }

    pub(super) fn exit_code(&self) -> u8 {
        self.verdict.exit_code()
    }

    /// Takes over the verdict of the stored run, which includes its baseline.
    pub(super) fn set_verdict(&mut self, run: &weir_lab::results::Summary) {
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
        let Loaded { summary, total, .. } = self.loaded;
        let figures = &self.figures;
        json!({
            "event": "result",
            "samples": figures.samples,
            "ok": figures.ok,
            "expected": figures.expected,
            "errors": figures.errors,
            "throughput": figures.throughput,
            "seconds": total.window(),
            "mean": figures.response.mean,
            "max": figures.response.max,
            "percentiles": figures.response.named_percentiles(),
            "service_percentiles": figures.service.named_percentiles(),
            "received": figures.received,
            "sent": figures.sent,
            "connections": figures.connects,
            "dropped": total.sum().dropped,
            "interrupted": summary.interrupted,
            "stopped": summary.stopped,
            "generator": total.busiest_loop(),
            "io": io(summary),
            "server": self.server,
            "verdict": self.verdict,
            "reasons": self.reasons,
        })
    }

    fn text(&self) -> String {
        let Loaded { summary, total, .. } = self.loaded;
        let figures = &self.figures;
        let mut text = format!(
            "\n{} requests in {:.2} s: {:.1}/s, {} ok, {} failed",
            figures.samples,
            total.window(),
            figures.throughput,
            figures.ok,
            figures.failed()
        );
        for (count, word) in [
            (figures.expected, "expected"),
            (total.sum().dropped, "dropped"),
            (summary.interrupted, "interrupted"),
        ] {
            if count > 0 {
                text.push_str(&format!(", {count} {word}"));
            }
        }
        if summary.stopped {
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
        let busiest = percent(total.busiest_loop());
        text.push_str(&format!("busiest generator thread: {busiest}, with {}", io(summary)));
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
            std::array::from_fn(|column| match column.checked_sub(1) {
                None => name.to_owned(),
                Some(at) => format!("{:.3}", values[at]),
            })
        };
        let mut rows = vec![row("response time", &self.figures.response)];
        if self.loaded.summary.open {
            rows.push(row("service time", &self.figures.service));
        }
        let header = ["MS", "MEAN", "MIN", "P50", "P75", "P90", "P95", "P99", "P99.9", "MAX"];
        table::table(header, &rows)
    }

    fn failures(&self) -> String {
        let mut text = String::new();
        let groups = self.loaded.summary.total.failures.groups();
        let kinds = self.figures.errors.iter().filter(|(_, count)| **count > 0);
        for (kind, count) in kinds {
            text.push_str(&format!("\n\n{count} × {kind}"));
            let messages = groups.iter().filter(|group| group.kind.name() == kind);
            for group in messages.take(MAX_MESSAGES) {
                let message = redaction::message(&group.message);
                text.push_str(&format!("\n  {message} ({} ×)", group.count));
            }
        }
        text
    }
}

/// Messages that are listed for each kind of failure.
const MAX_MESSAGES: usize = 3;

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

/// How the generator has waited for connections.
fn io(summary: &weir_lab::engine::Summary) -> &'static str {
    if summary.is_ring { "ring" } else { "epoll" }
}
