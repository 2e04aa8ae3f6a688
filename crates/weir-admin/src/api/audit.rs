//! The audit log.

use super::transaction::limit;
use super::{Call, NOT_RECORDING};
use crate::counts::{HERE, NO_FLEET, no_database};
use crate::problem::{Params, Result};
use axum::Json;
use serde::Deserialize;
use utoipa::IntoParams;
use weir_store::audit::{AuditEvent, AuditQuery};
use weir_tracker::TrackerError;

/// Default and largest number of lines.
const LINES: usize = 100;
const MAX_LINES: usize = 1000;

/// Filter and limit of the audit log.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct AuditParams {
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
    /// Only entries of this node of the fleet: its name or id, or `here` for the own log of the node
    /// that is asked; default: all nodes.
    node: Option<String>,
}

/// Query the audit log: payload access and changes, newest first
///
/// In a fleet: those of all nodes, in the order in which they arrived in the database, with the numbers of
/// the fleet. Entries of other nodes arrive within a second, or when their node is connected again.
#[utoipa::path(get, path = "/v1/audit", tag = "audit", params(AuditParams),
    responses(
        (status = 200, description = "The entries.", body = Vec<AuditEvent>),
        (status = 400, description = "The limit is invalid."),
        (status = 404, description = "There is no fleet."),
        (status = 503, description = "The database of the fleet cannot be used.")))]
pub(super) async fn list(
    call: Call,
    Params(params): Params<AuditParams>,
) -> Result<Json<Vec<AuditEvent>>> {
    let limit = limit(params.limit, LINES, MAX_LINES)?;
    let AuditParams { before, who, action, subject, node, .. } = params;
    let query = AuditQuery { before, who, action, subject };
    let is_here = node.as_deref() == Some(HERE);
    match &call.api.sources.fleet {
        Some(fleet) if !is_here => {
            let entries = fleet.audit(limit, &query, node.as_deref()).await;
            return entries.map(Json).map_err(|error| no_database(&error));
        }
        None if node.is_some() && !is_here => return Err(NO_FLEET),
        _ => {}
    }
    let events = call.api.query(&call.api.permits, NOT_RECORDING, move |sources| {
        let access = sources.access.as_ref()?;
        Some(access.audit.latest(limit, &query).map_err(TrackerError::unreadable))
    });
    events.await.map(Json)
}
