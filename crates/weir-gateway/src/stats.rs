//! Statistics: counters and durations that one worker writes and every thread reads. Their sum over
//! workers is [`crate::snapshot`].

mod rejections;
mod sketch;

pub use rejections::RejectionSeries;
pub(crate) use rejections::{Rejections, series as rejection_series};
pub use sketch::Sketch;

use crate::counter::Counter;
use crate::grpc;
use crate::labels::{Hedged, Mirrored, RetryDenied, RetryReason, UpgradeEnd};
use crate::spans::Spans;
use crate::trace_context::SpanContext;
use sketch::Recorder;
use std::collections::HashMap;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

/// Upper bounds of the duration buckets in seconds: those that OpenTelemetry's semantic
/// conventions advise, with finer ones below 5 ms, where a gateway's answers are.
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
pub(crate) struct Durations {
    /// One count a bucket, the last for everything above; not cumulative.
    pub(crate) buckets: [Counter; BUCKETS.len() + 1],
    pub(crate) sum_ns: Counter,
    /// The same as whole microseconds, for quantiles; requests to targets have none.
    pub(crate) sketch: Option<Box<Recorder>>,
    /// The last traced request of each bucket; nothing as long as there was none.
    exemplars: Mutex<Vec<(usize, Exemplar)>>,
}

/// A traced request that stands for those of its bucket.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Exemplar {
    /// Its span.
    pub span: SpanContext,
    /// How long it took, in seconds.
    pub seconds: f64,
    /// When it ended, since 1970.
    pub at: Duration,
}

impl Durations {
    /// Of requests of clients, whose quantiles are told.
    fn with_sketch() -> Self {
        Self { sketch: Some(Box::default()), ..Self::default() }
    }

    /// Counts one; `span` is there if it is traced.
    pub(crate) fn record(&self, duration: Duration, span: Option<SpanContext>) {
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

    pub(crate) fn exemplars(&self) -> MutexGuard<'_, Vec<(usize, Exemplar)>> {
        self.exemplars.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Keeps the later one of those of a bucket.
pub(crate) fn put_exemplar(all: &mut Vec<(usize, Exemplar)>, bucket: usize, exemplar: Exemplar) {
    match all.iter_mut().find(|(of, _)| *of == bucket) {
        Some((_, kept)) if kept.at <= exemplar.at => *kept = exemplar,
        Some(_) => {}
        None => all.push((bucket, exemplar)),
    }
}

/// Most combinations of method, status and error that one worker counts by themselves for one
/// operation, or for one target: an upstream may answer with any status there is.
pub const COMBINATIONS: usize = 64;

/// What tells request series apart. Bounded: operations are configured, and of each there are at
/// most [`COMBINATIONS`] and one more for all others, whose method is empty.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct SeriesKey {
    /// Empty when no API was found.
    pub(crate) api: String,
    /// Empty when no route was found.
    pub(crate) operation: String,
    /// Base and pattern of the route; empty when none was found.
    pub(crate) path: String,
    pub(crate) method: &'static str,
    pub(crate) status: u16,
}

/// What happened to one target, from one worker.
#[derive(Debug, Default)]
pub struct TargetStats {
    /// Connections opened, or tried to.
    pub connects: Counter,
    /// Requests that went over a connection that had carried others.
    pub reused: Counter,
    /// Requests sent again after this target failed, by [`Again`].
    pub retries: [Counter; RetryReason::ALL.len()],
    /// Requests not sent again after this target failed, by [`NotAgain`].
    pub retries_denied: [Counter; RetryDenied::ALL.len()],
    /// Requests that had a second try beside the one here, by who answered ([`Hedged`]).
    pub hedges: [Counter; Hedged::ALL.len()],
    /// Questions for the addresses of its name: answered, and not.
    pub resolutions: [Counter; 2],
    /// gRPC calls that are over, by their status.
    pub grpc: [Counter; grpc::CODES],
    /// Requests refused because every connection was in use.
    pub busy: Counter,
    /// Connections open now, idle ones among them.
    pub open: Counter,
    /// Connections that wait for a request now.
    pub idle: Counter,
    pub(crate) calls: Mutex<HashMap<CallKey, Arc<Durations>>>,
}

impl TargetStats {
    /// A request is sent again.
    pub(crate) fn count_retry(&self, why: RetryReason) {
        self.retries[why as usize].add(1);
    }

