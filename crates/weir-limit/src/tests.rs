use super::*;
use std::cell::Cell;
use std::time::Duration;
use weir_config::{
    Access, Api, Compression, Consumer, Handler, HeaderEdits, PathPattern, Plan, PlanId, Quota,
    QuotaPeriod, Rate, RateScope, Reply, ReplyBody, Route,
};
use weir_expr::Scope;

/// 1 January 2026, 00:00:30 UTC.
const UNIX: u64 = 1_767_225_630;

fn at(seconds: u64) -> Moment {
    Moment { nanos: (1000 + seconds) * NANOS, unix: UNIX + seconds }
}

fn rate(requests: u64, burst: u64) -> Rate {
    Rate { requests, per: Duration::from_secs(1), burst, scope: RateScope::Fleet }
}

fn route(rate_limits: Vec<RateLimit>) -> Route {
    Route {
        operation: "GET /".into(),
        methods: vec![],
        path: PathPattern { text: "/".into(), segments: vec![], wildcard: false },
        access: Access::default(),
        path_normalization: weir_config::PathNormalization::default(),
        clients: vec![],
        rate_limits,
        body_limit: 0,
        response_limit: None,
        timeout: None,
        request_headers: HeaderEdits::default(),
        validation: None,
        request_map: None,
        handler: Handler::Reply(Reply { status: 200, headers: vec![], body: ReplyBody::Empty }),
        response_map: None,
        response_headers: HeaderEdits::default(),
        cache: None,
        compress: Compression { enabled: false, min_size: 0, level: 1, codings: [None; 3] },
        capture: weir_config::Capture::default(),
        count: weir_config::CountRule::default(),
        resubmit: weir_config::Resubmit::default(),
        location: weir_config::Location::default(),
    }
}

fn limit(name: &str, rate: Rate, key: LimitKey) -> RateLimit {
    RateLimit { name: name.into(), rate, key }
}

/// Consumers `acme` and `beta` on plan `gold`, `free` without a plan; one API with these routes.
fn config(rate: Option<Rate>, calls: Option<u64>, routes: Vec<Vec<RateLimit>>) -> Config {
    let (per, zone) = (QuotaPeriod::Minute, jiff::tz::TimeZone::UTC);
    let quota = calls.map(|calls| Quota { calls, per, zone, rolling: false });
    let consumer =
        |name: &str, plan| Consumer { name: name.into(), plan, matches: None, api_keys: vec![] };
    Config {
        plans: vec![Plan { name: "gold".into(), rate, quota, price: None }],
        consumers: vec![
            consumer("acme", Some(PlanId(0))),
            consumer("beta", Some(PlanId(0))),
            consumer("free", None),
        ],
        apis: vec![Api {
            name: "orders".into(),
            hosts: vec![],
            base: "/".into(),
            cors: None,
            routes: routes.into_iter().map(route).collect(),
            openapi: None,
            location: weir_config::Location::default(),
        }],
        ..weir_config::load_text("weir.yaml", "listen: 127.0.0.1:0\n")
            .finish()
            .expect("a configuration")
            .0
    }
}

struct Gate {
    limiter: Arc<Limiter>,
    config: Config,
    plan: LimitPlan,
    routes: Vec<RouteLimits>,
}

impl Gate {
    fn new(config: Config) -> Self {
        let limiter = Arc::new(Limiter::default());
        let (plan, routes) = LimitPlan::new(&limiter, &config, at(0));
        Self { limiter, config, plan, routes }
    }

    fn reload(&mut self, config: Config, now: Moment) {
        (self.plan, self.routes) = LimitPlan::new(&self.limiter, &config, now);
        self.config = config;
    }

    fn ask(
        &self,
        consumer: Option<usize>,
        address: &str,
        route: usize,
        seconds: u64,
    ) -> Result<Option<LimitStatus>, LimitRejection> {
        let consumer = consumer.map(ConsumerId);
        let address = address.parse().expect("an address");
        let caller = Caller { consumer, address };
        let limits = &self.routes[route];
        let outcome =
            self.plan.admit(limits, &caller, Scope::default, at(seconds), OnShortage::Decide);
        outcome.map_err(|denial| match denial {
            Denial::Rejected(rejection) => rejection,
            Denial::Ask(_) => panic!("the request does not wait"),
        })
    }

