//! Disks that are full, become read-only, or fail: weir goes on, and says so.

use super::{ask, config, show, wait_for_index};
use crate::harness::{self, Disk, Response, Server, Weir, eventually, incompressible};

const REFUSE: &str = "journal: {when_full: refuse}\n";

fn serve(disk: &Disk, echo: &Server, more: &str) -> Server {
    Weir::new(&config(echo, 1, "", more)).args(&["--data", &disk.data()]).start()
}

/// Requests without a record, or without all of it.
fn lost(weir: &Server) -> f64 {
    let all = ["weir_unrecorded_total", "weir_journal_shortened_total"];
    all.map(|name| weir.metric(name, &[])).iter().sum()
}

fn unrecorded(weir: &Server) -> f64 {
    weir.metric("weir_unrecorded_total", &[])
}

/// Sends bodies that cannot be compressed until one finds no place on the disk; returns the response to
/// it or to one soon after.
fn until_lost(weir: &Server, lost: impl Fn(&Server) -> f64) -> Response {
    let mut client = weir.connect();
    for number in 0..3_000 {
        let response = client.post("/echo", &incompressible(64_000));
        // Reading the metrics costs more than a request.
        if (response.status != 200 || number % 20 == 0) && lost(weir) > 0.0 {
            return response;
        }
        assert_eq!(response.status, 200, "{}", response.text());
    }
    panic!("there is still room on the disk");
}

/// A path whose record takes a few kilobytes.
fn medium() -> String {
    format!("/hosted?{}", incompressible(4_000).replace(|c: char| !c.is_ascii_alphanumeric(), "x"))
}

/// Sends requests until one of them is recorded, and finds it.
fn until_recorded(weir: &Server) {
    let mut client = weir.connect();
    let mut recorded = None;
    eventually("something is recorded again", || {
        let before = lost(weir);
        let response = client.post("/echo", "{\"again\": true}");
        let id = response.header("weir-transaction-id").expect("an id").to_owned();
        let whole = response.status == 200 && lost(weir) == before;
        recorded = whole.then_some(id);
        whole
    });
    wait_for_index(weir);
    let id = recorded.expect("an id");
    assert_eq!(show(weir, &id).expect("it is there")["status"], 200);
}

#[test]
fn a_full_disk_is_passed_by_and_recording_goes_on_when_there_is_room() {
    let Some(disk) = Disk::small(120) else { return };
    let echo = harness::echo(&[]);
    // The record of a long hosted answer begins before its end.
    let long = "0123456789abcdef".repeat(3 << 15);
    let route = format!("      - {{get: /long, reply: {{text: \"{long}\"}}}}\n");
    let config = config(&echo, 1, "", "") + &route;
    let weir = Weir::new(&config).args(&["--data", &disk.data()]).start();
    disk.fill(50);
    assert_eq!(until_lost(&weir, lost).status, 200);
    for path in [&medium(), "/hosted", "/long"] {
        let (mut client, before) = (weir.connect(), lost(&weir));
        eventually("what is left of the last segment is used up, and this is counted", || {
            assert_eq!(client.get(path).status, 200);
            lost(&weir) > before
        });
    }
    assert!(weir.metric("weir_journal_refused_total", &[]) > 0.0);
    disk.fill(0);
    until_recorded(&weir);
}

#[test]
fn a_full_disk_refuses_where_it_is_told_to_until_there_is_room() {
    let Some(disk) = Disk::small(120) else { return };
    let echo = harness::echo(&[]);
    let weir = serve(&disk, &echo, REFUSE);
    disk.fill(50);
    let refused = until_lost(&weir, unrecorded);
    assert_eq!(refused.status, 503, "{}", refused.text());
    assert_eq!(refused.json()["type"], "urn:weir:problem:journal-full");
    // What is left of the last segment is used up by small ones; by larger ones first, as that takes less time.
    for path in [&medium(), "/hosted"] {
        let mut client = weir.connect();
        eventually("a small request is refused", || client.get(path).status == 503);
    }
    // What is not recorded goes on.
    assert_eq!(weir.connect().post("/quiet", "{}").status, 200);
    disk.fill(0);
    until_recorded(&weir);
    assert_eq!(weir.connect().get("/hosted").status, 200);
}

