//! Requests of plans with scripts, which run in the helper JVM before, after and for samples.

use super::event_loop::Loop;
use super::in_flight::InFlight;
use super::plan::{Capture, PreparedRequest};
use super::request_error::RequestError;
use super::send::{ExchangeTotals, body_of, sent_message};
use super::user::{Run, User, add_sample};
use crate::jvm::{ChangedRequest, Outcome, Sample};
use crate::program::{AfterScripts, Body, Check, Label, PostProcessor, Response, Text, Url};
use crate::record::Exchange;
use crate::sample::{self, ErrorKind};
use bytes::Bytes;
use std::sync::Arc;
use std::time::Duration;
use weir_wire::{Headers, Method};

/// What scripts, extractors and checks see of a response beside the [`Sample`].
pub(super) struct Seen<'s> {
    pub(super) head: &'s [u8],
    pub(super) headers: &'s Headers,
    pub(super) request_head: &'s [u8],
    pub(super) request_body: &'s [u8],
    pub(super) elapsed: Duration,
    pub(super) post_processors: &'s [PostProcessor],
    pub(super) checks: &'s [Check],
    pub(super) scripts: Option<&'s AfterScripts>,
}

impl User {
    /// Executes a request of a plan with scripts as one sample. Returns whether it succeeded.
    pub(super) async fn scripted_request(&mut self, events: &Loop, at: usize) -> bool {
        let prepared = &events.common.plan.requests[at];
        let changed = self.scripts().request.take().map(|request| changed(prepared, *request));
        let prepared = match &changed {
            Some(Ok(changed)) => changed,
            Some(Err(_)) | None => prepared,
        };
        let label = self.request_label(prepared);
        let start = self.now;
        let intended = self.take_intended(events, start);
        let mut sum = ExchangeTotals::default();
        let destination = match changed.as_ref() {
            Some(Err(fault)) => Err(RequestError::new(ErrorKind::Request, fault.clone())),
            _ => self.destination(events, prepared),
        };
        if let Ok(destination) = &destination
            && self.is_cached(prepared, destination)
        {
            self.now = events.now();
            return true;
        }
        let hidden = self.transactions.iter().any(|transaction| transaction.parent_only);
        let flight = InFlight::new(events, &self.group);
        // Scripts may change the label, or that the sample counts at all.
        let flight = if hidden { flight } else { flight.starts(label) };
        let sent = match destination {
            Ok(destination) => self.send(events, prepared, destination, &mut sum).await,
            Err(fault) => Err(fault),
        };
        let failed = match sent {
            Ok(()) => self.load_resources(events, prepared, &mut sum).await,
            Err(_) => None,
        };
        flight.end();
        if sent.is_err() {
            sum.end = events.now();
        }
        let ended = sum.end;
        self.now = ended;
        let mut sample = self.describe(prepared, &sum, (label, start), sent.as_ref().err());
        sample.success &= failed.is_none();
        let elapsed = Duration::from_nanos(ended.saturating_sub(start));
        let is_built = sum.url.is_some();
        let check = self.judge_request((prepared, is_built), sample, elapsed).await;
        let previous = &self.scripts().previous;
        let good = previous.success;
        let status = previous.code.trim().parse().unwrap_or(sum.status);
        if self.is_ignored() {
            return good;
        }
        let label = self.changed_label(events, label);
        if !hidden {
            events.recorder.borrow_mut().start_sample(label);
        }
        let fault = sent.err();
        self.record_scripted(
            events,
            label,
            (&sum, status),
            (intended, start),
            (good, check, fault),
        );
        // Scripts took time, which is not part of the next sample.
        let before = ended;
        self.waited(before);
        self.captured.clear();
        good
    }

