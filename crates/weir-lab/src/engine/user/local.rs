//! Samples without a request.

use super::script::Run;
use super::transaction::add_sample;
use super::{NANOS_PER_MILLI, User};
use crate::engine::event_loop::Loop;
use crate::engine::plan::PreparedRequest;
use crate::engine::scripted::Seen;
use crate::jvm::{self, Outcome as ScriptOutcome};
use crate::program::{Dummy, Label, LocalKind, LocalSample, Response, ScriptId, Text};
use crate::record::Exchange;
use crate::sample::{ErrorKind, Outcome, Sample};
use std::fmt::Write;
use std::time::Duration;
use weir_wire::Headers;

/// The URL of a sample without one, in results.
const NO_URL: &str = "null";

/// Content of a sample.
#[derive(Default)]
struct Content {
    good: bool,
    status: u16,
    reason: String,
    body: String,
    request: String,
    url: String,
    /// Bytes that a script has sent and received.
    sent: u64,
    received: u64,
    /// Times in nanoseconds.
    elapsed: u64,
    latency: u64,
    connect: u64,
}

impl Content {
    /// The outcome of the sample; `failed` if a check failed.
    fn outcome(&self, failed: bool) -> Outcome {
        match self.good {
            false if self.status > 0 => Outcome::Error(ErrorKind::from_status(self.status)),
            true if !failed => Outcome::Ok,
            _ => Outcome::Error(ErrorKind::Check),
        }
    }
}

impl User {
    /// A label with variables.
    pub(in crate::engine) fn label(&mut self, name: &Text, transaction: bool) -> Label {
        let name = name.render(&mut self.scope()).into_owned();
        self.events.label(&name, transaction)
    }

    /// The label of a request: its name may have variables.
    pub(in crate::engine) fn request_label(&mut self, prepared: &PreparedRequest) -> Label {
        let request = &prepared.request;
        request.name.as_ref().map_or(request.label, |name| self.label(name, false))
    }

    /// Executes a sample without a request. Returns whether it succeeded.
    pub(super) async fn local(&mut self, events: &Loop, sample: &LocalSample) -> bool {
        let label = match &sample.name {
            None => sample.label,
            Some(name) => self.label(name, false),
        };
        let hidden = self.transactions.iter().any(|transaction| transaction.parent_only);
        let start = self.now;
        let intended = self.take_intended(events, start);
        let is_script = matches!(sample.kind, LocalKind::Script(_));
        // A script may have no sample.
        if !hidden && !is_script {
            events.recorder.borrow_mut().start_sample(label);
        }
        let mut content = match &sample.kind {
            LocalKind::Debug { variables, properties, system } => {
                self.debug(*variables, *properties, *system)
            }
            LocalKind::Dummy(dummy) => self.dummy(dummy),
            LocalKind::Script(script) => match Box::pin(self.script_sample(*script)).await {
                Some(content) => content,
                None => return true,
            },
        };
        if let LocalKind::Dummy(dummy) = &sample.kind
            && dummy.waits
        {
            self.sleep(content.elapsed as f64).await;
        }
        let end = start.saturating_add(content.elapsed);
        let end = if is_script { end } else { end.max(self.now) };
        // Without a wait nothing else takes the time by which the user ends.
        self.now = events.now();
        let failed = match events.common.helper {
            Some(_) => Box::pin(self.judge_with_scripts(sample, label, &mut content)).await,
            None => self.judge(sample, &content),
        };
        let label = self.changed_label(events, label);
        if is_script && self.is_ignored() {
            return content.good;
        }
        if !hidden && is_script {
            events.recorder.borrow_mut().start_sample(label);
        }
        let (group_users, all_users) = events.active(self.group.index);
        let outcome = content.outcome(failed.is_some());
        let user = (self.group.index, self.number);
        let sample = Sample {
            intended,
            connect: content.connect,
            first_byte: start + content.latency,
            outcome,
            status: content.status,
            received: content.received.max(content.body.len() as u64),
            body: content.body.len() as u64,
            decoded: content.body.len() as u64,
            sent: content.sent,
            message: &content.reason,
            check: failed.as_deref().unwrap_or_default(),
            url: &content.url,
            content_type: "text/plain",
            group_users,
            all_users,
            ..Sample::of(label, user, (start, end))
        };
        add_sample(&sample, (&mut self.transactions, &mut self.suspended));
        if !hidden {
            let exchange = || Exchange {
                response_body: content.body.as_bytes().into(),
                ..Exchange::default()
            };
            events.recorder.borrow_mut().add(&sample, exchange);
        }
        outcome == Outcome::Ok
    }

