//! Usage of all nodes: equal to the call, whatever fails.

use super::node::{fleet_calls, is_up, json, node, own_calls, send, states, text};
use crate::admin_api::{command, first_token};
use crate::harness::{Mode, Postgres, Relay, Server, Signal, eventually, key_hash, repetitions};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Waits until the usage of the fleet is that of all nodes, and that number.
fn is_equal_on(nodes: &[&Server], calls: usize) {
    let sum = || nodes.iter().map(|node| own_calls(node)).sum::<u64>() as usize;
    eventually("the nodes have counted all calls", || sum() == calls);
    for node in nodes {
        eventually("all nodes know all calls", || fleet_calls(node) as usize == calls);
    }
}

#[test]
fn any_node_reports_the_usage_of_all() {
    let database = Postgres::start();
    let one = node("one", database.addr(), "").start();
    let two = node("two", database.addr(), "").start();
    send(&one, 30);
    send(&two, 12);
    is_equal_on(&[&one, &two], 42);
    let of = |name: &str| {
        let rows = json(&one, &["usage", "--json", "--by", "api,operation", "--node", name]);
        (rows["calls"].as_u64(), rows["operation"].as_str().map(str::to_owned))
    };
    assert_eq!(of("two"), (Some(12), Some("hello".to_owned())));
    let by_step = text(&one, &["usage", "--json", "--step", "minute", "--by", "status"]);
    assert!(by_step.contains("\"status\":\"2xx\""), "{by_step}");
    let (ok, _, err) = command(&one, &first_token(&one), &["usage", "--node", "three"]);
    assert!(!ok && err.contains("unknown node `three`"), "{err}");
}

#[test]
fn invoices_are_of_the_whole_fleet_and_provisional_until_all_have_reported() {
    let more = format!(
        "auth: {{keys: {{api_key: {{header: x-key}}}}}}\n\
         plans: {{gold: {{price: {{per_call: \"0.25\", currency: EUR}}}}}}\n\
         consumers: {{acme: {{plan: gold, api_keys: [\"{}\"]}}}}\n\
         upstreams: {{gone: {{targets: [\"http://127.0.0.1:1\"]}}}}\n\
         apis: {{y: {{base: /paid, auth: keys, routes: [{{get: /, reply: {{text: hi}}}}, \
         {{op: gone, get: /gone, proxy: gone}}]}}}}\n",
        key_hash("k")
    );
    let database = Postgres::start();
    let guarded = |name: &str| node(name, database.addr(), &more).start();
    let (one, mut two) = (guarded("one"), guarded("two"));
    eventually("both have joined", || is_up(&one) && is_up(&two));
    for (server, calls) in [(&one, 3), (&two, 2)] {
        let mut client = server.connect();
        for _ in 0..calls {
            assert_eq!(client.request("GET", "/paid", &[("x-key", "k")], "").status, 200);
            assert_eq!(client.request("GET", "/paid/gone", &[("x-key", "k")], "").status, 502);
        }
    }
    let day = jiff::Timestamp::now().strftime("%Y-%m-%d").to_string();
    let invoice = || json(&one, &["invoice", "--period", &day, "--json"]);
    eventually("all calls are in the invoice", || invoice()["lines"][0]["calls"] == 5);
    assert_eq!(invoice()["totals"][0]["due"], "1.25");
    // What the gateway itself fails is not billed, on any node. Earlier versions write no status.
    let excluded = || invoice()["unbilled"]["lines"][0].clone();
    eventually("all of it is in the invoice", || excluded()["calls"] == 5);
    assert_eq!((&excluded()["status"], &excluded()["rounded"]), (&502.into(), &"1.25".into()));
    assert_eq!(database.query("SELECT count(*) FROM weir.series WHERE unbilled = 502").trim(), "1");
    assert_eq!(invoice()["provisional"], true);
    // The day is over, and both have counted all of it.
    let settle =
        "UPDATE weir.node SET counted_until = date_trunc('day', now(), 'UTC') + interval '1 day'";
    database.query(settle);
    assert_eq!(invoice()["provisional"], false);
    two.kill();
    let reset = "UPDATE weir.node SET counted_until = date_trunc('day', now(), 'UTC'), until = now() WHERE name = 'two'";
    database.query(reset);
    assert_eq!(invoice()["provisional"], true, "one node has not reported");
    assert_eq!(invoice()["unreported"][0]["node"], "two");
    // The node is written off: the invoice is final, and names the node.
    eventually("it is down", || states(&one).contains(&"two down".to_owned()));
    text(&one, &["fleet", "retire", "two", "--lost"]);
    let final_one = invoice();
    assert_eq!(
        (&final_one["provisional"], &final_one["unreported"][0]["lost"]),
        (&false.into(), &true.into())
    );
    let table = text(&one, &["invoice", "--period", &day]);
    assert!(table.contains("node two is lost"), "{table}");
}

