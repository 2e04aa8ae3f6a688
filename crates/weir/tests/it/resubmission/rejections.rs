//! What cannot be resubmitted, and what an edit makes of it.

use super::{
    Backend, KEY, ROUTE, TRACKER, as_it_was, call, count, indexed, job, place, post, refused,
    refused_later, resubmit, succeeds, wait_for,
};
use crate::harness::{Weir, eventually};
use serde_json::json;

const MASKS: &str = "tracker: {enabled: true, body_limit: 1KiB, mask: {body: [\"$.card\"], \
                     headers: [x-secret], query: [pin]}}";

#[test]
fn what_was_masked_truncated_or_withheld_goes_only_edited() {
    let backend = Backend::start();
    let weir = Weir::new(&backend.config("", ROUTE, MASKS)).start();
    let json = [("content-type", "application/json")];
    let masked = call(&weir, "POST", "/orders/a", &json, "{\"card\": \"4711\"}");
    let untouched = call(&weir, "POST", "/orders/a", &json, "{\"other\": \"4711\"}");
    let withheld = call(&weir, "POST", "/orders/a", &[("content-type", "text/plain")], "4711");
    let query = call(&weir, "GET", "/orders/a?pin=1&b=2", &[], "");
    let nested = call(&weir, "GET", "/orders/a?to=%2Fb%3Fpin%3D1%26c%3D2", &[], "");
    let header = call(&weir, "GET", "/orders/a", &[("x-secret", "1")], "");
    backend.response(200);
    refused(&weir, &masked, &as_it_was(), "masked");
    refused(&weir, &withheld, &as_it_was(), "withheld");
    refused(&weir, &query, &as_it_was(), "masked");
    refused(&weir, &nested, &as_it_was(), "masked");
    refused(&weir, &header, &as_it_was(), "masked");
    succeeds(&weir, &untouched, &as_it_was());
    assert_eq!(backend.last().body, "{\"other\": \"4711\"}");
    succeeds(&weir, &masked, &json!({"body": "{}"}));
    succeeds(&weir, &withheld, &json!({"body": "4711"}));
    succeeds(&weir, &query, &json!({"query": "pin=2"}));
    succeeds(&weir, &nested, &json!({"query": "to=%2Fb%3Fpin%3D2"}));
    let set = json!({"headers": {"set": [{"name": "x-secret", "value": "2"}]}});
    succeeds(&weir, &header, &set);
    assert_eq!(backend.last().header("x-secret"), Some("2"));

    let weir = Weir::new(&backend.config("", ROUTE, "tracker: {enabled: true, body_limit: 1KiB}"));
    let weir = weir.start();
    backend.response(503);
    let truncated = place(&weir, &"x".repeat(1025));
    let whole = place(&weir, &"x".repeat(1024));
    backend.response(200);
    refused(&weir, &truncated, &as_it_was(), "truncated");
    succeeds(&weir, &whole, &as_it_was());
    succeeds(&weir, &truncated, &json!({"body_base64": "eHg="}));
    assert_eq!(backend.last().body, "xx");
}

#[test]
fn an_edit_that_leaves_a_masked_value_is_refused_and_its_place_named() {
    let backend = Backend::start();
    let weir = Weir::new(&backend.config("", ROUTE, MASKS)).start();
    let json = [("content-type", "application/json"), ("x-secret", "1")];
    let body = "{\"card\": {\"number\": 4711}, \"count\": 1}";
    let sent = call(&weir, "POST", "/orders/a?pin=1&b=2", &json, body);
    backend.response(200);
    let before = backend.got().len();
    let header = |value: &str| json!({"set": [{"name": "x-secret", "value": value}]});
    for (wish, place) in [
        (json!({"body": "{\"card\": \"***\", \"count\": 2}"}), "`$.card` of the body"),
        (json!({"body": "card=***&count=2"}), "`card` of the body"),
        (json!({"query": "pin=***&b=3"}), "the query parameter `pin`"),
        (json!({"query": "pin=%2a%2a%2a"}), "the query parameter `pin`"),
        (json!({"query": "to=%2Fb%3Fpin%3D***"}), "the query parameter `to`"),
        (json!({"headers": header("***")}), "the header `x-secret`"),
    ] {
        let response = resubmit(&weir, &sent, &wish);
        assert_eq!(response.status, 400, "{wish}: {}", response.text());
        let detail = response.json()["detail"].as_str().unwrap().to_owned();
        assert!(detail.contains(place) && detail.contains("masked"), "{detail}");
    }
    assert_eq!(backend.got().len(), before, "nothing was sent");
    let whole = "{\"card\": {\"number\": 1}, \"count\": 2}";
    succeeds(&weir, &sent, &json!({"body": whole, "query": "pin=2", "headers": header("3")}));
    assert_eq!(backend.last().body, whole);
}

