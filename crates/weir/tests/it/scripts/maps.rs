//! Scripts that map what goes to a handler, and what comes from it.

use super::{assert_problem, weir};
use crate::harness::{Upstream, transactions};
use serde_json::json;

const UPPER: &str = "export default async (r) => {
    if (r.method === 'GET') return;
    const { name } = r.json();
    tracker.key('name', name);
    if (name === 'nobody') return Response.json({ no: name }, { status: 403 });
    if (name === 'never') throw new Response('never', { status: 410 });
    if (name === 'same') return;
    if (name === 'text') return r.with({ body: 'plain', headers: { 'x-a': 'b', 'x-b': null } });
    if (name === 'none') return r.with({ body: null });
    if (name === 'host') return r.with({ headers: { host: 'elsewhere' } });
    return { name: name.toUpperCase() };
}";

/// Tells what it gets.
const SEEN: &str = "export default (r) => ({ body: r.text(), type: r.headers.get('content-type'),
    a: r.headers.get('x-a'), b: r.headers.get('x-b'), length: r.headers.get('content-length') })";

#[test]
fn a_request_map_decides_what_the_handler_gets() {
    let route = "{path: /map, request: {script: upper.js}, script: seen.js, \
                 response: {headers: {set: {x-after: every}}}}";
    let files = [("upper.js", UPPER), ("seen.js", SEEN)];
    let mut server = weir(&[route], &files, "tracker: {enabled: true}\n").start();
    let mut client = server.connect();
    let mut post = |body: &str| {
        let headers = [("content-type", "application/x+json"), ("x-b", "c")];
        client.request("POST", "/map", &headers, body)
    };
    let named = |name: &str| format!("{{\"name\":\"{name}\"}}");
    let seen = |body: &str, kind: &str| json!({"body": body, "type": kind, "a": null, "b": "c"});
    for (name, expected) in [
        ("anna", seen("{\"name\":\"ANNA\"}", "application/json")),
        ("same", seen("{\"name\":\"same\"}", "application/x+json")),
        (
            "text",
            json!({"body": "plain", "type": "text/plain; charset=utf-8", "a": "b", "b": null}),
        ),
        ("none", json!({"body": "", "type": null, "a": null, "b": "c"})),
    ] {
        let response = post(&named(name));
        let mut got = response.json();
        got.as_object_mut().expect("an object").remove("length");
        assert_eq!((response.status, got), (200, expected), "{name}");
    }
    let refused = post(&named("nobody"));
    assert_eq!((refused.status, refused.json()), (403, json!({"no": "nobody"})));
    assert_eq!(refused.header("x-after"), Some("every"));
    assert_eq!(post(&named("never")).status, 410);
    assert_problem(&post(&named("host")), 500, "script-failed", "a header of weir's");
    assert_problem(&post("no json"), 500, "script-failed", "no JSON");
    let zipped = [("content-encoding", "gzip")];
    let zipped = client.request("POST", "/map", &zipped, "x");
    assert_problem(&zipped, 415, "unsupported-media-type", "gzip");
    assert_eq!(client.get("/map").json()["body"], "");
    // What came is recorded, not what the map made of it; and what the map says of it.
    server.kill();
    let recorded = transactions(&server.data());
    let first = recorded.iter().find(|t| t.keys == [("name".to_owned(), "anna".to_owned())]);
    let first = first.expect("the one with the key");
    assert_eq!(first.request_body, named("anna").into_bytes());
}

const MARKED: &str = "export default (answer, request) => {
    if (answer.status === 404) return Response.json({ none: request.path }, { status: 200 });
    if (answer.headers.get('content-type') !== 'application/json') return;
    const value = answer.json();
    if (value.same) { answer.headers.set('x-seen', 'yes'); return answer; }
    return { ...value, at: request.params.id };
}";

#[test]
fn a_response_map_decides_what_the_client_gets() {
    let upstream = Upstream::start(|_, peer| {
        while peer.request().is_some() {
            let head = peer.last_head();
            assert!(!head.to_lowercase().contains("accept-encoding"), "{head}");
            let (status, kind, body) = match head.split(' ').nth(1).unwrap_or_default() {
                "/x/same" => (200, "application/json", "{\"same\": true}"),
                "/x/text" => (201, "text/plain", "hello"),
                "/x/gone" => (404, "text/html", "<p>gone"),
                _ => (200, "application/json", "{\"a\": 1}"),
            };
            let length = body.len();
            peer.send(format!(
                "HTTP/1.1 {status} x\r\ncontent-type: {kind}\r\netag: \"1\"\r\ncontent-length: {length}\r\n\r\n{body}"
            ));
        }
    });
    let more = format!("upstreams: {{up: {{targets: [\"http://{}\"]}}}}\n", upstream.addr);
    let routes = [
        "{get: \"/x/{id}\", proxy: up, response: {script: marked.js}}",
        "{get: /loop, reply: {text: x}, response: {script: {file: loop.js, cpu: 5ms}}}",
        "{get: /thread, reply: {json: {a: 1}}, response: {script: {file: marked.js, isolation: thread}}}",
    ];
    let files = [("marked.js", MARKED), ("loop.js", "export default () => { for (;;) {} }")];
    let server = weir(&routes, &files, &more).start();
    let mut client = server.connect();
    let accept = [("accept-encoding", "gzip")];
    let mapped = client.request("GET", "/x/7", &accept, "");
    assert_eq!((mapped.status, mapped.json()), (200, json!({"a": 1, "at": "7"})));
    // What was said of another body is not said of this one.
    assert_eq!(mapped.header("etag"), None);
    let same = client.get("/x/same");
    assert_eq!((same.text().as_str(), same.header("x-seen")), ("{\"same\": true}", Some("yes")));
    assert_eq!(same.header("etag"), Some("\"1\""));
    let text = client.get("/x/text");
    assert_eq!((text.status, text.text().as_str()), (201, "hello"));
    assert_eq!(text.header("content-type"), Some("text/plain"));
    let gone = client.get("/x/gone");
    assert_eq!((gone.status, gone.json()), (200, json!({"none": "/x/gone"})));
    assert_problem(&client.get("/loop"), 500, "script-stopped", "a loop");
    assert_eq!(client.get("/thread").json(), json!({"a": 1}));
    client.send("HEAD /x/7 HTTP/1.1\r\nhost: x\r\n\r\n");
    assert_eq!(client.response_to_head().header("content-length"), None);
}

#[test]
fn a_map_has_a_default_export_and_no_structure_beside_it() {
    let routes = [
        "{get: /a, request: {script: get.js}, reply: {}}",
        "{get: /b, response: {script: fine.js, map: {a: $.a}}, reply: {}}",
    ];
    let files = [("get.js", "export const GET = () => 1"), ("fine.js", "export default () => {}")];
    let output = weir(&routes, &files, "").refused();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("get.js has no default export"), "{said}");
    assert!(said.contains("`map`") && said.contains("`script`"), "{said}");
}
