//! A node and its data are lost: how many calls are missing, at most. Whether the counts of nodes are
//! those of the database.

use super::node::{KEY, Load, fleet_calls, is_up, json, member, node, send, states, text};
use crate::admin_api::{command, first_token};
use crate::harness::{Postgres, eventually};
use std::time::Duration;

/// Pause between two calls, and calls in 5 s of this load.
const PAUSE: Duration = Duration::from_millis(10);
const FIVE_SECONDS: u64 = 500;

#[test]
fn an_invoice_names_a_lost_node_and_at_most_how_many_calls_are_missing() {
    let database = Postgres::start();
    let one = node("one", database.addr(), "").start();
    let mut two = node("two", database.addr(), "").start();
    eventually("both have joined", || is_up(&one) && is_up(&two));
    let load = Load::start(&[two.listen[0]], PAUSE);
    eventually("the load has a rate", || load.responses(0) > 500);
    two.kill();
    let sent = load.end()[0].0 as u64;
    std::fs::remove_dir_all(two.data()).expect("the data is lost");
    eventually("its lease has ended", || states(&one).contains(&"two down".to_owned()));
    text(&one, &["fleet", "retire", "two", "--lost"]);
    let report = json(&one, &["usage", "--json", "--by", "api", "--node", "two"]);
    let missing = sent - report["calls"].as_u64().unwrap_or_default();
    let sql = "SELECT missing, pending, rate FROM weir.node WHERE name = 'two'";
    let stated = database.query(sql);
    let most: u64 = stated.split('|').next().and_then(|text| text.parse().ok()).expect("a number");
    assert!(most >= missing, "{missing} are missing, stated {stated}");
    assert!(most - missing < FIVE_SECONDS, "{missing} are missing, stated {stated}");
    let (ok, _, notes) = command(&one, &first_token(&one), &["usage"]);
    assert!(ok && notes.contains(&format!("two is lost: at most {most} calls after")), "{notes}");
}

#[test]
fn each_node_verifies_its_own_counts_and_those_that_are_down_are_named() {
    let database = Postgres::start();
    let [one, mut two] = ["one", "two"].map(|name| member(name, database.addr(), KEY));
    eventually("they know each other", || {
        [&one, &two].iter().all(|member| states(&member.server) == ["one live", "two live"])
    });
    send(&one.server, 5);
    send(&two.server, 7);
    eventually("all is replicated", || fleet_calls(&one.server) == 12);
    let day = jiff::Timestamp::now().strftime("%Y-%m-%d").to_string();
    let verify = || {
        let args = ["invoice", "--period", &day, "--verify"];
        let (ok, out, _) = command(&one.server, &first_token(&one.server), &args);
        (ok, out)
    };
    let equal =
        "node one: 5 calls, equal in the database\nnode two: 7 calls, equal in the database\n";
    eventually("both are equal", || verify() == (true, equal.to_owned()));
    database.query(
        "UPDATE weir.bucket SET calls = calls + 1 WHERE step = 86400
         AND node = (SELECT id FROM weir.node WHERE name = 'two')",
    );
    let (ok, out) = verify();
    assert!(!ok && out.contains("node two differs") && out.contains("node one: 5"), "{out}");
    two.server.kill();
    eventually("its lease has ended", || states(&one.server).contains(&"two down".to_owned()));
    let (ok, out) = verify();
    assert!(!ok && out.contains("node two: not verified: it sends no heartbeats"), "{out}");
}