#[test]
fn a_masked_value_of_the_record_is_named_and_sent_by_no_way() {
    let backend = Backend::start();
    let weir = Weir::new(&backend.config("", ROUTE, MASKS)).start();
    let json = [("content-type", "application/json")];
    let body = call(&weir, "POST", "/orders/a", &json, "{\"a\": 1, \"card\": \"4711\"}");
    let query = call(&weir, "GET", "/orders/a?b=2&pin=1", &[], "");
    let nested = call(&weir, "GET", "/orders/a?to=%2Fb%3Fpin%3D1%26c%3Dd", &[], "");
    let header = call(&weir, "GET", "/orders/a", &[("x-secret", "1")], "");
    backend.response(200);
    let before = backend.got().len();
    for (id, place) in [
        (&body, "`$.card` of the body"),
        (&query, "the query parameter `pin`"),
        (&nested, "the query parameter `to`"),
        (&header, "the header `x-secret`"),
    ] {
        let response = resubmit(&weir, id, &as_it_was());
        assert_eq!(
            (response.status, &response.json()["reason"]),
            (409, &json!("masked")),
            "{place}"
        );
        let detail = response.json()["detail"].as_str().unwrap().to_owned();
        assert!(detail.contains(place) && detail.contains("masked"), "{detail}");
    }
    // In bulk they are refused one by one.
    indexed(&weir);
    let number = job(&weir, &json!({"query": "state:failed", "run": true}));
    let ended = wait_for(&weir, number, "finished");
    assert_eq!(count(&ended, "cannot", "masked"), 4, "{ended}");

    for (tried, place) in [
        (json!({"target": "/orders/a?pin=***"}), "`pin`"),
        (json!({"target": "/orders/a?to=%2Fb%3Fpin%3D***"}), "`to`"),
        (json!({"target": "/orders/a", "headers": [{"name": "x", "value": "***"}]}), "`x`"),
        (json!({"target": "/orders/a", "method": "POST", "body": "{\"card\": \"***\"}"}), "$.card"),
        (json!({"target": "/orders/a", "method": "POST", "body": "card=***&b=1"}), "`card`"),
        (json!({"curl": "curl -d '{\"a\": [\"***\"]}' http://127.0.0.1/orders/a"}), "$.a[0]"),
    ] {
        let response = post(&weir, "/v1/try", &tried);
        assert_eq!(response.status, 400, "{tried}: {}", response.text());
        let detail = response.json()["detail"].as_str().unwrap().to_owned();
        assert!(detail.contains(place) && detail.contains("redacted"), "{detail}");
    }
    assert_eq!(backend.got().len(), before, "nothing was sent");
}

#[test]
fn what_was_not_recorded_or_did_not_come_whole_goes_only_with_a_body() {
    let backend = Backend::start();
    let routes = "      - {path: /meta, capture: meta, proxy: back}\n      \
        - {path: /headers, capture: headers, proxy: back}\n      \
        - {path: \"/*\", proxy: back}\n";
    let weir = Weir::new(&backend.config("", routes, TRACKER)).start();
    let meta = call(&weir, "POST", "/orders/meta", &[], "{}");
    let headers = call(&weir, "POST", "/orders/headers", &[], "{}");
    let bodiless = call(&weir, "GET", "/orders/headers", &[], "");
    let rejected = {
        let response = weir.connect().get("/orders/a");
        assert_eq!(response.status, 401);
        crate::admin_api::id(&response)
    };
    // It leaves in the middle of its body.
    let mut client = weir.connect();
    client.send(format!(
        "POST /orders/left HTTP/1.1\r\nhost: a\r\nx-api-key: {KEY}\r\ncontent-length: 9\r\n\r\n123"
    ));
    backend.upstream.wait_for_requests(4);
    client.reset();
    let query = "/v1/transactions?q=state:interrupted";
    let token = crate::admin_api::first_token(&weir);
    let find =
        || crate::admin_api::get(&weir, query, &token).json()["transactions"][0]["id"].clone();
    eventually("it is interrupted", || find().is_string());
    let left = find().as_str().unwrap().to_owned();
    backend.response(200);
    refused(&weir, &meta, &as_it_was(), "unrecorded");
    refused(&weir, &headers, &as_it_was(), "unrecorded");
    refused(&weir, &rejected, &as_it_was(), "unrecorded");
    refused(&weir, &left, &as_it_was(), "aborted");
    succeeds(&weir, &bodiless, &as_it_was());
    succeeds(&weir, &left, &json!({"body": "123456789"}));
    assert_eq!(backend.last().body, "123456789");
    // Who was never let in is not let in with a body either.
    refused(&weir, &rejected, &json!({"body": "{}"}), "not-admitted");
}

#[test]
fn what_is_under_way_is_not_sent_beside_itself() {
    let backend = Backend::start();
    let weir = Weir::new(&backend.config("", ROUTE, TRACKER)).start();
    let sent = place(&weir, "{}");
    backend.response(0);
    let token = crate::admin_api::first_token(&weir);
    let mut client = weir.connect_admin();
    client.send(format!(
        "POST /v1/transactions/{sent}/resubmit HTTP/1.1\r\nhost: localhost\r\n\
         authorization: Bearer {token}\r\ncontent-length: 0\r\n\r\n"
    ));
    backend.upstream.wait_for_requests(2);
    for wish in [as_it_was(), json!({"again": true}), json!({"body": "{}", "again": true})] {
        refused(&weir, &sent, &wish, "sending");
    }
    let number = super::job(&weir, &json!({"query": format!("id:{sent}"), "again": true}));
    eventually("it is looked at", || super::look(&weir, number)["state"] == "previewed");
    let run = super::post(&weir, &format!("/v1/jobs/{number}/run"), &json!({"again": true}));
    assert_eq!(run.status, 200);
    let over = super::wait_for(&weir, number, "finished");
    assert_eq!(super::count(&over, "refused", "sending"), 1, "{over}");
    assert_eq!(over["transactions"][0]["words"], super::words("sending"));
    assert_eq!(backend.got().len(), 2);
}

