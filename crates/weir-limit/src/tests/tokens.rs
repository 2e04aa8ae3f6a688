//! Rates whose tokens the node leases from its fleet.

use super::*;
use proptest::prelude::*;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Waker};
use std::time::Instant;

const VALID: Duration = Duration::from_millis(200);

/// Milliseconds after second 0.
fn ms(millis: u64) -> Moment {
    Moment { nanos: at(0).nanos + millis * 1_000_000, unix: UNIX + millis / 1000 }
}

/// Route 0 has the rate of the plan only, 1 a limit by address, 2 one of each node.
fn node(fallback: Fallback) -> Gate {
    let shared = limit("shared", rate(100, 50), LimitKey::Address);
    let own = Rate { scope: RateScope::Node, ..rate(1, 2) };
    let own = limit("own", own, LimitKey::Address);
    let gate = Gate::new(config(Some(rate(10, 40)), None, vec![vec![], vec![shared], vec![own]]));
    gate.limiter.set_nodes(10, at(0));
    gate.limiter.set_rate_mode(RateMode::Leases(fallback), at(0));
    gate
}

impl Gate {
    fn try_at(
        &self,
        consumer: Option<usize>,
        address: &str,
        route: usize,
        now: Moment,
    ) -> Result<Option<LimitStatus>, Denial> {
        let address = address.parse().expect("an address");
        let caller = Caller { consumer: consumer.map(ConsumerId), address };
        self.plan.admit(&self.routes[route], &caller, Scope::default, now, OnShortage::Ask)
    }

    fn limited(&self, millis: u64) -> Result<Option<LimitStatus>, Denial> {
        self.try_at(None, ONE, 1, ms(millis))
    }

    /// How many of 20 requests are admitted before one is not.
    fn admitted(&self, millis: u64) -> usize {
        (0..20).take_while(|_| self.limited(millis).is_ok()).count()
    }

    fn token_demand(&self, millis: u64) -> Option<RateDemand> {
        let mut demands = self.limiter.rate_demands(ms(millis));
        assert!(demands.len() <= 1, "{demands:?}");
        demands.pop()
    }

    /// The first demand for the limit by address.
    fn first_demand(&self) -> RateDemand {
        assert!(matches!(self.limited(0), Err(Denial::Ask(_))));
        self.token_demand(0).expect("a demand")
    }
}

fn is_answered(ask: &Ask) -> bool {
    let mut wait = std::pin::pin!(ask.answered());
    wait.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready()
}

#[test]
fn a_node_admits_the_tokens_that_it_is_granted() {
    let gate = node(Fallback::Share);
    let Err(Denial::Ask(ask)) = gate.limited(0) else { panic!("no lease") };
    let demand = gate.token_demand(0).expect("a demand");
    assert_eq!((demand.interval, demand.burst, demand.tokens), (VALID / 20, 50, 1));
    assert!(demand.name.len() == 64 && demand.name.bytes().all(|byte| byte.is_ascii_hexdigit()));
    assert!(!is_answered(&ask));
    assert!(gate.limiter.grant_tokens(&demand, 4, VALID, ms(5)));
    assert!(is_answered(&ask));
    let told = gate.limited(5).expect("a token").expect("a limit");
    assert_eq!((told.remaining, told.window), (3, 1), "50 requests at 100/s fill in half a second");
    assert_eq!(gate.admitted(204), 3);
    assert!(matches!(gate.limited(204), Err(Denial::Ask(_))));
    let counted = gate.limiter.token_statistics();
    assert_eq!((counted.buckets, counted.waits, counted.local_late), (1, 3, 0));
}

#[test]
fn tokens_end_with_their_lease() {
    let gate = node(Fallback::Share);
    let demand = gate.first_demand();
    gate.limiter.grant_tokens(&demand, 4, VALID, ms(0));
    assert!(gate.limited(0).is_ok());
    gate.limiter.grant_tokens(&demand, 5, VALID, ms(150));
    assert!(matches!(gate.limited(350), Err(Denial::Ask(_))));
    gate.limiter.grant_tokens(&demand, 4, VALID, ms(1000));
    gate.limiter.grant_tokens(&demand, 5, VALID, ms(1100));
    assert_eq!(gate.admitted(1199), 9);
    gate.limiter.grant_tokens(&demand, 4, VALID, ms(2000));
    gate.limiter.grant_tokens(&demand, 5, VALID, ms(2100));
    assert_eq!(gate.admitted(2200), 5);
    // With more than two, none is valid for longer than it was granted.
    for begin in [3000, 3050, 3100] {
        gate.limiter.grant_tokens(&demand, 3, VALID, ms(begin));
    }
    assert!((0..4).all(|_| gate.limited(3249).is_ok()));
    assert_eq!(gate.admitted(3250), 0);
}

