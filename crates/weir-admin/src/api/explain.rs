//! Explain: the handling of a request, without sending it.

use super::{Call, busy};
use crate::audit::Action;
use crate::explain::Explain;
use crate::problem::{Problem, Result};
use axum::Json;
use axum::body::Bytes;
use axum::http::StatusCode;
use std::fmt::Display;
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
pub(super) async fn explain(call: Call, body: Bytes) -> Result<Json<Explanation>> {
    let request: Explain = super::resubmit::read(&body)?;
    let request = request.request_text().map_err(unusable)?;
    call.audit(Action::Explain, subject(&request), "").await?;
    let explained = call
        .api
        .query(&call.api.permits, STOPPING, move |sources| Some(sources.gateway.explain(request)));
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

impl From<RequestTextError> for Problem {
    fn from(error: RequestTextError) -> Self {
        match error {
            RequestTextError::Busy => busy("explanations"),
            RequestTextError::TimedOut => STOPPING,
            other => unusable(other),
        }
    }
}

pub(super) fn unusable(error: impl Display) -> Problem {
    Problem::new(
        StatusCode::BAD_REQUEST,
        "bad-request",
        "The request cannot be explained",
        format!("{error}."),
    )
}

const STOPPING: Problem = Problem::unavailable(
    "Explain is unavailable",
    "weir is stopping, or the explanation timed out; try again later.",
);
