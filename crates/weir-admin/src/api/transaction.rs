//! Finding, showing and following transactions.

use super::stream::{Pace, line, lines, respond};
use super::{Api, busy};
use crate::access::forbidden;
use crate::audit::Action;
use crate::explain::RecordedExplanation;
use crate::problem::Problem;
use crate::role::Role;
use crate::tokens::Caller;
use crate::tracker::{
    Export, ExportEnd, Exporting, LONGEST_PAGE, LONGEST_TIMEOUT, Page, Search, SearchFailure, Side,
    TIMEOUT, Transaction,
};
use axum::extract::{Path, Query, State, rejection::QueryRejection};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use serde::Deserialize;
use std::sync::Arc;
use std::time::Duration;
use utoipa::IntoParams;
use uuid::Uuid;

/// Transactions of a page if nobody says how many.
const PAGE: usize = 50;

/// What to search for.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Wanted {
    /// The query; an empty one finds everything.
    #[serde(default)]
    q: String,
    /// Most transactions, 1 to 1000; 50 if it is not said.
    limit: Option<usize>,
    /// The cursor that the page before gave.
    cursor: Option<String>,
    /// Most seconds to search, 1 to 30; 5 if it is not said. What was not looked at by then is
    /// behind the cursor.
    timeout: Option<u64>,
}

/// How long a search may take.
pub(super) fn timeout(seconds: Option<u64>) -> Result<Duration, Problem> {
    match seconds.map(Duration::from_secs) {
        None => Ok(TIMEOUT),
        Some(wanted) if (Duration::from_secs(1)..=LONGEST_TIMEOUT).contains(&wanted) => Ok(wanted),
        Some(_) => {
            let longest = LONGEST_TIMEOUT.as_secs();
            Err(bad(format!("`timeout` is a number of seconds from 1 to {longest}.")))
        }
    }
}

/// How many transactions are wanted: `usual` if nobody says, at most `longest`.
pub(super) fn limit(wanted: Option<usize>, usual: usize, longest: usize) -> Result<usize, Problem> {
    let wanted = wanted.unwrap_or(usual);
    if (1..=longest).contains(&wanted) {
        return Ok(wanted);
    }
    Err(bad(format!("`limit` is a number from 1 to {longest}.")))
}

pub(super) fn transaction_id(text: &str) -> Result<Uuid, Problem> {
    Uuid::try_parse(text).map_err(|_| bad("A transaction id is a UUID.".to_owned()))
}

/// Search transactions, newest first
#[utoipa::path(get, path = "/v1/transactions", tag = "transactions", params(Wanted),
    extensions(("x-weir-role" = json!("viewer"))),
    responses(
        (status = 200, description = "A page of what was found.", body = Page),
        (status = 400, description = "The query, the limit, the timeout or the cursor is wrong; \
            `place` says which bytes of the query."),
        (status = 403, description = "The query asks for payloads; that needs payload-viewer."),
        (status = 409, description = "Nothing is recorded or indexed here.")))]
pub(super) async fn search(
    State(api): State<Arc<Api>>,
    Extension(caller): Extension<Caller>,
    wanted: Result<Query<Wanted>, QueryRejection>,
) -> Result<Json<Page>, Problem> {
    let Query(wanted) = wanted.map_err(|rejection| bad(rejection.body_text()))?;
    let limit = limit(wanted.limit, PAGE, LONGEST_PAGE)?;
    let payload = caller.role >= Role::PayloadViewer;
    let timeout = timeout(wanted.timeout)?;
    let search = Search { query: wanted.q, limit, cursor: wanted.cursor, payload, timeout };
    let query = search.query.clone();
    let page = api.ask(move |tracker| (tracker.search)(&search)).await?;
    if page.payload {
        api.audit(&caller, Action::Search(query)).await?;
    }
    Ok(Json(page))
}

/// Follow what is recorded from now on
///
/// One JSON object a line for each transaction that has ended; empty lines say that nothing
/// happened. It ends with its token.
#[utoipa::path(get, path = "/v1/transactions/tail", tag = "transactions",
    extensions(("x-weir-role" = json!("viewer"))),
    responses(
        (status = 200, description = "Summaries, one a line, without end.",
            content_type = "application/x-ndjson", body = crate::tracker::Summary),
        (status = 409, description = "Nothing is recorded or indexed here."),
        (status = 503, description = "Too many follow already.")))]
