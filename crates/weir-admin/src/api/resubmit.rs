//! Resubmission of transactions, jobs and resolutions.

use super::transaction::{NONE, transaction_id};
use super::{Api, Call, NOT_RECORDING, permit};
use crate::access::BASE;
use crate::audit::Action;
use crate::problem::{Params, Problem, Result};
use crate::resubmit::{Resolve, ResubmitBody, RunJob};
use axum::Json;
use axum::body::Bytes;
use axum::extract::Path;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;
use utoipa::IntoParams;
use weir_resubmit::{ResubmitError, Resubmitter};
use weir_store::clock::now_us;
use weir_store::ledger::{Attempt, Job, JobAction, NewJob, Resolution};
use weir_tracker::{Error, Query as TransactionQuery, SearchError, TrackerError};

/// Longest comment.
const MAX_COMMENT_BYTES: usize = 1000;
/// Longest description of edits in the audit log: more than a hundred header names.
const MAX_EDIT_BYTES: usize = 64 << 10;
/// Longest query of a job, as of any search, and longest name of an operation.
const MAX_QUERY_BYTES: usize = 4096;
const MAX_NAME_BYTES: usize = 1024;
/// Default and largest number of listed jobs.
const JOBS: usize = 50;
const MAX_JOBS: usize = 1000;

/// Longest wait for the response to a single resubmission.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(60);

/// Parses a JSON body; an empty body is the default value.
pub(super) fn read<T: DeserializeOwned + Default>(body: &Bytes) -> Result<T> {
    if body.is_empty() {
        return Ok(T::default());
    }
    serde_json::from_slice(body).map_err(|error| {
        // The position of the error, never the text: it may be payload.
        Problem::bad(format!("line {}, column {}: {}", error.line(), error.column(), kind(&error)))
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
/// minute for the response; after that the state remains `sending`. In a fleet, the node that has the
/// transaction sends it, once it has claimed the attempt in the database of the fleet.
#[utoipa::path(post, path = "/v1/transactions/{id}/resubmit", tag = "resubmission",
    request_body = ResubmitBody,
    params(("id" = String, Path, description = "The transaction id.")),
    responses(
        (status = 200, description = "The transaction was sent, or rejected by a current policy.", body = Attempt),
        (status = 400, description = "Invalid transaction id or edits."),
        (status = 404, description = "Unknown transaction."),
        (status = 409, description = "The transaction cannot be sent: `reason` is the code."),
        (status = 503, description = "Too many concurrent requests, the index lags behind, or the \
            database of the fleet cannot be used.")))]
pub(super) async fn resubmit(call: Call, Path(id): Path<String>, body: Bytes) -> Result<Response> {
    let id = transaction_id(&id)?;
    if let Some(owner) = call.owner(id).await? {
        let _permit = permit(&call.api.resubmissions, "resubmissions")?;
        let target = format!("{BASE}/transactions/{id}/resubmit");
        return call.perform(owner, target, body, RESPONSE_TIMEOUT).await;
    }
    let body: ResubmitBody = read(&body)?;
    let details = edits(&body);
    if details.len() > MAX_EDIT_BYTES {
        return Err(Problem::bad("Too many header edits, or header names that are too long."));
    }
    call.audit(Action::Resubmit, id.to_string(), details).await?;
    let options = body.options().map_err(Problem::bad)?;
    let resubmit = move |resubmitter: &Resubmitter| {
        resubmitter.resubmit(id.as_u128(), &options, &call.caller.name, RESPONSE_TIMEOUT)
    };
    let attempt: Attempt = call.api.resubmission(&call.api.resubmissions, resubmit).await?;
    Ok(Json(attempt).into_response())
}

/// The description of edits for the audit log, without payload.
fn edits(body: &ResubmitBody) -> String {
    let set: Vec<&str> = body.headers.set.iter().map(|line| line.name.as_str()).collect();
    let edited = json!({
        "query": body.query.is_some(),
        "headers_set": set,
        "headers_removed": body.headers.remove,
        "body": body.body.is_some() || body.body_base64.is_some(),
        "to": body.to,
        "again": body.again,
    });
    if *body == ResubmitBody::default() { String::new() } else { edited.to_string() }
}

impl From<ResubmitError> for Problem {
    fn from(error: ResubmitError) -> Self {
        let (code, text) = match &error {
            ResubmitError::Rejected(reason) => (reason.code(), reason.words()),
            ResubmitError::NotFailed => ("not-failed".to_owned(), error.to_string()),
            ResubmitError::NotFound => return NONE,
            ResubmitError::Edit(detail) => return Self::bad(format!("{detail}.")),
            ResubmitError::Busy => return super::busy("requests"),
            ResubmitError::NotClaimed(_) => {
                return Self::new(
                    StatusCode::SERVICE_UNAVAILABLE,
                    "no-database",
                    "The transaction was not sent",
                    format!("{error}."),
                );
            }
            ResubmitError::Index(Error::Behind) => return TrackerError::Behind.into(),
            ResubmitError::Index(_) | ResubmitError::Database(_) => {
                return TrackerError::unreadable(error).into();
            }
        };
        let problem = Self::new(
            StatusCode::CONFLICT,
            "not-resubmittable",
            "The transaction cannot be resubmitted",
            format!("{text} ({code})"),
        );
        Self { reason: Some(code), ..problem }
    }
}

/// Set the resolution of a transaction
#[utoipa::path(post, path = "/v1/transactions/{id}/resolution", tag = "resubmission",
    request_body = Resolve,
    params(("id" = String, Path, description = "The transaction id.")),
    responses(
        (status = 204, description = "The resolution was set."),
        (status = 400, description = "Invalid transaction id or resolution."),
        (status = 404, description = "Unknown transaction."),
        (status = 409, description = "The transaction did not fail.")))]
