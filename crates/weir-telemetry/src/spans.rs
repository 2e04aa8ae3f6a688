//! Spans of traced requests and their attempts, from the start to the exporter.
//!
//! ```text
//! start: trace sampled → request span → attempt spans … → end → queue → exporter
//! ```
//!
//! A request that is not traced costs a check of a setting and of a flag in its `traceparent`.

use crate::trace_context::{SpanContext, TraceContext};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use weir_config::Traces;
use weir_http::counter::Counter;
use weir_wire::{Headers, Known};

/// Most finished requests of a worker that wait for the exporter; the oldest are dropped.
const MAX_QUEUED: usize = 2048;
/// Most recorded attempts of a request; the settings of upstreams allow fewer.
const MAX_ATTEMPTS: usize = 64;
/// Most bytes of a text that a client controls.
const MAX_TEXT_BYTES: usize = 1024;
/// Bits of a trace id that decide about sampling: the last 56, which are random
/// (<https://opentelemetry.io/docs/specs/otel/trace/tracestate-probability-sampling/>).
const RANDOM_BITS: u128 = (1 << 56) - 1;

/// A traced request that has finished.
#[derive(Clone, Debug, Default)]
pub struct TracedRequest {
    /// Id of its trace.
    pub trace: u128,
    /// Id of its own span.
    pub span: u64,
    /// Span of the client; 0 if this request started the trace.
    pub parent: u64,
    /// `tracestate` of the request.
    pub state: String,
    /// Nanoseconds since 1970.
    pub start_ns: u64,
    /// From the end of its head to the last byte of the response.
    pub duration: Duration,
    /// Method of the request.
    pub method: String,
    /// The same as a label: `_OTHER` for other methods than the standard ones.
    pub method_label: &'static str,
    /// Path without query.
    pub path: String,
    /// `http` or `https`.
    pub scheme: &'static str,
    /// Version of HTTP.
    pub protocol: &'static str,
    /// Requested host, without port.
    pub host: String,
    /// Address of the client, by trusted hops.
    pub client: String,
    /// Base and pattern of its route; empty without one.
    pub route: String,
    /// Name of its API, likewise.
    pub api: String,
    /// Name of its operation, likewise.
    pub operation: String,
    /// The consumer, if it is known.
    pub consumer: Option<String>,
    /// Its transaction.
    pub transaction: String,
    /// Status of the response.
    pub status: u16,
    /// The error: a problem, or `cancelled`; empty without one.
    pub error: &'static str,
    /// The response was aborted or never sent.
    pub aborted: bool,
    /// Requests to upstreams, in the order of their ends.
    pub attempts: Vec<TracedAttempt>,
}

/// A request to an upstream.
#[derive(Clone, Debug)]
pub struct TracedAttempt {
    /// Id of its span, which the upstream got as its parent.
    pub span: u64,
    /// Start, from the start of the request.
    pub started: Duration,
    /// Duration.
    pub duration: Duration,
    /// Name of the upstream.
    pub upstream: String,
    /// Host of the target.
    pub host: String,
    /// Port of the target.
    pub port: u16,
    /// URL without query.
    pub url: String,
    /// Version of HTTP.
    pub protocol: &'static str,
    /// Status of the response; 0 without one.
    pub status: u16,
    /// The error, a word of a fixed list; empty if the response was complete.
    pub error: &'static str,
}

/// A request in flight that is traced.
#[derive(Debug)]
pub struct RequestSpan {
    trace: u128,
    span: u64,
    parent: u64,
    /// Flags of the trace, the bit for sampled included.
    flags: u8,
    started: Instant,
    attempts: RefCell<Vec<TracedAttempt>>,
}

/// An attempt in flight, of a request that is traced.
#[derive(Debug)]
pub struct AttemptSpan {
    request: Rc<RequestSpan>,
    id: u64,
    /// Path of the request, without query. Empty if edits of a route have put the request into
    /// another trace.
    path: String,
}

impl AttemptSpan {
    /// The `traceparent` that the upstream gets; `None` if the request belongs to another trace.
    pub fn traceparent(&self) -> Option<TraceContext> {
        let own = || TraceContext::new(self.request.trace, self.id, self.request.flags);
        (!self.path.is_empty()).then(own)
    }

    /// Ends the span; returns its context for exemplars.
    pub fn end(&self, report: &AttemptReport<'_>) -> SpanContext {
        let mut attempts = self.request.attempts.borrow_mut();
        if attempts.len() < MAX_ATTEMPTS {
            attempts.push(TracedAttempt {
                span: self.id,
                started: report.started.saturating_duration_since(self.request.started),
                duration: report.duration,
                upstream: report.upstream.to_owned(),
                host: report.host.to_owned(),
                port: report.port,
                url: format!("{}://{}{}", report.scheme, report.authority, self.path),
                protocol: report.protocol,
                status: report.status,
                error: report.error,
            });
        }
        SpanContext { trace: self.request.trace, span: self.id }
    }
}

/// Properties of an attempt that has ended.
pub struct AttemptReport<'a> {
    /// Name of the upstream.
    pub upstream: &'a str,
    /// Host of the target.
    pub host: &'a str,
    /// Port of the target.
    pub port: u16,
    /// Host and port, as in a URL.
    pub authority: &'a str,
    /// `http` or `https`.
    pub scheme: &'static str,
    /// Version of HTTP.
    pub protocol: &'static str,
    /// Start of the attempt.
    pub started: Instant,
    /// Its duration.
    pub duration: Duration,
    /// Status of the response; 0 without one.
    pub status: u16,
    /// The failure, a word from a fixed list; empty without one.
    pub error: &'static str,
}

/// Bounds the traced requests per second.
#[derive(Debug, Default)]
pub struct TraceSampler(Cell<(u64, u32)>);

