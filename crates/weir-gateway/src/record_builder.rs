//! Recording, logging, tracing and counting of one request.

use crate::arrival::Arrival;
use crate::decisions::Decisions;
use crate::handler::destination;
use crate::worker::{Live, Worker};
use std::rc::Rc;
use std::time::{Duration, Instant};
use weir_config::Route;
use weir_http::body::{BodyTap, ResponseError};
use weir_http::clock;
use weir_http::problem::{Fault, Problem};
use weir_model::{Annotations, Attempt};
use weir_record::access_log::Line;
use weir_record::capture::{Recorder, Recording};
use weir_record::transaction::Transaction;
use weir_telemetry::spans::RequestSpan;
use weir_upstream::{SendReport, Target};
use weir_wire::{Framing, RequestHead, ResponseHead};

/// Recording, logging, tracing and counting of one request, until its end.
pub struct RecordBuilder {
    /// The record in the journal.
    pub recording: Recording,
    /// Statistics of the attempts at an upstream.
    pub(crate) report: SendReport,
    /// Present if the request is traced.
    pub(crate) span: Option<Rc<RequestSpan>>,
    /// Annotations of scripts and stages.
    pub notes: Option<Box<Annotations>>,
    /// The error of a local reply.
    pub problem: Option<Problem>,
    /// The recorded reason.
    pub(crate) reason: Option<String>,
    /// Bytes of the response's body that were sent.
    pub sent: u64,
}

/// The attempts of a request, at its end.
#[derive(Default)]
struct Attempts {
    target: Option<Rc<Target>>,
    ended: Vec<Attempt>,
}

/// The request in flight, as input of its record.
#[derive(Clone, Copy)]
pub(crate) struct Subject<'x> {
    pub worker: &'static Worker,
    pub live: &'x Live,
    pub arrival: &'x Arrival,
    pub request: &'x RequestHead,
    pub response: &'x ResponseHead,
    pub decisions: &'x Decisions,
}

impl RecordBuilder {
    pub(crate) fn new(recorder: &'static Recorder) -> Self {
        Self {
            recording: Recording::new(recorder),
            report: SendReport::default(),
            span: None,
            notes: None,
            problem: None,
            reason: None,
            sent: 0,
        }
    }

    /// Begins a new transaction; `shown` if the Tracker is enabled. Fields are set one by one: a
    /// new value would be copied over this one.
    pub(crate) fn start(&mut self, shown: bool, span: Option<Rc<RequestSpan>>) {
        self.recording.start(shown);
        self.report = SendReport::default();
        self.span = span;
        self.notes = None;
        self.problem = None;
        self.reason = None;
        self.sent = 0;
    }

