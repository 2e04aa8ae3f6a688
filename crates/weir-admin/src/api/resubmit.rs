//! Resubmission of transactions, jobs and resolutions.

use super::transaction::{bad, none, transaction_id};
use super::{Api, not_recording};
use crate::audit::Action;
use crate::failure::{Failure, SearchFailure};
use crate::problem::Problem;
use crate::resubmit::{
    Attempt, Job, JobAction, NewJob, Refusal, Resolve, Resubmission, RunJob, Wish,
};
use crate::tokens::Caller;
use axum::body::Bytes;
use axum::extract::{Path, Query, State, rejection::QueryRejection};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::json;
use std::sync::Arc;
use tokio::sync::Semaphore;
use utoipa::IntoParams;

/// Longest request body of the admin API.
pub(super) const LONGEST: usize = 8 << 20;
/// Longest comment.
const COMMENT: usize = 1000;
/// Longest description of edits in the audit log: more than a hundred header names.
const LONGEST_EDIT: usize = 64 << 10;
/// Longest query of a job, as of any search, and longest name of an operation.
const LONGEST_QUERY: usize = 4096;
const LONGEST_NAME: usize = 1024;
/// Default and largest number of listed jobs.
const JOBS: usize = 50;
const MOST_JOBS: usize = 1000;

/// Parses a JSON body; an empty body is the default value.
pub(super) fn read<T: DeserializeOwned + Default>(body: &Bytes) -> Result<T, Problem> {
    if body.is_empty() {
        return Ok(T::default());
    }
    serde_json::from_slice(body).map_err(|error| {
        // The position of the error, never the text: it may be payload.
        bad(format!("line {}, column {}: {}", error.line(), error.column(), kind(&error)))
    })
}

fn kind(error: &serde_json::Error) -> &'static str {
    match error.classify() {
        serde_json::error::Category::Data => "a member is unknown, missing or has the wrong type",
        _ => "invalid JSON",
    }
}

/// Resubmit a transaction
///
/// Unchanged, edited, or to another route, on behalf of its recorded principal. Waits up to a
/// minute for the response; after that the state remains `sending`.
#[utoipa::path(post, path = "/v1/transactions/{id}/resubmit", tag = "resubmission",
    extensions(("x-weir-role" = json!("operator"))), request_body = Wish,
    params(("id" = String, Path, description = "The transaction id.")),
    responses(
        (status = 200, description = "The transaction was sent, or rejected by a current policy.", body = Attempt),
        (status = 400, description = "Invalid transaction id or edits."),
        (status = 404, description = "Unknown transaction."),
        (status = 409, description = "The transaction cannot be sent: `reason` is the code."),
        (status = 503, description = "Too many concurrent requests, or the index lags behind.")))]
pub(super) async fn resubmit(
    State(api): State<Arc<Api>>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
    body: Bytes,
) -> Result<Response, Problem> {
    let id = transaction_id(&id)?;
    let wish: Wish = read(&body)?;
    let how = told(&wish);
    if how.len() > LONGEST_EDIT {
        return Err(bad("Too many header edits, or header names that are too long.".to_owned()));
    }
    api.audit(&caller, Action::Resubmit(id.to_string(), how)).await?;
    let asked = (id.as_u128(), wish, caller.name.clone());
    let turns = &api.resubmissions;
    let done = api.resubmission(turns, move |doors| Ok::<_, Failure>((doors.resubmit)(&asked)));
    let done = done.await?;
    Ok(match done {
        Ok(attempt) => Json(attempt).into_response(),
        Err(refusal) => refused(refusal),
    })
}

/// The description of edits for the audit log, without payload.
fn told(wish: &Wish) -> String {
    let set: Vec<&str> = wish.headers.set.iter().map(|line| line.name.as_str()).collect();
    let edited = json!({
        "query": wish.query.is_some(),
        "headers_set": set,
        "headers_removed": wish.headers.remove,
        "body": wish.body.is_some() || wish.body_base64.is_some(),
        "to": wish.to,
        "again": wish.again,
    });
    if *wish == Wish::default() { String::new() } else { edited.to_string() }
}

