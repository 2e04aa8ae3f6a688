//! The configuration: what is in force, whether a draft could be, and loading it again.

use super::{Api, busy};
use crate::audit::Action;
use crate::configuration::{
    ApiInfo, Checked, ConfigurationState, FindingInfo, Reload, ReloadCommand, apis,
};
use crate::problem::Problem;
use crate::tokens::Caller;
use crate::tracker::Failure;
use axum::extract::{Path, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;

/// Longest draft in bytes.
const LONGEST: usize = 1 << 20;
/// How long somebody waits for a reload.
const PATIENCE: Duration = Duration::from_secs(60);

/// APIs and routes, with their policies in the order of a request
#[utoipa::path(get, path = "/v1/apis", tag = "configuration",
    extensions(("x-weir-role" = json!("viewer"))),
    responses((status = 200, description = "Those in force.", body = Vec<ApiInfo>)))]
pub(super) async fn routes(State(api): State<Arc<Api>>) -> Result<Json<Vec<ApiInfo>>, Problem> {
    Ok(Json(apis(&api.sources.gateway.config())))
}

/// The OpenAPI document of an API
#[utoipa::path(get, path = "/v1/apis/{api}/openapi", tag = "configuration",
    extensions(("x-weir-role" = json!("viewer"))),
    params(("api" = String, Path, description = "Name of the API.")),
    responses(
        (status = 200, description = "The document, with all that it refers to.", body = Object),
        (status = 404, description = "There is no such API, or nothing describes it.")))]
pub(super) async fn openapi(
    State(api): State<Arc<Api>>,
    Path(name): Path<String>,
) -> Result<Response, Problem> {
    let config = api.sources.gateway.config();
    let found = config.apis.iter().find(|api| api.name == name);
    let text = found.and_then(|api| api.openapi.as_deref()).ok_or_else(|| Problem {
        status: StatusCode::NOT_FOUND,
        kind: "not-found",
        title: "There is no such document",
        place: None,
        detail: "No API of this name is described by OpenAPI.".to_owned(),
    })?;
    Ok(([(header::CONTENT_TYPE, "application/json")], text.to_owned()).into_response())
}

/// The configuration in force, and what became of those after it
#[utoipa::path(get, path = "/v1/configuration", tag = "configuration",
    extensions(("x-weir-role" = json!("operator"))),
    responses((status = 200, description = "Texts without secrets, and reloads.", body = ConfigurationState)))]
pub(super) async fn state(State(api): State<Arc<Api>>) -> Json<ConfigurationState> {
    Json(api.sources.configuration.history.state())
}

/// Check a draft
///
/// Reads no file, environment or network: `include:`, `file:` and `${env:NAME}` are findings.
#[utoipa::path(post, path = "/v1/configuration/check", tag = "configuration",
    request_body(content = String, content_type = "application/yaml", description = "The draft, at most 1 MiB."),
    extensions(("x-weir-role" = json!("operator"))),
    responses(
        (status = 200, description = "Whether it could be used, and what was found.", body = Checked),
        (status = 413, description = "It is too long.")))]
pub(super) async fn check(
    State(api): State<Arc<Api>>,
    draft: String,
) -> Result<Json<Checked>, Problem> {
    if draft.len() > LONGEST {
        return Err(too_long());
    }
    let checked = api.asked(&api.turns, unavailable, move |_| {
        let (usable, found) = match weir_config::load_text("draft", &draft) {
            Ok((_, found)) => (true, found),
            Err(found) => (false, found),
        };
        Some(Ok::<_, Failure>(Checked { usable, findings: FindingInfo::all(&found) }))
    });
    checked.await.map(Json)
}

/// Load the configuration again
///
/// From the path that weir was started with; a whole new configuration, or none.
#[utoipa::path(post, path = "/v1/configuration/reload", tag = "configuration",
    extensions(("x-weir-role" = json!("admin"))),
    responses(
        (status = 200, description = "What became of it.", body = Reload),
        (status = 503, description = "Another reload waits already.")))]
pub(super) async fn reload(
    State(api): State<Arc<Api>>,
    Extension(caller): Extension<Caller>,
) -> Result<Json<Reload>, Problem> {
    api.audit(&caller, Action::Reload).await?;
    let (done, reload) = oneshot::channel();
    let command = ReloadCommand { by: caller.name, done };
    api.sources.configuration.reload.try_send(command).map_err(|_| busy("reloads"))?;
    match tokio::time::timeout(PATIENCE, reload).await {
        Ok(Ok(reload)) => Ok(Json(reload)),
        _ => Err(unavailable()),
    }
}

fn unavailable() -> Problem {
    Problem {
        status: StatusCode::SERVICE_UNAVAILABLE,
        kind: "unavailable",
        title: "Nobody answers for the configuration",
        place: None,
        detail: "weir is stopping, or loading takes too long; look again later.".to_owned(),
    }
}

fn too_long() -> Problem {
    Problem {
        status: StatusCode::PAYLOAD_TOO_LARGE,
        kind: "too-long",
        title: "The draft is too long",
        place: None,
        detail: format!("A draft has at most {LONGEST} bytes."),
    }
}
