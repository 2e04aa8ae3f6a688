//! Usage in the admin API.
//!
//! As with the [Tracker](crate::tracker), the functions are injected by the binary and may block.

use crate::failure::Failure;
use crate::gap::Missing;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use utoipa::{IntoParams, ToSchema};

/// Access to metered usage.
pub struct Monitor {
    /// Usage, grouped as requested.
    pub usage: crate::failure::Door<UsageQuery, UsageReport, UsageFailure>,
    /// Rebuilds the metering from the journal.
    pub rebuild: Box<dyn Fn() -> Rebuild + Send + Sync>,
}

/// Returns the results of a rebuild at its end, an empty list before; `None` afterwards. It may
/// block.
pub type Rebuild = Box<dyn FnMut() -> Option<Vec<Rebuilt>> + Send>;

/// Why there is no report.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UsageFailure {
    /// The query is invalid; the text says why.
    #[error("{0}")]
    Question(String),
    /// Data could not be read.
    #[error(transparent)]
    Failed(#[from] Failure),
}

/// A usage query.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct UsageQuery {
    /// Start: RFC 3339, a day (UTC), or an age (`30d`); default: the first metered minute. Rounded
    /// to the minute that contains it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// End, likewise; default: now. The minute that contains it is not included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// Grouping, separated by commas: `consumer`, `api`, `operation`, `plan`, `status`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// Time step: `minute`, `hour` or `day` (UTC).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<String>,
    /// Only this consumer; empty: calls without a consumer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub consumer: Option<String>,
    /// Only this API.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api: Option<String>,
    /// Only this operation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operation: Option<String>,
    /// Only this plan; empty: calls without a plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<String>,
    /// Only this class of status, `1xx` to `5xx`, or `none`: calls without a response.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
}

/// Usage.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct UsageReport {
    /// Start of the period (RFC 3339, UTC).
    pub from: String,
    /// End of the period.
    pub to: String,
    /// Rows by time and names, at most 10,000.
    pub rows: Vec<UsageRow>,
    /// Gaps of the period, of all consumers.
    #[serde(default)]
    pub missing: Missing,
}

/// Calls of a group. Fields outside the grouping are absent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct UsageRow {
    /// Start of the step (RFC 3339, UTC).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time: Option<String>,
    /// Consumer; empty: none. `(other)` is the overflow beyond the cardinality limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub consumer: Option<String>,
    /// API.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api: Option<String>,
    /// Operation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operation: Option<String>,
    /// Plan; empty: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<String>,
    /// Class of the status: `2xx`, or `none`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    /// Calls.
    pub calls: u64,
    /// Bytes of request bodies.
    pub request_bytes: u64,
    /// Bytes of response bodies.
    pub response_bytes: u64,
    /// Costs by plan: a decimal in the plan's currency, without tiers.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub amounts: BTreeMap<String, String>,
    /// Median duration in microseconds, within 1 %.
    pub p50_us: u64,
    /// 90th percentile of the durations.
    pub p90_us: u64,
    /// 99th percentile of the durations.
    pub p99_us: u64,
}

/// Result of a rebuild.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Rebuilt {
    /// Start of the rebuilt period (RFC 3339, UTC): a minute. Older data was not changed.
    pub from: String,
    /// End of the rebuilt period.
    pub to: String,
    /// Transactions read.
    pub read: u64,
    /// Calls metered in the period before.
    pub before: u64,
    /// Calls metered in the period now.
    pub after: u64,
    /// Why a failed rebuild changed nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<String>,
}
