//! Requests that are traced: what a worker notes of them, and who takes it when they are over.
//!
//! ```text
//! start: of a sampled trace, or chosen → open → tries … → over → waiting → whoever exports
//! ```
//!
//! A request that is not traced costs a look at a setting and at a flag of its `traceparent`.

use crate::trace_context::{SpanContext, TraceContext};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use weir_config::Traces;
use weir_http::counter::Counter;
use weir_wire::{Headers, Known};

/// Most requests of a worker that are over and wait to be taken; the oldest go.
const WAITING: usize = 2048;
/// Most tries that are noted of a request; there are fewer by the settings of any upstream.
const TRIES: usize = 64;
/// Most bytes of a text that a client chose.
const TEXT: usize = 1024;
/// Bits of a trace id that decide whether it is traced: the last 56, which are random
/// (<https://opentelemetry.io/docs/specs/otel/trace/tracestate-probability-sampling/>).
const RANDOM: u128 = (1 << 56) - 1;

/// A request that was traced and is over.
#[derive(Clone, Debug, Default)]
pub struct Traced {
    /// Id of its trace.
    pub trace: u128,
    /// Id of its own span.
    pub span: u64,
    /// The client's span; 0 if it began the trace.
    pub parent: u64,
    /// `tracestate` as it came.
    pub state: String,
    /// Nanoseconds since 1970.
    pub start_ns: u64,
    /// From the end of its head to the last byte of its answer.
    pub took: Duration,
    /// Method as it came.
    pub method: String,
    /// The same as a label: `_OTHER` for what is no standard one.
    pub method_label: &'static str,
    /// Path without query.
    pub path: String,
    /// `http` or `https`.
    pub scheme: &'static str,
    /// Version of HTTP.
    pub protocol: &'static str,
    /// Host asked for, without port.
    pub host: String,
    /// Who asked, as far as trusted hops tell.
    pub client: String,
    /// Base and pattern of its route; empty if it has none.
    pub route: String,
    /// Name of its API, likewise.
    pub api: String,
    /// Name of its operation, likewise.
    pub operation: String,
    /// Who called, if that is known.
    pub consumer: Option<String>,
    /// Its transaction.
    pub transaction: String,
    /// Status of the answer.
    pub status: u16,
    /// What went wrong: a problem, or `cancelled`; empty if nothing did.
    pub error: &'static str,
    /// The answer broke off or was never sent.
    pub aborted: bool,
    /// What was asked of upstreams, in the order in which that ended.
    pub tries: Vec<Try>,
}

/// A request to an upstream.
#[derive(Clone, Debug)]
pub struct Try {
    /// Id of its span, which the upstream got as its parent.
    pub span: u64,
    /// From the start of the request that it belongs to.
    pub begun: Duration,
    /// How long it took.
    pub took: Duration,
    /// Name of the upstream.
    pub upstream: String,
    /// Host of the target.
    pub host: String,
    /// Port of the target.
    pub port: u16,
    /// URL without query.
    pub url: String,
    /// Version of HTTP that the target is spoken to in.
    pub protocol: &'static str,
    /// Status of its answer; 0 if none came.
    pub status: u16,
    /// What went wrong, a word from a fixed list; empty if an answer came whole.
    pub error: &'static str,
}

/// A request in flight that is traced.
#[derive(Debug)]
pub struct Open {
    trace: u128,
    span: u64,
    parent: u64,
    /// Of the trace, with the bit that says sampled.
    flags: u8,
    started: Instant,
    tries: RefCell<Vec<Try>>,
}

/// An attempt in flight, of a request that is traced.
#[derive(Debug)]
pub struct AttemptSpan {
    open: Rc<Open>,
    id: u64,
    /// Path of the request, without query. Empty if edits of a route have put the request into
    /// another trace.
    path: String,
}

impl AttemptSpan {
    /// The `traceparent` that the upstream gets; `None` if the request belongs to another trace.
    pub fn traceparent(&self) -> Option<TraceContext> {
        let own = || TraceContext::new(self.open.trace, self.id, self.open.flags);
        (!self.path.is_empty()).then(own)
    }

    /// It is over; gives how metrics refer to it.
    pub fn over(&self, went: &Went<'_>) -> SpanContext {
        let mut tries = self.open.tries.borrow_mut();
        if tries.len() < TRIES {
            tries.push(Try {
                span: self.id,
                begun: went.begun.saturating_duration_since(self.open.started),
                took: went.took,
                upstream: went.upstream.to_owned(),
                host: went.host.to_owned(),
                port: went.port,
                url: format!("{}://{}{}", went.scheme, went.authority, self.path),
                protocol: went.protocol,
                status: went.status,
                error: went.error,
            });
        }
        SpanContext { trace: self.open.trace, span: self.id }
    }
}

/// How a request to an upstream went.
pub struct Went<'a> {
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
    pub begun: Instant,
    /// Its duration.
    pub took: Duration,
    /// Status of the response; 0 without one.
    pub status: u16,
    /// The failure, a word from a fixed list; empty without one.
    pub error: &'static str,
}

