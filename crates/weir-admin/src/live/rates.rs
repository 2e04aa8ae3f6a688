//! Differences of counters.

use super::{ApiPulse, Lost, Pulse, TargetPulse};
use std::collections::BTreeMap;
use weir_gateway::stats::{BUCKETS, Snapshot};

/// Sums of what only grows.
#[derive(Clone, Debug, Default)]
pub(super) struct Totals {
    pub(super) all: Sums,
    apis: BTreeMap<String, Sums>,
    request_bytes: u64,
    response_bytes: u64,
}

/// Requests, and how they ended.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sums {
    pub(super) requests: u64,
    pub(super) client_errors: u64,
    pub(super) server_errors: u64,
    /// Requests up to each bound, cumulative.
    buckets: [u64; BUCKETS.len()],
}

impl Totals {
    pub(super) fn of(snapshot: &Snapshot) -> Self {
        let mut totals = Self {
            request_bytes: snapshot.request_bytes,
            response_bytes: snapshot.response_bytes,
            ..Self::default()
        };
        for series in &snapshot.requests {
            let buckets = &series.durations.buckets;
            let count = series.durations.count;
            totals.all.add(series.status, count, buckets);
            match totals.apis.get_mut(&series.api) {
                Some(sums) => sums.add(series.status, count, buckets),
                None => {
                    let mut sums = Sums::default();
                    sums.add(series.status, count, buckets);
                    totals.apis.insert(series.api.clone(), sums);
                }
            }
        }
        totals
    }

    /// What came since `before`: numbers of requests; the busiest APIs first.
    pub(super) fn since(&self, before: &Self) -> Pulse {
        let all = self.all.since(&before.all);
        let none = Sums::default();
        let apis = self
            .apis
            .iter()
            .map(|(api, sums)| (api, sums.since(before.apis.get(api).unwrap_or(&none))));
        let mut apis: Vec<_> = apis
            .filter(|(_, sums)| sums.requests > 0)
            .map(|(api, sums)| ApiPulse {
                api: api.clone(),
                requests: sums.requests,
                server_errors: sums.server_errors,
                p99_us: sums.quantile_us(0.99),
            })
            .collect();
        apis.sort_by_key(|api| std::cmp::Reverse(api.requests));
        Pulse {
            requests: all.requests,
            client_errors: all.client_errors,
            server_errors: all.server_errors,
            p50_us: all.quantile_us(0.5),
            p90_us: all.quantile_us(0.9),
            p99_us: all.quantile_us(0.99),
            request_bytes: self.request_bytes.saturating_sub(before.request_bytes),
            response_bytes: self.response_bytes.saturating_sub(before.response_bytes),
            apis,
            ..Pulse::default()
        }
    }
}

impl Sums {
    pub(super) fn add(&mut self, status: u16, count: u64, buckets: &[u64; BUCKETS.len()]) {
        self.requests += count;
        match status / 100 {
            4 => self.client_errors += count,
            5 => self.server_errors += count,
            _ => {}
        }
        for (sum, bucket) in self.buckets.iter_mut().zip(buckets) {
            *sum += bucket;
        }
    }

    pub(super) fn since(&self, before: &Self) -> Self {
        let mut buckets = self.buckets;
        for (sum, old) in buckets.iter_mut().zip(before.buckets) {
            *sum = sum.saturating_sub(old);
        }
        Self {
            requests: self.requests.saturating_sub(before.requests),
            client_errors: self.client_errors.saturating_sub(before.client_errors),
            server_errors: self.server_errors.saturating_sub(before.server_errors),
            buckets,
        }
    }

    /// A quantile in microseconds, on a straight line within its bucket as Prometheus does it; of
    /// what lies above the last bound, that bound.
    pub(super) fn quantile_us(&self, share: f64) -> Option<u64> {
        if self.requests == 0 {
            return None;
        }
        let rank = share * self.requests as f64;
        let (mut below, mut low) = (0, 0.0);
        for (bound, upto) in BUCKETS.into_iter().zip(self.buckets) {
            if upto as f64 >= rank {
                let inside = (upto - below).max(1) as f64;
                let at = low + (bound - low) * ((rank - below as f64) / inside);
                return Some((at * 1e6).round() as u64);
            }
            (below, low) = (upto, bound);
        }
        Some((low * 1e6) as u64)
    }
}

pub(super) fn targets(snapshot: &Snapshot) -> impl Iterator<Item = TargetPulse> {
    snapshot.targets.iter().map(|target| TargetPulse {
        upstream: target.upstream.clone(),
        target: match target.port {
            // A service, whose records say it.
            0 => target.host.clone(),
            port => format!("{}:{port}", target.host),
        },
        up: target.out.is_none(),
        out: target.out.unwrap_or_default().to_owned(),
        active: target.open.saturating_sub(target.idle),
        idle: target.idle,
    })
}

pub(super) fn lost(snapshot: &Snapshot) -> Lost {
    Lost {
        unrecorded: snapshot.unrecorded,
        withheld: snapshot.withheld,
        uncounted: snapshot.uncounted,
        log_lines: snapshot.log_dropped,
        connections: snapshot.refused_connections,
        aborted: snapshot.aborted,
    }
}
