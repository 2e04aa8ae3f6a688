//! Transactions of a job as a list, and jobs that retry those that failed.

use super::{
    Backend, ROUTE, TRACKER, as_it_was, count, indexed, job, look, place, post, succeeds, wait_for,
};
use crate::admin_api::{command, first_token, get};
use crate::harness::{Server, Weir, eventually};
use serde_json::{Value, json};

/// A page of the transactions of a job.
fn items(weir: &Server, number: i64, filter: &str) -> Value {
    let response = get(weir, &format!("/v1/jobs/{number}/items?{filter}"), &first_token(weir));
    assert_eq!(response.status, 200, "{}", response.text());
    response.json()
}

fn retry(weir: &Server, number: i64, body: &Value) -> Value {
    let response = post(weir, &format!("/v1/jobs/{number}/retry"), body);
    assert_eq!(response.status, 201, "{}", response.text());
    response.json()
}

#[test]
fn what_failed_is_retried_but_not_what_was_sent_since() {
    let backend = Backend::start();
    let weir = Weir::new(&backend.config("", ROUTE, TRACKER)).start();
    let sent: Vec<String> = (0..6).map(|n| place(&weir, &format!("{n}"))).collect();
    indexed(&weir);
    // Still down: all fail once more.
    let number = job(&weir, &json!({"query": "state:failed", "rate": 500, "run": true}));
    let over = wait_for(&weir, number, "finished");
    assert_eq!(count(&over, "failed", ""), 6, "{over}");
    backend.response(200);
    succeeds(&weir, &sent[0], &as_it_was());
    let path = format!("/v1/transactions/{}/resolution", sent[1]);
    assert_eq!(post(&weir, &path, &json!({"state": "dismissed"})).status, 204);
    let made = retry(&weir, number, &json!({}));
    let second = made["number"].as_i64().unwrap();
    assert_eq!((&made["retry_of"], &made["retry_states"]), (&json!(number), &json!(["failed"])));
    assert_eq!(look(&weir, number)["retries"], json!([second]));
    let previewed = wait_for(&weir, second, "previewed");
    let counts = (count(&previewed, "pending", ""), count(&previewed, "cannot", "settled"));
    assert_eq!(counts, (4, 2), "{previewed}");
    // By another one between preview and run.
    succeeds(&weir, &sent[2], &as_it_was());
    let run = post(&weir, &format!("/v1/jobs/{second}/run"), &json!({"rate": 500}));
    assert_eq!(run.status, 200);
    let over = wait_for(&weir, second, "finished");
    assert_eq!(
        (count(&over, "succeeded", ""), count(&over, "refused", "settled")),
        (3, 1),
        "{over}"
    );
    let times: Vec<_> = sent.iter().map(|id| backend.again()[id]).collect();
    assert_eq!(times, [2, 1, 2, 2, 2, 2]);
    // A retry of the same transactions has nothing left to send.
    let third = retry(&weir, number, &json!({"run": true}))["number"].as_i64().unwrap();
    let over = wait_for(&weir, third, "finished");
    assert_eq!(count(&over, "cannot", "settled"), 6, "{over}");
    let audit = get(&weir, "/v1/audit?action=retry-job", &first_token(&weir)).json();
    assert_eq!((&audit[0]["subject"], &audit[0]["about"]), (&json!("1"), &json!("job")));
}

#[test]
fn the_retry_of_a_job_made_with_again_sends_what_it_sent() {
    let backend = Backend::start();
    let weir = Weir::new(&backend.config("", ROUTE, TRACKER)).start();
    let sent: Vec<String> = (0..3).map(|n| place(&weir, &format!("{n}"))).collect();
    indexed(&weir);
    backend.response(200);
    for id in &sent {
        succeeds(&weir, id, &as_it_was());
    }
    backend.response(503);
    let again = json!({"query": "state:failed", "rate": 500, "again": true, "run": true});
    let number = job(&weir, &again);
    let over = wait_for(&weir, number, "finished");
    assert_eq!(count(&over, "failed", ""), 3, "{over}");
    let [second, late] = [0, 1].map(|_| retry(&weir, number, &json!({})));
    for one in [&second, &late] {
        let previewed = wait_for(&weir, one["number"].as_i64().unwrap(), "previewed");
        assert_eq!(count(&previewed, "pending", ""), 3, "{previewed}");
    }
    // They fail once more: the other retry of the same job does not send them, too.
    for (one, state, reason) in [(&second, "failed", ""), (&late, "refused", "newer-attempt")] {
        let number = one["number"].as_i64().unwrap();
        let run = post(&weir, &format!("/v1/jobs/{number}/run"), &json!({"rate": 500}));
        assert_eq!(run.status, 200);
        let over = wait_for(&weir, number, "finished");
        assert_eq!(count(&over, state, reason), 3, "{over}");
    }
    assert!(sent.iter().all(|id| backend.again()[id] == 3));
    // What was settled since is sent with `again` only.
    let path = format!("/v1/transactions/{}/resolution", sent[0]);
    assert_eq!(post(&weir, &path, &json!({"state": "dismissed"})).status, 204);
    backend.response(200);
    let token = first_token(&weir);
    let of = second["number"].to_string();
    let args = ["resubmit", "--job", &of, "--retry", "--json"];
    let (_, out, said) = command(&weir, &token, &args);
    let previewed: Value = serde_json::from_str(&out).expect(&said);
    assert_eq!(
        (count(&previewed, "pending", ""), count(&previewed, "cannot", "settled")),
        (2, 1),
        "{previewed}"
    );
    let args = ["resubmit", "--job", &of, "--retry", "--again", "--run", "--wait", "--json"];
    let (_, out, said) = command(&weir, &token, &args);
    let over: Value = serde_json::from_str(&out).expect(&said);
    assert_eq!(count(&over, "succeeded", ""), 3, "{over}");
}

