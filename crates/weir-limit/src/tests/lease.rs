//! Quotas that the node leases from its fleet.

use super::*;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Instant;

const PLAN: (&str, &str) = ("gold", "acme");
/// Time after which a test gives up.
const PATIENCE: Duration = Duration::from_secs(60);
/// Begin of the calendar window at second 0.
const WINDOW: u64 = UNIX - 30;

/// A node of a fleet with a quota of so many calls.
fn node(config: Config) -> Gate {
    let gate = Gate::new(config);
    gate.limiter.lease_quotas(true);
    gate
}

fn calendar(calls: u64) -> Config {
    config(None, Some(calls), vec![vec![]])
}

impl Gate {
    fn grant(&self, window_start: u64, calls: u64, rest: u64) -> bool {
        let (plan, consumer) = PLAN;
        self.limiter.grant_quota(&QuotaGrant { plan, consumer, window_start, calls, rest })
    }

    /// The demand of `acme`, if there is one.
    fn demand(&self, seconds: u64) -> Option<QuotaDemand> {
        let mut demands = self.limiter.quota_demands(at(seconds));
        assert!(demands.len() <= 1, "{demands:?}");
        demands.pop()
    }

    fn problem(&self, seconds: u64) -> Problem {
        self.ask(Some(0), ONE, 0, seconds).expect_err("no call is left").problem
    }

    fn try_once(&self, seconds: u64) -> Result<Option<LimitStatus>, Denial> {
        let caller = Caller { consumer: Some(ConsumerId(0)), address: [192, 0, 2, 1].into() };
        let (limits, now) = (&self.routes[0], at(seconds));
        self.plan.admit(limits, &caller, Scope::default, now, OnShortage::Ask)
    }

    /// Admits so many calls.
    fn call(&self, calls: u64, seconds: u64) {
        (0..calls).for_each(|_| assert!(self.ask(Some(0), ONE, 0, seconds).is_ok()));
    }
}

fn is_answered(ask: &Ask) -> bool {
    let mut wait = std::pin::pin!(ask.answered());
    matches!(wait.as_mut().poll(&mut Context::from_waker(Waker::noop())), Poll::Ready(()))
}

#[test]
fn a_node_admits_what_it_is_granted() {
    let gate = node(calendar(100));
    assert_eq!(gate.problem(0), Problem::LimitUnavailable);
    let demand = gate.demand(2).expect("a demand");
    assert_eq!((demand.plan.as_str(), demand.consumer.as_str()), PLAN);
    assert_eq!((demand.window_start, demand.window_end), (WINDOW, WINDOW + 60));
    assert_eq!((demand.most, demand.used, demand.leased, demand.short), (100, 0, 0, 1));
    assert_eq!((demand.rolling, demand.elapsed), (None, Duration::from_secs(2)));
    assert!(gate.grant(WINDOW, 7, 93));
    assert_eq!(gate.passed(Some(0), ONE, 0, 1), 7);
    assert_eq!(gate.problem(1), Problem::LimitUnavailable);
    assert!(gate.grant(WINDOW, 2, 0));
    assert_eq!(gate.passed(Some(0), ONE, 0, 1), 2);
    let rejected = gate.ask(Some(0), ONE, 0, 1).expect_err("exhausted");
    assert_eq!(rejected.problem, Problem::QuotaExhausted);
    assert_eq!(rejected.limit_status.retry_after, Some(29));
    // Another node has returned some.
    assert!(gate.grant(WINDOW, 1, 0));
    assert_eq!(gate.passed(Some(0), ONE, 0, 1), 1);
    assert_eq!(gate.limiter.lease_statistics().denied, 15);
}

