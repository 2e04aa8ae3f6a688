//! What all workers have counted, summed up for whoever renders it.

use super::{BUCKETS, SeriesKey, WorkerStats};
use crate::upstream::Healths;
use std::collections::BTreeMap;
use std::sync::PoisonError;

/// Sums over all workers at one moment. Counters only grow, except those said to be current.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// Threads that serve requests.
    pub workers: usize,
    /// Client connections open now.
    pub connections: u64,
    /// Client connections accepted.
    pub accepted: u64,
    /// Client connections closed at once because of `limits.connections`.
    pub refused_connections: u64,
    /// TLS handshakes that failed or took too long.
    pub handshake_failures: u64,
    /// Connections that did not start with the PROXY protocol header they should have.
    pub proxy_protocol_failures: u64,
    /// Requests refused because their bytes are not acceptable HTTP.
    pub bad_requests: u64,
    /// Requests in flight now.
    pub active: u64,
    /// Requests whose client went away, or whose answer broke off.
    pub aborted: u64,
    /// Requests that ran into a time limit.
    pub timeouts: u64,
    /// Bytes of request bodies received.
    pub request_bytes: u64,
    /// Bytes of response bodies sent.
    pub response_bytes: u64,
    /// Access log lines dropped because the log could not keep up.
    pub log_dropped: u64,
    /// Tokens found in the cache of verified tokens.
    pub token_hits: u64,
    /// Tokens that had to be verified.
    pub token_misses: u64,
    /// Tokens pushed out of the cache before their time.
    pub token_evictions: u64,
    /// Requests refused by a rate limit.
    pub limited: u64,
    /// Requests refused by a quota.
    pub over_quota: u64,
    /// Keys that rate limits count now.
    pub limit_keys: u64,
    /// Keys forgotten for room, unused ones only.
    pub limit_evictions: u64,
    /// Requests counted in the bucket that all share when there is no room for another key.
    pub limit_overflow: u64,
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
    /// Method, or `_OTHER`.
    pub method: &'static str,
    /// Status code.
    pub status: u16,
    /// Requests up to each bound of [`BUCKETS`], cumulative.
    pub buckets: [u64; BUCKETS.len()],
    /// Requests.
    pub count: u64,
    /// Sum of their durations in seconds.
    pub sum: f64,
}

/// One target of one upstream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TargetSeries {
    /// Upstream name.
    pub upstream: String,
    /// Target authority.
    pub target: String,
    /// In service, as passive health sees it now.
    pub up: bool,
    /// See [`super::TargetStats`].
    pub requests: u64,
    /// Connections opened, or tried to.
    pub connects: u64,
    /// Requests that went over a connection that had carried others.
    pub reused: u64,
    /// Requests sent again because a kept connection turned out to be closed.
    pub retries: u64,
    /// Requests that failed.
    pub failures: u64,
    /// Requests refused because every connection was in use.
    pub busy: u64,
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
        for worker in workers {
            sum.add(worker);
            add_requests(worker, &mut requests);
            add_targets(worker, healths, &mut targets);
        }
        sum.requests = requests.into_values().collect();
        sum.targets = targets.into_values().collect();
        sum
    }

    fn add(&mut self, worker: &WorkerStats) {
        self.workers += 1;
        for (sum, counter) in [
            (&mut self.connections, &worker.connections),
            (&mut self.accepted, &worker.accepted),
            (&mut self.refused_connections, &worker.refused_connections),
            (&mut self.handshake_failures, &worker.handshake_failures),
            (&mut self.proxy_protocol_failures, &worker.proxy_protocol_failures),
            (&mut self.bad_requests, &worker.bad_requests),
            (&mut self.active, &worker.active),
            (&mut self.aborted, &worker.aborted),
            (&mut self.timeouts, &worker.timeouts),
            (&mut self.request_bytes, &worker.request_bytes),
            (&mut self.response_bytes, &worker.response_bytes),
            (&mut self.log_dropped, &worker.log_dropped),
            (&mut self.limited, &worker.limited),
            (&mut self.over_quota, &worker.over_quota),
        ] {
            *sum += counter.get();
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
            buckets: [0; BUCKETS.len()],
            count: 0,
            sum: 0.0,
        });
        let mut cumulative = 0;
        for (index, bucket) in durations.buckets.iter().enumerate() {
            cumulative += bucket.get();
            if let Some(slot) = sum.buckets.get_mut(index) {
                *slot += cumulative;
            }
        }
        sum.count += cumulative;
        sum.sum += durations.sum_ns.get() as f64 / 1e9;
    }
}

fn add_targets(
    worker: &WorkerStats,
    healths: &Healths,
    sums: &mut BTreeMap<(String, String), TargetSeries>,
) {
    let all = worker.targets.lock().unwrap_or_else(PoisonError::into_inner);
    for ((upstream, target), stats) in all.iter() {
        let sum = sums.entry((upstream.clone(), target.clone())).or_insert_with(|| TargetSeries {
            upstream: upstream.clone(),
            target: target.clone(),
            up: healths.of(upstream, target).is_up(),
            requests: 0,
            connects: 0,
            reused: 0,
            retries: 0,
            failures: 0,
            busy: 0,
        });
        sum.requests += stats.requests.get();
        sum.connects += stats.connects.get();
        sum.reused += stats.reused.get();
        sum.retries += stats.retries.get();
        sum.failures += stats.failures.get();
        sum.busy += stats.busy.get();
    }
}
