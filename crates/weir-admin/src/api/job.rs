//! Jobs: bulk resubmission. In a fleet whose nodes query each other they are those of the fleet.

use super::resubmit::read;
use super::{Api, Call};
use crate::audit::Action;
use crate::problem::{Params, Problem, Result};
use crate::resubmit::RunJob;
use axum::Json;
use axum::body::Bytes;
use axum::extract::Path;
use axum::http::StatusCode;
use serde::Deserialize;
use serde_json::json;
use utoipa::IntoParams;
use weir_fleet::Handle;
use weir_fleet::database::DatabaseError;
use weir_resubmit::{FindItems, FoundItems, Resubmitter, SendItems, SentItems};
use weir_store::clock::now_us;
use weir_store::ledger::{Job, JobAction, NewJob};
use weir_tracker::{Query as TransactionQuery, SearchError, TrackerError, is_permitted};

/// Longest query of a job, as of any search, and longest name of an operation.
const MAX_QUERY_BYTES: usize = 4096;
const MAX_NAME_BYTES: usize = 1024;
/// In place of a query that its reader may not see.
const HIDDEN: &str = "(hidden: it searches payloads)";
/// Default and largest number of listed jobs.
const JOBS: usize = 50;
const MAX_JOBS: usize = 1000;

/// Checks the rate of a job.
pub(super) fn check_rate(rate: Option<f64>) -> Result<()> {
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
        (status = 400, description = "The query or the rate is invalid."),
        (status = 403, description = "The query searches payloads, which the caller may not read."),
        (status = 503, description = "The database of the fleet cannot be used.")))]
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
    call.may_select(&new.query)?;
    let details = json!({"rate": new.rate, "to": new.destination, "again": new.again,
        "run": new.run});
    call.audit(Action::MakeJob, new.query.as_str(), details.to_string()).await?;
    if let Some(fleet) = call.api.fleet_jobs() {
        let job = fleet.new_job(&new, &call.caller.name).await.map_err(no_database)?;
        call.api.count(Resubmitter::count_created);
        return Ok((StatusCode::CREATED, Json(job)));
    }
    let create = move |resubmitter: &Resubmitter| {
        let job = resubmitter.new_job(&new, &call.caller.name);
        let job = job.and_then(|job| resubmitter.ledger().with_counts(job));
        job.map_err(TrackerError::unreadable)
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
    if let Some(fleet) = call.api.fleet_jobs() {
        let jobs = fleet.jobs(limit).await.map_err(no_database)?;
        return Ok(Json(jobs.into_iter().map(|job| call.shown(job)).collect()));
    }
    let list = move |resubmitter: &Resubmitter| {
        let ledger = resubmitter.ledger();
        let jobs = ledger.jobs(limit).map_err(TrackerError::unreadable)?.into_iter();
        let counted = jobs.map(|job| ledger.with_counts(job).map_err(TrackerError::unreadable));
        counted.collect::<Result<Vec<_>, _>>()
    };
    let jobs = call.api.resubmission(&call.api.jobs, list).await?;
    Ok(Json(jobs.into_iter().map(|job| call.shown(job)).collect()))
}

pub(super) fn number(text: &str) -> Result<i64> {
    text.parse().map_err(|_| Problem::bad("The job number must be an integer."))
}

pub(super) const NO_JOB: Problem = Problem::fixed(
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
    call.api.job(number(&text)?).await.map(|job| Json(call.shown(job)))
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
        (status = 503, description = "The database of the fleet cannot be used."),
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
    let found = match call.api.fleet_jobs() {
        Some(fleet) => fleet.act_on_job(number, action).await.map_err(no_database)?,
        None => act_here(&call.api, number, action).await?,
    };
    match found {
        None => Err(NO_JOB),
        Some((job, true)) => Ok(Json(call.shown(job))),
        Some((job, false)) => Err(Problem::new(
            StatusCode::CONFLICT,
            "job-over",
            "The job has ended",
            format!("Its state is {}.", job.state),
        )),
    }
}

/// Carries out a command on a job of this node.
async fn act_here(api: &Api, number: i64, action: JobAction) -> Result<Option<(Job, bool)>> {
    let act = move |resubmitter: &Resubmitter| {
        let found = resubmitter.act(number, action).map_err(TrackerError::unreadable)?;
        let Some((job, done)) = found else { return Ok::<_, TrackerError>(None) };
        let job = resubmitter.ledger().with_counts(job).map_err(TrackerError::unreadable)?;
        Ok(Some((job, done)))
    };
    api.resubmission(&api.jobs, act).await
}

