//! The state of the journal.

use super::Api;
use crate::problem::Problem;
use crate::tracker::JournalState;
use axum::Json;
use axum::extract::State;
use std::sync::Arc;

/// The state of the journal
#[utoipa::path(get, path = "/v1/journal", tag = "journal",
    extensions(("x-weir-role" = json!("viewer"))),
    responses(
        (status = 200, description = "What was done, what recovery found, who lags.", body = JournalState),
        (status = 409, description = "Nothing is recorded here.")))]
pub(super) async fn state(State(api): State<Arc<Api>>) -> Result<Json<JournalState>, Problem> {
    api.ask(|tracker| (tracker.journal)(&())).await.map(Json)
}