    /// How many of 20 requests pass.
    fn passed(&self, consumer: Option<usize>, address: &str, route: usize, seconds: u64) -> usize {
        (0..20).filter(|_| self.ask(consumer, address, route, seconds).is_ok()).count()
    }
}

const ONE: &str = "192.0.2.1";
const TWO: &str = "192.0.2.2";

#[test]
fn without_limits_everybody_passes_and_hears_nothing() {
    let gate = Gate::new(config(Some(rate(1, 1)), None, vec![vec![]]));
    for consumer in [None, Some(2)] {
        assert_eq!(gate.ask(consumer, ONE, 0, 0), Ok(None));
        assert_eq!(gate.passed(consumer, ONE, 0, 0), 20);
    }
}

#[test]
fn each_consumer_has_its_plan_s_rate() {
    let gate = Gate::new(config(Some(rate(1, 3)), None, vec![vec![], vec![]]));
    assert_eq!(gate.passed(Some(0), ONE, 0, 0), 3);
    assert_eq!(gate.passed(Some(0), TWO, 1, 0), 0, "on every route, from every address");
    assert_eq!(gate.passed(Some(1), ONE, 0, 0), 3);
    assert_eq!(gate.passed(Some(0), ONE, 0, 2), 2);
}

#[test]
fn limits_count_by_address_or_consumer() {
    let by_address = limit("orders", rate(1, 2), LimitKey::Address);
    let by_consumer = limit("orders", rate(1, 4), LimitKey::Consumer);
    let gate = Gate::new(config(None, None, vec![vec![by_address], vec![], vec![by_consumer]]));
    assert_eq!(gate.passed(Some(0), ONE, 0, 0), 2);
    assert_eq!(gate.passed(Some(1), ONE, 0, 0), 0);
    assert_eq!(gate.passed(Some(0), TWO, 0, 0), 2);
    assert_eq!(gate.passed(Some(0), ONE, 1, 0), 20);
    assert_eq!(gate.passed(Some(0), ONE, 2, 0), 4);
    assert_eq!(gate.passed(Some(0), TWO, 2, 0), 0);
    assert_eq!(gate.passed(Some(2), ONE, 2, 0), 4, "a consumer without a plan is one, too");
}

#[test]
fn nobody_in_particular_is_counted_by_address() {
    let gate =
        Gate::new(config(None, None, vec![vec![limit("orders", rate(1, 2), LimitKey::Consumer)]]));
    assert_eq!(gate.passed(None, "2001:db8::1", 0, 0), 2);
    assert_eq!(gate.passed(None, "2001:db8::2", 0, 0), 0, "the same /64");
    assert_eq!(gate.passed(None, TWO, 0, 0), 2);
}

#[test]
fn an_api_s_limit_is_shared_by_its_routes_and_a_route_s_is_not() {
    let api = || limit("orders", rate(1, 5), LimitKey::Address);
    let own = |name: &str| limit(name, rate(1, 2), LimitKey::Address);
    // The second route has the API's name: it is still another limit.
    let gate = Gate::new(config(
        None,
        None,
        vec![vec![api(), own("GET /a")], vec![api(), own("orders")], vec![api()]],
    ));
    assert_eq!(gate.passed(None, ONE, 0, 0), 2);
    assert_eq!(gate.passed(None, ONE, 1, 0), 2);
    assert_eq!(gate.passed(None, ONE, 2, 0), 1, "refused requests used up nothing");
}

#[test]
fn a_quota_counts_what_is_admitted_only() {
    let gate = Gate::new(config(Some(rate(2, 2)), Some(3), vec![vec![]]));
    assert_eq!(gate.passed(Some(0), ONE, 0, 0), 2);
    let refused = gate.ask(Some(0), ONE, 0, 0).unwrap_err();
    assert_eq!(refused.problem, Problem::RateLimited);
    assert_eq!(gate.passed(Some(0), ONE, 0, 1), 1);
    // One place in the bucket is free, but the quota is used up: nothing is taken for that.
    for _ in 0..5 {
        let refused = gate.ask(Some(0), ONE, 0, 1).unwrap_err();
        assert_eq!(refused.problem, Problem::QuotaExhausted);
        assert_eq!(refused.limit_status.retry_after, Some(29));
    }
    assert_eq!(gate.passed(Some(1), ONE, 0, 1), 2, "each consumer by itself");
    assert_eq!(gate.passed(Some(0), ONE, 0, 30), 2, "the next minute");
}