#[test]
fn the_next_slice_is_requested_at_half_of_the_last() {
    let gate = node(calendar(100));
    assert_eq!(gate.problem(0), Problem::LimitUnavailable);
    assert!(gate.demand(0).is_some());
    assert!(gate.grant(WINDOW, 8, 92));
    gate.call(3, 0);
    assert_eq!(gate.demand(0), None);
    gate.call(1, 0);
    let demand = gate.demand(1).expect("half is used");
    assert_eq!((demand.used, demand.leased, demand.admitted, demand.short), (4, 8, 4, 0));
    gate.call(1, 1);
    assert_eq!(gate.demand(1), None, "it is requested already");
    assert!(gate.grant(WINDOW, 6, 86));
    gate.call(5, 1);
    assert_eq!(gate.demand(1), None);
    gate.call(1, 1);
    assert_eq!(gate.demand(1).map(|demand| (demand.used, demand.leased)), Some((11, 14)));
    // A slice of one call is followed by the next at once, but not if there is no more.
    assert!(gate.grant(WINDOW, 1, 0));
    gate.call(4, 1);
    assert_eq!(gate.demand(1), None);
}

#[test]
fn requests_wait_for_the_answer_to_one_demand() {
    let gate = node(config(Some(rate(1, 2)), Some(9), vec![vec![]]));
    let Err(Denial::Ask(first)) = gate.try_once(0) else { panic!("no lease") };
    let Err(Denial::Ask(second)) = gate.try_once(0) else { panic!("no lease") };
    assert!(!is_answered(&first) && !is_answered(&second));
    assert_eq!(gate.demand(0).map(|demand| demand.short), Some(2));
    assert!(gate.grant(WINDOW, 2, 0));
    assert!(is_answered(&first) && is_answered(&second));
    // The rate was refunded both times.
    assert!(gate.try_once(0).is_ok() && gate.try_once(0).is_ok());
    assert!(matches!(gate.try_once(2), Err(Denial::Rejected(_))));
    assert_eq!(gate.limiter.lease_statistics().waits, 2);
}

#[test]
fn a_demand_that_a_grant_has_met_is_not_listed_again() {
    let gate = node(calendar(100));
    assert!(gate.try_once(0).is_err());
    assert!(gate.demand(0).is_some());
    // Another request asks before the answer to the first comes.
    assert!(gate.try_once(0).is_err());
    assert!(gate.grant(WINDOW, 8, 92));
    assert_eq!(gate.demand(0), None);
    gate.call(4, 0);
    assert!(gate.try_once(0).is_ok());
    assert!(gate.grant(WINDOW, 1, 0));
    assert_eq!(gate.demand(0), None, "there is no more");
}

#[test]
fn the_thread_of_the_fleet_is_woken_once_for_each_demand() {
    let gate = node(calendar(100));
    let mut wait = std::pin::pin!(gate.limiter.lease_demanded());
    let context = &mut Context::from_waker(Waker::noop());
    assert!(wait.as_mut().poll(context).is_pending());
    assert!(gate.try_once(0).is_err() && gate.try_once(0).is_err());
    assert!(wait.as_mut().poll(context).is_ready());
    let mut next = std::pin::pin!(gate.limiter.lease_demanded());
    assert!(next.as_mut().poll(context).is_pending());
}

#[test]
fn headers_have_the_rest_of_lease_and_fleet() {
    let gate = node(calendar(100));
    assert!(gate.try_once(0).is_err());
    assert!(gate.grant(WINDOW, 10, 50));
    let told = gate.try_once(0).expect("a lease").expect("a limit");
    assert_eq!((told.remaining, told.reset, told.window), (59, 30, 60));
    let statuses = gate.plan.limit_statuses(&gate.config, at(0));
    let quota = statuses.consumers[0].quota.expect("a quota");
    assert_eq!((quota.used, quota.remaining), (1, 59));
    let quota = statuses.consumers[1].quota.expect("a quota");
    assert_eq!((quota.used, quota.remaining), (0, 100), "nothing is known of beta");
}

