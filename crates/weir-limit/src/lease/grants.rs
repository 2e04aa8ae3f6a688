//! The side of leases that the thread of the fleet calls: demands, grants, outages.

use super::{Account, PlanCell};
use crate::Moment;
use crate::keys::lock;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU32, AtomicU64};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::Notify;
use weir_config::QuotaPeriod;

/// Longest wait of a request for a lease unless [`crate::Limiter::set_lease_timeout`] says otherwise.
const LEASE_TIMEOUT: Duration = Duration::from_millis(20);

/// The demands of this node, and its counters.
#[derive(Debug)]
pub(crate) struct Leases {
    /// Cells with a demand, each once.
    demands: Mutex<Vec<Arc<PlanCell>>>,
    /// Wakes the thread of the fleet.
    demanded: Notify,
    /// Overdraft of a quota during an outage, in parts of [`Leases::WHOLE`].
    pub(super) overdraft: AtomicU32,
    /// Longest wait of a request, in microseconds.
    timeout: AtomicU64,
    pub(super) waits: AtomicU64,
    pub(super) denied: AtomicU64,
    pub(super) overdraft_calls: AtomicU64,
    late_grants: AtomicU64,
}

impl Default for Leases {
    fn default() -> Self {
        Self {
            demands: Mutex::default(),
            demanded: Notify::new(),
            overdraft: AtomicU32::new(0),
            timeout: AtomicU64::new(LEASE_TIMEOUT.as_micros() as u64),
            waits: AtomicU64::new(0),
            denied: AtomicU64::new(0),
            overdraft_calls: AtomicU64::new(0),
            late_grants: AtomicU64::new(0),
        }
    }
}

/// Counters of leases since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeaseStatistics {
    /// Waits of requests for a lease; a request may wait several times.
    pub waits: u64,
    /// Requests rejected because no lease came in time.
    pub denied: u64,
    /// Calls admitted beyond a lease during outages.
    pub overdraft_calls: u64,
    /// Grants that came after the end of their window, or for a consumer that is gone: forfeit.
    pub late_grants: u64,
}

/// The demand of a consumer for calls of its quota.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuotaDemand {
    /// Name of the plan.
    pub plan: String,
    /// Name of the consumer.
    pub consumer: String,
    /// Begin of the window, in seconds since 1970; of a rolling quota that of the sub-window.
    pub window_start: u64,
    /// End of the window or sub-window.
    pub window_end: u64,
    /// The length of a rolling quota, of which a sub-window is a 60th; `None` for a calendar quota.
    pub rolling: Option<QuotaPeriod>,
    /// Calls of the quota.
    pub most: u64,
    /// Calls that this node has counted in the window.
    pub used: u64,
    /// Calls granted to this node in the window, and those it had counted before the first grant.
    /// Fewer than `used` after an overdraft.
    pub leased: u64,
    /// Calls admitted since this demand was listed last, or since the window was opened.
    pub admitted: u64,
    /// Times that a request found no lease in that time.
    pub short: u64,
    /// That time.
    pub elapsed: Duration,
}

/// Calls that a node was granted in a window of a calendar quota, in total.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuotaLeased {
    /// Name of the plan.
    pub plan: String,
    /// Name of the consumer.
    pub consumer: String,
    /// Begin of the window, in seconds since 1970.
    pub window_start: u64,
    /// The calls.
    pub leased: u64,
}

/// Calls granted to this node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QuotaGrant<'a> {
    /// Name of the plan.
    pub plan: &'a str,
    /// Name of the consumer.
    pub consumer: &'a str,
    /// [`QuotaDemand::window_start`] of the demand.
    pub window_start: u64,
    /// Calls granted, in addition to earlier grants.
    pub calls: u64,
    /// Calls of the quota that are granted to no node. With 0, requests beyond the lease are rejected
    /// until another grant, or the end of the window.
    pub rest: u64,
}

impl Leases {
    /// The parts that an overdraft is a number of: it is in hundredths of a percent.
    pub(super) const WHOLE: u32 = 10_000;