pub(super) async fn resolve(call: Call, Path(id): Path<String>, body: Bytes) -> Result<Response> {
    let id = transaction_id(&id)?;
    if let Some(owner) = call.owner(id).await? {
        let target = format!("{BASE}/transactions/{id}/resolution");
        return call.perform(owner, target, body, super::nodes::DEADLINE).await;
    }
    let Resolve { state, comment } = read(&body)?;
    let resolution = state.parse().ok().filter(|state| *state != Resolution::Resubmitted);
    let Some(resolution) = resolution else {
        return Err(Problem::bad("`state` must be `resolved`, `dismissed` or `open`."));
    };
    if comment.len() > MAX_COMMENT_BYTES || comment.chars().any(char::is_control) {
        return Err(Problem::bad(format!(
            "`comment` must be one line of at most {MAX_COMMENT_BYTES} bytes."
        )));
    }
    let details = json!({"state": state, "comment": comment}).to_string();
    call.audit(Action::Resolve, id.to_string(), details).await?;
    let resolve = move |resubmitter: &Resubmitter| {
        resubmitter.resolve(id.as_u128(), resolution, &call.caller.name, &comment)
    };
    call.api.resubmission(&call.api.jobs, resolve).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// Checks the rate of a job.
fn check_rate(rate: Option<f64>) -> Result<()> {
    match rate {
        Some(rate) if !(0.001..=100_000.0).contains(&rate) => {
            Err(Problem::bad("`rate` must be a number of requests per second, at most 100000."))
        }
        _ => Ok(()),
    }
}

/// Create a job: bulk resubmission of the result of a query
///
/// The job first determines the transactions that can be sent, and the rejection reasons of the
/// others. It sends them when it is run.
#[utoipa::path(post, path = "/v1/jobs", tag = "resubmission", request_body = NewJob,
    responses(
        (status = 201, description = "The job.", body = Job),
        (status = 400, description = "The query or the rate is invalid.")))]
pub(super) async fn create(call: Call, body: Bytes) -> Result<(StatusCode, Json<Job>)> {
    let new: NewJob = read(&body)?;
    check_rate(new.rate)?;
    if new.query.trim().is_empty() {
        return Err(Problem::bad("`query` is required: it selects the transactions."));
    }
    let name = new.destination.as_ref().map_or(0, String::len);
    if new.query.len() > MAX_QUERY_BYTES || name > MAX_NAME_BYTES {
        return Err(Problem::bad(format!(
            "`query` has at most {MAX_QUERY_BYTES} bytes, `to` {MAX_NAME_BYTES}."
        )));
    }
    let details = json!({"rate": new.rate, "to": new.destination, "again": new.again,
        "run": new.run});
    call.audit(Action::MakeJob, new.query.as_str(), details.to_string()).await?;
    let create = move |resubmitter: &Resubmitter| {
        TransactionQuery::parse(&new.query, now_us())?;
        let job = resubmitter.new_job(&new, &call.caller.name);
        let job = job.and_then(|job| resubmitter.ledger().with_counts(job));
        Ok::<_, SearchError>(job.map_err(TrackerError::unreadable)?)
    };
    let job = call.api.resubmission(&call.api.jobs, create).await?;
    Ok((StatusCode::CREATED, Json(job)))
}

/// The number of jobs.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct JobListParams {
    /// Maximum number of jobs, 1 to 1000; default 50.
    limit: Option<usize>,
}