#[test]
fn calls_of_earlier_runs_count_as_used_and_their_unused_lease_is_forfeit() {
    let limiter = Arc::new(Limiter::default());
    limiter.lease_quotas(true);
    let count = |calls| QuotaCount {
        plan: "gold".into(),
        consumer: "acme".into(),
        window_start: WINDOW,
        calls,
        rolling: None,
    };
    limiter.restore_quota_counts(&[count(40)]);
    let config = calendar(100);
    let (plan, routes) = LimitPlan::new(&limiter, &config, at(0));
    let gate = Gate { limiter, config, plan, routes };
    assert_eq!(gate.problem(0), Problem::LimitUnavailable);
    assert_eq!(gate.demand(0).map(|demand| (demand.used, demand.leased)), Some((40, 40)));
    assert!(gate.grant(WINDOW, 5, 55));
    assert_eq!(gate.passed(Some(0), ONE, 0, 0), 5);
    // The process before this one still admits calls by its own leases.
    gate.limiter.add_quota_counts(&[count(3)]);
    gate.limiter.restore_quota_counts(&[count(50)]);
    assert_eq!(gate.passed(Some(0), ONE, 0, 0), 0);
    assert!(gate.grant(WINDOW, 2, 0));
    assert_eq!(gate.passed(Some(0), ONE, 0, 0), 2);
}

#[test]
fn a_lease_ends_with_its_window() {
    let gate = node(calendar(100));
    assert!(gate.try_once(0).is_err());
    assert!(gate.grant(WINDOW, 10, 90));
    gate.call(4, 0);
    assert!(!gate.grant(WINDOW + 60, 9, 9), "nobody has called in this window yet");
    assert!(gate.try_once(30).is_err());
    assert_eq!(gate.passed(Some(0), ONE, 0, 29), 0, "a late clock is in the window reached");
    assert!(!gate.grant(WINDOW, 5, 0));
    assert!(gate.grant(WINDOW + 60, 2, 98));
    assert_eq!(gate.passed(Some(0), ONE, 0, 30), 2);
    assert_eq!(gate.limiter.lease_statistics().late_grants, 2);
    let unknown = QuotaGrant { plan: "gold", consumer: "x", window_start: 0, calls: 1, rest: 1 };
    assert!(!gate.limiter.grant_quota(&unknown));
}

#[test]
fn a_clock_set_back_begins_another_lease() {
    let gate = node(calendar(100));
    assert!(gate.try_once(6000).is_err());
    assert!(gate.grant(WINDOW + 6000, 3, 9));
    gate.call(1, 6000);
    assert!(gate.try_once(0).is_err());
    assert!(gate.grant(WINDOW, 2, 0));
    assert_eq!(gate.passed(Some(0), ONE, 0, 0), 2);
}

#[test]
fn a_refunded_call_returns_to_the_lease() {
    let gate = node(calendar(100));
    assert!(gate.try_once(0).is_err());
    assert!(gate.grant(WINDOW, 2, 0));
    gate.call(2, 0);
    gate.plan.refund_quota(Some(ConsumerId(0)), at(0));
    assert_eq!(gate.passed(Some(0), ONE, 0, 0), 1);
    // The call of an earlier window does not free one of this window.
    assert!(gate.try_once(30).is_err());
    assert!(gate.grant(WINDOW + 60, 1, 0));
    gate.call(1, 30);
    gate.plan.refund_quota(Some(ConsumerId(0)), at(0));
    assert_eq!(gate.passed(Some(0), ONE, 0, 30), 0);
}

