//! Requests against limits that the node leases from its fleet.

use super::{hash, sent};
use crate::gateway::Gateway;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use weir_config::Source;
use weir_gateway::explanation::Outcome;
use weir_gateway::request_text::RequestText;
use weir_limit::{Fallback, Limiter, QuotaDemand, QuotaGrant, RateMode};
use weir_net::passed::Passed;

/// A wait that no test reaches.
const LONG: Duration = Duration::from_secs(60);

fn start(dir: &Path) -> (Gateway, SocketAddr) {
    let config = format!(
        r#"
workers: 1
listen: [{{addr: "127.0.0.1:0"}}]
log: {{access: off}}
auth: {{keys: {{api_key: {{header: x-api-key}}}}}}
plans: {{small: {{quota: {{calls: 100, per: year}}}}}}
consumers: {{acme: {{plan: small, api_keys: ["{}"]}}}}
apis:
  a:
    base: /
    auth: keys
    limit: {{rate: 1/h, burst: 50}}
    routes: [{{get: /, reply: {{text: ok}}}}]
"#,
        hash("key")
    );
    std::fs::write(dir.join("weir.yaml"), config).unwrap();
    let source = Source { path: dir.join("weir.yaml"), ..Default::default() };
    let loaded =
        weir_gateway::configuration::load(&source).unwrap_or_else(|found| panic!("{found:?}"));
    let (config, compiled) = (Arc::new(loaded.config), loaded.compiled);
    let bound = Gateway::bind(&config, &mut Passed::default()).unwrap();
    let addr = bound.listen_addrs()[0];
    let gateway = bound.start(config, compiled, vec![]).unwrap();
    gateway.limiter().lease_quotas(true);
    gateway.limiter().set_lease_timeout(LONG);
    (gateway, addr)
}

fn request() -> RequestText {
    let headers = [("host", "a"), ("x-api-key", "key"), ("connection", "close")];
    RequestText {
        method: "GET".to_owned(),
        target: "/".to_owned(),
        headers: headers.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
        ..RequestText::default()
    }
}

