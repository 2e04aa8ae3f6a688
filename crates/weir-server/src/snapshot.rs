//! Sums of the statistics of all workers.

use std::collections::BTreeMap;
use std::sync::PoisonError;
use strum::VariantNames;
use weir_auth::{IntrospectionSeries, KeySetSeries};
use weir_http::counter::Counter;
use weir_http::grpc;
use weir_telemetry::labels::{Hedged, Mirrored, RetryDenied, RetryReason, UpgradeEnd};
use weir_telemetry::stats::{
    BUCKETS, CallKey, Durations, Exemplar, RejectionSeries, SeriesKey, Sketch, TargetKey, Totals,
    WorkerStats, put_exemplar, rejection_series,
};
use weir_upstream::{HealthSeries, Healths};

/// Sums over all workers at one moment. Counters only grow, except current numbers.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// Number of workers.
    pub workers: usize,
    /// Counters of all workers.
    pub totals: Totals,
    /// Tokens found in the cache of verified tokens.
    pub token_hits: u64,
    /// Tokens that had to be verified.
    pub token_misses: u64,
    /// Verified tokens evicted before they expired.
    pub token_evictions: u64,
    /// Fetched key sets, in the order of their auths.
    pub key_sets: Vec<KeySetSeries>,
    /// Introspections, in the order of their auths.
    pub introspections: Vec<IntrospectionSeries>,
    /// Cached responses.
    pub cache_entries: u64,
    /// Memory of cached responses, in bytes.
    pub cache_bytes: u64,
    /// Ended upgraded connections, by [`UpgradeEnd`].
    pub upgrades: [u64; UpgradeEnd::VARIANTS.len()],
    /// Requests that were not traced because of the limit per second.
    pub untraced: u64,
    /// Spans dropped because they were not exported in time.
    pub spans_dropped: u64,
    /// Mirrored requests, by [`Mirrored`].
    pub mirrored: [u64; Mirrored::VARIANTS.len()],
    /// Number of times the wall clock was set back.
    pub clock_backwards: u64,
    /// Workers use io_uring for connections.
    pub is_ring: bool,
    /// A name of each certificate of a listener, and the end of its validity in seconds since 1970.
    pub certificates: Vec<(String, i64)>,
    /// Keys of rate limits.
    pub limit_keys: u64,
    /// Evicted keys of rate limits, unused ones only.
    pub limit_evictions: u64,
    /// Requests counted in the overflow bucket, because there was no room for another key.
    pub limit_overflow: u64,
    /// Rejections by reason and consumer, in a stable order.
    pub rejections: Vec<RejectionSeries>,
    /// Durations of requests, by labels.
    pub requests: BTreeMap<SeriesKey, Distribution>,
    /// Upstream targets, in a stable order.
    pub targets: Vec<TargetSeries>,
}

/// Durations of requests with the same labels.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Distribution {
    /// Requests up to each bound of [`BUCKETS`], cumulative.
    pub buckets: [u64; BUCKETS.len()],
    /// Number of requests.
    pub count: u64,
    /// Sum of their durations in seconds.
    pub sum: f64,
    /// The same durations in microseconds; empty for requests to targets.
    pub sketch: Sketch,
    /// The last traced request of each bucket that has one, by number of the bucket; infinity is
    /// the last.
    pub exemplars: Vec<(usize, Exemplar)>,
}

