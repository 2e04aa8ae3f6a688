//! Rates of all nodes: shares of equal size, or tokens leased from Redis, whatever happens to it.

use super::node::{config, findings, status};
use crate::harness::{
    Certificate, Client, Mode, Postgres, Redis, Relay, Server, Weir, eventually, from_environment,
    load_time,
};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// Tokens of a rate that is refilled too slowly to matter.
const TOKENS: usize = 12;
/// Requests that a limit of [`TOKENS`] does not admit by far.
const MANY: usize = 3 * TOKENS;

/// An API with one limit for all clients.
fn api_with(api: &str, limit: &str) -> String {
    format!(
        "apis: {{{api}: {{base: /, limit: {{{limit}, key: address}}, \
         routes: [{{get: /, reply: {{text: hi}}}}]}}}}\n"
    )
}

/// The configuration of a node with these rates of the fleet, and more keys of it.
fn with_rates(database: SocketAddr, fleet: &str, limit: &str) -> String {
    config(database, &api_with("y", limit)).replace("fleet: {", &format!("fleet: {{{fleet}, "))
}

/// The keys of a fleet that leases tokens from the Redis at an address.
fn by_redis(redis: SocketAddr, rates: &str) -> String {
    format!(
        "redis: {{url: \"redis://{redis}/2\", password: {}}}, rates: {{mode: redis, {rates}}}",
        Redis::PASSWORD
    )
}

fn start(name: &str, text: &str) -> Server {
    Weir::new(text).env("NODE", name).start()
}

/// Starts so many nodes, which then know each other.
fn start_all(nodes: usize, text: &str) -> Vec<Server> {
    let nodes: Vec<Server> = (0..nodes).map(|number| start(&format!("n{number}"), text)).collect();
    let known = |server: &Server| server.metric("weir_fleet_nodes", &[]) == nodes.len() as f64;
    eventually("they know each other", || nodes.iter().all(known));
    nodes
}

fn is_leasing(server: &Server) -> bool {
    server.metric("weir_fleet_up", &["redis"]) == 1.0
}

fn waits(server: &Server) -> f64 {
    server.metric("weir_fleet_token_waits_total", &[])
}

/// Sends requests one after another; the number of those admitted. All others are rejected by the limit.
fn admitted(server: &Server, requests: usize) -> usize {
    let mut client = server.connect();
    let statuses: Vec<u16> = (0..requests).map(|_| client.get("/").status).collect();
    let count = |status| statuses.iter().filter(|one| **one == status).count();
    assert_eq!(count(200) + count(429), requests, "{statuses:?}");
    count(200)
}

#[test]
fn shares_add_up_to_the_limit() {
    for nodes in [2, 3] {
        let database = Postgres::start();
        let text = with_rates(database.addr(), "rates: {mode: share}", "rate: 12/h");
        let nodes = start_all(nodes, &text);
        let all: Vec<usize> = nodes.iter().map(|node| admitted(node, MANY)).collect();
        assert_eq!(all, vec![TOKENS / nodes.len(); nodes.len()]);
    }
}

#[test]
fn each_node_enforces_a_limit_of_nodes_and_every_limit_in_local_mode() {
    let database = Postgres::start();
    let of_nodes = with_rates(database.addr(), "rates: {mode: share}", "rate: 12/h, scope: node");
    let all: Vec<usize> = start_all(2, &of_nodes).iter().map(|node| admitted(node, MANY)).collect();
    assert_eq!(all, [TOKENS; 2]);
    let database = Postgres::start();
    let local = with_rates(database.addr(), "rates: {mode: local}", "rate: 12/h");
    let all: Vec<usize> = start_all(2, &local).iter().map(|node| admitted(node, MANY)).collect();
    assert_eq!(all, [TOKENS; 2]);
}

#[test]
fn a_reload_changes_how_rates_are_enforced() {
    let (database, redis) = (Postgres::start(), Redis::start());
    // Another limit each time: its bucket is full.
    let text = |mode: &str, api: &str| {
        let rates = by_redis(redis.addr(), "timeout: 150ms").replace("mode: redis", mode);
        with_rates(database.addr(), &rates, "rate: 12/h").replace("{y: ", &format!("{{{api}: "))
    };
    let mut nodes = start_all(2, &text("mode: share", "first"));
    assert_eq!(nodes.iter().map(|node| admitted(node, MANY)).sum::<usize>(), TOKENS);
    assert_eq!(status(&nodes[0])["redis"], serde_json::Value::Null);
    nodes.iter_mut().for_each(|node| node.reload(&text("mode: redis", "second")));
    eventually("both lease tokens", || nodes.iter().all(is_leasing));
    assert_eq!(admitted(&nodes[0], MANY), TOKENS);
    assert_eq!(admitted(&nodes[1], MANY), 0);
    nodes.iter_mut().for_each(|node| node.reload(&text("mode: local", "third")));
    let is_local = |node: &Server| status(node)["redis"].is_null();
    eventually("none leases tokens", || nodes.iter().all(is_local));
    let all: Vec<usize> = nodes.iter().map(|node| admitted(node, MANY)).collect();
    assert_eq!(all, [TOKENS; 2]);
}

