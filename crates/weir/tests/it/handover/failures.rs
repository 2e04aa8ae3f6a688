//! Upgrades that fail, and processes that are killed in the middle.

use super::{HEADERS, Load, Process, config, id, recorded, upgrade, upgraded};
use crate::harness::{Upstream, Weir, eventually};
use std::os::unix::fs::PermissionsExt as _;
use weir_journal::Outcome;

#[test]
fn a_successor_that_fails_leaves_the_old_process_serving() {
    let upstream = Upstream::by_hand();
    let text = config(upstream.addr, "");
    let server = Weir::new(&text).start();
    let reason = |more: &[&str]| {
        let (told, success) = upgrade(&server, more);
        assert!(!success, "{told}");
        told["failed"]["reason"].as_str().expect("a reason").to_owned()
    };
    assert!(reason(&["--program", "/bin/false"]).contains("has ended"));
    assert!(reason(&["--program", "/nonexistent"]).contains("cannot start /nonexistent"));
    server.replace("weir.yaml", text.replace("workers: 2", "workers: many"));
    let findings = reason(&[]);
    assert!(findings.contains("workers"), "{findings}");
    server.replace("weir.yaml", text.replace("data: data", "data: other"));
    assert!(reason(&[]).contains("the data folder has changed"));
    server.replace("weir.yaml", text.replace("127.0.0.1:0", "192.0.2.1:1"));
    assert!(reason(&[]).contains("cannot listen on 192.0.2.1:1"));
    let response = server.connect().request("GET", "/fast", &[("x-key", "of acme")], "");
    assert_eq!(response.status, 200);
    assert_eq!(server.metric("weir_upgrade_failures_total", &[]), 5.0);
}

#[test]
fn an_old_process_that_is_killed_leaves_its_lanes_to_the_new_one() {
    let upstream = Upstream::by_hand();
    let mut server = Weir::new(&config(upstream.addr, "")).start();
    let mut slow = server.connect();
    slow.send(format!("GET /slow/1 HTTP/1.1\r\n{HEADERS}"));
    let mut peer = upstream.accept();
    peer.head().expect("a request");
    peer.send("HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhello");
    let load = Load::start(server.listen[0]);
    load.more(100);
    let successor = upgraded(&server);
    server.kill();
    eventually("the interrupted transaction is found", || {
        server.stderr().contains("1 transactions were interrupted")
    });
    load.more(100);
    let ids = load.end();
    // As a crash would end it; the next start has everything.
    successor.signal(crate::harness::Signal::KILL);
    eventually("it has ended", || successor.has_ended());
    let found = recorded(&server);
    assert!(found.is_superset(&ids), "{:?}", ids.difference(&found).collect::<Vec<_>>());
    let all = crate::harness::transactions(&server.data());
    let interrupted = all.iter().filter(|one| one.outcome == Outcome::Interrupted);
    assert!(interrupted.count() >= 1);
}

/// Nobody accepts connections then: the old process must not keep the data folder for
/// `drain.upgrade`, five minutes, from the next start.
#[test]
fn an_old_process_ends_soon_after_its_successor() {
    let upstream = Upstream::by_hand();
    let mut server = Weir::new(&config(upstream.addr, "drain: {deadline: 100ms}\n")).start();
    let mut slow = server.connect();
    slow.send(format!("GET /slow/1 HTTP/1.1\r\n{HEADERS}"));
    let _peer = upstream.accept();
    let successor = upgraded(&server);
    successor.signal(crate::harness::Signal::KILL);
    let ended = server.event_after(&["ready", "handed-over", "draining"], "successor-ended");
    assert_eq!(ended["pid"], successor.0);
    assert!(ended["status"].as_str().is_some_and(|status| status.contains("signal: 9")), "{ended}");
    assert_eq!(server.wait().code(), Some(1), "{}", server.stderr());
    let found = recorded(&server);
    assert!(found.len() <= 1, "{found:?}");
}

#[test]
fn a_successor_that_is_killed_with_the_data_folder_is_replaced_by_the_old_program() {
    let upstream = Upstream::by_hand();
    let mut server = Weir::new(&config(upstream.addr, "")).start();
    let program = server.dir().join("killed");
    let text = format!(
        "#!/bin/sh\nWEIR_KILL_AT=takeover.opened exec \"{}\" \"$@\"\n",
        env!("CARGO_BIN_EXE_weir")
    );
    std::fs::write(&program, text).expect("the folder is writable");
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).expect("ours");
    let load = Load::start(server.listen[0]);
    load.more(100);
    let (told, success) = upgrade(&server, &["--program", program.to_str().expect("UTF-8")]);
    let reason = told["failed"]["reason"].as_str().expect("a reason");
    assert!(!success && reason.contains("of the old version has taken over"), "{reason}");
    let pid = reason.split("process ").last().and_then(|rest| rest.split(' ').next()?.parse().ok());
    let successor = Process(pid.expect("a pid"));
    load.more(100);
    assert_eq!(server.wait().code(), Some(0), "{}", server.stderr());
    let response = server.connect().request("GET", "/fast", &[("x-key", "of acme")], "");
    let mut ids = load.end();
    ids.insert(id(&response));
    successor.stop();
    assert_eq!(recorded(&server), ids);
}
