//! The status of all limits, for operators; never used by a request.

use super::gcra::Gcra;
use super::registry::LimitCounter;
use super::{LimitPlan, Moment, NANOS, PlanUsage};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use weir_config::config::Config;

/// The status of each consumer's plan, and the rejections by each other limit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LimitStatuses {
    /// Consumers with a plan that limits them, in the order of the Config.
    pub plans: Vec<PlanStatus>,
    /// Limits of APIs and routes, in the order of the Config.
    pub limits: Vec<RouteLimitStatus>,
}

/// The status of a consumer's plan.
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
    /// Requests rejected by the rate since the start.
    pub refused_by_rate: u64,
    /// Requests rejected by the quota since the start.
    pub refused_by_quota: u64,
}

/// The status of a rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateStatus {
    /// Most requests at once.
    pub burst: u64,
    /// Requests that would be admitted now.
    pub remaining: u64,
    /// Seconds until all of the burst are, rounded up.
    pub reset: u64,
}

/// The status of a quota.
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
    /// Seconds until no call counts any more.
    pub reset: u64,
    /// Seconds until one more call is admitted; 0 if one is now.
    pub free_in: u64,
}

/// The rejections by a limit of an API or a route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteLimitStatus {
    /// Name of the API.
    pub api: String,
    /// Name of the limit: that of the API, or the operation.
    pub limit: String,
    /// Requests rejected since the start.
    pub refused: u64,
}

impl PlanStatus {
    /// The part of the plan that would reject a request of this consumer now, if any: `rate` or `quota`.
    pub fn throttled(&self) -> Option<&'static str> {
        match (&self.rate, &self.quota) {
            (Some(rate), _) if rate.remaining == 0 => Some("rate"),
            (_, Some(quota)) if quota.remaining == 0 => Some("quota"),
            _ => None,
        }
    }
}

impl LimitPlan {
    /// The status of all limits at `now`; `config` is the one of [`LimitPlan::new`].
    pub fn limit_statuses(&self, config: &Config, now: Moment) -> LimitStatuses {
        let consumers = config.consumers.iter().zip(&self.consumers);
        let plans = consumers.filter_map(|(consumer, limits)| {
            let usage = limits.plan.as_ref()?;
            self.plan_status(&consumer.name, &config.plans[usage.plan].name, usage, now)
        });
        LimitStatuses { plans: plans.collect(), limits: self.route_limits() }
    }

    fn plan_status(
        &self,
        consumer: &str,
        plan: &str,
        usage: &PlanUsage,
        now: Moment,
    ) -> Option<PlanStatus> {
        let limits = &self.plans[usage.plan];
        let rate = limits.rate.as_ref().map(|(gcra, _)| rate_status(*gcra, usage, now));
        let quota = limits.quota.as_ref().map(|(calendar, _)| {
            let calls = calendar.calls();
            let (used, window, reset, free_in) = match &usage.rolling {
                Some(rolling) => {
                    let level = rolling.level(calls, now.unix);
                    (level.used, rolling.seconds(), level.empty_in, level.free_in)
                }
                None => {
                    let window = calendar.window(now.unix);
                    let (used, reset) =
                        (usage.cell.used.in_force(window), window.ends_in(now.unix));
                    (used, window.seconds(), reset, if used < calls { 0 } else { reset })
                }
            };
            QuotaStatus {
                calls,
                used,
                remaining: calls.saturating_sub(used),
                rolling: usage.rolling.is_some(),
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
            refused_by_rate: usage.cell.over_rate.load(Relaxed),
            refused_by_quota: usage.cell.over_quota.load(Relaxed),
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

fn rate_status(gcra: Gcra, usage: &PlanUsage, now: Moment) -> RateStatus {
    let level = gcra.level(&usage.cell.tat, now.nanos);
    RateStatus {
        burst: gcra.burst(),
        remaining: level.remaining,
        reset: level.full_in.div_ceil(NANOS),
    }
}