#[test]
fn usage_is_equal_to_the_call_after_crashes_of_the_database_under_load() {
    let mut database = Postgres::start();
    let nodes: Vec<Server> =
        ["a", "b", "c"].into_iter().map(|name| node(name, database.addr(), "").start()).collect();
    eventually("all have joined", || nodes.iter().all(is_up));
    let (stop, down) = (AtomicBool::new(false), AtomicBool::new(false));
    let (sent, times) = (AtomicUsize::new(0), Mutex::new([Vec::new(), Vec::new()]));
    std::thread::scope(|scope| {
        for server in &nodes {
            let (stop, down, sent, times) = (&stop, &down, &sent, &times);
            scope.spawn(move || {
                let mut client = server.connect();
                while !stop.load(Ordering::Relaxed) {
                    let begin = Instant::now();
                    assert_eq!(client.get("/").status, 200);
                    sent.fetch_add(1, Ordering::Relaxed);
                    let took = begin.elapsed();
                    times.lock().unwrap()[usize::from(down.load(Ordering::Relaxed))].push(took);
                }
            });
        }
        for _ in 0..repetitions(3) {
            std::thread::sleep(Duration::from_millis(1500));
            down.store(true, Ordering::Relaxed);
            database.kill_9();
            std::thread::sleep(Duration::from_millis(500));
            down.store(false, Ordering::Relaxed);
            database.restart();
        }
        stop.store(true, Ordering::Relaxed);
    });
    let [up, down] = times.into_inner().unwrap().map(p99);
    println!("99th percentile of requests: {up:?} with the database, {down:?} without");
    is_equal_on(&nodes.iter().collect::<Vec<_>>(), sent.load(Ordering::Relaxed));
}

/// The 99th percentile.
fn p99(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() * 99 / 100]
}

#[test]
fn a_commit_whose_response_is_lost_is_not_counted_twice() {
    let database = Postgres::start();
    let relay = Relay::new(database.addr());
    let one = node("one", relay.addr(), "").start();
    eventually("it has joined", || is_up(&one));
    for round in 1..=repetitions(3) as u64 {
        relay.cut_after(b"COMMIT");
        send(&one, 10);
        eventually("a response is lost", || relay.lost_responses() >= round);
    }
    is_equal_on(&[&one], 10 * repetitions(3));
}

#[test]
fn locks_of_a_node_that_vanishes_in_a_transaction_are_released() {
    let database = Postgres::start();
    let mut relay = Relay::new(database.addr());
    let one = node("one", relay.addr(), "").start();
    eventually("it has joined", || is_up(&one));
    relay.black_hole_at(b"COMMIT");
    send(&one, 10);
    eventually("it has vanished", || relay.is_black_hole());
    // The server knows nothing of that: the connection stays open, and the transaction, too.
    let idle = "SELECT count(*) FROM pg_stat_activity WHERE state LIKE 'idle in transaction%'";
    assert_eq!(database.query(idle), "1");
    eventually("its transaction is rolled back", || database.query(idle) == "0");
    relay.set(Mode::Pass);
    is_equal_on(&[&one], 10);
}