    /// The sample as JMeter has it.
    fn describe(
        &mut self,
        prepared: &PreparedRequest,
        sum: &ExchangeTotals,
        (label, start): (Label, u64),
        fault: Option<&RequestError>,
    ) -> Sample {
        let message = sent_message((&self.message, sum.url.is_some()), self.body, prepared);
        let encoded = prepared.encoded.as_ref().map(|encoded| &encoded.url);
        let url = sum.url.as_ref().or(encoded).cloned();
        let label = self.events.common.plan.program.labels.name(label, str::to_owned);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).replace("\r\n", "\n");
        let lines = |bytes: &[u8]| text(bytes).trim_end_matches('\n').to_owned() + "\n";
        let request_headers = text(message.head());
        let fields = request_headers.split_once('\n').map_or("", |(_, fields)| fields);
        let method = prepared.request.method.clone();
        let base = Sample {
            label,
            request_headers: fields.trim_end_matches('\n').to_owned() + "\n",
            url,
            data: text(message.body()),
            method,
            elapsed: sum.end.saturating_sub(start) / 1_000_000,
            connect: sum.connect / 1_000_000,
            received: sum.received,
            sent: sum.sent,
            ..Sample::default()
        };
        if let Some(fault) = fault {
            return Sample {
                code: "Non HTTP response code: java.io.IOException".to_owned(),
                message: format!("Non HTTP response message: {}", fault.message),
                body: fault.message.clone().into_bytes(),
                content_type: "text/plain".to_owned(),
                ..base
            };
        }
        let content_type = self.captured.headers().get("content-type").unwrap_or_default();
        Sample {
            code: sum.status.to_string(),
            message: text(crate::program::reason_of(&self.captured.text)),
            success: prepared.status_is_checked || prepared.request.success.contains(sum.status),
            response_headers: lines(&self.captured.text),
            body: body_of(&self.captured, prepared.request.client.md5).into_owned(),
            content_type: text(content_type),
            latency: sum.first_byte.saturating_sub(start) / 1_000_000,
            ..base
        }
    }

    async fn judge_request(
        &mut self,
        (prepared, is_built): (&PreparedRequest, bool),
        sample: Sample,
        elapsed: Duration,
    ) -> Option<String> {
        // Scripts are called in between: the buffers cannot stay borrowed.
        let captured = std::mem::take(&mut self.captured);
        let built = std::mem::take(&mut self.message);
        let message = sent_message((&built, is_built), self.body, prepared);
        let seen = Seen {
            head: &captured.text,
            headers: captured.headers(),
            request_head: message.head(),
            request_body: message.body(),
            elapsed,
            post_processors: &prepared.request.post_processors,
            checks: &prepared.request.checks,
            scripts: prepared.request.scripts.as_deref(),
        };
        let check = self.judge_scripted(sample, &seen).await;
        self.captured = captured;
        self.message = built;
        check
    }

    /// Runs scripts, extractors and checks of a sample in their order. Afterwards it is the previous
    /// sample of the user. Returns the message of the first failed check.
    pub(super) async fn judge_scripted(
        &mut self,
        sample: Sample,
        seen: &Seen<'_>,
    ) -> Option<String> {
        let scripts = self.scripts();
        (scripts.previous, scripts.is_new) = (sample, true);
        let none = AfterScripts::default();
        let after = seen.scripts.unwrap_or(&none);
        let run = |script| Run::at(script, after.sampler);
        for at in 0..=seen.post_processors.len() {
            for (_, script) in after.processors.iter().filter(|(before, _)| *before == at) {
                self.run_script(run(*script)).await?;
            }
            let Some(processor) = seen.post_processors.get(at) else { break };
            if let Err(reason) = self.with_response(seen, |r, scope| processor.apply(r, scope)) {
                self.scripts().previous.success = false;
                return Some(format!("{}: {reason}", processor.name));
            }
        }
        let mut failed = None;
        for at in 0..=seen.checks.len() {
            for (_, script) in after.checks.iter().filter(|(before, _)| *before == at) {
                if let Outcome::Failure(Some(message)) = self.run_script(run(*script)).await? {
                    self.fail_check(&mut failed, message);
                }
            }
            let Some(check) = seen.checks.get(at) else { break };
            let message = self.with_response(seen, |r, scope| check.verify(r, scope));
            if let Some(message) = message {
                self.fail_check(&mut failed, message);
            }
        }
        for listener in &after.listeners {
            self.run_script(run(*listener)).await?;
        }
        failed
    }

    fn fail_check(&mut self, failed: &mut Option<String>, message: String) {
        failed.get_or_insert(message);
        let scripts = self.scripts();
        if scripts.previous.success {
            (scripts.previous.success, scripts.is_new) = (false, true);
        }
    }

    /// Calls `with` with the response as it is now.
    fn with_response<R>(
        &mut self,
        seen: &Seen<'_>,
        with: impl FnOnce(&Response<'_>, &mut crate::program::Scope<'_>) -> R,
    ) -> R {
        let previous = std::mem::take(&mut self.scripts().previous);
        let response = Response {
            status: previous.code.trim().parse().unwrap_or(0),
            head: seen.head,
            reason: Some(&previous.message),
            headers: seen.headers,
            body: &previous.body,
            bytes: previous.received,
            url: previous.url.as_deref().unwrap_or_default(),
            request_head: seen.request_head,
            request_body: seen.request_body,
            elapsed: seen.elapsed,
        };
        let result = with(&response, &mut self.scope());
        self.scripts().previous = previous;
        result
    }

    fn record_scripted(
        &mut self,
        events: &Loop,
        label: Label,
        (sum, status): (&ExchangeTotals, u16),
        (intended, start): (u64, u64),
        (good, check, fault): (bool, Option<String>, Option<RequestError>),
    ) {
        let previous = std::mem::take(&mut self.scripts().previous);
        let (group_users, all_users) = events.active(self.group.index);
        let message = match &fault {
            Some(fault) => fault.message.as_str(),
            None => previous.message.as_str(),
        };
        let kind = match &fault {
            Some(fault) => fault.kind,
            None if (200..400).contains(&status) => ErrorKind::Check,
            None => ErrorKind::from_status(status),
        };
        let outcome = if good { sample::Outcome::Ok } else { sample::Outcome::Error(kind) };
        let url = fault.as_ref().and_then(|fault| fault.url.as_deref());
        let user = (self.group.index, self.number);
        let sample = sample::Sample {
            intended,
            connect: sum.connect,
            first_byte: if sum.first_byte == 0 { sum.end } else { sum.first_byte },
            outcome,
            status,
            received: sum.received,
            body: sum.body,
            decoded: previous.body.len() as u64,
            sent: sum.sent,
            message,
            check: check.as_deref().unwrap_or_default(),
            url: previous.url.as_deref().or(url).unwrap_or_default(),
            content_type: if fault.is_some() { "" } else { &previous.content_type },
            group_users,
            all_users,
            ..sample::Sample::of(label, user, (start, sum.end))
        };
        add_sample(&sample, (&mut self.transactions, &mut self.suspended));
        if !self.transactions.iter().any(|transaction| transaction.parent_only) {
            let exchange = || Exchange {
                request_head: previous.request_headers.as_bytes(),
                request_body: previous.data.as_bytes(),
                response_head: previous.response_headers.as_bytes(),
                response_body: (&*previous.body).into(),
            };
            events.recorder.borrow_mut().add(&sample, exchange);
        }
        self.scripts().previous = previous;
    }
}

/// The request that scripts have made of a sampler.
fn changed(prepared: &PreparedRequest, made: ChangedRequest) -> Result<PreparedRequest, String> {
    let mut request = (*prepared.request).clone();
    let is_connection = |(name, _): &&(Text, Text)| {
        name.as_fixed().is_some_and(|name| name.eq_ignore_ascii_case("connection"))
    };
    let connection = request.headers.iter().find(is_connection).cloned();
    let header = |(name, value): (String, String)| (Text::fixed(name), Text::fixed(value));
    request.headers = made.headers.into_iter().map(header).chain(connection).collect();
    request.url = Url::absolute(Text::fixed(made.url))?;
    request.method = made.method;
    match (made.body, &request.body) {
        // Files stay as they are in the plan.
        (_, Body::Multipart(_)) => {}
        (Some((body, content_type)), _) => {
            request.body = Body::Bytes(Bytes::from(body));
            request.client.body_type = Some(content_type);
        }
        (None, _) => request.body = Body::None,
    }
    Ok(PreparedRequest {
        method: Method::of(&request.method),
        encoded: None,
        capture: prepared.capture.max(Capture::Head),
        status_is_checked: prepared.status_is_checked,
        request: Arc::new(request),
    })
}