#[test]
fn a_job_says_the_same_of_each() {
    let backend = Backend::start();
    let routes = "      - {path: /meta, capture: meta, proxy: back}\n      \
        - {path: \"/*\", proxy: back}\n";
    let weir = Weir::new(&backend.config("", routes, MASKS)).start();
    let json = [("content-type", "application/json")];
    call(&weir, "POST", "/orders/a", &json, "{\"card\": \"4711\"}");
    call(&weir, "POST", "/orders/a", &[("content-type", "text/plain")], "4711");
    call(&weir, "POST", "/orders/meta", &[], "{}");
    place(&weir, "{}");
    super::indexed(&weir);
    backend.response(200);
    let number = super::job(&weir, &json!({"query": "state:failed", "run": true, "rate": 500}));
    let over = super::wait_for(&weir, number, "finished");
    for reason in ["masked", "withheld", "unrecorded"] {
        assert_eq!(super::count(&over, "cannot", reason), 1, "{over}");
        let all = over["transactions"].as_array().unwrap();
        let told = all.iter().find(|one| one["reason"] == reason).unwrap();
        assert!(told["words"].as_str().unwrap().contains(super::words(reason)), "{told}");
    }
    assert_eq!((super::count(&over, "succeeded", ""), backend.again().len()), (1, 1));
}

#[test]
fn who_and_where_are_those_of_now() {
    let backend = Backend::start();
    let config = backend.config("", ROUTE, TRACKER);
    let mut weir = Weir::new(&config).start();
    let sent = place(&weir, "{}");
    backend.response(200);
    let before = backend.got().len();
    weir.reload(&config.replace("acme", "beta"));
    refused(&weir, &sent, &as_it_was(), "consumer-gone");
    weir.reload(&config.replace("path: \"/*\"", "path: /elsewhere"));
    refused(&weir, &sent, &as_it_was(), "route-gone");
    weir.reload(&config.replace("  orders:\n", "  renamed:\n"));
    refused(&weir, &sent, &as_it_was(), "route-gone");
    let other = config.replace("auth: {keys:", "auth: {other: {api_key: {header: x-b}}, keys:");
    weir.reload(&other.replace("auth: keys\n", "auth: other\n"));
    refused(&weir, &sent, &as_it_was(), "not-admitted");
    weir.reload(&config.replace("    routes:", "    limits: {body: 1B}\n    routes:"));
    refused_later(&weir, &sent, &as_it_was(), "rejected:body-too-large");
    weir.reload(&config.replace("    routes:", "    clients: {deny: 127.0.0.0/8}\n    routes:"));
    refused(&weir, &sent, &as_it_was(), "rejected:address-refused");
    let limited = "    limit: {rate: 1/d, burst: 1}\n    routes:";
    weir.reload(&config.replace("    routes:", limited));
    place(&weir, "{}");
    refused_later(&weir, &sent, &as_it_was(), "limit-reached");
    // The command says it, too.
    let token = crate::admin_api::first_token(&weir);
    let (ok, out, said) = crate::admin_api::command(&weir, &token, &["resubmit", &sent]);
    assert!(!ok && out.contains("limit-reached") && said.contains("try later"), "{out}{said}");
    assert_eq!(backend.got().len(), before + 1, "only what a client sent");
    weir.reload(&config);
    succeeds(&weir, &sent, &as_it_was());
}

#[test]
fn what_succeeded_goes_only_when_told_to_and_failed_attempts_are_no_tasks() {
    let backend = Backend::start();
    let weir = Weir::new(&backend.config("", ROUTE, TRACKER)).start();
    let failed = place(&weir, "{}");
    let attempt = resubmit(&weir, &failed, &as_it_was()).json();
    assert_eq!(attempt["state"], "failed");
    let token = crate::admin_api::first_token(&weir);
    let open = || {
        let found = crate::admin_api::get(&weir, "/v1/transactions?q=resolution:open", &token);
        let found = found.json();
        let ids = found["transactions"].as_array().unwrap().iter();
        ids.map(|one| one["id"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    eventually("only the first of them waits for somebody", || open() == [failed.as_str()]);
    backend.response(200);
    let succeeded = place(&weir, "{}");
    refused(&weir, &succeeded, &as_it_was(), "succeeded");
    succeeds(&weir, &succeeded, &json!({"again": true}));
    // One that was refused with good reason may be put right and sent.
    backend.response(422);
    let wrong = place(&weir, "{}");
    backend.response(200);
    succeeds(&weir, &wrong, &json!({"body": "{\"right\": true}"}));
}