#[test]
fn what_a_failover_has_lost_is_sent_again() {
    let mut database = Postgres::start();
    let one = node("one", database.addr(), "").start();
    send(&one, 10);
    is_equal_on(&[&one], 10);
    let snapshot = database.snapshot();
    send(&one, 7);
    is_equal_on(&[&one], 17);
    database.restore(&snapshot);
    let day = jiff::Timestamp::now().strftime("%Y-%m-%d").to_string();
    let verify = || {
        let (ok, out, _) =
            command(&one, &first_token(&one), &["invoice", "--period", &day, "--verify"]);
        (ok, out.contains("17 calls, equal"))
    };
    assert_eq!(database.query("SELECT sum(calls) FROM weir.bucket WHERE step = 86400"), "10");
    is_equal_on(&[&one], 17);
    eventually("it is verified", || verify() == (true, true));
    database.query("UPDATE weir.bucket SET calls = calls + 1 WHERE step = 86400");
    assert_eq!(verify(), (false, false));
}

#[test]
fn a_rebuild_and_an_outage_over_midnight_end_with_equal_sums() {
    let database = Postgres::start();
    let mut relay = Relay::new(database.addr());
    let mut one = node("one", relay.addr(), "").start();
    send(&one, 5);
    is_equal_on(&[&one], 5);
    relay.set(Mode::Refuse);
    eventually("it notices", || !is_up(&one));
    send(&one, 4);
    eventually("they are counted", || own_calls(&one) == 9);
    one.kill();
    // Calls of the day before, and a bucket that a rebuild finds to be wrong.
    let counts = rusqlite::Connection::open(one.data().join("weir.db")).unwrap();
    counts
        .execute_batch(
            "INSERT INTO bucket SELECT step, start - 86400, series, calls, request_bytes, response_bytes,
                 amount, latency, 1 FROM bucket;
             INSERT INTO bucket_unreplicated SELECT step, start, series FROM bucket
                 WHERE true ON CONFLICT DO NOTHING;
             UPDATE bucket SET calls = calls + 100, revision = revision + 1
                 WHERE start > unixepoch() - 86400 - 3600;",
        )
        .unwrap();
    drop(counts);
    one.restart(&[]);
    relay.set(Mode::Pass);
    eventually("the fleet has what the node has", || {
        is_up(&one) && own_calls(&one) > 100 && fleet_calls(&one) == own_calls(&one)
    });
    text(&one, &["monitor", "rebuild"]);
    let own = own_calls(&one);
    eventually("the fleet has the rebuilt counts", || fleet_calls(&one) == own);
}

#[test]
fn a_copy_reports_only_what_it_has_counted_itself() {
    let database = Postgres::start();
    let one = node("one", database.addr(), "").start();
    send(&one, 20);
    is_equal_on(&[&one], 20);
    let copy = node("copy", database.addr(), "");
    // The database of the copy is consistent, as after a crash.
    one.signal(Signal::STOP);
    let copied = std::process::Command::new("cp")
        .arg("-a")
        .arg(one.data())
        .arg(copy.dir().join("data"))
        .status();
    one.signal(Signal::CONT);
    assert!(copied.is_ok_and(|status| status.success()));
    let copy = copy.start();
    eventually("it has joined", || is_up(&copy));
    send(&copy, 3);
    send(&one, 1);
    eventually("the sum has each call once", || fleet_calls(&one) == 24);
    let rows = json(&one, &["usage", "--json", "--by", "api", "--node", "copy"]);
    assert_eq!(rows["calls"], 3);
}

#[test]
fn a_node_that_is_killed_again_and_again_loses_and_doubles_no_call() {
    let database = Postgres::start();
    let mut one = node("one", database.addr(), "").start();
    let mut responses = 0;
    for _ in 0..repetitions(5) {
        eventually("it has joined", || is_up(&one));
        send(&one, 20);
        responses += 20;
        one.kill();
        one.restart(&[]);
    }
    is_equal_on(&[&one], responses);
}
