//! Quotas of all nodes: never one call too many while the database lives, whoever is killed.

use super::node::{is_up, node};
use crate::harness::{Client, Mode, PATIENCE, Postgres, Relay, Server, eventually, kills};
use std::net::SocketAddr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

const CALLS: usize = 10_000;

/// A configuration with a quota of so many calls for the consumer of the key `k`.
fn quota(calls: usize, more: &str) -> String {
    format!(
        "auth: {{keys: {{api_key: {{header: x-key}}}}}}\n\
         plans: {{gold: {{quota: {{calls: {calls}, per: year{more}}}}}}}\n\
         consumers: {{acme: {{plan: gold, api_keys: [\"{}\"]}}}}\n\
         apis: {{y: {{base: /, auth: keys, routes: [{{get: /, reply: {{text: hi}}}}]}}}}\n",
        crate::harness::key_hash("k")
    )
}

/// The status of a call. On a busy machine a lease may take longer than a request waits (503): the
/// client tries again.
fn call(client: &mut Client) -> u16 {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match client.request("GET", "/", &[("x-key", "k")], "").status {
            503 if Instant::now() < deadline => {}
            status => return status,
        }
    }
}

/// Sends so many calls one after another; the numbers of those admitted and rejected.
fn send(server: &Server, calls: usize) -> (usize, usize) {
    let mut client = server.connect();
    let statuses: Vec<u16> = (0..calls).map(|_| call(&mut client)).collect();
    let count = |status| statuses.iter().filter(|one| **one == status).count();
    assert_eq!(count(200) + count(429), calls, "{statuses:?}");
    (count(200), count(429))
}

#[test]
fn nodes_admit_a_quota_together_and_then_reject() {
    let database = Postgres::start();
    let more = quota(100, "");
    let one = node("one", database.addr(), &more).start();
    let two = node("two", database.addr(), &more).start();
    eventually("both have joined", || is_up(&one) && is_up(&two));
    let mut admitted = 0;
    for _ in 0..8 {
        admitted += send(&one, 10).0 + send(&two, 10).0;
    }
    // What is left of the slices of one node is not for the other one.
    assert!((80..=100).contains(&admitted), "{admitted}");
    let granted = "SELECT granted <= most, granted FROM weir.quota";
    assert_eq!(database.query(granted), "t|100");
    let mut client = one.connect();
    let rejected = client.request("GET", "/", &[("x-key", "k")], "");
    assert_eq!(rejected.status, 429);
    assert!(rejected.text().contains("quota"), "{}", rejected.text());
}

#[test]
fn a_rolling_quota_is_one_of_all_nodes() {
    let database = Postgres::start();
    let more = quota(60, ", rolling: true");
    let one = node("one", database.addr(), &more).start();
    let two = node("two", database.addr(), &more).start();
    eventually("both have joined", || is_up(&one) && is_up(&two));
    let mut admitted = 0;
    for _ in 0..10 {
        admitted += send(&one, 5).0 + send(&two, 5).0;
    }
    assert!((45..=60).contains(&admitted), "{admitted}");
    assert_eq!(database.query("SELECT sum(granted) FROM weir.quota"), "60");
}

