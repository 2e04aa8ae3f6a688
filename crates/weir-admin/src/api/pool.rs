//! Status and actions of pools.

use super::Call;
use crate::audit::Action;
use crate::pools::Pools;
use crate::problem::{Problem, Result};
use axum::Json;
use axum::extract::Path;
use axum::http::StatusCode;
use weir_server::Gateway;

/// Show the status of all pools
#[utoipa::path(get, path = "/v1/pools", tag = "pools",
    responses((status = 200, description = "Agents by state, queue, times and counters.", body = Pools)))]
pub(super) async fn pools(call: Call) -> Json<Pools> {
    Json(Pools { pools: call.api.sources.gateway.pools() })
}

/// Recycle the agents of a pool, or stop idle ones
#[utoipa::path(post, path = "/v1/pools/{pool}/{action}", tag = "pools",
    params(
        ("pool" = String, Path, description = "Name of the pool."),
        ("action" = String, Path, description = "`recycle`: every agent is replaced as soon as it is idle. `trim`: idle agents are stopped, down to `min`.")),
    responses(
        (status = 202, description = "The action was accepted."),
        (status = 404, description = "Unknown pool or action.")))]
pub(super) async fn act(
    call: Call,
    Path((pool, action)): Path<(String, String)>,
) -> Result<StatusCode> {
    let gateway = &call.api.sources.gateway;
    let (action, act): (Action, fn(&Gateway, &str) -> bool) = match action.as_str() {
        "recycle" => (Action::Recycle, Gateway::recycle_pool),
        "trim" => (Action::Trim, Gateway::trim_pool),
        _ => return Err(none("The actions of POST /v1/pools/{pool}/ are recycle and trim.")),
    };
    if gateway.pools().iter().all(|known| known.name != pool) {
        return Err(none("GET /v1/pools lists the pools."));
    }
    call.audit(action, pool.as_str(), "").await?;
    if act(gateway, &pool) {
        Ok(StatusCode::ACCEPTED)
    } else {
        Err(none("GET /v1/pools lists the pools."))
    }
}

fn none(detail: &'static str) -> Problem {
    Problem::not_found("Unknown pool or action", detail)
}
