//! Signing in to the console and out of it.

use super::Api;
use crate::audit::Action;
use crate::problem::Problem;
use crate::role::Role;
use crate::tokens::Caller;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use serde::Serialize;
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
}

fn session(api: &Api, caller: Caller) -> Json<Session> {
    Json(Session {
        name: caller.name,
        role: caller.role,
        token: caller.id,
        version: env!("CARGO_PKG_VERSION"),
        recording: api.sources.tracker.is_some(),
        counting: api.sources.monitor.is_some(),
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
    session(&api, caller)
}

/// Sign in
///
/// With an admin token in `Authorization`. Sets a cookie that stands for the token from then on,
/// for an hour without a request and twelve hours in all. With the cookie alone, requests that
/// change something need the header `weir-console`, too.
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
    let cookie = api.sessions.begin(&caller.id, now)?;
    Ok(([(header::SET_COOKIE, cookie)], session(&api, caller)).into_response())
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