#[test]
fn a_limit_that_refuses_gives_back_what_others_took() {
    let strict = limit("GET /", rate(1, 1), LimitKey::Consumer);
    let gate = Gate::new(config(Some(rate(1, 3)), Some(10), vec![vec![strict], vec![]]));
    assert_eq!(gate.passed(Some(0), ONE, 0, 0), 1);
    assert_eq!(gate.passed(Some(0), ONE, 1, 0), 2);
    assert_eq!(gate.limiter.quota_counts()[0].calls, 3);
}

#[test]
fn the_tightest_policy_is_told() {
    let gate = Gate::new(config(
        Some(rate(10, 10)),
        Some(4),
        vec![vec![limit("GET /", rate(1, 6), LimitKey::Address)]],
    ));
    let told = |outcome: Result<Option<LimitStatus>, LimitRejection>| {
        let limit_status = match outcome {
            Ok(limit_status) => limit_status.expect("limits apply"),
            Err(rejection) => rejection.limit_status,
        };
        let (mut headers, mut scratch) = (Headers::new(), Vec::new());
        gate.plan.write_headers(&limit_status, &mut scratch, &mut headers);
        let values: Vec<_> =
            headers.iter().map(|(_, _, v)| String::from_utf8_lossy(v).into_owned()).collect();
        values.join(" | ")
    };
    assert_eq!(
        told(gate.ask(Some(0), ONE, 0, 0)),
        "\"gold-quota\";q=4;w=60 | \"gold-quota\";r=3;t=30"
    );
    assert_eq!(told(gate.ask(None, ONE, 0, 0)), "\"GET /\";q=6;w=6 | \"GET /\";r=4;t=2");
    assert_eq!(gate.passed(None, ONE, 0, 0), 4);
    assert_eq!(told(gate.ask(None, ONE, 0, 0)), "\"GET /\";q=6;w=6 | \"GET /\";r=0;t=6 | 1");
    gate.passed(Some(0), TWO, 0, 0);
    assert_eq!(
        told(gate.ask(Some(0), "192.0.2.3", 0, 0)),
        "\"gold-quota\";q=4;w=60 | \"gold-quota\";r=0;t=30 | 30"
    );
}

#[test]
fn the_scope_is_made_for_expressions_only() {
    let gate = Gate::new(config(
        Some(rate(1, 5)),
        None,
        vec![vec![limit("GET /", rate(1, 5), LimitKey::Address)]],
    ));
    let consumer = Some(ConsumerId(0));
    let caller = Caller { consumer, address: [192, 0, 2, 1].into() };
    let made = Cell::new(0);
    let scope = || {
        made.set(made.get() + 1);
        Scope::default()
    };
    assert!(gate.plan.admit(&gate.routes[0], &caller, scope, at(0), OnShortage::Ask).is_ok());
    assert_eq!(made.get(), 0);
}

#[test]
fn limits_count_by_what_an_expression_gives() {
    let by = |text: &str| {
        let expr = weir_expr::Expr::compile(text, &["consumer"]).expect("an expression");
        vec![limit("GET /", rate(1, 2), LimitKey::Expr(expr))]
    };
    let gate = Gate::new(config(None, None, vec![by("consumer")]));
    let ask = |name: Option<&str>, address: [u8; 4]| {
        let consumer = None;
        let caller = Caller { consumer, address: address.into() };
        let scope = || Scope { consumer: name.map(str::to_owned), ..Scope::default() };
        let admits =
            || gate.plan.admit(&gate.routes[0], &caller, scope, at(0), OnShortage::Ask).is_ok();
        (0..20).filter(|_| admits()).count()
    };
    assert_eq!(ask(Some("a"), [192, 0, 2, 1]), 2);
    assert_eq!(ask(Some("a"), [192, 0, 2, 2]), 0);
    assert_eq!(ask(Some("b"), [192, 0, 2, 1]), 2);
    assert_eq!(ask(None, [192, 0, 2, 1]), 2, "the address when it gives nothing");
    assert_eq!(ask(None, [192, 0, 2, 2]), 2);
}

