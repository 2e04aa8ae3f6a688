//! The Lab: results, and load tests on this server.

use super::{Api, Call};
use crate::audit::Action;
use crate::lab::{
    Lab, LabComparison, LabError, LabProgress, LabRun, LabStart, LabState, MAX_RATE, MAX_SECONDS,
    results,
};
use crate::problem::{Params, Problem, Result};
use axum::Json;
use axum::body::Bytes;
use axum::extract::Path;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use std::sync::Arc;
use utoipa::IntoParams;
use weir_tracker::TrackerError;

/// Restrictions of a report: it may draw. It has no origin, so it has no session and cannot send
/// requests.
const REPORT: &str = "sandbox allow-scripts; default-src 'none'; script-src 'unsafe-inline'; \
    style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'; \
    frame-ancestors 'none'";

/// List suites, targets and results
#[utoipa::path(get, path = "/v1/lab", tag = "lab",
    responses((status = 200, description = "Suites, targets and results.", body = LabState)))]
pub(super) async fn state(call: Call) -> Result<Json<LabState>> {
    with(&call.api, |lab| lab.state()).await.map(Json)
}

/// Show the current or last load test
#[utoipa::path(get, path = "/v1/lab/run", tag = "lab",
    responses(
        (status = 200, description = "Progress.", body = LabProgress),
        (status = 204, description = "No load test since the start.")))]
pub(super) async fn progress(call: Call) -> Result<Response> {
    Ok(match with(&call.api, |lab| lab.progress()).await? {
        Some(progress) => Json(progress).into_response(),
        None => StatusCode::NO_CONTENT.into_response(),
    })
}

/// Start a load test on a listener of this server
///
/// Runs in a separate process, within the given rate and time; one at a time.
#[utoipa::path(post, path = "/v1/lab/run", tag = "lab",
    request_body = LabStart,
    responses(
        (status = 202, description = "The load test was started.", body = LabProgress),
        (status = 400, description = "Unknown suite or target, or a value above its maximum."),
        (status = 409, description = "A load test is running already.")))]
pub(super) async fn start(call: Call, body: Bytes) -> Result<Response> {
    let start: LabStart = super::resubmit::read(&body)?;
    let caps = [("rate", start.rate, MAX_RATE), ("seconds", start.seconds, MAX_SECONDS)];
    if let Some((name, _, max)) = caps.into_iter().find(|(_, n, max)| !(1..=*max).contains(n)) {
        return Err(Problem::bad(format!("`{name}` must be a number from 1 to {max}.")));
    }
    let options = format!("{} per second for {} s at {}", start.rate, start.seconds, start.target);
    let subject: String = start.suite.chars().take(100).collect();
    let options: String = options.chars().take(400).collect();
    call.audit(Action::StartLoad, subject, options).await?;
    match with(&call.api, move |lab| lab.start(&start, &call.caller.name)).await? {
        Ok(progress) => Ok((StatusCode::ACCEPTED, Json(progress)).into_response()),
        Err(LabError::Bad(detail)) => Err(Problem::bad(detail)),
        Err(LabError::Running) => Err(Problem::new(
            StatusCode::CONFLICT,
            "load-running",
            "A load test is running already",
            "Only one can run at a time: wait for its end, or stop it.",
        )),
        Err(LabError::Failed(detail)) => Err(Problem::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "load-not-started",
            "The load test cannot be started",
            detail,
        )),
    }
}

/// Stop the load test
#[utoipa::path(delete, path = "/v1/lab/run", tag = "lab",
    responses(
        (status = 202, description = "The load test ends; its result up to now is kept."),
        (status = 404, description = "No load test is running.")))]
pub(super) async fn stop(call: Call) -> Result<StatusCode> {
    call.audit(Action::StopLoad, "", "").await?;
    match with(&call.api, |lab| lab.stop()).await? {
        true => Ok(StatusCode::ACCEPTED),
        false => Err(none("No load test is running.")),
    }
}

/// Show the result of a run by case
#[utoipa::path(get, path = "/v1/lab/results/{run}", tag = "lab",
    params(("run" = String, Path, description = "Folder name of the run.")),
    responses(
        (status = 200, description = "The result.", body = LabRun),
        (status = 404, description = "Unknown run.")))]
pub(super) async fn run(call: Call, Path(name): Path<String>) -> Result<Json<LabRun>> {
    let found = with(&call.api, move |lab| results::run(lab.folder(), &name)).await?;
    found.map(Json).ok_or_else(|| none("There is no run of this name with results."))
}

/// Get the report of a run
///
/// An HTML page for a separate tab. Its scripts can draw, but not send requests.
#[utoipa::path(get, path = "/v1/lab/results/{run}/report", tag = "lab",
    params(("run" = String, Path, description = "Folder name of the run.")),
    responses(
        (status = 200, description = "The report as an HTML page.", content_type = "text/html"),
        (status = 404, description = "There is no report of this run.")))]
pub(super) async fn report(call: Call, Path(name): Path<String>) -> Result<Response> {
    let found = with(&call.api, move |lab| results::report(lab.folder(), &name)).await?;
    let page = found.ok_or_else(|| none("There is no report of this name."))?;
    let headers = [
        (header::CONTENT_TYPE, "text/html; charset=utf-8"),
        (header::CONTENT_SECURITY_POLICY, REPORT),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::X_FRAME_OPTIONS, "DENY"),
    ];
    Ok((headers, page).into_response())
}

/// The runs to be compared.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Pair {
    /// Folder name of the earlier run.
    before: String,
    /// Folder name of the later run.
    after: String,
}

/// Compare two runs by case
#[utoipa::path(get, path = "/v1/lab/compare", tag = "lab", params(Pair),
    responses(
        (status = 200, description = "The comparison.", body = LabComparison),
        (status = 404, description = "One of the runs has no result.")))]
pub(super) async fn compare(
    call: Call,
    Params(Pair { before, after }): Params<Pair>,
) -> Result<Json<LabComparison>> {
    let compared =
        with(&call.api, move |lab| results::compare(lab.folder(), &before, &after)).await?;
    compared.map(Json).map_err(|detail| none(&detail))
}

async fn with<T: Send + 'static>(
    api: &Arc<Api>,
    query: impl FnOnce(&Lab) -> T + Send + 'static,
) -> Result<T> {
    let query = |sources: &crate::Sources| {
        sources.lab.as_ref().map(|lab| Ok::<T, TrackerError>(query(lab)))
    };
    api.query(&api.permits, super::NO_ACCESS, query).await
}

fn none(detail: &str) -> Problem {
    Problem::new(StatusCode::NOT_FOUND, "not-found", "Not found", detail.to_owned())
}
