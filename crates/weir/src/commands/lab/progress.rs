//! Live progress: a view on a terminal, otherwise one line per second as text or JSON.

mod live;

use crate::output;
use live::Live;
use serde_json::json;
use std::io::IsTerminal;
use weir_lab::engine::{Event, LoadStep, SearchedLoad};
use weir_lab::program::{Label, Program};
use weir_lab::record::Interval;

/// Prints the progress.
pub(super) struct Progress {
    how: How,
    /// Current activity.
    phase: String,
    /// Labels of transactions, whose samples repeat those of their requests.
    transactions: Vec<Label>,
}

enum How {
    Terminal(Box<Live>),
    Lines,
    Json,
}

impl Progress {
    /// To standard error, or with `json` to standard output.
    pub(super) fn new(json: bool) -> Self {
        let how = if json {
            How::Json
        } else if std::io::stderr().is_terminal() && output::supports_cursor() {
            How::Terminal(Box::new(Live::new()))
        } else {
            How::Lines
        };
        Self { how, phase: "running".to_owned(), transactions: Vec::new() }
    }

    /// Shows an event.
    pub(super) fn show(&mut self, event: &Event<'_>) {
        match event {
            Event::Groups(_) | Event::StepRamped => {}
            Event::Second(second) => self.second(second),
            Event::LoadStep(step) => self.load_step(step),
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

    /// The following seconds are of this program.
    pub(super) fn program(&mut self, program: &Program) {
        self.transactions = program.transactions();
        if let How::Terminal(live) = &mut self.how {
            live.start(program);
        }
    }

    /// Shows a message that is no activity of the run.
    pub(super) fn note(&mut self, text: &str) {
        self.end();
        output::note(&format!("note: {text}"));
    }

    fn second(&mut self, second: &Interval) {
        if let How::Terminal(live) = &mut self.how {
            return live.second(&self.phase, second);
        }
        let all = second.all(&self.transactions);
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

    fn load_step(&mut self, step: &LoadStep) {
        if let How::Json = self.how {
            let mut line = json!({
                "event": "hold", "achieved": step.achieved, "errors": step.errors,
                "dropped": step.dropped, "verdict": step.verdict.to_string(),
            });
            match step.load {
                SearchedLoad::Rate(rate) => line["rate"] = rate.into(),
                SearchedLoad::Users(users) => line["users"] = users.into(),
            }
            return output::line(&line.to_string());
        }
        self.end();
        output::note(&format!("      {step}"));
    }

    fn line(&mut self, text: &str) {
        match &mut self.how {
            How::Terminal(live) => live.line(text),
            How::Lines | How::Json => output::note(text),
        }
    }

    /// Ends the live view: what follows is printed below.
    pub(super) fn end(&mut self) {
        if let How::Terminal(live) = &mut self.how {
            live.end();
        }
    }
}