pub(super) async fn tail(
    State(api): State<Arc<Api>>,
    Extension(caller): Extension<Caller>,
) -> Result<Response, Problem> {
    let Ok(permit) = Arc::clone(&api.tails).try_acquire_owned() else {
        return Err(busy("followers"));
    };
    let mut tail = api.ask(|tracker| (tracker.tail)()).await?;
    let source = move || tail().ok().map(|list| lines(&list));
    Ok(respond(Box::new(source), Pace::Waiting, api.grant(&caller)?, permit))
}

/// Transactions of an export if nobody says how many, and at most.
const EXPORT: usize = 10_000;
const LONGEST_EXPORT: usize = 1_000_000;

/// What to export.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Exported {
    /// The query; an empty one finds everything.
    #[serde(default)]
    q: String,
    /// Most transactions, 1 to 1000000; 10000 if it is not said.
    limit: Option<usize>,
    /// Where an export before was cut.
    cursor: Option<String>,
}

/// Export transactions, newest first
///
/// One JSON object a line, as `GET /v1/transactions/{id}` gives it, with the payload for those who
/// may see it. The last line has `end`: how many there were, and whether there are more. Without
/// that line the export was broken off. Empty lines say that it goes on.
#[utoipa::path(get, path = "/v1/transactions/export", tag = "transactions", params(Exported),
    extensions(("x-weir-role" = json!("viewer"))),
    responses(
        (status = 200, description = "Transactions, one a line.",
            content_type = "application/x-ndjson", body = Transaction),
        (status = 400, description = "The query, the limit or the cursor is wrong."),
        (status = 403, description = "The query asks for payloads; that needs payload-viewer."),
        (status = 409, description = "Nothing is recorded or indexed here."),
        (status = 503, description = "There are too many exports already.")))]
pub(super) async fn export(
    State(api): State<Arc<Api>>,
    Extension(caller): Extension<Caller>,
    wanted: Result<Query<Exported>, QueryRejection>,
) -> Result<Response, Problem> {
    let Query(wanted) = wanted.map_err(|rejection| bad(rejection.body_text()))?;
    let limit = limit(wanted.limit, EXPORT, LONGEST_EXPORT)?;
    let Ok(permit) = Arc::clone(&api.long).try_acquire_owned() else {
        return Err(busy("long answers"));
    };
    let payload = caller.role >= Role::PayloadViewer;
    let query = wanted.q.clone();
    let (cursor, timeout) = (wanted.cursor, TIMEOUT);
    let search = Search { query: wanted.q, limit, cursor, payload, timeout };
    let mut export = api.ask(move |tracker| (tracker.export)(&search)).await?;
    if payload {
        api.audit(&caller, Action::Export(query)).await?;
    }
    let source = Box::new(move || batch(&mut export));
    Ok(respond(source, Pace::Steady, api.grant(&caller)?, permit))
}

/// Bytes of an export after which its next transactions have to wait until these are sent.
const BATCH: usize = 256 << 10;

/// The next lines of an export, which may be none for now, or that it has ended.
fn batch(export: &mut Export) -> Option<String> {
    let mut text = String::new();
    while text.len() < BATCH {
        match export() {
            // What is long is long by itself: it is not copied.
            Ok(Some(Exporting::Found(one))) if text.is_empty() => text = line(&*one),
            Ok(Some(Exporting::Found(one))) => text.push_str(&line(&*one)),
            Ok(Some(Exporting::Later)) => break,
            Ok(Some(Exporting::End(end))) => text.push_str(&line(&ExportEnd { end })),
            Ok(None) | Err(_) => return (!text.is_empty()).then_some(text),
        }
    }
    Some(text)
}

/// Show a transaction
///
/// Without the role payload-viewer, `payload` is left out.
#[utoipa::path(get, path = "/v1/transactions/{id}", tag = "transactions",
    extensions(("x-weir-role" = json!("viewer"))),
    params(("id" = String, Path, description = "The transaction id.")),
    responses(
        (status = 200, description = "All that was recorded.", body = Transaction),
        (status = 400, description = "This is no transaction id."),
        (status = 404, description = "It is not kept here."),
        (status = 409, description = "Nothing is recorded or indexed here."),
        (status = 503, description = "The index is behind: it may be there.")))]