#[test]
fn counters_survive_a_reload_and_a_changed_rate() {
    let limits = |burst| vec![vec![limit("GET /", rate(1, burst), LimitKey::Address)], vec![]];
    let mut gate = Gate::new(config(Some(rate(1, 5)), Some(100), limits(4)));
    assert_eq!(gate.passed(Some(0), ONE, 1, 0), 5);
    assert_eq!(gate.passed(None, ONE, 0, 0), 4);
    gate.reload(config(Some(rate(1, 5)), Some(100), limits(4)), at(0));
    assert_eq!(gate.passed(Some(0), ONE, 1, 0), 0);
    assert_eq!(gate.passed(None, ONE, 0, 0), 0);
    // Five and four stay taken.
    gate.reload(config(Some(rate(10, 7)), Some(6), limits(5)), at(0));
    assert_eq!(gate.passed(None, ONE, 0, 0), 1);
    assert_eq!(gate.passed(Some(0), ONE, 1, 0), 1, "quota: five of six are used");
    assert_eq!(gate.passed(Some(0), ONE, 1, 30), 6, "the next minute");
}

#[test]
fn counters_follow_names_not_places() {
    let mut gate = Gate::new(config(
        Some(rate(1, 5)),
        None,
        vec![vec![limit("GET /", rate(1, 3), LimitKey::Consumer)]],
    ));
    assert_eq!(gate.passed(Some(1), ONE, 0, 0), 3);
    let mut moved = config(
        Some(rate(1, 5)),
        None,
        vec![vec![], vec![limit("GET /", rate(1, 3), LimitKey::Consumer)]],
    );
    moved.consumers.swap(0, 1);
    gate.reload(moved, at(0));
    assert_eq!(gate.passed(Some(0), ONE, 1, 0), 0);
    assert_eq!(gate.passed(Some(0), ONE, 0, 0), 2);
    assert_eq!(gate.passed(Some(1), ONE, 1, 0), 3);
}

#[test]
fn quota_counts_can_be_kept_and_restored() {
    let gate = Gate::new(config(None, Some(5), vec![vec![]]));
    (0..3).for_each(|_| assert!(gate.ask(Some(0), ONE, 0, 0).is_ok()));
    let counts = gate.limiter.quota_counts();
    assert_eq!(
        counts,
        [QuotaCount {
            plan: "gold".into(),
            consumer: "acme".into(),
            window_start: UNIX - 30,
            calls: 3,
            rolling: None,
        }]
    );
    let limiter = Arc::new(Limiter::default());
    limiter.restore_quota_counts(&counts);
    let config = config(None, Some(5), vec![vec![]]);
    let (plan, routes) = LimitPlan::new(&limiter, &config, at(0));
    let restored = Gate { limiter, config, plan, routes };
    assert_eq!(restored.passed(Some(0), ONE, 0, 0), 2);
    assert_eq!(restored.passed(Some(1), ONE, 0, 0), 5);
}

fn rolling(calls: u64, per: QuotaPeriod) -> Config {
    let mut config = config(None, Some(calls), vec![vec![]]);
    let quota = config.plans[0].quota.as_mut().expect("a quota");
    (quota.rolling, quota.per) = (true, per);
    config
}

#[test]
fn a_rolling_quota_knows_no_calendar() {
    let gate = Gate::new(rolling(3, QuotaPeriod::Minute));
    assert_eq!(gate.passed(Some(0), ONE, 0, 0), 3);
    assert_eq!(gate.passed(Some(0), ONE, 0, 30), 0, "another minute, but not a minute later");
    let refused = gate.ask(Some(0), ONE, 0, 31).unwrap_err();
    assert_eq!(refused.problem, Problem::QuotaExhausted);
    assert_eq!((refused.limit_status.retry_after, refused.limit_status.window), (Some(30), 60));
    assert_eq!(gate.passed(Some(1), ONE, 0, 31), 3, "each consumer by itself");
    assert_eq!(gate.passed(Some(0), ONE, 0, 61), 3);
}

