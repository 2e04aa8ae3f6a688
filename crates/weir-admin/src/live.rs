//! Live metrics: one snapshot per second for all consoles, and their history in memory.
//!
//! One task takes a snapshot of the statistics per second and renders it once: a further console
//! costs only the transfer of the same bytes. A slow reader skips seconds, and nothing waits for
//! it.

mod conditions;
mod health;
mod history;
mod pools;
mod rates;
mod rejections;
mod traffic;

use crate::sources::{Readiness, Sources};
use axum::body::Bytes;
use conditions::{ExpiringKey, Inputs};
use health::HealthChanges;
use history::HistoryRings;
use pools::PoolHistories;
use rates::Totals;
use serde::{Deserialize, Serialize};
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::watch;
use utoipa::ToSchema;
use weir_config::{Config, Consumer};
use weir_limit::LimitStatuses;
use weir_model::UnixMicros;
use weir_store::clock;
use weir_store::gaps::Gap;

pub(crate) use conditions::Condition;
pub(crate) use health::HealthChange;
pub(crate) use history::{History, MAX_PERIOD_SECONDS};
pub(crate) use pools::PoolHistory;
pub(crate) use rejections::Rejections;
pub(crate) use traffic::Traffic;

/// Interval of the snapshots.
const INTERVAL: Duration = Duration::from_secs(1);
/// Snapshots between two reads of the journal state.
const JOURNAL_TICKS: u32 = 2;
/// Period of the reported gaps, in seconds.
const RECENT_SECONDS: u64 = 24 * 60 * 60;
/// Maximum number of reported APIs, targets and throttled consumers.
const MAX_APIS: usize = 20;
const MAX_TARGETS: usize = 50;
const MAX_THROTTLED: usize = 20;

/// Metrics of one second.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub(crate) struct LiveSnapshot {
    /// End of the second, in milliseconds since 1970.
    pub(crate) at_ms: u64,
    /// False: the server drains and stops.
    pub(crate) ready: bool,
    /// Completed requests.
    pub(crate) requests: u64,
    /// Responses with 4xx.
    pub(crate) client_errors: u64,
    /// Responses with 5xx.
    pub(crate) server_errors: u64,
    /// Requests rejected by weir with 401, 403, 429 or 503.
    pub(crate) rejected: u64,
    /// Rejections by reason, most frequent first.
    pub(crate) rejections: Vec<Rejected>,
    /// Median duration in microseconds, within 1 %; absent without requests.
    pub(crate) p50_us: Option<u64>,
    /// 90th percentile of the durations.
    pub(crate) p90_us: Option<u64>,
    /// 99th percentile of the durations.
    pub(crate) p99_us: Option<u64>,
    /// Bytes of request bodies.
    pub(crate) request_bytes: u64,
    /// Bytes of response bodies.
    pub(crate) response_bytes: u64,
    /// Requests in flight at the end of the second.
    pub(crate) in_flight: u64,
    /// Open client connections at the end of the second.
    pub(crate) connections: u64,
    /// APIs with requests, by number of requests, at most 20.
    pub(crate) apis: Vec<ApiSnapshot>,
    /// Targets of upstreams, at most 50.
    pub(crate) targets: Vec<TargetSnapshot>,
    /// Consumers throttled by their plan, at most 20.
    pub(crate) throttled: Vec<Throttled>,
    /// Losses since the start.
    pub(crate) lost: Lost,
    /// Gaps of the last 24 hours, including the time before the start.
    #[serde(default)]
    pub(crate) missing: Gap,
    /// The journal, if recording is on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) journal: Option<JournalSnapshot>,
    /// What is wrong now, severe conditions first.
    #[serde(default)]
    pub(crate) conditions: Vec<Condition>,
}

/// Requests rejected by weir for a reason.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct Rejected {
    /// Code of the problem: `token-expired`, `rate-limited`, `pool-busy`.
    pub(crate) reason: String,
    /// Status of the response.
    pub(crate) status: u16,
    /// Requests.
    pub(crate) requests: u64,
}

/// Requests of an API in a second.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub(crate) struct ApiSnapshot {
    /// Name of the API; empty without a matching API.
    pub(crate) api: String,
    /// Requests.
    pub(crate) requests: u64,
    /// Responses with 5xx.
    pub(crate) server_errors: u64,
    /// 99th percentile of the durations in microseconds, within 1 %.
    pub(crate) p99_us: Option<u64>,
}

/// A target of an upstream.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub(crate) struct TargetSnapshot {
    /// Name of the upstream.
    pub(crate) upstream: String,
    /// Host and port.
    pub(crate) target: String,
    /// The target is in rotation.
    pub(crate) up: bool,
    /// Reason of the ejection: `check`, `failures` or `errors`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) out: String,
    /// Connections with a request.
    pub(crate) active: u64,
    /// Idle connections.
    pub(crate) idle: u64,
}

