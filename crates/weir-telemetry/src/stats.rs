//! Counters and durations that one worker writes and every thread reads.

mod rejections;
mod sketch;

pub use rejections::RejectionSeries;
pub use rejections::{Rejections, series as rejection_series};
pub use sketch::Sketch;

use crate::labels::{Hedged, Mirrored, RetryDenied, RetryReason, UpgradeEnd};
use crate::spans::Spans;
use crate::trace_context::SpanContext;
use sketch::Recorder;
use std::collections::HashMap;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};
use strum::VariantNames;
use weir_http::counter::Counter;
use weir_http::grpc;

/// Upper bounds of the duration buckets in seconds: those that OpenTelemetry's semantic
/// conventions advise, with finer ones below 5 ms, where most responses of a gateway are.
pub const BUCKETS: [f64; 17] = [
    0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0,
    7.5, 10.0,
];

/// The same in nanoseconds, for comparisons without floating point.
const BUCKETS_NS: [u64; BUCKETS.len()] = {
    let mut nanos = [0; BUCKETS.len()];
    let mut i = 0;
    while i < BUCKETS.len() {
        nanos[i] = (BUCKETS[i] * 1e9) as u64;
        i += 1;
    }
    nanos
};

/// Durations of the requests that share their labels.
#[derive(Debug, Default)]
pub struct Durations {
    /// One count a bucket, the last for everything above; not cumulative.
    pub buckets: [Counter; BUCKETS.len() + 1],
    /// Sum of the durations in nanoseconds.
    pub sum_ns: Counter,
    /// The same in microseconds, for quantiles; `None` for requests to targets.
    pub sketch: Option<Box<Recorder>>,
    /// The last traced request of each bucket; nothing as long as there was none.
    exemplars: Mutex<Vec<(usize, Exemplar)>>,
}

/// A traced request that represents its bucket.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Exemplar {
    /// Its span.
    pub span: SpanContext,
    /// Duration in seconds.
    pub seconds: f64,
    /// When it ended, since 1970.
    pub at: Duration,
}

impl Durations {
    /// For requests of clients, which have quantiles.
    fn with_sketch() -> Self {
        Self { sketch: Some(Box::default()), ..Self::default() }
    }

    /// Counts one; `span` is there if it is traced.
    pub fn record(&self, duration: Duration, span: Option<SpanContext>) {
        let nanos = duration.as_nanos().min(u128::from(u64::MAX)) as u64;
        let bucket = BUCKETS_NS.iter().position(|&bound| nanos <= bound);
        let bucket = bucket.unwrap_or(BUCKETS.len());
        self.buckets[bucket].add(1);
        self.sum_ns.add(nanos);
        if let Some(sketch) = &self.sketch {
            // As a record has it.
            sketch.record(u32::try_from(nanos / 1000).unwrap_or(u32::MAX));
        }
        if let Some(span) = span {
            let at = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
            let exemplar = Exemplar { span, seconds: duration.as_secs_f64(), at };
            put_exemplar(&mut self.exemplars(), bucket, exemplar);
        }
    }

    /// The last traced request of each bucket.
    pub fn exemplars(&self) -> MutexGuard<'_, Vec<(usize, Exemplar)>> {
        self.exemplars.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Keeps the later exemplar of a bucket.
pub fn put_exemplar(all: &mut Vec<(usize, Exemplar)>, bucket: usize, exemplar: Exemplar) {
    match all.iter_mut().find(|(of, _)| *of == bucket) {
        Some((_, current)) if current.at <= exemplar.at => *current = exemplar,
        Some(_) => {}
        None => all.push((bucket, exemplar)),
    }
}

/// Most combinations of method, status and error that one worker counts for one operation, or for
/// one target: an upstream may respond with any status. Further ones share one series.
pub const COMBINATIONS: usize = 64;

/// Labels of requests. Bounded: operations are configured, and each has at most [`COMBINATIONS`]
/// series and one for all others, whose method is empty.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SeriesKey {
    /// Empty when no API was found.
    pub api: String,
    /// Empty when no route was found.
    pub operation: String,
    /// Base and pattern of the route; empty when none was found.
    pub path: String,
    /// Method, or `_OTHER`.
    pub method: &'static str,
    /// Status code.
    pub status: u16,
}

