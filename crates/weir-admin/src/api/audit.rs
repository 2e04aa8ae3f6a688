//! The audit log.

use super::transaction::limit;
use super::{Call, NOT_RECORDING, permit};
use crate::audit::Action;
use crate::counts::{HERE, NO_FLEET, no_database};
use crate::csv::field;
use crate::problem::{Params, Problem, Result};
use axum::Json;
use axum::extract::Path;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use utoipa::IntoParams;
use weir_model::UnixMicros;
use weir_store::audit::{AuditEvent, AuditQuery};
use weir_tracker::TrackerError;

/// Default and largest number of lines.
const LINES: usize = 100;
const MAX_LINES: usize = 1000;
/// Most entries of an export.
const MAX_EXPORT: usize = 50_000;

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
    /// Only entries from this time on: RFC 3339, a day (UTC), or an age (`30d`).
    from: Option<String>,
    /// Only entries before this time, likewise.
    to: Option<String>,
    /// Only entries with this text in actor, action, object or details; ASCII letters match in any case.
    text: Option<String>,
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
        (status = 400, description = "The limit or a time is invalid."),
        (status = 404, description = "There is no fleet."),
        (status = 503, description = "The database of the fleet cannot be used.")))]
pub(super) async fn list(
    call: Call,
    Params(params): Params<AuditParams>,
) -> Result<Json<Vec<AuditEvent>>> {
    let limit = limit(params.limit, LINES, MAX_LINES)?;
    entries(&call, limit, &params.query()?, params.node.as_deref()).await.map(Json)
}

/// Export the audit log, newest first
///
/// All entries that match, at most 50,000: with more of them the export is rejected, so that none is left out
/// unnoticed.
#[utoipa::path(get, path = "/v1/audit/export/{format}", tag = "audit",
    params(("format" = String, Path, description = "`json` or `csv`."), AuditParams),
    responses(
        (status = 200, description = "The entries as a JSON array, or as CSV (RFC 4180).", body = Vec<AuditEvent>),
        (status = 400, description = "The filter is invalid, or too many entries match."),
        (status = 404, description = "There is no fleet, or no such format."),
        (status = 503, description = "The database of the fleet cannot be used.")))]
pub(super) async fn export(
    call: Call,
    Path(format): Path<String>,
    Params(params): Params<AuditParams>,
) -> Result<Response> {
    let is_csv = match format.as_str() {
        "json" => false,
        "csv" => true,
        _ => return Err(NO_FORMAT),
    };
    let _permit = permit(&call.api.long, "long queries")?;
    let mut query = params.query()?;
    let mut all = Vec::new();
    loop {
        let page = entries(&call, MAX_LINES, &query, params.node.as_deref()).await?;
        let is_last = page.len() < MAX_LINES;
        query.before = page.last().map(|entry| entry.number);
        all.extend(page);
        if all.len() > MAX_EXPORT {
            return Err(Problem::bad(format!(
                "More than {MAX_EXPORT} entries match: narrow the filter, for example by `from` and `to`."
            )));
        }
        if is_last {
            break;
        }
    }
    call.audit(Action::ExportAudit, "", format!("{} entries", all.len())).await?;
    Ok(match is_csv {
        false => (file("audit.json"), Json(all)).into_response(),
        true => {
            let kind = [(header::CONTENT_TYPE, "text/csv; charset=utf-8; header=present")];
            (kind, file("audit.csv"), csv(&all)).into_response()
        }
    })
}

fn file(name: &str) -> [(header::HeaderName, String); 1] {
    [(header::CONTENT_DISPOSITION, format!("attachment; filename=\"{name}\""))]
}

/// The entries as CSV, with a header.
fn csv(entries: &[AuditEvent]) -> String {
    let mut text = "number,time,actor,token,role,action,about,object,details,node\r\n".to_owned();
    for entry in entries {
        let (number, time) = (entry.number.to_string(), entry.time.to_string());
        let fields = [
            &number,
            &time,
            &entry.name,
            &entry.token,
            &entry.role,
            &entry.action,
            &entry.about,
            &entry.subject,
            &entry.details,
            &entry.node,
        ];
        text.push_str(&fields.map(|one| field(one)).join(","));
        text.push_str("\r\n");
    }
    text
}

impl AuditParams {
    fn query(&self) -> Result<AuditQuery> {
        let now = jiff::Timestamp::now();
        let time = |text: &Option<String>| -> Result<Option<UnixMicros>> {
            let seconds = text.as_ref().map(|text| weir_monitor::time(text, now)).transpose();
            let seconds = seconds.map_err(|error| Problem::bad(format!("{error}.")))?;
            Ok(seconds.map(|seconds| UnixMicros(seconds.saturating_mul(1_000_000))))
        };
        Ok(AuditQuery {
            before: self.before,
            who: self.who.clone(),
            action: self.action.clone(),
            subject: self.subject.clone(),
            from: time(&self.from)?,
            to: time(&self.to)?,
            text: self.text.clone(),
        })
    }
}

/// The latest entries that match.
async fn entries(
    call: &Call,
    limit: usize,
    query: &AuditQuery,
    node: Option<&str>,
) -> Result<Vec<AuditEvent>> {
    let is_here = node == Some(HERE);
    match &call.api.sources.fleet {
        Some(fleet) if !is_here => {
            let entries = fleet.audit(limit, query, node).await;
            return entries.map_err(|error| no_database(&error));
        }
        None if node.is_some() && !is_here => return Err(NO_FLEET),
        _ => {}
    }
    let query = query.clone();
    let events = call.api.query(&call.api.permits, NOT_RECORDING, move |sources| {
        let access = sources.access.as_ref()?;
        Some(access.audit.latest(limit, &query).map_err(TrackerError::unreadable))
    });
    events.await
}

const NO_FORMAT: Problem =
    Problem::not_found("Unknown format", "An export of the audit log is `json` or `csv`.");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_a_row_and_no_formula() {
        let entry = AuditEvent {
            number: 1,
            name: "=cmd()".to_owned(),
            subject: "a,\"b\"".to_owned(),
            ..AuditEvent::default()
        };
        let text = csv(&[entry]);
        let row = text.lines().nth(1).unwrap();
        assert_eq!(row, "1,1970-01-01T00:00:00Z,'=cmd(),,,,,\"a,\"\"b\"\"\",,");
    }
}
