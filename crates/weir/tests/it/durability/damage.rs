//! What is spoilt on the disk costs what was there: the rest is found, and the damage is told.

use super::{config, show, wait_for_index};
use crate::harness::{self, Server, Signal, Weir, eventually, files};
use std::path::{Path, PathBuf};

const PAGE: usize = 4096;

/// Answers requests with bodies of 1 KiB; gives their ids.
fn traffic(weir: &Server, count: usize) -> Vec<String> {
    let mut client = weir.connect();
    let send = |_| {
        let response = client.post("/echo", &"0123456789abcdef".repeat(64));
        assert_eq!(response.status, 200);
        response.header("weir-transaction-id").expect("an id").to_owned()
    };
    (0..count).map(send).collect()
}

/// A weir that was killed after some traffic; the ids, and its last segment that was begun.
fn killed(echo: &Server) -> (Server, Vec<String>, PathBuf) {
    let mut weir = Weir::new(&config(echo, 1, "", "")).start();
    let ids = traffic(&weir, 200);
    weir.kill();
    let segment = files(&weir.data())
        .into_iter()
        .find(|path| path.extension().is_some_and(|kind| kind == "segment") && !is_blank(path));
    (weir, ids, segment.expect("a segment that was begun"))
}

fn is_blank(path: &Path) -> bool {
    std::fs::read(path).expect("a segment")[..64] == [0; 64]
}

fn spoil(path: &Path, spoilt: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = std::fs::read(path).expect("a file");
    spoilt(&mut bytes);
    std::fs::write(path, bytes).expect("it can be written");
}

/// Starts it again: at most `lost` of the transactions are not found, and the damage is told.
fn compare(weir: &mut Server, ids: &[String], lost: std::ops::RangeInclusive<usize>) {
    weir.restart(&[]);
    wait_for_index(weir);
    let whole = |id: &&String| show(weir, id).is_some_and(|one| one["damaged"] != true);
    let missing = ids.len() - ids.iter().filter(whole).count();
    assert!(lost.contains(&missing), "{missing} of {} are lost", ids.len());
    assert!(weir.metric("weir_journal_damaged_bytes_total", &[]) > 0.0);
    // It goes on as if nothing had been.
    let more = traffic(weir, 5);
    wait_for_index(weir);
    assert!(more.iter().all(|id| show(weir, id).is_some()));
}

#[test]
fn flipped_bytes_cost_the_transactions_that_they_are_in() {
    let echo = harness::echo(&[]);
    let (mut weir, ids, segment) = killed(&echo);
    spoil(&segment, |bytes| {
        for at in [20_000, 60_000, 100_000] {
            bytes[at] ^= 0x55;
        }
    });
    compare(&mut weir, &ids, 1..=3);
    assert!(weir.stderr().contains("are damaged, from byte"), "{}", weir.stderr());
}

#[test]
fn a_zeroed_page_costs_what_was_in_it_even_the_first_one() {
    let echo = harness::echo(&[]);
    for page in [5, 0] {
        let (mut weir, ids, segment) = killed(&echo);
        spoil(&segment, |bytes| bytes[page * PAGE..(page + 1) * PAGE].fill(0));
        compare(&mut weir, &ids, 1..=4);
    }
}

#[test]
fn a_damaged_header_of_a_segment_costs_nothing() {
    let echo = harness::echo(&[]);
    let (mut weir, ids, segment) = killed(&echo);
    spoil(&segment, |bytes| bytes[17] ^= 0x55);
    compare(&mut weir, &ids, 0..=0);
}

#[test]
fn a_damaged_sealed_file_costs_a_block_and_the_index_is_made_again() {
    let echo = harness::echo(&[]);
    let mut weir = Weir::new(&config(&echo, 1, "", "")).start();
    let ids = traffic(&weir, 200);
    let body = "0123456789abcdef".repeat(4096);
    // Segments wait for the index, but no more than four of them.
    let mut client = weir.connect();
    while !files(&weir.data()).iter().any(|path| path.extension() == Some("meta".as_ref())) {
        client.post("/echo", &body);
    }
    weir.signal(Signal::TERM);
    weir.wait();
    let sealed = |kind: &str| {
        let found = files(&weir.data());
        found.into_iter().find(|path| path.extension() == Some(kind.as_ref())).expect("sealed")
    };
    spoil(&sealed("meta"), |bytes| bytes[200] ^= 0x55);
    std::fs::remove_dir_all(weir.data().join("index")).expect("an index");
    // All metadata of the traffic may be in one block; what came later is there.
    compare(&mut weir, &ids, 1..=200);
    let known = weir.metric("weir_index_transactions", &[]);
    assert!(known > 5.0, "{known}");
}

#[test]
fn a_damaged_carry_brings_nothing_back_and_leaves_nothing_open() {
    let echo = harness::echo(&[]);
    let mut weir = Weir::new(&config(&echo, 1, "", "")).start();
    let of_kind = |weir: &Server, kind: &str| -> Vec<PathBuf> {
        let found = files(&weir.data()).into_iter();
        found.filter(|path| path.extension() == Some(kind.as_ref())).collect()
    };
    // Until a segment is ready in a file that was used before.
    let used_before = |path: &PathBuf| {
        let bytes = std::fs::read(path).unwrap_or_default();
        bytes.starts_with(&[0; 64]) && bytes.windows(4).any(|four| four == b"WJR1")
    };
    let body = "0123456789abcdef".repeat(4096);
    let mut client = weir.connect();
    let mut sent = 0;
    while !of_kind(&weir, "segment").iter().any(used_before) {
        for _ in 0..100 {
            assert_eq!(client.post("/echo", &body).status, 200);
            sent += 1;
        }
    }
    let mut unfinished = weir.connect();
    unfinished.send("POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n1234");
    eventually("it has begun", || weir.metric("http_server_active_requests", &[]) == 1.0);
    weir.kill();
    // Two, if it was killed while a segment was being sealed.
    let carries = of_kind(&weir, "carry");
    assert!(matches!(carries.len(), 1 | 2), "{carries:?}");
    carries.iter().for_each(|carry| spoil(carry, |bytes| bytes[17] ^= 0x55));
    weir.restart(&[]);
    wait_for_index(&weir);
    assert_eq!(weir.metric("weir_index_transactions", &[]), f64::from(sent + 1));
    assert_eq!(super::search(&weir, "state:interrupted"), 1);
    assert!(weir.metric("weir_journal_damaged_bytes_total", &[]) > 0.0);
}
