//! What a crash leaves: nothing sent twice without being told to, nothing lost.

use super::{
    Backend, ROUTE, TRACKER, as_it_was, count, indexed, job, look, place, post, refused, resubmit,
    show, succeeds, wait_for,
};
use crate::admin_api::first_token;
use crate::harness::{KILL_AT, Server, Weir, eventually, kills};
use serde_json::{Value, json};
use std::collections::HashSet;

const JOURNAL: &str = "tracker: {enabled: true}\njournal: {when_full: refuse}";

/// Transactions that fail before the backend answers again.
fn fail(weir: &Server, count: usize) -> HashSet<String> {
    let ids = (0..count).map(|number| place(weir, &format!("{number}"))).collect();
    indexed(weir);
    ids
}

/// Lets a job end, and everything that is not known be sent because somebody says so.
fn finish(weir: &Server, number: i64) -> Value {
    eventually("it has ended", || {
        let state = look(weir, number)["state"].clone();
        state == "finished"
    });
    look(weir, number)
}

#[test]
fn a_job_that_is_killed_again_and_again_sends_nothing_twice_and_loses_nothing() {
    let backend = Backend::start();
    let mut weir = Weir::new(&backend.config("", ROUTE, JOURNAL)).start();
    let all = fail(&weir, 400);
    backend.response(200);
    // It lasts for a while, so that there is something to be broken off.
    let new = json!({"query": "state:failed", "rate": 100, "run": true});
    let number = job(&weir, &new);
    for _ in 0..kills() {
        let sent = backend.again().len();
        eventually("it goes on", || {
            backend.again().len() > sent + 10 || look(&weir, number)["state"] == "finished"
        });
        std::thread::sleep(std::time::Duration::from_millis(fastrand::u64(0..40)));
        weir.kill();
        weir.restart(&[]);
    }
    let over = finish(&weir, number);
    let again = backend.again();
    let twice: Vec<_> = again.iter().filter(|(_, times)| **times > 1).collect();
    assert!(twice.is_empty(), "sent twice: {twice:?}");
    let (done, unknown) = (count(&over, "succeeded", ""), count(&over, "unknown", ""));
    assert_eq!(done + unknown, 400, "{over}");
    assert!(again.len() as u64 >= done, "{} of {done}", again.len());
    // What is not known is known of each, and sent when somebody says so.
    let again = post(&weir, &format!("/v1/jobs/{number}/run"), &json!({"again": true}));
    assert_eq!(again.status, 200);
    let over = finish(&weir, number);
    assert_eq!(count(&over, "succeeded", ""), 400, "{over}");
    let got: HashSet<String> = backend.again().into_keys().collect();
    assert_eq!(got, all);
}

#[test]
fn between_sending_and_sent_nothing_is_sent_and_nobody_says_it_was() {
    let backend = Backend::start();
    for (point, came) in [("resubmit.marked", 0), ("resubmit.sent", 1)] {
        let mut weir = Weir::new(&backend.config("", ROUTE, JOURNAL)).env(KILL_AT, point).start();
        backend.response(503);
        let sent = place(&weir, "{}");
        backend.response(0);
        let before = backend.got().len();
        let path = format!("/v1/transactions/{sent}/resubmit");
        let mut client = weir.connect_admin();
        let token = first_token(&weir);
        client.send(format!(
            "POST {path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {token}\r\n\
             content-length: 0\r\n\r\n"
        ));
        weir.wait();
        assert!(backend.got().len() <= before + came, "{point}");
        weir.restart(&[]);
        backend.response(200);
        let shown = show(&weir, &sent);
        assert_eq!(shown["attempts"][0]["state"], "unknown", "{point}: {shown}");
        assert_eq!(shown["resolution"], "open", "{point}");
        let before = backend.got().len();
        refused(&weir, &sent, &as_it_was(), "unknown");
        let number = job(&weir, &json!({"query": "state:failed", "run": true}));
        let over = wait_for(&weir, number, "finished");
        assert_eq!(count(&over, "cannot", "unknown"), 1, "{point}: {over}");
        assert_eq!(backend.got().len(), before, "{point}");
        let attempt = succeeds(&weir, &sent, &json!({"again": true}));
        assert_eq!((&attempt["number"], backend.got().len()), (&json!(2), before + 1));
    }
}

