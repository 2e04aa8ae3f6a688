//! Files of the journal that somebody deleted are missed: at the start, in `weir journal verify`, in
//! metrics, and where one of their transactions is shown.

use super::{config, search, show, wait_for_index};
use crate::harness::{self, KILL_AT, Server, Signal, Weir, eventually, files, weir};
use crate::monitor::{calls, usage};
use std::path::{Path, PathBuf};

const COUNT: &str = "monitor: {count: all}\n";

/// Sends requests, whose ids it gives.
fn traffic(weir: &Server, count: usize) -> Vec<String> {
    let mut client = weir.connect();
    let send = |_| {
        let response = client.post("/echo", &"0123456789abcdef".repeat(64));
        assert_eq!(response.status, 200);
        response.header("weir-transaction-id").expect("an id").to_owned()
    };
    (0..count).map(send).collect()
}

fn stop(weir: &mut Server) {
    weir.signal(Signal::TERM);
    assert_eq!(weir.wait().code(), Some(0));
}

fn of_kind(data: &Path, kind: &str) -> Vec<PathBuf> {
    let found = files(data).into_iter();
    found.filter(|path| path.extension() == Some(kind.as_ref())).collect()
}

/// A server with traffic that has ended, and how much that was.
fn ended(echo: &Server, count: usize) -> (Server, Vec<String>) {
    let mut weir = Weir::new(&config(echo, 1, "", COUNT)).start();
    let ids = traffic(&weir, count);
    wait_for_index(&weir);
    assert_eq!(calls(&usage(&weir, "")), count as u64);
    stop(&mut weir);
    (weir, ids)
}

