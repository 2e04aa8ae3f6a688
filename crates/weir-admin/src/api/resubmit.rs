//! Sending transactions again, and saying what became of them.

use super::transaction::{bad, none, transaction_id};
use super::{Api, not_recording};
use crate::audit::Action;
use crate::problem::Problem;
use crate::resubmit::{
    Attempt, Job, JobAction, NewJob, Refusal, Resolve, Resubmission, RunJob, Wish,
};
use crate::tokens::Caller;
use crate::tracker::{Failure, SearchFailure};
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

/// Longest body of a request here.
pub(super) const LONGEST: usize = 8 << 20;
/// Longest comment.
const COMMENT: usize = 1000;
/// Longest text about an edit in the audit: a hundred names of headers are shorter.
const LONGEST_EDIT: usize = 64 << 10;
/// Longest query of a job, as of any search, and longest name of an operation.
const LONGEST_QUERY: usize = 4096;
const LONGEST_NAME: usize = 1024;
/// Jobs that are listed if nobody says how many, and at most.
const JOBS: usize = 50;
const MOST_JOBS: usize = 1000;

/// What a body says; nothing at all is what there is by default.
pub(super) fn read<T: DeserializeOwned + Default>(body: &Bytes) -> Result<T, Problem> {
    if body.is_empty() {
        return Ok(T::default());
    }
    serde_json::from_slice(body).map_err(|error| {
        // Where it is wrong, never what is there: it may be payload.
        bad(format!("line {}, column {}: {}", error.line(), error.column(), kind(&error)))
    })
}

fn kind(error: &serde_json::Error) -> &'static str {
    match error.classify() {
        serde_json::error::Category::Data => "a member is unknown, missing or of another type",
        _ => "this is no JSON",
    }
}

/// Send a transaction again
///
/// As it was, edited, or to another route; on behalf of whoever sent it. Waits up to a minute for
/// the answer; later it is still `sending`.
#[utoipa::path(post, path = "/v1/transactions/{id}/resubmit", tag = "resubmission",
    extensions(("x-weir-role" = json!("operator"))), request_body = Wish,
    params(("id" = String, Path, description = "The transaction id.")),
    responses(
        (status = 200, description = "It was sent, or refused by the policies of now.", body = Attempt),
        (status = 400, description = "This is no transaction id, or what is edited cannot be."),
        (status = 404, description = "It is not kept here."),
        (status = 409, description = "It cannot be sent: `reason` is the code of why not."),
        (status = 503, description = "There is no room for it, or the index is behind.")))]
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
        return Err(bad("There are too many edits of headers, or too long names.".to_owned()));
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

/// What of a wish is written down: no payload.
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
            let title = "It cannot be resubmitted";
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

/// Say what became of a transaction
#[utoipa::path(post, path = "/v1/transactions/{id}/resolution", tag = "resubmission",
    extensions(("x-weir-role" = json!("operator"))), request_body = Resolve,
    params(("id" = String, Path, description = "The transaction id.")),
    responses(
        (status = 204, description = "It is written down."),
        (status = 400, description = "This is no transaction id, or no resolution."),
        (status = 404, description = "It is not kept here."),
        (status = 409, description = "It did not fail.")))]
pub(super) async fn resolve(
    State(api): State<Arc<Api>>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
    body: Bytes,
) -> Result<Response, Problem> {
    let id = transaction_id(&id)?;
    let wanted: Resolve = read(&body)?;
    if !["open", "resolved", "dismissed"].contains(&wanted.state.as_str()) {
        return Err(bad("`state` is `resolved`, `dismissed` or `open`.".to_owned()));
    }
    if wanted.comment.len() > COMMENT || wanted.comment.chars().any(char::is_control) {
        return Err(bad(format!("`comment` is one line of at most {COMMENT} bytes.")));
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

/// A rate that a job can have.
fn check_rate(rate: Option<f64>) -> Result<(), Problem> {
    match rate {
        Some(rate) if !(0.001..=100_000.0).contains(&rate) => {
            Err(bad("`rate` is a number of requests a second, up to 100000.".to_owned()))
        }
        _ => Ok(()),
    }
}

/// Make a job: all that a query finds, to be sent again
///
/// It first finds out what can be sent and what cannot, and why; it sends when it is run.
#[utoipa::path(post, path = "/v1/jobs", tag = "resubmission", request_body = NewJob,
    extensions(("x-weir-role" = json!("operator"))),
    responses(
        (status = 201, description = "The job.", body = Job),
        (status = 400, description = "The query or the rate is wrong.")))]
pub(super) async fn make(
    State(api): State<Arc<Api>>,
    Extension(caller): Extension<Caller>,
    body: Bytes,
) -> Result<(StatusCode, Json<Job>), Problem> {
    let wanted: NewJob = read(&body)?;
    check_rate(wanted.rate)?;
    if wanted.query.trim().is_empty() {
        return Err(bad("`query` says what is sent again.".to_owned()));
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

/// How many are wanted.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Listed {
    /// Most jobs, 1 to 1000; 50 if it is not said.
    limit: Option<usize>,
}

/// The last jobs, newest first
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
    text.parse().map_err(|_| bad("The number of a job is a number.".to_owned()))
}

fn no_job() -> Problem {
    Problem {
        status: StatusCode::NOT_FOUND,
        kind: "no-job",
        title: "There is no such job",
        place: None,
        detail: "It was never made, or is kept no longer.".to_owned(),
    }
}

/// Show a job
#[utoipa::path(get, path = "/v1/jobs/{number}", tag = "resubmission",
    extensions(("x-weir-role" = json!("operator"))),
    params(("number" = i64, Path, description = "Its number.")),
    responses(
        (status = 200, description = "The job.", body = Job),
        (status = 404, description = "There is none with this number.")))]
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
/// `run` also goes on with one that was paused.
#[utoipa::path(post, path = "/v1/jobs/{number}/{action}", tag = "resubmission",
    extensions(("x-weir-role" = json!("operator"))), request_body = RunJob,
    params(
        ("number" = i64, Path, description = "Its number."),
        ("action" = String, Path, description = "`run`, `pause` or `cancel`.")),
    responses(
        (status = 200, description = "The job as it is then.", body = Job),
        (status = 404, description = "There is none with this number, or no such action."),
        (status = 409, description = "It has ended, so that cannot be done with it.")))]
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
            detail: format!("It is {}.", job.state),
        }),
    }
}

impl Api {
    /// Asks for something of resubmission, which may block, when it is its turn.
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
