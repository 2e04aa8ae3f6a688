//! All that a query finds: preview, run, pause, cancel.

use super::{
    Backend, ROUTE, TRACKER, call, count, indexed, job, look, place, post, show, wait_for,
};
use crate::admin_api::{command, first_token, get};
use crate::harness::{Signal, Weir, eventually};
use serde_json::{Value, json};

#[test]
fn a_preview_says_what_can_be_sent_and_a_run_sends_it_oldest_first() {
    let backend = Backend::start();
    let routes = "      - {path: /meta, capture: meta, proxy: back}\n      \
        - {path: \"/*\", proxy: back}\n";
    let weir = Weir::new(&backend.config("", routes, TRACKER)).start();
    let sent: Vec<String> = (0..300).map(|n| place(&weir, &format!("{n}"))).collect();
    (0..3).for_each(|_| drop(call(&weir, "POST", "/orders/meta", &[], "{}")));
    let path = format!("/v1/transactions/{}/resolution", sent[7]);
    assert_eq!(post(&weir, &path, &json!({"state": "dismissed"})).status, 204);
    indexed(&weir);
    let args = ["resubmit", "--query", "resolution:open", "--preview"];
    let (ok, out, said) = command(&weir, &first_token(&weir), &args);
    assert!(ok && out.contains("unrecorded"), "{out}{said}");
    let shown = look(&weir, 1);
    assert_eq!((count(&shown, "pending", ""), count(&shown, "cannot", "unrecorded")), (299, 3));
    assert_eq!(backend.again().len(), 0);
    // What comes later is not in it.
    place(&weir, "late");
    backend.response(200);
    let args =
        ["resubmit", "--query", "resolution:open", "--run", "--rate", "5000/s", "--wait", "--json"];
    let (ok, out, said) = command(&weir, &first_token(&weir), &args);
    assert!(ok, "{said}");
    let done: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((&done["number"], &done["state"]), (&json!(1), &json!("finished")));
    assert_eq!(count(&done, "succeeded", ""), 299, "{done}");
    let again = backend.again();
    assert!(again.len() == 299 && again.values().all(|times| *times == 1));
    assert!(!again.contains_key(&sent[7]));
    let bodies: Vec<String> = backend
        .got()
        .into_iter()
        .filter(|got| got.header("weir-resubmission-of").is_some())
        .map(|got| got.body)
        .collect();
    // Nearly: workers take turns.
    assert!(bodies[..20].iter().any(|body| body == "0"), "{bodies:?}");
    assert_eq!(show(&weir, &sent[0])["resolution"], "resubmitted");
    assert_eq!(show(&weir, &sent[0])["attempts"][0]["job"], 1);
    // All of it is settled now; attempts are not attempted.
    indexed(&weir);
    let number = job(&weir, &json!({"query": "api:orders"}));
    let shown = wait_for(&weir, number, "previewed");
    assert_eq!((count(&shown, "pending", ""), count(&shown, "cannot", "attempt")), (1, 299));
    assert_eq!(count(&shown, "cannot", "settled"), 300);
}