/// Find the transactions of a job of the fleet on this node (requests of other nodes only)
#[utoipa::path(post, path = "/v1/fleet/jobs/find", tag = "fleet", request_body = FindItems,
    responses(
        (status = 200, description = "A page of transactions.", body = FoundItems),
        (status = 403, description = "The request is not from another node."),
        (status = 409, description = "Recording or indexing is off."),
        (status = 503, description = "The index lags behind.")))]
pub(super) async fn find_items(call: Call, body: Bytes) -> Result<Json<FoundItems>> {
    call.must_be_node()?;
    let find: FindItems = read(&body)?;
    let find = move |resubmitter: &Resubmitter| resubmitter.find_items(&find);
    call.api.resubmission(&call.api.jobs, find).await.map(Json)
}

/// Send transactions of a job of the fleet that this node has (requests of other nodes only)
///
/// Each is sent once it is claimed in the database of the fleet, under the lease of the node that runs the
/// job.
#[utoipa::path(post, path = "/v1/fleet/jobs/send", tag = "fleet", request_body = SendItems,
    responses(
        (status = 200, description = "The number of attempts.", body = SentItems),
        (status = 403, description = "The request is not from another node."),
        (status = 409, description = "Recording or indexing is off."),
        (status = 503, description = "The database of the fleet cannot be used.")))]
pub(super) async fn send_items(call: Call, body: Bytes) -> Result<Json<SentItems>> {
    call.must_be_node()?;
    let send: SendItems = read(&body)?;
    let send = move |resubmitter: &Resubmitter| resubmitter.send_items(&send);
    call.api.resubmission(&call.api.jobs, send).await.map(Json)
}

impl Call {
    /// Whether the caller may create a job for the hits of a query. The job finds words of payloads also for a
    /// text that is an id, so this is stricter than for a search.
    fn may_select(&self, query: &str) -> Result<()> {
        let query = TransactionQuery::parse(query, now_us()).map_err(SearchError::from)?;
        if query.needs_payload() && !self.caller.reads_payloads() {
            return Err(self.caller.no_payloads("Searching payloads"));
        }
        Ok(())
    }

    /// A job as the caller may see it: the query may tell payloads.
    pub(super) fn shown(&self, job: Job) -> Job {
        if self.caller.reads_payloads() || is_permitted(&job.query, false, &[]) {
            return job;
        }
        Job { query: HIDDEN.to_owned(), ..job }
    }

    fn must_be_node(&self) -> Result<()> {
        if self.caller.via.is_some() { Ok(()) } else { Err(NODES_ONLY) }
    }
}

impl Api {
    /// A job with the numbers of its transactions.
    pub(super) async fn job(&self, number: i64) -> Result<Job> {
        if let Some(fleet) = self.fleet_jobs() {
            return fleet.job(number).await.map_err(no_database)?.ok_or(NO_JOB);
        }
        let find = move |resubmitter: &Resubmitter| {
            let ledger = resubmitter.ledger();
            let found = ledger
                .job(number)
                .and_then(|job| job.map(|job| ledger.with_counts(job)).transpose());
            found.map_err(TrackerError::unreadable)
        };
        self.resubmission(&self.jobs, find).await?.ok_or(NO_JOB)
    }

    /// The fleet, if its jobs are those of all nodes: with a key, nodes have each other send.
    pub(super) fn fleet_jobs(&self) -> Option<&Handle> {
        let fleet = self.sources.fleet.as_ref().filter(|fleet| fleet.peers().is_some());
        fleet.filter(|_| self.sources.resubmitter.is_some())
    }

    pub(super) fn count(&self, count: fn(&Resubmitter)) {
        self.sources.resubmitter.iter().for_each(count);
    }
}

pub(super) fn no_database(error: DatabaseError) -> Problem {
    Problem::new(
        StatusCode::SERVICE_UNAVAILABLE,
        "no-database",
        "The database of the fleet cannot be used",
        format!("{error}."),
    )
}

const NODES_ONLY: Problem = Problem::fixed(
    StatusCode::FORBIDDEN,
    "nodes-only",
    "For nodes of the fleet only",
    "Nodes request this of each other; use POST /v1/jobs.",
);
