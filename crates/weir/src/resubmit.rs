//! Resubmission put together: the Tracker's jobs and single requests on one side, the gateway's door
//! on the other, and what the admin API shows of it.

use crate::tracker::convert::{id, time};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use std::sync::Arc;
use std::time::Duration;
use weir_admin::failure::{Failure, SearchFailure};
use weir_admin::resubmit as shown;
use weir_gateway::Gateway;
use weir_gateway::injection::{self, Resubmission};
use weir_resubmit::{
    Edit, GatewayClient, OnDone, Options, ResubmitError, ResubmitRequest, Resubmitter,
};
use weir_store::ledger::{
    self, AttemptOutcome, Job, JobAction, NewJob, Reason, Resolution, StateCount,
};
use weir_tracker::Error;

/// Longest wait for the response to a single request.
const SINGLE_TIMEOUT: Duration = Duration::from_secs(60);

/// Access to the data path for resubmission.
pub(crate) fn gateway_client(gateway: &Arc<Gateway>) -> GatewayClient {
    let (config, check, send) = (Arc::clone(gateway), Arc::clone(gateway), Arc::clone(gateway));
    GatewayClient {
        config: Box::new(move || config.config()),
        check: Box::new(move |request| {
            check.would_resubmit(&replay(request.clone())).map_err(reason)
        }),
        send: Box::new(move |request, on_done| {
            let on_end: injection::OnDone = Box::new(move |ended| on_done(outcome(ended)));
            match send.resubmit(Box::new(replay(request)), on_end) {
                Ok(()) => Ok(()),
                Err((returned, on_end)) => {
                    let on_done: OnDone = Box::new(move |_| drop(on_end));
                    Err(Box::new((request_of(*returned), on_done)))
                }
            }
        }),
    }
}

fn replay(request: ResubmitRequest) -> Resubmission {
    Resubmission {
        id: request.id.to_be_bytes(),
        of: request.original.to_be_bytes(),
        api: request.api,
        to: request.destination,
        method: request.method,
        target: request.target,
        headers: request.headers,
        body: request.body,
        edited: request.edited,
        client: request.client,
        https: request.https,
        auth: request.auth,
        principal: request.principal,
        consumer: request.consumer,
        scopes: request.scopes,
    }
}

fn request_of(replay: Resubmission) -> ResubmitRequest {
    ResubmitRequest {
        id: u128::from_be_bytes(replay.id),
        original: u128::from_be_bytes(replay.of),
        api: replay.api,
        destination: replay.to,
        method: replay.method,
        target: replay.target,
        headers: replay.headers,
        body: replay.body,
        edited: replay.edited,
        client: replay.client,
        https: replay.https,
        auth: replay.auth,
        principal: replay.principal,
        consumer: replay.consumer,
        scopes: replay.scopes,
    }
}

fn outcome(ended: injection::Ended) -> AttemptOutcome {
    match ended {
        injection::Ended::Answered { status, problem } => {
            AttemptOutcome::Response(status, problem.map(weir_http::problem::Problem::slug))
        }
        injection::Ended::Broken { status } => AttemptOutcome::Aborted(status),
        injection::Ended::Refused(why) => AttemptOutcome::Rejected(reason(why)),
        injection::Ended::Lost => AttemptOutcome::Unknown,
    }
}

fn reason(refused: injection::Refused) -> Reason {
    match refused {
        injection::Refused::ConsumerGone => Reason::ConsumerGone,
        injection::Refused::ScopeMissing => Reason::ScopeMissing,
        injection::Refused::NotAdmitted => Reason::NotAdmitted,
        injection::Refused::RouteGone => Reason::RouteGone,
        injection::Refused::TargetNotListed => Reason::TargetNotListed,
        injection::Refused::TargetUnfit => Reason::TargetUnfit,
        injection::Refused::LimitReached => Reason::LimitReached,
        injection::Refused::Rejected(problem) => Reason::Rejected(problem.slug().to_owned()),
    }
}

/// What the admin API asks.
pub(crate) fn doors(resubmitter: &Resubmitter) -> shown::Resubmission {
    let all: [Resubmitter; 6] = std::array::from_fn(|_| resubmitter.clone());
    let [one, resolver, maker, jobs, job, act] = all;
    shown::Resubmission {
        resubmit: Box::new(move |(id, wish, who)| {
            let options = options(wish)?;
            let done = one.resubmit(*id, &options, who, SINGLE_TIMEOUT).map_err(refusal)?;
            Ok(attempt(done, true))
        }),
        resolve: Box::new(move |(id, wanted, who)| {
            let state = Resolution::from_name(&wanted.state)
                .ok_or_else(|| shown::Refusal::Bad("unknown resolution".to_owned()))?;
            resolver.resolve(*id, state, who, &wanted.comment).map_err(refusal)
        }),
        make: Box::new(move |(new, who)| make(&maker, new, who)),
        jobs: Box::new(move |limit| {
            let found = jobs.ledger().jobs(*limit).map_err(failed)?;
            found.into_iter().map(|one| job_of(&jobs, one)).collect()
        }),
        job: Box::new(move |number| {
            let found = job.ledger().job(*number).map_err(failed)?;
            found.map(|one| job_of(&job, one)).transpose()
        }),
        act: Box::new(move |(number, action, how)| {
            let action = match action {
                shown::JobAction::Run => JobAction::Run { rate: how.rate, again: how.again },
                shown::JobAction::Pause => JobAction::Pause,
                shown::JobAction::Cancel => JobAction::Cancel,
            };
            let found = act.act(*number, action).map_err(failed)?;
            found.map(|(one, done)| Ok((job_of(&act, one)?, done))).transpose()
        }),
    }
}

