//! What pools are doing, and what is done to them.

use super::Api;
use crate::audit::Action;
use crate::pools::Pools;
use crate::problem::Problem;
use crate::tokens::Caller;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::{Extension, Json};
use std::sync::Arc;
use weir_gateway::Gateway;

/// What every pool is doing and has done
#[utoipa::path(get, path = "/v1/pools", tag = "pools",
    extensions(("x-weir-role" = json!("viewer"))),
    responses((status = 200, description = "Agents by state, the queue, times, and what was counted.", body = Pools)))]
pub(super) async fn pools(State(api): State<Arc<Api>>) -> Json<Pools> {
    Json(Pools::of(api.sources.gateway.pools()))
}

/// Replace the agents of a pool, or stop those it does not need
#[utoipa::path(post, path = "/v1/pools/{pool}/{action}", tag = "pools",
    extensions(("x-weir-role" = json!("operator"))),
    params(
        ("pool" = String, Path, description = "Name of the pool."),
        ("action" = String, Path, description = "`recycle`: every agent is replaced, each as soon as it has nothing to do. `trim`: agents that have nothing to do are stopped, down to `min`.")),
    responses(
        (status = 202, description = "It will be done."),
        (status = 404, description = "There is no such pool or action.")))]
pub(super) async fn act(
    State(api): State<Arc<Api>>,
    Extension(caller): Extension<Caller>,
    Path((pool, action)): Path<(String, String)>,
) -> Result<StatusCode, Problem> {
    let gateway = &api.sources.gateway;
    let (action, act): (_, fn(&Gateway, &str) -> bool) = match action.as_str() {
        "recycle" => ("recycle", Gateway::recycle_pool),
        "trim" => ("trim", Gateway::trim_pool),
        _ => return Err(none("POST /v1/pools/{pool}/ has recycle and trim.")),
    };
    if gateway.pools().iter().all(|known| known.name != pool) {
        return Err(none("GET /v1/pools lists those that there are."));
    }
    api.audit(&caller, Action::Pool(action, pool.clone())).await?;
    if act(gateway, &pool) {
        Ok(StatusCode::ACCEPTED)
    } else {
        Err(none("GET /v1/pools lists those that there are."))
    }
}

fn none(detail: &str) -> Problem {
    Problem {
        status: StatusCode::NOT_FOUND,
        kind: "not-found",
        title: "There is no such pool or action",
        place: None,
        detail: detail.to_owned(),
    }
}
