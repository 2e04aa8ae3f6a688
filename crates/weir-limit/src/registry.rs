//! The counters that outlive every Config, found by name.

use super::Moment;
use super::fleet::{Mode, SharedMode};
use super::keys::{Buckets, lock};
use super::lease::{Leases, PlanCell, QuotaLease};
use super::quota::Used;
use super::rolling::Rolling;
use super::share::Rule;
use super::tokens::TokenLeases;
use aws_lc_rs::digest;
use data_encoding::HEXLOWER;
use std::collections::HashMap;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};
use std::time::{Instant, SystemTime, UNIX_EPOCH};
use weir_config::QuotaPeriod;

/// The counters of every limit, shared by all workers, for as long as the process lives.
#[derive(Debug)]
pub struct Limiter {
    started: Instant,
    pub(super) mode: SharedMode,
    pub(super) leases: Leases,
    pub(super) tokens: TokenLeases,
    pub(super) buckets: Buckets,
    pub(super) registry: Mutex<Registry>,
}

/// Statistics of the limiter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LimitStatistics {
    /// Buckets held by key.
    pub keys: usize,
    /// Evicted buckets, full ones only.
    pub evicted: u64,
    /// Requests counted in a shared bucket because there was no room for one of their own.
    pub overflowed: u64,
}

/// Calls a consumer has used of its plan's quota: one of these for a calendar quota, one a
/// sub-window for a rolling one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuotaCount {
    /// Name of the plan.
    pub plan: String,
    /// Name of the consumer.
    pub consumer: String,
    /// Begin of the calendar window, in seconds since 1970. Of a rolling quota any second of the
    /// sub-window; if the time is known less exactly, the last second that it may have been.
    pub window_start: u64,
    /// Calls counted in it.
    pub calls: u64,
    /// The length of a rolling quota; `None` for a calendar quota.
    pub rolling: Option<QuotaPeriod>,
}

/// Names to counters. Read when a Config is loaded, never by a request.
#[derive(Debug, Default)]
pub(super) struct Registry {
    pub(super) limits: HashMap<LimitName, Arc<LimitCounter>>,
    /// The rules that the buckets of each limit and each plan were last filled by.
    pub(super) limit_rules: HashMap<u32, Rule>,
    pub(super) plan_rules: HashMap<String, Rule>,
    pub(super) cells: HashMap<(String, String), Arc<PlanCell>>,
    /// Calls of rolling quotas by plan and consumer, with the length that they were loaded with.
    pub(super) rolling: HashMap<(String, String), (QuotaPeriod, Arc<Rolling>)>,
    pub(super) consumers: HashMap<String, u32>,
}

/// A limit of an API or of one of its routes. Both may have the same name, so the limits of a route
/// differ in how many of that name come before; those of an API come first on all its routes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct LimitName {
    pub(super) api: String,
    pub(super) limit: String,
    pub(super) occurrence: usize,
}

impl LimitName {
    /// The name of the rate of a plan. No API has an empty name.
    pub(super) fn of_plan(plan: &str) -> Self {
        Self { api: String::new(), limit: format!("plan {plan}"), occurrence: 0 }
    }

    /// The name of a bucket on all nodes, as 64 hexadecimal digits: the SHA-256 of the parts of this
    /// name and those of a key, each after its length.
    pub(super) fn bucket(&self, kind: &str, key: &str) -> Box<str> {
        let mut digest = digest::Context::new(&digest::SHA256);
        let occurrence = self.occurrence.to_string();
        for part in [&self.api, &self.limit, &occurrence, kind, key] {
            digest.update(&(part.len() as u64).to_be_bytes());
            digest.update(part.as_bytes());
        }
        let hash = digest.finish();
        HEXLOWER.encode(hash.as_ref()).into()
    }
}

#[derive(Debug)]
pub(super) struct LimitCounter {
    pub(super) number: u32,
    pub(super) overflow: AtomicU64,
    /// Requests that it rejected.
    pub(super) refused: AtomicU64,
}

impl Default for Limiter {
    fn default() -> Self {
        Self {
            started: Instant::now(),
            mode: SharedMode::default(),
            leases: Leases::default(),
            tokens: TokenLeases::default(),
            buckets: Buckets::default(),
            registry: Mutex::default(),
        }
    }
}

impl Limiter {
    /// The current moment, for [`LimitPlan::admit`].
    pub fn now(&self) -> Moment {
        let unix = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        self.moment(Instant::now(), unix)
    }

