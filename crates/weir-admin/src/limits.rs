//! Rate limits and quotas in the admin API.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use weir_limit::{LimitStatuses, PlanStatus, QuotaStatus, RateStatus};

/// Current limit status. Rejections are counted since the start of weir.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Limits {
    /// Consumers whose plan has limits.
    pub consumers: Vec<ConsumerLimits>,
    /// Limits of APIs and routes.
    pub limits: Vec<RouteLimit>,
}

/// Limit status of a consumer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ConsumerLimits {
    /// Name of the consumer.
    pub consumer: String,
    /// Name of the plan.
    pub plan: String,
    /// The limit that would reject a request now: `rate` or `quota`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub throttled: Option<String>,
    /// Rate status, if the plan has a rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
    /// Quota status, if the plan has a quota.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quota: Option<Quota>,
    /// Requests rejected by the rate limit.
    pub refused_by_rate: u64,
    /// Requests rejected by the quota.
    pub refused_by_quota: u64,
}

/// Status of a rate limit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Rate {
    /// Burst: requests admitted at once.
    pub burst: u64,
    /// Requests that would be admitted now.
    pub remaining: u64,
    /// Seconds until the burst is available again.
    pub reset_seconds: u64,
}

/// Status of a quota.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Quota {
    /// Calls permitted in a window.
    pub calls: u64,
    /// Calls counted in the current window.
    pub used: u64,
    /// Remaining calls.
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
pub struct RouteLimit {
    /// Name of the API.
    pub api: String,
    /// Name of the limit: of the API, or the operation.
    pub limit: String,
    /// Requests rejected by the limit.
    pub refused: u64,
}

impl Limits {
    /// From the gateway's status.
    pub(crate) fn of(standings: LimitStatuses) -> Self {
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

fn consumer(standing: PlanStatus) -> ConsumerLimits {
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

fn rate(standing: RateStatus) -> Rate {
    let RateStatus { burst, remaining, reset } = standing;
    Rate { burst, remaining, reset_seconds: reset }
}

fn quota(standing: QuotaStatus) -> Quota {
    let QuotaStatus { calls, used, remaining, rolling, window, reset, free_in } = standing;
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