fn refused(refusal: Refusal) -> Response {
    let problem =
        |status, kind, title, detail: String| Problem { status, kind, title, place: None, detail };
    match refusal {
        Refusal::NotFound => none().into_response(),
        Refusal::Bad(detail) => bad(detail).into_response(),
        Refusal::Failed(failure) => Problem::from(failure).into_response(),
        Refusal::Busy => super::busy("requests").into_response(),
        Refusal::Cannot(code, words) => {
            let title = "The transaction cannot be resubmitted";
            let status = StatusCode::CONFLICT;
            let detail = format!("{words} ({code})");
            let document = json!({
                "type": "urn:weir:problem:not-resubmittable",
                "title": title,
                "status": status.as_u16(),
                "detail": detail,
                "reason": code,
            });
            let mut response = problem(status, "not-resubmittable", title, detail).into_response();
            *response.body_mut() = document.to_string().into();
            response
        }
    }
}

/// Set the resolution of a transaction
#[utoipa::path(post, path = "/v1/transactions/{id}/resolution", tag = "resubmission",
    extensions(("x-weir-role" = json!("operator"))), request_body = Resolve,
    params(("id" = String, Path, description = "The transaction id.")),
    responses(
        (status = 204, description = "The resolution was set."),
        (status = 400, description = "Invalid transaction id or resolution."),
        (status = 404, description = "Unknown transaction."),
        (status = 409, description = "The transaction did not fail.")))]
pub(super) async fn resolve(
    State(api): State<Arc<Api>>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
    body: Bytes,
) -> Result<Response, Problem> {
    let id = transaction_id(&id)?;
    let wanted: Resolve = read(&body)?;
    if !["open", "resolved", "dismissed"].contains(&wanted.state.as_str()) {
        return Err(bad("`state` must be `resolved`, `dismissed` or `open`.".to_owned()));
    }
    if wanted.comment.len() > COMMENT || wanted.comment.chars().any(char::is_control) {
        return Err(bad(format!("`comment` must be one line of at most {COMMENT} bytes.")));
    }
    let details = json!({"state": wanted.state, "comment": wanted.comment}).to_string();
    api.audit(&caller, Action::Resolve(id.to_string(), details)).await?;
    let asked = (id.as_u128(), wanted, caller.name.clone());
    let done = api.resubmission(&api.jobs, move |doors| Ok::<_, Failure>((doors.resolve)(&asked)));
    let done = done.await?;
    Ok(match done {
        Ok(()) => StatusCode::NO_CONTENT.into_response(),
        Err(refusal) => refused(refusal),
    })
}

/// Checks the rate of a job.
fn check_rate(rate: Option<f64>) -> Result<(), Problem> {
    match rate {
        Some(rate) if !(0.001..=100_000.0).contains(&rate) => {
            Err(bad("`rate` must be a number of requests per second, at most 100000.".to_owned()))
        }
        _ => Ok(()),
    }
}

/// Create a job: bulk resubmission of the result of a query
///
/// The job first determines the transactions that can be sent, and the rejection reasons of the
/// others. It sends them when it is run.
#[utoipa::path(post, path = "/v1/jobs", tag = "resubmission", request_body = NewJob,
    extensions(("x-weir-role" = json!("operator"))),
    responses(
        (status = 201, description = "The job.", body = Job),
        (status = 400, description = "The query or the rate is invalid.")))]
pub(super) async fn make(
    State(api): State<Arc<Api>>,
    Extension(caller): Extension<Caller>,
    body: Bytes,
) -> Result<(StatusCode, Json<Job>), Problem> {
    let wanted: NewJob = read(&body)?;
    check_rate(wanted.rate)?;
    if wanted.query.trim().is_empty() {
        return Err(bad("`query` is required: it selects the transactions.".to_owned()));
    }
    let name = wanted.to.as_ref().map_or(0, String::len);
    if wanted.query.len() > LONGEST_QUERY || name > LONGEST_NAME {
        return Err(bad(format!(
            "`query` has at most {LONGEST_QUERY} bytes, `to` {LONGEST_NAME}."
        )));
    }
    let details = json!({"rate": wanted.rate, "to": wanted.to, "again": wanted.again,
        "run": wanted.run});
    let action = Action::MakeJob(wanted.query.clone(), details.to_string());
    api.audit(&caller, action).await?;
    let asked = (wanted, caller.name.clone());
    let job = api.resubmission::<_, SearchFailure>(&api.jobs, move |doors| (doors.make)(&asked));
    let job = job.await?;
    Ok((StatusCode::CREATED, Json(job)))
}

