//! Transactions of a job, and the retry of some of them.

use super::Call;
use super::job::{NO_JOB, check_rate, no_database, number};
use super::resubmit::read;
use super::transaction::{limit, transaction_id};
use crate::audit::Action;
use crate::problem::{Params, Problem, Result};
use axum::Json;
use axum::body::Bytes;
use axum::extract::Path;
use axum::http::StatusCode;
use serde::Deserialize;
use serde_json::json;
use utoipa::IntoParams;
use weir_resubmit::Resubmitter;
use weir_store::ledger::{
    ItemState, Job, JobTransactions, ListItems, RetryBlocker, RetryJob, states_text,
};
use weir_tracker::TrackerError;

/// Default and largest number of transactions on a page.
const PAGE: usize = 100;
const MAX_PAGE: usize = 1000;

/// Filters of the transactions of a job.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct ItemParams {
    /// States, separated by commas: those of a transaction of a job, or `sent` (`succeeded` and
    /// `failed`) and `rejected` (`cannot` and `refused`); default: all.
    state: Option<String>,
    /// Code of a reason.
    reason: Option<String>,
    /// Maximum number of transactions, 1 to 1000; default 100.
    limit: Option<usize>,
    /// `next` of the previous page.
    after: Option<String>,
}

impl ItemParams {
    fn list(self) -> Result<ListItems> {
        Ok(ListItems {
            states: states(self.state.as_deref().unwrap_or_default())?,
            reason: self.reason.filter(|reason| !reason.is_empty()),
            after: self.after.as_deref().map(transaction_id).transpose()?.map(|id| id.as_u128()),
            limit: limit(self.limit, PAGE, MAX_PAGE)?,
        })
    }
}

/// The states of a text; none if it is empty.
fn states(text: &str) -> Result<Vec<ItemState>> {
    let mut states = Vec::new();
    for name in text.split(',').map(str::trim).filter(|name| !name.is_empty()) {
        match name {
            "sent" => states.extend([ItemState::Succeeded, ItemState::Failed]),
            "rejected" => states.extend([ItemState::Cannot, ItemState::Refused]),
            name => states.push(name.parse().map_err(|_| {
                Problem::bad(
                    "`state` is a list of `pending`, `sending`, `succeeded`, `failed`, `cannot`, `refused`, \
                     `unknown`, `cancelled`, `sent` and `rejected`.",
                )
            })?),
        }
    }
    states.dedup();
    Ok(states)
}

/// List the transactions of a job, newest first
///
/// `matching` is the number of all that the filter selects, on the first page only; `next` is present if there
/// are more.
#[utoipa::path(get, path = "/v1/jobs/{number}/items", tag = "resubmission",
    params(("number" = i64, Path, description = "Job number."), ItemParams),
    responses(
        (status = 200, description = "A page of transactions.", body = JobTransactions),
        (status = 400, description = "A filter is invalid."),
        (status = 404, description = "Unknown job."),
        (status = 503, description = "The database of the fleet cannot be used.")))]
pub(super) async fn list(
    call: Call,
    Path(text): Path<String>,
    Params(params): Params<ItemParams>,
) -> Result<Json<JobTransactions>> {
    let (number, list) = (number(&text)?, params.list()?);
    if let Some(fleet) = call.api.fleet_jobs() {
        let found = fleet.job_transactions(number, &list).await.map_err(no_database)?;
        return found.map(Json).ok_or(NO_JOB);
    }
    let find = move |resubmitter: &Resubmitter| {
        resubmitter.ledger().job_transactions(number, &list).map_err(TrackerError::unreadable)
    };
    call.api.resubmission(&call.api.jobs, find).await?.map(Json).ok_or(NO_JOB)
}

/// Retry transactions of a job
///
/// Creates a job for the transactions of a job in some states, by default those that failed. Transactions
/// that were sent, resolved or dismissed since are not sent without `again`. The job to be retried has ended
/// or is paused.
#[utoipa::path(post, path = "/v1/jobs/{number}/retry", tag = "resubmission", request_body = RetryJob,
    params(("number" = i64, Path, description = "Number of the job to be retried.")),
    responses(
        (status = 201, description = "The new job.", body = Job),
        (status = 400, description = "A state or the rate is invalid."),
        (status = 404, description = "Unknown job."),
        (status = 409, description = "The job runs, or has no transaction in these states."),
        (status = 503, description = "The database of the fleet cannot be used.")))]
pub(super) async fn retry(
    call: Call,
    Path(text): Path<String>,
    body: Bytes,
) -> Result<(StatusCode, Json<Job>)> {
    let number = number(&text)?;
    let retry: RetryJob = read(&body)?;
    check_rate(retry.rate)?;
    if retry.states.is_empty() || !retry.states.iter().all(|state| state.can_retry()) {
        return Err(Problem::bad(
            "`states` is a list of `failed`, `unknown`, `cannot`, `refused` and `cancelled`.",
        ));
    }
    let states = states_text(&retry.states);
    let details = json!({
        "states": states, "rate": retry.rate, "again": retry.again, "run": retry.run,
    });
    call.audit(Action::RetryJob, number.to_string(), details.to_string()).await?;
    let created = match call.api.fleet_jobs() {
        Some(fleet) => {
            let created = fleet.retry_job(number, &retry, &call.caller.name).await;
            let created = created.map_err(no_database)?;
            if created.is_ok() {
                call.api.count(Resubmitter::count_created);
            }
            created
        }
        None => {
            let who = call.caller.name.clone();
            let create = move |resubmitter: &Resubmitter| {
                let created = resubmitter.retry(number, &retry, &who);
                let created = created.map_err(TrackerError::unreadable)?;
                let counted = created.map(|job| resubmitter.ledger().with_counts(job));
                match counted {
                    Ok(job) => job.map(Ok).map_err(TrackerError::unreadable),
                    Err(blocker) => Ok(Err(blocker)),
                }
            };
            call.api.resubmission(&call.api.jobs, create).await?
        }
    };
    let job = created.map_err(|blocker| problem(blocker, &states))?;
    Ok((StatusCode::CREATED, Json(call.shown(job))))
}

fn problem(blocker: RetryBlocker, states: &str) -> Problem {
    match blocker {
        RetryBlocker::NoJob => NO_JOB,
        RetryBlocker::Active(state) => Problem::new(
            StatusCode::CONFLICT,
            "job-active",
            "The job has not ended",
            format!("Its state is {state}. Wait for its end, or pause it."),
        ),
        RetryBlocker::Nothing => Problem::new(
            StatusCode::CONFLICT,
            "nothing-to-retry",
            "Nothing to retry",
            format!("No transaction of the job is {}.", states.replace(',', " or ")),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_are_names_or_groups() {
        use ItemState::{Cannot, Failed, Refused, Succeeded, Unknown};
        let of = |text| states(text).ok();
        assert_eq!(of(""), Some(Vec::new()));
        assert_eq!(of("sent, unknown"), Some(vec![Succeeded, Failed, Unknown]));
        assert_eq!(of("rejected"), Some(vec![Cannot, Refused]));
        assert_eq!(of("done"), None);
    }
}
