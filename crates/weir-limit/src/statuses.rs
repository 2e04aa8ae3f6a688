//! How everybody stands with their limits: for those who operate weir, never asked by a request.

use super::gcra::Gcra;
use super::registry::LimitCounter;
use super::{Held, LimitPlan, Moment, NANOS};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use weir_config::config::Config;

/// How every consumer stands with its plan, and how often each other limit has refused.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LimitStatuses {
    /// Consumers with a plan that limits them, in the order of the Config.
    pub plans: Vec<PlanStatus>,
    /// Limits of APIs and routes, in the order of the Config.
    pub limits: Vec<RouteLimitStatus>,
}

/// How a consumer stands with its plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanStatus {
    /// Name of the consumer.
    pub consumer: String,
    /// Name of the plan.
    pub plan: String,
    /// Its rate, if the plan has one.
    pub rate: Option<RateStatus>,
    /// Its quota, if the plan has one.
    pub quota: Option<QuotaStatus>,
    /// Requests refused by the rate since the start.
    pub refused_by_rate: u64,
    /// Requests refused by the quota since the start.
    pub refused_by_quota: u64,
}

/// How it stands with a rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateStatus {
    /// Most requests at once.
    pub burst: u64,
    /// Requests that would be admitted now.
    pub remaining: u64,
    /// Seconds until all of the burst are, rounded up.
    pub reset: u64,
}

/// How it stands with a quota.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QuotaStatus {
    /// Calls admitted in a window.
    pub calls: u64,
    /// Calls that count now.
    pub used: u64,
    /// Calls that would be admitted now.
    pub remaining: u64,
    /// Whether the window rolls.
    pub rolling: bool,
    /// Length of the window in seconds.
    pub window: u64,
    /// Seconds until none counts any more.
    pub reset: u64,
    /// Seconds until one more call is admitted; 0 if one is now.
    pub free_in: u64,
}

/// What a limit of an API or a route has refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteLimitStatus {
    /// Name of the API.
    pub api: String,
    /// Name of the limit: that of the API, or the operation.
    pub limit: String,
    /// Requests refused by it since the start.
    pub refused: u64,
}

impl PlanStatus {
    /// What would refuse a request of this consumer now, if anything would.
    pub fn throttled(&self) -> Option<&'static str> {
        match (&self.rate, &self.quota) {
            (Some(rate), _) if rate.remaining == 0 => Some("rate"),
            (_, Some(quota)) if quota.remaining == 0 => Some("quota"),
            _ => None,
        }
    }
}

impl LimitPlan {
    /// How everybody stands at `now`; `config` is the one this was made for.
    pub fn limit_statuses(&self, config: &Config, now: Moment) -> LimitStatuses {
        let consumers = config.consumers.iter().zip(&self.consumers);
        let plans = consumers.filter_map(|(consumer, limits)| {
            let held = limits.plan.as_ref()?;
            self.plan_status(&consumer.name, &config.plans[held.plan].name, held, now)
        });
        LimitStatuses { plans: plans.collect(), limits: self.route_limits() }
    }

    fn plan_status(
        &self,
        consumer: &str,
        plan: &str,
        held: &Held,
        now: Moment,
    ) -> Option<PlanStatus> {
        let limits = &self.plans[held.plan];
        let rate = limits.rate.as_ref().map(|(gcra, _)| rate_status(*gcra, held, now));
        let quota = limits.quota.as_ref().map(|(calendar, _)| {
            let calls = calendar.calls();
            let (used, window, reset, free_in) = match &held.rolling {
                Some(rolling) => {
                    let level = rolling.level(calls, now.unix);
                    (level.used, rolling.seconds(), level.empty_in, level.free_in)
                }
                None => {
                    let window = calendar.window(now.unix);
                    let (used, reset) = (held.cell.used.in_force(window), window.ends_in(now.unix));
                    (used, window.seconds(), reset, if used < calls { 0 } else { reset })
                }
            };
            QuotaStatus {
                calls,
                used,
                remaining: calls.saturating_sub(used),
                rolling: held.rolling.is_some(),
                window,
                reset,
                free_in,
            }
        });
        if rate.is_none() && quota.is_none() {
            return None;
        }
        Some(PlanStatus {
            consumer: consumer.to_owned(),
            plan: plan.to_owned(),
            rate,
            quota,
            refused_by_rate: held.cell.over_rate.load(Relaxed),
            refused_by_quota: held.cell.over_quota.load(Relaxed),
        })
    }

    fn route_limits(&self) -> Vec<RouteLimitStatus> {
        let status = |(api, limit, counter): &(String, String, Arc<LimitCounter>)| {
            let refused = counter.refused.load(Relaxed);
            RouteLimitStatus { api: api.clone(), limit: limit.clone(), refused }
        };
        self.limits.iter().map(status).collect()
    }
}

fn rate_status(gcra: Gcra, held: &Held, now: Moment) -> RateStatus {
    let level = gcra.level(&held.cell.tat, now.nanos);
    RateStatus {
        burst: gcra.burst(),
        remaining: level.remaining,
        reset: level.full_in.div_ceil(NANOS),
    }
}