/// When an admitted request was sent, and when its response came.
type Call = (Instant, Instant);

/// Sends requests for a time, over so many connections; the admitted ones.
fn load(addr: SocketAddr, connections: usize, time: Duration) -> Vec<Call> {
    let end = Instant::now() + time;
    let run = || {
        let (mut client, mut calls) = (Client::connect(addr), Vec::new());
        while Instant::now() < end {
            let sent = Instant::now();
            match client.get("/").status {
                200 => calls.push((sent, Instant::now())),
                // Overload: a client that does not wait at all would take the time of the node.
                _ => std::thread::sleep(Duration::from_millis(1)),
            }
        }
        calls
    };
    std::thread::scope(|scope| {
        let all: Vec<_> = (0..connections).map(|_| scope.spawn(run)).collect();
        all.into_iter().flat_map(|one| one.join().unwrap()).collect()
    })
}

/// The most that any window has admitted beyond `burst + rate·(t + lease)`; negative if it is less.
fn excess(calls: &mut [Call], burst: f64, rate: f64, lease: Duration) -> f64 {
    calls.sort_by_key(|(_, received)| *received);
    let mut most = f64::NEG_INFINITY;
    for first in 0..calls.len() {
        // Each of them was admitted between the first sending and the last response.
        let mut begin = calls[first].0;
        for (count, (sent, received)) in (1..).zip(&calls[first..]) {
            begin = begin.min(*sent);
            let time = (*received - begin + lease).as_secs_f64();
            most = most.max(f64::from(count) - burst - rate * time);
        }
    }
    most
}

#[test]
fn one_node_with_all_the_load_admits_the_whole_rate_and_all_together_no_more() {
    let (database, redis) = (Postgres::start(), Redis::start());
    let (rate, burst, lease) = (200.0, 100.0, Duration::from_millis(400));
    // A busy machine must not make a request wait in vain: such requests are rejected here, and counted.
    let rates = by_redis(redis.addr(), "lease: 400ms, timeout: 350ms, on_outage: deny");
    let text = with_rates(database.addr(), &rates, "rate: 200/s, burst: 100");
    let nodes = start_all(from_environment("WEIR_FLEET_NODES", 2), &text);
    eventually("all lease tokens", || nodes.iter().all(is_leasing));
    let time = load_time(Duration::from_secs(5));
    let began = Instant::now();
    let mut calls = load(nodes[0].listen[0], 3, time);
    // At the end the node may have a lease for the next 100 ms.
    let seconds = began.elapsed().as_secs_f64() - 0.1;
    let least = 0.99 * (burst + rate * seconds);
    assert!(calls.len() as f64 >= least, "{} of {least} in {seconds} s", calls.len());
    // Then all of them at once.
    let all = std::thread::scope(|scope| {
        let one = |node: &Server| (node.listen[0], Duration::from_secs(2));
        let run = |(addr, time)| scope.spawn(move || load(addr, 2, time));
        let all: Vec<_> = nodes.iter().map(one).map(run).collect();
        all.into_iter().flat_map(|one| one.join().unwrap()).collect::<Vec<_>>()
    });
    assert!(all.len() as f64 >= 0.9 * rate * 2.0, "{}", all.len());
    calls.extend(all);
    let excess = excess(&mut calls, burst, rate, lease);
    assert!(excess <= 0.0, "{excess} calls too many");
}

/// How Redis fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Failure {
    Killed,
    BlackHole,
    Slow,
}

#[test]
fn an_outage_of_redis_makes_no_request_wait_and_leaves_the_shares() {
    for failure in [Failure::Killed, Failure::BlackHole, Failure::Slow] {
        let (database, mut redis) = (Postgres::start(), Redis::start());
        let mut relay = Relay::new(redis.addr());
        let text =
            with_rates(database.addr(), &by_redis(relay.addr(), "timeout: 50ms"), "rate: 12/h");
        let nodes = start_all(2, &text);
        eventually("both lease tokens", || nodes.iter().all(is_leasing));
        assert_eq!(admitted(&nodes[0], 4), 4, "{failure:?}");
        match failure {
            Failure::Killed => redis.kill_9(),
            Failure::BlackHole => relay.set(Mode::BlackHole),
            Failure::Slow => relay.set(Mode::Delay(Duration::from_millis(100))),
        }
        // Some wait until the third failure, and are decided by shares.
        let before = admitted(&nodes[0], 1);
        eventually("both notice", || !nodes.iter().any(is_leasing));
        assert!(findings(&nodes[0]).contains(&"redis-down".to_owned()), "{failure:?}");
        let waited: Vec<f64> = nodes.iter().map(waits).collect();
        let all: Vec<usize> = nodes.iter().map(|node| admitted(node, MANY)).collect();
        assert_eq!(nodes.iter().map(waits).collect::<Vec<_>>(), waited, "{failure:?}");
        // The request before may have taken a token of a lease, or of the share.
        assert_eq!(all[1], TOKENS / 2, "{failure:?}");
        assert!((TOKENS / 2 - before..=TOKENS / 2).contains(&all[0]), "{failure:?} {all:?}");
        match failure {
            Failure::Killed => redis.restart(),
            Failure::BlackHole | Failure::Slow => relay.set(Mode::Pass),
        }
        let began = Instant::now();
        eventually("tokens are leased again", || nodes.iter().all(is_leasing));
        println!("{failure:?}: leasing {:?} after its end", began.elapsed());
        assert!(
            findings(&nodes[0]).is_empty() || !findings(&nodes[0]).contains(&"redis-down".into())
        );
        assert!(admitted(&nodes[1], MANY) <= TOKENS - 4, "{failure:?}");
    }
}

