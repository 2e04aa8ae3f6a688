//! Targets of upstreams: state, and what happened since the start.

use super::Call;
use crate::live::HealthChange;
use crate::problem::{Params, Result};
use axum::Json;
use serde::{Deserialize, Serialize};
use strum::VariantNames;
use utoipa::{IntoParams, ToSchema};
use weir_server::snapshot::TargetSeries;
use weir_telemetry::labels::{EjectionReason, Hedged, RetryDenied, RetryReason};
use weir_telemetry::stats::CallKey;

/// Default and largest number of changes.
const CHANGES: usize = 100;
const MAX_CHANGES: usize = 1000;

/// A target of an upstream. Numbers are since the start.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(super) struct UpstreamTarget {
    /// Name of the upstream.
    upstream: String,
    /// The target, as configured.
    target: String,
    /// The target is in rotation.
    up: bool,
    /// Reason of the ejection: `check`, `failures` or `errors`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    ejected_by: String,
    /// Connections with a request.
    active: u64,
    /// Idle connections.
    idle: u64,
    /// Attempts.
    attempts: u64,
    /// Attempts without a complete response, or with a 5xx.
    failed: u64,
    /// New connections.
    connects: u64,
    /// Requests rejected because all connections were in use.
    busy: u64,
    /// Retries after an attempt failed here, by reason.
    retries: Vec<CountedReason>,
    /// Retries that were denied, by reason.
    retries_denied: Vec<CountedReason>,
    /// Hedged requests that were sent here first, by the winner.
    hedges: Vec<CountedReason>,
    /// Ejections, by reason.
    ejections: Vec<CountedReason>,
    /// Health checks: `passed` and `failed`.
    checks: Vec<CountedReason>,
}

/// A reason with its number.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(super) struct CountedReason {
    /// The reason.
    reason: String,
    /// How often.
    count: u64,
}

/// Those that have occurred.
fn counted(reasons: &[&str], counts: &[u64]) -> Vec<CountedReason> {
    let all = reasons.iter().zip(counts).filter(|(_, count)| **count > 0);
    all.map(|(reason, count)| CountedReason { reason: (*reason).to_owned(), count: *count })
        .collect()
}

impl From<&TargetSeries> for UpstreamTarget {
    fn from(series: &TargetSeries) -> Self {
        let TargetSeries { key, health, open, idle, .. } = series;
        let is_failed = |call: &CallKey| !call.error.is_empty() || call.status >= 500;
        let count = |is_counted: &dyn Fn(&CallKey) -> bool| {
            let calls = series.calls.iter().filter(|(call, _)| is_counted(call));
            calls.map(|(_, durations)| durations.count).sum()
        };
        Self {
            upstream: key.upstream.clone(),
            target: key.name.clone(),
            up: health.out.is_none(),
            ejected_by: health.out.unwrap_or_default().to_owned(),
            active: open.saturating_sub(*idle),
            idle: *idle,
            attempts: count(&|_| true),
            failed: count(&is_failed),
            connects: series.connects,
            busy: series.busy,
            retries: counted(RetryReason::VARIANTS, &series.retries),
            retries_denied: counted(RetryDenied::VARIANTS, &series.retries_denied),
            hedges: counted(Hedged::VARIANTS, &series.hedges),
            ejections: counted(EjectionReason::VARIANTS, &health.ejections),
            checks: counted(&["passed", "failed"], &health.checks),
        }
    }
}

/// List the targets of upstreams
///
/// State, connections, and what happened since the start. Durations and statuses over time are in
/// `/v1/transactions/profile?q=upstream_target:…`.
#[utoipa::path(get, path = "/v1/upstreams", tag = "upstreams",
    responses((status = 200, description = "Every target of every upstream.", body = [UpstreamTarget])))]
pub(super) async fn targets(call: Call) -> Json<Vec<UpstreamTarget>> {
    let stats = call.api.sources.gateway.stats();
    Json(stats.targets.iter().map(UpstreamTarget::from).collect())
}

/// Which changes.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct HealthParams {
    /// Only targets of this upstream.
    upstream: Option<String>,
    /// Only this target.
    target: Option<String>,
    /// Maximum number of changes, 1 to 1000; default 100.
    limit: Option<usize>,
}

/// Changes of the health of targets, the last one first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(super) struct HealthHistory {
    /// The changes.
    changes: Vec<HealthChange>,
    /// There are earlier ones.
    more: bool,
}

/// List ejections of targets, and returns to the rotation
///
/// The last 1000 of this node since its start.
#[utoipa::path(get, path = "/v1/upstreams/health", tag = "upstreams", params(HealthParams),
    responses((status = 200, description = "The changes.", body = HealthHistory)))]
pub(super) async fn health(
    call: Call,
    Params(params): Params<HealthParams>,
) -> Result<Json<HealthHistory>> {
    let HealthParams { upstream, target, limit } = params;
    let limit = super::transaction::limit(limit, CHANGES, MAX_CHANGES)?;
    let is = |one: &Option<String>, name: &str| one.as_deref().is_none_or(|one| one == name);
    let (changes, more) =
        call.api.live.health(limit, |one| is(&upstream, &one.upstream) && is(&target, &one.target));
    Ok(Json(HealthHistory { changes, more }))
}
