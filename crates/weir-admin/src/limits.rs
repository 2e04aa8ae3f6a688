//! What the admin API tells of limits.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use weir_gateway::limit::{LimitStandings, PlanStanding, QuotaStanding, RateStanding};

/// How everybody stands with their limits now. Refusals are counted since weir was started.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Limits {
    /// Consumers with a plan that limits them.
    pub consumers: Vec<ConsumerLimits>,
    /// Limits of APIs and routes.
    pub limits: Vec<RouteLimit>,
}

/// How a consumer stands with its plan.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ConsumerLimits {
    /// Its name.
    pub consumer: String,
    /// The plan's name.
    pub plan: String,
    /// What would refuse a request now: `rate` or `quota`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub throttled: Option<String>,
    /// Its rate, if the plan has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
    /// Its quota, if the plan has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quota: Option<Quota>,
    /// Requests that the rate refused.
    pub refused_by_rate: u64,
    /// Requests that the quota refused.
    pub refused_by_quota: u64,
}

/// How a consumer stands with a rate.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Rate {
    /// Most requests at once.
    pub burst: u64,
    /// Requests that would be admitted now.
    pub remaining: u64,
    /// Seconds until all of the burst would be.
    pub reset_seconds: u64,
}

/// How a consumer stands with a quota.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Quota {
    /// Calls admitted in a window.
    pub calls: u64,
    /// Calls that count now.
    pub used: u64,
    /// Calls that would be admitted now.
    pub remaining: u64,
    /// The window rolls; otherwise it is one of the calendar.
    pub rolling: bool,
    /// Length of the window.
    pub window_seconds: u64,
    /// Seconds until no call made so far counts any more.
    pub reset_seconds: u64,
    /// Seconds until one more call is admitted; 0 if one is now.
    pub free_in_seconds: u64,
}

/// A limit of an API or of one of its routes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RouteLimit {
    /// The API's name.
    pub api: String,
    /// The limit's name: that of the API, or the operation.
    pub limit: String,
    /// Requests that it refused.
    pub refused: u64,
}

impl Limits {
    /// What the gateway tells.
    pub(crate) fn of(standings: LimitStandings) -> Self {
        let limits = standings.limits.into_iter();
        Self {
            consumers: standings.plans.into_iter().map(consumer).collect(),
            limits: limits
                .map(|limit| RouteLimit {
                    api: limit.api,
                    limit: limit.limit,
                    refused: limit.refused,
                })
                .collect(),
        }
    }
}

fn consumer(standing: PlanStanding) -> ConsumerLimits {
    ConsumerLimits {
        throttled: standing.throttled().map(str::to_owned),
        consumer: standing.consumer,
        plan: standing.plan,
        rate: standing.rate.map(rate),
        quota: standing.quota.map(quota),
        refused_by_rate: standing.refused_by_rate,
        refused_by_quota: standing.refused_by_quota,
    }
}

fn rate(standing: RateStanding) -> Rate {
    let RateStanding { burst, remaining, reset } = standing;
    Rate { burst, remaining, reset_seconds: reset }
}

fn quota(standing: QuotaStanding) -> Quota {
    let QuotaStanding { calls, used, remaining, rolling, window, reset, free_in } = standing;
    Quota {
        calls,
        used,
        remaining,
        rolling,
        window_seconds: window,
        reset_seconds: reset,
        free_in_seconds: free_in,
    }
}
