//! Test requests of operators, injected into the gateway.

use super::explain::unusable;
use super::{Call, busy};
use crate::audit::Action;
use crate::explain::{Explain, TestResponse};
use crate::problem::{Problem, Result};
use axum::Json;
use axum::body::Bytes;
use weir_expr::redaction;
use weir_gateway::request_text::{RequestText, RequestTextError};

/// Send a test request
///
/// The request is handled like a request from this machine, without a socket. It needs its own
/// credential, counts for limits and invoices, and is recorded with the token's name in the
/// property `tried-by`. Waits up to a minute for the response.
#[utoipa::path(post, path = "/v1/try", tag = "configuration",
    request_body = Explain,
    responses(
        (status = 200, description = "The response, with at most 1 MiB of the body.", body = TestResponse),
        (status = 400, description = "The request is invalid, or its curl command is not supported."),
        (status = 503, description = "Too many concurrent requests, a timeout, or weir is stopping.")))]
pub(super) async fn send(call: Call, body: Bytes) -> Result<Json<TestResponse>> {
    let request: Explain = super::resubmit::read(&body)?;
    if request.client.is_some() {
        return Err(Problem::bad("Test requests come from this machine: `client` cannot be set."));
    }
    let request = request.request_text().map_err(unusable)?;
    if let Some(location) = masked(&request) {
        return Err(Problem::bad(format!(
            "{location} is `***`, a redacted value: replace it with the true value."
        )));
    }
    // Without the query, which may contain masked values.
    let path = request.target.split(['?', '#']).next().unwrap_or_default();
    let subject: String = format!("{} {path}", request.method).chars().take(1024).collect();
    call.audit(Action::Try, subject, "").await?;
    let by = call.caller.name.clone();
    let outcome = call.api.query(&call.api.resubmissions, UNAVAILABLE, move |sources| {
        Some(sources.gateway.attempt(request, &by).map_err(failed))
    });
    outcome.await.map(|outcome| Json(TestResponse::of(outcome)))
}

/// The location of a redacted value in a request that was copied from a record.
fn masked(request: &RequestText) -> Option<String> {
    let query = request.target.split('#').next().and_then(|target| target.split_once('?'));
    if let Some(name) = query.and_then(|(_, query)| redaction::in_query(query)) {
        return Some(format!("The query parameter `{name}`"));
    }
    let header = request.headers.iter().find(|(_, value)| redaction::in_header(value.as_bytes()));
    if let Some((name, _)) = header {
        return Some(format!("The header `{name}`"));
    }
    redaction::in_body(&request.body).map(|path| format!("`{path}` of the body"))
}

/// Why there is no response.
fn failed(error: RequestTextError) -> Problem {
    match error {
        RequestTextError::Busy => busy("requests"),
        RequestTextError::TimedOut => UNAVAILABLE,
        other => other.into(),
    }
}

const UNAVAILABLE: Problem = Problem::unavailable(
    "No response",
    "The request took longer than a minute, or weir is stopping: its outcome is unknown.",
);
