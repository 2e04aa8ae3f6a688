//! Who did what.

use super::transaction::{bad, limit};
use super::{Api, not_recording};
use crate::audit::{AuditEntry, AuditWanted};
use crate::problem::Problem;
use crate::tracker::Failure;
use axum::Json;
use axum::extract::{Query, State, rejection::QueryRejection};
use serde::Deserialize;
use std::sync::Arc;
use utoipa::IntoParams;

/// Lines if nobody says how many, and at most.
const LINES: usize = 100;
const MOST_LINES: usize = 1000;

/// Which lines.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Wanted {
    /// Most lines, 1 to 1000; 100 if it is not said.
    limit: Option<usize>,
    /// Only lines before the one with this number.
    before: Option<i64>,
    /// Only what this one did, by name or token id.
    who: Option<String>,
    /// Only this, such as `resubmit`.
    action: Option<String>,
    /// Only what was done to this, such as a transaction's id.
    subject: Option<String>,
}

/// Who looked at which payload, and who changed what, newest first
#[utoipa::path(get, path = "/v1/audit", tag = "audit", params(Wanted),
    extensions(("x-weir-role" = json!("admin"))),
    responses(
        (status = 200, description = "What was done.", body = Vec<AuditEntry>),
        (status = 400, description = "The limit is wrong.")))]
pub(super) async fn list(
    State(api): State<Arc<Api>>,
    wanted: Result<Query<Wanted>, QueryRejection>,
) -> Result<Json<Vec<AuditEntry>>, Problem> {
    let Query(wanted) = wanted.map_err(|rejection| bad(rejection.body_text()))?;
    let limit = limit(wanted.limit, LINES, MOST_LINES)?;
    let Wanted { before, who, action, subject, .. } = wanted;
    let wanted = AuditWanted { before, who, action, subject };
    let asked = api.asked(&api.turns, not_recording, move |sources| {
        let access = sources.access.as_ref()?;
        Some((access.audit.last)(limit, &wanted).map_err(Failure::Unreadable))
    });
    asked.await.map(Json)
}
