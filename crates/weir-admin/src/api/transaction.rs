//! Finding, showing and following transactions.

use super::stream::Lines;
use super::{Api, busy};
use crate::access::forbidden;
use crate::audit::Action;
use crate::problem::Problem;
use crate::role::Role;
use crate::tokens::Caller;
use crate::tracker::{
    LONGEST_PAGE, LONGEST_TIMEOUT, Page, Search, SearchFailure, TIMEOUT, Transaction,
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
fn timeout(seconds: Option<u64>) -> Result<Duration, Problem> {
    match seconds.map(Duration::from_secs) {
        None => Ok(TIMEOUT),
        Some(wanted) if (Duration::from_secs(1)..=LONGEST_TIMEOUT).contains(&wanted) => Ok(wanted),
        Some(_) => {
            let longest = LONGEST_TIMEOUT.as_secs();
            Err(bad(format!("`timeout` is a number of seconds from 1 to {longest}.")))
        }
    }
}

/// Search transactions, newest first
#[utoipa::path(get, path = "/v1/transactions", tag = "transactions", params(Wanted),
    extensions(("x-weir-role" = json!("viewer"))),
    responses(
        (status = 200, description = "A page of what was found.", body = Page),
        (status = 400, description = "The query, the limit, the timeout or the cursor is wrong; \
            `place` says which bytes of the query."),
        (status = 403, description = "The query asks for payloads; that needs payload-viewer.")))]
pub(super) async fn search(
    State(api): State<Arc<Api>>,
    Extension(caller): Extension<Caller>,
    wanted: Result<Query<Wanted>, QueryRejection>,
) -> Result<Json<Page>, Problem> {
    let Query(wanted) = wanted.map_err(|rejection| bad(rejection.body_text()))?;
    let limit = wanted.limit.unwrap_or(PAGE);
    if !(1..=LONGEST_PAGE).contains(&limit) {
        return Err(bad(format!("`limit` is a number from 1 to {LONGEST_PAGE}.")));
    }
    let payload = caller.role >= Role::PayloadViewer;
    let timeout = timeout(wanted.timeout)?;
    let search = Search { query: wanted.q, limit, cursor: wanted.cursor, payload, timeout };
    let query = search.query.clone();
    let page = api.ask(move |tracker| (tracker.search)(&search)).await?;
    if page.payload {
        api.audit(&caller, Action::Search(&query))?;
    }
    Ok(Json(page))
}

/// Follow what is recorded from now on
///
/// One JSON object a line for each transaction that has ended; empty lines say that nothing
/// happened.
#[utoipa::path(get, path = "/v1/transactions/tail", tag = "transactions",
    extensions(("x-weir-role" = json!("viewer"))),
    responses(
        (status = 200, description = "Summaries, one a line, without end.",
            content_type = "application/x-ndjson", body = crate::tracker::Summary),
        (status = 503, description = "Too many follow already.")))]
pub(super) async fn tail(State(api): State<Arc<Api>>) -> Result<Response, Problem> {
    let Ok(permit) = Arc::clone(&api.tails).try_acquire_owned() else {
        return Err(busy("followers"));
    };
    let tail = api.ask(|tracker| Ok::<_, crate::tracker::Failure>((tracker.tail)())).await?;
    let body = axum::body::Body::new(Lines::follow(tail, permit));
    Ok(([(header::CONTENT_TYPE, "application/x-ndjson")], body).into_response())
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
        (status = 404, description = "It is not kept here.")))]
pub(super) async fn show(
    State(api): State<Arc<Api>>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
) -> Result<Json<Transaction>, Problem> {
    let Ok(id) = Uuid::try_parse(&id) else {
        return Err(bad("A transaction id is a UUID.".to_owned()));
    };
    let found = api.ask(move |tracker| (tracker.show)(&id.as_u128())).await?;
    let Some(mut transaction) = found else {
        return Err(Problem {
            status: StatusCode::NOT_FOUND,
            kind: "no-transaction",
            title: "There is no such transaction",
            place: None,
            detail: "It was never recorded, has not ended, or is kept no longer.".to_owned(),
        });
    };
    if caller.role < Role::PayloadViewer {
        transaction.payload = None;
    } else if transaction.payload.is_some() {
        api.audit(&caller, Action::Show(&transaction.summary.id))?;
    }
    Ok(Json(transaction))
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

fn bad(detail: String) -> Problem {
    Problem {
        status: StatusCode::BAD_REQUEST,
        kind: "bad-request",
        title: "The request is not understood",
        place: None,
        detail,
    }
}