/// What `weir journal verify` says of a folder, and whether that is good.
fn verify(server: &Server) -> (bool, String) {
    let output = weir(server.dir(), &["journal", "verify", "--json", "--data", "data"]);
    (output.status.success(), String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Starts it, and compares what is told with so many missing transactions at least.
fn compare(weir: &mut Server, missing: f64) {
    weir.restart(&[]);
    assert!(weir.metric("weir_journal_missing_files", &[]) >= 1.0);
    let told = weir.metric("weir_journal_missing_transactions", &[]);
    assert!(told >= missing, "{told} of {missing}");
    assert!(weir.stderr().contains("files are missing"), "{}", weir.stderr());
    // It goes on as if nothing had been.
    let more = traffic(weir, 5);
    wait_for_index(weir);
    assert!(more.iter().all(|id| show(weir, id).is_some_and(|one| one["missing"] == false)));
}

#[test]
fn the_last_segment_a_lane_or_the_whole_journal_is_missed_and_nothing_is_counted_again() {
    let echo = harness::echo(&[]);
    for what in ["segment", "lane", "journal"] {
        let (mut weir, ids) = ended(&echo, 50);
        assert!(verify(&weir).0, "{what}: whole before");
        let data = weir.data();
        match what {
            "segment" => of_kind(&data, "segment").iter().for_each(|path| {
                std::fs::remove_file(path).expect("it is there");
            }),
            "lane" => std::fs::remove_dir_all(data.join("journal/lane-0000")).expect("a folder"),
            _ => std::fs::remove_dir_all(data.join("journal")).expect("a folder"),
        }
        compare(&mut weir, 50.0);
        let shown = show(&weir, &ids[7]).expect("the index knows it");
        assert_eq!((&shown["missing"], &shown["expired"]), (&true.into(), &false.into()), "{what}");
        assert_eq!(search(&weir, "since:1h"), 55, "{what}");
        assert_eq!(calls(&usage(&weir, "")), 55, "{what}");
        stop(&mut weir);
        let (whole, said) = verify(&weir);
        assert!(!whole && said.contains("\"missing_files\":1"), "{what}: {said}");
    }
}

/// Runs `weir` on the data folder; gives whether that was good, and what was printed.
fn on_data(server: &Server, args: &[&str]) -> (bool, String) {
    let output = weir(server.dir(), &[args, &["--data", "data"]].concat());
    let said = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8_lossy(&said).into_owned())
}

#[test]
fn a_loss_is_accepted_by_name_once_and_stays_visible() {
    let echo = harness::echo(&[]);
    let (mut weir, ids) = ended(&echo, 50);
    let remove = |server: &Server| {
        let segments = of_kind(&server.data(), "segment");
        segments.iter().for_each(|path| std::fs::remove_file(path).expect("it is there"));
    };
    let (good, said) = on_data(&weir, &["repair", "--accept-missing"]);
    assert!(good && said.contains("no journal files are missing"), "{said}");
    remove(&weir);
    assert!(!verify(&weir).0);
    let (good, said) = on_data(&weir, &["repair"]);
    assert!(good && !said.contains("accepted"), "only when it is asked for: {said}");
    assert!(!verify(&weir).0);
    let (good, said) = on_data(&weir, &["repair", "--accept-missing"]);
    assert!(good && said.contains("accepted: 1 files, 50 transactions"), "{said}");
    assert!(said.contains("lane-0000/") && said.contains(".segment (50 transactions)"), "{said}");

    let (whole, said) = verify(&weir);
    assert!(whole && said.contains("\"accepted_files\":1,\"accepted\":50"), "{said}");
    assert!(said.contains("missing/0/"), "it is still named: {said}");
    let (_, said) = on_data(&weir, &["audit"]);
    assert!(said.contains("accept-missing") && said.contains("50 transactions"), "{said}");

    weir.restart(&[]);
    assert_eq!(weir.metric("weir_journal_missing_files", &[]), 0.0);
    assert_eq!(weir.metric("weir_journal_missing_transactions", &[]), 0.0);
    let said = weir.stderr();
    assert!(said.contains("(accepted): 50 transactions"), "{said}");
    wait_for_index(&weir);
    assert_eq!(show(&weir, &ids[7]).expect("the index knows it")["missing"], true);
    assert_eq!(calls(&usage(&weir, "")), 50);

    // What is lost later has not been accepted.
    traffic(&weir, 5);
    stop(&mut weir);
    assert!(verify(&weir).0);
    remove(&weir);
    let (whole, said) = verify(&weir);
    assert!(!whole && said.contains("\"missing_files\":1"), "{said}");
    let (good, said) = on_data(&weir, &["repair", "--accept-missing"]);
    assert!(good && said.contains("accepted: 1 files, "), "{said}");
    assert!(verify(&weir).0);
}

#[test]
fn files_of_a_sealed_segment_are_missed() {
    let echo = harness::echo(&[]);
    for kind in ["payload", "meta"] {
        let mut weir = Weir::new(&config(&echo, 1, "", "")).start();
        let first = traffic(&weir, 1).remove(0);
        let body = "0123456789abcdef".repeat(4096);
        let mut client = weir.connect();
        while of_kind(&weir.data(), "meta").is_empty() {
            client.post("/echo", &body);
        }
        stop(&mut weir);
        assert!(verify(&weir).0, "{kind}: whole before");
        std::fs::remove_file(&of_kind(&weir.data(), kind)[0]).expect("it is there");
        compare(&mut weir, 1.0);
        let shown = show(&weir, &first).expect("the index knows it");
        assert_eq!((&shown["missing"], &shown["expired"]), (&true.into(), &false.into()), "{kind}");
        stop(&mut weir);
        assert!(!verify(&weir).0, "{kind}");
    }
}

#[test]
fn what_retention_drops_is_not_missed() {
    let echo = harness::echo(&[]);
    let keep = ", keep: {completed: 1s, failed: 1s}";
    let mut weir = Weir::new(&config(&echo, 1, keep, "")).start();
    let body = "0123456789abcdef".repeat(4096);
    let mut client = weir.connect();
    while of_kind(&weir.data(), "meta").is_empty() {
        client.post("/echo", &body);
    }
    stop(&mut weir);
    // Ended behind the first one, before anything is written down about it.
    weir.restart_to_end(&[(KILL_AT, "retention.dropped")]);
    weir.restart(&[]);
    assert_eq!(weir.metric("weir_journal_missing_files", &[]), 0.0);
    eventually("others are dropped", || weir.metric("weir_journal_dropped_files_total", &[]) > 0.0);
    weir.kill();
    weir.restart(&[]);
    assert_eq!(weir.metric("weir_journal_missing_files", &[]), 0.0);
}

#[test]
fn a_flipped_bit_in_metadata_is_damage() {
    let echo = harness::echo(&[]);
    let mut weir = Weir::new(&config(&echo, 1, "", "")).start();
    let first = traffic(&weir, 1).remove(0);
    let body = "0123456789abcdef".repeat(4096);
    let mut client = weir.connect();
    while of_kind(&weir.data(), "meta").is_empty() {
        client.post("/echo", &body);
    }
    stop(&mut weir);
    let meta = of_kind(&weir.data(), "meta").remove(0);
    let mut bytes = std::fs::read(&meta).expect("it is there");
    // In the first block.
    bytes[40] ^= 1;
    std::fs::write(&meta, bytes).expect("it can be written");
    weir.restart(&[]);
    let shown = show(&weir, &first).expect("the index knows it");
    let told = ["damaged", "expired", "missing"].map(|name| shown[name] == true);
    assert_eq!(told, [true, false, false], "{shown}");
}

#[test]
fn a_segment_cut_to_nothing_says_how_much_is_lost_and_nothing_is_counted_twice() {
    let echo = harness::echo(&[]);
    for how in ["cut", "flipped"] {
        let (mut weir, _) = ended(&echo, 50);
        let written = |path: &PathBuf| std::fs::read(path).expect("a file")[..64] != [0; 64];
        let segment = of_kind(&weir.data(), "segment").into_iter().find(written).expect("one");
        let mut bytes = std::fs::read(&segment).expect("it is there");
        match how {
            "cut" => bytes.clear(),
            // Ends of transactions whose beginnings are whole.
            _ => {
                let is_end = |at: &usize| bytes[*at..].starts_with(b"WJR1") && bytes[at + 12] == 4;
                let ends: Vec<usize> = (64..bytes.len() - 16).step_by(8).filter(is_end).collect();
                for at in ends.iter().rev().take(3) {
                    bytes[at + 40] ^= 0x55;
                }
            }
        }
        std::fs::write(&segment, bytes).expect("it can be written");
        weir.restart(&[]);
        let damaged = weir.metric("weir_journal_damaged_bytes_total", &[]);
        let least = if how == "cut" { 50.0 * 1024.0 } else { 1.0 };
        assert!(damaged >= least, "{how}: {damaged}");
        // What recovery has closed is read before another one.
        traffic(&weir, 1);
        eventually("another one is counted", || calls(&usage(&weir, "")) > 50);
        assert_eq!(calls(&usage(&weir, "")), 51, "{how}");
        wait_for_index(&weir);
        assert_eq!(search(&weir, "state:interrupted"), 0, "{how}");
        assert_eq!(search(&weir, "since:1h"), 51, "{how}");
    }
}