#[test]
fn a_job_that_dies_between_marking_and_sending_goes_on_without_those() {
    let backend = Backend::start();
    // The first time: on a slow machine all may be marked, and sent, at once.
    for point in ["resubmit.marked", "resubmit.sent"] {
        let mut weir = Weir::new(&backend.config("", ROUTE, JOURNAL)).env(KILL_AT, point).start();
        backend.response(503);
        let all = fail(&weir, 40);
        backend.response(200);
        let number = job(&weir, &json!({"query": "state:failed", "rate": 200, "run": true}));
        weir.wait();
        weir.restart(&[]);
        let over = finish(&weir, number);
        let (done, unknown) = (count(&over, "succeeded", ""), count(&over, "unknown", ""));
        assert_eq!(done + unknown, 40, "{point}: {over}");
        let again = backend.again();
        let times = |id: &String| again.get(id).copied().unwrap_or_default();
        assert!(all.iter().all(|id| times(id) <= 1), "{point}: {again:?}");
        let arrived = all.iter().filter(|id| times(id) == 1).count() as u64;
        assert!(arrived >= done, "{point}: {arrived} of {done}");
        if point.starts_with("resubmit.marked") {
            // Of others the answer may have been on its way.
            assert!(unknown > 0 && arrived < 40, "{point}: {arrived}, {over}");
        }
    }
}

#[test]
fn a_response_that_the_journal_has_is_known_after_a_crash() {
    let backend = Backend::start();
    let mut weir =
        Weir::new(&backend.config("", ROUTE, JOURNAL)).env(KILL_AT, "resubmit.answered").start();
    let sent = place(&weir, "{}");
    backend.response(200);
    let token = first_token(&weir);
    let mut client = weir.connect_admin();
    client.send(format!(
        "POST /v1/transactions/{sent}/resubmit HTTP/1.1\r\nhost: localhost\r\n\
         authorization: Bearer {token}\r\ncontent-length: 0\r\n\r\n"
    ));
    weir.wait();
    weir.restart(&[]);
    eventually("it is known", || show(&weir, &sent)["attempts"][0]["state"] == "succeeded");
    assert_eq!(show(&weir, &sent)["resolution"], "resubmitted");
    refused(&weir, &sent, &as_it_was(), "settled");
    assert_eq!(backend.again()[&sent], 1);
}

#[test]
fn what_a_crash_interrupted_is_sent_where_its_body_is_whole() {
    let backend = Backend::start();
    let mut weir = Weir::new(&backend.config("", ROUTE, TRACKER)).start();
    backend.response(0);
    let requests = [
        ("/orders/whole", "content-length: 4\r\n", "1234"),
        ("/orders/cut", "content-length: 9\r\n", "1234"),
        ("/orders/chunked", "transfer-encoding: chunked\r\n", "4\r\n1234\r\n0\r\n\r\n"),
    ];
    let clients: Vec<_> = requests
        .iter()
        .map(|(path, framing, body)| {
            let mut client = weir.connect();
            let key = super::KEY;
            client.send(format!(
                "POST {path} HTTP/1.1\r\nhost: a\r\nx-api-key: {key}\r\n{framing}\r\n{body}"
            ));
            client
        })
        .collect();
    backend.upstream.wait_for_requests(3);
    let whole = || backend.got().iter().any(|got| got.body == "1234");
    eventually("one is whole", whole);
    weir.kill();
    drop(clients);
    weir.restart(&[]);
    indexed(&weir);
    backend.response(200);
    let token = first_token(&weir);
    let found = crate::admin_api::get(&weir, "/v1/transactions?q=state:interrupted", &token).json();
    assert_eq!(found["transactions"].as_array().unwrap().len(), 3, "{found}");
    for one in found["transactions"].as_array().unwrap() {
        let id = one["id"].as_str().unwrap();
        match one["path"].as_str().unwrap() {
            "/orders/whole" => {
                succeeds(&weir, id, &as_it_was());
                assert_eq!(backend.last().body, "1234");
                assert_eq!(show(&weir, id)["resolution"], "resubmitted");
            }
            _ => {
                refused(&weir, id, &as_it_was(), "aborted");
                assert_eq!(resubmit(&weir, id, &json!({"body": "x"})).status, 200);
            }
        }
    }
}
