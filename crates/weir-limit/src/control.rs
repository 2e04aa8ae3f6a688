//! What the thread of a fleet calls: how limits are enforced on this node, and the answers to its
//! demands. Nothing here waits for anything but a demand.

use super::Moment;
use super::fleet::{Mode, RateMode};
use super::keys::lock;
use super::lease::{LeaseStatistics, QuotaDemand, QuotaGrant, QuotaLeased};
use super::registry::Limiter;
use super::share::Rule;
use super::tokens::{RateDemand, TokenStatistics};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

/// The fleet.
impl Limiter {
    /// Sets the number of live nodes of the fleet, this one included, among which rates with the
    /// scope `fleet` are divided; 0 counts as 1. Requests that were charged stay charged.
    ///
    /// A request that is decided meanwhile may be charged by the other number.
    pub fn set_nodes(&self, nodes: u32, now: Moment) {
        self.change_rates(|mode| mode.with_nodes(nodes), now);
    }

    /// Changes how rates are enforced.
    fn change_rates(&self, change: impl Fn(Mode) -> Mode, now: Moment) {
        let registry = lock(&self.registry);
        let before = self.mode.change(change).sharing_nodes();
        let nodes = self.mode().sharing_nodes();
        if before == nodes {
            return;
        }
        let changed = |rule: &Rule| (rule.of_node(before), rule.of_node(nodes));
        for ((plan, _), cell) in &registry.cells {
            if let Some((before, after)) = registry.plan_rules.get(plan).map(changed) {
                after.migrate(before, &cell.tat, now.nanos);
            }
        }
        let rules = registry.limit_rules.iter();
        let changed: HashMap<_, _> = rules.map(|(number, rule)| (*number, changed(rule))).collect();
        for counter in registry.limits.values() {
            if let Some((before, after)) = changed.get(&counter.number) {
                after.migrate(*before, &counter.overflow, now.nanos);
            }
        }
        self.buckets.migrate(&changed, now.nanos);
    }

    /// Sets the longest wait of a request for a lease; 20 ms at first.
    pub fn set_lease_timeout(&self, timeout: Duration) {
        self.leases.set_timeout(timeout);
    }
}

/// Quotas.
impl Limiter {
    /// Restores what earlier runs of this node were granted: of the calls that they have counted, those
    /// beyond it are an overdraft. Without it all of them count as leased. Has to be called before
    /// leases are turned on.
    pub fn restore_quota_leases(&self, leases: &[QuotaLeased]) {
        let mut registry = lock(&self.registry);
        for QuotaLeased { plan, consumer, window_start, leased } in leases {
            let cell = registry.cell((plan.clone(), consumer.clone()));
            cell.lease.restore(*window_start, *leased);
        }
    }

    /// Turns leases of quotas on or off. They are off at first: this node enforces each quota by
    /// itself.
    ///
    /// When they are turned on, calls that this node has counted in a window before count as leased.
    pub fn lease_quotas(&self, on: bool) {
        let registry = lock(&self.registry);
        let before = self.mode.change(|mode| mode.with_leased_quotas(on));
        if on && !before.leases_quotas() {
            registry.cells.values().for_each(|cell| cell.lease.close(cell));
        }
    }

    /// Nobody grants leases of quotas now. A node then admits, beyond its lease of a window, its
    /// share of `overdraft`, in hundredths of a percent of the quota; 0 admits nothing beyond it.
    /// Further requests are rejected like those of an exhausted quota, without a wait.
    pub fn quota_outage(&self, overdraft: u32) {
        self.leases.set_overdraft(overdraft);
        self.mode.change(|mode| mode.with_quota_outage(true));
    }

    /// Leases of quotas are granted again.
    pub fn quota_recovered(&self) {
        self.mode.change(|mode| mode.with_quota_outage(false));
    }

    /// Waits until there is a demand for a quota that no earlier wait has ended for. For one thread.
    pub async fn lease_demanded(&self) {
        self.leases.demanded().await;
    }

    /// The demands for quotas since the last call, at most one a consumer and plan. Whoever calls
    /// this answers each of them with [`Limiter::grant_quota`], soon: requests wait. A demand without
    /// an answer is listed again when the next request finds no lease.
    pub fn quota_demands(&self, now: Moment) -> Vec<QuotaDemand> {
        self.leases.demands(now)
    }

    /// Adds calls to the lease of a consumer, and wakes the requests that wait for it. Returns false
    /// if the window is over or the consumer is gone: then the calls are forfeit.
    pub fn grant_quota(&self, grant: &QuotaGrant<'_>) -> bool {
        let name = (grant.plan.to_owned(), grant.consumer.to_owned());
        let cell = lock(&self.registry).cells.get(&name).map(Arc::clone);
        self.leases.grant(cell.as_deref(), grant)
    }

    /// Counters of leases of quotas.
    pub fn lease_statistics(&self) -> LeaseStatistics {
        self.leases.statistics()
    }
}

/// Rates.
impl Limiter {
    /// Sets how rates with the scope `fleet` are enforced; [`RateMode::Shares`] at first. Without
    /// [`RateMode::Leases`], no request waits any more and leased tokens are forfeit.
    pub fn set_rate_mode(&self, rates: RateMode, now: Moment) {
        self.change_rates(|mode| mode.with_rates(rates), now);
        if !matches!(rates, RateMode::Leases(_)) {
            self.tokens.clear();
        }
    }

    /// Waits until there is a demand for tokens that no earlier wait has ended for. For one thread.
    pub async fn tokens_demanded(&self) {
        self.tokens.demanded().await;
    }

    /// The demands for tokens since the last call, at most one a bucket. Whoever calls this answers
    /// each by [`Limiter::grant_tokens`] or [`Limiter::deny_tokens`], soon: requests wait. A demand
    /// without an answer is listed again when the next request finds no token.
    pub fn rate_demands(&self, now: Moment) -> Vec<RateDemand> {
        self.tokens.demands(now)
    }

    /// Adds tokens to a bucket, valid for so long from now, and wakes the requests that wait for
    /// them. Returns false if the bucket was evicted: then they are forfeit.
    pub fn grant_tokens(
        &self,
        demand: &RateDemand,
        tokens: u64,
        valid: Duration,
        now: Moment,
    ) -> bool {
        self.tokens.grant(demand, tokens, valid, now)
    }

    /// The fleet has no token of a bucket before `retry_after`: requests are rejected without a wait
    /// for 20 ms.
    pub fn deny_tokens(&self, demand: &RateDemand, retry_after: Duration, now: Moment) {
        self.tokens.deny(demand, retry_after, now);
    }

    /// Counters of token leases.
    pub fn token_statistics(&self) -> TokenStatistics {
        self.tokens.statistics()
    }
}
