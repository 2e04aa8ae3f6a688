//! Several upstreams for one answer.

use super::assert_problem;
use crate::harness::{Server, Upstream, Weir, weir};
use serde_json::json;
use std::time::{Duration, Instant};

/// Answers in JSON with this status, after a time.
fn responding(status: u16, body: &'static str, after: Duration) -> Upstream {
    Upstream::start(move |_, peer| {
        while peer.request().is_some() {
            std::thread::sleep(after);
            peer.send(format!(
                "HTTP/1.1 {status} X\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
                body.len()
            ));
        }
    })
}

const AT_ONCE: Duration = Duration::ZERO;

/// A route with these calls of the upstreams `one` and `two`.
fn serve(one: &Upstream, two: &Upstream, calls: &str, more: &str) -> Server {
    Weir::new(&format!(
        "listen: [{{addr: \"127.0.0.1:0\"}}]\nworkers: 1\nupstreams:\n  \
         one: {{targets: [\"http://{}\"]}}\n  two: {{targets: [\"http://{}\"]}}\n\
         tracker: {{enabled: true}}\n\
         apis:\n  api:\n    base: /\n    path_normalization: {{escaped_slashes: keep}}\n    routes:\n      \
         - {{path: \"/{{id}}\", calls: {calls}{more}}}\n",
        one.addr, two.addr
    ))
    .start()
}

