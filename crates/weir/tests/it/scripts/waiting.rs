//! Scripts that wait: for upstreams, for time, for each other.

use super::{assert_problem, weir};
use crate::harness::{self, Upstream, eventually};
use serde_json::json;

fn upstreams(addr: std::net::SocketAddr) -> String {
    format!("upstreams: {{up: {{targets: [\"http://{addr}\"], timeout: 60s}}}}\n")
}

#[test]
fn a_fetch_goes_over_kept_connections_with_all_the_script_says() {
    let echo = harness::echo(&[]);
    let text = "export default async (r) => {
        const seen = await (await fetch('http://up/headers?x=1', { method: 'POST', headers: { 'X-Mine': 'm' }, body: { a: 1 } })).json();
        const [one, two] = await Promise.all([1, 2].map((n) => fetch('http://up/', { method: 'PUT', body: `${n}` })));
        return { seen, both: one.text() + two.text(), status: one.status } }";
    for isolation in ["worker", "thread"] {
        let route =
            format!("{{get: /a, script: {{file: a.js, fetch: [up], isolation: {isolation}}}}}");
        let server = weir(&[&route], &[("a.js", text)], &upstreams(echo.listen[0])).start();
        let mut client = server.connect();
        for _ in 0..3 {
            let response = client.get("/a");
            assert_eq!(response.status, 200, "{}", response.text());
            let told = response.json();
            let id = response.header("weir-transaction-id").unwrap();
            for (name, value) in
                [("x-mine", "m"), ("content-type", "application/json"), ("weir-transaction-id", id)]
            {
                assert_eq!(crate::transform::seen(&told["seen"], name), [value], "{isolation}");
            }
            assert_eq!((&told["both"], &told["status"]), (&json!("12"), &json!(200)));
        }
        assert!(server.metric("weir_upstream_connects_total", &[]) <= 2.0);
    }
}

/// A script that passes headers on is no way around what upstreams do not get.
#[test]
fn a_fetch_has_no_headers_with_an_underscore_unless_the_upstream_lists_them() {
    let echo = harness::echo(&[]);
    let text = "export default async (r) => (await fetch('http://up/headers', { headers: { 'X_User': r.headers.get('x_user') ?? 'none', 'x-mine': 'm' } })).json()";
    for (listed, passed) in [("", &[][..]), (", underscores_in_headers: x_user", &["root"][..])] {
        let upstreams =
            upstreams(echo.listen[0]).replace("timeout: 60s", &format!("timeout: 60s{listed}"));
        let route = "{get: /a, script: {file: a.js, fetch: [up]}}";
        let server = weir(&[route], &[("a.js", text)], &upstreams).start();
        let told = server.connect().request("GET", "/a", &[("X_User", "root")], "").json();
        assert_eq!(crate::transform::seen(&told, "x_user"), passed, "{told}");
        assert_eq!(crate::transform::seen(&told, "x-mine"), ["m"], "{told}");
    }
}

#[test]
fn a_call_that_waits_holds_up_nobody_and_ends_with_its_request() {
    let silent = Upstream::by_hand();
    let waits = "export default async () => (await fetch('http://up/')).text()";
    let sleeps = "export default (r) => new Promise((done) => setTimeout(() => done(r.search), 5))";
    let routes = [
        "{get: /waits, script: {file: waits.js, fetch: up}}",
        "{get: /late, limits: {request: 200ms}, script: {file: waits.js, fetch: up}}",
        "{get: /apart, limits: {request: 200ms}, script: {file: waits.js, fetch: up, isolation: thread}}",
        "{get: /sleeps, script: sleeps.js}",
    ];
    let files = [("waits.js", waits), ("sleeps.js", sleeps)];
    let server = weir(&routes, &files, &upstreams(silent.addr)).start();
    let mut waiting = server.connect();
    waiting.send("GET /waits HTTP/1.1\r\nhost: x\r\n\r\n");
    let mut peer = silent.accept();
    peer.request();
    let mut client = server.connect();
    assert_eq!(client.get("/sleeps?a").text(), "\"a\"");
    assert_problem(&client.get("/late"), 504, "deadline-exceeded", "late");
    assert_problem(&client.get("/apart"), 504, "deadline-exceeded", "apart");
    let mut others: Vec<_> = (0..20).map(|_| server.connect()).collect();
    for (n, other) in others.iter_mut().enumerate() {
        other.send(format!("GET /sleeps?{n} HTTP/1.1\r\nhost: x\r\n\r\n"));
    }
    for (n, other) in others.iter_mut().enumerate() {
        assert_eq!(other.response().text(), format!("\"{n}\""));
    }
    peer.send("HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\ndone");
    assert_eq!(waiting.response().text(), "\"done\"");
    // A client that leaves ends its call, and with it the request to the upstream.
    let mut leaving = server.connect();
    leaving.send("GET /waits HTTP/1.1\r\nhost: x\r\n\r\n");
    eventually("a request is in flight", || {
        server.metric("http_server_active_requests", &[]) >= 1.0
    });
    leaving.reset();
    eventually("none is in flight", || server.metric("http_server_active_requests", &[]) < 1.0);
}

#[test]
fn a_fetch_that_fails_or_takes_too_long_is_an_error_of_the_script() {
    let silent = Upstream::by_hand();
    let text = "export default async (r) => {
        try { await fetch('http://up/', { timeout: 50 }); return 'answered' } catch (e) { return e.message } }";
    let more = format!(
        "upstreams: {{up: {{targets: [\"http://{}\"]}}, gone: {{targets: [\"http://{}\"]}}}}\n",
        silent.addr,
        harness::nobody(),
    );
    let gone = text.replace("//up/", "//gone/");
    let routes = [
        "{get: /slow, script: {file: slow.js, fetch: up}}",
        "{get: /gone, script: {file: gone.js, fetch: gone}}",
    ];
    let server = weir(&routes, &[("slow.js", text), ("gone.js", &gone)], &more).start();
    let mut client = server.connect();
    let late = client.get("/slow").text();
    assert!(late.contains("exceeded its time limit"), "{late}");
    let gone = client.get("/gone").text();
    assert!(gone.contains("cannot be reached"), "{gone}");
}