fn options(wish: &shown::Wish) -> Result<Options, shown::Refusal> {
    let bad = |text: &str| shown::Refusal::Bad(text.to_owned());
    let body = match (&wish.body, &wish.body_base64) {
        (Some(_), Some(_)) => return Err(bad("`body` and `body_base64` exclude each other.")),
        (Some(text), None) => Some(text.clone().into_bytes()),
        (None, Some(text)) => {
            Some(STANDARD.decode(text).map_err(|_| bad("`body_base64` is not base64."))?)
        }
        (None, None) => None,
    };
    let set = wish.headers.set.iter().map(|line| (line.name.clone(), line.value.clone()));
    let edit = Edit {
        query: wish.query.clone(),
        set: set.collect(),
        remove: wish.headers.remove.clone(),
        body,
    };
    Ok(Options { edit, destination: wish.to.clone(), again: wish.again })
}

fn make(
    resubmitter: &Resubmitter,
    new: &shown::NewJob,
    who: &str,
) -> Result<shown::Job, SearchFailure> {
    crate::tracker::understood(&new.query)?;
    let made = NewJob {
        query: new.query.clone(),
        destination: new.to.clone().unwrap_or_default(),
        again: new.again,
        rate: new.rate.unwrap_or(shown::RATE),
        run: new.run,
    };
    let made = resubmitter.new_job(&made, who).map_err(|e| SearchFailure::Failed(failed(e)))?;
    job_of(resubmitter, made).map_err(SearchFailure::Failed)
}

fn job_of(resubmitter: &Resubmitter, job: Job) -> Result<shown::Job, Failure> {
    let counted = resubmitter.ledger().state_counts(job.number).map_err(failed)?;
    let count = |one: StateCount| shown::JobCount {
        words: Reason::from_code(&one.reason).map(|reason| reason.words()).unwrap_or_default(),
        state: one.state,
        reason: one.reason,
        count: one.count,
    };
    Ok(shown::Job {
        number: job.number,
        query: job.query,
        state: job.state.name().to_owned(),
        rate: job.rate,
        to: job.destination,
        again: job.again,
        run: job.run,
        who: job.who,
        incomplete: job.incomplete,
        transactions: counted.into_iter().map(count).collect(),
        created: time(job.created),
        began: job.started.map(time),
        ended: job.ended.map(time),
    })
}

/// An attempt as it is shown; what was edited only to those who may see payloads.
pub(crate) fn attempt(attempt: ledger::Attempt, payload: bool) -> shown::Attempt {
    let difference = serde_json::from_str(&attempt.difference).ok().filter(|_| payload);
    let refused = attempt.state == ledger::AttemptState::Refused;
    let words = Reason::from_code(&attempt.reason).filter(|_| refused).map(|reason| reason.words());
    shown::Attempt {
        id: id(attempt.id),
        original: id(attempt.original),
        number: attempt.number,
        state: attempt.state.name().to_owned(),
        status: attempt.status,
        reason: attempt.reason,
        words: words.unwrap_or_default(),
        who: attempt.who,
        job: attempt.job,
        to: attempt.destination,
        difference,
        began: time(attempt.started),
        ended: attempt.ended.map(time),
    }
}

fn refusal(error: ResubmitError) -> shown::Refusal {
    match error {
        ResubmitError::NotFound => shown::Refusal::NotFound,
        ResubmitError::Edit(why) => shown::Refusal::Bad(format!("{why}.")),
        ResubmitError::Rejected(reason) => shown::Refusal::Cannot(reason.code(), reason.words()),
        ResubmitError::NotFailed => {
            shown::Refusal::Cannot("not-failed".to_owned(), error.to_string())
        }
        ResubmitError::Busy => shown::Refusal::Busy,
        ResubmitError::Index(Error::Behind) => shown::Refusal::Failed(Failure::Behind),
        other => shown::Refusal::Failed(failed(other)),
    }
}

fn failed(error: impl std::fmt::Display) -> Failure {
    Failure::Unreadable(error.to_string())
}
