//! More requests than agents.

use super::{PROTOCOLS, config, get, open, send, settled, start, status};
use crate::harness::{Server, eventually};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

#[test]
fn the_queue_has_a_bound_in_length_and_in_time() {
    let server = start("fastcgi", "    agents: {max: 1}\n    queue: {max: 2, wait: 60s}");
    settled(&server, 1);
    let mut busy = send(&server, "/gate");
    eventually("the agent is busy", || status(&server)["agents"]["busy"] == 1);
    let mut waiting: Vec<_> = (0..2).map(|_| send(&server, "/pid")).collect();
    eventually("two wait", || status(&server)["queue"]["current"] == 2);
    let refused = get(&server, "/pid");
    assert_eq!(refused.status, 503);
    assert!(refused.text().contains("pool-busy"), "{}", refused.text());
    let after = refused.header("retry-after").and_then(|after| after.parse::<u64>().ok());
    assert!(after.is_some_and(|after| (1..=60).contains(&after)), "{after:?}");
    open(&server);
    assert_eq!(busy.response().status, 200);
    waiting.iter_mut().for_each(|client| assert_eq!(client.response().status, 200));
    let told = status(&server);
    assert_eq!((&told["rejected_full"], &told["queue"]["peak"]), (&1.into(), &2.into()));

    let server = start("fastcgi", "    agents: {max: 1}\n    queue: {wait: 100ms}");
    settled(&server, 1);
    let mut busy = send(&server, "/gate");
    eventually("the agent is busy", || status(&server)["agents"]["busy"] == 1);
    let late = get(&server, "/pid");
    assert_eq!((late.status, late.header("retry-after").is_some()), (503, true));
    open(&server);
    assert_eq!(busy.response().status, 200);
    let told = status(&server);
    assert_eq!((&told["rejected_wait"], &told["queue"]["current"]), (&1.into(), &0.into()));
}

#[test]
fn whoever_leaves_the_queue_gives_up_its_place() {
    let server = start("http", "    agents: {max: 1}\n    queue: {max: 1, wait: 60s}");
    settled(&server, 1);
    let mut busy = send(&server, "/gate");
    eventually("the agent is busy", || status(&server)["agents"]["busy"] == 1);
    let waiting = send(&server, "/pid");
    eventually("one waits", || status(&server)["queue"]["current"] == 1);
    waiting.reset();
    eventually("nobody waits", || status(&server)["queue"]["current"] == 0);
    let mut next = send(&server, "/pid");
    open(&server);
    assert_eq!(busy.response().status, 200);
    assert_eq!(next.response().status, 200);
}

/// So many requests by so many clients, each over a connection of its own; the statuses other than
/// 200.
fn storm(server: &Server, clients: usize, path: &str, stop: &AtomicBool) -> Vec<u16> {
    let done = AtomicUsize::new(0);
    let others = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..clients)
            .map(|_| {
                scope.spawn(|| {
                    let (mut others, mut client) = (Vec::new(), server.connect());
                    while !stop.load(Ordering::Relaxed) {
                        let response = client.get(path);
                        done.fetch_add(1, Ordering::Relaxed);
                        if response.status != 200 {
                            others.push(response.status);
                        }
                    }
                    others
                })
            })
            .collect();
        threads.into_iter().flat_map(|thread| thread.join().expect("it ends")).collect()
    });
    assert!(done.load(Ordering::Relaxed) > 0);
    others
}

#[test]
fn nothing_is_lost_while_agents_are_replaced_under_load() {
    for protocol in PROTOCOLS {
        let keys = "    agents: {min: 2, max: 3, starting: 3}\n    recycle: {requests: 20}\n    queue: {wait: 120s}";
        let mut server = start(protocol, keys);
        settled(&server, 2);
        let stop = AtomicBool::new(false);
        let others = std::thread::scope(|scope| {
            let storm = scope.spawn(|| storm(&server, 8, "/pid", &stop));
            eventually("many have been replaced", || {
                status(&server)["restarted"].as_u64().unwrap_or(0) >= 8
            });
            for _ in 0..2 {
                assert_eq!(super::ask(&server, "POST", "/v1/pools/p/recycle").status, 202);
            }
            server.replace("weir.yaml", config(protocol, &format!("{keys}\n    env: {{A: b}}")));
            let restarted = status(&server)["restarted"].as_u64().unwrap_or(0);
            eventually("and some more", || {
                status(&server)["restarted"].as_u64().unwrap_or(0) >= restarted + 6
            });
            stop.store(true, Ordering::Relaxed);
            storm.join().expect("it ends")
        });
        assert_eq!(others, Vec::<u16>::new(), "{protocol}");
        server.event("reloaded");
    }
}

#[test]
fn crashes_under_load_cost_only_the_requests_that_crashed() {
    let keys = "    agents: {min: 2, max: 3, starting: 3}\n    queue: {wait: 120s}";
    let server = start("fastcgi", keys);
    settled(&server, 2);
    let stop = AtomicBool::new(false);
    let others = std::thread::scope(|scope| {
        let storm = scope.spawn(|| storm(&server, 6, "/pid", &stop));
        for _ in 0..5 {
            assert_eq!(server.connect().request("POST", "/crash", &[], "x").status, 502);
        }
        eventually("all are seen", || status(&server)["crashed"] == 5);
        stop.store(true, Ordering::Relaxed);
        storm.join().expect("it ends")
    });
    assert_eq!(others, Vec::<u16>::new());
}
