//! What the limits of a request cost: the rate and quota of a plan, and a limit by address.
//! `cargo bench -p weir-limit --bench admit`.

use std::hint::black_box;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;
use weir_config::ConsumerId;
use weir_expr::Scope;
use weir_limit::{Caller, LimitPlan, Limiter, Moment, OnShortage, RouteLimits};

const CALLS: u32 = 1_000_000;
const ROUNDS: usize = 9;

const CONFIG: &str = "
listen: 127.0.0.1:0
auth: {keys: {api_key: {header: x-api-key}}}
plans:
  rate: {rate: 1000000/s, burst: 1000000000}
  quota: {quota: {calls: 60000000000, per: year}}
  rolling: {quota: {calls: 60000000000, per: year, rolling: true}}
consumers:
  rate: {plan: rate}
  quota: {plan: quota}
  rolling: {plan: rolling}
apis:
  free: {base: /free, routes: [{get: /, reply: {}}]}
  limited: {base: /limited, limit: {rate: 1000000/s, burst: 1000000000, key: address}, routes: [{get: /, reply: {}}]}
";

fn main() {
    let loaded = weir_config::load_text("weir.yaml", CONFIG).finish();
    let config = loaded.unwrap_or_else(|found| panic!("{found:?}")).0;
    let limiter = Arc::new(Limiter::default());
    let start = Moment { nanos: 1_000_000_000_000, unix: 1_767_225_630 };
    let (plan, routes) = LimitPlan::new(&limiter, &config, start);
    let consumer = |name: &str| config.consumers.iter().position(|c| c.name == name);
    for (name, consumer, route) in [
        ("plan's rate", consumer("rate"), 0),
        ("calendar quota", consumer("quota"), 0),
        ("rolling quota", consumer("rolling"), 0),
        ("limit by address", None, 1),
    ] {
        let caller =
            Caller { consumer: consumer.map(ConsumerId), address: IpAddr::from([10, 0, 0, 1]) };
        let mut rounds: Vec<f64> =
            (0..ROUNDS).map(|_| round(&plan, &routes[route], &caller, start)).collect();
        rounds.sort_by(f64::total_cmp);
        println!("{name}: {:.1} ns, best {:.1}", rounds[ROUNDS / 2], rounds[0]);
    }
}

/// Nanoseconds of a call.
fn round(plan: &LimitPlan, limits: &RouteLimits, caller: &Caller, start: Moment) -> f64 {
    let begin = Instant::now();
    for call in 0..CALLS {
        let now = Moment { nanos: start.nanos + u64::from(call) * 1000, unix: start.unix };
        let admitted =
            plan.admit(black_box(limits), black_box(caller), Scope::default, now, OnShortage::Ask);
        assert!(black_box(admitted).is_ok());
    }
    begin.elapsed().as_secs_f64() * 1e9 / f64::from(CALLS)
}
