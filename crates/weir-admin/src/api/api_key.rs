//! API keys of consumers: their ends, revocation and restoration.

use super::resubmit::read;
use super::{Api, Call};
use crate::api_keys::{self, ApiKeyInfo, KnownKey, NoKey};
use crate::audit::Action;
use crate::problem::{Problem, Result};
use axum::Json;
use axum::body::Bytes;
use axum::extract::Path;
use axum::http::StatusCode;
use serde::Deserialize;
use serde_json::json;
use std::sync::Arc;
use utoipa::ToSchema;
use weir_model::UnixMicros;
use weir_store::revoked_keys::{KeyChange, RevocationError};
use weir_tracker::TrackerError;

/// Longest reason in characters.
const MAX_REASON_CHARS: usize = 500;

/// Why a key is revoked or restored.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct KeyReason {
    /// The reason, one line of at most 500 characters; required to revoke a key.
    reason: String,
}

/// List the API keys of all consumers
///
/// By consumer, in the order of the configuration; then the revoked keys that it does not have any more.
#[utoipa::path(get, path = "/v1/api-keys", tag = "configuration",
    responses((status = 200, description = "The keys, without their hashes.", body = Vec<ApiKeyInfo>)))]
pub(super) async fn list(call: Call) -> Result<Json<Vec<ApiKeyInfo>>> {
    Ok(Json(call.api.api_keys()?.into_iter().map(|key| key.info).collect()))
}

/// Show an API key
#[utoipa::path(get, path = "/v1/api-keys/{id}", tag = "configuration",
    params(("id" = String, Path, description = "`sha256:` and the first 8 digits of the hash, or more.")),
    responses(
        (status = 200, description = "The key, without its hash.", body = ApiKeyInfo),
        (status = 400, description = "The id is malformed."),
        (status = 404, description = "No key has this id."),
        (status = 409, description = "Several keys have this id: more digits are needed.")))]
pub(super) async fn show(call: Call, Path(id): Path<String>) -> Result<Json<ApiKeyInfo>> {
    Ok(Json(call.api.find_key(&id)?.info))
}

/// Revoke an API key, or restore it
///
/// In force when the response arrives: for requests on open connections, and after a restart. In a fleet, on all
/// nodes: within two seconds on those that are connected to the database. Requests with a revoked key are rejected
/// with 401 `api-key-revoked`, and recorded with the key as principal.
#[utoipa::path(post, path = "/v1/api-keys/{id}/{action}", tag = "configuration", request_body = KeyReason,
    params(
        ("id" = String, Path, description = "`sha256:` and the first 8 digits of the hash, or more."),
        ("action" = String, Path, description = "`revoke` or `restore`.")),
    responses(
        (status = 200, description = "The key as it is now.", body = ApiKeyInfo),
        (status = 400, description = "The id or the reason is invalid."),
        (status = 404, description = "No key has this id, or the action is unknown."),
        (status = 409, description = "Several keys have this id, or too many are revoked.")))]
pub(super) async fn act(
    call: Call,
    Path((id, action)): Path<(String, String)>,
    body: Bytes,
) -> Result<Json<ApiKeyInfo>> {
    let (action, revoked) = match action.as_str() {
        "revoke" => (Action::RevokeKey, true),
        "restore" => (Action::RestoreKey, false),
        _ => return Err(NO_ACTION),
    };
    let KeyReason { reason } = read(&body)?;
    let (reason, length) = (reason.trim(), reason.chars().count());
    if (revoked && reason.is_empty())
        || length > MAX_REASON_CHARS
        || reason.chars().any(char::is_control)
    {
        return Err(Problem::bad(format!(
            "`reason` says why, in one line of at most {MAX_REASON_CHARS} characters."
        )));
    }
    let KnownKey { hash, info } = call.api.find_key(&id)?;
    // Two operators may react to the same leak; the first one is named.
    if info.revoked.is_some() == revoked {
        return Ok(Json(info));
    }
    let details = json!({"consumer": info.consumer, "name": info.name, "reason": reason});
    call.audit(action, info.id.as_str(), details.to_string()).await?;
    let change = KeyChange {
        hash: hash.clone(),
        revoked,
        consumer: info.consumer,
        who: call.caller.name.clone(),
        reason: reason.to_owned(),
        at: UnixMicros::default(),
    };
    let keys = Arc::clone(&call.api.access()?.revoked_keys);
    let changed = tokio::task::spawn_blocking(move || keys.change(change)).await;
    changed.map_err(|_| TrackerError::unreadable("the task was aborted"))??;
    call.wake_fleet();
    // One that the configuration does not have is gone when it is restored.
    let now = call.api.api_keys()?.into_iter().find(|key| key.hash == hash);
    Ok(Json(
        now.map_or_else(|| ApiKeyInfo { id: info.id, ..ApiKeyInfo::default() }, |key| key.info),
    ))
}

impl Api {
    /// All API keys.
    fn api_keys(&self) -> Result<Vec<KnownKey>> {
        let config = self.sources.gateway.config();
        Ok(api_keys::all(&config, &self.access()?.revoked_keys))
    }

    fn find_key(&self, id: &str) -> Result<KnownKey> {
        api_keys::find(self.api_keys()?, id).map_err(Problem::from)
    }
}

impl From<NoKey> for Problem {
    fn from(reason: NoKey) -> Self {
        match reason {
            NoKey::Malformed => Self::bad(
                "The id of an API key is `sha256:` and at least 8 hexadecimal digits of its hash.",
            ),
            NoKey::Unknown => {
                Self::not_found("Unknown API key", "GET /v1/api-keys lists the keys.")
            }
            NoKey::Ambiguous => Self::fixed(
                StatusCode::CONFLICT,
                "ambiguous",
                "Several API keys have this id",
                "Give more digits of the hash, which the configuration has.",
            ),
        }
    }
}

impl From<RevocationError> for Problem {
    fn from(error: RevocationError) -> Self {
        match error {
            RevocationError::Full => Self::new(
                StatusCode::CONFLICT,
                "conflict",
                "Too many API keys are revoked",
                format!("{error}."),
            ),
            RevocationError::Database(error) => TrackerError::unreadable(error).into(),
        }
    }
}

const NO_ACTION: Problem = Problem::not_found(
    "Unknown action",
    "The actions of POST /v1/api-keys/{id}/ are revoke and restore.",
);
