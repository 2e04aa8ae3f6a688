//! Usage, and rebuild of the metering.

use super::stream::{Pace, lines, respond};
use super::transaction::bad;
use super::{Api, busy};
use crate::audit::Action;
use crate::monitor::{Monitor, Rebuilt, UsageFailure, UsageQuery, UsageReport};
use crate::problem::Problem;
use crate::tokens::Caller;
use axum::extract::{Query, State, rejection::QueryRejection};
use axum::http::StatusCode;
use axum::response::Response;
use axum::{Extension, Json};
use std::sync::Arc;

/// Query usage by consumer, API, operation, plan, status and time
#[utoipa::path(get, path = "/v1/usage", tag = "monitor", params(UsageQuery),
    extensions(("x-weir-role" = json!("viewer"))),
    responses(
        (status = 200, description = "Usage up to about a second ago.",
            body = UsageReport),
        (status = 400, description = "The query is invalid, or its result has too many rows."),
        (status = 409, description = "Metering is off.")))]
pub(super) async fn usage(
    State(api): State<Arc<Api>>,
    wanted: Result<Query<UsageQuery>, QueryRejection>,
) -> Result<Json<UsageReport>, Problem> {
    let Query(wanted) = wanted.map_err(|rejection| bad(rejection.body_text()))?;
    api.asked(&api.turns, not_counting, move |sources| {
        sources.monitor.as_ref().map(|monitor| (monitor.usage)(&wanted))
    })
    .await
    .map(Json)
}

/// Rebuild metering from the journal
///
/// One JSON object per line at the end; empty lines before it are keep-alives.
#[utoipa::path(post, path = "/v1/monitor/rebuild", tag = "monitor",
    extensions(("x-weir-role" = json!("operator"))),
    responses(
        (status = 200, description = "The rebuilt period and its changes.",
            content_type = "application/x-ndjson", body = Rebuilt),
        (status = 409, description = "Metering is off."),
        (status = 503, description = "Too many long queries are running.")))]
pub(super) async fn rebuild(
    State(api): State<Arc<Api>>,
    Extension(caller): Extension<Caller>,
) -> Result<Response, Problem> {
    let Some(Monitor { rebuild, .. }) = &api.sources.monitor else { return Err(not_counting()) };
    let Ok(permit) = Arc::clone(&api.long).try_acquire_owned() else {
        return Err(busy("long queries"));
    };
    api.audit(&caller, Action::Rebuild).await?;
    let mut rebuild = rebuild();
    let source = Box::new(move || rebuild().map(|found| lines(&found)));
    Ok(respond(source, Pace::Steady, api.grant(&caller)?, permit))
}

impl From<UsageFailure> for Problem {
    fn from(failure: UsageFailure) -> Self {
        match failure {
            UsageFailure::Question(what) => bad(format!("{what}.")),
            UsageFailure::Failed(failure) => failure.into(),
        }
    }
}

fn not_counting() -> Problem {
    Problem {
        status: StatusCode::CONFLICT,
        kind: "not-counting",
        title: "Metering is off",
        place: None,
        detail: "Set `monitor.count`, or a quota or price of a plan.".to_owned(),
    }
}
