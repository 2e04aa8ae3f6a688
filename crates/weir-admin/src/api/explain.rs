//! Explain: the handling of a request, without sending it.

use super::{Api, busy};
use crate::audit::Action;
use crate::explain::Explain;
use crate::explain::curl::CurlError;
use crate::problem::Problem;
use crate::tokens::Caller;
use axum::Json;
use axum::body::Bytes;
use axum::extract::{Extension, State};
use axum::http::StatusCode;
use std::sync::Arc;
use weir_gateway::explanation::Explanation;
use weir_gateway::request_text::{RequestText, RequestTextError};

/// Longest subject of an audit entry, in characters.
const MAX_SUBJECT_CHARS: usize = 1024;

/// Explain a request
///
/// Uses the configuration in force and the current limit status. The request is not sent, counted,
/// recorded or logged. The audit log records that it was explained, without query, headers and
/// body.
#[utoipa::path(post, path = "/v1/explain", tag = "configuration",
    request_body = Explain,
    responses(
        (status = 200, description = "The handling of the request, with reasons.", body = Explanation),
        (status = 400, description = "The request is invalid, or its curl command is not supported."),
        (status = 503, description = "Too many concurrent requests, or weir is stopping.")))]
pub(super) async fn explain(
    State(api): State<Arc<Api>>,
    Extension(caller): Extension<Caller>,
    body: Bytes,
) -> Result<Json<Explanation>, Problem> {
    let request: Explain = super::resubmit::read(&body)?;
    let request = request.request_text().map_err(Problem::from)?;
    api.audit(&caller, Action::Explain, subject(&request), "").await?;
    let explained =
        api.query(&api.permits, STOPPING, move |sources| Some(sources.gateway.explain(request)));
    explained.await.map(Json)
}

/// Method and path, which contain no credentials.
fn subject(request: &RequestText) -> String {
    let path = request.target.split(['?', '#']).next().unwrap_or_default();
    let path = match path.split_once("://") {
        Some((_, rest)) => rest.find('/').map_or("/", |at| &rest[at..]),
        None => path,
    };
    let text = format!("{} {path}", request.method);
    text.chars().take(MAX_SUBJECT_CHARS).collect()
}

impl From<CurlError> for Problem {
    fn from(error: CurlError) -> Self {
        unusable(error.to_string())
    }
}

impl From<RequestTextError> for Problem {
    fn from(error: RequestTextError) -> Self {
        match error {
            RequestTextError::Busy => busy("explanations"),
            RequestTextError::Late => STOPPING,
            other => unusable(other.to_string()),
        }
    }
}

fn unusable(detail: String) -> Problem {
    Problem::new(
        StatusCode::BAD_REQUEST,
        "bad-request",
        "The request cannot be explained",
        format!("{detail}."),
    )
}

const STOPPING: Problem = Problem::fixed(
    StatusCode::SERVICE_UNAVAILABLE,
    "unavailable",
    "Explain is unavailable",
    "weir is stopping, or the explanation timed out; try again later.",
);
