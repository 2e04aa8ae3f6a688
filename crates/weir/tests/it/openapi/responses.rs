//! Answers compared with the description.

use crate::harness::{self, Server, Weir};
use serde_json::json;

const DOCUMENT: &str = "
openapi: 3.0.3
info: {title: Echo, version: '1'}
paths:
  /echo:
    post:
      operationId: echo
      responses:
        '200':
          description: The same again
          content:
            application/json:
              schema:
                type: object
                required: [size]
                properties: {size: {type: integer}, secret: {type: string, writeOnly: true}}
  /status/{status}:
    post: {operationId: status, responses: {2XX: {description: good}}}
";

/// In front of an echo, which answers with what it gets.
fn echoing(mode: &str) -> (Server, Server) {
    let echo = harness::echo(&[]);
    let server = Weir::new(&format!(
        "listen: [{{addr: \"127.0.0.1:0\"}}]\nworkers: 1\ntracker: {{enabled: true}}\n\
         upstreams: {{up: {{targets: [\"http://{}\"]}}}}\n\
         apis:\n  a:\n    base: /\n    openapi: echo.yaml\n    limits: {{body: 64KiB}}\n    \
         validate: {{responses: \"{mode}\"}}\n    \
         routes: [{{op: echo, proxy: up}}, {{op: status, proxy: up}}]\n",
        echo.listen[0]
    ))
    .file("echo.yaml", DOCUMENT)
    .start();
    (echo, server)
}

/// An answer with this content type and body.
fn response(server: &Server, content_type: &str, body: &str) -> harness::Response {
    server.connect().request("POST", "/echo", &[("content-type", content_type)], body)
}

const GOOD: &str = "{\"size\": 5}";

#[test]
fn responses_that_do_not_match_are_rejected_where_configured() {
    let (_echo, server) = echoing("enforce");
    let good = response(&server, "application/json", GOOD);
    assert_eq!((good.status, good.text().as_str()), (200, GOOD));
    let bad = "{\"size\": \"secret\"}";
    for (content_type, body) in [
        ("application/json", bad),
        ("application/json", "{"),
        ("application/json", "{}"),
        ("text/html", GOOD),
    ] {
        let refused = response(&server, content_type, body);
        assert_eq!(refused.status, 502, "{content_type} {body}: {}", refused.text());
        assert_eq!(refused.json()["type"], "urn:weir:problem:invalid-answer");
        // What the upstream said is not for the client.
        assert!(!refused.text().contains("secret") && refused.json().get("errors").is_none());
    }
    let mut client = server.connect();
    assert_eq!(client.post("/status/201", "{}").status, 201);
    // A status that is not described.
    assert_eq!(client.post("/status/404", "{}").status, 502);
    assert_eq!(server.metric("weir_invalid_answers_total", &[]), 5.0);
}

#[test]
fn responses_that_are_only_reported_pass_untouched() {
    let (_echo, server) = echoing("log");
    for body in [GOOD, "{\"size\": true}", "{"] {
        let passed = response(&server, "application/json", body);
        assert_eq!((passed.status, passed.text().as_str()), (200, body));
    }
    assert_eq!(server.metric("weir_invalid_answers_total", &[]), 2.0);
    let (_echo, server) = echoing("off");
    assert_eq!(response(&server, "application/json", "{").status, 200);
    assert_eq!(server.metric("weir_invalid_answers_total", &[]), 0.0);
}

#[test]
fn rejections_of_weir_itself_are_no_responses_of_the_handler() {
    let (_echo, server) = echoing("enforce");
    let unknown = server.connect().get("/nowhere");
    assert_eq!((unknown.status, &unknown.json()["title"]), (404, &json!("No route has this path")));
}