#[test]
fn an_outage_allows_an_overdraft_of_a_share_of_the_quota() {
    let gate = node(calendar(200));
    gate.limiter.set_nodes(2, at(0));
    assert!(gate.try_once(0).is_err());
    assert!(gate.grant(WINDOW, 3, 150));
    gate.limiter.quota_outage(500);
    assert_eq!(gate.passed(Some(0), ONE, 0, 0), 8, "three leased, 5 % of 200 for two nodes");
    let rejected = gate.ask(Some(0), ONE, 0, 0).expect_err("no overdraft is left");
    assert_eq!(rejected.problem, Problem::QuotaExhausted);
    assert_eq!(rejected.limit_status.retry_after, Some(10));
    assert_eq!(gate.limiter.lease_statistics().overdraft_calls, 5);
    gate.limiter.quota_recovered();
    assert_eq!(gate.problem(0), Problem::LimitUnavailable);
    assert_eq!(gate.demand(0).map(|demand| (demand.used, demand.leased)), Some((8, 3)));
    // A grant covers the overdraft first.
    assert!(gate.grant(WINDOW, 7, 100));
    assert_eq!(gate.passed(Some(0), ONE, 0, 0), 2);
}

#[test]
fn an_outage_without_overdraft_or_with_an_exhausted_quota_admits_the_lease_only() {
    let gate = node(calendar(200));
    gate.limiter.quota_outage(0);
    assert_eq!(gate.problem(0), Problem::QuotaExhausted);
    gate.limiter.quota_outage(500);
    assert!(gate.grant(WINDOW, 3, 0));
    assert_eq!(gate.passed(Some(0), ONE, 0, 0), 3);
}

#[test]
fn leases_are_turned_on_and_off() {
    let gate = Gate::new(calendar(10));
    gate.call(4, 0);
    gate.limiter.lease_quotas(true);
    assert_eq!(gate.problem(0), Problem::LimitUnavailable);
    assert!(gate.grant(WINDOW, 2, 4));
    gate.call(2, 0);
    gate.limiter.lease_quotas(false);
    gate.call(2, 0);
    gate.limiter.lease_quotas(true);
    assert_eq!(gate.problem(0), Problem::LimitUnavailable);
    assert_eq!(gate.demand(0).map(|demand| (demand.used, demand.leased)), Some((8, 8)));
    gate.limiter.lease_quotas(false);
    assert_eq!(gate.passed(Some(0), ONE, 0, 0), 2);
}

#[test]
fn a_reload_keeps_the_lease() {
    let mut gate = node(calendar(10));
    assert!(gate.try_once(0).is_err());
    assert!(gate.grant(WINDOW, 3, 7));
    gate.call(2, 0);
    gate.reload(calendar(20), at(0));
    gate.call(1, 0);
    assert_eq!(gate.problem(0), Problem::LimitUnavailable);
    assert_eq!(gate.demand(0).map(|demand| demand.most), Some(20));
    // Another length is another window, with the calls of the one before.
    let mut hourly = calendar(20);
    hourly.plans[0].quota.as_mut().expect("a quota").per = QuotaPeriod::Hour;
    gate.reload(hourly, at(0));
    let hour = UNIX - UNIX % 3600;
    assert_eq!(gate.problem(90), Problem::LimitUnavailable);
    let demand = gate.demand(90).map(|demand| (demand.window_start, demand.window_end));
    assert_eq!(demand, Some((hour, hour + 3600)));
}

#[test]
fn looking_charges_nothing_and_asks_nobody() {
    let gate = node(calendar(100));
    let peek = |seconds| {
        let caller = Caller { consumer: Some(ConsumerId(0)), address: [192, 0, 2, 1].into() };
        gate.plan.peek(&gate.routes[0], &caller, Scope::default, at(seconds)).0
    };
    assert!(peek(0).is_ok(), "the fleet may have some");
    assert_eq!(gate.demand(0), None);
    assert!(gate.try_once(0).is_err());
    assert!(gate.grant(WINDOW, 1, 5));
    assert_eq!(peek(0).expect("a lease").map(|status| status.remaining), Some(5));
    gate.call(1, 0);
    assert_eq!(peek(0).expect("the fleet has some").map(|status| status.remaining), Some(4));
    assert!(gate.grant(WINDOW, 0, 0));
    assert_eq!(peek(0).map_err(|rejected| rejected.problem), Err(Problem::QuotaExhausted));
    gate.limiter.quota_outage(100);
    assert!(peek(0).is_err(), "known to be exhausted");
    assert!(peek(30).is_ok(), "overdraft");
    gate.limiter.quota_outage(0);
    assert!(peek(30).is_err());
}

