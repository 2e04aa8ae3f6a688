//! The way of a request through its limits.

mod leased;

use super::fleet::Mode;
use super::gcra::{self, Gcra};
use super::keys::{Key, Slot};
use super::peek::{LimitKind, Peek, count_or_report};
use super::quota;
use super::rolling::{self, Rolling};
use super::{
    Caller, Denial, LimitPlan, LimitRejection, LimitStatus, Moment, NANOS, OnShortage, PlanUsage,
    RouteLimit, RouteLimits, seconds_up,
};
use serde_json::Value;
use std::cell::{LazyCell, RefCell};
use weir_config::{ConsumerId, LimitKey};
use weir_expr::Scope;
use weir_http::problem::Problem;

/// A request on its way through the limits.
struct Request<'a, F> {
    caller: &'a Caller,
    scope: &'a LazyCell<Scope, F>,
    now: Moment,
    mode: Mode,
    on_shortage: OnShortage,
    plan: Option<&'a PlanUsage>,
    /// There if nothing is to be charged: the decision of each limit.
    peeked: Option<&'a RefCell<Vec<Peek>>>,
}

impl LimitPlan {
    /// Admits a request to a route with these limits, and gives the status of the tightest limit;
    /// `None` if no limit applies. A rejected request is charged to no limit.
    ///
    /// `scope` is made only if a limit is keyed by an expression, and then once. `on_shortage` says
    /// whether the request may wait for the fleet.
    ///
    /// # Errors
    /// The limit that rejects it: of several the first, in the order rate of the plan, limits of API
    /// and route, quota of the plan. Or that limit has no lease, but the fleet may have one.
    pub fn admit(
        &self,
        limits: &RouteLimits,
        caller: &Caller,
        scope: impl FnOnce() -> Scope,
        now: Moment,
        on_shortage: OnShortage,
    ) -> Result<Option<LimitStatus>, Denial> {
        self.check(limits, caller, scope, now, on_shortage, None)
    }

    /// The result of [`LimitPlan::admit`] now, and the decision of each limit up to the first that
    /// rejects; nothing is charged and no rejection counted.
    pub fn peek(
        &self,
        limits: &RouteLimits,
        caller: &Caller,
        scope: impl FnOnce() -> Scope,
        now: Moment,
    ) -> (Result<Option<LimitStatus>, LimitRejection>, Vec<Peek>) {
        let peeked = RefCell::default();
        let outcome = self.check(limits, caller, scope, now, OnShortage::Decide, Some(&peeked));
        let outcome = match outcome {
            Ok(limit_status) => Ok(limit_status),
            Err(Denial::Rejected(rejection)) => Err(rejection),
            // Nobody is asked for a request that does not wait.
            Err(Denial::Ask(_)) => Ok(None),
        };
        (outcome, peeked.into_inner())
    }

    #[inline]
    fn check(
        &self,
        RouteLimits(limits): &RouteLimits,
        caller: &Caller,
        scope: impl FnOnce() -> Scope,
        now: Moment,
        on_shortage: OnShortage,
        peeked: Option<&RefCell<Vec<Peek>>>,
    ) -> Result<Option<LimitStatus>, Denial> {
        let consumer = caller.consumer.map(|ConsumerId(index)| &self.consumers[index]);
        let plan = consumer.and_then(|consumer| consumer.plan.as_ref());
        if limits.is_empty() && plan.is_none() {
            return Ok(None);
        }
        let mode = self.limiter.mode();
        let mut limit_status = None;
        let scope = LazyCell::new(scope);
        let request = Request { caller, scope: &scope, now, mode, on_shortage, plan, peeked };
        let rate = plan.and_then(|usage| Some((self.plans[usage.plan].rate.as_ref()?, usage)));
        let Some((rate, usage)) = rate else {
            return self.admit_by_limits(limits, &request, limit_status);
        };
        let (gcra, cell) = (rate.rule.of_node(mode.sharing_nodes()), &usage.cell);
        if mode.leases_rates() && rate.rule.is_shared() {
            return self.admit_by_leased_plan(rate, cell, limits, &request);
        }
        let level = match peeked {
            None => gcra.admit(&cell.tat, now.nanos),
            Some(_) => gcra.peek(&cell.tat, now.nanos),
        };
        let outcome = decide(gcra, rate.policy, level);
        let outcome = count_or_report(outcome, &cell.over_rate, LimitKind::PlanRate, peeked)?;
        tighten(&mut limit_status, outcome);
        let rest = self.admit_by_limits(limits, &request, limit_status);
        if let (Err(_), None) = (&rest, peeked) {
            gcra.refund(&cell.tat);
        }
        rest
    }

