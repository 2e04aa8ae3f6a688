//! Status of rate limits and quotas.

use super::Api;
use crate::limits::Limits;
use axum::Json;
use axum::extract::State;
use std::sync::Arc;

/// Show the status of rate limits and quotas
#[utoipa::path(get, path = "/v1/limits", tag = "limits",
    extensions(("x-weir-role" = json!("viewer"))),
    responses((status = 200, description = "Remaining calls of each consumer, and rejections by limit.", body = Limits)))]
pub(super) async fn limits(State(api): State<Arc<Api>>) -> Json<Limits> {
    Json(Limits::of(api.sources.gateway.limits()))
}