#[test]
fn they_are_made_at_once_and_each_is_sent_what_it_says() {
    let time = Duration::from_millis(300);
    let one = responding(200, r#" {"id": 1.50, "lines": [1]} "#, time);
    let two = responding(200, r#"{"name": "Ann"}"#, time);
    let calls = "{order: {upstream: one, path: \"/v2/{id}/x\"}, \
        customer: {upstream: two, path: /c, query: {q: {cel: request.query.q}, none: {cel: request.query.none}, a: \"b c\"}, \
        headers: {forward: [authorization], set: {x-own: \"1\"}}, body: {sku: $.sku, by: {cel: request.path.id}}}}";
    let server =
        serve(&one, &two, calls, ", response: {map: {id: $.order.id, name: $.customer.name}}");
    let mut client = server.connect();
    let begun = Instant::now();
    let response = client.request(
        "POST",
        "/a%2Fb?q=x%26y",
        &[
            ("content-type", "application/json"),
            ("authorization", "Bearer t"),
            ("cookie", "c"),
            ("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
        ],
        r#"{"sku": [1, "2"]}"#,
    );
    // Two in a row would have taken twice the time.
    assert!(begun.elapsed() < time * 2, "{:?}", begun.elapsed());
    assert_eq!((response.status, response.text().as_str()), (200, r#"{"id":1.50,"name":"Ann"}"#));
    let (one, two) = (one.heads().remove(0), two.heads().remove(0));
    assert!(one.starts_with("GET /v2/a%2Fb/x HTTP/1.1\r\n"), "{one}");
    assert!(two.starts_with("POST /c?q=x%26y&a=b%20c HTTP/1.1\r\n"), "{two}");
    let (one, two) = (one.to_ascii_lowercase(), two.to_ascii_lowercase());
    for head in [&one, &two] {
        assert!(head.contains("traceparent: 00-0af7651916cd43dd8448eb211c80319c-"), "{head}");
        assert!(head.contains("weir-transaction-id: "), "{head}");
        assert!(!head.contains("cookie"), "{head}");
    }
    assert!(two.contains("authorization: bearer t") && two.contains("x-own: 1"), "{two}");
    assert!(!one.contains("authorization") && !one.contains("content-length"), "{one}");
}

#[test]
fn without_a_map_the_response_is_an_object_of_all_responses() {
    let one = responding(200, "[1]", AT_ONCE);
    let two = Upstream::responding("HTTP/1.1 204 No Content\r\n\r\n");
    let calls = "{b: {upstream: one, path: /}, a: {upstream: two, path: /}}";
    let server = serve(&one, &two, calls, "");
    let response = server.connect().get("/x");
    assert_eq!((response.status, response.text().as_str()), (200, r#"{"b":[1],"a":null}"#));
    assert_eq!(response.header("content-type"), Some("application/json"));
}

#[test]
fn a_fallback_stands_for_a_call_that_fails_and_that_is_told() {
    let good = responding(200, "1", AT_ONCE);
    for (bad, calls) in [
        (responding(500, "{}", AT_ONCE), ""),
        (responding(200, "{\"a\":", AT_ONCE), ""),
        (responding(200, "2", Duration::from_secs(5)), ", timeout: 100ms"),
        (
            Upstream::responding(
                "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 1\r\n\r\nx",
            ),
            "",
        ),
        (
            Upstream::responding(
                "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\nx",
            ),
            ", timeout: 300ms",
        ),
    ] {
        let with = format!(
            "{{a: {{upstream: one, path: /}}, b: {{upstream: two, path: /, fallback: {{c: [null]}}{calls}}}}}"
        );
        let server = serve(&good, &bad, &with, "");
        let response = server.connect().get("/x");
        assert_eq!(
            (response.status, response.text().as_str()),
            (200, r#"{"a":1,"b":{"c":[null]}}"#)
        );
        assert_eq!(response.header("weir-fallback"), Some("b"));
        assert_eq!(response.header("cache-control"), Some("no-store"));
        assert_eq!(server.metric("weir_call_fallbacks_total", &[]), 1.0);
        let without =
            format!("{{a: {{upstream: one, path: /}}, b: {{upstream: two, path: /{calls}}}}}");
        let server = serve(&good, &bad, &without, "");
        let refused = server.connect().get("/x");
        assert!(matches!(refused.status, 502 | 504), "{}", refused.text());
        let detail = refused.json()["detail"].as_str().expect("a detail").to_owned();
        assert!(detail.contains("`b`"), "{detail}");
        assert!(!refused.text().contains("127.0.0.1"), "{}", refused.text());
    }
}

#[test]
fn a_response_with_a_status_to_pass_is_the_response() {
    let one = responding(404, r#"{"why": "gone"}"#, AT_ONCE);
    let two = responding(200, "1", Duration::from_millis(500));
    let calls = "{a: {upstream: one, path: /, pass: [404, 409]}, b: {upstream: two, path: /}}";
    let server = serve(&one, &two, calls, ", response: {map: {a: $.a}}");
    let response = server.connect().get("/x");
    assert_eq!((response.status, response.json()), (404, json!({"why": "gone"})));
    let other = responding(403, "{}", AT_ONCE);
    let server = serve(&other, &two, calls, "");
    let refused = server.connect().get("/x");
    assert_problem(&refused, 502, "call-failed", "another status");
    assert_eq!(refused.json()["detail"], "`a`: status 403");
}

#[test]
fn the_time_of_the_request_holds_for_all_of_them() {
    let slow = responding(200, "1", Duration::from_secs(20));
    let calls = "{a: {upstream: one, path: /}, b: {upstream: two, path: /, fallback: 1}}";
    let server = serve(&slow, &slow, calls, ", limits: {request: 200ms}");
    let begun = Instant::now();
    assert_problem(&server.connect().get("/x"), 504, "deadline-exceeded", "too late");
    assert!(begun.elapsed() < Duration::from_secs(10));
}

#[test]
fn an_upstream_may_speak_xml_and_a_response_may_be_too_large() {
    let xml = Upstream::responding(
        "HTTP/1.1 200 OK\r\nContent-Type: text/xml\r\nContent-Length: 28\r\n\r\n<s:a xmlns:s=\"urn:s\">1</s:a>",
    );
    let two = responding(200, "1", AT_ONCE);
    let calls = "{a: {upstream: one, path: /, from: xml, xml: {namespaces: {q: \"urn:s\"}, values: typed}}, b: {upstream: two, path: /}}";
    let server = serve(&xml, &two, calls, "");
    assert_eq!(server.connect().get("/x").json(), json!({"a": {"q:a": 1}, "b": 1}));

    let large: &'static str = Box::leak(format!("\"{}\"", "x".repeat(100_000)).into_boxed_str());
    let large = responding(200, large, AT_ONCE);
    let calls = "{a: {upstream: one, path: /}, b: {upstream: two, path: /}}";
    let server = serve(&large, &two, calls, ", limits: {body: 64KiB}");
    assert_eq!(server.connect().get("/x").status, 502);
}

#[test]
fn what_would_be_asked_is_explained_and_nobody_is() {
    let silent = Upstream::by_hand();
    let calls = "{a: {upstream: one, path: \"/v2/{id}\", fallback: null}, b: {upstream: two, path: /b, timeout: 1s, body: {x: $.x}}}";
    let server = serve(&silent, &silent, calls, "");
    let explain = |more: &[&str]| {
        let output = weir(server.dir(), &[&["explain", "POST", "/7"], more].concat());
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let told = explain(&["-H", "content-type: application/json", "--body", "{\"x\":1}"]);
    for part in [
        "2 concurrent calls",
        "a: GET /v2/7 of one",
        "with fallback",
        "b: POST /b of two",
        "at most 1s, required: no fallback",
    ] {
        assert!(told.contains(part), "{part} is not in {told}");
    }
    let refused = explain(&["--body", "x"]);
    assert!(refused.contains("unsupported-media-type"), "{refused}");
    assert_eq!(silent.connections(), 0);
}