    /// The sample of a script; `None` if it has none.
    async fn script_sample(&mut self, script: ScriptId) -> Option<Content> {
        let sample = match self.run_script(Run::of(script)).await? {
            ScriptOutcome::Sample(sample) => *sample,
            _ => return None,
        };
        let nanos = |millis: u64| millis.saturating_mul(NANOS_PER_MILLI as u64);
        Some(Content {
            good: sample.success,
            status: sample.code.trim().parse().unwrap_or(0),
            reason: sample.message,
            body: String::from_utf8_lossy(&sample.body).into_owned(),
            request: sample.data,
            url: sample.url.unwrap_or_else(|| NO_URL.to_owned()),
            sent: sample.sent,
            received: sample.received,
            elapsed: nanos(sample.elapsed),
            latency: nanos(sample.latency),
            connect: nanos(sample.connect),
        })
    }

    /// Runs scripts, extractors and checks in their order.
    async fn judge_with_scripts(
        &mut self,
        sample: &LocalSample,
        label: Label,
        content: &mut Content,
    ) -> Option<String> {
        let labels = &self.events.common.plan.program.labels;
        let millis = |nanos: u64| nanos / NANOS_PER_MILLI as u64;
        let mut known = jvm::Sample {
            label: labels.name(label, str::to_owned),
            code: content.status.to_string(),
            message: content.reason.clone(),
            success: content.good,
            body: content.body.clone().into_bytes(),
            content_type: "text/plain".to_owned(),
            url: Some(content.url.clone()).filter(|url| url != NO_URL),
            data: content.request.clone(),
            elapsed: millis(content.elapsed),
            latency: millis(content.latency),
            connect: millis(content.connect),
            received: content.received,
            sent: content.sent,
            ..jvm::Sample::default()
        };
        if matches!(sample.kind, LocalKind::Script(_)) {
            // Also its headers, and its label.
            known = std::mem::take(&mut self.scripts().previous);
        }
        let headers = Headers::default();
        let head = known.response_headers.clone();
        let seen = Seen {
            head: head.as_bytes(),
            headers: &headers,
            request_head: b"",
            request_body: content.request.as_bytes(),
            elapsed: Duration::from_nanos(content.elapsed),
            post_processors: &sample.post_processors,
            checks: &sample.checks,
            scripts: sample.scripts.as_deref(),
        };
        let failed = self.judge_scripted(known, &seen).await;
        self.now = self.events.now();
        let previous = &self.scripts().previous;
        content.good = previous.success;
        content.status = previous.code.trim().parse().unwrap_or(content.status);
        content.reason.clone_from(&previous.message);
        content.body = String::from_utf8_lossy(&previous.body).into_owned();
        failed
    }

    /// Runs the extractors and checks. Returns the message of a failed check.
    fn judge(&mut self, sample: &LocalSample, content: &Content) -> Option<String> {
        let headers = Headers::default();
        let response = Response {
            status: content.status,
            head: b"",
            headers: &headers,
            body: content.body.as_bytes(),
            bytes: content.body.len() as u64,
            url: Some(content.url.as_str()).filter(|url| *url != NO_URL).unwrap_or_default(),
            request_head: b"",
            reason: Some(&content.reason),
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

    fn debug(&mut self, variables: bool, properties: bool, system: bool) -> Content {
        let (mut body, mut request) = (String::new(), String::new());
        let scope = self.scope();
        let parts = [
            ("JMeterVariables", variables.then(|| scope.variables())),
            ("JMeterProperties", properties.then(|| scope.state.properties())),
            ("SystemProperties", system.then(Vec::new)),
        ];
        for (name, entries) in parts {
            let Some(mut entries) = entries else { continue };
            entries.sort();
            // Writing to a string cannot fail.
            let _ = writeln!(request, "{name}");
            let _ = writeln!(body, "{name}:");
            for (name, value) in entries {
                let _ = writeln!(body, "{name}={value}");
            }
            body.push('\n');
        }
        // As in JMeter, without a URL.
        let (reason, url) = ("OK".to_owned(), NO_URL.to_owned());
        Content { good: true, status: 200, reason, body, request, url, ..Content::default() }
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
                .unwrap_or_else(|| NO_URL.to_owned()),
            elapsed: millis(text(&dummy.elapsed)),
            latency: millis(text(&dummy.latency)),
            connect: millis(text(&dummy.connect)),
            ..Content::default()
        }
    }
}