    /// A request that might be is not sent again.
    pub(crate) fn count_retry_denied(&self, why: RetryDenied) {
        self.retries_denied[why as usize].add(1);
    }

    /// The series of these labels, made on first use, or that of all others; with its own key.
    pub(crate) fn series(&self, key: CallKey) -> (CallKey, Arc<Durations>) {
        let mut all = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        let full = all.len() >= COMBINATIONS && !all.contains_key(&key);
        let others = CallKey { method: "", status: 0, error: "" };
        let key = if full { others } else { key };
        (key, Arc::clone(all.entry(key).or_default()))
    }
}

/// A target of an upstream.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct TargetKey {
    pub(crate) upstream: String,
    pub(crate) host: String,
    pub(crate) port: u16,
    /// What its health is known by.
    pub(crate) name: String,
}

/// What tells requests to one target apart. Bounded as [`SeriesKey`] is; errors are words from a
/// fixed list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct CallKey {
    pub(crate) method: &'static str,
    /// 0 when no answer came.
    pub(crate) status: u16,
    /// Empty when an answer came whole.
    pub(crate) error: &'static str,
}

/// Everything one worker counts.
#[derive(Debug, Default)]
pub(crate) struct WorkerStats {
    /// Version of the Config it serves (no statistic: it tells when a reload is through).
    pub(crate) version: AtomicU64,
    pub(crate) connections: Counter,
    pub(crate) accepted: Counter,
    pub(crate) refused_connections: Counter,
    pub(crate) descriptors_exhausted: Counter,
    pub(crate) handshake_failures: Counter,
    pub(crate) proxy_protocol_failures: Counter,
    pub(crate) bad_requests: Counter,
    pub(crate) dropped_headers: Counter,
    pub(crate) active: Counter,
    pub(crate) aborted: Counter,
    pub(crate) timeouts: Counter,
    pub(crate) request_bytes: Counter,
    pub(crate) response_bytes: Counter,
    pub(crate) log_dropped: Counter,
    pub(crate) limited: Counter,
    pub(crate) over_quota: Counter,
    pub(crate) auth_throttled: Counter,
    pub(crate) invalid_requests: Counter,
    pub(crate) invalid_responses: Counter,
    pub(crate) validation_over_budget_requests: Counter,
    pub(crate) validation_over_budget_responses: Counter,
    pub(crate) fallbacks: Counter,
    pub(crate) cache_hits: Counter,
    pub(crate) cache_misses: Counter,
    pub(crate) cache_revalidated: Counter,
    pub(crate) cache_bypassed: Counter,
    pub(crate) cache_waited: Counter,
    pub(crate) cache_evictions: Counter,
    pub(crate) unrecorded: Counter,
    pub(crate) uncounted: Counter,
    pub(crate) withheld: Counter,
    pub(crate) upgrades_open: Counter,
    pub(crate) upgrades_refused: Counter,
    /// By [`Mirrored`].
    pub(crate) mirrored: [Counter; Mirrored::ALL.len()],
    /// By [`UpgradeEnd`].
    pub(crate) upgrades: [Counter; UpgradeEnd::ALL.len()],
    /// Traced requests that are over.
    pub(crate) spans: Spans,
    /// Requests that weir turned away, by reason and consumer.
    pub(crate) rejections: Rejections,
    pub(crate) requests: Mutex<HashMap<SeriesKey, Arc<Durations>>>,
    pub(crate) targets: Mutex<HashMap<TargetKey, Arc<TargetStats>>>,
}

impl WorkerStats {
    /// The series of these labels, made on first use, or that of all others; with its method.
    pub(crate) fn series(&self, key: SeriesKey) -> (&'static str, Arc<Durations>) {
        let mut all = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = all.get(&key) {
            return (key.method, Arc::clone(known));
        }
        let is_same = |other: &&SeriesKey| {
            (&other.api, &other.operation, &other.path) == (&key.api, &key.operation, &key.path)
        };
        let full = all.keys().filter(is_same).count() >= COMBINATIONS;
        let key = if full { SeriesKey { method: "", status: 0, ..key } } else { key };
        let made = || Arc::new(Durations::with_sketch());
        (key.method, Arc::clone(all.entry(key).or_insert_with(made)))
    }

    /// The statistics of one target of one upstream, made on first use.
    pub(crate) fn target(&self, key: TargetKey) -> Arc<TargetStats> {
        let mut all = self.targets.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(all.entry(key).or_default())
    }
}
