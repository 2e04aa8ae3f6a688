//! Resubmission of transactions, and resolutions.

use super::nodes::Owner;
use super::transaction::{NONE, transaction_id};
use super::{Api, Call, NOT_RECORDING, permit};
use crate::access::{BASE, out_of_scope};
use crate::audit::Action;
use crate::problem::{Problem, Result};
use crate::resubmit::{Resolve, ResubmitBody};
use axum::Json;
use axum::body::Bytes;
use axum::extract::Path;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::de::DeserializeOwned;
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;
use weir_resubmit::{ResubmitError, Resubmitter};
use weir_store::ledger::{Attempt, Resolution};
use weir_tracker::{Error, TrackerError};

/// Longest comment.
const MAX_COMMENT_BYTES: usize = 1000;
/// Longest description of edits in the audit log: more than a hundred header names.
const MAX_EDIT_BYTES: usize = 64 << 10;
/// Longest wait for another node that sets a resolution: longer than it waits for the database.
const RESOLUTION_TIMEOUT: Duration = Duration::from_secs(12);
/// Longest wait for the response to a single resubmission.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(60);

/// Parses a JSON body; an empty body is the default value.
pub(super) fn read<T: DeserializeOwned + Default>(body: &Bytes) -> Result<T> {
    if body.is_empty() {
        return Ok(T::default());
    }
    serde_json::from_slice(body).map_err(|error| {
        // The position of the error, never the text: it may be payload.
        Problem::bad(format!("line {}, column {}: {}", error.line(), error.column(), kind(&error)))
    })
}

fn kind(error: &serde_json::Error) -> &'static str {
    match error.classify() {
        serde_json::error::Category::Data => "a member is unknown, missing or has the wrong type",
        _ => "invalid JSON",
    }
}

/// Resubmit a transaction
///
/// Unchanged, edited, or to another route, on behalf of its recorded principal. Waits up to a
/// minute for the response; after that the state remains `sending`. In a fleet, the node that has the
/// transaction sends it, once it has claimed the attempt in the database of the fleet. If that node does
/// not respond, this node sends what a sink of transactions has, or responds `elsewhere`.
#[utoipa::path(post, path = "/v1/transactions/{id}/resubmit", tag = "resubmission",
    request_body = ResubmitBody,
    params(("id" = String, Path, description = "The transaction id.")),
    responses(
        (status = 200, description = "The transaction was sent, or rejected by a current policy.", body = Attempt),
        (status = 400, description = "Invalid transaction id or edits."),
        (status = 404, description = "Unknown transaction."),
        (status = 409, description = "The transaction cannot be sent: `reason` is the code."),
        (status = 503, description = "Too many concurrent requests, the index lags behind, or the \
            database of the fleet cannot be used.")))]
pub(super) async fn resubmit(call: Call, Path(id): Path<String>, body: Bytes) -> Result<Response> {
    let id = transaction_id(&id)?;
    let record = match call.owner(id).await? {
        Owner::Here => None,
        Owner::At(fleet, peer) => {
            let _permit = permit(&call.api.resubmissions, "resubmissions")?;
            let target = format!("{BASE}/transactions/{id}/resubmit");
            return call.perform((fleet, peer), target, body, RESPONSE_TIMEOUT).await;
        }
        Owner::Absent(shipped) => Some(shipped.found.record),
        Owner::Silent(problem) => return Err(problem),
    };
    let body: ResubmitBody = read(&body)?;
    if body.to.is_some() && !call.caller.scope.apis.is_empty() {
        let reason = "The token is for some APIs only: it sends transactions to their own routes.";
        return Err(out_of_scope(reason.to_owned()));
    }
    let details = edits(&body);
    if details.len() > MAX_EDIT_BYTES {
        return Err(Problem::bad("Too many header edits, or header names that are too long."));
    }
    call.audit(Action::Resubmit, id.to_string(), details).await?;
    let options = body.options().map_err(Problem::bad)?;
    let resubmit = move |resubmitter: &Resubmitter| {
        let who = &call.caller.name;
        match record {
            None => resubmitter.resubmit(id.as_u128(), &options, who, RESPONSE_TIMEOUT),
            Some(record) => resubmitter.resubmit_shipped(&record, &options, who, RESPONSE_TIMEOUT),
        }
    };
    let attempt: Attempt = call.api.resubmission(&call.api.resubmissions, resubmit).await?;
    call.api.figures.clear();
    Ok(Json(attempt).into_response())
}

/// The description of edits for the audit log, without payload.
fn edits(body: &ResubmitBody) -> String {
    let set: Vec<&str> = body.headers.set.iter().map(|line| line.name.as_str()).collect();
    let edited = json!({
        "query": body.query.is_some(),
        "headers_set": set,
        "headers_removed": body.headers.remove,
        "body": body.body.is_some() || body.body_base64.is_some(),
        "to": body.to,
        "again": body.again,
    });
    if *body == ResubmitBody::default() { String::new() } else { edited.to_string() }
}