/// A consumer that is throttled by its plan.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub(crate) struct Throttled {
    /// Name of the consumer.
    pub(crate) consumer: String,
    /// Name of the plan.
    pub(crate) plan: String,
    /// Requests rejected in the second.
    pub(crate) refused: u64,
}

/// Losses for lack of space or capacity since the start.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct Lost {
    /// Requests that could not be recorded at all or to their end.
    pub(crate) unrecorded: u64,
    /// Withheld bodies: they could not be redacted.
    pub(crate) withheld: u64,
    /// Calls that could not be metered.
    pub(crate) uncounted: u64,
    /// Lost lines of the access log.
    pub(crate) log_lines: u64,
    /// Connections rejected immediately.
    pub(crate) connections: u64,
    /// Aborted requests: the client left, or the response was aborted.
    pub(crate) aborted: u64,
}

/// State of the journal.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub(crate) struct JournalSnapshot {
    /// Size on disk in bytes.
    pub(crate) disk_bytes: u64,
    /// Records that could not be appended since the start.
    pub(crate) refused: u64,
    /// Transactions recorded with their outcome only since the start.
    pub(crate) shortened: u64,
    /// Files deleted by retention since the start.
    pub(crate) dropped: u64,
    /// Indexed transactions.
    pub(crate) indexed: u64,
    /// Transactions that are not indexed yet.
    pub(crate) index_lag_records: u64,
    /// Index lag in seconds.
    pub(crate) index_lag_seconds: f64,
}

/// The sampler.
pub(crate) struct Live {
    sources: Arc<Sources>,
    events: watch::Sender<Bytes>,
    history: Mutex<HistoryRings>,
    pools: Mutex<PoolHistories>,
    health: Mutex<HealthChanges>,
}

/// State of the previous second.
#[derive(Default)]
struct PreviousSecond {
    totals: Totals,
    refused: HashMap<String, u64>,
    journal: Option<JournalSnapshot>,
    missing: Gap,
    seconds: u32,
}

impl Live {
    /// No snapshot has been taken yet.
    pub(crate) fn new(sources: Arc<Sources>) -> Self {
        Self {
            sources,
            events: watch::Sender::new(Bytes::new()),
            history: Mutex::default(),
            pools: Mutex::default(),
            health: Mutex::default(),
        }
    }

    /// Subscribes to new events of the stream (text/event-stream).
    pub(crate) fn follow(&self) -> watch::Receiver<Bytes> {
        self.events.subscribe()
    }

    /// The history of a period, in seconds since 1970.
    pub(crate) fn history(&self, from: u64, to: u64) -> History {
        self.history.lock().unwrap_or_else(PoisonError::into_inner).between(from, to)
    }

    /// The history of pools in a period, in seconds since 1970; at most the last 15 minutes.
    pub(crate) fn pools(&self, from: u64, to: u64) -> Vec<PoolHistory> {
        self.pools.lock().unwrap_or_else(PoisonError::into_inner).between(from, to)
    }

    /// The last changes of the health of targets that `is_requested`, the last one first, at most `limit`, and
    /// whether there are more.
    pub(crate) fn health(
        &self,
        limit: usize,
        is_requested: impl Fn(&HealthChange) -> bool,
    ) -> (Vec<HealthChange>, bool) {
        let all = self.health.lock().unwrap_or_else(PoisonError::into_inner);
        let mut found = all.latest().filter(|change| is_requested(change)).cloned();
        let changes = found.by_ref().take(limit).collect();
        (changes, found.next().is_some())
    }

    /// Takes a snapshot every second, while it is polled.
    pub(crate) async fn run(self: Arc<Self>) {
        let mut ticks = tokio::time::interval(INTERVAL);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        ticks.tick().await;
        let mut before = PreviousSecond {
            totals: Totals::of(&self.sources.gateway.stats()),
            ..PreviousSecond::default()
        };
        loop {
            ticks.tick().await;
            let live = Arc::clone(&self);
            let taken = tokio::task::spawn_blocking(move || {
                live.tick(&mut before);
                before
            });
            // The panic has been reported; there is no previous second then.
            before = taken.await.unwrap_or_default();
        }
    }