#[test]
fn during_an_outage_all_requests_are_rejected_or_admitted_if_it_is_set_so() {
    let (database, redis) = (Postgres::start(), Redis::start());
    let mut relay = Relay::new(redis.addr());
    let text = |on_outage: &str| {
        let rates = by_redis(relay.addr(), &format!("timeout: 150ms, on_outage: {on_outage}"));
        with_rates(database.addr(), &rates, "rate: 12/h")
    };
    let mut node = start("one", &text("deny"));
    let allow = text("allow");
    eventually("it leases tokens", || is_leasing(&node));
    relay.set(Mode::Refuse);
    eventually("it notices", || !is_leasing(&node));
    let rejected = node.connect().get("/");
    assert_eq!(rejected.status, 503);
    assert!(rejected.text().contains("limit-unavailable"), "{}", rejected.text());
    node.reload(&allow);
    eventually("it admits all requests", || node.connect().get("/").status == 200);
    assert_eq!(admitted(&node, MANY), MANY);
    assert!(node.metric("weir_fleet_local_decisions_total", &["outage"]) >= MANY as f64);
}

#[test]
fn redis_without_its_state_grants_one_more_burst() {
    let (database, mut redis) = (Postgres::start(), Redis::start());
    let rates = by_redis(redis.addr(), "timeout: 150ms, on_outage: deny");
    let text = with_rates(database.addr(), &rates, "rate: 12/h");
    let nodes = start_all(2, &text);
    eventually("both lease tokens", || nodes.iter().all(is_leasing));
    assert_eq!(admitted(&nodes[0], MANY), TOKENS);
    // Its file has the bucket, unless the last second was lost.
    redis.kill_9();
    redis.restart_empty();
    let noticed = |node: &Server| node.metric("weir_fleet_redis_failures_total", &[]) > 0.0;
    eventually("both notice", || nodes.iter().all(noticed));
    eventually("both lease tokens again", || nodes.iter().all(is_leasing));
    let again: usize = nodes.iter().map(|node| admitted(node, MANY)).sum();
    assert_eq!(again, TOKENS);
    // The script is one that Redis does not know any more, the bucket one that it does.
    assert_eq!(redis.command(&["SCRIPT", "FLUSH"]), "OK");
    assert_eq!(nodes.iter().map(|node| admitted(node, 1)).sum::<usize>(), 0);
}

#[test]
fn a_wrong_password_is_a_finding_without_the_password() {
    let (database, redis) = (Postgres::start(), Redis::start());
    let rates =
        by_redis(redis.addr(), "timeout: 150ms").replace(Redis::PASSWORD, "secret-of-nobody");
    let node = start("one", &with_rates(database.addr(), &rates, "rate: 12/h"));
    eventually("it notices", || findings(&node).contains(&"redis-down".to_owned()));
    let status = status(&node);
    let error = status["redis"]["error"].as_str().unwrap();
    assert!(error.contains("authentication failed"), "{error}");
    assert!(!status.to_string().contains("secret-of-nobody"), "{status}");
    assert!(!node.stderr().contains("secret-of-nobody"), "{}", node.stderr());
    assert_eq!(status["redis"]["at"], format!("{}/2", redis.addr()));
    assert_eq!(admitted(&node, MANY), TOKENS);
}

#[test]
fn redis_is_used_over_tls_by_a_user_with_few_rights() {
    let (database, redis) = (Postgres::start(), Redis::start_tls());
    let rights = ["~weir:*", "+evalsha", "+script|load", "+time", "+get", "+set"];
    let user = [&["ACL", "SETUSER", "weir", "on", ">sesame-of-weir"][..], &rights[..]].concat();
    assert_eq!(redis.command(&user), "OK");
    let rates = format!(
        "redis: {{url: \"rediss://{}\", user: weir, password: sesame-of-weir, \
         tls: {{ca: \"file:redis.pem\"}}}}, rates: {{mode: redis, timeout: 150ms}}",
        redis.addr()
    );
    let text = with_rates(database.addr(), &rates, "rate: 12/h");
    let certificate: &Certificate = redis.certificate().unwrap();
    let node = Weir::new(&text).file("redis.pem", &certificate.cert).env("NODE", "one").start();
    eventually("it leases tokens", || is_leasing(&node));
    assert_eq!(admitted(&node, MANY), TOKENS);
    let keys = redis.command(&["KEYS", "weir:weir:rate:*"]);
    assert_eq!(keys.lines().count(), 1, "{keys}");
    assert!(redis.command(&["PTTL", &keys]).parse::<i64>().unwrap() > 0);
}
