//! Search, display, export and tail of transactions.

use super::stream::{Pace, line, respond};
use super::{Call, permit};
use crate::access::forbidden;
use crate::audit::Action;
use crate::explain::RecordedExplanation;
use crate::problem::{Params, Problem, Result};
use crate::role::Role;
use axum::Json;
use axum::extract::Path;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use std::sync::Arc;
use std::time::Duration;
use utoipa::IntoParams;
use uuid::Uuid;
use weir_tracker::document::{ExportEnd, Page, Summary, Transaction};
use weir_tracker::{
    Export, ExportStep, MAX_PAGE_HITS, MAX_SEARCH_TIMEOUT, SEARCH_TIMEOUT, Search, SearchError,
    Side, Tracker,
};

/// Default number of transactions on a page.
const PAGE: usize = 50;

/// Query and options of a search.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct SearchParams {
    /// The query; empty: all transactions.
    #[serde(default)]
    q: String,
    /// Maximum number of transactions, 1 to 1000; default 50.
    limit: Option<usize>,
    /// The cursor of the previous page.
    cursor: Option<String>,
    /// Timeout in seconds, 1 to 30; default 5. The cursor continues with the transactions that were
    /// not searched.
    timeout: Option<u64>,
}

/// The timeout of a search.
pub(super) fn timeout(seconds: Option<u64>) -> Result<Duration> {
    match seconds.map(Duration::from_secs) {
        None => Ok(SEARCH_TIMEOUT),
        Some(timeout) if (Duration::from_secs(1)..=MAX_SEARCH_TIMEOUT).contains(&timeout) => {
            Ok(timeout)
        }
        Some(_) => {
            let max = MAX_SEARCH_TIMEOUT.as_secs();
            Err(Problem::bad(format!("`timeout` must be a number of seconds from 1 to {max}.")))
        }
    }
}

/// The number of transactions: at most `max`, by default `default`.
pub(super) fn limit(limit: Option<usize>, default: usize, max: usize) -> Result<usize> {
    let limit = limit.unwrap_or(default);
    if (1..=max).contains(&limit) {
        return Ok(limit);
    }
    Err(Problem::bad(format!("`limit` must be a number from 1 to {max}.")))
}

pub(super) fn transaction_id(text: &str) -> Result<Uuid> {
    Uuid::try_parse(text).map_err(|_| Problem::bad("The transaction id must be a UUID."))
}

/// Search transactions, newest first
#[utoipa::path(get, path = "/v1/transactions", tag = "transactions", params(SearchParams),
    responses(
        (status = 200, description = "A page of transactions.", body = Page),
        (status = 400, description = "The query, the limit, the timeout or the cursor is wrong; \
            `place` says which bytes of the query."),
        (status = 403, description = "The query searches payloads, which requires the role payload-viewer."),
        (status = 409, description = "Recording or indexing is off.")))]
pub(super) async fn search(call: Call, Params(params): Params<SearchParams>) -> Result<Json<Page>> {
    let limit = limit(params.limit, PAGE, MAX_PAGE_HITS)?;
    let payload = call.caller.role >= Role::PayloadViewer;
    let timeout = timeout(params.timeout)?;
    let search = Search { query: params.q, limit, cursor: params.cursor, payload, timeout };
    let query = search.query.clone();
    let page = call.api.query_tracker(move |tracker| tracker.search(&search)).await?;
    if page.payload {
        call.audit(Action::Search, query, "").await?;
    }
    Ok(Json(page))
}

/// Query of a tail.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct TailParams {
    /// The query; empty: all transactions.
    #[serde(default)]
    q: String,
}

/// Tail completed transactions
///
/// One JSON object per line for each completed transaction that matches the query. Empty lines are
/// keep-alives. The response ends when the token is revoked.
#[utoipa::path(get, path = "/v1/transactions/tail", tag = "transactions", params(TailParams),
    responses(
        (status = 200, description = "An endless stream of summaries, one per line.",
            content_type = "application/x-ndjson", body = Summary),
        (status = 400, description = "The query is invalid; `place` says which bytes of it."),
        (status = 403, description = "The query searches payloads, which requires the role payload-viewer."),
        (status = 409, description = "Recording or indexing is off."),
        (status = 503, description = "Too many concurrent tails.")))]