/// The complete response.
fn response(addr: SocketAddr) -> String {
    let mut stream = connect(addr);
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// A connection with a request on it.
fn connect(addr: SocketAddr) -> TcpStream {
    let mut stream = TcpStream::connect(addr).unwrap();
    let request = "GET / HTTP/1.1\r\nhost: a\r\nx-api-key: key\r\nconnection: close\r\n\r\n";
    stream.write_all(request.as_bytes()).unwrap();
    stream
}

fn in_background(addr: SocketAddr) -> JoinHandle<u16> {
    std::thread::spawn(move || sent(addr, &request()))
}

/// The next demand, as the thread of the fleet hears of it.
fn next_demand(limiter: &Limiter) -> QuotaDemand {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let demanded = async { tokio::time::timeout(LONG, limiter.lease_demanded()).await };
    runtime.block_on(demanded).expect("a demand");
    limiter.quota_demands(limiter.now()).pop().expect("a demand")
}

/// Waits for a condition.
fn eventually(condition: impl Fn() -> bool) {
    let deadline = Instant::now() + LONG;
    while !condition() {
        assert!(Instant::now() < deadline, "the condition is never met");
        std::thread::yield_now();
    }
}

fn grant(limiter: &Limiter, demand: &QuotaDemand, calls: u64, rest: u64) {
    assert!(limiter.grant_quota(&QuotaGrant {
        plan: &demand.plan,
        consumer: &demand.consumer,
        window_start: demand.window_start,
        calls,
        rest,
    }));
}

#[test]
fn a_request_waits_for_its_lease() {
    let dir = tempfile::tempdir().unwrap();
    let (gateway, addr) = start(dir.path());
    let limiter = gateway.limiter();
    let waiting = [in_background(addr), in_background(addr)];
    let demand = next_demand(limiter);
    eventually(|| limiter.lease_statistics().waits == 2);
    grant(limiter, &demand, 1, 99);
    // Of both, one finds no call left and asks again.
    eventually(|| limiter.lease_statistics().waits == 3);
    grant(limiter, &demand, 3, 96);
    assert_eq!(waiting.map(|thread| thread.join().unwrap()), [200, 200]);
    let granted = response(addr);
    assert!(granted.contains("\r\nratelimit: \"a\";r=47;"), "{granted}");
    assert_eq!(limiter.lease_statistics().denied, 0);
    grant(limiter, &demand, 0, 0);
    assert_eq!(sent(addr, &request()), 200);
    assert_eq!(sent(addr, &request()), 429);
    assert_eq!(limiter.lease_statistics().waits, 3, "nobody waits where the fleet has no more");
}

#[test]
fn a_request_without_a_lease_gets_503_after_the_timeout() {
    let dir = tempfile::tempdir().unwrap();
    let (gateway, addr) = start(dir.path());
    let limiter = gateway.limiter();
    limiter.set_lease_timeout(Duration::from_millis(1));
    let denied = response(addr);
    assert!(denied.starts_with("HTTP/1.1 503 "), "{denied}");
    assert!(denied.contains("urn:weir:problem:limit-unavailable"), "{denied}");
    assert!(denied.contains("\r\nretry-after: 1\r\n"), "{denied}");
    assert!(!denied.contains("\r\nratelimit"), "{denied}");
    assert_eq!(limiter.lease_statistics().denied, 1);
    // It was charged to nothing.
    grant(limiter, &next_demand(limiter), 1, 0);
    let admitted = response(addr);
    assert!(admitted.contains("r=0;"), "{admitted}");
}

#[test]
fn during_an_outage_no_request_waits() {
    let dir = tempfile::tempdir().unwrap();
    let (gateway, addr) = start(dir.path());
    let limiter = gateway.limiter();
    limiter.quota_outage(200);
    let statuses = [(); 4].map(|()| sent(addr, &request()));
    assert_eq!(statuses, [200, 200, 429, 429]);
    let counted = limiter.lease_statistics();
    assert_eq!((counted.waits, counted.overdraft_calls), (0, 2));
}

#[test]
fn a_request_waits_for_the_tokens_of_its_rate_or_takes_the_share_of_the_node() {
    let dir = tempfile::tempdir().unwrap();
    let (gateway, addr) = start(dir.path());
    let limiter = gateway.limiter();
    limiter.lease_quotas(false);
    limiter.set_nodes(25, limiter.now());
    limiter.set_rate_mode(RateMode::Leases(Fallback::Share), limiter.now());
    let waiting = in_background(addr);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let demanded = async { tokio::time::timeout(LONG, limiter.tokens_demanded()).await };
    runtime.block_on(demanded).expect("a demand");
    let demand = limiter.rate_demands(limiter.now()).pop().expect("a demand");
    assert!(limiter.grant_tokens(&demand, 1, LONG, limiter.now()));
    assert_eq!(waiting.join().unwrap(), 200);
    limiter.set_lease_timeout(Duration::from_millis(1));
    let statuses = [(); 3].map(|()| sent(addr, &request()));
    assert_eq!(statuses, [200, 200, 429], "50 requests for 25 nodes");
    assert_eq!(limiter.token_statistics().local_late, 3);
}

#[test]
fn a_client_that_leaves_ends_its_wait() {
    let dir = tempfile::tempdir().unwrap();
    let (gateway, addr) = start(dir.path());
    let limiter = gateway.limiter();
    let leaving = connect(addr);
    let demand = next_demand(limiter);
    drop(leaving);
    eventually(|| gateway.stats().totals.active == 0);
    grant(limiter, &demand, 1, 0);
    assert_eq!(sent(addr, &request()), 200, "the call of the client that left is not counted");
}

#[test]
fn explaining_takes_no_lease() {
    let dir = tempfile::tempdir().unwrap();
    let (gateway, _) = start(dir.path());
    let limiter = gateway.limiter();
    for _ in 0..3 {
        let explanation = gateway.explain(request()).unwrap();
        let limit = explanation.steps.iter().find(|step| step.name == "limit").expect("a step");
        assert_eq!(limit.outcome, Outcome::Passed, "{limit:?}");
    }
    assert_eq!(limiter.quota_demands(limiter.now()), []);
    assert_eq!(limiter.lease_statistics().waits, 0);
}
