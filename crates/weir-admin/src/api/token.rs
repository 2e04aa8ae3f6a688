//! Admin tokens: list, create, revoke.

use super::Call;
use crate::audit::Action;
use crate::problem::{Problem, Result};
use crate::role::Role;
use crate::scope::TokenScope;
use crate::tokens::{self, TokenError, TokenInfo, Tokens};
use axum::Json;
use axum::body::Bytes;
use axum::extract::Path;
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
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
    let new = tokens::NewToken { name, role, scope, expires, person: None, account: None };
    let (token, info) = call.make_token(new, details).await?;
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
    if call.api.access()?.tokens.list().iter().all(|token| token.id != id) {
        return Err(NONE);
    }
    call.audit(Action::RevokeToken, id.clone(), "").await?;
    let is_revoked = call.revoke_token(id).await?;
    if is_revoked { Ok(StatusCode::NO_CONTENT) } else { Err(NONE) }
}

impl Call {
    /// Creates a token, if that can be audited.
    pub(super) async fn make_token(
        &self,
        new: tokens::NewToken,
        details: String,
    ) -> Result<(String, TokenInfo)> {
        let (token, info) = self.change_tokens(move |tokens| tokens.add(new)).await?;
        if let Err(problem) = self.audit(Action::MakeToken, info.id.clone(), details).await {
            // Nobody has received the token yet.
            self.revoke_token(info.id).await?;
            return Err(problem);
        }
        self.wake_fleet();
        Ok((token, info))
    }

    /// Revokes a token; false if there is none with this id.
    pub(super) async fn revoke_token(&self, id: String) -> Result<bool> {
        let is_revoked = self.change_tokens(move |tokens| tokens.revoke(&id)).await?;
        self.wake_fleet();
        Ok(is_revoked)
    }

    /// Changes tokens on a thread that may block: files are written.
    async fn change_tokens<T: Send + 'static>(
        &self,
        change: impl FnOnce(&Tokens) -> Result<T, TokenError> + Send + 'static,
    ) -> Result<T> {
        let tokens = Arc::clone(&self.api.access()?.tokens);
        let changed = tokio::task::spawn_blocking(move || change(&tokens)).await;
        Ok(changed.map_err(|_| TokenError::Aborted)??)
    }

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
            TokenError::Full(_) | TokenError::Last => Self::new(
                StatusCode::CONFLICT,
                "conflict",
                "The token cannot be created or revoked",
                detail,
            ),
            TokenError::Io { .. }
            | TokenError::Malformed { .. }
            | TokenError::Random
            | TokenError::Aborted => Self::new(
                StatusCode::INTERNAL_SERVER_ERROR,
                "not-kept",
                "The file of the tokens cannot be changed",
                detail,
            ),
        }
    }
}
