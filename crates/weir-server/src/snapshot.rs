//! The statistics of all workers, summed up.

use std::collections::BTreeMap;
use std::sync::PoisonError;
use strum::VariantNames;
use weir_auth::{IntrospectionSeries, KeySetSeries};
use weir_http::grpc;
use weir_telemetry::labels::{
    EjectionReason, Hedged, Mirrored, RetryDenied, RetryReason, UpgradeEnd,
};
use weir_telemetry::stats::{
    BUCKETS, CallKey, Durations, Exemplar, RejectionSeries, SeriesKey, Sketch, TargetKey, Totals,
    WorkerStats, put_exemplar, rejection_series,
};
use weir_upstream::Healths;

/// Sums over all workers at one moment. Counters only grow, except those said to be current.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// Threads that serve requests.
    pub workers: usize,
    /// Counters of all workers.
    pub totals: Totals,
    /// Tokens found in the cache of verified tokens.
    pub token_hits: u64,
    /// Tokens that had to be verified.
    pub token_misses: u64,
    /// Tokens pushed out of the cache before their time.
    pub token_evictions: u64,
    /// Key sets that are fetched, in the order of their auths.
    pub key_sets: Vec<KeySetSeries>,
    /// Tokens that servers are asked about, in the order of their auths.
    pub introspections: Vec<IntrospectionSeries>,
    /// Answers that are stored.
    pub cache_entries: u64,
    /// Memory that they take, in bytes.
    pub cache_bytes: u64,
    /// Connections that had become something else, by [`UpgradeEnd`].
    pub upgrades: [u64; UpgradeEnd::VARIANTS.len()],
    /// Requests that were not traced because there were too many in a second.
    pub untraced: u64,
    /// Spans that nobody took in time.
    pub spans_dropped: u64,
    /// Copies of requests, by [`Mirrored`].
    pub mirrored: [u64; Mirrored::VARIANTS.len()],
    /// How often the wall clock was set back.
    pub clock_backwards: u64,
    /// Keys that rate limits count now.
    pub limit_keys: u64,
    /// Keys forgotten for room, unused ones only.
    pub limit_evictions: u64,
    /// Requests counted in the bucket that all share when there is no room for another key.
    pub limit_overflow: u64,
    /// Requests that weir turned away, by reason and consumer, in a stable order.
    pub rejections: Vec<RejectionSeries>,
    /// Requests answered, by labels, in a stable order.
    pub requests: Vec<RequestSeries>,
    /// Upstream targets, in a stable order.
    pub targets: Vec<TargetSeries>,
}

/// Durations of requests with the same labels.
#[derive(Clone, Debug, PartialEq)]
pub struct RequestSeries {
    /// API name; empty when none was found.
    pub api: String,
    /// Operation; empty when no route was found.
    pub operation: String,
    /// Base and pattern of the route (`/orders/v1/{id}`); empty when no route was found.
    pub path: String,
    /// Method, or `_OTHER`; empty for all of which there are too many combinations.
    pub method: &'static str,
    /// Status code; 0 where the method is empty.
    pub status: u16,
    /// Their durations.
    pub durations: Distribution,
}

/// Durations of some requests.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Distribution {
    /// Requests up to each bound of [`BUCKETS`], cumulative.
    pub buckets: [u64; BUCKETS.len()],
    /// Requests.
    pub count: u64,
    /// Sum of their durations in seconds.
    pub sum: f64,
    /// The same in whole microseconds; empty of requests to targets.
    pub sketch: Sketch,
    /// The last traced one of each bucket that has one, by its number; that of infinity is the last.
    pub exemplars: Vec<(usize, Exemplar)>,
}

/// Durations of requests to one target with the same labels.
#[derive(Clone, Debug, PartialEq)]
pub struct CallSeries {
    /// Method, or `_OTHER`; empty for all of which there are too many combinations.
    pub method: &'static str,
    /// Status code of the upstream's answer; 0 when none came.
    pub status: u16,
    /// What went wrong, a word from a fixed list; empty when an answer came whole.
    pub error: &'static str,
    /// Their durations.
    pub durations: Distribution,
}