pub(super) async fn tail(call: Call, Params(params): Params<TailParams>) -> Result<Response> {
    let permit = permit(&call.api.tails, "tails")?;
    let payload = call.caller.role >= Role::PayloadViewer;
    let query = params.q.clone();
    let tail = move |tracker: &Arc<Tracker>| tracker.tail(&query, payload);
    let (mut tail, searches_payload) = call.api.query_tracker(tail).await?;
    if searches_payload {
        call.audit(Action::Search, params.q, "tail").await?;
    }
    let source = move || {
        let ended = tail.next(MAX_PAGE_HITS).ok()?;
        Some(ended.iter().map(|transaction| line(&Summary::from(transaction))).collect())
    };
    Ok(respond(source, Pace::Waiting, call.grant()?, permit))
}

/// Default and largest number of exported transactions.
const EXPORT: usize = 10_000;
const MAX_EXPORT: usize = 1_000_000;

/// Query and options of an export.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct ExportParams {
    /// The query; empty: all transactions.
    #[serde(default)]
    q: String,
    /// Maximum number of transactions, 1 to 1000000; default 10000.
    limit: Option<usize>,
    /// The cursor of an export that reached its limit.
    cursor: Option<String>,
}

/// Export transactions, newest first
///
/// One JSON object per line, as in `GET /v1/transactions/{id}`; with `payload` for the role
/// `payload-viewer`. The last line has `end`: the number of transactions, and whether there are
/// more. An export without that line was aborted. Empty lines are keep-alives.
#[utoipa::path(get, path = "/v1/transactions/export", tag = "transactions", params(ExportParams),
    responses(
        (status = 200, description = "Transactions, one per line.",
            content_type = "application/x-ndjson", body = Transaction),
        (status = 400, description = "The query, the limit or the cursor is invalid."),
        (status = 403, description = "The query searches payloads, which requires the role payload-viewer."),
        (status = 409, description = "Recording or indexing is off."),
        (status = 503, description = "Too many concurrent exports.")))]
pub(super) async fn export(call: Call, Params(params): Params<ExportParams>) -> Result<Response> {
    let limit = limit(params.limit, EXPORT, MAX_EXPORT)?;
    let permit = permit(&call.api.long, "long queries")?;
    let payload = call.caller.role >= Role::PayloadViewer;
    let query = params.q.clone();
    let (cursor, timeout) = (params.cursor, SEARCH_TIMEOUT);
    let search = Search { query: params.q, limit, cursor, payload, timeout };
    let mut export = call.api.query_tracker(move |tracker| tracker.export(search)).await?;
    if payload {
        call.audit(Action::Export, query, "").await?;
    }
    Ok(respond(move || batch(&mut export), Pace::Steady, call.grant()?, permit))
}

/// Bytes of one batch: the next transactions wait until it is sent.
const BATCH: usize = 256 << 10;

/// The next lines of an export, possibly empty, or `None` at the end.
fn batch(export: &mut Export) -> Option<String> {
    let mut text = String::new();
    while text.len() < BATCH {
        match export.step() {
            // The first line, which may be long, is not copied.
            Ok(Some(ExportStep::Found(one))) if text.is_empty() => text = line(&*one),
            Ok(Some(ExportStep::Found(one))) => text.push_str(&line(&*one)),
            Ok(Some(ExportStep::Pending)) => break,
            Ok(Some(ExportStep::End(end))) => text.push_str(&line(&ExportEnd { end })),
            Ok(None) | Err(_) => return (!text.is_empty()).then_some(text),
        }
    }
    Some(text)
}

