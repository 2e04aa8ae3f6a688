//! The Lab: results, and load on this server itself.

use super::Api;
use super::transaction::bad;
use crate::audit::Action;
use crate::lab::{
    Lab, LabComparison, LabProgress, LabRefusal, LabRun, LabStart, LabState, MOST_RATE,
    MOST_SECONDS,
};
use crate::problem::Problem;
use crate::tokens::Caller;
use crate::tracker::Failure;
use axum::body::Bytes;
use axum::extract::{Path, Query, State, rejection::QueryRejection};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use serde::Deserialize;
use std::sync::Arc;
use utoipa::IntoParams;

/// What a report may do: draw. It has no origin, so no session, and can ask nobody for anything.
const REPORT: &str = "sandbox allow-scripts; default-src 'none'; script-src 'unsafe-inline'; \
    style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'; \
    frame-ancestors 'none'";

/// What can be run, and what was
#[utoipa::path(get, path = "/v1/lab", tag = "lab",
    extensions(("x-weir-role" = json!("viewer"))),
    responses((status = 200, description = "Suites, listeners, and results.", body = LabState)))]
pub(super) async fn state(State(api): State<Arc<Api>>) -> Result<Json<LabState>, Problem> {
    with(&api, |lab| (lab.state)()).await.map(Json)
}

/// The load that is running, or ran last
#[utoipa::path(get, path = "/v1/lab/run", tag = "lab",
    extensions(("x-weir-role" = json!("viewer"))),
    responses(
        (status = 200, description = "What it does.", body = LabProgress),
        (status = 204, description = "There was none since the start.")))]
pub(super) async fn progress(State(api): State<Arc<Api>>) -> Result<Response, Problem> {
    Ok(match with(&api, |lab| (lab.progress)()).await? {
        Some(progress) => Json(progress).into_response(),
        None => StatusCode::NO_CONTENT.into_response(),
    })
}

/// Put a suite's load on a listener of this server
///
/// By a process of its own, never faster and longer than asked for; one at a time.
#[utoipa::path(post, path = "/v1/lab/run", tag = "lab",
    extensions(("x-weir-role" = json!("admin"))), request_body = LabStart,
    responses(
        (status = 202, description = "It has been started.", body = LabProgress),
        (status = 400, description = "There is no such suite or listener, or a cap is too high."),
        (status = 409, description = "A load is running already.")))]
pub(super) async fn start(
    State(api): State<Arc<Api>>,
    Extension(caller): Extension<Caller>,
    body: Bytes,
) -> Result<Response, Problem> {
    let start: LabStart = super::resubmit::read(&body)?;
    let caps = [("rate", start.rate, MOST_RATE), ("seconds", start.seconds, MOST_SECONDS)];
    if let Some((name, _, most)) = caps.into_iter().find(|(_, n, most)| !(1..=*most).contains(n)) {
        return Err(bad(format!("`{name}` is a number from 1 to {most}.")));
    }
    let how = format!("{} a second for {} s at {}", start.rate, start.seconds, start.target);
    let subject: String = start.suite.chars().take(100).collect();
    let how: String = how.chars().take(400).collect();
    api.audit(&caller, Action::StartLoad(subject, how)).await?;
    let who = caller.name.clone();
    match with(&api, move |lab| (lab.start)(&start, &who)).await? {
        Ok(progress) => Ok((StatusCode::ACCEPTED, Json(progress)).into_response()),
        Err(LabRefusal::Bad(detail)) => Err(bad(detail)),
        Err(LabRefusal::Running) => Err(Problem {
            status: StatusCode::CONFLICT,
            kind: "load-running",
            title: "A load is running already",
            place: None,
            detail: "There is one at a time: wait for its end, or end it.".to_owned(),
        }),
        Err(LabRefusal::Failed(detail)) => Err(Problem {
            status: StatusCode::INTERNAL_SERVER_ERROR,
            kind: "load-not-started",
            title: "The load cannot be started",
            place: None,
            detail,
        }),
    }
}

