//! Bursts of bodies, and disks without room: bodies are given up first, calls are counted whatever
//! happens, and what is missing is told.

use super::{ask, config};
use crate::harness::{
    self, Disk, Server, Signal, Weir, each_transaction, eventually, incompressible, weir,
};
use std::path::Path;

const COUNT: &str = "monitor: {count: all}\n";
/// Length of a body.
const BODY: usize = 30_000;
/// Connections of a burst.
const CLIENTS: usize = 8;

/// Requests of a burst; `WEIR_BURST` says more.
fn requests() -> usize {
    std::env::var("WEIR_BURST").ok().and_then(|text| text.parse().ok()).unwrap_or(2400)
}

fn unrecorded(weir: &Server) -> u64 {
    weir.metric("weir_unrecorded_total", &[]) as u64
}

/// Transactions in the journal of a server that has ended.
fn recorded(data: &Path) -> u64 {
    let mut found = 0;
    each_transaction(data, |one| found += u64::from(!one.is_count()));
    found
}

/// Calls that were counted until now.
fn counted(server: &Server) -> u64 {
    let rows = ask(server, "/v1/usage").json()["rows"].as_array().cloned().unwrap_or_default();
    rows.iter().filter_map(|row| row["calls"].as_u64()).sum()
}

/// Every request is counted, and recorded or told to be missing.
fn all_accounted(server: &mut Server, sent: u64) {
    eventually("every call is counted", || counted(server) >= sent);
    assert_eq!(counted(server), sent);
    assert_eq!(server.metric("weir_monitor_uncounted_total", &[]), 0.0);
    let missing = unrecorded(server);
    eventually("what is missing is told", || {
        let told = ask(server, "/v1/usage").json()["missing"].clone();
        (told["unrecorded"].as_u64(), told["uncounted"].as_u64()) == (Some(missing), Some(0))
    });
    server.signal(Signal::TERM);
    assert_eq!(server.wait().code(), Some(0));
    assert_eq!(recorded(&server.data()) + missing, sent);
}

#[test]
fn a_burst_of_bodies_is_counted_exactly_and_recorded_or_told_to_be_missing() {
    let echo = harness::echo(&[]);
    let mut weir = Weir::new(&config(&echo, 2, "", COUNT)).start();
    let each = requests() / CLIENTS;
    std::thread::scope(|scope| {
        for _ in 0..CLIENTS {
            scope.spawn(|| {
                let (mut client, body) = (weir.connect(), incompressible(BODY));
                for _ in 0..each {
                    assert_eq!(client.post("/echo", &body).status, 200);
                }
            });
        }
    });
    all_accounted(&mut weir, (each * CLIENTS) as u64);
}

#[test]
fn calls_are_counted_while_the_disk_is_full_and_what_is_missing_is_told() {
    let Some(disk) = Disk::small(120) else { return };
    let echo = harness::echo(&[]);
    let config = config(&echo, 1, "", COUNT);
    let mut server = Weir::new(&config).args(&["--data", &disk.data()]).start();
    disk.fill(50);
    let (mut client, mut sent) = (server.connect(), 0);
    while unrecorded(&server) < 50 {
        let body = incompressible(BODY);
        for _ in 0..100 {
            assert_eq!(client.post("/echo", &body).status, 200);
        }
        sent += 100;
        assert!(sent < 20_000, "there is still room on the disk");
    }
    // A part of the last segment was kept for each of what is smaller.
    let shortened = server.metric("weir_journal_shortened_total", &[]);
    assert!(shortened > 200.0, "bodies went first, then headers: {shortened}");
    // Counts find room for longest; then they wait in memory.
    while server.metric("weir_journal_waiting_counts", &[]) == 0.0 {
        for _ in 0..500 {
            assert_eq!(client.get("/hosted").status, 200);
        }
        sent += 500;
        assert_eq!(server.metric("weir_monitor_uncounted_total", &[]), 0.0, "after {sent}");
        assert!(sent < 200_000, "there is still room for counts");
    }
    eventually("a search tells what is missing, although nothing can be written", || {
        let page = ask(&server, "/v1/transactions?limit=1&q=since:1h").json();
        page["missing"]["unrecorded"].as_u64() > Some(0)
    });
    let past = ask(&server, "/v1/transactions?limit=1&q=before:2020-01-01").json();
    assert_eq!(past["missing"]["unrecorded"], 0, "{past}");
    disk.fill(0);
    let data = disk.data();
    all_accounted(&mut server, sent);
    let found = weir(server.dir(), &["search", "since:1h", "--limit", "1", "--data", &data]);
    let said = String::from_utf8_lossy(&found.stderr).into_owned();
    assert!(said.contains("requests were not recorded"), "{said}");
}