#[test]
fn a_job_is_paused_goes_on_and_is_cancelled_also_over_a_restart() {
    let backend = Backend::start();
    let mut weir = Weir::new(&backend.config("", ROUTE, TRACKER)).start();
    (0..60).for_each(|n| drop(place(&weir, &format!("{n}"))));
    indexed(&weir);
    backend.response(200);
    let number = job(&weir, &json!({"query": "state:failed", "rate": 50, "run": true}));
    eventually("some are sent", || backend.again().len() > 3);
    assert_eq!(post(&weir, &format!("/v1/jobs/{number}/pause"), &json!({})).status, 200);
    let quiet = || count(&look(&weir, number), "sending", "") == 0;
    eventually("nothing is under way", quiet);
    let sent = backend.again().len();
    assert!(sent < 60);
    weir.signal(Signal::TERM);
    weir.wait();
    weir.restart(&[]);
    let paused = look(&weir, number);
    assert_eq!((&paused["state"], backend.again().len()), (&json!("paused"), sent));
    assert_eq!(count(&paused, "succeeded", ""), sent as u64, "{paused}");
    let run = post(&weir, &format!("/v1/jobs/{number}/run"), &json!({"rate": 20}));
    assert_eq!((run.status, &run.json()["rate"]), (200, &json!(20.0)));
    eventually("more are sent", || backend.again().len() > sent);
    // A running one goes on by itself after an orderly stop, and loses nothing by it.
    weir.signal(Signal::TERM);
    assert_eq!(weir.wait().code(), Some(0));
    weir.restart(&[]);
    assert_eq!(count(&look(&weir, number), "unknown", ""), 0, "{}", look(&weir, number));
    let sent = backend.again().len();
    eventually("more are sent", || backend.again().len() > sent);
    let cancelled = post(&weir, &format!("/v1/jobs/{number}/cancel"), &json!({})).json();
    assert_eq!((&cancelled["state"], count(&cancelled, "pending", "")), (&json!("cancelled"), 0));
    eventually("nothing is under way", || count(&look(&weir, number), "sending", "") == 0);
    let over = look(&weir, number);
    let (done, left) = (count(&over, "succeeded", ""), count(&over, "cancelled", ""));
    assert_eq!((done + left, backend.again().len() as u64), (60, done), "{over}");
    assert_eq!(post(&weir, &format!("/v1/jobs/{number}/run"), &json!({})).status, 409);
    assert_eq!(post(&weir, "/v1/jobs/99/run", &json!({})).status, 404);
    for wrong in
        [json!({"query": "status:x"}), json!({"query": ""}), json!({"query": "a", "rate": 0})]
    {
        assert_eq!(post(&weir, "/v1/jobs", &wrong).status, 400, "{wrong}");
    }
    let list = get(&weir, "/v1/jobs?limit=1", &first_token(&weir)).json();
    assert_eq!(list[0]["number"], number);
}

#[test]
fn a_preview_does_not_wait_for_a_job_that_sends() {
    let backend = Backend::start();
    let weir = Weir::new(&backend.config("", ROUTE, TRACKER)).start();
    (0..20).for_each(|n| drop(place(&weir, &format!("{n}"))));
    indexed(&weir);
    backend.response(200);
    let slow = job(&weir, &json!({"query": "state:failed", "rate": 0.3, "run": true}));
    eventually("it has begun", || backend.again().len() == 1);
    let second = job(&weir, &json!({"query": "state:failed"}));
    let shown = wait_for(&weir, second, "previewed");
    assert_eq!(count(&shown, "pending", "") + count(&shown, "cannot", "settled"), 20, "{shown}");
    // It sends when the first one has ended.
    assert_eq!(post(&weir, &format!("/v1/jobs/{second}/run"), &json!({"rate": 500})).status, 200);
    assert_eq!(look(&weir, slow)["state"], "running");
    assert_eq!(post(&weir, &format!("/v1/jobs/{slow}/cancel"), &json!({})).status, 200);
    wait_for(&weir, second, "finished");
    let again = backend.again();
    assert!(again.len() == 20 && again.values().all(|times| *times == 1), "{again:?}");
    let counted = |name: &str, label: &str| {
        weir.metric(&format!("weir_resubmission_{name}_total"), &[&format!("\"{label}\"")])
    };
    assert_eq!(
        ["made", "cancelled", "finished"].map(|event| counted("jobs", event)),
        [2.0, 1.0, 1.0]
    );
    assert_eq!((counted("attempts", "succeeded"), counted("attempts", "failed")), (20.0, 0.0));
}

#[test]
fn resolutions_can_be_searched_for() {
    let backend = Backend::start();
    let weir = Weir::new(&backend.config("", ROUTE, TRACKER)).start();
    let failed: Vec<String> = (0..3).map(|_| place(&weir, "{}")).collect();
    backend.response(200);
    place(&weir, "{}");
    indexed(&weir);
    super::succeeds(&weir, &failed[0], &json!({}));
    let path = format!("/v1/transactions/{}/resolution", failed[1]);
    assert_eq!(post(&weir, &path, &json!({"state": "dismissed"})).status, 204);
    indexed(&weir);
    for (query, expected) in [
        ("resolution:open", vec![&failed[2]]),
        ("resolution:resubmitted", vec![&failed[0]]),
        ("resolution:dismissed", vec![&failed[1]]),
        ("resolution:resolved", vec![]),
        ("-resolution:open%20state:failed", vec![&failed[1], &failed[0]]),
    ] {
        let found = get(&weir, &format!("/v1/transactions?q={query}"), &first_token(&weir)).json();
        let ids: Vec<&str> = found["transactions"]
            .as_array()
            .unwrap()
            .iter()
            .map(|one| one["id"].as_str().unwrap())
            .collect();
        assert_eq!(ids, expected, "{query}");
    }
}