    /// The moment of these two readings of the clocks.
    pub fn moment(&self, now: Instant, unix: u64) -> Moment {
        let since = now.saturating_duration_since(self.started);
        Moment { nanos: u64::try_from(since.as_nanos()).unwrap_or(u64::MAX), unix }
    }

    /// How limits are enforced now.
    pub(super) fn mode(&self) -> Mode {
        self.mode.get()
    }

    /// The number of live nodes, at least 1.
    pub fn nodes(&self) -> u32 {
        self.mode().nodes()
    }

    /// Statistics of the limiter.
    pub fn statistics(&self) -> LimitStatistics {
        let (keys, evicted, overflowed) = self.buckets.statistics();
        LimitStatistics { keys, evicted, overflowed }
    }

    /// Every quota count, in no order.
    pub fn quota_counts(&self) -> Vec<QuotaCount> {
        let registry = lock(&self.registry);
        let count = |(plan, consumer): &(String, String), window_start, calls, rolling| {
            let (plan, consumer) = (plan.clone(), consumer.clone());
            QuotaCount { plan, consumer, window_start, calls, rolling }
        };
        let calendar = registry.cells.iter().map(|(name, cell)| {
            let (start, calls) = cell.used.read();
            count(name, start, calls, None)
        });
        let rolling = registry.rolling.iter().flat_map(|(name, (per, rolling))| {
            let counts = rolling.read();
            counts.into_iter().map(|(start, calls)| count(name, start, calls, Some(*per)))
        });
        calendar.chain(rolling).filter(|count| count.calls > 0).collect()
    }

    /// Restores the counts of an earlier run; a higher count is kept. All counts of a rolling quota
    /// must come in one call: those of one sub-window are added up.
    pub fn restore_quota_counts(&self, counts: &[QuotaCount]) {
        self.merge_quota_counts(counts, Used::restore, Rolling::restore);
    }

    /// Adds calls that another process has admitted.
    pub fn add_quota_counts(&self, counts: &[QuotaCount]) {
        self.merge_quota_counts(counts, Used::add, Rolling::add);
    }

    fn merge_quota_counts(
        &self,
        counts: &[QuotaCount],
        calendar: fn(&Used, u64, u64),
        add: fn(&Rolling, &[(u64, u64)]),
    ) {
        let mut registry = lock(&self.registry);
        let mut rolling: HashMap<_, Vec<(u64, u64)>> = HashMap::new();
        for count in counts {
            let name = (count.plan.clone(), count.consumer.clone());
            let Some(per) = count.rolling else {
                let cell = registry.cell(name);
                calendar(&cell.used, count.window_start, count.calls);
                continue;
            };
            rolling.entry((name, per)).or_default().push((count.window_start, count.calls));
        }
        for ((name, per), counts) in rolling {
            let fresh = || (per, Arc::new(Rolling::new(per)));
            add(&registry.rolling.entry(name).or_insert_with(fresh).1, &counts);
        }
    }
}

impl Registry {
    /// The number of a consumer's name; the same for as long as the process lives.
    pub(super) fn consumer(&mut self, name: &str) -> u32 {
        let next = self.consumers.len() as u32;
        *self.consumers.entry(name.to_owned()).or_insert(next)
    }

    /// The counters of a plan and a consumer, by their names.
    pub(super) fn cell(&mut self, name: (String, String)) -> Arc<PlanCell> {
        let fresh = |(plan, consumer): &(String, String)| {
            Arc::new(PlanCell {
                plan: plan.clone(),
                consumer: consumer.clone(),
                tat: AtomicU64::new(0),
                used: Used::default(),
                lease: QuotaLease::default(),
                over_rate: AtomicU64::new(0),
                over_quota: AtomicU64::new(0),
            })
        };
        Arc::clone(self.cells.entry(name).or_insert_with_key(fresh))
    }

    pub(super) fn limit(&mut self, name: LimitName) -> Arc<LimitCounter> {
        let number = self.limits.len() as u32;
        let (overflow, refused) = (AtomicU64::new(0), AtomicU64::new(0));
        let fresh = || Arc::new(LimitCounter { number, overflow, refused });
        Arc::clone(self.limits.entry(name).or_insert_with(fresh))
    }

    /// The calls of a consumer in a rolling quota, also of one that had another length before.
    pub(super) fn rolling(
        &mut self,
        name: (String, String),
        per: QuotaPeriod,
        unix: u64,
    ) -> Arc<Rolling> {
        let fresh = || (per, Arc::new(Rolling::new(per)));
        let held = self.rolling.entry(name).or_insert_with(fresh);
        if held.0 != per {
            *held = (per, Arc::new(held.1.resampled(per, unix)));
        }
        Arc::clone(&held.1)
    }
}