#[test]
fn a_denial_is_remembered_for_a_moment() {
    let gate = node(Fallback::Share);
    let demand = gate.first_demand();
    gate.limiter.deny_tokens(&demand, Duration::from_millis(2500), ms(0));
    for millis in [0, 19] {
        let Err(Denial::Rejected(rejected)) = gate.limited(millis) else { panic!("denied") };
        assert_eq!(rejected.problem, Problem::RateLimited);
        assert_eq!(rejected.limit_status.retry_after, Some(3));
    }
    assert_eq!(gate.token_demand(19), None);
    assert!(matches!(gate.limited(20), Err(Denial::Ask(_))));
    let statuses = gate.plan.limit_statuses(&gate.config, at(0));
    assert_eq!(statuses.limits[0].refused, 2);
}

#[test]
fn the_next_lease_is_requested_at_half_and_for_the_demand_seen() {
    let gate = node(Fallback::Share);
    let demand = gate.first_demand();
    gate.limiter.grant_tokens(&demand, 20, VALID, ms(0));
    (0..9).for_each(|_| assert!(gate.limited(200 - 1).is_ok()));
    assert_eq!(gate.token_demand(199), None);
    assert!(gate.limited(199).is_ok());
    assert_eq!(gate.token_demand(200).map(|demand| demand.tokens), Some(5), "ten in 200 ms");
    assert!(gate.limited(199).is_ok());
    assert_eq!(gate.token_demand(200), None, "it is requested already");
    // The fleet was asked, and has none: what is left may be used.
    gate.limiter.deny_tokens(&demand, VALID, ms(190));
    assert_eq!(gate.admitted(199), 9);
    assert!(matches!(gate.limited(199), Err(Denial::Rejected(_))));
    (0..500).for_each(|_| assert!(gate.limited(210).is_err()));
    assert_eq!(
        gate.token_demand(220).map(|demand| demand.tokens),
        Some(50),
        "never over the burst"
    );
}

#[test]
fn a_demand_that_an_answer_has_met_is_not_listed_again() {
    let gate = node(Fallback::Share);
    let demand = gate.first_demand();
    assert!(gate.limited(0).is_err());
    gate.limiter.grant_tokens(&demand, 8, VALID, ms(0));
    assert_eq!(gate.token_demand(0), None);
    assert_eq!(gate.admitted(0), 8);
    assert!(gate.token_demand(0).is_some());
}

#[test]
fn a_request_without_an_answer_is_decided_by_the_fallback() {
    for (fallback, admitted) in [(Fallback::Share, 5), (Fallback::Allow, 20), (Fallback::Deny, 0)] {
        let gate = node(fallback);
        assert_eq!(gate.passed(None, ONE, 1, 0), admitted, "{fallback:?}");
        assert_eq!(gate.limiter.token_statistics().local_late, 20);
        gate.limiter.set_rate_mode(RateMode::Outage(fallback), at(0));
        let is_ask = |outcome| matches!(outcome, Err(Denial::Ask(_)));
        assert!((0..20).all(|_| !is_ask(gate.try_at(None, TWO, 1, at(0)))), "{fallback:?}");
        let counted = if fallback == Fallback::Share { 0 } else { 20 };
        assert_eq!(gate.limiter.token_statistics().local_outage, counted, "{fallback:?}");
    }
    let gate = node(Fallback::Deny);
    let rejected = gate.ask(None, ONE, 1, 0).expect_err("no answer");
    assert_eq!(rejected.problem, Problem::LimitUnavailable);
    assert_eq!(rejected.limit_status.retry_after, Some(1));
}

#[test]
fn the_rate_of_a_plan_is_leased_and_that_of_each_node_is_not() {
    let gate = node(Fallback::Share);
    assert_eq!(gate.passed(None, ONE, 2, 0), 2);
    assert!(matches!(gate.try_at(Some(0), ONE, 0, at(0)), Err(Denial::Ask(_))));
    let demand = gate.token_demand(0).expect("a demand");
    assert_eq!((demand.interval, demand.burst), (Duration::from_millis(100), 40));
    gate.limiter.grant_tokens(&demand, 3, VALID, at(0));
    assert!((0..3).all(|_| gate.try_at(Some(0), TWO, 0, at(0)).is_ok()));
    assert!(gate.try_at(Some(0), ONE, 0, at(0)).is_err());
    assert_eq!(gate.passed(Some(1), ONE, 0, 0), 4, "by its share, without an answer");
}

