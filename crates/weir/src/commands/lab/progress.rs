//! Live progress: one updated line on a terminal, otherwise one line per second as text or JSON.

use crate::output;
use serde_json::json;
use std::io::{IsTerminal, Write};
use weir_lab::engine::{Event, RateStep};
use weir_lab::record::Interval;

/// Prints the progress.
pub(super) struct Progress {
    how: How,
    /// Current activity.
    phase: String,
    /// Width of the updated line.
    width: usize,
}

enum How {
    Terminal,
    Lines,
    Json,
}

impl Progress {
    /// To standard error, or with `json` to standard output.
    pub(super) fn new(json: bool) -> Self {
        let how = if json {
            How::Json
        } else if std::io::stderr().is_terminal() {
            How::Terminal
        } else {
            How::Lines
        };
        Self { how, phase: "running".to_owned(), width: 0 }
    }

    /// Shows an event.
    pub(super) fn show(&mut self, event: &Event<'_>) {
        match event {
            Event::Groups(_) => {}
            Event::Second(second) => self.second(second),
            Event::RateStep(step) => self.rate_step(step),
        }
    }

    /// Shows the current activity.
    pub(super) fn doing(&mut self, what: &str) {
        match self.how {
            How::Json => {
                output::line(&json!({ "event": "doing", "what": what }).to_string());
            }
            _ => self.line(&format!("       {what}")),
        }
    }

    /// Starts a round.
    pub(super) fn round(&mut self, name: &str) {
        if let How::Json = self.how {
            output::line(&json!({ "event": "round", "name": name }).to_string());
        }
        name.trim().clone_into(&mut self.phase);
    }

    fn second(&mut self, second: &Interval) {
        let all = second.all(&[]);
        let ms = |percentile| all.response().value_at_percentile(percentile) as f64 / 1e6;
        let (rate, p50, p99) = (all.samples(), ms(50.0), ms(99.0));
        let (failed, at) = (all.failed(), second.second);
        if let How::Json = self.how {
            return output::line(
                &json!({
                    "event": "second", "second": at, "samples": rate, "errors": failed,
                    "p50": p50, "p99": p99, "users": second.users,
                    "in_flight": second.in_flight, "dropped": second.dropped,
                })
                .to_string(),
            );
        }
        let mut text =
            format!("{at:>4} s  {}  {rate}/s  p50 {p50:.2} ms  p99 {p99:.2} ms", self.phase);
        text.push_str(&format!("  {failed} errors  {} users", second.users));
        if second.dropped > 0 {
            text.push_str(&format!("  {} dropped", second.dropped));
        }
        self.line(&text);
    }

    fn rate_step(&mut self, step: &RateStep) {
        if let How::Json = self.how {
            return output::line(
                &json!({
                    "event": "hold", "rate": step.rate, "achieved": step.achieved,
                    "errors": step.errors, "dropped": step.dropped, "verdict": step.verdict.to_string(),
                })
                .to_string(),
            );
        }
        self.end();
        output::note(&format!("      {step}"));
    }

    fn line(&mut self, text: &str) {
        let How::Terminal = self.how else { return output::note(text) };
        let width = text.chars().count();
        let mut out = std::io::stderr().lock();
        let _ = write!(out, "\r{text:<before$}", before = self.width).and_then(|()| out.flush());
        self.width = width;
    }

    /// Ends the updated line.
    pub(super) fn end(&mut self) {
        if let (How::Terminal, 1..) = (&self.how, self.width) {
            output::note("");
            self.width = 0;
        }
    }
}