impl TraceSampler {
    /// Whether one more request may be traced in this second.
    fn admits(&self, second: u64, limit: u32) -> bool {
        let (then, count) = self.0.get();
        let count = if then == second { count } else { 0 };
        let admits = count < limit;
        self.0.set((second, count + u32::from(admits)));
        admits
    }
}

impl RequestSpan {
    /// Decides whether a request is traced: if its trace is sampled, or it starts a trace that is.
    pub fn start(
        sampler: &TraceSampler,
        spans: &Spans,
        traces: &Traces,
        (headers, workers): (&Headers, usize),
        (started, unix): (Instant, u64),
    ) -> Option<Rc<Self>> {
        let (trace, parent, flags) = match TraceContext::of(headers) {
            Some(context) if !context.is_sampled() => return None,
            Some(context) => (context.trace(), context.parent(), context.flags()),
            None => {
                // Zero is the one invalid id.
                let trace = fastrand::u128(..).max(1);
                if !is_sampled_at(trace, traces.share) {
                    return None;
                }
                (trace, 0, 1)
            }
        };
        let limit = traces.most.div_ceil(u32::try_from(workers).unwrap_or(u32::MAX));
        if !sampler.admits(unix, limit) {
            spans.untraced.add(1);
            return None;
        }
        let request = Self {
            trace,
            span: fastrand::u64(..).max(1),
            parent,
            flags,
            started,
            attempts: RefCell::default(),
        };
        Some(Rc::new(request))
    }

    /// Sets `traceparent`, so that further requests belong to this span.
    pub fn inject(&self, headers: &mut Headers) {
        if self.parent == 0 {
            headers.remove("tracestate");
        }
        headers.remove("traceparent");
        let context = TraceContext::new(self.trace, self.span, self.flags);
        headers.push_known(Known::Traceparent, context.as_str().as_bytes());
    }

    /// Starts the span of an attempt at `target`. `traceparent` is that of the request.
    pub fn attempt(self: &Rc<Self>, traceparent: Option<&[u8]>, target: &str) -> AttemptSpan {
        let traceparent = traceparent.and_then(TraceContext::parse);
        let is_ours = traceparent.is_some_and(|traceparent| traceparent.trace() == self.trace);
        let path = target.split('?').next().filter(|_| is_ours).unwrap_or_default();
        AttemptSpan { request: Rc::clone(self), id: fastrand::u64(..).max(1), path: truncate(path) }
    }

    /// The context of the span, for exemplars.
    pub fn context(&self) -> SpanContext {
        SpanContext { trace: self.trace, span: self.span }
    }

    /// Ends the span: ids and attempts, without the fields of the transaction.
    pub fn finish(&self) -> TracedRequest {
        TracedRequest {
            trace: self.trace,
            span: self.span,
            parent: self.parent,
            attempts: self.attempts.take(),
            ..TracedRequest::default()
        }
    }
}

/// Finished requests of one worker. The exporter alone shares the lock, to swap the queue.
#[derive(Debug, Default)]
pub struct Spans {
    queue: Mutex<VecDeque<TracedRequest>>,
    /// Spans dropped because the queue was full.
    pub dropped: Counter,
    /// Requests that were not traced because of the limit per second.
    pub untraced: Counter,
}

impl Spans {
    /// Queues a finished request; from the thread of the worker only.
    pub fn push(&self, traced: TracedRequest) {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        if queue.len() == MAX_QUEUED {
            self.dropped.add(queue.pop_front().map_or(0, |oldest| oldest.spans() as u64));
        }
        queue.push_back(traced);
    }

    /// Takes all finished requests.
    pub fn take(&self) -> VecDeque<TracedRequest> {
        std::mem::take(&mut *self.queue.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl TracedRequest {
    /// Number of its spans.
    #[must_use]
    pub fn spans(&self) -> usize {
        1 + self.attempts.len()
    }
}

/// Whether a new trace is sampled, at a share in hundredths of a percent.
fn is_sampled_at(trace: u128, share: u32) -> bool {
    let threshold = (RANDOM_BITS + 1) - (RANDOM_BITS + 1) * u128::from(share.min(10_000)) / 10_000;
    trace & RANDOM_BITS >= threshold
}

/// A text, cut to the maximum length.
pub fn truncate(text: &str) -> String {
    text[..text.floor_char_boundary(MAX_TEXT_BYTES)].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_of_trace_ids_is_chosen() {
        assert!(is_sampled_at(1, 10_000) && is_sampled_at(RANDOM_BITS, 10_000));
        assert!(!is_sampled_at(RANDOM_BITS, 0) && !is_sampled_at(0, 0));
        let chosen = (0..10_000).filter(|_| is_sampled_at(fastrand::u128(..), 2500)).count();
        assert!((2200..2800).contains(&chosen), "{chosen}");
        // Another one that looks at the same id decides alike: the highest are chosen first.
        assert!(is_sampled_at(RANDOM_BITS, 1) && !is_sampled_at(RANDOM_BITS / 2, 1));
    }

    #[test]
    fn no_more_are_traced_than_may_be_in_a_second() {
        let sampler = TraceSampler::default();
        let admitted = |second| (0..5).filter(|_| sampler.admits(second, 3)).count();
        assert_eq!([admitted(7), admitted(7), admitted(8)], [3, 0, 3]);
    }

    #[test]
    fn long_texts_are_cut_between_characters() {
        assert_eq!(truncate("short"), "short");
        assert_eq!(truncate(&"ä".repeat(MAX_TEXT_BYTES)).len(), MAX_TEXT_BYTES);
        assert_eq!(truncate(&format!("a{}", "ä".repeat(MAX_TEXT_BYTES))).len(), MAX_TEXT_BYTES - 1);
    }
}
