//! The audit log.

use super::transaction::{bad, limit};
use super::{Api, not_recording};
use crate::audit::{AuditEntry, AuditWanted};
use crate::failure::Failure;
use crate::problem::Problem;
use axum::Json;
use axum::extract::{Query, State, rejection::QueryRejection};
use serde::Deserialize;
use std::sync::Arc;
use utoipa::IntoParams;

/// Default and largest number of lines.
const LINES: usize = 100;
const MOST_LINES: usize = 1000;

/// Filter and limit of the audit log.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Wanted {
    /// Maximum number of lines, 1 to 1000; default 100.
    limit: Option<usize>,
    /// Only lines before the line with this number.
    before: Option<i64>,
    /// Only actions of this actor: a token's name or id.
    who: Option<String>,
    /// Only this action, such as `resubmit`.
    action: Option<String>,
    /// Only actions on this object, such as a transaction id.
    subject: Option<String>,
}

/// Query the audit log: payload access and changes, newest first
#[utoipa::path(get, path = "/v1/audit", tag = "audit", params(Wanted),
    extensions(("x-weir-role" = json!("admin"))),
    responses(
        (status = 200, description = "The entries.", body = Vec<AuditEntry>),
        (status = 400, description = "The limit is invalid.")))]
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
