//! Who is throttled, and what is left to everybody.

use super::Api;
use crate::limits::Limits;
use axum::Json;
use axum::extract::State;
use std::sync::Arc;

/// How everybody stands with their limits
#[utoipa::path(get, path = "/v1/limits", tag = "limits",
    extensions(("x-weir-role" = json!("viewer"))),
    responses((status = 200, description = "What is left to each consumer of its plan, and what each limit has refused.", body = Limits)))]
pub(super) async fn limits(State(api): State<Arc<Api>>) -> Json<Limits> {
    Json(Limits::of(api.sources.gateway.limits()))
}