/// List jobs, newest first
#[utoipa::path(get, path = "/v1/jobs", tag = "resubmission", params(JobListParams),
    responses((status = 200, description = "The jobs.", body = Vec<Job>)))]
pub(super) async fn list(
    call: Call,
    Params(params): Params<JobListParams>,
) -> Result<Json<Vec<Job>>> {
    let limit = super::transaction::limit(params.limit, JOBS, MAX_JOBS)?;
    let list = move |resubmitter: &Resubmitter| {
        let ledger = resubmitter.ledger();
        let jobs = ledger.jobs(limit).map_err(TrackerError::unreadable)?.into_iter();
        let counted = jobs.map(|job| ledger.with_counts(job).map_err(TrackerError::unreadable));
        counted.collect::<Result<Vec<_>, _>>()
    };
    call.api.resubmission(&call.api.jobs, list).await.map(Json)
}

fn number(text: &str) -> Result<i64> {
    text.parse().map_err(|_| Problem::bad("The job number must be an integer."))
}

const NO_JOB: Problem = Problem::fixed(
    StatusCode::NOT_FOUND,
    "no-job",
    "Unknown job",
    "The job was never created, or its retention has ended.",
);

/// Show a job
#[utoipa::path(get, path = "/v1/jobs/{number}", tag = "resubmission",
    params(("number" = i64, Path, description = "Job number.")),
    responses(
        (status = 200, description = "The job.", body = Job),
        (status = 404, description = "Unknown job.")))]
pub(super) async fn show(call: Call, Path(text): Path<String>) -> Result<Json<Job>> {
    let number = number(&text)?;
    let find = move |resubmitter: &Resubmitter| {
        let ledger = resubmitter.ledger();
        let found =
            ledger.job(number).and_then(|job| job.map(|job| ledger.with_counts(job)).transpose());
        found.map_err(TrackerError::unreadable)
    };
    let found = call.api.resubmission(&call.api.jobs, find).await?;
    found.map(Json).ok_or(NO_JOB)
}

/// Run, pause or cancel a job
///
/// `run` also resumes a paused job.
#[utoipa::path(post, path = "/v1/jobs/{number}/{action}", tag = "resubmission",
    request_body = RunJob,
    params(
        ("number" = i64, Path, description = "Job number."),
        ("action" = String, Path, description = "`run`, `pause` or `cancel`.")),
    responses(
        (status = 200, description = "The job after the action.", body = Job),
        (status = 404, description = "Unknown job or action."),
        (status = 409, description = "The job has ended, so the action is not possible.")))]
pub(super) async fn act(
    call: Call,
    Path((text, action)): Path<(String, String)>,
    body: Bytes,
) -> Result<Json<Job>> {
    let number = number(&text)?;
    if !matches!(action.as_str(), "run" | "pause" | "cancel") {
        return Err(NO_JOB);
    }
    let RunJob { rate, again } = read(&body)?;
    check_rate(rate)?;
    let (audited, action) = match action.as_str() {
        "run" => (Action::RunJob, JobAction::Run { rate, again }),
        "pause" => (Action::PauseJob, JobAction::Pause),
        _ => (Action::CancelJob, JobAction::Cancel),
    };
    let details = json!({"rate": rate, "again": again}).to_string();
    call.audit(audited, number.to_string(), details).await?;
    let act = move |resubmitter: &Resubmitter| {
        let found = resubmitter.act(number, action).map_err(TrackerError::unreadable)?;
        let Some((job, done)) = found else { return Ok::<_, TrackerError>(None) };
        let job = resubmitter.ledger().with_counts(job).map_err(TrackerError::unreadable)?;
        Ok(Some((job, done)))
    };
    let found = call.api.resubmission(&call.api.jobs, act).await?;
    match found {
        None => Err(NO_JOB),
        Some((job, true)) => Ok(Json(job)),
        Some((job, false)) => Err(Problem::new(
            StatusCode::CONFLICT,
            "job-over",
            "The job has ended",
            format!("Its state is {}.", job.state),
        )),
    }
}

impl Api {
    /// Runs a query or action of resubmission, which may block, within a limit of concurrency.
    async fn resubmission<T, E>(
        &self,
        permits: &Arc<Semaphore>,
        query: impl FnOnce(&Resubmitter) -> Result<T, E> + Send + 'static,
    ) -> Result<T>
    where
        T: Send + 'static,
        E: Into<Problem> + Send + 'static,
    {
        let find = move |sources: &crate::Sources| sources.resubmitter.as_ref().map(query);
        self.query(permits, NOT_RECORDING, find).await
    }
}
