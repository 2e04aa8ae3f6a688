//! Limits: rates by the generic cell rate algorithm, and quotas by the calendar or rolling.
//!
//! A request passes its consumer's plan rate, then the rate limits of its API and route, then its
//! consumer's quota, in that order, and all must admit it. A request that one of them rejects is
//! charged to none: the limits before refund it.
//!
//! The [`Limiter`] holds the counters and outlives every Config; a [`LimitPlan`] is what one Config
//! says about limits, with the counters found beforehand. Counters are found by names (plan and
//! consumer; API and limit), so they survive a reload; when a rate changes, the requests that were
//! charged stay charged and are refilled at the new rate.

mod admit;
mod control;
mod failures;
mod fleet;
mod gcra;
mod headers;
mod keys;
mod lease;
mod peek;
mod quota;
mod registry;
mod rolling;
mod share;
mod signal;
mod statuses;
mod tally;
mod tokens;

pub use fleet::{Fallback, RateMode};
pub use lease::{LeaseStatistics, QuotaDemand, QuotaGrant, QuotaLeased};
pub use peek::{LimitKind, Peek};
pub use registry::{LimitStatistics, Limiter, QuotaCount};
pub use signal::Ask;
pub use statuses::{LimitStatuses, PlanStatus, QuotaStatus, RateStatus, RouteLimitStatus};
pub use tokens::{RateDemand, TokenStatistics};

use failures::Failures;
use headers::Policy;
use keys::lock;
use lease::PlanCell;
use quota::Calendar;
use registry::{LimitCounter, LimitName, Registry};
use rolling::Rolling;
use share::Rule;
use std::collections::{HashMap, HashSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;
use weir_config::config::Config;
use weir_config::{ConsumerId, LimitKey, Quota, RateLimit};
use weir_http::problem::Problem;
use weir_wire::Headers;

const NANOS: u64 = 1_000_000_000;

/// Seconds of a wait in nanoseconds, rounded up, at least 1.
fn seconds_up(nanos: u64) -> u64 {
    nanos.div_ceil(NANOS).max(1)
}

/// A point in time, on the two clocks that limits need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// Nanoseconds on a monotonic clock since the limiter was created.
    pub nanos: u64,
    /// Seconds since 1970, for the calendar.
    pub unix: u64,
}

/// The limits of one Config.
#[derive(Debug)]
pub struct LimitPlan {
    limiter: Arc<Limiter>,
    policies: Vec<Policy>,
    plans: Vec<PlanLimits>,
    consumers: Vec<ConsumerLimits>,
    /// The limits of APIs and routes, each once.
    limits: Vec<NamedLimit>,
    failures: Option<Failures>,
}

/// A limit of an API or of a route.
#[derive(Debug)]
struct NamedLimit {
    /// Name of the API.
    api: String,
    /// Name of the limit.
    limit: String,
    rule: Rule,
    counter: Arc<LimitCounter>,
}

/// The rate limits of one route, those of its API among them, in their order.
#[derive(Debug)]
pub struct RouteLimits(Vec<RouteLimit>);

#[derive(Debug)]
struct PlanLimits {
    rate: Option<PlanRate>,
    quota: Option<(Calendar, usize)>,
}

/// The rate of a plan.
#[derive(Debug)]
struct PlanRate {
    rule: Rule,
    /// Index of the policy.
    policy: usize,
    name: LimitName,
    /// Number of the name in the registry.
    number: u32,
}

#[derive(Debug)]
struct ConsumerLimits {
    name: String,
    /// Number of the name, as a key.
    number: u32,
    plan: Option<PlanUsage>,
}

/// The use of a plan by one consumer.
#[derive(Debug)]
struct PlanUsage {
    /// Index of the plan.
    plan: usize,
    cell: Arc<PlanCell>,
    /// Calls of a rolling quota; those of a calendar quota are in the cell.
    rolling: Option<Arc<Rolling>>,
}

#[derive(Debug)]
struct RouteLimit {
    key: LimitKey,
    rule: Rule,
    policy: usize,
    name: LimitName,
    counter: Arc<LimitCounter>,
}

/// The status of the limit with the fewest requests left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LimitStatus {
    /// Which policy of the [`LimitPlan`] it is.
    policy: usize,
    /// Requests left now.
    pub remaining: u64,
    /// Seconds until the limit is full again, rounded up.
    pub reset: u64,
    /// The policy's window in seconds: the time an empty bucket takes to fill, or the calendar
    /// period.
    pub window: u64,
    /// Seconds after which a rejected request may be retried, rounded up, at least 1.
    pub retry_after: Option<u64>,
}