/// Statistics of one target, of one worker.
#[derive(Debug, Default)]
pub struct TargetStats {
    /// Connection attempts.
    pub connects: Counter,
    /// Requests on a reused connection.
    pub reused: Counter,
    /// Retries after this target failed, by [`RetryReason`].
    pub retries: [Counter; RetryReason::VARIANTS.len()],
    /// Denied retries after this target failed, by [`RetryDenied`].
    pub retries_denied: [Counter; RetryDenied::VARIANTS.len()],
    /// Hedged requests, by winner ([`Hedged`]).
    pub hedges: [Counter; Hedged::VARIANTS.len()],
    /// DNS queries for its name: successful, failed.
    pub resolutions: [Counter; 2],
    /// Ended gRPC calls, by status.
    pub grpc: [Counter; grpc::CODES],
    /// Requests rejected because every connection was in use.
    pub busy: Counter,
    /// Open connections, the idle ones included.
    pub open: Counter,
    /// Idle connections.
    pub idle: Counter,
    /// Durations by labels.
    pub calls: Mutex<HashMap<CallKey, Arc<Durations>>>,
}

impl TargetStats {
    /// Counts a retry.
    pub fn count_retry(&self, why: RetryReason) {
        self.retries[why as usize].add(1);
    }

    /// Counts a denied retry.
    pub fn count_retry_denied(&self, why: RetryDenied) {
        self.retries_denied[why as usize].add(1);
    }

    /// The series of these labels, created on first use, or that of all others; with its key.
    pub fn series(&self, key: CallKey) -> (CallKey, Arc<Durations>) {
        let mut all = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        let full = all.len() >= COMBINATIONS && !all.contains_key(&key);
        let others = CallKey { method: "", status: 0, error: "" };
        let key = if full { others } else { key };
        (key, Arc::clone(all.entry(key).or_default()))
    }
}

/// A target of an upstream.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TargetKey {
    /// Name of the upstream.
    pub upstream: String,
    /// Host, or name of the service.
    pub host: String,
    /// Port.
    pub port: u16,
    /// Its name in health checks.
    pub name: String,
}

/// Labels of requests to one target. Bounded as [`SeriesKey`] is; errors are words of a fixed list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CallKey {
    /// Method, or `_OTHER`.
    pub method: &'static str,
    /// Status code; 0 without a response.
    pub status: u16,
    /// Empty if the response was complete.
    pub error: &'static str,
}