#[test]
fn what_is_refused_for_want_of_room_uses_up_no_quota() {
    let echo = harness::echo(&[]);
    let hash = harness::key_hash("k");
    for rolling in ["", ", rolling: true"] {
        let Some(disk) = Disk::small(120) else { return };
        let plan = format!(
            "auth: {{keys: {{api_key: {{header: x-key}}}}}}\n\
             plans: {{gold: {{quota: {{calls: 100000, per: day{rolling}}}}}}}\n\
             consumers: {{acme: {{plan: gold, api_keys: [\"{hash}\"]}}}}\n"
        );
        let config = config(&echo, 1, "", &format!("{REFUSE}{plan}"));
        let config = config.replace("    base: /\n", "    base: /\n    auth: keys\n");
        let weir = Weir::new(&config).args(&["--data", &disk.data()]).start();
        disk.fill(50);
        let (mut answered, mut refused) = (0, 0);
        let mut client = weir.connect();
        while refused < 50 {
            let body = incompressible(64_000);
            let response = client.request("POST", "/echo", &[("x-key", "k")], &body);
            match response.status {
                200 => answered += 1,
                503 => refused += 1,
                other => panic!("{other}: {}", response.text()),
            }
            assert!(answered < 3000, "there is still room on the disk");
        }
        let quota = ask(&weir, "/v1/limits").json()["consumers"][0]["quota"].clone();
        assert_eq!(quota["used"], answered, "{quota}");
    }
}

#[test]
fn a_disk_that_becomes_read_only_stops_no_traffic() {
    let Some(disk) = Disk::ext4(256) else { return };
    let echo = harness::echo(&[]);
    let mut weir = serve(&disk, &echo, "");
    weir.connect().post("/echo", "{}");
    disk.make_read_only();
    assert_eq!(until_lost(&weir, lost).status, 200);
    assert!(weir.metric("weir_journal_errors_total", &[]) > 0.0);
    assert_eq!(weir.connect().get("/hosted").status, 200);
    // It cannot be started on one, and says why.
    weir.kill();
    let refused = Weir::new(&config(&echo, 1, "", "")).args(&["--data", &disk.data()]).refused();
    assert_eq!(refused.status.code(), Some(1));
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(said.contains("Read-only file system") && said.contains(&disk.data()), "{said}");
}

#[test]
fn a_disk_that_fails_stops_no_traffic() {
    let Some(disk) = Disk::ext4(256) else { return };
    let echo = harness::echo(&[]);
    let weir = serve(&disk, &echo, "");
    let first = weir.connect().post("/echo", "{}");
    assert_eq!(first.status, 200);
    disk.break_down();
    assert_eq!(until_lost(&weir, lost).status, 200);
    assert!(weir.metric("weir_journal_errors_total", &[]) > 0.0);
    eventually("the tracker says so", || weir.stderr().contains("tracker: "));
    assert!(weir.stderr().contains("Input/output error"), "{}", weir.stderr());
    assert_eq!(weir.connect().get("/hosted").status, 200);
    assert_eq!(weir.connect_admin().get("/healthz").status, 200);
}

#[test]
fn a_start_without_room_names_what_could_not_be_written() {
    let Some(disk) = Disk::small(1) else { return };
    let echo = harness::echo(&[]);
    for left in [0, 4, 8, 12, 16] {
        // Of a start before.
        let _ = std::fs::remove_dir_all(disk.data());
        std::fs::write(disk.path().join("ballast"), vec![1; (1024 - left) << 10]).unwrap();
        let weir = Weir::new(&config(&echo, 1, "", "")).args(&["--data", &disk.data()]);
        let output = weir.refused();
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success(), "{left} KiB: {text}");
        assert!(text.contains(&format!("{}/", disk.data())), "{left} KiB: {text}");
    }
}
