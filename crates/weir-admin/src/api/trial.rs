//! Requests of operators, by the in-process door.

use super::{Api, busy};
use crate::audit::Action;
use crate::explain::{Explain, TriedAnswer};
use crate::problem::Problem;
use crate::tokens::Caller;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::StatusCode;
use axum::{Extension, Json};
use std::sync::Arc;
use weir_config::redaction;
use weir_gateway::request_text::{RequestText, RequestTextError};

/// Try a request
///
/// It is served like any other, as if it came from this machine, but by no socket. It needs the
/// credential that it has, counts for limits and invoices, and is recorded, with the name of the
/// token in its property `tried-by`. Waits up to a minute for the answer.
#[utoipa::path(post, path = "/v1/try", tag = "configuration",
    extensions(("x-weir-role" = json!("operator"))), request_body = Explain,
    responses(
        (status = 200, description = "Its answer, the body up to a MiB.", body = TriedAnswer),
        (status = 400, description = "It is no request, or its curl command is not understood."),
        (status = 503, description = "There is no room for it, it took too long, or weir is stopping.")))]
pub(super) async fn attempt(
    State(api): State<Arc<Api>>,
    Extension(caller): Extension<Caller>,
    body: Bytes,
) -> Result<Json<TriedAnswer>, Problem> {
    let asked: Explain = super::resubmit::read(&body)?;
    if asked.client.is_some() {
        return Err(super::transaction::bad(
            "A request that is tried comes from this machine: it has no `client`.".to_owned(),
        ));
    }
    let ask = asked.ask().map_err(Problem::from)?;
    if let Some(place) = masked(&ask) {
        return Err(super::transaction::bad(format!(
            "{place} is `***`, which stands for a value that was masked: write its value."
        )));
    }
    // Without its query, which may hold what is masked.
    let path = ask.target.split(['?', '#']).next().unwrap_or_default();
    let subject: String = format!("{} {path}", ask.method).chars().take(1024).collect();
    api.audit(&caller, Action::Try(subject)).await?;
    let by = caller.name.clone();
    let tried = api.asked(&api.resubmissions, unavailable, move |sources| {
        Some(sources.gateway.attempt(ask, &by).map_err(Failed))
    });
    tried.await.map(|tried| Json(TriedAnswer::of(tried)))
}

/// Where a masked value of a recorded request is left in it.
fn masked(ask: &RequestText) -> Option<String> {
    let query = ask.target.split('#').next().and_then(|target| target.split_once('?'));
    if let Some(name) = query.and_then(|(_, query)| redaction::in_query(query)) {
        return Some(format!("The query parameter `{name}`"));
    }
    let header = ask.headers.iter().find(|(_, value)| redaction::in_header(value.as_bytes()));
    if let Some((name, _)) = header {
        return Some(format!("The header `{name}`"));
    }
    redaction::in_body(&ask.body).map(|place| format!("`{place}` of the body"))
}

/// Why there is no answer.
struct Failed(RequestTextError);

impl From<Failed> for Problem {
    fn from(Failed(error): Failed) -> Self {
        match error {
            RequestTextError::Busy => busy("requests"),
            RequestTextError::Late => unavailable(),
            other => Self::from(other),
        }
    }
}

fn unavailable() -> Problem {
    Problem {
        status: StatusCode::SERVICE_UNAVAILABLE,
        kind: "unavailable",
        title: "There is no answer",
        place: None,
        detail: "It took longer than a minute, or weir is stopping: nobody knows what came of it."
            .to_owned(),
    }
}