/// One table of counters, for each worker and for the sums over workers.
macro_rules! counters {
    ($($(#[$doc:meta])+ $name:ident,)+) => {
        /// Statistics of one worker.
        #[derive(Debug, Default)]
        pub struct WorkerStats {
            /// Version of its Config (not a statistic: shows that a reload is complete).
            pub version: AtomicU64,
            /// By [`Mirrored`].
            pub mirrored: [Counter; Mirrored::VARIANTS.len()],
            /// By [`UpgradeEnd`].
            pub upgrades: [Counter; UpgradeEnd::VARIANTS.len()],
            /// Traced requests that have finished.
            pub spans: Spans,
            /// Rejections, by reason and consumer.
            pub rejections: Rejections,
            /// Durations of requests by labels.
            pub requests: Mutex<HashMap<SeriesKey, Arc<Durations>>>,
            /// Statistics of targets.
            pub targets: Mutex<HashMap<TargetKey, Arc<TargetStats>>>,
            $($(#[$doc])+ pub $name: Counter,)+
        }

        /// Sums of the counters of all workers.
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        pub struct Totals {
            $($(#[$doc])+ pub $name: u64,)+
        }

        impl Totals {
            /// Adds the counters of one worker.
            pub fn add(&mut self, worker: &WorkerStats) {
                $(self.$name += worker.$name.get();)+
            }
        }
    };
}

counters! {
    /// Client connections open now.
    connections,
    /// Client connections accepted.
    accepted,
    /// Client connections closed at once because of `limits.connections`.
    refused_connections,
    /// Requests and connections rejected because no file descriptor was free.
    descriptors_exhausted,
    /// TLS handshakes that failed or timed out.
    handshake_failures,
    /// Connections without the PROXY protocol header that their listener requires, or from a peer that
    /// may not send one.
    proxy_protocol_failures,
    /// Requests rejected because their bytes are not acceptable HTTP.
    bad_requests,
    /// Request headers dropped because of an underscore or a dot in their name.
    dropped_headers,
    /// Calls by which io_uring was given operations of connections, and has completed some.
    ring_enters,
    /// Operations of connections that io_uring has completed.
    ring_operations,
    /// Receives that found no free buffer, so that a call of their own read the bytes.
    ring_without_buffer,
    /// Dropped sockets that were reset, because too many waited for slow peers already.
    ring_orphans_reset,
    /// Requests in flight now.
    active,
    /// Requests whose client disconnected, or whose response was aborted.
    aborted,
    /// Requests ended by a timeout: with status 408 or 504, or by an aborted response.
    timeouts,
    /// Bytes of request bodies received.
    request_bytes,
    /// Bytes of response bodies sent.
    response_bytes,
    /// Access log lines dropped because the log could not keep up.
    log_dropped,
    /// Requests rejected by a rate limit.
    limited,
    /// Requests rejected by a quota.
    over_quota,
    /// Requests rejected because too many credentials from their address had failed.
    auth_throttled,
    /// Requests that violate the OpenAPI document.
    invalid_requests,
    /// Responses that violate the OpenAPI document.
    invalid_responses,
    /// Requests whose validation would have exceeded its budget.
    validation_over_budget_requests,
    /// Responses whose validation would have exceeded its budget.
    validation_over_budget_responses,
    /// Calls of `calls` that were replaced by their fallback.
    fallbacks,
    /// Cache hits.
    cache_hits,
    /// Cache misses.
    cache_misses,
    /// Stale responses that were revalidated.
    cache_revalidated,
    /// Requests that bypassed the cache of their route.
    cache_bypassed,
    /// Requests that waited for the response to another request.
    cache_waited,
    /// Cache evictions.
    cache_evictions,
    /// Requests of which nothing, or not the end, could be recorded, or not as durably as promised.
    unrecorded,
    /// Calls that are not counted, or not completely, because there was no space for their records.
    uncounted,
    /// Bodies that were not recorded because they could not be redacted.
    withheld,
    /// Upgraded connections open now.
    upgrades_open,
    /// Requests for a WebSocket on a route without upgrades.
    upgrades_refused,
}

impl WorkerStats {
    /// The series of these labels, created on first use, or that of all others; with its method.
    pub fn series(&self, key: SeriesKey) -> (&'static str, Arc<Durations>) {
        let mut all = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = all.get(&key) {
            return (key.method, Arc::clone(known));
        }
        let is_same = |other: &&SeriesKey| {
            (&other.api, &other.operation, &other.path) == (&key.api, &key.operation, &key.path)
        };
        let full = all.keys().filter(is_same).count() >= COMBINATIONS;
        let key = if full { SeriesKey { method: "", status: 0, ..key } } else { key };
        let create = || Arc::new(Durations::with_sketch());
        (key.method, Arc::clone(all.entry(key).or_insert_with(create)))
    }

    /// The statistics of one target of one upstream, created on first use.
    pub fn target(&self, key: TargetKey) -> Arc<TargetStats> {
        let mut all = self.targets.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(all.entry(key).or_default())
    }
}
