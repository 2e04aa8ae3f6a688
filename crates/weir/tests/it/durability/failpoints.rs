//! Killed in the middle of what the threads behind the traffic do: sealing, indexing, retention.
//!
//! The binary that tests are run with has failpoints in it; what is released has not.

use super::kill::compare;
use super::load::{Answers, Load};
use super::{config, wait_for_index};
use crate::harness::{self, KILL_AT, Server, Signal, Weir, eventually};

/// Room for everything: nothing is dropped.
const ROOMY: &str = "journal: {disk: 10GiB, when_full: refuse}\n";
/// Room for six segments of the one lane.
const TIGHT: &str = "journal: {disk: 96MiB}\n";

fn start(echo: &Server, journal: &str, point: &str) -> Server {
    Weir::new(&config(echo, 1, "", journal)).env(KILL_AT, point).start()
}

/// Starts it again, lets it catch up with its work, and compares.
fn recover(weir: &mut Server, answers: &Answers, point: &str) {
    weir.restart(&[]);
    wait_for_index(weir);
    let indexed = weir.metric("weir_index_transactions", &[]);
    assert!(indexed >= answers.len() as f64, "{point}: {indexed} of {}", answers.len());
    weir.signal(Signal::TERM);
    assert_eq!(weir.wait().code(), Some(0), "{point}");
    compare(&weir.data(), answers);
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
        let answers = load.end();
        assert!(!answers.is_empty(), "{point}");
        recover(&mut weir, &answers, point);
    }
}

#[test]
fn a_kill_anywhere_in_indexing_breaks_no_promise() {
    let echo = harness::echo(&[]);
    for point in ["index.terms", "index.columns", "index.sealed", "checkpoint.write:1"] {
        let mut weir = start(&echo, ROOMY, point);
        let load = Load::start(weir.listen[0]);
        eventually("some answers", || load.answered() > 300);
        let answers = load.end();
        eventually("some are indexed", || weir.metric("weir_index_transactions", &[]) > 0.0);
        // What is in memory is written at the end.
        weir.signal(Signal::TERM);
        assert_eq!(weir.wait().code(), None, "{point}: ended by itself");
        recover(&mut weir, &answers, point);
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
        let mut last = Answers::new();
        let mut client = weir.connect();
        for _ in 0..100 {
            let answer = client.post("/echo", "{\"late\": true}");
            let id = answer.header("weir-transaction-id").expect("an id").to_owned();
            last.insert(id, answer.status);
        }
        assert_eq!(weir.metric("weir_unrecorded_total", &[]), unrecorded, "{point}");
        weir.signal(Signal::TERM);
        assert_eq!(weir.wait().code(), Some(0), "{point}");
        compare(&weir.data(), &last);
    }
}
