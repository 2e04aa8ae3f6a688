//! Clocks of nodes that are wrong, and that jump.

use super::node::{findings, is_up, node, send, states};
use crate::durability::clock::library;
use crate::harness::{Postgres, Server, eventually};
use std::path::Path;

const HOUR: i64 = 3600;

/// A node whose clock is set by a file.
fn start(name: &str, database: &Postgres, library: &str, clock: &Path) -> Server {
    node(name, database.addr(), "")
        .env("LD_PRELOAD", library)
        .env("FAKETIME_TIMESTAMP_FILE", clock.to_str().expect("UTF-8"))
        .env("FAKETIME_NO_CACHE", "1")
        .env("FAKETIME_DONT_FAKE_MONOTONIC", "1")
        .start()
}

/// Calls in the minutes of a node whose distance from now, in hours, is this one.
fn calls_at(database: &Postgres, node: &str, hours: i64) -> String {
    database.query(&format!(
        "SELECT coalesce(sum(calls), 0) FROM weir.bucket b JOIN weir.node n ON n.id = b.node
         WHERE n.name = '{node}' AND step = 60
             AND abs(extract(epoch FROM start - now()) - {}) < 1200",
        hours * HOUR
    ))
}

#[test]
fn calls_are_in_the_minutes_of_their_node_and_leases_are_those_of_the_database() {
    let Some(library) = library() else { return };
    let database = Postgres::start();
    let folder = tempfile::tempdir().expect("a folder");
    let clocks = ["early", "late", "jumps"].map(|name| folder.path().join(name));
    let set = |clock: &Path, offset: &str| std::fs::write(clock, offset).expect("it is ours");
    set(&clocks[0], "-1h");
    set(&clocks[1], "+1h");
    set(&clocks[2], "+0");
    let right = node("right", database.addr(), "").start();
    let [early, late, jumps] = [("early", 0), ("late", 1), ("jumps", 2)]
        .map(|(name, clock)| start(name, &database, &library, &clocks[clock]));
    let live = ["early live", "jumps live", "late live", "right live"];
    eventually("all are live", || states(&right) == live);
    send(&early, 3);
    send(&late, 5);
    send(&jumps, 7);
    eventually("they are in the minutes of their nodes", || {
        let calls = |node, hours| calls_at(&database, node, hours);
        (calls("early", -1), calls("late", 1), calls("jumps", 0))
            == ("3".to_owned(), "5".to_owned(), "7".to_owned())
    });
    eventually("it is a finding", || findings(&right).contains(&"clock-offset".to_owned()));
    let boots = "SELECT string_agg(boot::text, ',' ORDER BY name) FROM weir.node";
    for (offset, calls) in [("+1h", 2), ("-1h", 4)] {
        set(&clocks[2], offset);
        eventually("the jump is seen", || {
            let sql = "SELECT abs(offset_ms) > 1000000 FROM weir.node WHERE name = 'jumps'";
            database.query(sql) == "t"
        });
        send(&jumps, calls);
    }
    eventually("all calls are counted once", || {
        // Of any time: some are in the future of this node.
        database.query("SELECT sum(calls) FROM weir.bucket WHERE step = 60") == "21"
    });
    // Leases have not ended: no node has registered again.
    assert_eq!(states(&right), live);
    assert_eq!(database.query(boots), "1,1,1,1");
    assert!([&early, &late, &jumps, &right].into_iter().all(is_up));
}
