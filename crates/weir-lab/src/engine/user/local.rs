//! Samples without a request.

use super::{NANOS_PER_MILLI, User};
use crate::engine::event_loop::Loop;
use crate::program::{Dummy, Label, LocalKind, LocalSample, Response, Text};
use crate::sample::{ErrorKind, Outcome, Sample};
use std::fmt::Write;
use std::time::Duration;
use weir_wire::Headers;

/// Content of a sample.
#[derive(Default)]
struct Content {
    good: bool,
    status: u16,
    reason: String,
    body: String,
    request: String,
    url: String,
    /// Times in nanoseconds.
    elapsed: u64,
    latency: u64,
    connect: u64,
}

impl User {
    /// A label with variables.
    pub(in crate::engine) fn label(&mut self, name: &Text, transaction: bool) -> Label {
        let name = name.render(&mut self.scope()).into_owned();
        self.events.label(&name, transaction)
    }

    /// Executes a sample without a request. Returns whether it succeeded.
    pub(super) async fn local(&mut self, events: &Loop, sample: &LocalSample) -> bool {
        let label = match &sample.name {
            None => sample.label,
            Some(name) => self.label(name, false),
        };
        let hidden = self.transactions.iter().any(|transaction| transaction.parent_only);
        let start = self.now;
        let intended = self.intended.take().unwrap_or(start);
        if !hidden {
            events.recorder.borrow_mut().start_sample(label);
        }
        let content = match &sample.kind {
            LocalKind::Debug { variables, properties } => self.debug(*variables, *properties),
            LocalKind::Dummy(dummy) => self.dummy(dummy),
        };
        if let LocalKind::Dummy(dummy) = &sample.kind
            && dummy.waits
        {
            self.sleep(content.elapsed as f64).await;
        }
        let end = start.saturating_add(content.elapsed).max(self.now);
        let failed = self.judge(sample, &content);
        let (group_users, all_users) = events.active(self.group.index);
        let outcome = match &failed {
            _ if !content.good && content.status > 0 => {
                Outcome::Error(ErrorKind::from_status(content.status))
            }
            None if content.good => Outcome::Ok,
            _ => Outcome::Error(ErrorKind::Check),
        };
        let sample = Sample {
            label,
            group: self.group.index as u32,
            user: self.number,
            intended,
            start,
            connect: content.connect,
            first_byte: start + content.latency,
            end,
            idle: 0,
            outcome,
            status: content.status,
            received: content.body.len() as u64,
            body: content.body.len() as u64,
            decoded: content.body.len() as u64,
            sent: 0,
            message: &content.reason,
            check: failed.as_deref().unwrap_or_default(),
            url: &content.url,
            content_type: "text/plain",
            group_users,
            all_users,
            transaction: false,
        };
        for transaction in &mut self.transactions {
            transaction.add(&sample);
        }
        if !hidden {
            events.recorder.borrow_mut().add(&sample, content.body.as_bytes());
        }
        outcome == Outcome::Ok
    }

    /// Runs the extractors and checks. Returns the message of a failed check.
    fn judge(&mut self, sample: &LocalSample, content: &Content) -> Option<String> {
        let head = format!("HTTP/1.1 {} {}\r\n", content.status, content.reason);
        let headers = Headers::default();
        let response = Response {
            status: content.status,
            head: head.as_bytes(),
            headers: &headers,
            body: content.body.as_bytes(),
            bytes: content.body.len() as u64,
            url: &content.url,
            request_head: b"",
            reason: None,
            request_body: content.request.as_bytes(),
            elapsed: Duration::from_nanos(content.elapsed),
        };
        if self.events.common.plan.program.reads_responses {
            self.values.set_response(content.body.clone());
        }
        let mut scope = self.events.common.scope(&mut self.values);
        for processor in &sample.post_processors {
            if let Err(reason) = processor.apply(&response, &mut scope) {
                return Some(format!("{}: {reason}", processor.name));
            }
        }
        sample.checks.iter().find_map(|check| check.verify(&response, &mut scope))
    }

    fn debug(&mut self, variables: bool, properties: bool) -> Content {
        let mut body = String::new();
        let scope = self.scope();
        if variables {
            body.push_str("JMeterVariables:\n");
            list(&mut body, scope.variables());
            body.push('\n');
        }
        if properties {
            body.push_str("JMeterProperties:\n");
            list(&mut body, scope.state.properties());
            body.push('\n');
        }
        // As in JMeter, without a URL.
        let (reason, url) = ("OK".to_owned(), "null".to_owned());
        Content { good: true, status: 200, reason, body, url, ..Content::default() }
    }

    fn dummy(&mut self, dummy: &Dummy) -> Content {
        let mut scope = self.scope();
        let mut text = |text: &Text| text.render(&mut scope).into_owned();
        let millis = |text: String| {
            let millis: f64 = text.trim().parse::<u32>().map_or(0.0, f64::from);
            (millis * NANOS_PER_MILLI) as u64
        };
        Content {
            good: text(&dummy.success).trim().eq_ignore_ascii_case("true"),
            status: text(&dummy.status).trim().parse().unwrap_or(0),
            reason: text(&dummy.reason),
            body: text(&dummy.body),
            request: text(&dummy.request),
            // As in JMeter, without a URL that is none.
            url: Some(text(&dummy.url))
                .filter(|url| url::Url::parse(url).is_ok())
                .unwrap_or_else(|| "null".to_owned()),
            elapsed: millis(text(&dummy.elapsed)),
            latency: millis(text(&dummy.latency)),
            connect: millis(text(&dummy.connect)),
        }
    }
}

/// Appends names and values, sorted by name.
fn list(out: &mut String, mut entries: Vec<(String, String)>) {
    entries.sort();
    for (name, value) in entries {
        // Writing to a string cannot fail.
        let _ = writeln!(out, "{name}={value}");
    }
}
