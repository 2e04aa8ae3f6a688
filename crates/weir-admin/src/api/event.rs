//! Delivery queues of event sinks.

use super::Call;
use axum::Json;
use serde::Serialize;
use std::sync::PoisonError;
use utoipa::ToSchema;
use weir_events::delivery::{SinkQueue, SinkQueues};

/// Access to event sinks.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
pub(super) struct Sinks {
    /// All sinks that ever had an event, by name.
    sinks: Vec<SinkQueue>,
}

/// List delivery queues by sink
#[utoipa::path(get, path = "/v1/events", tag = "events",
    responses((status = 200, description = "Waiting and dropped events of each sink.", body = Sinks)))]
pub(super) async fn sinks(call: Call) -> Json<Sinks> {
    let events = call.api.sources.events.as_ref();
    let read = |queues: &SinkQueues| queues.lock().unwrap_or_else(PoisonError::into_inner).clone();
    Json(Sinks { sinks: events.map(read).unwrap_or_default() })
}
