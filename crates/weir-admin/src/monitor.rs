//! What the admin API tells of usage, and whom it asks.
//!
//! As with the [Tracker](crate::tracker), the doors are handed in by whoever puts the program
//! together, and may block.

use crate::gap::Missing;
use crate::tracker::Failure;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use utoipa::{IntoParams, ToSchema};

/// The doors to what was counted.
pub struct Monitor {
    /// Usage, grouped as it is asked for.
    pub usage: crate::tracker::Door<UsageQuery, UsageReport, UsageFailure>,
    /// Counts again what the journal still has.
    pub rebuild: Box<dyn Fn() -> Rebuild + Send + Sync>,
}

/// Gives how counting again has ended, or nothing for now; none when that was told. It may block.
pub type Rebuild = Box<dyn FnMut() -> Option<Vec<Rebuilt>> + Send>;

/// Why there is no report.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UsageFailure {
    /// The question is wrong; the text says what.
    #[error("{0}")]
    Question(String),
    /// Something could not be read.
    #[error(transparent)]
    Failed(#[from] Failure),
}

/// A question about usage.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct UsageQuery {
    /// From when: RFC 3339, a day (UTC), or how long ago (`30d`). From the beginning if it is not
    /// said. The minute that has it is the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// Until when, likewise; until now if it is not said. The minute before it is the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// What has rows of its own, with commas between: `consumer`, `api`, `operation`, `plan`,
    /// `status`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// A row for each `minute`, `hour` or `day` (UTC).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<String>,
    /// Only this consumer; empty: calls of who is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub consumer: Option<String>,
    /// Only this API.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api: Option<String>,
    /// Only this operation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operation: Option<String>,
    /// Only this plan; empty: calls without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<String>,
    /// Only this class of status, `1xx` to `5xx`, or `none`: without an answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
}

/// Usage.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct UsageReport {
    /// Begin of the time it is of (RFC 3339, UTC).
    pub from: String,
    /// Its end.
    pub to: String,
    /// Rows in the order of time and names, at most 10,000.
    pub rows: Vec<UsageRow>,
    /// What is missing of that time, of whomever.
    #[serde(default)]
    pub missing: Missing,
}

/// Calls that have something in common. What was not grouped by is left out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct UsageRow {
    /// Begin of the step (RFC 3339, UTC).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time: Option<String>,
    /// Consumer; empty: who is none. `(other)` is what there was no room for.
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
    /// Bytes of answers' bodies.
    pub response_bytes: u64,
    /// What they cost by themselves, a decimal in the plan's currency, by plan.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub amounts: BTreeMap<String, String>,
    /// How long half of them took, in microseconds, within 1 %.
    pub p50_us: u64,
    /// The same of 90 %.
    pub p90_us: u64,
    /// The same of 99 %.
    pub p99_us: u64,
}

/// How counting again has ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Rebuilt {
    /// Begin of what was counted again (RFC 3339, UTC): a minute. What is older was not touched.
    pub from: String,
    /// Its end.
    pub to: String,
    /// Transactions that were read.
    pub read: u64,
    /// Calls that were counted in that time.
    pub before: u64,
    /// Calls that are counted in it now.
    pub after: u64,
    /// Why nothing has changed, if it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<String>,
}
