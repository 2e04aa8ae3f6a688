//! Maps: of requests, of answers, of replies from requests.

use super::assert_problem;
use crate::harness::{self, Server, Upstream, Weir};
use serde_json::json;

/// Maps in every place, in front of this upstream.
fn server(upstream: std::net::SocketAddr) -> Server {
    Weir::new(&format!(
        "listen: [{{addr: \"127.0.0.1:0\"}}]\nworkers: 1\n\
         upstreams: {{up: {{targets: [\"http://{upstream}\"]}}}}\n\
         apis:\n  api:\n    base: /\n    limits: {{body: 1KiB}}\n    routes:\n      \
         - post: /request\n        request: {{map: {{id: $.order.id, items: \"$.order.items[*].sku\", \
           first: \"$.order.items[0]\", fixed: {{literal: $5}}, by: {{cel: request.query.by}}}}}}\n        \
           proxy: {{upstream: up, query: drop}}\n      \
         - {{post: /answer, response: {{map: {{total: $.total, gone: $.gone, list: [$.gone, $.total]}}}}, proxy: up}}\n      \
         - {{get: \"/answer/{{id}}\", response: {{map: {{id: {{cel: request.path.id}}, a: $.a}}}}, proxy: up}}\n      \
         - {{post: /whole, request: {{map: $}}, proxy: up}}\n      \
         - {{post: /reply, reply: {{map: {{name: $.name, agent: {{cel: \"request.headers['x-agent']\"}}}}}}}}\n"
    ))
    .start()
}

#[test]
fn a_request_map_decides_what_the_upstream_gets() {
    let echo = harness::echo(&[]);
    let server = server(echo.listen[0]);
    let body = r#"{"order": {"id": 1.50, "items": [{"sku": "a", "n": 1}, {"sku": null}]}, "x": 1}"#;
    let response = server.connect().post("/request?by=me", body);
    assert_eq!(response.status, 200);
    // Numbers and structures stand as they stood; what the map does not name is gone.
    let expected =
        r#"{"id":1.50,"items":["a",null],"first":{"sku": "a", "n": 1},"fixed":"$5","by":"me"}"#;
    assert_eq!(response.json(), serde_json::from_str::<serde_json::Value>(expected).unwrap());
    assert!(response.text().contains("1.50"), "{}", response.text());
}

#[test]
fn types_are_kept_and_absent_members_left_out() {
    let echo = harness::echo(&[]);
    let server = server(echo.listen[0]);
    let mut client = server.connect();
    for total in ["42.50", "1e400", "\"42\"", "null", "true", "[1,2]", "{\"a\":1}", "\"\\u00e9\""] {
        let response = client.post("/answer", &format!("{{\"x\": 1, \"total\": {total}}}"));
        let expected = format!("{{\"total\":{total},\"list\":[null,{total}]}}");
        assert_eq!((response.status, response.text()), (200, expected));
        assert_eq!(response.header("content-length"), Some(&*response.body.len().to_string()));
    }
    assert_eq!(client.post("/answer", "{}").text(), "{\"list\":[null,null]}");
    assert_eq!(client.post("/answer", "[1, 2]").text(), "{\"list\":[null,null]}");
    // Two members of one name: whichever is taken, it is the same one everywhere.
    let twice = client.post("/answer", "{\"total\": 1, \"total\": 2}").json();
    assert_eq!(twice["total"], twice["list"][1], "{twice}");
    let whole = client.post("/whole", "[1, {\"a\": 2.0}]");
    assert_eq!((whole.status, whole.text().as_str()), (200, "[1, {\"a\": 2.0}]"));
}

