//! What scripts get and give.

use super::{assert_problem, start, weir};
use crate::harness::{eventually, transactions};
use serde_json::json;

#[test]
fn a_value_is_json_or_xml_as_the_client_prefers() {
    let server = start(
        &[
            "{get: /hello, script: {file: a.js, as: [json, xml], indent: 4, xml: {root: answer}}}",
            "{get: /compact, script: a.js}",
        ],
        &[("a.js", "export default () => ({ result: 'OK', list: [1, 2.5] })")],
    );
    let mut client = server.connect();
    let response = client.get("/hello");
    assert_eq!(response.status, 200);
    assert_eq!(response.header("content-type"), Some("application/json"));
    assert_eq!(response.header("vary"), Some("accept"));
    let indented = "{\n    \"result\": \"OK\",\n    \"list\": [\n        1,\n        2.5\n    ]\n}";
    assert_eq!(response.text(), indented);
    let xml = client.request("GET", "/hello", &[("accept", "application/xml")], "");
    assert_eq!(xml.header("content-type"), Some("application/xml"));
    assert!(xml.text().contains("<answer>"), "{}", xml.text());
    let none = client.request("GET", "/hello", &[("accept", "image/png")], "");
    assert_problem(&none, 406, "not-acceptable", "image/png");
    assert_eq!(client.get("/compact").text(), r#"{"result":"OK","list":[1,2.5]}"#);
}

#[test]
fn a_script_sees_the_request_and_decides_about_the_response() {
    let text = "export function PUT(r) {
        return new Response(JSON.stringify([r.method, r.path, r.params.id, r.params['*'], r.query.getAll('q'),
            r.headers.get('x-one'), r.json().n, r.config.greeting, r.principal?.consumer]),
            { status: 201, headers: { 'X-Made': 'yes', 'content-type': 'application/x+json',
              'content-length': '1', 'connection': 'close' } })
    }
    export const GET = (r) => r.params.id";
    let key = "keys: {api_key: {header: x-key}}";
    let hash = "sha256:2c70e12b7a0646f92279f427c7b38e7334d8e5389cff167a1dc30e73f826b683";
    let more = format!("auth: {{{key}}}\nconsumers: {{acme: {{api_keys: [\"{hash}\"]}}}}\n");
    let routes =
        ["{path: \"/x/{id}/*\", auth: keys, script: {file: a.js, config: {greeting: hi}}}"];
    let server = weir(&routes, &[("a.js", text)], &more).start();
    let mut client = server.connect();
    let headers = [("x-key", "key"), ("x-one", "1")];
    let response = client.request("PUT", "/x/a%20b/c/d?q=1&q=2", &headers, "{\"n\": 7}");
    assert_eq!(response.status, 201, "{}", response.text());
    let seen = json!(["PUT", "/x/a%20b/c/d", "a b", "c/d", ["1", "2"], "1", 7, "hi", "acme"]);
    assert_eq!(response.json(), seen);
    assert_eq!(response.header("x-made"), Some("yes"));
    assert_eq!(response.header("content-type"), Some("application/x+json"));
    let length = response.body.len().to_string();
    assert_eq!(response.header("content-length"), Some(length.as_str()));
    assert_eq!(client.request("GET", "/x/1/", &headers, "").text(), "\"1\"");
    let other = client.request("POST", "/x/1/", &headers, "");
    assert_problem(&other, 405, "method-not-allowed", "POST");
    assert_eq!(other.header("allow"), Some("GET, PUT"));
    client.send("HEAD /x/1/ HTTP/1.1\r\nhost: x\r\nx-key: key\r\n\r\n");
    assert_eq!(client.response_to_head().header("content-length"), Some("3"));
}

#[test]
fn nothing_texts_bytes_and_thrown_responses() {
    let server = start(
        &[
            "{get: /nothing, script: {file: nothing.js}}",
            "{get: /text, script: {file: text.js}}",
            "{get: /bytes, script: {file: bytes.js}}",
            "{get: /thrown, script: {file: thrown.js}}",
        ],
        &[
            ("nothing.js", "export default () => {}"),
            ("text.js", "export default async () => new Response('é')"),
            ("bytes.js", "export default () => new Uint8Array([0, 255, 10])"),
            (
                "thrown.js",
                "export default () => { throw Response.json({ no: 1 }, { status: 409 }) }",
            ),
        ],
    );
    let mut client = server.connect();
    let nothing = client.get("/nothing");
    assert_eq!((nothing.status, nothing.body.len()), (204, 0));
    let text = client.get("/text");
    assert_eq!((text.status, text.text().as_str()), (200, "é"));
    assert_eq!(text.header("content-type"), Some("text/plain; charset=utf-8"));
    let bytes = client.get("/bytes");
    assert_eq!(bytes.body, [0, 255, 10]);
    assert_eq!(bytes.header("content-type"), Some("application/octet-stream"));
    let thrown = client.get("/thrown");
    assert_eq!((thrown.status, thrown.text().as_str()), (409, "{\"no\":1}"));
}

#[test]
fn what_a_script_says_is_in_the_tracker_and_in_the_log() {
    let text = "export default (r) => { tracker.key('order', 17); tracker.property('kind', 'x');
        tracker.state('checked'); tracker.log('a', { b: 1 });
        console.warn('first\\nsecond', [1]); if (r.query.has('bad')) throw new Error('secret reason');
        return 'ok' }";
    let mut server =
        weir(&["{get: /a, script: a.js}"], &[("a.js", text)], "tracker: {enabled: true}\n").start();
    let mut client = server.connect();
    assert_eq!(client.get("/a").status, 200);
    let failed = client.get("/a?bad");
    assert_problem(&failed, 500, "script-failed", "thrown");
    assert!(!failed.text().contains("secret reason"), "{}", failed.text());
    eventually("lines in the log", || {
        let log = server.stderr();
        log.contains("warn") && log.contains("first\\nsecond [1]") && log.contains("secret reason")
    });
    server.kill();
    let recorded = transactions(&server.data());
    let pair = |a: &str, b: &str| (a.to_owned(), b.to_owned());
    for transaction in &recorded {
        assert_eq!(transaction.keys, [pair("order", "17")]);
        assert_eq!(transaction.properties, [pair("kind", "x"), pair("state", "checked")]);
        assert_eq!(transaction.logs[0], "a {\"b\":1}");
    }
    assert_eq!((recorded.len(), recorded[0].logs.len(), recorded[1].logs.len()), (2, 1, 2));
    assert!(recorded[1].logs[1].contains("secret reason"));
}

#[test]
fn module_state_does_not_leak_unless_it_is_declared() {
    let text = "let n = 0; export default () => ++n";
    let server = start(
        &["{get: /call, script: a.js}", "{get: /shared, script: {file: a.js, state: shared}}"],
        &[("a.js", text)],
    );
    let mut client = server.connect();
    let mut three = |path: &str| [0; 3].map(|_| client.get(path).text());
    assert_eq!(three("/call"), ["1", "1", "1"]);
    assert_eq!(three("/shared"), ["1", "2", "3"]);
}