#[test]
fn the_transactions_of_a_job_are_listed_by_state_and_page() {
    let backend = Backend::start();
    let weir = Weir::new(&backend.config("", ROUTE, TRACKER)).start();
    let sent: Vec<String> = (0..5).map(|n| place(&weir, &format!("{n}"))).collect();
    indexed(&weir);
    backend.response(200);
    succeeds(&weir, &sent[4], &as_it_was());
    backend.response(418);
    let number = job(&weir, &json!({"query": "state:failed", "rate": 500, "run": true}));
    wait_for(&weir, number, "finished");
    let page = items(&weir, number, "limit=3");
    let all = page["transactions"].as_array().unwrap();
    assert_eq!(
        (all.len(), &page["matching"], &all[0]["transaction"]),
        (3, &json!(5), &json!(sent[4]))
    );
    assert_eq!((&all[0]["state"], &all[0]["reason"]), (&json!("cannot"), &json!("settled")));
    assert_eq!((&all[1]["state"], &all[1]["status"]), (&json!("failed"), &json!(418)));
    let attempt = get(
        &weir,
        &format!("/v1/transactions/{}", all[1]["attempt"].as_str().unwrap()),
        &first_token(&weir),
    );
    assert_eq!(attempt.json()["resubmission_of"], all[1]["transaction"]);
    let next = page["next"].as_str().unwrap();
    let rest = items(&weir, number, &format!("limit=3&after={next}"));
    assert_eq!((rest["transactions"].as_array().unwrap().len(), &rest["next"]), (2, &Value::Null));
    assert_eq!(rest["matching"], Value::Null, "counted on the first page");
    for (filter, matching) in
        [("state=sent", 4), ("state=rejected", 1), ("state=unknown", 0), ("reason=settled", 1)]
    {
        assert_eq!(items(&weir, number, filter)["matching"], matching, "{filter}");
    }
    let token = first_token(&weir);
    for wrong in ["state=done", "limit=0", "after=7"] {
        let path = format!("/v1/jobs/{number}/items?{wrong}");
        assert_eq!(get(&weir, &path, &token).status, 400, "{wrong}");
    }
    assert_eq!(get(&weir, "/v1/jobs/99/items", &token).status, 404);
    let args = ["resubmit", "--job", "1", "--items", "--state", "failed", "--limit", "1", "--json"];
    let (ok, out, said) = command(&weir, &token, &args);
    assert!(ok && said.contains("1 of 4 transactions; there are more"), "{out}{said}");
    assert_eq!(serde_json::from_str::<Value>(&out).unwrap()["status"], 418);
    backend.response(200);
    let args = ["resubmit", "--job", "1", "--retry", "--run", "--wait"];
    let (ok, out, said) = command(&weir, &token, &args);
    assert!(ok && out.contains("retry of job 1") && out.contains("succeeded"), "{out}{said}");
}

#[test]
fn an_unknown_outcome_is_retried_only_when_that_is_asked_for() {
    let backend = Backend::start();
    let mut weir = Weir::new(&backend.config("", ROUTE, TRACKER)).start();
    let sent: Vec<String> = (0..3).map(|n| place(&weir, &format!("{n}"))).collect();
    indexed(&weir);
    backend.response(0);
    let number = job(&weir, &json!({"query": "state:failed", "rate": 500, "run": true}));
    eventually("all arrived", || backend.again().len() == 3);
    let running = post(&weir, &format!("/v1/jobs/{number}/retry"), &json!({}));
    assert_eq!(
        (running.status, &running.json()["type"]),
        (409, &json!("urn:weir:problem:job-active"))
    );
    weir.kill();
    weir.restart(&[]);
    let over = wait_for(&weir, number, "finished");
    assert_eq!(count(&over, "unknown", ""), 3, "{over}");
    assert_eq!(items(&weir, number, "state=unknown")["matching"], 3);
    let none = post(&weir, &format!("/v1/jobs/{number}/retry"), &json!({}));
    assert_eq!(
        (none.status, &none.json()["type"]),
        (409, &json!("urn:weir:problem:nothing-to-retry"))
    );
    for wrong in [json!({"states": ["succeeded"]}), json!({"states": []}), json!({"states": ["x"]})]
    {
        let response = post(&weir, &format!("/v1/jobs/{number}/retry"), &wrong);
        assert_eq!(response.status, 400, "{wrong}");
    }
    backend.response(200);
    // One of them did arrive, as its upstream said, and is settled.
    let path = format!("/v1/transactions/{}/resolution", sent[0]);
    assert_eq!(post(&weir, &path, &json!({"state": "resolved"})).status, 204);
    let second = retry(&weir, number, &json!({"states": ["unknown"], "run": true}));
    let over = wait_for(&weir, second["number"].as_i64().unwrap(), "finished");
    assert_eq!(
        (count(&over, "succeeded", ""), count(&over, "cannot", "settled")),
        (2, 1),
        "{over}"
    );
    assert_eq!(backend.again()[&sent[0]], 1);
}