impl From<ResubmitError> for Problem {
    fn from(error: ResubmitError) -> Self {
        let (code, text) = match &error {
            ResubmitError::Rejected(reason) => (reason.code(), reason.words()),
            ResubmitError::NotFailed => ("not-failed".to_owned(), error.to_string()),
            ResubmitError::NotFound => return NONE,
            ResubmitError::Edit(detail) => return Self::bad(format!("{detail}.")),
            ResubmitError::Busy => return super::busy("requests"),
            ResubmitError::NotClaimed(_) => {
                return Self::new(
                    StatusCode::SERVICE_UNAVAILABLE,
                    "no-database",
                    "The transaction was not sent",
                    format!("{error}."),
                );
            }
            ResubmitError::NotResolved(_) => {
                return Self::new(
                    StatusCode::SERVICE_UNAVAILABLE,
                    "no-database",
                    "The resolution was not set",
                    format!("{error}."),
                );
            }
            ResubmitError::Index(Error::Behind) => return TrackerError::Behind.into(),
            ResubmitError::Index(_) | ResubmitError::Database(_) => {
                return TrackerError::unreadable(error).into();
            }
        };
        let problem = Self::new(
            StatusCode::CONFLICT,
            "not-resubmittable",
            "The transaction cannot be resubmitted",
            format!("{text} ({code})"),
        );
        Self { reason: Some(code), ..problem }
    }
}

/// Set the resolution of a transaction
///
/// In a fleet it is stored in the database of the fleet, from which every node copies it. If the node that
/// may have the transaction does not respond, the resolution is stored unchecked.
#[utoipa::path(post, path = "/v1/transactions/{id}/resolution", tag = "resubmission",
    request_body = Resolve,
    params(("id" = String, Path, description = "The transaction id.")),
    responses(
        (status = 202, description = "The resolution is stored; the node that has the transaction does not \
            respond, and applies it when it is back."),
        (status = 204, description = "The resolution was set."),
        (status = 400, description = "Invalid transaction id or resolution."),
        (status = 404, description = "Unknown transaction."),
        (status = 409, description = "The transaction did not fail."),
        (status = 503, description = "The database of the fleet cannot be used.")))]
pub(super) async fn resolve(call: Call, Path(id): Path<String>, body: Bytes) -> Result<Response> {
    let id = transaction_id(&id)?;
    let absent = match call.owner(id).await? {
        Owner::Here => None,
        Owner::At(fleet, peer) => {
            let target = format!("{BASE}/transactions/{id}/resolution");
            return call.perform((fleet, peer), target, body, RESOLUTION_TIMEOUT).await;
        }
        Owner::Absent(shipped) => Some(Some(shipped.found.record)),
        Owner::Silent(_) => Some(None),
    };
    let Resolve { state, comment } = read(&body)?;
    let resolution = state.parse().ok().filter(|state| *state != Resolution::Resubmitted);
    let Some(resolution) = resolution else {
        return Err(Problem::bad("`state` must be `resolved`, `dismissed` or `open`."));
    };
    if comment.len() > MAX_COMMENT_BYTES || comment.chars().any(char::is_control) {
        return Err(Problem::bad(format!(
            "`comment` must be one line of at most {MAX_COMMENT_BYTES} bytes."
        )));
    }
    let details = json!({"state": state, "comment": comment}).to_string();
    call.audit(Action::Resolve, id.to_string(), details).await?;
    let status = if absent.is_some() { StatusCode::ACCEPTED } else { StatusCode::NO_CONTENT };
    let resolve = move |resubmitter: &Resubmitter| {
        let (id, who) = (id.as_u128(), call.caller.name.as_str());
        match absent {
            None => resubmitter.resolve(id, resolution, who, &comment),
            Some(found) => {
                resubmitter.resolve_absent(id, found.as_ref(), resolution, (who, &comment))
            }
        }
    };
    call.api.resubmission(&call.api.jobs, resolve).await?;
    call.api.figures.clear();
    Ok(status.into_response())
}

impl Api {
    /// Runs a query or action of resubmission, which may block, within a limit of concurrency.
    pub(super) async fn resubmission<T, E>(
        &self,
        permits: &Arc<Semaphore>,
        query: impl FnOnce(&Resubmitter) -> Result<T, E> + Send + 'static,
    ) -> Result<T>
    where
        T: Send + 'static,
        E: Into<Problem> + Send + 'static,
    {
        let find = move |sources: &crate::Sources| sources.resubmitter.as_ref().map(query);
        self.query(permits, NOT_RECORDING, find).await
    }
}
