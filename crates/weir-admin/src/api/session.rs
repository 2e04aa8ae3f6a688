//! Sign-in and sign-out of the console.

use super::Call;
use crate::audit::Action;
use crate::problem::{Problem, Result};
use crate::role::Role;
use crate::session::NewSession;
use axum::Json;
use axum::body::Bytes;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use std::time::Instant;
use utoipa::ToSchema;

/// The session, or the token, of the caller.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Session {
    /// Name of the token.
    name: String,
    /// Role of the token.
    role: Role,
    /// Id of the token, not secret.
    token: String,
    /// Version of the server.
    version: &'static str,
    /// Recording is on: transactions can be searched.
    recording: bool,
    /// Metering is on.
    counting: bool,
    /// The CSRF token of a new session; returned by sign-in only.
    #[serde(skip_serializing_if = "Option::is_none")]
    csrf_token: Option<String>,
}

/// A link to be opened by a browser.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Link {
    /// Path and query, such as `/v1/transactions/export?q=`.
    target: String,
}

/// A ticket for a link.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Ticket {
    /// The value of the parameter `ticket`, which is added at the end of the link's query.
    ticket: String,
}

/// Longest path and query of a link.
const MAX_BODY_BYTES: usize = 8 * 1024;

fn session(Call { api, caller }: Call, csrf_token: Option<String>) -> Json<Session> {
    Json(Session {
        name: caller.name,
        role: caller.role,
        token: caller.id,
        version: env!("CARGO_PKG_VERSION"),
        recording: api.sources.tracker.is_some(),
        counting: api.sources.metering.is_some(),
        csrf_token,
    })
}

/// Show the caller
#[utoipa::path(get, path = "/v1/session", tag = "session",
    responses((status = 200, description = "The caller.", body = Session)))]
pub(super) async fn show(call: Call) -> Json<Session> {
    session(call, None)
}

/// Sign in
///
/// With an admin token in `Authorization`. Sets a cookie and returns a CSRF token. Both together
/// replace the admin token until the session ends: after an hour without a request, or twelve hours
/// after sign-in. Each request sends the cookie, and the CSRF token in the header
/// `weir-csrf-token`.
#[utoipa::path(post, path = "/v1/session", tag = "session",
    responses(
        (status = 200, description = "The session.", body = Session),
        (status = 503, description = "The audit log cannot be written.")))]
pub(super) async fn start(call: Call, headers: HeaderMap) -> Result<Response> {
    call.audit(Action::SignIn, "", "").await?;
    let now = Instant::now();
    // A further sign-in replaces the session of the cookie.
    call.api.sessions.end(&headers, now);
    let NewSession { cookie, csrf_token } = call.api.sessions.start(&call.caller.id, now)?;
    let session = session(call, Some(csrf_token));
    Ok(([(header::SET_COOKIE, cookie)], session).into_response())
}

/// Create a ticket for a link
///
/// A browser that opens a link cannot send the CSRF token in a header. The ticket replaces it for
/// one `GET` within a minute: `TARGET?ticket=…`, or `TARGET&ticket=…` after other parameters.
#[utoipa::path(post, path = "/v1/session/tickets", tag = "session", request_body = Link,
    responses(
        (status = 201, description = "The ticket.", body = Ticket),
        (status = 400, description = "Not a link of this API."),
        (status = 409, description = "The call has a token and no session: tickets are for browsers.")))]
pub(super) async fn ticket(call: Call, body: Bytes) -> Result<(StatusCode, Json<Ticket>)> {
    let Link { target } = super::resubmit::read(&body)?;
    if !target.starts_with("/v1/") || target.len() > MAX_BODY_BYTES {
        return Err(Problem::bad(format!(
            "`target` must be a path below /v1/ of at most {MAX_BODY_BYTES} bytes."
        )));
    }
    let session = call.caller.session.ok_or(NO_SESSION)?;
    let ticket = call.api.sessions.ticket(&session, target, Instant::now())?.ok_or(NO_SESSION)?;
    Ok((StatusCode::CREATED, Json(Ticket { ticket })))
}

const NO_SESSION: Problem = Problem::fixed(
    StatusCode::CONFLICT,
    "no-session",
    "No session",
    "Tickets are for links of the console; with a token, request the target directly.",
);

/// Sign out
#[utoipa::path(delete, path = "/v1/session", tag = "session",
    responses((status = 204, description = "The session has ended.")))]
pub(super) async fn end(call: Call, headers: HeaderMap) -> Result<Response> {
    // Sign-out also succeeds if the audit log cannot be written.
    let cookie = call.api.sessions.end(&headers, Instant::now());
    call.audit(Action::SignOut, "", "").await?;
    Ok((StatusCode::NO_CONTENT, [(header::SET_COOKIE, cookie)]).into_response())
}
