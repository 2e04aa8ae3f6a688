//! The way of a request through limits that the node leases from its fleet. A node that is alone never
//! comes here.

use super::{Request, decide, tighten};
use crate::fleet::Fallback;
use crate::gcra::{Gcra, Level};
use crate::keys::{Bucket, Key, Slot};
use crate::lease::{LeasedCall, PlanCell, Verdict};
use crate::peek::{LimitKind, count_or_report};
use crate::quota::Calendar;
use crate::registry::{LimitName, Limiter};
use crate::share::Rule;
use crate::signal::Ask;
use crate::tally::Renewal;
use crate::tokens::TokenVerdict;
use crate::{Denial, LimitPlan, LimitRejection, LimitStatus, PlanRate, PlanUsage, RouteLimit};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use weir_config::ConsumerId;
use weir_expr::Scope;
use weir_http::problem::Problem;

/// A rate that all nodes of the fleet share.
struct SharedRate<'a> {
    kind: LimitKind,
    rule: Rule,
    policy: usize,
    name: &'a LimitName,
    slot: Slot,
    /// Requests that it rejected.
    refused: &'a AtomicU64,
    /// The bucket of this node's share: that of a plan; `None` for a limit, whose is found by key.
    own: Option<&'a AtomicU64>,
    /// The bucket of keys without room for their own.
    overflow: &'a AtomicU64,
}

/// What a request was charged to.
#[derive(Clone, Copy)]
enum Charge {
    Nothing,
    /// A token of the lease that ends at this time.
    Token(u64),
    /// The share of this node, by this rule.
    Share(Gcra, Bucket),
}

/// A decision, and what it was charged to.
type Decided = (Result<LimitStatus, LimitRejection>, Charge);

impl LimitPlan {
    /// Checks the rate of a plan, then the limits.
    #[cold]
    pub(super) fn admit_by_leased_plan<F: FnOnce() -> Scope>(
        &self,
        rate: &PlanRate,
        cell: &Arc<PlanCell>,
        limits: &[RouteLimit],
        request: &Request<'_, F>,
    ) -> Result<Option<LimitStatus>, Denial> {
        let consumer = request.caller.consumer.map(|ConsumerId(index)| &self.consumers[index]);
        let number = consumer.map_or(u32::MAX, |consumer| consumer.number);
        let shared = SharedRate {
            kind: LimitKind::PlanRate,
            rule: rate.rule,
            policy: rate.policy,
            name: &rate.name,
            slot: Slot { limit: rate.number, key: Key::Consumer(number) },
            refused: &cell.over_rate,
            own: Some(&cell.tat),
            overflow: &cell.tat,
        };
        self.admit_by_shared_rate(&shared, limits, request, None)
    }

    /// Checks a limit, then those that are left.
    #[cold]
    pub(super) fn admit_by_leased_limit<F: FnOnce() -> Scope>(
        &self,
        limit: &RouteLimit,
        slot: Slot,
        limits: &[RouteLimit],
        request: &Request<'_, F>,
        limit_status: Option<LimitStatus>,
    ) -> Result<Option<LimitStatus>, Denial> {
        let shared = SharedRate {
            kind: LimitKind::Limit,
            rule: limit.rule,
            policy: limit.policy,
            name: &limit.name,
            slot,
            refused: &limit.counter.refused,
            own: None,
            overflow: &limit.counter.overflow,
        };
        self.admit_by_shared_rate(&shared, limits, request, limit_status)
    }

    fn admit_by_shared_rate<F: FnOnce() -> Scope>(
        &self,
        rate: &SharedRate<'_>,
        limits: &[RouteLimit],
        request: &Request<'_, F>,
        mut limit_status: Option<LimitStatus>,
    ) -> Result<Option<LimitStatus>, Denial> {
        let (outcome, charge) = match self.by_tokens(rate, request)? {
            Some(decided) => decided,
            None => self.by_share(rate, request),
        };
        let outcome = count_or_report(outcome, rate.refused, rate.kind, request.peeked)?;
        tighten(&mut limit_status, outcome);
        let rest = self.admit_by_limits(limits, request, limit_status);
        if rest.is_err() {
            self.refund_shared_rate(rate, charge, request.now.nanos);
        }
        rest
    }

