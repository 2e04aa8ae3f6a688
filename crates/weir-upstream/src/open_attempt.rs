//! An attempt in flight, timed from the pick of a target to the last byte of the response.

use super::Target;
use std::rc::Rc;
use std::time::{Duration, Instant};
use weir_http::clock;
use weir_model::Attempt;
use weir_telemetry::labels::method_label;
use weir_telemetry::spans::{AttemptReport, AttemptSpan};
use weir_telemetry::stats::CallKey;
use weir_telemetry::trace_context::SpanContext;
use weir_wire::Method;

/// An attempt that has ended.
#[derive(Debug)]
pub struct EndedAttempt {
    target: Rc<Target>,
    started: Instant,
    duration: Duration,
    status: u16,
    error: &'static str,
}

impl EndedAttempt {
    pub(super) fn target(&self) -> &Rc<Target> {
        &self.target
    }

    pub(super) fn started(&self) -> Instant {
        self.started
    }

    /// The attempt as records have it, of a request that arrived at `arrived`.
    pub fn recorded(&self, arrived: Instant) -> Attempt {
        let micros = |duration: Duration| duration.as_micros().try_into().unwrap_or(u32::MAX);
        Attempt {
            target: self.target.name.clone(),
            started_us: micros(self.started.saturating_duration_since(arrived)),
            duration_us: micros(self.duration),
            status: self.status,
            error: self.error.to_owned(),
        }
    }
}

/// An attempt in flight, or the transfer of its response. The owner ends it.
#[derive(Debug)]
pub struct OpenAttempt {
    target: Rc<Target>,
    started: Instant,
    /// Original status of the response; 0 before it arrives.
    status: u16,
    /// Its span, if the request is traced.
    span: Option<AttemptSpan>,
}

impl OpenAttempt {
    pub(super) fn new(target: Rc<Target>, started: Instant, span: Option<AttemptSpan>) -> Self {
        Self { target, started, status: 0, span }
    }

    pub(super) fn target(&self) -> &Rc<Target> {
        &self.target
    }

    /// Time at which the target was picked.
    pub(super) fn started(&self) -> Instant {
        self.started
    }

    /// The head of the response has arrived.
    pub(super) fn responded(&mut self, status: u16) {
        self.status = status;
        if status == 101 {
            // No response follows, and the upgraded connection may last for hours.
            self.target.health.responded(status, clock::recent);
        }
    }

    /// As an attempt that ends now, if no response has arrived.
    pub fn without_response(&self, error: &'static str, now: Instant) -> Option<EndedAttempt> {
        // As of nearly all: nothing is computed for them.
        if self.has_response() {
            return None;
        }
        let duration = now.saturating_duration_since(self.started);
        let Self { started, status, .. } = *self;
        Some(EndedAttempt { target: Rc::clone(&self.target), started, duration, status, error })
    }

    /// Whether the head of a response has arrived.
    pub fn has_response(&self) -> bool {
        self.status != 0
    }

    /// Counts the attempt. `error` is from a fixed list, empty if the response was complete.
    pub fn end(self, method: Method, error: &'static str, now: Instant) -> EndedAttempt {
        if error.is_empty() && self.has_response() {
            // Recorded at the end: a target whose responses are all aborted is not healthy.
            self.target.health.responded(self.status, clock::recent);
        }
        let duration = now.saturating_duration_since(self.started);
        let key = CallKey { method: method_label(method), status: self.status, error };
        let context = self.span.as_ref().map(|span| {
            let target = &self.target;
            let report = AttemptReport {
                upstream: &target.upstream,
                host: &target.server_address,
                port: target.port,
                authority: &target.authority,
                scheme: target.scheme(),
                protocol: if target.speaks_http2() { "2" } else { "1.1" },
                started: self.started,
                duration,
                status: self.status,
                error,
            };
            span.end(&report)
        });
        self.target.record(key, duration, context);
        let Self { target, started, status, .. } = self;
        EndedAttempt { target, started, duration, status, error }
    }
}

impl Target {
    /// Counts an attempt in the series of its labels, which is looked up under a lock only once.
    fn record(&self, key: CallKey, duration: Duration, span: Option<SpanContext>) {
        let mut series = self.series.borrow_mut();
        let own = series.iter().find(|(known, _)| *known == key);
        // Once the overflow series exists, no series are added.
        let found = own.or_else(|| series.iter().find(|(known, _)| known.method.is_empty()));
        if let Some((_, durations)) = found {
            return durations.record(duration, span);
        }
        let (key, durations) = self.stats.series(key);
        durations.record(duration, span);
        series.push((key, durations));
    }
}
