//! The configuration in force, check of a draft, and reload.

use super::{Call, busy};
use crate::audit::Action;
use crate::configuration::{
    ApiInfo, Checked, ConfigurationState, FindingInfo, Reload, ReloadCommand, apis,
};
use crate::problem::{Problem, Result};
use axum::Json;
use axum::extract::Path;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use std::time::Duration;
use tokio::sync::oneshot;
use weir_tracker::TrackerError;

/// Longest draft in bytes.
const MAX_TEXT_BYTES: usize = 1 << 20;
/// Longest wait for a reload.
const RELOAD_TIMEOUT: Duration = Duration::from_secs(60);

/// List APIs and routes with their policies, in the order of processing
#[utoipa::path(get, path = "/v1/apis", tag = "configuration",
    responses((status = 200, description = "The APIs in force.", body = Vec<ApiInfo>)))]
pub(super) async fn routes(call: Call) -> Result<Json<Vec<ApiInfo>>> {
    let mut all = apis(&call.api.sources.gateway.config());
    all.retain(|api| call.caller.scope.includes(&api.api));
    Ok(Json(all))
}

/// Get the OpenAPI document of an API
#[utoipa::path(get, path = "/v1/apis/{api}/openapi", tag = "configuration",
    params(("api" = String, Path, description = "Name of the API.")),
    responses(
        (status = 200, description = "The document, with all referenced documents.", body = Object),
        (status = 404, description = "Unknown API, or an API without an OpenAPI document.")))]
pub(super) async fn openapi(call: Call, Path(name): Path<String>) -> Result<Response> {
    let config = call.api.sources.gateway.config();
    let found = config.apis.iter().find(|api| api.name == name);
    let found = found.filter(|api| call.caller.scope.includes(&api.name));
    let text = found.and_then(|api| api.openapi.as_deref()).ok_or_else(|| {
        Problem::not_found(
            "No OpenAPI document",
            "There is no API of this name with an OpenAPI document.",
        )
    })?;
    Ok(([(header::CONTENT_TYPE, "application/json")], text.to_owned()).into_response())
}

/// Show the configuration in force and the last reloads
#[utoipa::path(get, path = "/v1/configuration", tag = "configuration",
    responses((status = 200, description = "Texts with redacted secrets, and reloads.", body = ConfigurationState)))]
pub(super) async fn state(call: Call) -> Json<ConfigurationState> {
    let sources = &call.api.sources;
    let fixed = sources.gateway.config().fixed_settings();
    Json(ConfigurationState { fixed, ..sources.configuration.history.state() })
}

/// Check a draft of a configuration
///
/// Does not read files, environment variables or the network: `include:`, `file:` and `${env:NAME}`
/// are reported as findings.
#[utoipa::path(post, path = "/v1/configuration/check", tag = "configuration",
    request_body(content = String, content_type = "application/yaml", description = "The draft, at most 1 MiB."),
    responses(
        (status = 200, description = "Whether the draft is usable, and its findings.", body = Checked),
        (status = 413, description = "The draft is too long.")))]
pub(super) async fn check(call: Call, draft: String) -> Result<Json<Checked>> {
    if draft.len() > MAX_TEXT_BYTES {
        return Err(Problem::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            "too-long",
            "The draft is too long",
            format!("The maximum is {MAX_TEXT_BYTES} bytes."),
        ));
    }
    let checked = call.api.query(&call.api.permits, UNAVAILABLE, move |_| {
        let (usable, found) = match weir_gateway::configuration::load_text("draft", &draft) {
            Ok(loaded) => (true, loaded.findings),
            Err(found) => (false, found),
        };
        Some(Ok::<_, TrackerError>(Checked { usable, findings: FindingInfo::all(&found) }))
    });
    checked.await.map(Json)
}

/// Reload the configuration
///
/// From the path that weir was started with. The new configuration replaces the old one completely,
/// or not at all.
#[utoipa::path(post, path = "/v1/configuration/reload", tag = "configuration",
    responses(
        (status = 200, description = "The result of the reload.", body = Reload),
        (status = 503, description = "Another reload is waiting.")))]
pub(super) async fn reload(call: Call) -> Result<Json<Reload>> {
    call.audit(Action::Reload, "", "").await?;
    let (done, reload) = oneshot::channel();
    let command = ReloadCommand { by: call.caller.name, done };
    call.api.sources.configuration.reload.try_send(command).map_err(|_| busy("reloads"))?;
    match tokio::time::timeout(RELOAD_TIMEOUT, reload).await {
        Ok(Ok(reload)) => Ok(Json(reload)),
        _ => Err(UNAVAILABLE),
    }
}

const UNAVAILABLE: Problem = Problem::unavailable(
    "Reload is unavailable",
    "weir is stopping, or the reload timed out; try again later.",
);
