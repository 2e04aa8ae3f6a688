//! Delivery queues of event sinks.

use super::Api;
use crate::events::Sinks;
use axum::Json;
use axum::extract::State;
use std::sync::Arc;

/// List delivery queues by sink
#[utoipa::path(get, path = "/v1/events", tag = "events",
    extensions(("x-weir-role" = json!("viewer"))),
    responses((status = 200, description = "Waiting and dropped events of each sink.", body = Sinks)))]
pub(super) async fn sinks(State(api): State<Arc<Api>>) -> Json<Sinks> {
    let events = api.sources.events.as_ref();
    Json(Sinks { sinks: events.map(|events| events()).unwrap_or_default() })
}
