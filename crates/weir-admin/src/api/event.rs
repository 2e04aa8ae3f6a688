//! What waits to be posted to others.

use super::Api;
use crate::events::Sinks;
use axum::Json;
use axum::extract::State;
use std::sync::Arc;

/// What waits for each sink of events
#[utoipa::path(get, path = "/v1/events", tag = "events",
    extensions(("x-weir-role" = json!("viewer"))),
    responses((status = 200, description = "Events that wait for each sink, and those that were given up.", body = Sinks)))]
pub(super) async fn sinks(State(api): State<Arc<Api>>) -> Json<Sinks> {
    let events = api.sources.events.as_ref();
    Json(Sinks { sinks: events.map(|events| events()).unwrap_or_default() })
}
