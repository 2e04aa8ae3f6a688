//! What a sink costs that is down, what a drain waits for, and what a backfill brings back.

use super::{config, count, wait_for};
use crate::admin_api::{command, first_token};
use crate::harness::{OpenSearch, Server, Signal, Weir, eventually, incompressible};
use serde_json::Value;
use std::net::SocketAddr;

fn text(server: &Server, args: &[&str]) -> String {
    let (ok, out, err) = command(server, &first_token(server), args);
    assert!(ok, "{args:?}: {err}");
    out
}

/// Sends so many transactions.
fn send(server: &Server, count: u64) {
    let mut client = server.connect();
    for _ in 0..count {
        assert_eq!(client.post("/good/", r#"{"order": "A-1"}"#).status, 200);
    }
}

#[test]
fn a_drain_waits_until_sinks_have_acknowledged_everything() {
    let Some(opensearch) = OpenSearch::start() else { return };
    let mut server = Weir::new(&config(opensearch.addr(), "")).start();
    send(&server, 1);
    wait_for(&server, &opensearch, 1);
    send(&server, 3_000);
    server.signal(Signal::TERM);
    assert!(server.wait().success());
    assert_eq!(count(&opensearch), 3_001, "{}", server.stderr());
}

#[test]
fn a_drain_ends_at_its_deadline_and_says_what_is_left() {
    let closed: SocketAddr = "127.0.0.1:9".parse().unwrap();
    let mut server = Weir::new(&format!("drain: {{deadline: 1s}}\n{}", config(closed, ""))).start();
    send(&server, 7);
    server.signal(Signal::TERM);
    server.wait();
    let left = "7 transactions are not acknowledged by sink search";
    assert!(server.stderr().contains(left), "{}", server.stderr());
}

#[test]
fn a_backfill_brings_back_what_opensearch_has_lost() {
    let Some(opensearch) = OpenSearch::start() else { return };
    let server = Weir::new(&config(opensearch.addr(), "")).start();
    send(&server, 2_500);
    wait_for(&server, &opensearch, 2_500);
    let today = weir_tracker::opensearch::day(
        std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_millis()
            << 80,
    );
    let index = format!("/weir-search-done-{today}");
    assert_eq!(opensearch.request("DELETE", &index, "").status, 200);
    // Nothing is in a gap.
    let none: Value =
        serde_json::from_str(&text(&server, &["fleet", "backfill", "--json"])).unwrap();
    assert_eq!((&none["ranges"], &none["recovered"]), (&0.into(), &0.into()));
    let all = text(&server, &["fleet", "backfill", "--sink", "search", "--all"]);
    assert!(all.starts_with("2500 transactions are in sink search now, 0 were rejected"), "{all}");
    assert_eq!(count(&opensearch), 2_500);
    let table = text(&server, &["sinks", "list"]);
    assert!(table.contains("search") && table.contains("sending"), "{table}");
    assert!(text(&server, &["sinks", "gaps"]).contains("RECOVERED"));
    assert!(text(&server, &["sinks", "rejected"]).contains("REASON"));
    let audit = text(&server, &["audit", "--json", "--action", "backfill"]);
    assert_eq!(audit.lines().count(), 2, "{audit}");
    let (done, _, err) =
        command(&server, &first_token(&server), &["fleet", "backfill", "--sink", "other"]);
    assert!(!done && err.contains("unknown sink"), "{err}");
}

#[test]
fn a_full_journal_with_a_sink_that_is_down_makes_no_request_fail() {
    let closed: SocketAddr = "127.0.0.1:9".parse().unwrap();
    let journal = "journal: {disk: 96MiB, when_full: refuse}\n";
    let text = format!("{journal}{}", config(closed, ", max_backlog: 100%"));
    let server =
        Weir::new(&text.replace("enabled: true\n", "enabled: true\n  index: none\n")).start();
    let mut client = server.connect();
    // More than the disk has. What fills it may be the backlog of the sink only: there is no index, and the
    // seal keeps up.
    let keeps_up = || server.metric("weir_journal_unsealed_segments", &[]) == 0.0;
    for number in 0..2_500 {
        let response = client.post("/good/", &incompressible(64_000));
        assert_eq!(response.status, 200, "{number}: {}", response.text());
        if number % 60 == 0 {
            eventually("the seal keeps up", keeps_up);
        }
    }
    eventually("the journal has dropped something", || {
        server.metric("weir_journal_dropped_files_total", &[]) > 0.0
    });
    assert_eq!(server.metric("weir_journal_refused_total", &[]), 0.0);
}