#[test]
fn a_rolling_quota_survives_a_reload_another_length_and_a_restart() {
    let mut gate = Gate::new(rolling(3, QuotaPeriod::Minute));
    assert!(gate.ask(Some(0), ONE, 0, 0).is_ok());
    gate.reload(rolling(3, QuotaPeriod::Minute), at(1));
    assert!(gate.ask(Some(0), ONE, 0, 1).is_ok());
    gate.reload(rolling(3, QuotaPeriod::Hour), at(2));
    assert_eq!(gate.passed(Some(0), ONE, 0, 3), 1);
    let limiter = Arc::new(Limiter::default());
    limiter.restore_quota_counts(&gate.limiter.quota_counts());
    let config = rolling(5, QuotaPeriod::Hour);
    let (plan, routes) = LimitPlan::new(&limiter, &config, at(4));
    let restored = Gate { limiter, config, plan, routes };
    assert_eq!(restored.passed(Some(0), ONE, 0, 4), 2);
}

#[test]
fn what_counts_against_a_quota_is_told() {
    let quota = |per, rolling| Quota { calls: 1, per, zone: jiff::tz::TimeZone::UTC, rolling };
    let minute = UNIX - 30;
    assert_eq!(quota_span(&quota(QuotaPeriod::Minute, false), UNIX), minute..minute + 60);
    assert_eq!(quota_span(&quota(QuotaPeriod::Minute, true), UNIX), UNIX - 60..UNIX + 1);
    assert_eq!(quota_span(&quota(QuotaPeriod::Hour, true), UNIX), minute - 3600..minute + 60);
}

#[test]
fn statuses_contain_remaining_and_throttled() {
    let strict = limit("GET /", rate(1, 1), LimitKey::Consumer);
    let config = config(Some(rate(1, 5)), Some(4), vec![vec![strict], vec![]]);
    let gate = Gate::new(config);
    assert_eq!(gate.passed(Some(0), ONE, 0, 0), 1);
    assert_eq!(gate.passed(Some(0), ONE, 1, 0), 3);
    assert_eq!(gate.passed(Some(1), ONE, 1, 0), 4);
    let told = gate.plan.limit_statuses(&gate.config, at(0));
    let [acme, beta] = &told.consumers[..] else { panic!("{told:?}") };
    assert_eq!((acme.consumer.as_str(), acme.plan.as_str()), ("acme", "gold"));
    assert_eq!(acme.rate, Some(RateStatus { burst: 5, remaining: 1, reset_seconds: 4, nodes: 1 }));
    let quota = acme.quota.expect("a quota");
    assert_eq!((quota.used, quota.remaining, quota.free_in_seconds), (4, 0, 30));
    assert_eq!(acme.throttled.as_deref(), Some("quota"));
    assert_eq!((acme.refused_by_rate, acme.refused_by_quota), (0, 17));
    assert_eq!((beta.refused_by_quota, beta.throttled.as_deref()), (16, Some("quota")));
    assert_eq!(told.limits.len(), 1);
    assert_eq!((told.limits[0].limit.as_str(), told.limits[0].refused), ("GET /", 19));
    let later = gate.plan.limit_statuses(&gate.config, at(60));
    assert_eq!(later.consumers[0].throttled, None);
    assert_eq!(later.consumers[0].quota.expect("a quota").remaining, 4);
}

#[test]
fn threads_share_every_counter() {
    let gate = Gate::new(config(
        Some(rate(1, 200)),
        Some(150),
        vec![vec![limit("GET /", rate(1, 100), LimitKey::Address)]],
    ));
    let passed: usize = std::thread::scope(|scope| {
        let gate = &gate;
        let ask = move || (0..200).filter(|_| gate.ask(Some(0), ONE, 0, 0).is_ok()).count();
        let threads = [scope.spawn(ask), scope.spawn(ask)];
        threads.into_iter().map(|thread| thread.join().expect("no panic")).sum()
    });
    assert_eq!(passed, 100);
    assert_eq!(gate.limiter.quota_counts()[0].calls, 100);
}

mod lease;
mod share;
mod tokens;
