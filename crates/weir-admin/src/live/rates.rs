//! Differences of counters.

use super::{ApiSnapshot, LiveSnapshot, Lost, Rejected, TargetSnapshot};
use std::collections::BTreeMap;
use weir_server::snapshot::{Distribution, Snapshot};
use weir_telemetry::stats::{SeriesKey, Sketch};

/// Totals of counters.
#[derive(Clone, Debug, Default)]
pub(super) struct Totals {
    pub(super) all: Sums,
    apis: BTreeMap<String, Sums>,
    /// By problem code.
    rejections: BTreeMap<&'static str, Rejected>,
    request_bytes: u64,
    response_bytes: u64,
}

/// Requests by result.
#[derive(Clone, Debug, Default)]
pub(super) struct Sums {
    pub(super) requests: u64,
    pub(super) client_errors: u64,
    pub(super) server_errors: u64,
    /// Durations in microseconds, within 1 %.
    pub(super) sketch: Sketch,
}

impl Totals {
    pub(super) fn of(snapshot: &Snapshot) -> Self {
        let mut totals = Self {
            request_bytes: snapshot.totals.request_bytes,
            response_bytes: snapshot.totals.response_bytes,
            ..Self::default()
        };
        for (key, durations) in &snapshot.requests {
            totals.all.add(key, durations);
            totals.apis.entry(key.api.clone()).or_default().add(key, durations);
        }
        for one in &snapshot.rejections {
            let reason = one.problem.slug();
            let sum = totals.rejections.entry(reason).or_insert_with(|| Rejected {
                reason: reason.to_owned(),
                status: one.problem.status(),
                requests: 0,
            });
            sum.requests += one.requests;
        }
        totals
    }

    /// The difference to `before`: numbers of requests; APIs by number of requests.
    pub(super) fn since(&self, before: &Self) -> LiveSnapshot {
        let all = self.all.since(&before.all);
        let rejections = rejections(&self.rejections, before);
        let none = Sums::default();
        let apis = self
            .apis
            .iter()
            .map(|(api, sums)| (api, sums.since(before.apis.get(api).unwrap_or(&none))));
        let mut apis: Vec<_> = apis
            .filter(|(_, sums)| sums.requests > 0)
            .map(|(api, sums)| ApiSnapshot {
                api: api.clone(),
                requests: sums.requests,
                server_errors: sums.server_errors,
                p99_us: sums.sketch.percentile(99),
            })
            .collect();
        apis.sort_by_key(|api| std::cmp::Reverse(api.requests));
        LiveSnapshot {
            requests: all.requests,
            client_errors: all.client_errors,
            server_errors: all.server_errors,
            rejected: rejections.iter().map(|one| one.requests).sum(),
            rejections,
            p50_us: all.sketch.percentile(50),
            p90_us: all.sketch.percentile(90),
            p99_us: all.sketch.percentile(99),
            request_bytes: self.request_bytes.saturating_sub(before.request_bytes),
            response_bytes: self.response_bytes.saturating_sub(before.response_bytes),
            apis,
            ..LiveSnapshot::default()
        }
    }
}

impl Sums {
    pub(super) fn add(&mut self, key: &SeriesKey, durations: &Distribution) {
        let count = durations.count;
        self.requests += count;
        match key.status / 100 {
            4 => self.client_errors += count,
            5 => self.server_errors += count,
            _ => {}
        }
        self.sketch.merge(&durations.sketch);
    }

    pub(super) fn since(&self, before: &Self) -> Self {
        Self {
            requests: self.requests.saturating_sub(before.requests),
            client_errors: self.client_errors.saturating_sub(before.client_errors),
            server_errors: self.server_errors.saturating_sub(before.server_errors),
            sketch: self.sketch.since(&before.sketch),
        }
    }
}

/// Rejections since `before` by reason, most frequent first.
fn rejections(now: &BTreeMap<&'static str, Rejected>, before: &Totals) -> Vec<Rejected> {
    let since = now.iter().map(|(reason, now)| {
        let old = before.rejections.get(reason).map_or(0, |old| old.requests);
        Rejected { requests: now.requests.saturating_sub(old), ..now.clone() }
    });
    let mut since: Vec<Rejected> = since.filter(|one| one.requests > 0).collect();
    since.sort_by_key(|one| std::cmp::Reverse(one.requests));
    since
}

pub(super) fn targets(snapshot: &Snapshot) -> impl Iterator<Item = TargetSnapshot> {
    snapshot.targets.iter().map(|target| TargetSnapshot {
        upstream: target.key.upstream.clone(),
        target: target.key.name.clone(),
        up: target.health.out.is_none(),
        out: target.health.out.unwrap_or_default().to_owned(),
        active: target.open.saturating_sub(target.idle),
        idle: target.idle,
    })
}

pub(super) fn lost(snapshot: &Snapshot) -> Lost {
    Lost {
        unrecorded: snapshot.totals.unrecorded,
        withheld: snapshot.totals.withheld,
        uncounted: snapshot.totals.uncounted,
        log_lines: snapshot.totals.log_dropped,
        connections: snapshot.totals.refused_connections,
        aborted: snapshot.totals.aborted,
    }
}