/// One target of one upstream.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TargetSeries {
    /// Upstream, host and port.
    pub key: TargetKey,
    /// State and results of health checks.
    pub health: HealthSeries,
    /// Connection attempts.
    pub connects: u64,
    /// Requests on a reused connection.
    pub reused: u64,
    /// Retries after it failed, by [`RetryReason`].
    pub retries: [u64; RetryReason::VARIANTS.len()],
    /// Denied retries after it failed, by [`RetryDenied`].
    pub retries_denied: [u64; RetryDenied::VARIANTS.len()],
    /// Hedged requests, by winner ([`Hedged`]).
    pub hedges: [u64; Hedged::VARIANTS.len()],
    /// DNS queries for its name: successful, failed.
    pub resolutions: [u64; 2],
    /// Ended gRPC calls, by status.
    pub grpc: [u64; grpc::CODES],
    /// Requests rejected because all connections were in use.
    pub busy: u64,
    /// Open connections, the idle ones included.
    pub open: u64,
    /// Idle connections.
    pub idle: u64,
    /// Durations of requests, by labels.
    pub calls: BTreeMap<CallKey, Distribution>,
}

impl Snapshot {
    /// Sums the statistics of all workers.
    pub(crate) fn of<'a>(
        workers: impl Iterator<Item = &'a WorkerStats>,
        healths: &Healths,
    ) -> Self {
        let mut sum = Self::default();
        let mut targets = BTreeMap::new();
        let mut rejections = BTreeMap::new();
        for worker in workers {
            sum.add(worker);
            worker.rejections.add_to(&mut rejections);
            add_requests(worker, &mut sum.requests);
            add_targets(worker, healths, &mut targets);
        }
        sum.rejections = rejection_series(rejections);
        sum.targets = targets.into_values().collect();
        sum
    }

    fn add(&mut self, worker: &WorkerStats) {
        self.workers += 1;
        self.totals.add(worker);
        self.untraced += worker.spans.untraced.get();
        self.spans_dropped += worker.spans.dropped.get();
        add_all(&mut self.mirrored, &worker.mirrored);
        add_all(&mut self.upgrades, &worker.upgrades);
    }
}

impl Distribution {
    fn add(&mut self, durations: &Durations) {
        let mut cumulative = 0;
        for (index, bucket) in durations.buckets.iter().enumerate() {
            cumulative += bucket.get();
            if let Some(slot) = self.buckets.get_mut(index) {
                *slot += cumulative;
            }
        }
        self.count += cumulative;
        self.sum += durations.sum_ns.get() as f64 / 1e9;
        if let Some(sketch) = &durations.sketch {
            sketch.add_to(&mut self.sketch);
        }
        for (bucket, exemplar) in durations.exemplars().iter() {
            put_exemplar(&mut self.exemplars, *bucket, *exemplar);
        }
    }
}

fn add_requests(worker: &WorkerStats, sums: &mut BTreeMap<SeriesKey, Distribution>) {
    let all = worker.requests.lock().unwrap_or_else(PoisonError::into_inner);
    for (key, durations) in all.iter() {
        sums.entry(key.clone()).or_default().add(durations);
    }
}

fn add_targets(
    worker: &WorkerStats,
    healths: &Healths,
    sums: &mut BTreeMap<TargetKey, TargetSeries>,
) {
    let all = worker.targets.lock().unwrap_or_else(PoisonError::into_inner);
    for (key, stats) in all.iter() {
        let sum = sums.entry(key.clone()).or_insert_with(|| TargetSeries {
            key: key.clone(),
            health: healths.series(&key.upstream, &key.name),
            ..TargetSeries::default()
        });
        sum.connects += stats.connects.get();
        sum.reused += stats.reused.get();
        add_all(&mut sum.retries, &stats.retries);
        add_all(&mut sum.retries_denied, &stats.retries_denied);
        add_all(&mut sum.hedges, &stats.hedges);
        add_all(&mut sum.resolutions, &stats.resolutions);
        add_all(&mut sum.grpc, &stats.grpc);
        sum.busy += stats.busy.get();
        sum.open += stats.open.get();
        sum.idle += stats.idle.get();
        for (call, durations) in stats.calls.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            sum.calls.entry(*call).or_default().add(durations);
        }
    }
}

fn add_all(sums: &mut [u64], counters: &[Counter]) {
    sums.iter_mut().zip(counters).for_each(|(sum, counter)| *sum += counter.get());
}
