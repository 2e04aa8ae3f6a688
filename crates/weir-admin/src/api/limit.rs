//! Status of rate limits and quotas.

use super::Call;
use axum::Json;
use weir_limit::LimitStatuses;

/// Show the status of rate limits and quotas
#[utoipa::path(get, path = "/v1/limits", tag = "limits",
    responses((status = 200, description = "Remaining calls of each consumer, and rejections by limit.", body = LimitStatuses)))]
pub(super) async fn limits(call: Call) -> Json<LimitStatuses> {
    Json(call.api.sources.gateway.limits())
}
