//! The fleet: state, and retirement of nodes.

use super::Call;
use crate::audit::Action;
use crate::counts::NO_FLEET;
use crate::problem::{Params, Problem, Result};
use axum::Json;
use axum::extract::Path;
use axum::http::StatusCode;
use serde::Deserialize;
use tokio::runtime::Handle;
use utoipa::IntoParams;
use uuid::Uuid;
use weir_fleet::Retirement;
use weir_fleet::status::FleetStatus;
use weir_fleet::verify::UsageVerification;
use weir_monitor::billing::{BillingError, period};

/// Show the nodes of the fleet, as of the last heartbeat of this node
#[utoipa::path(get, path = "/v1/fleet", tag = "fleet",
    responses(
        (status = 200, description = "Nodes, the shared database, and findings.", body = FleetStatus),
        (status = 404, description = "This node is not a member of a fleet.")))]
pub(super) async fn status(call: Call) -> Result<Json<FleetStatus>> {
    Ok(Json(call.fleet()?.status()))
}

/// The period that is verified.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct VerifyParams {
    /// Month (`2026-11`), year (`2026`) or day (`2026-11-21`), in UTC.
    period: String,
}

/// Compare the usage that this node has counted with the database of the fleet
#[utoipa::path(get, path = "/v1/fleet/usage", tag = "fleet", params(VerifyParams),
    responses(
        (status = 200, description = "Days that differ.", body = UsageVerification),
        (status = 400, description = "The period is invalid."),
        (status = 404, description = "This node is not a member of a fleet."),
        (status = 503, description = "The database cannot be used.")))]
pub(super) async fn verify(
    call: Call,
    Params(VerifyParams { period: text }): Params<VerifyParams>,
) -> Result<Json<UsageVerification>> {
    let range = period(&text, "UTC").map_err(BillingError::Period)?;
    let fleet = call.fleet()?.clone();
    call.api
        .query(&call.api.permits, NO_FLEET, move |sources| {
            let data = &sources.gateway.config().data;
            Some(Handle::current().block_on(fleet.verify(data, &range)))
        })
        .await
        .map(Json)
}

/// How a node leaves the fleet.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct RetireParams {
    /// The data of the node is gone: what it has not reported is missing for ever.
    #[serde(default)]
    lost: bool,
}

/// Retire a node that has ended
///
/// A retired node is not waited for. If it starts again, it is a member again.
#[utoipa::path(post, path = "/v1/fleet/nodes/{id}/retire", tag = "fleet",
    params(("id" = String, Path, description = "Id of the node."), RetireParams),
    responses(
        (status = 204, description = "The node is retired."),
        (status = 404, description = "Unknown node, or no fleet."),
        (status = 409, description = "The node still sends heartbeats."),
        (status = 503, description = "The database cannot be used.")))]
pub(super) async fn retire(
    call: Call,
    Path(id): Path<String>,
    Params(RetireParams { lost }): Params<RetireParams>,
) -> Result<StatusCode> {
    let fleet = call.fleet()?.clone();
    let id: Uuid = id.parse().map_err(|_| UNKNOWN_NODE)?;
    call.audit(Action::RetireNode, id.to_string(), if lost { "lost" } else { "" }).await?;
    match fleet.retire(id, lost).await {
        Ok(Retirement::Done) => Ok(StatusCode::NO_CONTENT),
        Ok(Retirement::Unknown) => Err(UNKNOWN_NODE),
        Ok(Retirement::Live) => Err(LIVE),
        Err(error) => Err(Problem::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "no-database",
            "The database of the fleet cannot be used",
            format!("{error}."),
        )),
    }
}

impl Call {
    pub(super) fn fleet(&self) -> Result<&weir_fleet::Handle> {
        self.api.sources.fleet.as_ref().ok_or(NO_FLEET)
    }
}

pub(super) const NO_CHECK: Problem = Problem::unavailable(
    "The version cannot be checked",
    "weir is stopping, or the check timed out; try again later.",
);

const UNKNOWN_NODE: Problem = Problem::not_found("Unknown node", "GET /v1/fleet lists the nodes.");

const LIVE: Problem = Problem::fixed(
    StatusCode::CONFLICT,
    "node-is-live",
    "The node still sends heartbeats",
    "Stop the node, or wait until its lease of 10 s has ended.",
);
