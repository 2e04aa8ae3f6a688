//! What happens now, once a second, for everybody who looks; and the same as far back as memory
//! has it.
//!
//! One task takes one snapshot of statistics a second and renders it once: a console more costs no
//! more than handing it the same bytes. Who reads slowly misses seconds, and nothing waits for it.

mod history;
mod pools;
mod rates;
mod rejections;
mod traffic;

use crate::gap::Missing;
use crate::sources::{Readiness, Sources};
use axum::body::Bytes;
use history::Past;
use pools::PoolPast;
use rates::Totals;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::sync::watch;
use utoipa::ToSchema;
use weir_gateway::limit::LimitStandings;

pub(crate) use history::{History, LONGEST};
pub(crate) use pools::PoolHistory;
pub(crate) use rejections::Rejections;
pub(crate) use traffic::Traffic;

/// Between two snapshots.
const EVERY: Duration = Duration::from_secs(1);
/// Snapshots between two looks at the journal, which reads a little of it.
const JOURNAL_EVERY: u32 = 2;
/// How many seconds back it is told what is missing.
const RECENT: u64 = 24 * 60 * 60;
/// Most APIs, upstream targets and throttled consumers that are told.
const MOST_APIS: usize = 20;
const MOST_TARGETS: usize = 50;
const MOST_THROTTLED: usize = 20;

/// A second.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub(crate) struct Pulse {
    /// Its end, in milliseconds since 1970.
    pub(crate) at_ms: u64,
    /// False: the server finishes what it has and stops.
    pub(crate) ready: bool,
    /// Requests that ended in it.
    pub(crate) requests: u64,
    /// Of them, those answered with 4xx.
    pub(crate) client_errors: u64,
    /// Of them, those answered with 5xx.
    pub(crate) server_errors: u64,
    /// Of them, those that weir turned away with 401, 403, 429 or 503.
    pub(crate) rejected: u64,
    /// Why it did, the most frequent reason first.
    pub(crate) rejections: Vec<Rejected>,
    /// Microseconds that half of them took at most, within 1 %; none if there were none.
    pub(crate) p50_us: Option<u64>,
    /// The same of 90 %.
    pub(crate) p90_us: Option<u64>,
    /// The same of 99 %.
    pub(crate) p99_us: Option<u64>,
    /// Bytes of request bodies.
    pub(crate) request_bytes: u64,
    /// Bytes of answers' bodies.
    pub(crate) response_bytes: u64,
    /// Requests in flight at its end.
    pub(crate) in_flight: u64,
    /// Client connections open at its end.
    pub(crate) connections: u64,
    /// APIs with requests in it, the busiest first, at most 20.
    pub(crate) apis: Vec<ApiPulse>,
    /// Targets of upstreams, at most 50.
    pub(crate) targets: Vec<TargetPulse>,
    /// Consumers that were, or would be, refused because of their plan, at most 20.
    pub(crate) throttled: Vec<Throttled>,
    /// What was lost since the start.
    pub(crate) lost: Lost,
    /// What is missing of the last 24 hours, also from before the start.
    #[serde(default)]
    pub(crate) missing: Missing,
    /// The journal, if anything is recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) journal: Option<JournalPulse>,
}

/// Requests that weir turned away for a reason.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct Rejected {
    /// The last part of the problem's type: `token-expired`, `rate-limited`, `pool-busy`.
    pub(crate) reason: String,
    /// The status that weir answered with.
    pub(crate) status: u16,
    /// Requests.
    pub(crate) requests: u64,
}

/// Requests of an API in a second.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub(crate) struct ApiPulse {
    /// Its name; empty: none was found.
    pub(crate) api: String,
    /// Requests.
    pub(crate) requests: u64,
    /// Of them, those answered with 5xx.
    pub(crate) server_errors: u64,
    /// Microseconds that 99 % of them took at most, within 1 %.
    pub(crate) p99_us: Option<u64>,
}

/// A target of an upstream.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub(crate) struct TargetPulse {
    /// The upstream's name.
    pub(crate) upstream: String,
    /// Host and port.
    pub(crate) target: String,
    /// In service.
    pub(crate) up: bool,
    /// Why it is not: `check`, `failures` or `errors`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) out: String,
    /// Connections that carry a request.
    pub(crate) active: u64,
    /// Connections that wait for one.
    pub(crate) idle: u64,
}

/// A consumer that has used up what its plan gives.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub(crate) struct Throttled {
    /// Its name.
    pub(crate) consumer: String,
    /// Its plan.
    pub(crate) plan: String,
    /// Requests refused in the second.
    pub(crate) refused: u64,
}

/// What was lost, or refused for want of room, since the start.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct Lost {
    /// Requests of which nothing, or not the end, could be recorded.
    pub(crate) unrecorded: u64,
    /// Bodies that were not recorded because they could not be masked.
    pub(crate) withheld: u64,
    /// Calls that could not be counted.
    pub(crate) uncounted: u64,
    /// Lines of the access log.
    pub(crate) log_lines: u64,
    /// Connections that were closed at once.
    pub(crate) connections: u64,
    /// Requests whose client went away or whose answer broke off.
    pub(crate) aborted: u64,
}