#[test]
fn statuses_show_leased_tokens() {
    let gate = node(Fallback::Share);
    let status = || {
        let told = gate.plan.limit_statuses(&gate.config, at(0));
        let acme = &told.consumers[0];
        let rate = acme.rate.expect("a rate");
        (rate.remaining, rate.burst, rate.nodes, acme.throttled.is_some())
    };
    assert_eq!(status(), (1, 40, 1, false), "the fleet may have some");
    assert!(gate.try_at(Some(0), ONE, 0, at(0)).is_err());
    let demand = gate.token_demand(0).expect("a demand");
    gate.limiter.grant_tokens(&demand, 7, VALID, at(0));
    assert_eq!(status(), (7, 40, 1, false));
    gate.limiter.grant_tokens(&demand, 0, VALID, at(0));
    assert!((0..7).all(|_| gate.try_at(Some(0), ONE, 0, at(0)).is_ok()));
    gate.limiter.deny_tokens(&demand, VALID, at(0));
    assert_eq!(status(), (0, 40, 1, true));
    gate.limiter.set_rate_mode(RateMode::Outage(Fallback::Allow), at(0));
    assert_eq!(status(), (40, 40, 1, false));
}

#[test]
fn a_request_that_is_rejected_later_returns_its_token() {
    let gate = node(Fallback::Share);
    let _ = (gate.first_demand(), gate.try_at(Some(0), ONE, 0, at(0)));
    let plan = gate.token_demand(0).expect("a demand of the plan");
    gate.limiter.grant_tokens(&plan, 2, VALID, at(0));
    // The limit behind the rate of the plan has no token.
    (0..9).for_each(|_| assert!(gate.try_at(Some(0), ONE, 1, at(0)).is_err()));
    assert!((0..2).all(|_| gate.try_at(Some(0), ONE, 0, at(0)).is_ok()));
    assert!(gate.try_at(Some(0), ONE, 0, at(0)).is_err());
}

#[test]
fn a_request_that_is_rejected_later_returns_what_its_share_has_charged() {
    let gate = node(Fallback::Share);
    let demand = gate.first_demand();
    gate.limiter.deny_tokens(&demand, VALID, at(0));
    let problems = [(); 9].map(|()| gate.ask(Some(1), ONE, 1, 0).map_err(|denied| denied.problem));
    assert!(problems.iter().all(|problem| *problem == Err(Problem::RateLimited)));
    assert_eq!(gate.passed(Some(1), ONE, 0, 0), 4, "a tenth of the plan's burst");
}

#[test]
fn all_nodes_name_a_bucket_alike() {
    let names = |consumers: [usize; 2]| {
        let mut config = config(Some(rate(10, 40)), None, vec![vec![], vec![]]);
        let api = limit("orders", rate(9, 9), LimitKey::Address);
        let twice = [limit("GET /", rate(9, 9), LimitKey::Consumer), api];
        config.apis[0].routes[1].rate_limits = twice.into();
        config.consumers.swap(consumers[0], consumers[1]);
        let gate = Gate::new(config);
        gate.limiter.set_rate_mode(RateMode::Leases(Fallback::Allow), at(0));
        for consumer in [Some(consumers[0]), Some(consumers[1]), None] {
            for address in [ONE, TWO, "2001:db8::1"] {
                let _ = gate.ask(consumer, address, 1, 0);
            }
        }
        let demands = gate.limiter.rate_demands(at(0));
        demands.into_iter().map(|demand| demand.name).collect::<BTreeSet<_>>()
    };
    let all = names([0, 1]);
    // Two consumers of the plan, three addresses by the API, two consumers and three addresses of
    // nobody by the route.
    assert_eq!(all.len(), 2 + 3 + 5);
    assert_eq!(all, names([1, 0]));
    let name = |api: &str, limit: &str| LimitName {
        api: api.to_owned(),
        limit: limit.to_owned(),
        occurrence: 0,
    };
    assert_ne!(name("a", "bc").bucket("v4", "1"), name("ab", "c").bucket("v4", "1"));
}

#[test]
fn keys_are_bounded_and_evicted_without_a_lease() {
    let gate = node(Fallback::Share);
    let address = |number: u32| std::net::Ipv4Addr::from(number).to_string();
    for number in 0..80_000 {
        let _ = gate.try_at(None, &address(number), 1, ms(0));
    }
    let counted = gate.limiter.token_statistics();
    assert_eq!(counted.buckets, 65_536);
    assert!(counted.local_full > 14_000, "the others are decided by shares");
    let demands = gate.limiter.rate_demands(ms(0));
    assert_eq!(demands.len(), 65_536);
    gate.limiter.deny_tokens(&demands[0], VALID, ms(0));
    gate.limiter.grant_tokens(&demands[1], 1, VALID, ms(0));
    for demand in &demands[2..] {
        gate.limiter.grant_tokens(demand, 0, VALID, ms(0));
    }
    for number in 200_000..210_000 {
        let _ = gate.try_at(None, &address(number), 1, ms(101));
    }
    assert_eq!(gate.limiter.token_statistics().buckets, 10_001);
    assert!(gate.limiter.grant_tokens(&demands[1], 1, VALID, ms(101)), "it has a lease");
    assert!(!gate.limiter.grant_tokens(&demands[2], 1, VALID, ms(101)), "evicted");
    assert_eq!(gate.limiter.token_statistics().late_grants, 1);
    gate.limiter.set_rate_mode(RateMode::Shares, ms(101));
    assert_eq!(gate.limiter.token_statistics().buckets, 0);
}

