//! The limit stage: the plan of the consumer, and the limits of API and route.

use super::Effects;
use crate::exchange::Exchange;
use crate::site::Site;
use weir_http::clock;
use weir_http::problem::Problem;
use weir_http::rejection::Rejection;
use weir_limit::{
    Ask, Caller, Denial, LimitPlan, LimitRejection, LimitStatus, Moment, OnShortage, RouteLimits,
};
use weir_model::stage;
use weir_telemetry::stats::WorkerStats;

/// Checks the consumer's plan and the limits of API and route.
pub(super) async fn limit<E: Effects>(
    exchange: &mut Exchange,
    site: &Site,
    limits: &RouteLimits,
    now: Moment,
    fx: &mut E,
) -> Result<(), Rejection> {
    let mut outcome = attempt(exchange, site, limits, now, OnShortage::Ask, fx);
    if let Err(Denial::Ask(ask)) = outcome {
        outcome = Box::pin(wait_for_lease(exchange, site, limits, ask, fx)).await;
    }
    let limit_status = match outcome {
        Ok(limit_status) => limit_status,
        Err(Denial::Rejected(rejection)) if rejection.problem != Problem::LimitUnavailable => {
            exchange.decisions.limit_status = Some(rejection.limit_status);
            return Err(beyond_limit(&site.limits, rejection, &exchange.worker.stats));
        }
        Err(denial) => return Err(without_lease(&site.limits, &denial)),
    };
    exchange.decisions.limit_status = limit_status;
    if limit_status.is_some() {
        exchange.record.recording.stage_ended(stage::LIMIT, exchange.arrival.started);
    }
    exchange.count_admitted();
    Ok(())
}

fn attempt<E: Effects>(
    exchange: &Exchange,
    site: &Site,
    limits: &RouteLimits,
    now: Moment,
    on_shortage: OnShortage,
    fx: &mut E,
) -> Result<Option<LimitStatus>, Denial> {
    let caller = Caller {
        consumer: exchange.decisions.consumer(),
        address: exchange.arrival.client.address,
    };
    let scope = || exchange.view().scope();
    fx.limit(&site.limits, limits, &caller, scope, now, on_shortage)
}

/// Waits until the fleet has answered, and tries again, until the lease timeout; then once more, and
/// without a wait.
async fn wait_for_lease<E: Effects>(
    exchange: &Exchange,
    site: &Site,
    limits: &RouteLimits,
    mut ask: Ask,
    fx: &mut E,
) -> Result<Option<LimitStatus>, Denial> {
    let deadline = clock::now() + site.limits.lease_timeout();
    let wait = exchange.worker.lease_waits.begin();
    loop {
        let may_wait = wait.is_some()
            && tokio::time::timeout_at(deadline.into(), ask.answered()).await.is_ok()
            && clock::now() < deadline;
        let on_shortage = if may_wait { OnShortage::Ask } else { OnShortage::Decide };
        // The calls of a quota stay those of the time of arrival.
        let unix = exchange.arrival.unix;
        let now = exchange.worker.shared.limiter.moment(clock::now(), unix);
        match attempt(exchange, site, limits, now, on_shortage, fx) {
            Err(Denial::Ask(next)) if may_wait => ask = next,
            outcome => return outcome,
        }
    }
}

/// The 429 response to a request over a limit.
fn beyond_limit(plan: &LimitPlan, rejection: LimitRejection, stats: &WorkerStats) -> Rejection {
    let LimitRejection { problem, limit_status } = rejection;
    let over_quota = problem == Problem::QuotaExhausted;
    let counter = if over_quota { &stats.over_quota } else { &stats.limited };
    counter.add(1);
    let limit = plan.policy_of(&limit_status);
    // Without the time to wait, which `Retry-After` has: rejections are counted by this text.
    let why = format!("limit {limit} is exhausted");
    Rejection::new(problem).recorded(why)
}

/// The 503 response to a request whose limit has no lease.
fn without_lease(plan: &LimitPlan, denial: &Denial) -> Rejection {
    let rejection = Rejection::new(Problem::LimitUnavailable).header("retry-after", "1".to_owned());
    match denial {
        Denial::Rejected(LimitRejection { limit_status, .. }) => {
            let limit = plan.policy_of(limit_status);
            rejection.recorded(format!("limit {limit}: the fleet granted no lease in time"))
        }
        Denial::Ask(_) => rejection,
    }
}
