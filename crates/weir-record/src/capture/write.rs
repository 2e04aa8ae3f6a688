//! Encodes and writes the records of a transaction.

use super::body::BodyCapture;
use super::{Recording, State, counting};
use crate::transaction::Transaction;
use std::borrow::Cow;
use std::cell::RefCell;
use std::time::{Duration, Instant};
use weir_config::{Capture, CaptureLevel};
use weir_http::buffer;
use weir_http::forwarded;
use weir_http::problem::Problem;
use weir_journal::{BodyMetadata, Completed, Discarded, Lane, Outcome, Received, counted};
use weir_model::Annotations;

/// Bytes of the bodies that are written with the end of a transaction.
#[derive(Default)]
struct Bodies<'b> {
    request: BodyMetadata,
    request_body: Cow<'b, [u8]>,
    response: BodyMetadata,
    response_body: Cow<'b, [u8]>,
}

impl Recording {
    /// Writes the end of a transaction, or the complete transaction.
    pub(super) fn write_end(
        &mut self,
        of: &Transaction<'_>,
        outcome: Outcome,
        last: &[u8],
        now: Instant,
        total: Duration,
    ) {
        let state = std::mem::replace(&mut self.state, State::Off);
        if state == State::Rejected {
            self.counted = counting::rejected(self.counted, of);
        }
        let count_only = self.count_only;
        if count_only && self.counted == 0 {
            return;
        }
        let Capture { level, .. } = self.capture;
        let error = outcome != Outcome::Completed || of.response.status >= 400;
        let stored = !matches!(state, State::Rejected | State::Shed) && !count_only;
        let kept = stored && self.capture.keeps(error, total);
        let discarded = match state {
            State::Open(_) if !kept && level >= CaptureLevel::Headers => Discarded::Payload,
            State::Open(_) if self.discarded => Discarded::Response,
            _ => Discarded::Nothing,
        };
        let level = match (count_only, kept) {
            (true, _) => CaptureLevel::None,
            (false, true) => level,
            (false, false) => CaptureLevel::Meta,
        };
        let bodies = self.bodies(of, kept, level, last);
        let mut stages = self.stages;
        let mut head = buffer::take_vec();
        if level >= CaptureLevel::Headers {
            of.redaction.write(&of.response.headers, &mut head);
        }
        let none = Annotations::EMPTY;
        let notes = of.notes.filter(|_| !count_only).unwrap_or(&none);
        let logs: Vec<&str> = notes.logs.iter().map(String::as_str).collect();
        let completed = Completed {
            outcome,
            status: of.response.status,
            problem: of.problem.filter(|_| !count_only).map(Problem::slug).unwrap_or_default(),
            problem_status: of.problem.map(Problem::status).unwrap_or_default(),
            detail: of.reason.filter(|_| !count_only).unwrap_or_default(),
            upstream: if count_only { "" } else { of.upstream },
            upstream_target: if count_only { "" } else { of.upstream_target },
            configuration: if count_only { "" } else { of.configuration },
            attempts: if count_only { &[] } else { of.attempts },
            head: &head,
            stages: stages.finish(now, total),
            request: bodies.request,
            response: bodies.response,
            request_body: &bodies.request_body,
            response_body: &bodies.response_body,
            discarded,
            keys: &pairs(&notes.keys),
            properties: &pairs(&notes.properties),
            logs: &logs,
            retries: of.retries.try_into().unwrap_or(u8::MAX),
            shortened: state == State::Shed,
            possible_end: None,
        };
        self.write_record(of, state, level, &completed);
        buffer::release_vec(head);
    }

