//! Sign-in and sign-out of the console.

use super::Call;
use crate::access;
use crate::audit::Action;
use crate::host::Arrived;
use crate::problem::{Problem, Result};
use crate::role::Role;
use crate::scope::TokenScope;
use crate::session::{Client, Holder, NewSession, SessionInfo};
use axum::body::Bytes;
use axum::extract::Path;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use serde::{Deserialize, Serialize};
use std::net::IpAddr;
use std::time::Instant;
use utoipa::ToSchema;

/// The session, or the token, of the caller.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Session {
    /// Name of the token.
    name: String,
    /// Role of the token.
    role: Role,
    /// What narrows the role.
    scope: TokenScope,
    /// Id of the token, not secret; `oidc:` and the subject of an account without a token.
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
        scope: caller.scope,
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
        (status = 409, description = "The call has a session, and no token."),
        (status = 503, description = "The audit log cannot be written.")))]
pub(super) async fn start(
    call: Call,
    arrived: Option<Extension<Arrived>>,
    headers: HeaderMap,
) -> Result<Response> {
    // A session ends after twelve hours: it starts no other one. That of another node is its own.
    if call.caller.session.is_some() || call.caller.via.is_some() {
        return Err(NO_TOKEN);
    }
    let holder = Holder::Token(call.caller.id.clone());
    call.start_session(holder, arrived.map(|arrived| arrived.peer), &headers).await
}

impl Call {
    /// Revokes the token of `weir login`, if that is what the call has, and audits the sign-out.
    async fn sign_out(&self) -> Result<()> {
        let id = &self.caller.id;
        if self.caller.session.is_none() && self.api.access()?.tokens.is_of_person(id) {
            self.revoke_token(id.clone()).await?;
        }
        self.audit(Action::SignOut, "", "").await
    }

    /// Starts a session of the caller; a further sign-in replaces the session of the cookie.
    pub(super) async fn start_session(
        self,
        holder: Holder,
        peer: Option<IpAddr>,
        headers: &HeaderMap,
    ) -> Result<Response> {
        self.audit(Action::SignIn, "", "").await?;
        let now = Instant::now();
        self.api.sessions.end(headers, now);
        let client = Client::new(peer, headers);
        let is_https = self.api.is_https();
        let NewSession { cookie, csrf_token } =
            self.api.sessions.start(holder, client, is_https, now)?;
        let session = session(self, Some(csrf_token));
        Ok(([(header::SET_COOKIE, cookie)], session).into_response())
    }
}

const NO_TOKEN: Problem = Problem::fixed(
    StatusCode::CONFLICT,
    "no-token",
    "No admin token",
    "A session starts no other one; send an admin token in `Authorization`.",
);

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

/// Where to sign out next.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct SignedOut {
    /// URL of the identity provider, which ends its own session and returns to the console.
    provider: String,
}

/// Sign out
///
/// Ends the session. With a token of `weir login` and no session, revokes the token.
#[utoipa::path(delete, path = "/v1/session", tag = "session",
    responses(
        (status = 200, description = "The session has ended here; that at the identity provider has not.",
            body = SignedOut),
        (status = 204, description = "The session has ended.")))]
pub(super) async fn end(call: Call, headers: HeaderMap) -> Result<Response> {
    let now = Instant::now();
    let holder =
        call.caller.session.as_ref().and_then(|_| call.api.sessions.of_cookie(&headers, now));
    // Sign-out also succeeds if the audit log cannot be written.
    let cookie = call.api.sessions.end(&headers, now);
    let cookie = [(header::SET_COOKIE, cookie)];
    if let Err(problem) = call.sign_out().await {
        return Ok((cookie, problem).into_response());
    }
    if let Some(Holder::Person(person)) = holder
        && let Some(provider) = call.api.sign_out_url(&person, &headers)
    {
        return Ok((cookie, Json(SignedOut { provider })).into_response());
    }
    Ok((StatusCode::NO_CONTENT, cookie).into_response())
}

/// List the sessions of the console on this node, the last used first
///
/// A session is one of the node that it was started on.
#[utoipa::path(get, path = "/v1/sessions", tag = "session",
    responses((status = 200, description = "The sessions.", body = Vec<SessionInfo>)))]
pub(super) async fn list(call: Call) -> Result<Json<Vec<SessionInfo>>> {
    let tokens = &call.api.access()?.tokens;
    let open = call.api.sessions.list(call.caller.session.as_deref(), Instant::now());
    let info = open.into_iter().filter_map(|one| {
        // Those of revoked tokens end with their next request.
        let caller = access::caller(tokens, &one.holder)?;
        Some(SessionInfo {
            id: one.public,
            holder: caller.id,
            name: caller.name,
            role: caller.role,
            scope: caller.scope,
            started: one.started,
            used: one.used,
            address: one.client.address,
            agent: one.client.agent,
            own: one.own,
        })
    });
    Ok(Json(info.collect()))
}

/// End a session of the console on this node
#[utoipa::path(delete, path = "/v1/sessions/{id}", tag = "session",
    params(("id" = String, Path, description = "Id of the session.")),
    responses(
        (status = 204, description = "The session has ended."),
        (status = 404, description = "Unknown session.")))]
pub(super) async fn revoke(call: Call, Path(id): Path<String>) -> Result<StatusCode> {
    let open = call.api.sessions.list(None, Instant::now());
    let of = open.into_iter().find(|one| one.public == id).ok_or(UNKNOWN)?;
    let caller = access::caller(&call.api.access()?.tokens, &of.holder);
    let name = caller.map(|caller| format!("session of {}", caller.name)).unwrap_or_default();
    call.audit(Action::EndSession, id.clone(), name).await?;
    match call.api.sessions.revoke(&id, Instant::now()) {
        true => Ok(StatusCode::NO_CONTENT),
        false => Err(UNKNOWN),
    }
}

const UNKNOWN: Problem =
    Problem::not_found("Unknown session", "GET /v1/sessions lists the sessions.");
