//! A request to a target, timed from the choice of a connection to the last byte of the answer.

use super::Target;
use crate::clock;
use crate::labels::method_label;
use crate::spans::{Open, TrySpan, Went};
use crate::stats::CallKey;
use crate::trace_context::SpanContext;
use std::rc::Rc;
use std::time::{Duration, Instant};
use weir_wire::Method;

/// A request on its way to a target, or its answer on the way back. Whoever ends it says how.
#[derive(Debug)]
pub(crate) struct Call {
    target: Rc<Target>,
    started: Instant,
    /// Of the answer as it came; 0 until there is one.
    status: u16,
    /// Its span, if the request that it belongs to is traced.
    span: Option<TrySpan>,
}

impl Call {
    /// One to `target`, of a request that may be traced.
    pub(crate) fn new(target: Rc<Target>, started: Instant, of: Option<&Rc<Open>>) -> Self {
        Self::traced(target, started, of.map(Open::take_try))
    }

    /// One to `target` with a span of its own, or none.
    pub(crate) fn traced(target: Rc<Target>, started: Instant, span: Option<TrySpan>) -> Self {
        Self { target, started, status: 0, span }
    }

    /// Whether this is where it goes.
    pub(crate) fn is_to(&self, target: &Rc<Target>) -> bool {
        Rc::ptr_eq(&self.target, target)
    }

    /// When a connection for it was chosen.
    pub(crate) fn started(&self) -> Instant {
        self.started
    }

    /// The head of the answer has come.
    pub(crate) fn answered(&mut self, status: u16) {
        self.status = status;
        if status == 101 {
            // What follows is no answer, and may last for hours.
            self.target.health.answered(status, clock::recent);
        }
    }

    pub(crate) fn is_answered(&self) -> bool {
        self.status != 0
    }

    /// Counts it. `error` is a word from a fixed list, empty when an answer came whole.
    pub(crate) fn end(self, method: Method, error: &'static str, now: Instant) {
        if error.is_empty() && self.is_answered() {
            // Only now: a target whose answers all break off does not do well.
            self.target.health.answered(self.status, clock::recent);
        }
        let duration = now.saturating_duration_since(self.started);
        let key = CallKey { method: method_label(method), status: self.status, error };
        let mark = self.span.as_ref().map(|span| {
            let target = &self.target;
            let went = Went {
                upstream: &target.upstream,
                host: &target.host,
                port: target.port,
                authority: &target.authority,
                scheme: if target.tls.is_some() { "https" } else { "http" },
                protocol: if target.sessions.is_some() { "2" } else { "1.1" },
                begun: self.started,
                took: duration,
                status: self.status,
                error,
            };
            span.over(&went)
        });
        self.target.record(key, duration, mark);
    }
}

impl Target {
    /// Counts a request in the series of its labels, which is looked up under a lock only once.
    fn record(&self, key: CallKey, duration: Duration, span: Option<SpanContext>) {
        let mut series = self.series.borrow_mut();
        let own = series.iter().find(|(known, _)| *known == key);
        // Once there is one for all others, there is none of its own for what is not there yet.
        let found = own.or_else(|| series.iter().find(|(known, _)| known.method.is_empty()));
        if let Some((_, durations)) = found {
            return durations.record(duration, span);
        }
        let (key, durations) = self.stats.series(key);
        durations.record(duration, span);
        series.push((key, durations));
    }
}