#[test]
fn other_modes_need_no_leases() {
    let gate = node(Fallback::Share);
    let Err(Denial::Ask(ask)) = gate.limited(0) else { panic!("no lease") };
    gate.limiter.set_rate_mode(RateMode::Outage(Fallback::Share), at(0));
    assert!(is_answered(&ask), "nobody waits during an outage");
    assert_eq!(gate.admitted(0), 5);
    gate.limiter.set_rate_mode(RateMode::Local, at(0));
    assert_eq!(gate.passed(None, ONE, 1, 0), 20, "five of fifty are charged");
    let statuses = gate.plan.limit_statuses(&gate.config, at(0));
    assert_eq!((statuses.limits[0].nodes, gate.limiter.nodes()), (1, 10));
    gate.limiter.set_rate_mode(RateMode::Shares, at(0));
    assert_eq!(gate.passed(None, ONE, 1, 0), 0);
}

#[test]
fn looking_takes_no_token_and_asks_nobody() {
    let gate = node(Fallback::Deny);
    let peek = |millis| {
        let caller = Caller { consumer: None, address: [192, 0, 2, 1].into() };
        gate.plan.peek(&gate.routes[1], &caller, Scope::default, ms(millis)).0
    };
    assert!(peek(0).is_ok());
    assert_eq!(gate.token_demand(0), None);
    let demand = gate.first_demand();
    gate.limiter.grant_tokens(&demand, 2, VALID, ms(0));
    assert_eq!(peek(0).expect("a token").map(|status| status.remaining), Some(1));
    assert_eq!(gate.admitted(0), 2);
    assert!(peek(0).is_ok(), "the fleet may have more");
    gate.limiter.deny_tokens(&demand, VALID, ms(0));
    assert!(peek(0).is_err());
    gate.limiter.set_rate_mode(RateMode::Outage(Fallback::Deny), at(0));
    assert_eq!(peek(0).map_err(|denied| denied.problem), Err(Problem::LimitUnavailable));
    gate.limiter.set_rate_mode(RateMode::Outage(Fallback::Allow), at(0));
    assert!(peek(0).is_ok());
}

#[test]
fn threads_admit_exactly_the_tokens_that_are_granted() {
    let gate = node(Fallback::Share);
    let demand = gate.first_demand();
    let (admitted, is_over) = (AtomicU64::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while !is_over.load(Ordering::Acquire) {
                    admitted.fetch_add(u64::from(gate.limited(0).is_ok()), Ordering::Relaxed);
                }
            });
        }
        for _ in 0..1000 {
            gate.limiter.grant_tokens(&demand, 7, VALID, ms(0));
        }
        let deadline = Instant::now() + Duration::from_secs(60);
        while admitted.load(Ordering::Relaxed) < 7000 && Instant::now() < deadline {
            std::thread::yield_now();
        }
        is_over.store(true, Ordering::Release);
    });
    assert_eq!(admitted.into_inner(), 7000);
}

proptest! {
    /// Every admitted request can be matched with a token of its own that is valid at that time.
    #[test]
    fn no_token_is_used_twice_or_after_its_end(
        steps in prop::collection::vec((0u64..60, 0u64..9, 1u64..300, 0..9), 1..200),
    ) {
        let gate = node(Fallback::Share);
        let demand = gate.first_demand();
        let (mut now, mut tokens) = (0, Vec::new());
        for (step, granted, valid, requests) in steps {
            now += step;
            if granted < 6 {
                let valid_for = Duration::from_millis(valid);
                gate.limiter.grant_tokens(&demand, granted, valid_for, ms(now));
                tokens.extend((0..granted).map(|_| now + valid));
            }
            for _ in 0..requests {
                if gate.limited(now).is_ok() {
                    // The one that ends first: if any matching exists, this one does.
                    tokens.retain(|until| *until > now);
                    let first = (0..tokens.len()).min_by_key(|token| tokens[*token]);
                    tokens.swap_remove(first.expect("a valid token"));
                }
            }
        }
    }
}