/// One target of one upstream.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TargetSeries {
    /// Upstream name.
    pub upstream: String,
    /// Its host.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// Why it is out of service now; `None` while it is in.
    pub out: Option<&'static str>,
    /// How often it was taken out of service, by [`EjectionReason`].
    pub ejections: [u64; EjectionReason::VARIANTS.len()],
    /// Checks that were good, and those that were not.
    pub checks: [u64; 2],
    /// Connections opened, or tried to.
    pub connects: u64,
    /// Requests that went over a connection that had carried others.
    pub reused: u64,
    /// Requests sent again after it failed, by [`Again`].
    pub retries: [u64; RetryReason::VARIANTS.len()],
    /// Requests not sent again after it failed, by [`NotAgain`].
    pub retries_denied: [u64; RetryDenied::VARIANTS.len()],
    /// Requests that had a second try beside the one here, by who answered ([`Hedged`]).
    pub hedges: [u64; Hedged::VARIANTS.len()],
    /// Questions for the addresses of its name: answered, and not.
    pub resolutions: [u64; 2],
    /// gRPC calls that are over, by their status.
    pub grpc: [u64; grpc::CODES],
    /// Requests refused because every connection was in use.
    pub busy: u64,
    /// Connections open now, idle ones among them.
    pub open: u64,
    /// Connections that wait for a request now.
    pub idle: u64,
    /// Requests that are over, by labels, in a stable order.
    pub calls: Vec<CallSeries>,
}

impl Snapshot {
    /// Sums up.
    pub(crate) fn of<'a>(
        workers: impl Iterator<Item = &'a WorkerStats>,
        healths: &Healths,
    ) -> Self {
        let mut sum = Self::default();
        let mut requests = BTreeMap::new();
        let mut targets = BTreeMap::new();
        let mut rejections = BTreeMap::new();
        for worker in workers {
            sum.add(worker);
            worker.rejections.add_to(&mut rejections);
            add_requests(worker, &mut requests);
            add_targets(worker, healths, &mut targets);
        }
        sum.rejections = rejection_series(rejections);
        sum.requests = requests.into_values().collect();
        sum.targets = targets.into_values().map(finish_target).collect();
        sum
    }

    fn add(&mut self, worker: &WorkerStats) {
        self.workers += 1;
        self.totals.add(worker);
        self.untraced += worker.spans.untraced.get();
        self.spans_dropped += worker.spans.dropped.get();
        self.mirrored.iter_mut().zip(&worker.mirrored).for_each(|(sum, one)| *sum += one.get());
        self.upgrades.iter_mut().zip(&worker.upgrades).for_each(|(sum, one)| *sum += one.get());
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

fn add_requests(worker: &WorkerStats, sums: &mut BTreeMap<SeriesKey, RequestSeries>) {
    let all = worker.requests.lock().unwrap_or_else(PoisonError::into_inner);
    for (key, durations) in all.iter() {
        let sum = sums.entry(key.clone()).or_insert_with(|| RequestSeries {
            api: key.api.clone(),
            operation: key.operation.clone(),
            path: key.path.clone(),
            method: key.method,
            status: key.status,
            durations: Distribution::default(),
        });
        sum.durations.add(durations);
    }
}

/// Sums of one target while they are made: numbers, and durations by their labels.
type TargetSum = (TargetSeries, BTreeMap<CallKey, Distribution>);

fn add_targets(worker: &WorkerStats, healths: &Healths, sums: &mut BTreeMap<TargetKey, TargetSum>) {
    let all = worker.targets.lock().unwrap_or_else(PoisonError::into_inner);
    for (key, stats) in all.iter() {
        let (sum, calls) = sums.entry(key.clone()).or_insert_with(|| {
            let health = healths.series(&key.upstream, &key.name);
            let series = TargetSeries {
                upstream: key.upstream.clone(),
                host: key.host.clone(),
                port: key.port,
                out: health.out,
                ejections: health.ejections,
                checks: health.checks,
                ..TargetSeries::default()
            };
            (series, BTreeMap::new())
        });
        sum.connects += stats.connects.get();
        sum.reused += stats.reused.get();
        sum.retries.iter_mut().zip(&stats.retries).for_each(|(sum, one)| *sum += one.get());
        sum.resolutions.iter_mut().zip(&stats.resolutions).for_each(|(sum, one)| *sum += one.get());
        sum.grpc.iter_mut().zip(&stats.grpc).for_each(|(sum, one)| *sum += one.get());
        sum.hedges.iter_mut().zip(&stats.hedges).for_each(|(sum, one)| *sum += one.get());
        sum.retries_denied
            .iter_mut()
            .zip(&stats.retries_denied)
            .for_each(|(sum, one)| *sum += one.get());
        sum.busy += stats.busy.get();
        sum.open += stats.open.get();
        sum.idle += stats.idle.get();
        for (call, durations) in stats.calls.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            calls.entry(*call).or_default().add(durations);
        }
    }
}

fn finish_target((mut target, calls): TargetSum) -> TargetSeries {
    let series = calls.into_iter().map(|(key, durations)| CallSeries {
        method: key.method,
        status: key.status,
        error: key.error,
        durations,
    });
    target.calls = series.collect();
    target
}