/// The number of jobs.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Listed {
    /// Maximum number of jobs, 1 to 1000; default 50.
    limit: Option<usize>,
}

/// List jobs, newest first
#[utoipa::path(get, path = "/v1/jobs", tag = "resubmission", params(Listed),
    extensions(("x-weir-role" = json!("operator"))),
    responses((status = 200, description = "The jobs.", body = Vec<Job>)))]
pub(super) async fn list(
    State(api): State<Arc<Api>>,
    wanted: Result<Query<Listed>, QueryRejection>,
) -> Result<Json<Vec<Job>>, Problem> {
    let Query(wanted) = wanted.map_err(|rejection| bad(rejection.body_text()))?;
    let limit = super::transaction::limit(wanted.limit, JOBS, MOST_JOBS)?;
    api.resubmission::<_, Failure>(&api.jobs, move |doors| (doors.jobs)(&limit)).await.map(Json)
}

fn number(text: &str) -> Result<i64, Problem> {
    text.parse().map_err(|_| bad("The job number must be an integer.".to_owned()))
}

fn no_job() -> Problem {
    Problem {
        status: StatusCode::NOT_FOUND,
        kind: "no-job",
        title: "Unknown job",
        place: None,
        detail: "The job was never created, or its retention has ended.".to_owned(),
    }
}

/// Show a job
#[utoipa::path(get, path = "/v1/jobs/{number}", tag = "resubmission",
    extensions(("x-weir-role" = json!("operator"))),
    params(("number" = i64, Path, description = "Job number.")),
    responses(
        (status = 200, description = "The job.", body = Job),
        (status = 404, description = "Unknown job.")))]
pub(super) async fn show(
    State(api): State<Arc<Api>>,
    Path(text): Path<String>,
) -> Result<Json<Job>, Problem> {
    let number = number(&text)?;
    let found =
        api.resubmission::<_, Failure>(&api.jobs, move |doors| (doors.job)(&number)).await?;
    found.map(Json).ok_or_else(no_job)
}

/// Run, pause or cancel a job
///
/// `run` also resumes a paused job.
#[utoipa::path(post, path = "/v1/jobs/{number}/{action}", tag = "resubmission",
    extensions(("x-weir-role" = json!("operator"))), request_body = RunJob,
    params(
        ("number" = i64, Path, description = "Job number."),
        ("action" = String, Path, description = "`run`, `pause` or `cancel`.")),
    responses(
        (status = 200, description = "The job after the action.", body = Job),
        (status = 404, description = "Unknown job or action."),
        (status = 409, description = "The job has ended, so the action is not possible.")))]
pub(super) async fn act(
    State(api): State<Arc<Api>>,
    Extension(caller): Extension<Caller>,
    Path((text, action)): Path<(String, String)>,
    body: Bytes,
) -> Result<Json<Job>, Problem> {
    let number = number(&text)?;
    let (action, noted) = match action.as_str() {
        "run" => (JobAction::Run, "run-job"),
        "pause" => (JobAction::Pause, "pause-job"),
        "cancel" => (JobAction::Cancel, "cancel-job"),
        _ => return Err(no_job()),
    };
    let how: RunJob = read(&body)?;
    check_rate(how.rate)?;
    let details = json!({"rate": how.rate, "again": how.again}).to_string();
    api.audit(&caller, Action::RunJob(noted, number, details)).await?;
    let asked = (number, action, how);
    let found = api.resubmission::<_, Failure>(&api.jobs, move |doors| (doors.act)(&asked)).await?;
    match found {
        None => Err(no_job()),
        Some((job, true)) => Ok(Json(job)),
        Some((job, false)) => Err(Problem {
            status: StatusCode::CONFLICT,
            kind: "job-over",
            title: "The job has ended",
            place: None,
            detail: format!("Its state is {}.", job.state),
        }),
    }
}

impl Api {
    /// Runs a query or action of resubmission, which may block, within a limit of concurrency.
    async fn resubmission<T, E>(
        &self,
        turns: &Arc<Semaphore>,
        question: impl FnOnce(&Resubmission) -> Result<T, E> + Send + 'static,
    ) -> Result<T, Problem>
    where
        T: Send + 'static,
        E: Into<Problem> + Send + 'static,
    {
        let find = move |sources: &crate::Sources| sources.resubmission.as_ref().map(question);
        self.asked(turns, not_recording, find).await
    }
}
