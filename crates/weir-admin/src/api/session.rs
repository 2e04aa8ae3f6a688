//! Signing in to the console and out of it.

use super::Api;
use super::transaction::bad;
use crate::audit::Action;
use crate::problem::Problem;
use crate::role::Role;
use crate::session::Begun;
use crate::tokens::Caller;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::Instant;
use utoipa::ToSchema;

/// Who is signed in.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Session {
    /// Who has the token.
    name: String,
    /// What it allows.
    role: Role,
    /// Id of the token, which is no secret.
    token: String,
    /// Version of the server.
    version: &'static str,
    /// Nothing is recorded here, so there is nothing to be found.
    recording: bool,
    /// Calls are counted here.
    counting: bool,
    /// The CSRF token of a session that has just begun; nothing else ever has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    csrf_token: Option<String>,
}

/// A link that a browser is to open.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Link {
    /// Path and query, such as `/v1/transactions/export?q=`.
    target: String,
}

/// A ticket for a link.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Ticket {
    /// The value of a parameter `ticket` at the end of the link's query.
    ticket: String,
}

/// Longest path and query of a link.
const LONGEST: usize = 8 * 1024;

fn session(api: &Api, caller: Caller, csrf_token: Option<String>) -> Json<Session> {
    Json(Session {
        name: caller.name,
        role: caller.role,
        token: caller.id,
        version: env!("CARGO_PKG_VERSION"),
        recording: api.sources.tracker.is_some(),
        counting: api.sources.monitor.is_some(),
        csrf_token,
    })
}

/// Who is asking
#[utoipa::path(get, path = "/v1/session", tag = "session",
    extensions(("x-weir-role" = json!("viewer"))),
    responses((status = 200, description = "Whose token, or session, it is.", body = Session)))]
pub(super) async fn show(
    State(api): State<Arc<Api>>,
    Extension(caller): Extension<Caller>,
) -> Json<Session> {
    session(&api, caller, None)
}

/// Sign in
///
/// With an admin token in `Authorization`. Sets a cookie, and gives a CSRF token; together they stand
/// for the admin token from then on, for an hour without a request and twelve hours in all. Every
/// request has the cookie, and the CSRF token in the header `weir-csrf-token`.
#[utoipa::path(post, path = "/v1/session", tag = "session",
    extensions(("x-weir-role" = json!("viewer"))),
    responses(
        (status = 200, description = "Whose session it is.", body = Session),
        (status = 503, description = "It cannot be written down who signs in.")))]
pub(super) async fn begin(
    State(api): State<Arc<Api>>,
    Extension(caller): Extension<Caller>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    api.audit(&caller, Action::SignIn).await?;
    let now = Instant::now();
    // Who signs in again has one session, not two.
    api.sessions.end(&headers, now);
    let Begun { cookie, csrf_token } = api.sessions.begin(&caller.id, now)?;
    let session = session(&api, caller, Some(csrf_token));
    Ok(([(header::SET_COOKIE, cookie)], session).into_response())
}

/// Make a ticket for a link
///
/// A link that a browser opens sends no header. With a ticket in place of the CSRF token its `GET` is
/// good once, within a minute: `TARGET?ticket=…`, or `TARGET&ticket=…` after other parameters.
#[utoipa::path(post, path = "/v1/session/tickets", tag = "session", request_body = Link,
    extensions(("x-weir-role" = json!("viewer"))),
    responses(
        (status = 201, description = "The ticket.", body = Ticket),
        (status = 400, description = "It is no link of this API."),
        (status = 409, description = "The call has no session, but a token: links are for browsers.")))]
pub(super) async fn ticket(
    State(api): State<Arc<Api>>,
    Extension(caller): Extension<Caller>,
    body: Bytes,
) -> Result<(StatusCode, Json<Ticket>), Problem> {
    let Link { target } = super::resubmit::read(&body)?;
    if !target.starts_with("/v1/") || target.len() > LONGEST {
        return Err(bad(format!("`target` is a path below /v1/ of at most {LONGEST} bytes.")));
    }
    let session = caller.session.ok_or_else(no_session)?;
    let made = api.sessions.ticket(&session, target, Instant::now())?;
    let ticket = made.ok_or_else(no_session)?;
    Ok((StatusCode::CREATED, Json(Ticket { ticket })))
}

fn no_session() -> Problem {
    Problem {
        status: StatusCode::CONFLICT,
        kind: "no-session",
        title: "There is no session",
        place: None,
        detail: "Tickets are for links of the console; with a token, ask for the target."
            .to_owned(),
    }
}

/// Sign out
#[utoipa::path(delete, path = "/v1/session", tag = "session",
    extensions(("x-weir-role" = json!("viewer"))),
    responses((status = 204, description = "The cookie stands for nothing any more.")))]
pub(super) async fn end(
    State(api): State<Arc<Api>>,
    Extension(caller): Extension<Caller>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    // Whoever cannot be written down is signed out all the same.
    let cookie = api.sessions.end(&headers, Instant::now());
    api.audit(&caller, Action::SignOut).await?;
    Ok((StatusCode::NO_CONTENT, [(header::SET_COOKIE, cookie)]).into_response())
}