    /// Checks the limits that are left, then the quota. Each limit refunds the request if one behind it
    /// rejects it.
    fn admit_by_limits<F: FnOnce() -> Scope>(
        &self,
        limits: &[RouteLimit],
        request: &Request<'_, F>,
        mut limit_status: Option<LimitStatus>,
    ) -> Result<Option<LimitStatus>, Denial> {
        let Some((limit, limits)) = limits.split_first() else {
            return self.admit_by_quota(request, limit_status);
        };
        let slot = Slot { limit: limit.counter.number, key: self.key(&limit.key, request) };
        if request.mode.leases_rates() && limit.rule.is_shared() {
            return self.admit_by_leased_limit(limit, slot, limits, request, limit_status);
        }
        let buckets = &self.limiter.buckets;
        let overflow = &limit.counter.overflow;
        let (now, gcra) = (request.now.nanos, limit.rule.of_node(request.mode.sharing_nodes()));
        let (level, bucket) = match request.peeked {
            None => {
                let (level, bucket) = buckets.admit(&slot, overflow, gcra, now);
                (level, Some(bucket))
            }
            Some(_) => (buckets.peek(&slot, overflow, gcra, now), None),
        };
        let outcome = decide(gcra, limit.policy, level);
        let outcome =
            count_or_report(outcome, &limit.counter.refused, LimitKind::Limit, request.peeked)?;
        tighten(&mut limit_status, outcome);
        let rest = self.admit_by_limits(limits, request, limit_status);
        if let (Err(_), Some(bucket)) = (&rest, bucket) {
            buckets.refund(&slot, bucket, overflow, gcra);
        }
        rest
    }

    fn admit_by_quota<F>(
        &self,
        request: &Request<'_, F>,
        mut limit_status: Option<LimitStatus>,
    ) -> Result<Option<LimitStatus>, Denial> {
        let Request { plan, now, mode, peeked, .. } = *request;
        let quota = plan.and_then(|usage| Some((self.plans[usage.plan].quota.as_ref()?, usage)));
        if let Some(((calendar, policy), usage)) = quota {
            let outcome = if mode.leases_quotas() {
                self.by_lease(request, calendar, *policy, usage)?
            } else if let Some(rolling) = &usage.rolling {
                let calls = calendar.calls();
                let level = match peeked {
                    None => rolling.admit(calls, now.unix),
                    Some(_) => rolling.peek(calls, now.unix),
                };
                by_rolling_quota(rolling, calls, *policy, level)
            } else {
                let window = calendar.window(now.unix);
                let left = match peeked {
                    None => usage.cell.used.admit(calendar.calls(), window),
                    Some(_) => usage.cell.used.peek(calendar.calls(), window),
                };
                by_calendar_quota(window, left, *policy, now)
            };
            tighten(
                &mut limit_status,
                count_or_report(outcome, &usage.cell.over_quota, LimitKind::Quota, peeked)?,
            );
        }
        Ok(limit_status)
    }

    fn key<F: FnOnce() -> Scope>(&self, key: &LimitKey, request: &Request<'_, F>) -> Key {
        let special = match key {
            LimitKey::Address => None,
            LimitKey::Consumer => {
                let consumer = request.caller.consumer;
                consumer.map(|id| Key::Consumer(self.consumers[id.0].number))
            }
            LimitKey::Expr(expr) => expr.value(request.scope).map(|value| match value {
                Value::String(text) => Key::text(text),
                other => Key::text(other.to_string()),
            }),
        };
        special.unwrap_or_else(|| Key::address(request.caller.address))
    }
}

/// The status of a bucket after its decision.
fn decide(
    gcra: Gcra,
    policy: usize,
    outcome: Result<gcra::Level, u64>,
) -> Result<LimitStatus, LimitRejection> {
    let (remaining, full_in) = match outcome {
        Ok(level) => (level.remaining, level.full_in),
        // It is rejected because `wait` is missing for one request: the rest takes the whole depth.
        Err(wait) => (0, gcra.full_after_rejection(wait)),
    };
    let limit_status = LimitStatus {
        policy,
        remaining,
        reset: full_in.div_ceil(NANOS),
        window: gcra.depth().div_ceil(NANOS).max(1),
        retry_after: outcome.err().map(seconds_up),
    };
    limit_status.verdict(Problem::RateLimited)
}

fn by_calendar_quota(
    window: quota::Window,
    left: Result<u64, ()>,
    policy: usize,
    now: Moment,
) -> Result<LimitStatus, LimitRejection> {
    let reset = window.ends_in(now.unix);
    LimitStatus {
        policy,
        remaining: left.unwrap_or(0),
        reset,
        window: window.seconds(),
        retry_after: left.is_err().then_some(reset.max(1)),
    }
    .verdict(Problem::QuotaExhausted)
}

fn by_rolling_quota(
    rolling: &Rolling,
    calls: u64,
    policy: usize,
    outcome: Result<rolling::Level, rolling::Level>,
) -> Result<LimitStatus, LimitRejection> {
    let (Ok(level) | Err(level)) = outcome;
    LimitStatus {
        policy,
        remaining: calls.saturating_sub(level.used),
        reset: level.empty_in,
        window: rolling.seconds(),
        retry_after: outcome.is_err().then_some(level.free_in.max(1)),
    }
    .verdict(Problem::QuotaExhausted)
}

/// Keeps the status with fewer requests left; of equal ones, the one that is full later.
fn tighten(limit_status: &mut Option<LimitStatus>, other: LimitStatus) {
    let rank = |limit_status: &LimitStatus| {
        (limit_status.remaining, std::cmp::Reverse(limit_status.reset))
    };
    if limit_status.is_none_or(|before| rank(&other) < rank(&before)) {
        *limit_status = Some(other);
    }
}
