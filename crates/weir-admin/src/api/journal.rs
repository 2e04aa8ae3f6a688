//! State and integrity of the journal.

use super::stream::{Pace, lines, respond};
use super::{Call, permit};
use crate::problem::Result;
use axum::Json;
use axum::response::Response;
use weir_tracker::{JournalState, TrackerError, Verified};

/// Show the state of the journal
#[utoipa::path(get, path = "/v1/journal", tag = "journal",
    responses(
        (status = 200, description = "Activity, recovery and backlogs.", body = JournalState),
        (status = 409, description = "Recording is off.")))]
pub(super) async fn state(call: Call) -> Result<Json<JournalState>> {
    call.api.query_tracker(|tracker| tracker.journal_state()).await.map(Json)
}

/// Verify all checksums of the journal
///
/// One JSON object per line: one for each lane that was read, one for each damaged range found at
/// the start, and one with `end` after all of it. A response without `end` was aborted. Empty lines
/// are keep-alives.
#[utoipa::path(get, path = "/v1/journal/verify", tag = "journal",
    responses(
        (status = 200, description = "Results by part of the journal.", content_type = "application/x-ndjson",
            body = Verified),
        (status = 409, description = "Recording is off."),
        (status = 503, description = "Too many long queries are running.")))]
pub(super) async fn verify(call: Call) -> Result<Response> {
    let permit = permit(&call.api.long, "long queries")?;
    let mut verification =
        call.api.query_tracker(|tracker| Ok::<_, TrackerError>(tracker.verify())).await?;
    let source = move || verification.step().ok().flatten().map(|found| lines(&found));
    Ok(respond(source, Pace::Steady, call.grant()?, permit))
}