impl LimitStatus {
    /// A rejection for `problem` if the status has a time for a retry.
    fn verdict(self, problem: Problem) -> Result<Self, LimitRejection> {
        match self.retry_after {
            None => Ok(self),
            Some(_) => Err(LimitRejection { problem, limit_status: self }),
        }
    }
}

/// The request is beyond a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LimitRejection {
    /// [`Problem::RateLimited`], [`Problem::QuotaExhausted`] or [`Problem::LimitUnavailable`].
    pub problem: Problem,
    /// The status of that limit.
    pub limit_status: LimitStatus,
}

/// Why a request is not admitted now.
#[derive(Clone, Debug)]
pub enum Denial {
    /// It is beyond a limit.
    Rejected(LimitRejection),
    /// A limit has no lease, but the fleet may have one: once it has answered, or does not in time, the
    /// request is tried again.
    Ask(Ask),
}

impl From<LimitRejection> for Denial {
    fn from(rejection: LimitRejection) -> Self {
        Self::Rejected(rejection)
    }
}

impl From<Ask> for Denial {
    fn from(ask: Ask) -> Self {
        Self::Ask(ask)
    }
}

/// What happens to a request if a limit has no lease, but the fleet may have one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnShortage {
    /// The request may wait: it is denied with an [`Ask`].
    Ask,
    /// The request waits no longer: it is rejected.
    Decide,
}

/// A request, as far as limits are concerned.
#[derive(Clone, Copy, Debug)]
pub struct Caller {
    /// The consumer, if it is known.
    pub consumer: Option<ConsumerId>,
    /// The client's address.
    pub address: IpAddr,
}

/// The seconds since 1970 whose calls count against a quota at `unix`: the calendar period, or the
/// sub-windows of a rolling quota, the one now included.
pub fn quota_span(quota: &Quota, unix: u64) -> std::ops::Range<u64> {
    if quota.rolling {
        return rolling::span(quota, unix);
    }
    let window = Calendar::new(quota.clone()).window(unix);
    window.begin()..window.begin() + window.seconds()
}

impl LimitPlan {
    /// Longest wait of a request for a lease.
    pub fn lease_timeout(&self) -> Duration {
        self.limiter.leases.timeout()
    }

    /// Finds or makes the counters of a Config, and gives the limits of its routes, API after API;
    /// `now` is when it is loaded.
    pub fn new(limiter: &Arc<Limiter>, config: &Config, now: Moment) -> (Self, Vec<RouteLimits>) {
        let mut plan = Self {
            limiter: Arc::clone(limiter),
            policies: Vec::new(),
            plans: Vec::new(),
            consumers: Vec::new(),
            limits: Vec::new(),
            failures: Failures::new(limiter, config.limits.failed_authentication),
        };
        let mut registry = lock(&limiter.registry);
        plan.add_plans(config, &mut registry);
        plan.add_consumers(config, &mut registry, now);
        let routes = plan.add_routes(config, &mut registry, now);
        (plan, routes)
    }

    fn policy(&mut self, name: &str, quantity: u64) -> usize {
        self.policies.push(Policy::new(name, quantity));
        self.policies.len() - 1
    }

    fn add_plans(&mut self, config: &Config, registry: &mut Registry) {
        for plan in &config.plans {
            let rate = plan.rate.map(|rate| {
                let rule = Rule::new(rate);
                let name = LimitName::of_plan(&plan.name);
                let number = registry.limit(name.clone()).number;
                let policy = self.policy(&plan.name, rule.burst());
                PlanRate { rule, policy, name, number }
            });
            let quota = plan.quota.clone().map(|quota| {
                let calendar = Calendar::new(quota);
                let calls = calendar.calls();
                (calendar, self.policy(&format!("{}-quota", plan.name), calls))
            });
            self.plans.push(PlanLimits { rate, quota });
        }
    }