/// The journal at a moment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub(crate) struct JournalPulse {
    /// Bytes on the disk.
    pub(crate) disk_bytes: u64,
    /// Records that could not be appended since the start.
    pub(crate) refused: u64,
    /// Transactions of which only the outcome was recorded since the start.
    pub(crate) shortened: u64,
    /// Files dropped by retention since the start.
    pub(crate) dropped: u64,
    /// Transactions in the index.
    pub(crate) indexed: u64,
    /// Transactions that are not indexed yet.
    pub(crate) index_lag_records: u64,
    /// How many seconds the index is behind.
    pub(crate) index_lag_seconds: f64,
}

/// The sampler.
pub(crate) struct Live {
    sources: Arc<Sources>,
    told: watch::Sender<Bytes>,
    past: Mutex<Past>,
    pools: Mutex<PoolPast>,
}

/// What the sampler knows of the second before.
#[derive(Default)]
struct Before {
    totals: Totals,
    refused: HashMap<String, u64>,
    journal: Option<JournalPulse>,
    missing: Missing,
    seconds: u32,
}

impl Live {
    /// Nothing has been seen yet.
    pub(crate) fn new(sources: Arc<Sources>) -> Self {
        Self {
            sources,
            told: watch::Sender::new(Bytes::new()),
            past: Mutex::default(),
            pools: Mutex::default(),
        }
    }

    /// What is told from now on: events of a stream (text/event-stream).
    pub(crate) fn follow(&self) -> watch::Receiver<Bytes> {
        self.told.subscribe()
    }

    /// What was between two times, in seconds since 1970.
    pub(crate) fn history(&self, from: u64, to: u64) -> History {
        self.past.lock().unwrap_or_else(PoisonError::into_inner).between(from, to)
    }

    /// What pools did between two times, in seconds since 1970; at most the last 15 minutes.
    pub(crate) fn pools(&self, from: u64, to: u64) -> Vec<PoolHistory> {
        self.pools.lock().unwrap_or_else(PoisonError::into_inner).between(from, to)
    }

    /// Takes a snapshot every second, for as long as it is polled.
    pub(crate) async fn run(self: Arc<Self>) {
        let mut ticks = tokio::time::interval(EVERY);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        ticks.tick().await;
        let mut before =
            Before { totals: Totals::of(&self.sources.gateway.stats()), ..Before::default() };
        loop {
            ticks.tick().await;
            let live = Arc::clone(&self);
            let taken = tokio::task::spawn_blocking(move || {
                live.tick(&mut before);
                before
            });
            // A panic has been told; there is no second before it then.
            before = taken.await.unwrap_or_default();
        }
    }

    fn tick(&self, before: &mut Before) {
        let snapshot = self.sources.gateway.stats();
        let totals = Totals::of(&snapshot);
        let now_ms = unix_ms();
        let mut past = self.past.lock().unwrap_or_else(PoisonError::into_inner);
        past.add(now_ms / 1000, &totals, snapshot.active);
        drop(past);
        let pools = self.sources.gateway.pools();
        self.pools.lock().unwrap_or_else(PoisonError::into_inner).add(now_ms / 1000, &pools);
        if self.told.receiver_count() > 0 {
            let mut pulse = totals.since(&before.totals);
            pulse.at_ms = now_ms;
            pulse.ready = self.sources.readiness() == Readiness::Ready;
            pulse.in_flight = snapshot.active;
            pulse.connections = snapshot.connections;
            pulse.apis.truncate(MOST_APIS);
            pulse.targets = rates::targets(&snapshot).take(MOST_TARGETS).collect();
            pulse.throttled = throttled(&self.sources.gateway.limits(), &mut before.refused);
            pulse.lost = rates::lost(&snapshot);
            if before.seconds.is_multiple_of(JOURNAL_EVERY) {
                before.journal = self.journal();
                before.missing = self.missing(now_ms / 1000);
            }
            pulse.journal = before.journal.clone();
            pulse.missing = before.missing;
            before.seconds = before.seconds.wrapping_add(1);
            let text = serde_json::to_string(&pulse).unwrap_or_default();
            self.told.send_replace(format!("data: {text}\n\n").into());
        }
        before.totals = totals;
    }

    fn missing(&self, now: u64) -> Missing {
        let gaps = self.sources.gaps.as_ref();
        gaps.map_or_else(Missing::default, |gaps| gaps(now.saturating_sub(RECENT), now + 60))
    }

    fn journal(&self) -> Option<JournalPulse> {
        let state = (self.sources.tracker.as_ref()?.journal)(&()).ok()?;
        Some(JournalPulse {
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

/// Who has nothing left, or was refused since the last look. `refused` has what was refused to
/// each before.
fn throttled(standings: &LimitStandings, refused: &mut HashMap<String, u64>) -> Vec<Throttled> {
    let is_first = refused.is_empty();
    let mut found = Vec::new();
    let mut now = HashMap::with_capacity(standings.plans.len());
    for plan in &standings.plans {
        let all = plan.refused_by_rate + plan.refused_by_quota;
        let before = refused.get(&plan.consumer).copied();
        let since = if is_first { 0 } else { all.saturating_sub(before.unwrap_or(0)) };
        if (plan.throttled().is_some() || since > 0) && found.len() < MOST_THROTTLED {
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
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    now.as_millis().try_into().unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
