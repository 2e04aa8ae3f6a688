//! Resubmission put together: the Tracker's jobs and single requests on one side, the gateway's door
//! on the other, and what the admin API shows of it.

use crate::tracker::convert::{id, time};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use std::sync::Arc;
use std::time::Duration;
use weir_admin::resubmit as shown;
use weir_admin::tracker::{Failure, SearchFailure};
use weir_gateway::Gateway;
use weir_gateway::door::{self, Resubmission};
use weir_index::Error;
use weir_index::resubmit::{
    self as index, Edit, Ended, Gate, Job, JobAction, NewJob, Order, Reason, Resolution,
    Resubmitter, Wish,
};

/// How long a single request is waited for.
const PATIENCE: Duration = Duration::from_secs(60);

/// The gateway's door, as the Tracker sees it.
pub(crate) fn gate(gateway: &Arc<Gateway>) -> Gate {
    let (config, check, send) = (Arc::clone(gateway), Arc::clone(gateway), Arc::clone(gateway));
    Gate {
        config: Box::new(move || config.config()),
        check: Box::new(move |order| check.would_resubmit(&request(order.clone())).map_err(reason)),
        send: Box::new(move |order, tell| {
            let told: door::Tell = Box::new(move |ended| tell(how_ended(ended)));
            match send.resubmit(Box::new(request(order)), told) {
                Ok(()) => Ok(()),
                Err((back, told)) => {
                    let tell: index::Tell = Box::new(move |_| drop(told));
                    Err(Box::new((order_of(*back), tell)))
                }
            }
        }),
    }
}

fn request(order: Order) -> Resubmission {
    Resubmission {
        id: order.id.to_be_bytes(),
        of: order.of.to_be_bytes(),
        api: order.api,
        to: order.to,
        method: order.method,
        target: order.target,
        headers: order.headers,
        body: order.body,
        edited: order.edited,
        client: order.client,
        https: order.https,
        auth: order.auth,
        principal: order.principal,
        consumer: order.consumer,
        scopes: order.scopes,
    }
}

fn order_of(request: Resubmission) -> Order {
    Order {
        id: u128::from_be_bytes(request.id),
        of: u128::from_be_bytes(request.of),
        api: request.api,
        to: request.to,
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

fn how_ended(ended: door::Ended) -> Ended {
    match ended {
        door::Ended::Answered { status, problem } => {
            Ended::Answered(status, problem.map(weir_gateway::problem::Problem::slug))
        }
        door::Ended::Broken { status } => Ended::Broken(status),
        door::Ended::Refused(why) => Ended::Refused(reason(why)),
        door::Ended::Lost => Ended::Lost,
    }
}

fn reason(refused: door::Refused) -> Reason {
    match refused {
        door::Refused::ConsumerGone => Reason::ConsumerGone,
        door::Refused::ScopeMissing => Reason::ScopeMissing,
        door::Refused::NotAdmitted => Reason::NotAdmitted,
        door::Refused::RouteGone => Reason::RouteGone,
        door::Refused::TargetNotListed => Reason::TargetNotListed,
        door::Refused::TargetUnfit => Reason::TargetUnfit,
        door::Refused::LimitReached => Reason::LimitReached,
        door::Refused::Rejected(problem) => Reason::Rejected(problem.slug().to_owned()),
    }
}

/// What the admin API asks.
pub(crate) fn doors(resubmitter: &Resubmitter) -> shown::Resubmission {
    let all: [Resubmitter; 6] = std::array::from_fn(|_| resubmitter.clone());
    let [one, resolver, maker, jobs, job, act] = all;
    shown::Resubmission {
        resubmit: Box::new(move |(id, wish, who)| {
            let wish = wanted(wish)?;
            let done = one.resubmit(*id, &wish, who, PATIENCE).map_err(refusal)?;
            Ok(attempt(done, true))
        }),
        resolve: Box::new(move |(id, wanted, who)| {
            let state = Resolution::of(&wanted.state)
                .ok_or_else(|| shown::Refusal::Bad("there is no such resolution".to_owned()))?;
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

fn wanted(wish: &shown::Wish) -> Result<Wish, shown::Refusal> {
    let bad = |text: &str| shown::Refusal::Bad(text.to_owned());
    let body = match (&wish.body, &wish.body_base64) {
        (Some(_), Some(_)) => return Err(bad("`body` and `body_base64` exclude each other.")),
        (Some(text), None) => Some(text.clone().into_bytes()),
        (None, Some(text)) => {
            Some(STANDARD.decode(text).map_err(|_| bad("`body_base64` is no base64."))?)
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
    Ok(Wish { edit, to: wish.to.clone(), again: wish.again })
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
    let counted = resubmitter.ledger().counted(job.number).map_err(failed)?;
    let count = |one: index::Counted| shown::JobCount {
        words: Reason::of(&one.reason).map(|reason| reason.words()).unwrap_or_default(),
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
        began: job.began.map(time),
        ended: job.ended.map(time),
    })
}

/// An attempt as it is shown; what was edited only to those who may see payloads.
pub(crate) fn attempt(attempt: index::Attempt, payload: bool) -> shown::Attempt {
    let difference = serde_json::from_str(&attempt.difference).ok().filter(|_| payload);
    let refused = attempt.state == index::AttemptState::Refused;
    let words = Reason::of(&attempt.reason).filter(|_| refused).map(|reason| reason.words());
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
        began: time(attempt.began),
        ended: attempt.ended.map(time),
    }
}

fn refusal(failure: index::Failure) -> shown::Refusal {
    match failure {
        index::Failure::NotFound => shown::Refusal::NotFound,
        index::Failure::Edit(why) => shown::Refusal::Bad(format!("{why}.")),
        index::Failure::Refused(why) => shown::Refusal::Cannot(why.code(), why.words()),
        index::Failure::Masked(_) => {
            shown::Refusal::Cannot(Reason::Masked.code(), failure.to_string())
        }
        index::Failure::NotFailed => {
            let words = index::Failure::NotFailed.to_string();
            shown::Refusal::Cannot("not-failed".to_owned(), words)
        }
        index::Failure::Busy => shown::Refusal::Busy,
        index::Failure::Index(Error::Behind) => shown::Refusal::Failed(Failure::Behind),
        other => shown::Refusal::Failed(failed(other)),
    }
}

fn failed(error: impl std::fmt::Display) -> Failure {
    Failure::Unreadable(error.to_string())
}