#[test]
fn a_rolling_quota_is_leased_by_sub_window() {
    let gate = node(rolling(100, QuotaPeriod::Hour));
    assert!(gate.try_once(0).is_err());
    let demand = gate.demand(0).expect("a demand");
    assert_eq!((demand.window_start, demand.window_end), (WINDOW, WINDOW + 60));
    assert_eq!(demand.rolling, Some(QuotaPeriod::Hour));
    assert!(gate.grant(WINDOW, 4, 96));
    gate.call(2, 0);
    assert_eq!(gate.demand(0).map(|demand| (demand.used, demand.leased)), Some((2, 4)));
    gate.plan.refund_quota(Some(ConsumerId(0)), at(0));
    gate.call(3, 29);
    assert!(gate.try_once(30).is_err(), "another sub-window");
    assert!(!gate.grant(WINDOW, 4, 92));
    assert!(gate.grant(WINDOW + 60, 2, 0));
    assert_eq!(gate.passed(Some(0), ONE, 0, 31), 2);
    let rejected = gate.ask(Some(0), ONE, 0, 31).expect_err("exhausted");
    assert_eq!(rejected.problem, Problem::QuotaExhausted);
    assert_eq!(rejected.limit_status.retry_after, Some(59), "the next sub-window");
    assert!(matches!(gate.try_once(90), Err(Denial::Ask(_))));
}

#[test]
fn the_overdraft_of_a_rolling_quota_is_that_of_a_whole_window() {
    let gate = node(rolling(100, QuotaPeriod::Hour));
    gate.limiter.quota_outage(500);
    assert_eq!(gate.passed(Some(0), ONE, 0, 0), 5);
    assert_eq!(gate.passed(Some(0), ONE, 0, 120), 0, "another sub-window");
    assert_eq!(gate.passed(Some(0), ONE, 0, 3690), 5, "an hour later");
    assert_eq!(gate.limiter.lease_statistics().overdraft_calls, 10);
}

/// Threads that call, refund and roll the window while another grants: in no window are more calls
/// left admitted than were granted, and all that were granted can be used.
#[test]
fn threads_never_admit_more_than_is_granted() {
    for config in [calendar(1_000_000), rolling(1_000_000, QuotaPeriod::Hour)] {
        let gate = node(config);
        for round in 0..20 {
            let (seconds, is_over) = (round * 60, AtomicBool::new(false));
            let (admitted, granted) = (AtomicU64::new(0), AtomicU64::new(0));
            std::thread::scope(|scope| {
                let work = |refunds: bool| {
                    while !is_over.load(Ordering::Acquire) {
                        let outcome = gate.try_once(seconds);
                        if outcome.is_ok() && refunds {
                            gate.plan.refund_quota(Some(ConsumerId(0)), at(seconds));
                        } else if outcome.is_ok() {
                            admitted.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                };
                for refunds in [false, false, true] {
                    scope.spawn(move || work(refunds));
                }
                let deadline = Instant::now() + PATIENCE;
                while granted.load(Ordering::Relaxed) < 300 && Instant::now() < deadline {
                    if gate.grant(WINDOW + seconds, 7, 9) {
                        granted.fetch_add(7, Ordering::Relaxed);
                    }
                }
                let is_used_up =
                    || admitted.load(Ordering::Relaxed) >= granted.load(Ordering::Relaxed);
                while !is_used_up() && Instant::now() < deadline {
                    std::thread::yield_now();
                }
                is_over.store(true, Ordering::Release);
            });
            assert_eq!(admitted.into_inner(), granted.into_inner(), "round {round}");
        }
    }
}
