//! A clock that jumps back: ids stay unique, and what is recorded is found by its time.

use super::{config, show, wait_for_index};
use crate::harness::{self, Weir, eventually};
use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

/// The library that lets a process see another time, if it is installed.
pub(crate) fn library() -> Option<String> {
    let places = ["x86_64", "aarch64"]
        .map(|machine| format!("/usr/lib/{machine}-linux-gnu/faketime/libfaketimeMT.so.1"));
    let found = places.into_iter().find(|place| Path::new(place).exists());
    if found.is_none() {
        eprintln!("skipped: there is no faketime");
    }
    found
}

#[test]
fn a_clock_that_jumps_back_loses_and_doubles_nothing() {
    let Some(library) = library() else { return };
    let echo = harness::echo(&[]);
    let clock = tempfile::NamedTempFile::new().expect("a file");
    let set = |offset: &str| {
        std::fs::write(clock.path(), offset).expect("it is ours");
        // A worker looks at the clock once a second.
        std::thread::sleep(Duration::from_millis(1100));
    };
    set("+0");
    let weir = Weir::new(&config(&echo, 1, "", ""))
        .env("LD_PRELOAD", &library)
        .env("FAKETIME_TIMESTAMP_FILE", clock.path().to_str().expect("UTF-8"))
        .env("FAKETIME_NO_CACHE", "1")
        .env("FAKETIME_DONT_FAKE_MONOTONIC", "1")
        .start();
    let mut client = weir.connect();
    let mut ids = Vec::new();
    let mut send = |count: usize| {
        for _ in 0..count {
            let response = client.post("/echo", "{}");
            assert_eq!(response.status, 200);
            ids.push(response.header("weir-transaction-id").expect("an id").to_owned());
        }
    };
    send(50);
    set("-2d");
    send(50);
    set("-1d");
    send(50);
    let unique: BTreeSet<_> = ids.iter().collect();
    assert_eq!(unique.len(), 150);
    // The time is in the id: it jumped.
    assert!(ids[60] < ids[10] && ids[110] > ids[60] && ids[110] < ids[10], "{ids:?}");
    eventually("everything is indexed", || weir.metric("weir_index_transactions", &[]) >= 150.0);
    wait_for_index(&weir);
    for id in &ids {
        assert_eq!(show(&weir, id).unwrap_or_else(|| panic!("no {id}"))["status"], 200);
    }
    assert_eq!(weir.metric("weir_clock_backwards_total", &[]), 1.0);
    set("+0");
    let found = |query: &str| super::search(&weir, query);
    assert_eq!(found("time:>now-1h"), 50);
    assert_eq!(found("time:>now-36h"), 100);
    assert_eq!(found("time:>now-100h"), 150);
}