    fn bodies<'b>(
        &mut self,
        of: &Transaction<'_>,
        kept: bool,
        level: CaptureLevel,
        last: &'b [u8],
    ) -> Bodies<'b> {
        let mut bodies = Bodies::default();
        let response = self.take_response(of, level);
        if kept {
            (bodies.response, bodies.response_body) = response.finish(last, of.bodies);
        } else {
            bodies.response = response.forget(last);
        }
        if let Some(request) = self.request.take() {
            // The remaining bytes are not captured.
            let (level, headers) = (CaptureLevel::Meta, &of.request.head.headers);
            let nothing = BodyCapture::new(self.recorder, level, of.bodies, headers);
            let request = request.body.replace(nothing);
            if kept {
                (bodies.request, bodies.request_body) = request.finish(b"", of.bodies);
            } else {
                bodies.request = request.forget(b"");
            }
        }
        bodies
    }

    fn write_record(
        &self,
        of: &Transaction<'_>,
        state: State,
        level: CaptureLevel,
        completed: &Completed<'_>,
    ) {
        let Some(lane) = &self.recorder.lane else { return };
        let written = match state {
            State::Open(handle) => lane.borrow_mut().complete(handle, completed).map(|_| ()),
            State::Whole | State::Rejected | State::Shed => {
                self.write_whole(of, lane, level, completed);
                Ok(())
            }
            State::Reserved(room) => {
                let write = |received: &Received<'_>| {
                    lane.borrow_mut().append_reserved(room, received, completed)
                };
                self.with_received(of, level, write).map(|_| ())
            }
            State::Off => Ok(()),
        };
        if written.is_err() {
            self.not_written();
        }
    }

    /// Writes a transaction in one record. If space is short: without headers and bodies, or else a
    /// count-only record.
    fn write_whole(
        &self,
        of: &Transaction<'_>,
        lane: &RefCell<Lane>,
        level: CaptureLevel,
        completed: &Completed<'_>,
    ) {
        let write = |level, completed: &Completed<'_>| {
            let write = |received: &Received<'_>| lane.borrow_mut().append(received, completed);
            self.with_received(of, level, write).is_ok()
        };
        let stats = &self.recorder.stats;
        if !self.count_only {
            let reduced = completed.reduced();
            if write(level, completed) || write(CaptureLevel::Meta, &reduced) {
                return;
            }
            stats.unrecorded.add(1);
        }
        if self.counted == 0 {
            return;
        }
        let call = Completed {
            problem: "",
            upstream: "",
            upstream_target: "",
            configuration: "",
            shortened: false,
            ..completed.reduced()
        };
        if lane.borrow_mut().count_call(&self.metering_fields(of), &call).is_err() {
            stats.uncounted.add(1);
        }
    }

    /// Assembles the fields that are known before the response.
    pub(super) fn with_received<T>(
        &self,
        of: &Transaction<'_>,
        level: CaptureLevel,
        write: impl FnOnce(&Received<'_>) -> T,
    ) -> T {
        if self.count_only {
            let received = Received {
                counted: self.counted | counted::COUNT_ONLY,
                ..self.metering_fields(of)
            };
            return write(&received);
        }
        let request = &of.request;
        let mut head = buffer::take_vec();
        if level >= CaptureLevel::Headers {
            of.redaction.write(&request.head.headers, &mut head);
        }
        let target = of.redaction.target(request.head.target());
        let mut address = [0; forwarded::MAX_ADDRESS_BYTES];
        let client = forwarded::display(request.client.address, &mut address);
        let principal = request.principal.or(request.refused);
        let auth = principal.and_then(|p| p.auth());
        let result = write(&Received {
            principal: principal.and_then(|p| p.recorded()).unwrap_or_default(),
            client: std::str::from_utf8(client).unwrap_or_default(),
            https: request.client.https,
            method: request.head.method_name(),
            target: &target,
            head: &head,
            level: level as u8,
            auth: auth.map_or("", |id| &request.config.auths[id.0].name),
            scopes: principal.map(|p| p.granted()).unwrap_or_default(),
            ..self.metering_fields(of)
        });
        buffer::release_vec(head);
        result
    }

    /// The fields that calls are metered by.
    pub(super) fn metering_fields<'a>(&self, of: &Transaction<'a>) -> Received<'a> {
        let request = &of.request;
        Received {
            id: of.id.bytes(),
            received_us: of.received_us,
            api: request.api.map_or("", |api| api.name.as_str()),
            operation: request.route.map_or("", |route| route.operation.as_str()),
            consumer: request.consumer_name().unwrap_or_default(),
            plan: request.plan().map_or("", |plan| plan.name.as_str()),
            counted: self.counted,
            resubmission_of: of.resubmission_of.unwrap_or_default(),
            ..Received::default()
        }
    }
}

/// Names and values as a record stores them.
fn pairs(list: &[(String, String)]) -> Vec<(&str, &str)> {
    list.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect()
}