    fn add_consumers(&mut self, config: &Config, registry: &mut Registry, now: Moment) {
        for consumer in &config.consumers {
            let number = registry.consumer(&consumer.name);
            let plan = consumer.plan.map(|id| {
                let plan = &config.plans[id.0];
                let name = (plan.name.clone(), consumer.name.clone());
                let cell = registry.cell(name.clone());
                let quota = plan.quota.as_ref().filter(|quota| quota.rolling);
                let rolling = quota.map(|quota| registry.rolling(name, quota.per, now.unix));
                PlanUsage { plan: id.0, cell, rolling }
            });
            self.consumers.push(ConsumerLimits { name: consumer.name.clone(), number, plan });
        }
        let nodes = self.limiter.mode().sharing_nodes();
        for (plan, limits) in config.plans.iter().zip(&self.plans) {
            let Some(&PlanRate { rule, .. }) = limits.rate.as_ref() else { continue };
            let before = registry.plan_rules.insert(plan.name.clone(), rule);
            if let Some(before) = before.filter(|before| *before != rule) {
                let (before, after) = (before.of_node(nodes), rule.of_node(nodes));
                let of_plan = registry.cells.iter().filter(|((name, _), _)| *name == plan.name);
                of_plan.for_each(|(_, cell)| after.migrate(before, &cell.tat, now.nanos));
            }
        }
    }

    fn add_routes(
        &mut self,
        config: &Config,
        registry: &mut Registry,
        now: Moment,
    ) -> Vec<RouteLimits> {
        let (mut changed, mut limits_in_use) = (HashMap::new(), HashSet::new());
        let (mut routes, nodes) = (Vec::new(), self.limiter.mode().sharing_nodes());
        for api in &config.apis {
            for route in &api.routes {
                let mut limits = Vec::with_capacity(route.rate_limits.len());
                for (index, limit) in route.rate_limits.iter().enumerate() {
                    let same = |other: &&RateLimit| other.name == limit.name;
                    let occurrence = route.rate_limits[..index].iter().filter(same).count();
                    let name =
                        LimitName { api: api.name.clone(), limit: limit.name.clone(), occurrence };
                    let counter = registry.limit(name.clone());
                    let rule = Rule::new(limit.rate);
                    if limits_in_use.insert(counter.number) {
                        self.limits.push(NamedLimit {
                            api: api.name.clone(),
                            limit: limit.name.clone(),
                            rule,
                            counter: Arc::clone(&counter),
                        });
                    }
                    if let Some(before) = registry.limit_rules.insert(counter.number, rule)
                        && before != rule
                    {
                        let (before, after) = (before.of_node(nodes), rule.of_node(nodes));
                        changed.insert(counter.number, (before, after));
                        after.migrate(before, &counter.overflow, now.nanos);
                    }
                    let policy = self.policy(&limit.name, rule.burst());
                    let key = limit.key.clone();
                    limits.push(RouteLimit { key, rule, policy, name, counter });
                }
                routes.push(RouteLimits(limits));
            }
        }
        if !changed.is_empty() {
            self.limiter.buckets.migrate(&changed, now.nanos);
        }
        limits_in_use.extend(self.failures.as_ref().map(Failures::number));
        self.limiter.buckets.divide(&limits_in_use, now.nanos);
        routes
    }

    /// Refunds the quota of a plan for a call that [`LimitPlan::admit`] admitted at `now` and that was
    /// rejected afterwards.
    pub fn refund_quota(&self, consumer: Option<ConsumerId>, now: Moment) {
        let usage = consumer.and_then(|ConsumerId(index)| self.consumers[index].plan.as_ref());
        let Some(usage) = usage else { return };
        let Some((calendar, _)) = &self.plans[usage.plan].quota else { return };
        match &usage.rolling {
            Some(rolling) => rolling.refund(now.unix),
            None => usage.cell.used.refund(calendar.window(now.unix)),
        }
    }

    /// The name of the limit of a status, as its headers have it: a structured string.
    pub fn policy_of(&self, limit_status: &LimitStatus) -> &str {
        self.policies.get(limit_status.policy).map_or("", Policy::quoted)
    }

    /// Writes `RateLimit-Policy`, `RateLimit` and, for a rejection, `Retry-After` into the headers of
    /// the response. `scratch` is a buffer to reuse.
    pub fn write_headers(
        &self,
        limit_status: &LimitStatus,
        scratch: &mut Vec<u8>,
        headers: &mut Headers,
    ) {
        if let Some(policy) = self.policies.get(limit_status.policy) {
            policy.write(limit_status, scratch, headers);
        }
    }
}

#[cfg(test)]
mod tests;