    fn tick(&self, before: &mut PreviousSecond) {
        let stats = self.sources.gateway.stats();
        let totals = Totals::of(&stats);
        let now_ms = unix_ms();
        let mut history = self.history.lock().unwrap_or_else(PoisonError::into_inner);
        history.add(now_ms / 1000, &totals, stats.totals.active);
        drop(history);
        let pools = self.sources.gateway.pools();
        self.pools.lock().unwrap_or_else(PoisonError::into_inner).add(now_ms / 1000, &pools);
        let mut health = self.health.lock().unwrap_or_else(PoisonError::into_inner);
        health.add(UnixMicros(now_ms * 1000), &stats.targets);
        drop(health);
        if self.events.receiver_count() > 0 {
            let mut snapshot = totals.since(&before.totals);
            snapshot.at_ms = now_ms;
            snapshot.ready = self.sources.readiness() == Readiness::Ready;
            snapshot.in_flight = stats.totals.active;
            snapshot.connections = stats.totals.connections;
            snapshot.apis.truncate(MAX_APIS);
            let mut targets: Vec<_> = rates::targets(&stats).collect();
            snapshot.throttled = throttled(&self.sources.gateway.limits(), &mut before.refused);
            snapshot.lost = rates::lost(&stats);
            if before.seconds.is_multiple_of(JOURNAL_TICKS) {
                before.journal = self.journal();
                before.missing = self.missing(now_ms / 1000);
            }
            snapshot.journal = before.journal.clone();
            snapshot.missing = before.missing;
            snapshot.conditions = self.conditions(&snapshot, &targets, &stats.certificates);
            targets.truncate(MAX_TARGETS);
            snapshot.targets = targets;
            before.seconds = before.seconds.wrapping_add(1);
            let text = serde_json::to_string(&snapshot).unwrap_or_default();
            self.events.send_replace(format!("data: {text}\n\n").into());
        }
        before.totals = totals;
    }

    /// What is wrong now.
    fn conditions(
        &self,
        snapshot: &LiveSnapshot,
        targets: &[TargetSnapshot],
        certificates: &[(String, i64)],
    ) -> Vec<Condition> {
        let site = self.sources.gateway.site();
        let fleet = self.sources.fleet.as_ref().map(|fleet| fleet.status().findings);
        let fleet = fleet.into_iter().flatten().map(|finding| (finding.code, finding.message));
        conditions::conditions(&Inputs {
            now_seconds: (snapshot.at_ms / 1000).cast_signed(),
            targets,
            journal: snapshot.journal.as_ref(),
            disk_budget: site.config.journal.disk,
            missing: &snapshot.missing,
            certificates,
            keys: &self.expiring_keys(&site.config),
            is_rejected: self.sources.configuration.history.is_rejected(),
            fleet: &fleet.collect::<Vec<_>>(),
        })
    }

    /// API keys with an end that are not revoked.
    fn expiring_keys(&self, config: &Config) -> Vec<ExpiringKey> {
        let revoked = self.sources.access.as_ref().map(|access| access.revoked_keys.hashes());
        let revoked: HashSet<String> = revoked.into_iter().flatten().collect();
        let of_consumer = |consumer: &Consumer| {
            let ends = consumer.api_keys.iter().filter_map(|key| Some((key, key.expires?)));
            let ends = ends.filter(|(key, _)| !revoked.contains(&key.hash.digits()));
            let expiring = ends.map(|(key, end)| ExpiringKey {
                consumer: consumer.name.clone(),
                name: key.name.clone().unwrap_or_else(|| key.hash.id()),
                end: i64::try_from(end).unwrap_or(i64::MAX),
            });
            expiring.collect::<Vec<_>>()
        };
        config.consumers.iter().flat_map(of_consumer).collect()
    }

    /// Recent gaps; none if they cannot be read.
    fn missing(&self, now: u64) -> Gap {
        let gaps = self.sources.gaps.as_ref();
        let recent = gaps.map(|gaps| gaps.between(now.saturating_sub(RECENT_SECONDS), now + 60));
        recent.and_then(Result::ok).unwrap_or_default()
    }

    fn journal(&self) -> Option<JournalSnapshot> {
        let state = self.sources.tracker.as_ref()?.journal_state().ok()?;
        Some(JournalSnapshot {
            disk_bytes: state.disk_bytes,
            refused: state.refused,
            shortened: state.shortened,
            dropped: state.dropped,
            indexed: state.indexed,
            index_lag_records: state.index_lag_records,
            index_lag_seconds: state.index_lag_seconds,
        })
    }
}

/// Consumers without remaining calls, or with rejections since the previous snapshot. `refused`
/// holds the previous counts.
fn throttled(statuses: &LimitStatuses, refused: &mut HashMap<String, u64>) -> Vec<Throttled> {
    let is_first = refused.is_empty();
    let mut found = Vec::new();
    let mut now = HashMap::with_capacity(statuses.consumers.len());
    for plan in &statuses.consumers {
        let all = plan.refused_by_rate + plan.refused_by_quota;
        let before = refused.get(&plan.consumer).copied();
        let since = if is_first { 0 } else { all.saturating_sub(before.unwrap_or(0)) };
        if (plan.throttled.is_some() || since > 0) && found.len() < MAX_THROTTLED {
            found.push(Throttled {
                consumer: plan.consumer.clone(),
                plan: plan.plan.clone(),
                refused: since,
            });
        }
        now.insert(plan.consumer.clone(), all);
    }
    *refused = now;
    found
}

fn unix_ms() -> u64 {
    clock::now_us() / 1000
}

#[cfg(test)]
mod tests;
