//! What was recorded and is no longer there, or not whole, is not sent as if it were.

use super::{
    Backend, ROUTE, TRACKER, as_it_was, call, count, job, look, place, post, refused, succeeds,
    wait_for, words,
};
use crate::harness::{Server, Signal, Weir, eventually, files};
use serde_json::{Value, json};
use std::path::PathBuf;

/// Files of sealed segments with whole transactions.
fn sealed(weir: &Server) -> Option<PathBuf> {
    files(&weir.data()).into_iter().find(|path| path.extension() == Some("failed".as_ref()))
}

/// Goes on until what was recorded before is sealed.
fn fill(weir: &Server, done: impl Fn() -> bool) {
    let body = "0123456789abcdef".repeat(4096);
    while !done() {
        call(weir, "POST", "/orders/fill", &[], &body);
    }
}

fn stop(weir: &mut Server) {
    weir.signal(Signal::TERM);
    assert_eq!(weir.wait().code(), Some(0));
}

#[test]
fn what_has_become_too_old_goes_only_with_a_body() {
    let backend = Backend::start();
    let more = "tracker: {enabled: true, keep: {completed: 7d, failed: 1s}}";
    let mut weir = Weir::new(&backend.config("", ROUTE, more)).start();
    let old = place(&weir, "{\"n\": 1}");
    backend.response(200);
    fill(&weir, || sealed(&weir).is_some());
    // Nothing is dropped that is not indexed for good, as it is when weir ends.
    stop(&mut weir);
    weir.restart(&[]);
    let token = crate::admin_api::first_token(&weir);
    let show = || crate::admin_api::get(&weir, &format!("/v1/transactions/{old}"), &token).json();
    eventually("it is dropped", || show()["expired"] == true);
    refused(&weir, &old, &as_it_was(), "expired");
    assert_eq!(backend.again().len(), 0);
    succeeds(&weir, &old, &json!({"body": "{\"n\": 2}"}));
    assert_eq!(backend.last().body, "{\"n\": 2}");
}

#[test]
fn what_is_damaged_goes_only_with_a_body() {
    let backend = Backend::start();
    let mut weir = Weir::new(&backend.config("", ROUTE, TRACKER)).start();
    let hurt = place(&weir, "{\"n\": 1}");
    backend.response(200);
    fill(&weir, || sealed(&weir).is_some());
    stop(&mut weir);
    let path = sealed(&weir).expect("a sealed segment");
    let mut bytes = std::fs::read(&path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0x55;
    std::fs::write(&path, bytes).unwrap();
    weir.restart(&[]);
    refused(&weir, &hurt, &as_it_was(), "damaged");
    assert_eq!(backend.again().len(), 0);
    succeeds(&weir, &hurt, &json!({"body": "{\"n\": 2}"}));
}

#[test]
fn a_job_says_which_transactions_are_gone_since_it_was_previewed() {
    let backend = Backend::start();
    let mut weir = Weir::new(&backend.config("", ROUTE, TRACKER)).start();
    let gone = place(&weir, "{}");
    super::indexed(&weir);
    backend.response(200);
    let number = job(&weir, &json!({"query": format!("id:{gone}")}));
    eventually("it is looked at", || look(&weir, number)["state"] == "previewed");
    stop(&mut weir);
    for folder in ["journal", "index"] {
        std::fs::remove_dir_all(weir.data().join(folder)).expect("it is there");
    }
    weir.restart(&[]);
    assert_eq!(post(&weir, &format!("/v1/jobs/{number}/run"), &json!({})).status, 200);
    let over: Value = wait_for(&weir, number, "finished");
    assert_eq!(count(&over, "refused", "not-kept"), 1, "{over}");
    assert_eq!(over["transactions"][0]["words"], words("not-kept"));
    assert_eq!(backend.again().len(), 0);
    let response = super::resubmit(&weir, &gone, &as_it_was());
    assert_eq!(response.status, 404, "{}", response.text());
}