#[test]
fn a_body_that_cannot_be_mapped_is_refused_before_the_upstream_hears_of_it() {
    let silent = Upstream::by_hand();
    let server = server(silent.addr);
    let mut client = server.connect();
    for malformed in ["{", "{\"a\": 1,}", "{'a': 1}", "nul", "{\"a\": 01}", "{} {}", "\u{feff}{}x"]
    {
        let refused = client.post("/request", malformed);
        assert_problem(&refused, 400, "malformed-json", malformed);
        let refused = client.post("/reply", malformed);
        assert_problem(&refused, 400, "malformed-json", malformed);
    }
    assert_problem(&client.post("/request", ""), 400, "malformed-json", "empty");
    for (name, value) in
        [("content-type", "text/plain"), ("content-type", "application/xml"), ("x-none", "1")]
    {
        let refused = client.request("POST", "/request", &[(name, value)], "{}");
        assert_problem(&refused, 415, "unsupported-media-type", value);
    }
    let compressed = [("content-type", "application/json"), ("content-encoding", "gzip")];
    let refused = client.request("POST", "/request", &compressed, "{}");
    assert_problem(&refused, 415, "unsupported-media-type", "compressed");
    let deep = "[".repeat(900);
    assert_problem(&client.post("/request", &deep), 400, "malformed-json", "deep");
    let large = format!("{{\"a\": \"{}\"}}", "x".repeat(1024));
    assert_problem(&server.connect().post("/request", &large), 413, "body-too-large", "large");
    assert_eq!(server.metric("http_client_request_duration_seconds_count", &[]), 0.0);
}

#[test]
fn other_json_types_are_json_too() {
    let echo = harness::echo(&[]);
    let server = server(echo.listen[0]);
    for name in ["application/json; charset=utf-8", "Application/JSON", "application/hal+json"] {
        let headers = [("content-type", name), ("x-agent", "me")];
        let response = server.connect().request("POST", "/reply", &headers, "{\"name\": \"n\"}");
        assert_eq!((response.status, response.json()), (200, json!({"name": "n", "agent": "me"})));
    }
}

#[test]
fn only_successful_json_responses_are_mapped() {
    let upstream = Upstream::by_hand();
    let server = server(upstream.addr);
    let response = |head: &str, body: &str| {
        let mut client = server.connect();
        client.send("GET /answer/7 HTTP/1.1\r\nHost: h\r\nAccept-Encoding: gzip\r\n\r\n");
        let mut peer = upstream.accept();
        let asked = peer.head().unwrap().to_ascii_lowercase();
        assert!(!asked.contains("accept-encoding"), "what is mapped must be readable: {asked}");
        let length = body.len();
        peer.send(format!(
            "HTTP/1.1 {head}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
        ));
        client.response()
    };
    let json = "Content-Type: application/json";
    let mapped = response(&format!("200 OK\r\n{json}\r\nETag: \"1\""), r#"{"a": [1], "b": 2}"#);
    assert_eq!(mapped.json(), json!({"id": "7", "a": [1]}));
    assert_eq!(mapped.header("etag"), None, "it is another representation now");
    let failed = response(&format!("404 Not Found\r\n{json}"), r#"{"b": 2}"#);
    assert_eq!((failed.status, failed.text().as_str()), (404, r#"{"b": 2}"#));
    let text = response("200 OK\r\nContent-Type: text/plain", "a text");
    assert_eq!((text.status, text.text().as_str()), (200, "a text"));
    let garbage = response(&format!("200 OK\r\n{json}"), "{\"a\"");
    assert_problem(&garbage, 502, "upstream-unmappable", "garbage");
    let large = response(&format!("200 OK\r\n{json}"), &format!("\"{}\"", "x".repeat(1024)));
    assert_problem(&large, 502, "upstream-unmappable", "too large");
    let encoded = response(&format!("200 OK\r\n{json}\r\nContent-Encoding: gzip"), "{}");
    assert_problem(&encoded, 502, "upstream-unmappable", "encoded");
}

#[test]
fn head_tells_no_length_of_a_body_that_would_be_mapped() {
    let echo = harness::echo(&[]);
    let server = server(echo.listen[0]);
    let mut client = server.connect();
    let get = client.get("/answer/7");
    assert_eq!((get.status, get.json()), (200, json!({"id": "7"})));
    let head = client.request("HEAD", "/answer/7", &[], "");
    assert_eq!((head.status, head.header("content-length")), (200, None), "GET: {get:?}");
    assert_eq!(head.header("content-type"), Some("application/json"));
    assert_eq!(client.get("/answer/8").status, 200, "the connection goes on");
    let http2 = ["-s", "-I", "--http2-prior-knowledge"];
    let mut curl = std::process::Command::new("curl");
    let head = harness::run(curl.args(http2).arg(server.url("/answer/7")), b"");
    let head = String::from_utf8_lossy(&head).into_owned();
    assert!(head.starts_with("HTTP/2 200") && !head.contains("content-length"), "{head}");
}