/// Bounds the requests that are traced in a second.
#[derive(Debug, Default)]
pub struct TraceSampler(Cell<(u64, u32)>);

impl TraceSampler {
    /// Whether one more may be in this second.
    fn admits(&self, second: u64, most: u32) -> bool {
        let (then, count) = self.0.get();
        let count = if then == second { count } else { 0 };
        let admits = count < most;
        self.0.set((second, count + u32::from(admits)));
        admits
    }
}

impl Open {
    /// Decides whether a request is traced: if its trace is sampled, or it begins one that is.
    pub fn begin(
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
                if !is_chosen(trace, traces.share) {
                    return None;
                }
                (trace, 0, 1)
            }
        };
        let most = traces.most.div_ceil(u32::try_from(workers).unwrap_or(u32::MAX));
        if !sampler.admits(unix, most) {
            spans.untraced.add(1);
            return None;
        }
        let open = Self {
            trace,
            span: fastrand::u64(..).max(1),
            parent,
            flags,
            started,
            tries: RefCell::default(),
        };
        Some(Rc::new(open))
    }

    /// Makes headers say that what follows belongs to this request.
    pub fn announce(&self, headers: &mut Headers) {
        if self.parent == 0 {
            headers.remove("tracestate");
        }
        headers.remove("traceparent");
        let context = TraceContext::new(self.trace, self.span, self.flags);
        headers.push_known(Known::Traceparent, context.as_str().as_bytes());
    }

    /// Starts the span of an attempt at `target`. `told` is the `traceparent` of the request.
    pub fn attempt(self: &Rc<Self>, told: Option<&[u8]>, target: &str) -> AttemptSpan {
        let told = told.and_then(TraceContext::parse);
        let is_ours = told.is_some_and(|told| told.trace() == self.trace);
        let path = target.split('?').next().filter(|_| is_ours).unwrap_or_default();
        AttemptSpan { open: Rc::clone(self), id: fastrand::u64(..).max(1), path: cut(path) }
    }

    /// The request itself, as metrics refer to it.
    pub fn mark(&self) -> SpanContext {
        SpanContext { trace: self.trace, span: self.span }
    }

    /// The request is over: its ids and attempts, without what its transaction tells.
    pub fn over(&self) -> Traced {
        Traced {
            trace: self.trace,
            span: self.span,
            parent: self.parent,
            tries: self.tries.take(),
            ..Traced::default()
        }
    }
}

/// What one worker has noted. Nobody but who takes it shares the lock, and that for an exchange of
/// pointers.
#[derive(Debug, Default)]
pub struct Spans {
    waiting: Mutex<VecDeque<Traced>>,
    /// Spans that went since nobody took them.
    pub lost: Counter,
    /// Requests that were not traced because there were too many in a second.
    pub untraced: Counter,
}

impl Spans {
    /// A traced request is over; from the worker's own thread only.
    pub fn push(&self, traced: Traced) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if waiting.len() == WAITING {
            self.lost.add(waiting.pop_front().map_or(0, |oldest| oldest.spans() as u64));
        }
        waiting.push_back(traced);
    }

    /// Takes all that are over.
    pub fn take(&self) -> VecDeque<Traced> {
        std::mem::take(&mut *self.waiting.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Traced {
    /// How many spans it has.
    #[must_use]
    pub fn spans(&self) -> usize {
        1 + self.tries.len()
    }
}

/// Whether a trace that begins here is sampled at a share in hundredths of a percent.
fn is_chosen(trace: u128, share: u32) -> bool {
    let least = (RANDOM + 1) - (RANDOM + 1) * u128::from(share.min(10_000)) / 10_000;
    trace & RANDOM >= least
}

/// At most so much of a text as is kept.
pub fn cut(text: &str) -> String {
    text[..text.floor_char_boundary(TEXT)].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_of_trace_ids_is_chosen() {
        assert!(is_chosen(1, 10_000) && is_chosen(RANDOM, 10_000));
        assert!(!is_chosen(RANDOM, 0) && !is_chosen(0, 0));
        let chosen = (0..10_000).filter(|_| is_chosen(fastrand::u128(..), 2500)).count();
        assert!((2200..2800).contains(&chosen), "{chosen}");
        // Another one that looks at the same id decides alike: the highest are chosen first.
        assert!(is_chosen(RANDOM, 1) && !is_chosen(RANDOM / 2, 1));
    }

    #[test]
    fn no_more_are_traced_than_may_be_in_a_second() {
        let sampler = TraceSampler::default();
        let admitted = |second| (0..5).filter(|_| sampler.admits(second, 3)).count();
        assert_eq!([admitted(7), admitted(7), admitted(8)], [3, 0, 3]);
    }

    #[test]
    fn long_texts_are_cut_between_characters() {
        assert_eq!(cut("short"), "short");
        assert_eq!(cut(&"ä".repeat(TEXT)).len(), TEXT);
        assert_eq!(cut(&format!("a{}", "ä".repeat(TEXT))).len(), TEXT - 1);
    }
}
