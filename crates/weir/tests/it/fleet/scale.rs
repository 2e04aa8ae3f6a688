//! The number of nodes changes quickly: nothing is left behind, and rates are shared by those there are.

use super::node::{config, know_each_other};
use crate::harness::{Postgres, Server, Signal, Weir, eventually, key_hash};

/// Calls of a rate that is refilled too slowly to matter.
const RATE: usize = 120;
/// Calls that it does not admit by far.
const LIMITED_CALLS: usize = 2 * RATE;

/// A node with a rate and a quota.
fn start(number: usize, database: &Postgres) -> Server {
    let more = format!(
        "auth: {{keys: {{api_key: {{header: x-key}}}}}}\n\
         plans: {{gold: {{quota: {{calls: 100000, per: year}}}}}}\n\
         consumers: {{acme: {{plan: gold, api_keys: [\"{}\"]}}}}\n\
         apis: {{y: {{base: /limited, limit: {{rate: {RATE}/h, key: address}}, \
         routes: [{{get: /, reply: {{text: hi}}}}]}}, \
         z: {{base: /, auth: keys, routes: [{{get: /, reply: {{text: hi}}}}]}}}}\n",
        key_hash("k")
    );
    Weir::new(&config(database.addr(), &more)).env("NODE", &format!("n{number}")).start()
}

/// Sends calls of the quota; the number of those admitted.
fn use_quota(server: &Server, calls: usize) -> usize {
    let mut client = server.connect();
    let mut status = || client.request("GET", "/", &[("x-key", "k")], "").status;
    let statuses: Vec<u16> = (0..calls).map(|_| status()).collect();
    // While a lease takes longer than a request waits, it is rejected.
    assert!(statuses.iter().all(|status| matches!(status, 200 | 503)), "{statuses:?}");
    statuses.iter().filter(|status| **status == 200).count()
}

fn limited(server: &Server) -> usize {
    let mut client = server.connect();
    (0..LIMITED_CALLS).filter(|_| client.get("/limited").status == 200).count()
}

#[test]
fn from_three_to_ten_to_two_nodes_leaves_nothing_behind() {
    let database = Postgres::start();
    let mut admitted = 0;
    let mut nodes: Vec<Server> = (0..3).map(|number| start(number, &database)).collect();
    know_each_other(&nodes);
    admitted += nodes.iter().map(|node| use_quota(node, 20)).sum::<usize>();
    nodes.extend((3..10).map(|number| start(number, &database)));
    know_each_other(&nodes);
    admitted += nodes.iter().map(|node| use_quota(node, 20)).sum::<usize>();
    // Every other one drains, the others are killed.
    let (mut drained, mut killed) = (Vec::new(), Vec::new());
    for (number, mut node) in nodes.drain(2..).enumerate() {
        if number % 2 == 0 {
            node.signal(Signal::TERM);
            drained.push(node);
        } else {
            node.kill();
            killed.push(node);
        }
    }
    for node in &mut drained {
        node.wait();
    }
    know_each_other(&nodes);
    // One share for each: `two` have a half, not a tenth.
    let shares: Vec<usize> = nodes.iter().map(limited).collect();
    let one_share = RATE / 2;
    assert!(shares.iter().all(|share| (one_share / 2..=one_share).contains(share)), "{shares:?}");
    admitted += nodes.iter().map(|node| use_quota(node, 20)).sum::<usize>();
    // Drained nodes have reported everything; those that were killed do so when they come back.
    killed.iter_mut().for_each(|node| node.restart(&[]));
    admitted += shares.iter().sum::<usize>();
    let counted = "SELECT sum(calls) FROM weir.bucket WHERE step = 60";
    eventually("all calls are counted once", || database.query(counted) == admitted.to_string());
    left_behind(&database);
}

/// Nobody has a lease that is not one of a live node, and quotas are granted once.
fn left_behind(database: &Postgres) {
    let dead = "(SELECT id FROM weir.node WHERE until <= now())";
    eventually("no task is left", || {
        database.query(&format!(
            "SELECT count(*) FROM weir.task WHERE until > now() AND owner IN {dead}"
        )) == "0"
    });
    let attempts = "SELECT count(*) FROM weir.attempt WHERE state = 'sending'";
    assert_eq!(database.query(attempts), "0");
    let granted = "SELECT granted = (SELECT sum(leased) FROM weir.quota_lease) FROM weir.quota";
    assert_eq!(database.query(granted), "t", "every slice is that of a node");
}