pub(super) async fn show(
    State(api): State<Arc<Api>>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
) -> Result<Json<Transaction>, Problem> {
    let id = transaction_id(&id)?;
    let payload = caller.role >= Role::PayloadViewer;
    let found = api.ask(move |tracker| (tracker.show)(&(id.as_u128(), payload))).await?;
    let transaction = found.ok_or_else(none)?;
    if transaction.payload.is_some() {
        api.audit(&caller, Action::Show(transaction.summary.id.clone())).await?;
    }
    Ok(Json(transaction))
}

/// Explain what happened to a transaction
///
/// By its record alone: how it ended, the problem that weir answered with and what that was about.
/// What would be done with such a request now is another question, for `POST /v1/explain`.
#[utoipa::path(get, path = "/v1/transactions/{id}/explanation", tag = "transactions",
    extensions(("x-weir-role" = json!("viewer"))),
    params(("id" = String, Path, description = "The transaction id.")),
    responses(
        (status = 200, description = "What happened to it, and why.", body = RecordedExplanation),
        (status = 400, description = "This is no transaction id."),
        (status = 404, description = "It is not kept here."),
        (status = 409, description = "Nothing is recorded or indexed here."),
        (status = 503, description = "The index is behind: it may be there.")))]
pub(super) async fn explanation(
    State(api): State<Arc<Api>>,
    Path(id): Path<String>,
) -> Result<Json<RecordedExplanation>, Problem> {
    let id = transaction_id(&id)?;
    let found = api.ask(move |tracker| (tracker.show)(&(id.as_u128(), false))).await?;
    Ok(Json(RecordedExplanation::of(found.ok_or_else(none)?)))
}

/// Give a recorded body, byte by byte as it was sent
#[utoipa::path(get, path = "/v1/transactions/{id}/{side}", tag = "transactions",
    extensions(("x-weir-role" = json!("payload-viewer"))),
    params(
        ("id" = String, Path, description = "The transaction id."),
        ("side" = String, Path, description = "`request-body` or `response-body`.")),
    responses(
        (status = 200, description = "What was recorded of it.",
            content_type = "application/octet-stream"),
        (status = 400, description = "This is no transaction id."),
        (status = 404, description = "The transaction is not kept here, or there is no such part."),
        (status = 409, description = "Nothing is recorded or indexed here."),
        (status = 503, description = "The index is behind: it may be there.")))]
pub(super) async fn body(
    State(api): State<Arc<Api>>,
    Extension(caller): Extension<Caller>,
    Path((id, side)): Path<(String, String)>,
) -> Result<Response, Problem> {
    let id = transaction_id(&id)?;
    let side = match side.as_str() {
        "request-body" => Side::Request,
        "response-body" => Side::Response,
        _ => return Err(none()),
    };
    let found = api.ask(move |tracker| (tracker.body)(&(id.as_u128(), side))).await?;
    let bytes = found.ok_or_else(none)?;
    api.audit(&caller, Action::Show(id.to_string())).await?;
    let headers = [
        (header::CONTENT_TYPE, "application/octet-stream"),
        (header::CONTENT_DISPOSITION, "attachment"),
    ];
    Ok((headers, bytes).into_response())
}

pub(super) fn none() -> Problem {
    Problem {
        status: StatusCode::NOT_FOUND,
        kind: "no-transaction",
        title: "There is no such transaction",
        place: None,
        detail: "It was never recorded, has not ended, or is kept no longer.".to_owned(),
    }
}

impl From<SearchFailure> for Problem {
    fn from(failure: SearchFailure) -> Self {
        match failure {
            SearchFailure::Query { place, message } => Self {
                status: StatusCode::BAD_REQUEST,
                kind: "bad-query",
                title: "The query is not understood",
                place: Some(place),
                detail: format!("at {}: {message}", place[0] + 1),
            },
            SearchFailure::Cursor => bad("`cursor` is not one that a page gave.".to_owned()),
            SearchFailure::NeedsPayload => forbidden(Role::PayloadViewer, "Searching payloads"),
            SearchFailure::Failed(failure) => failure.into(),
        }
    }
}

pub(super) fn bad(detail: String) -> Problem {
    Problem {
        status: StatusCode::BAD_REQUEST,
        kind: "bad-request",
        title: "The request is not understood",
        place: None,
        detail,
    }
}
