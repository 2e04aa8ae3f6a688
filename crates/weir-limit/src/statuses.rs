//! The status of all limits, for operators; never used by a request.

use super::fleet::Mode;
use super::keys::{Key, Slot};
use super::quota::Calendar;
use super::share::Rule;
use super::{LimitPlan, Moment, NANOS, NamedLimit, PlanRate, PlanUsage};
use serde::{Deserialize, Serialize};
use std::sync::atomic::Ordering::Relaxed;
use utoipa::ToSchema;
use weir_config::config::Config;

/// Current limit status. Rejections are counted since the start of weir.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LimitStatuses {
    /// Consumers whose plan has limits.
    // In the order of the Config.
    pub consumers: Vec<PlanStatus>,
    /// Limits of APIs and routes.
    pub limits: Vec<RouteLimitStatus>,
}

/// Limit status of a consumer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PlanStatus {
    /// Name of the consumer.
    pub consumer: String,
    /// Name of the plan.
    pub plan: String,
    /// The limit that would reject a request now: `rate` or `quota`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub throttled: Option<String>,
    /// Rate status, if the plan has a rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<RateStatus>,
    /// Quota status, if the plan has a quota.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quota: Option<QuotaStatus>,
    /// Requests rejected by the rate limit.
    pub refused_by_rate: u64,
    /// Requests rejected by the quota.
    pub refused_by_quota: u64,
}

/// Status of a rate limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RateStatus {
    /// Burst: requests admitted at once by this node.
    pub burst: u64,
    /// Requests that would be admitted now. Where tokens are leased from the fleet, those leased to
    /// this node, at least 1 unless the fleet has denied one.
    pub remaining: u64,
    /// Seconds until the burst is available again.
    // Rounded up.
    pub reset_seconds: u64,
    /// Number of nodes that the rate is divided among; 1 if this node enforces all of it.
    #[serde(default = "one")]
    pub nodes: u32,
}

/// Of an older version, which has no fleet.
const fn one() -> u32 {
    1
}

/// Status of a quota.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct QuotaStatus {
    /// Calls permitted in a window.
    pub calls: u64,
    /// Calls counted in the current window, by this node.
    pub used: u64,
    /// Remaining calls. In a fleet, those leased to this node and those leased to none, as far as
    /// known.
    pub remaining: u64,
    /// The window is rolling; otherwise it is a calendar period.
    pub rolling: bool,
    /// Length of the window.
    pub window_seconds: u64,
    /// Seconds until none of the previous calls counts.
    pub reset_seconds: u64,
    /// Seconds until the next call is admitted; 0 if it is admitted now.
    pub free_in_seconds: u64,
}

/// A limit of an API or of a route.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RouteLimitStatus {
    /// Name of the API.
    pub api: String,
    /// Name of the limit: of the API, or the operation.
    pub limit: String,
    /// Requests rejected by the limit.
    pub refused: u64,
    /// Number of nodes that the rate is divided among; 1 if this node enforces all of it.
    #[serde(default = "one")]
    pub nodes: u32,
}

/// The part of a plan that would reject a request now, if any.
fn throttled(rate: Option<RateStatus>, quota: Option<QuotaStatus>) -> Option<&'static str> {
    match (rate, quota) {
        (Some(rate), _) if rate.remaining == 0 => Some("rate"),
        (_, Some(quota)) if quota.remaining == 0 => Some("quota"),
        _ => None,
    }
}

/// The number of nodes that a rate is divided among; a rate that is leased is not divided.
fn divided_among(rule: Rule, mode: Mode) -> u32 {
    if mode.leases_rates() { 1 } else { rule.shared_by(mode.sharing_nodes()) }
}

impl LimitPlan {
    /// The status of all limits at `now`; `config` is the one of [`LimitPlan::new`].
    pub fn limit_statuses(&self, config: &Config, now: Moment) -> LimitStatuses {
        let consumers = config.consumers.iter().zip(&self.consumers);
        let consumers = consumers.filter_map(|(consumer, limits)| {
            let usage = limits.plan.as_ref()?;
            let plan = &config.plans[usage.plan].name;
            self.plan_status((&consumer.name, limits.number), plan, usage, now)
        });
        LimitStatuses { consumers: consumers.collect(), limits: self.route_limits() }
    }

    fn plan_status(
        &self,
        (consumer, number): (&str, u32),
        plan: &str,
        usage: &PlanUsage,
        now: Moment,
    ) -> Option<PlanStatus> {
        let limits = &self.plans[usage.plan];
        let rate = limits.rate.as_ref().map(|rate| self.rate_status(rate, number, usage, now));
        let quota = limits.quota.as_ref().map(|(calendar, _)| {
            let calls = calendar.calls();
            let known_rest = self.known_rest(usage, calendar, now);
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
                remaining: known_rest.unwrap_or(calls.saturating_sub(used)),
                rolling: usage.rolling.is_some(),
                window_seconds: window,
                reset_seconds: reset,
                free_in_seconds: free_in,
            }
        });
        if rate.is_none() && quota.is_none() {
            return None;
        }
        Some(PlanStatus {
            consumer: consumer.to_owned(),
            plan: plan.to_owned(),
            throttled: throttled(rate, quota).map(str::to_owned),
            rate,
            quota,
            refused_by_rate: usage.cell.over_rate.load(Relaxed),
            refused_by_quota: usage.cell.over_quota.load(Relaxed),
        })
    }

    /// The status of the rate of a plan, for the consumer with this number.
    fn rate_status(
        &self,
        rate: &PlanRate,
        number: u32,
        usage: &PlanUsage,
        now: Moment,
    ) -> RateStatus {
        let mode = self.limiter.mode();
        let (gcra, level) = if mode.leases_rates() && rate.rule.is_shared() {
            let slot = Slot { limit: rate.number, key: Key::Consumer(number) };
            let whole = rate.rule.whole();
            let left = self.limiter.tokens.available(&slot, mode, now.nanos, whole.burst());
            (whole, whole.level_with(left))
        } else {
            let gcra = rate.rule.of_node(mode.sharing_nodes());
            (gcra, gcra.level(&usage.cell.tat, now.nanos))
        };
        RateStatus {
            burst: gcra.burst(),
            remaining: level.remaining,
            reset_seconds: level.full_in.div_ceil(NANOS),
            nodes: divided_among(rate.rule, mode),
        }
    }

    /// Calls that this node may still admit, if it has a lease of the current window.
    fn known_rest(&self, usage: &PlanUsage, calendar: &Calendar, now: Moment) -> Option<u64> {
        if !self.limiter.mode().leases_quotas() {
            return None;
        }
        let tally = match &usage.rolling {
            Some(rolling) => rolling.tally(calendar.calls(), now.unix).0,
            None => usage.cell.used.tally(calendar.window(now.unix)),
        };
        usage.cell.lease.known_rest(tally)
    }

    fn route_limits(&self) -> Vec<RouteLimitStatus> {
        let mode = self.limiter.mode();
        let status = |NamedLimit { api, limit, rule, counter }: &NamedLimit| RouteLimitStatus {
            api: api.clone(),
            limit: limit.clone(),
            refused: counter.refused.load(Relaxed),
            nodes: divided_among(*rule, mode),
        };
        self.limits.iter().map(status).collect()
    }
}