    /// The decision by the tokens that the node has leased; `None` if its share decides.
    fn by_tokens<F>(
        &self,
        rate: &SharedRate<'_>,
        request: &Request<'_, F>,
    ) -> Result<Option<Decided>, Ask> {
        let (now, tokens) = (request.now.nanos, &self.limiter.tokens);
        let verdict = match request.peeked {
            None => {
                let name = || self.bucket_name(rate, request);
                let how = (request.mode, request.on_shortage);
                tokens.admit(&rate.slot, name, rate.rule, how, now)
            }
            Some(_) => tokens.peek(&rate.slot, request.mode, now),
        };
        let whole = rate.rule.whole();
        let admitted = |left: u64| Ok(whole.level_with(left.min(whole.burst())));
        let (level, charge): (Result<Level, u64>, _) = match verdict {
            TokenVerdict::Admitted { left, until } => (admitted(left), Charge::Token(until)),
            TokenVerdict::Denied(wait) => (Err(wait), Charge::Nothing),
            TokenVerdict::Ask(ask) => return Err(ask),
            TokenVerdict::Local(Fallback::Share) => return Ok(None),
            TokenVerdict::Local(Fallback::Allow) => (admitted(whole.burst()), Charge::Nothing),
            TokenVerdict::Local(Fallback::Deny) => {
                let denied = decide(whole, rate.policy, Err(1));
                let unavailable = |denied: LimitRejection| LimitRejection {
                    problem: Problem::LimitUnavailable,
                    ..denied
                };
                return Ok(Some((denied.map_err(unavailable), Charge::Nothing)));
            }
        };
        let charge = if request.peeked.is_some() { Charge::Nothing } else { charge };
        Ok(Some((decide(whole, rate.policy, level), charge)))
    }

    /// The decision by the share of this node.
    fn by_share<F>(&self, rate: &SharedRate<'_>, request: &Request<'_, F>) -> Decided {
        let (gcra, now) = (rate.rule.of_node(request.mode.sharing_nodes()), request.now.nanos);
        let buckets = &self.limiter.buckets;
        let (level, bucket) = match (request.peeked, rate.own) {
            (None, Some(own)) => (gcra.admit(own, now), Some(Bucket::Own)),
            (None, None) => {
                let (level, bucket) = buckets.admit(&rate.slot, rate.overflow, gcra, now);
                (level, Some(bucket))
            }
            (Some(_), Some(own)) => (gcra.peek(own, now), None),
            (Some(_), None) => (buckets.peek(&rate.slot, rate.overflow, gcra, now), None),
        };
        let charge = bucket.map_or(Charge::Nothing, |bucket| Charge::Share(gcra, bucket));
        (decide(gcra, rate.policy, level), charge)
    }

    fn refund_shared_rate(&self, rate: &SharedRate<'_>, charge: Charge, now: u64) {
        let Limiter { buckets, tokens, .. } = &*self.limiter;
        match (charge, rate.own) {
            (Charge::Nothing, _) => {}
            (Charge::Token(until), _) => tokens.refund(&rate.slot, until, now),
            (Charge::Share(gcra, _), Some(own)) => gcra.refund(own),
            (Charge::Share(gcra, bucket), None) => {
                buckets.refund(&rate.slot, bucket, rate.overflow, gcra);
            }
        }
    }

    /// The name of a bucket, the same on all nodes.
    fn bucket_name<F>(&self, rate: &SharedRate<'_>, request: &Request<'_, F>) -> Box<str> {
        match &rate.slot.key {
            Key::V4(address) => rate.name.bucket("v4", &address.to_string()),
            Key::V6(network) => rate.name.bucket("v6", &network.to_string()),
            Key::Text(text) => rate.name.bucket("text", text),
            // Its number is that of this process.
            Key::Consumer(_) => {
                let consumer = request.caller.consumer.map(|id| &self.consumers[id.0]);
                rate.name.bucket("consumer", consumer.map_or("", |consumer| &consumer.name))
            }
        }
    }

    /// The decision of a quota that the node has a lease of.
    #[cold]
    pub(super) fn by_lease<F>(
        &self,
        request: &Request<'_, F>,
        calendar: &Calendar,
        policy: usize,
        usage: &PlanUsage,
    ) -> Result<Result<LimitStatus, LimitRejection>, Ask> {
        let Request { now, mode, on_shortage, peeked, .. } = *request;
        let (cell, rolling) = (&usage.cell, usage.rolling.as_ref());
        let call = LeasedCall { cell, rolling, calendar, now, mode };
        let verdict = match peeked {
            None => call.admit(&self.limiter.leases, on_shortage),
            Some(_) => call.peek(&self.limiter.leases),
        };
        let (remaining, renewal, problem) = match verdict {
            Verdict::Admitted(left, renewal) => (left, renewal, None),
            Verdict::Exhausted(renewal) => (0, renewal, Some(Problem::QuotaExhausted)),
            Verdict::Unavailable(renewal) => (0, renewal, Some(Problem::LimitUnavailable)),
            Verdict::Ask(ask) => return Err(ask),
        };
        let Renewal { reset, window, retry } = renewal;
        let retry_after = problem.map(|_| retry);
        let limit_status = LimitStatus { policy, remaining, reset, window, retry_after };
        Ok(limit_status.verdict(problem.unwrap_or(Problem::QuotaExhausted)))
    }
}
