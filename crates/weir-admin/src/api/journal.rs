//! The state of the journal, and whether it is whole.

use super::stream::{Pace, lines, respond};
use super::{Api, busy};
use crate::problem::Problem;
use crate::tokens::Caller;
use crate::tracker::{Failure, JournalState, Verified};
use axum::extract::State;
use axum::response::Response;
use axum::{Extension, Json};
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

/// Read the whole journal and compare every checksum
///
/// One JSON object a line: one for each lane when it has been read, one for each damaged stretch
/// that was found at the start, and one with `end` when all was read. Without that one it was
/// broken off. Empty lines say that it goes on.
#[utoipa::path(get, path = "/v1/journal/verify", tag = "journal",
    extensions(("x-weir-role" = json!("operator"))),
    responses(
        (status = 200, description = "What was found.", content_type = "application/x-ndjson",
            body = Verified),
        (status = 409, description = "Nothing is recorded here."),
        (status = 503, description = "Somebody reads all of it already.")))]
pub(super) async fn verify(
    State(api): State<Arc<Api>>,
    Extension(caller): Extension<Caller>,
) -> Result<Response, Problem> {
    let Ok(permit) = Arc::clone(&api.long).try_acquire_owned() else {
        return Err(busy("long answers"));
    };
    let mut verify = api.ask(|tracker| Ok::<_, Failure>((tracker.verify)())).await?;
    let source = move || verify().ok().flatten().map(|found| lines(&found));
    Ok(respond(Box::new(source), Pace::Steady, api.grant(&caller)?, permit))
}
