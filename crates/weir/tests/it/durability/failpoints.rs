//! Killed in the middle of what the threads behind the traffic do: sealing, indexing, retention;
//! and panics of the thread that indexes.
//!
//! The binary that tests are run with has failpoints in it; what is released has not.

use super::kill::compare;
use super::load::{Load, Responses};
use super::{config, search, wait_for_index};
use crate::harness::{self, KILL_AT, PANIC_AT, Server, Signal, Weir, eventually};

/// Room for everything: nothing is dropped.
const ROOMY: &str = "journal: {disk: 10GiB, when_full: refuse}\n";
/// Room for six segments of the one lane.
const TIGHT: &str = "journal: {disk: 96MiB}\n";

fn start(echo: &Server, journal: &str, point: &str) -> Server {
    Weir::new(&config(echo, 1, "", journal)).env(KILL_AT, point).start()
}

/// Starts it again, lets it catch up with its work, and compares.
fn recover(weir: &mut Server, responses: &Responses, point: &str) {
    weir.restart(&[]);
    wait_for_index(weir);
    let indexed = weir.metric("weir_index_transactions", &[]);
    assert!(indexed >= responses.len() as f64, "{point}: {indexed} of {}", responses.len());
    weir.signal(Signal::TERM);
    assert_eq!(weir.wait().code(), Some(0), "{point}");
    compare(&weir.data(), responses);
}

#[test]
fn a_kill_anywhere_in_sealing_breaks_no_promise() {
    let echo = harness::echo(&[]);
    for point in [
        "seal.scanned",
        "seal.part:1",
        "seal.carried:1",
        "seal.written",
        "seal.before-recycling:1",
        "seal.recycled",
        "segment.create:4",
    ] {
        let mut weir = start(&echo, ROOMY, point);
        let load = Load::start(weir.listen[0]);
        weir.wait();
        let responses = load.end();
        assert!(!responses.is_empty(), "{point}");
        recover(&mut weir, &responses, point);
    }
}

#[test]
fn a_kill_anywhere_in_indexing_breaks_no_promise() {
    let echo = harness::echo(&[]);
    for point in ["index.terms", "index.columns", "index.sealed", "checkpoint.write:1"] {
        let mut weir = start(&echo, ROOMY, point);
        let load = Load::start(weir.listen[0]);
        eventually("some answers", || load.answered() > 300);
        let responses = load.end();
        eventually("some are indexed", || weir.metric("weir_index_transactions", &[]) > 0.0);
        // What is in memory is written at the end.
        weir.signal(Signal::TERM);
        assert_eq!(weir.wait().code(), None, "{point}: ended by itself");
        recover(&mut weir, &responses, point);
    }
}

#[test]
fn a_kill_anywhere_in_retention_loses_nothing_that_is_new() {
    let echo = harness::echo(&[]);
    for point in ["retention.drop", "retention.dropped", "retention.dropped:2"] {
        let mut weir = start(&echo, TIGHT, point);
        let load = Load::start(weir.listen[0]);
        weir.wait();
        load.end();
        weir.restart(&[]);
        let load = Load::start(weir.listen[0]);
        let dropped = || weir.metric("weir_journal_dropped_files_total", &[]);
        eventually("more is dropped", || dropped() > 1.0);
        load.end();
        // So much at once may have found no room; what comes now does.
        wait_for_index(&weir);
        let unrecorded = weir.metric("weir_unrecorded_total", &[]);
        let mut last = Responses::new();
        let mut client = weir.connect();
        for _ in 0..100 {
            let response = client.post("/echo", "{\"late\": true}");
            let id = response.header("weir-transaction-id").expect("an id").to_owned();
            last.insert(id, response.status);
        }
        assert_eq!(weir.metric("weir_unrecorded_total", &[]), unrecorded, "{point}");
        weir.signal(Signal::TERM);
        assert_eq!(weir.wait().code(), Some(0), "{point}");
        compare(&weir.data(), &last);
    }
}

#[test]
fn a_transaction_that_cannot_be_taken_apart_is_found_by_its_fields_and_counted() {
    let echo = harness::echo(&[]);
    for (point, with_key) in [("index.keys", 2), ("index.words", 3)] {
        let config = config(&echo, 1, ", keys: {order: \"$.orderId\"}", "");
        let weir = Weir::new(&config).env(PANIC_AT, &format!("{point}:1")).start();
        let mut client = weir.connect();
        for number in 0..3 {
            client.post("/echo", &format!("{{\"orderId\": \"A-{number}\"}}"));
        }
        eventually("all are indexed", || weir.metric("weir_index_transactions", &[]) == 3.0);
        assert_eq!(weir.metric("weir_index_skipped_total", &[]), 1.0, "{point}");
        assert_eq!(weir.metric("weir_index_restarts_total", &[]), 0.0, "{point}");
        assert_eq!(search(&weir, "method:POST"), 3, "{point}");
        assert_eq!(search(&weir, "key.order:*"), with_key, "{point}");
    }
}

#[test]
fn indexing_goes_on_after_a_panic_and_nothing_is_missing_or_there_twice() {
    let echo = harness::echo(&[]);
    let config = config(&echo, 1, "", "");
    let weir = Weir::new(&config).env(PANIC_AT, "index.published:2").start();
    let mut client = weir.connect();
    for number in 1..=4 {
        client.post("/echo", "quokka");
        eventually("it is indexed", || {
            weir.metric("weir_index_transactions", &[]) == f64::from(number)
                && weir.metric("weir_index_lag_seconds", &[]) == 0.0
        });
    }
    assert_eq!(weir.metric("weir_index_restarts_total", &[]), 1.0);
    assert_eq!(search(&weir, "quokka"), 4);
    let said = weir.stderr();
    assert!(said.contains(" panicked at ") && said.contains("panicked; restarting"), "{said}");
}
