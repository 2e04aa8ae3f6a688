//! Admin tokens: list, create, revoke.

use super::Call;
use crate::audit::Action;
use crate::problem::{Problem, Result};
use crate::role::Role;
use crate::scope::TokenScope;
use crate::tokens::{self, TokenError, TokenInfo};
use axum::Json;
use axum::body::Bytes;
use axum::extract::Path;
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use weir_store::clock;

/// A token to be created.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct NewToken {
    /// Name of its holder.
    name: String,
    /// Role of the token.
    role: Role,
    /// What narrows the role; default: nothing.
    #[serde(default)]
    scope: TokenScope,
    /// Seconds until it expires; default: never.
    #[serde(default)]
    expires_in: Option<u64>,
}

/// A created token.
#[derive(Serialize, ToSchema)]
pub(super) struct CreatedToken {
    /// The token. It is returned only here.
    token: String,
    /// Its id.
    id: String,
}

/// List tokens, without their secrets
///
/// In a fleet: those of all nodes.
#[utoipa::path(get, path = "/v1/tokens", tag = "tokens",
    responses((status = 200, description = "The tokens.", body = Vec<TokenInfo>)))]
pub(super) async fn list(call: Call) -> Result<Json<Vec<TokenInfo>>> {
    Ok(Json(call.api.access()?.tokens.list()))
}

/// Create a token
///
/// In a fleet, it is accepted by all nodes, within two seconds.
#[utoipa::path(post, path = "/v1/tokens", tag = "tokens", request_body = NewToken,
    responses(
        (status = 201, description = "The token; it is returned only here.", body = CreatedToken),
        (status = 400, description = "The name, the role, the scope or the time is invalid.")))]
pub(super) async fn create(call: Call, body: Bytes) -> Result<(StatusCode, Json<CreatedToken>)> {
    let new: NewToken = serde_json::from_slice(&body).map_err(|error| bad(&error.to_string()))?;
    let known = &call.api.sources.gateway.config().apis;
    if let Some(api) = new.scope.apis.iter().find(|name| known.iter().all(|api| api.name != **name))
    {
        return Err(bad(&format!("There is no API `{api}`; GET /v1/apis lists the APIs.")));
    }
    let NewToken { name, role, scope, expires_in } = new;
    let details = if scope.is_unlimited() { String::new() } else { scope.words() };
    let expires = expires_in.map(|seconds| clock::now().as_secs().saturating_add(seconds));
    let new = tokens::NewToken { name, role, scope, expires, person: None };
    let (token, info) = call.api.access()?.tokens.add(new)?;
    if let Err(problem) = call.audit(Action::MakeToken, info.id.clone(), details).await {
        // Nobody has received the token yet.
        call.api.access()?.tokens.revoke(&info.id)?;
        return Err(problem);
    }
    call.wake_fleet();
    Ok((StatusCode::CREATED, Json(CreatedToken { token, id: info.id })))
}

/// Revoke a token
///
/// In a fleet, on all nodes: within two seconds on those that are connected to the database.
#[utoipa::path(delete, path = "/v1/tokens/{id}", tag = "tokens",
    params(("id" = String, Path, description = "Id of the token.")),
    responses(
        (status = 204, description = "The token is revoked."),
        (status = 404, description = "Unknown token."),
        (status = 409, description = "It is the last token with the role admin.")))]
pub(super) async fn revoke(call: Call, Path(id): Path<String>) -> Result<StatusCode> {
    let tokens = &call.api.access()?.tokens;
    if tokens.list().iter().all(|token| token.id != id) {
        return Err(NONE);
    }
    call.audit(Action::RevokeToken, id.clone(), "").await?;
    let is_revoked = tokens.revoke(&id)?;
    call.wake_fleet();
    if is_revoked { Ok(StatusCode::NO_CONTENT) } else { Err(NONE) }
}

impl Call {
    /// Other nodes know of a change of tokens soon.
    pub(super) fn wake_fleet(&self) {
        self.api.sources.fleet.iter().for_each(weir_fleet::Handle::wake);
    }
}

const NONE: Problem = Problem::not_found("Unknown token", "GET /v1/tokens lists the tokens.");

fn bad(detail: &str) -> Problem {
    Problem::new(StatusCode::BAD_REQUEST, "bad-request", "Invalid token", detail.to_owned())
}

impl From<TokenError> for Problem {
    fn from(error: TokenError) -> Self {
        let detail = error.to_string();
        match error {
            TokenError::Name | TokenError::Scope | TokenError::Past => bad(&detail),
            TokenError::Full | TokenError::Last => Self::new(
                StatusCode::CONFLICT,
                "conflict",
                "The token cannot be created or revoked",
                detail,
            ),
            TokenError::Io { .. } | TokenError::Malformed { .. } | TokenError::Random => Self::new(
                StatusCode::INTERNAL_SERVER_ERROR,
                "not-kept",
                "The file of the tokens cannot be changed",
                detail,
            ),
        }
    }
}