    /// Adds a cell to the demands, and wakes the thread of the fleet.
    pub(super) fn list(&self, cell: &Arc<PlanCell>) {
        lock(&self.demands).push(Arc::clone(cell));
        self.demanded.notify_one();
    }

    /// Waits until there is a demand that no earlier wait has ended for.
    pub(crate) async fn demanded(&self) {
        self.demanded.notified().await;
    }

    /// Takes the demands out of the list.
    pub(crate) fn demands(&self, now: Moment) -> Vec<QuotaDemand> {
        let cells = std::mem::take(&mut *lock(&self.demands));
        cells.iter().filter_map(|cell| cell.demand(now)).collect()
    }

    /// Gives a grant to its cell; false if it is too late.
    pub(crate) fn grant(&self, cell: Option<&PlanCell>, grant: &QuotaGrant<'_>) -> bool {
        let is_in_time = cell.is_some_and(|cell| cell.grant(grant));
        self.late_grants.fetch_add(u64::from(!is_in_time), Relaxed);
        is_in_time
    }

    /// Sets the overdraft during an outage, in hundredths of a percent of a quota.
    pub(crate) fn set_overdraft(&self, overdraft: u32) {
        self.overdraft.store(overdraft.min(Self::WHOLE), Relaxed);
    }

    /// Sets the longest wait of a request.
    pub(crate) fn set_timeout(&self, timeout: Duration) {
        let micros = u64::try_from(timeout.as_micros()).unwrap_or(u64::MAX);
        self.timeout.store(micros, Relaxed);
    }

    /// Longest wait of a request.
    pub(crate) fn timeout(&self) -> Duration {
        Duration::from_micros(self.timeout.load(Relaxed))
    }

    pub(crate) fn statistics(&self) -> LeaseStatistics {
        LeaseStatistics {
            waits: self.waits.load(Relaxed),
            denied: self.denied.load(Relaxed),
            overdraft_calls: self.overdraft_calls.load(Relaxed),
            late_grants: self.late_grants.load(Relaxed),
        }
    }
}

impl PlanCell {
    /// Takes the demand out of the list; `None` if its lease was closed, or a grant has come since that
    /// is enough for now.
    fn demand(&self, now: Moment) -> Option<QuotaDemand> {
        let mut state = lock(&self.lease.state);
        state.is_listed = false;
        let Account { start, end, most, rolling } = state.account.clone()?;
        let (used, leased) = match &rolling {
            Some((_, rolling)) => rolling.leased_in(start),
            None => self.used.leased_in(start),
        };
        let is_low_at = self.lease.low.load(Relaxed);
        let is_met = is_low_at != u64::MAX && used < is_low_at && state.signal.is_none();
        if is_met || state.rest == Some(0) {
            return None;
        }
        let demand = QuotaDemand {
            plan: self.plan.clone(),
            consumer: self.consumer.clone(),
            window_start: start,
            window_end: end,
            rolling: rolling.map(|(per, _)| per),
            most,
            used,
            leased,
            admitted: used.saturating_sub(state.used_before),
            short: std::mem::take(&mut state.short),
            elapsed: Duration::from_nanos(now.nanos.saturating_sub(state.listed_at)),
        };
        (state.used_before, state.listed_at) = (used, now.nanos);
        Some(demand)
    }

    /// Adds granted calls; false if the window is over.
    fn grant(&self, grant: &QuotaGrant<'_>) -> bool {
        let mut state = lock(&self.lease.state);
        let is_open = |account: &&Account| account.start == grant.window_start;
        let Some(account) = state.account.as_ref().filter(is_open) else { return false };
        let leased = match &account.rolling {
            Some((_, rolling)) => rolling.extend_lease(account.start, grant.calls),
            None => self.used.extend_lease(account.start, grant.calls),
        };
        let Some(leased) = leased else { return false };
        let is_low_at = match (grant.calls, grant.rest) {
            (0, _) | (_, 0) => u64::MAX,
            (calls, _) => leased - calls / 2,
        };
        self.lease.low.store(is_low_at, Relaxed);
        self.lease.rest.store(grant.rest, Relaxed);
        state.rest = Some(grant.rest);
        if let Some(signal) = state.signal.take() {
            signal.answer();
        }
        true
    }
}