    /// Passes the current state of the transaction to the recording.
    fn record<T>(
        &mut self,
        of: Subject<'_>,
        attempts: &Attempts,
        act: impl FnOnce(&mut Recording, &Transaction<'_>) -> T,
    ) -> T {
        let Subject { live, arrival, decisions, .. } = of;
        let request = live.view(of.request, arrival, decisions);
        let config = &live.site.config;
        let split = decisions.selection.split;
        let upstream = request.route.map(|route| destination(&route.handler, config, split));
        let transaction = Transaction {
            id: &arrival.id,
            received_us: arrival.received_us,
            request,
            version: arrival.version_name(of.request.version),
            response: of.response,
            sent: self.sent,
            problem: self.problem,
            reason: self.reason.as_deref(),
            upstream: upstream.unwrap_or_default(),
            upstream_target: attempts.target.as_ref().map_or("", |target| &target.name),
            attempts: &attempts.ended,
            configuration: live.site.digest.short(),
            retries: self.report.retries.get(),
            notes: self.notes.as_deref(),
            resubmission_of: arrival.replay.as_ref().map(|replay| replay.of),
            redaction: &live.site.redaction,
            bodies: &live.bodies,
        };
        act(&mut self.recording, &transaction)
    }

    /// The attempts of a request that has arrived at `arrived`, and ends now with `error`.
    fn attempts(&mut self, arrived: Instant, error: &'static str, now: Instant) -> Attempts {
        let (target, ended) = (self.report.target(), self.report.take_ended());
        let last = self.report.open.as_ref().and_then(|open| open.without_response(error, now));
        let ended = ended.iter().chain(&last).map(|one| one.recorded(arrived));
        Attempts { target, ended: ended.collect() }
    }

    /// Counts a call that the limits have admitted.
    pub(crate) fn admitted(&mut self, of: Subject<'_>) {
        let request = of.live.view(of.request, of.arrival, of.decisions);
        self.recording.admitted(&request, of.arrival.replay.is_some());
    }

    /// The request is admitted: its durable record begins. `framing` is the framing of its body.
    ///
    /// # Errors
    /// The journal is full, and requests are rejected in this case.
    pub(crate) fn begin(
        &mut self,
        of: Subject<'_>,
        route: &Route,
        framing: Framing,
    ) -> Result<Option<Rc<dyn BodyTap>>, Problem> {
        let when_full = of.live.site.config.journal.when_full;
        if !self.recording.begins_now(route, framing, when_full) {
            return Ok(None);
        }
        let attempts = Attempts::default();
        self.record(of, &attempts, |recording, transaction| recording.begin(transaction, framing))
    }

    /// Records bytes of the response body, except the last ones, which are passed to
    /// [`RecordBuilder::complete`].
    pub(crate) fn pass(&mut self, of: Subject<'_>, bytes: &[u8]) {
        let attempts = Attempts::default();
        self.record(of, &attempts, |recording, transaction| recording.pass(transaction, bytes));
    }

    /// Records the bytes copied in each direction of an upgraded connection.
    pub(crate) fn tunnelled(&mut self, of: Subject<'_>, up: u64, down: u64) {
        let attempts = Attempts::default();
        self.record(of, &attempts, |recording, transaction| {
            recording.tunnelled(transaction, up, down)
        });
    }

    /// The response is complete except for `last`, the last bytes of its body.
    pub(crate) fn complete(&mut self, of: Subject<'_>, last: &[u8]) {
        let (stats, problem, now) = (&of.worker.stats, self.problem, clock::now());
        let duration = now.saturating_duration_since(of.arrival.started);
        let error = problem.map_or("", Problem::slug);
        let attempts = self.attempts(of.arrival.started, error, now);
        let (open, span) = (self.report.open.take(), self.span.take());
        self.record(of, &attempts, |recording, transaction| {
            recording.end(transaction, last, now, duration);
            let (request, status) = (&transaction.request, transaction.response.status);
            of.live.record_duration(of.decisions, request, status, stats, |series| {
                series.record(duration, span.as_deref().map(RequestSpan::context));
            });
            if let Some(problem) = problem {
                let consumer = request.consumer_name().unwrap_or_default();
                stats.rejections.record(problem, consumer);
            }
            log(of.worker, transaction, duration, false);
            if problem.is_some_and(Problem::is_timeout) {
                stats.timeouts.add(1);
            }
            if let Some(open) = open {
                // Faults after a complete response of the upstream are not the upstream's.
                let is_own = |p: &Problem| !open.has_response() || p.fault() == Fault::Upstream;
                let error = problem.filter(is_own).map_or("", Problem::slug);
                open.end(request.head.method, error, now);
            }
            if let Some(span) = span {
                let error = problem.map_or("", Problem::slug);
                stats.spans.push(transaction.traced(&span, duration, error, false));
            }
        });
    }

    /// The response was aborted, or could not be sent.
    pub(crate) fn abort(&mut self, of: Subject<'_>, why: Option<&ResponseError>) {
        let (stats, now) = (&of.worker.stats, clock::now());
        stats.aborted.add(1);
        if matches!(why, Some(ResponseError::TimedOut(_))) {
            stats.timeouts.add(1);
        }
        let duration = now.saturating_duration_since(of.arrival.started);
        // Not the fault of the client, either.
        let failed = matches!(why, Some(ResponseError::File));
        let upstream = failed || why.is_some_and(|why| why.problem().fault() == Fault::Upstream);
        let error = why.map_or("cancelled", |why| why.problem().slug());
        let attempts = self.attempts(of.arrival.started, error, now);
        let (open, span) = (self.report.open.take(), self.span.take());
        self.record(of, &attempts, |recording, transaction| {
            recording.break_off(transaction, upstream, now, duration);
            log(of.worker, transaction, duration, true);
            if let Some(open) = open {
                open.end(transaction.request.head.method, error, now);
            }
            if let Some(span) = span {
                stats.spans.push(transaction.traced(&span, duration, error, true));
            }
        });
    }
}

/// Logs a completed request.
fn log(worker: &Worker, transaction: &Transaction<'_>, duration: Duration, aborted: bool) {
    if let Some(format) = transaction.request.config.access_log.format {
        let line = Line { transaction, duration, aborted };
        if !worker.shared.log.write(&line, format) {
            worker.stats.log_dropped.add(1);
        }
    }
}