/// End the load
#[utoipa::path(delete, path = "/v1/lab/run", tag = "lab",
    extensions(("x-weir-role" = json!("operator"))),
    responses(
        (status = 202, description = "It ends, and leaves the result so far."),
        (status = 404, description = "None is running.")))]
pub(super) async fn stop(
    State(api): State<Arc<Api>>,
    Extension(caller): Extension<Caller>,
) -> Result<StatusCode, Problem> {
    api.audit(&caller, Action::StopLoad).await?;
    match with(&api, |lab| (lab.stop)()).await? {
        true => Ok(StatusCode::ACCEPTED),
        false => Err(none("No load is running.")),
    }
}

/// A run, case by case
#[utoipa::path(get, path = "/v1/lab/results/{run}", tag = "lab",
    extensions(("x-weir-role" = json!("viewer"))),
    params(("run" = String, Path, description = "Name of its folder.")),
    responses(
        (status = 200, description = "Its result.", body = LabRun),
        (status = 404, description = "There is no such run.")))]
pub(super) async fn run(
    State(api): State<Arc<Api>>,
    Path(name): Path<String>,
) -> Result<Json<LabRun>, Problem> {
    let found = with(&api, move |lab| (lab.run)(&name)).await?;
    found.map(Json).ok_or_else(|| none("There are no results of this name."))
}

/// The report of a run
///
/// A page for a tab of its own: its scripts draw, and can do nothing else.
#[utoipa::path(get, path = "/v1/lab/results/{run}/report", tag = "lab",
    extensions(("x-weir-role" = json!("viewer"))),
    params(("run" = String, Path, description = "Name of its folder.")),
    responses(
        (status = 200, description = "A page.", content_type = "text/html"),
        (status = 404, description = "There is no such report.")))]
pub(super) async fn report(
    State(api): State<Arc<Api>>,
    Path(name): Path<String>,
) -> Result<Response, Problem> {
    let found = with(&api, move |lab| (lab.report)(&name)).await?;
    let page = found.ok_or_else(|| none("There is no report of this name."))?;
    let headers = [
        (header::CONTENT_TYPE, "text/html; charset=utf-8"),
        (header::CONTENT_SECURITY_POLICY, REPORT),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::X_FRAME_OPTIONS, "DENY"),
    ];
    Ok((headers, page).into_response())
}

/// Which two.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Pair {
    /// Name of the folder of the run before.
    before: String,
    /// And of the one after it.
    after: String,
}

/// Compare two runs, case by case
#[utoipa::path(get, path = "/v1/lab/compare", tag = "lab", params(Pair),
    extensions(("x-weir-role" = json!("viewer"))),
    responses(
        (status = 200, description = "Both, side by side.", body = LabComparison),
        (status = 404, description = "One of them has no result.")))]
pub(super) async fn compare(
    State(api): State<Arc<Api>>,
    pair: Result<Query<Pair>, QueryRejection>,
) -> Result<Json<LabComparison>, Problem> {
    let Query(Pair { before, after }) = pair.map_err(|rejection| bad(rejection.body_text()))?;
    let compared = with(&api, move |lab| (lab.compare)(&before, &after)).await?;
    compared.map(Json).map_err(|detail| none(&detail))
}

async fn with<T: Send + 'static>(
    api: &Arc<Api>,
    question: impl FnOnce(&Lab) -> T + Send + 'static,
) -> Result<T, Problem> {
    let ask =
        |sources: &crate::Sources| sources.lab.as_ref().map(|lab| Ok::<T, Failure>(question(lab)));
    api.asked(&api.turns, super::no_access, ask).await
}

fn none(detail: &str) -> Problem {
    Problem {
        status: StatusCode::NOT_FOUND,
        kind: "not-found",
        title: "There is nothing of this name",
        place: None,
        detail: detail.to_owned(),
    }
}