/// Show a transaction
///
/// `payload` is present for the role `payload-viewer` only.
#[utoipa::path(get, path = "/v1/transactions/{id}", tag = "transactions",
    params(("id" = String, Path, description = "The transaction id.")),
    responses(
        (status = 200, description = "The transaction.", body = Transaction),
        (status = 400, description = "Invalid transaction id."),
        (status = 404, description = "Unknown transaction."),
        (status = 409, description = "Recording or indexing is off."),
        (status = 503, description = "The index lags behind: the transaction may exist.")))]
pub(super) async fn show(call: Call, Path(id): Path<String>) -> Result<Json<Transaction>> {
    let id = transaction_id(&id)?;
    let payload = call.caller.role >= Role::PayloadViewer;
    let found = call.api.query_tracker(move |tracker| tracker.show(id.as_u128(), payload)).await?;
    let transaction = found.ok_or(NONE)?;
    if transaction.payload.is_some() {
        call.audit(Action::Show, transaction.summary.id.to_string(), "").await?;
    }
    Ok(Json(transaction))
}

/// Explain the outcome of a recorded transaction
///
/// From the record alone: the outcome, the problem that weir returned, and its detail. For the
/// handling of such a request now, use `POST /v1/explain`.
#[utoipa::path(get, path = "/v1/transactions/{id}/explanation", tag = "transactions",
    params(("id" = String, Path, description = "The transaction id.")),
    responses(
        (status = 200, description = "The outcome, with its reason.", body = RecordedExplanation),
        (status = 400, description = "Invalid transaction id."),
        (status = 404, description = "Unknown transaction."),
        (status = 409, description = "Recording or indexing is off."),
        (status = 503, description = "The index lags behind: the transaction may exist.")))]
pub(super) async fn explanation(
    call: Call,
    Path(id): Path<String>,
) -> Result<Json<RecordedExplanation>> {
    let id = transaction_id(&id)?;
    let found = call.api.query_tracker(move |tracker| tracker.show(id.as_u128(), false)).await?;
    Ok(Json(RecordedExplanation::of(found.ok_or(NONE)?)))
}

/// Get a recorded body, unchanged
#[utoipa::path(get, path = "/v1/transactions/{id}/{side}", tag = "transactions",
    params(
        ("id" = String, Path, description = "The transaction id."),
        ("side" = String, Path, description = "`request-body` or `response-body`.")),
    responses(
        (status = 200, description = "The recorded bytes.",
            content_type = "application/octet-stream"),
        (status = 400, description = "Invalid transaction id."),
        (status = 404, description = "Unknown transaction or part."),
        (status = 409, description = "Recording or indexing is off."),
        (status = 503, description = "The index lags behind: the transaction may exist.")))]
pub(super) async fn body(call: Call, Path((id, side)): Path<(String, String)>) -> Result<Response> {
    let id = transaction_id(&id)?;
    let side = match side.as_str() {
        "request-body" => Side::Request,
        "response-body" => Side::Response,
        _ => return Err(NONE),
    };
    let found = call.api.query_tracker(move |tracker| tracker.body(id.as_u128(), side)).await?;
    let bytes = found.ok_or(NONE)?;
    call.audit(Action::Show, id.to_string(), "").await?;
    let headers = [
        (header::CONTENT_TYPE, "application/octet-stream"),
        (header::CONTENT_DISPOSITION, "attachment"),
    ];
    Ok((headers, bytes).into_response())
}

pub(super) const NONE: Problem = Problem::fixed(
    StatusCode::NOT_FOUND,
    "no-transaction",
    "Unknown transaction",
    "It was never recorded, has not ended, or its retention has ended.",
);

impl From<SearchError> for Problem {
    fn from(error: SearchError) -> Self {
        match error {
            SearchError::Query(error) => {
                let (status, detail) = (StatusCode::BAD_REQUEST, error.to_string());
                let problem = Self::new(status, "bad-query", "Invalid query", detail);
                Self { span: Some([error.at, error.end]), ..problem }
            }
            SearchError::Cursor => Problem::bad("`cursor` must be the cursor of a previous page."),
            SearchError::NeedsPayload => forbidden(Role::PayloadViewer, "Searching payloads"),
            SearchError::Tracker(error) => error.into(),
        }
    }
}