#[test]
fn an_outage_admits_the_overdraft_or_nothing_and_is_settled_afterwards() {
    let database = Postgres::start();
    let mut relay = Relay::new(database.addr());
    let started = |name: &str, on_outage: &str| {
        let text = super::node::config(relay.addr(), &quota(1000, ""));
        let text = text.replace(
            "fleet: {",
            &format!("fleet: {{quotas: {{on_outage: {on_outage}, overdraft: 10%}}, "),
        );
        crate::harness::Weir::new(&text).env("NODE", name).start()
    };
    let (mut lenient, strict) = (started("lenient", "allow"), started("strict", "deny"));
    let known = |server: &Server| server.metric("weir_fleet_nodes", &[]) == 2.0;
    eventually("they know each other", || known(&lenient) && known(&strict));
    let before = [send(&lenient, 3).0, send(&strict, 3).0];
    assert_eq!(before, [3, 3]);
    relay.set(Mode::Refuse);
    eventually("both notice", || !is_up(&lenient) && !is_up(&strict));
    let slice = |name: &str| -> usize {
        let sql = format!(
            "SELECT leased FROM weir.quota_lease JOIN weir.node ON id = node WHERE name = '{name}'"
        );
        database.query(&sql).parse().unwrap()
    };
    // 10 % of 1,000 for two nodes is 50 for each.
    assert_eq!(3 + send(&lenient, 400).0, slice("lenient") + 50);
    assert_eq!(3 + send(&strict, 400).0, slice("strict"));
    assert!(lenient.metric("weir_fleet_overdraft_calls_total", &[]) >= 50.0);
    // A restart gives no second overdraft.
    lenient.kill();
    lenient.restart(&[]);
    assert_eq!(send(&lenient, 20), (0, 20));
    relay.set(Mode::Pass);
    eventually("they have joined again", || is_up(&lenient) && is_up(&strict));
    eventually("calls are admitted again", || call(&mut strict.connect()) == 200);
    eventually("calls are admitted again", || call(&mut lenient.connect()) == 200);
    // The next slice has covered the overdraft first.
    assert!(slice("lenient") > 50 + 3);
}

/// Nodes that are killed one after another while clients call all of them; as many calls after each kill.
fn admitted_while_killing(nodes: &mut [Server], kills: usize, calls: usize) -> usize {
    let addrs: Vec<Mutex<SocketAddr>> = nodes.iter().map(|one| Mutex::new(one.listen[0])).collect();
    let (sent, admitted, done) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for addr in &addrs {
            let (sent, admitted, done) = (&sent, &admitted, &done);
            scope.spawn(move || {
                while sent.load(Ordering::Relaxed) < calls {
                    let at = *addr.lock().unwrap();
                    let Some(mut client) = Client::try_connect(at) else {
                        std::thread::sleep(std::time::Duration::from_millis(5));
                        continue;
                    };
                    while sent.load(Ordering::Relaxed) < calls {
                        let until = calls * (done.load(Ordering::Relaxed) + 1) / (kills + 1);
                        if sent.load(Ordering::Relaxed) >= until {
                            std::thread::sleep(std::time::Duration::from_millis(1));
                            continue;
                        }
                        sent.fetch_add(1, Ordering::Relaxed);
                        client.send("GET / HTTP/1.1\r\nhost: a\r\nx-key: k\r\n\r\n");
                        let Some(response) = client.try_response() else { break };
                        if response.status == 200 {
                            admitted.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                }
            });
        }
        for kill in 0..kills {
            let index = kill % nodes.len();
            nodes[index].kill();
            nodes[index].restart(&[]);
            *addrs[index].lock().unwrap() = nodes[index].listen[0];
            done.store(kill + 1, Ordering::Relaxed);
        }
    });
    admitted.load(Ordering::Relaxed)
}

#[test]
fn a_quota_is_never_exceeded_whatever_is_killed() {
    let database = Postgres::start();
    let more = quota(CALLS, "");
    let mut nodes: Vec<Server> = ["a", "b", "c", "d"]
        .into_iter()
        .map(|name| node(name, database.addr(), &more).start())
        .collect();
    eventually("all have joined", || nodes.iter().all(is_up));
    let admitted = admitted_while_killing(&mut nodes, kills().min(50), 2 * CALLS);
    assert!(admitted <= CALLS, "{admitted}");
    // Only slices are lost: those of nodes that were killed, and what is left at the end.
    assert!(admitted >= CALLS / 2, "{admitted}");
    let granted: usize = database.query("SELECT granted FROM weir.quota").parse().unwrap();
    assert!(granted <= CALLS && admitted <= granted, "{granted} {admitted}");
}
