//! Status of rate limits and quotas.

use super::Api;
use axum::Json;
use axum::extract::State;
use std::sync::Arc;
use weir_limit::LimitStatuses;

/// Show the status of rate limits and quotas
#[utoipa::path(get, path = "/v1/limits", tag = "limits",
    responses((status = 200, description = "Remaining calls of each consumer, and rejections by limit.", body = LimitStatuses)))]
pub(super) async fn limits(State(api): State<Arc<Api>>) -> Json<LimitStatuses> {
    Json(api.sources.gateway.limits())
}
