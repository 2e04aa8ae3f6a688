//! Scripts that do what scripts must not do.

use super::{assert_problem, start, weir};
use crate::harness::{Upstream, eventually};

/// Calls that are stopped, all on one engine with a route that is fine.
#[test]
fn what_does_not_end_is_stopped_and_others_are_served() {
    let endless = [
        ("loop", "for (;;) {}"),
        ("caught", "for (;;) { try { for (;;) {} } catch {} finally { for (;;) {} } }"),
        ("regex", "return /^(a+)+$/.test('a'.repeat(64) + 'b')"),
        ("jobs", "return (async () => { for (;;) await null })()"),
        ("answer", "return { toJSON() { for (;;) {} } }"),
        ("error", "throw { toJSON() { for (;;) {} } }"),
        ("then", "return { then() { for (;;) {} } }"),
        ("later", "return new Promise(() => setTimeout(() => { for (;;) {} }, 1))"),
    ];
    let routes: Vec<String> = endless
        .iter()
        .flat_map(|(name, _)| {
            [
                format!("{{get: /{name}, script: {name}.js}}"),
                format!("{{get: /apart/{name}, script: {{file: {name}.js, isolation: thread}}}}"),
            ]
        })
        .chain(["{get: /fine, script: fine.js}".to_owned()])
        .collect();
    let routes: Vec<&str> = routes.iter().map(String::as_str).collect();
    let texts = endless
        .map(|(name, text)| (format!("{name}.js"), format!("export default () => {{ {text} }}")));
    let mut files: Vec<(&str, &str)> =
        texts.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
    files.push(("fine.js", "export default () => 'fine'"));
    let server = start(&routes, &files);
    let mut client = server.connect();
    for (name, _) in endless {
        for path in [format!("/{name}"), format!("/apart/{name}")] {
            assert_problem(&client.get(&path), 500, "script-stopped", &path);
            assert_eq!(client.get("/fine").text(), "\"fine\"", "after {path}");
        }
    }
}

/// Built-ins loop by themselves, without a look at the clock between two steps.
#[test]
fn built_ins_that_loop_are_stopped_like_loops_of_the_script() {
    let looping = [
        ("includes", "return s.includes(half)"),
        ("split", "return s.split(half).length"),
        ("replace", "return s.replaceAll(half, '').length"),
        ("again", "for (;;) try { s.lastIndexOf(half) } catch {}"),
        ("pattern", "for (;;) s.replace(/b|c/g, '')"),
        ("json", "for (;;) JSON.parse(`[${'[],'.repeat(1e5)}1]`)"),
        ("holes", "const a = []; a.length = 3e6; a[0] = s; for (;;) try { a.indexOf(1) } catch {}"),
        ("tree", "let a = []; for (let i = 0; i < 60; i++) a = [a, a]; return a.flat(Infinity)"),
        ("bytes", "const b = new Uint8Array(8e6); for (;;) b.sort()"),
    ];
    let routes: Vec<String> = (looping.iter())
        .map(|(name, _)| format!("{{get: /{name}, script: {name}.js}}"))
        .chain(["{get: /fine, script: fine.js}".to_owned()])
        .collect();
    let routes: Vec<&str> = routes.iter().map(String::as_str).collect();
    let texts = looping.map(|(name, text)| {
        let inputs = "const s = 'a'.repeat(4e6), half = 'a'.repeat(2e6) + 'b';";
        (format!("{name}.js"), format!("export default () => {{ {inputs} {text} }}"))
    });
    let mut files: Vec<(&str, &str)> =
        texts.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
    files.push(("fine.js", "export default () => 'fine'"));
    let server = start(&routes, &files);
    let mut client = server.connect();
    for (name, _) in looping {
        let path = format!("/{name}");
        assert_problem(&client.get(&path), 500, "script-stopped", &path);
        assert_eq!(client.get("/fine").text(), "\"fine\"", "after {path}");
    }
}

#[test]
fn a_route_that_is_stopped_three_times_is_suspended_and_others_are_not() {
    let text = "export default (r) => { if (r.query.has('x')) for (;;) {} return 1 }";
    let routes = ["{get: /a, script: a.js}", "{get: /b, script: a.js}"];
    let mut server = start(&routes, &[("a.js", text)]);
    let mut client = server.connect();
    assert_eq!(client.get("/a").status, 200);
    for _ in 0..3 {
        assert_problem(&client.get("/a?x"), 500, "script-stopped", "stopped");
    }
    let refused = client.get("/a");
    assert_problem(&refused, 503, "script-suspended", "suspended");
    let seconds: u64 = refused.header("retry-after").unwrap().parse().unwrap();
    assert!((1..=30).contains(&seconds), "{seconds}");
    assert_eq!(client.get("/b").status, 200);
    // A configuration that is read anew gives it another chance.
    server.replace("a.js", format!("{text}\n// better"));
    server.event("reloaded");
    assert_eq!(client.get("/a").status, 200);
}

#[test]
fn an_engine_that_runs_out_of_memory_is_made_anew() {
    let hungry = [
        ("array", "const a = []; for (;;) a.push(new Array(10000).fill(1))"),
        ("bytes", "const a = []; for (;;) a.push(new Uint8Array(1 << 20))"),
        ("result", "return 'x'.repeat((1 << 29) - 1)"),
    ];
    let mut files = vec![
        ("fine.js".to_owned(), "export default () => 'fine'".to_owned()),
        (
            "waits.js".to_owned(),
            "export default () => new Promise((done) => setTimeout(done, 600000))".to_owned(),
        ),
    ];
    let mut routes = vec![
        "{get: /fine, script: fine.js}".to_owned(),
        "{get: /waits, script: waits.js}".to_owned(),
    ];
    for (name, text) in hungry {
        files.push((format!("{name}.js"), format!("export default () => {{ {text} }}")));
        routes.push(format!("{{get: /{name}, script: {{file: {name}.js, cpu: 1s}}}}"));
        routes.push(format!(
            "{{get: /apart/{name}, script: {{file: {name}.js, cpu: 1s, isolation: thread}}}}"
        ));
    }
    let routes: Vec<&str> = routes.iter().map(String::as_str).collect();
    let files: Vec<(&str, &str)> = files.iter().map(|(n, t)| (n.as_str(), t.as_str())).collect();
    let server = weir(&routes, &files, "scripts: {memory: 8MiB}\n").start();
    let mut client = server.connect();
    for (name, _) in hungry {
        // A call in flight on the same engine shares its fate.
        let mut waits = server.connect();
        waits.send("GET /waits HTTP/1.1\r\nhost: x\r\n\r\n");
        eventually("the call is in flight", || {
            server.metric("http_server_active_requests", &[]) >= 1.0
        });
        let path = format!("/{name}");
        assert_problem(&client.get(&path), 503, "script-memory", &path);
        assert_problem(&waits.response(), 503, "script-memory", "in flight");
        assert_eq!(client.get("/fine").text(), "\"fine\"", "after {path}");
        let path = format!("/apart/{name}");
        assert_problem(&client.get(&path), 503, "script-memory", &path);
        assert_eq!(client.get("/fine").text(), "\"fine\"", "after {path}");
    }
}

#[test]
fn what_goes_wrong_in_a_script_is_its_own_affair() {
    let wrong = [
        "const f = () => f() + 1; return f()",
        "return JSON.parse('['.repeat(1e5))",
        "let a = []; for (let i = 0; i < 1e4; i++) a = [a]; return a",
        "throw null",
        "throw undefined",
        "throw Symbol('x')",
        "throw new Proxy({}, { get() { throw 1 }, getPrototypeOf() { throw 2 } })",
        "throw { get message() { throw 1 }, toString() { throw 2 } }",
        "return Promise.reject(10n)",
        "return () => 1",
        "return 10n",
        "const a = {}; a.a = a; return a",
        "return new Promise(() => {})",
        "return new Response('x', { status: 99 })",
        "return new Response('x', { headers: { 'a b': 'c' } })",
        "return new Response('x', { headers: { a: 'b\\r\\nc: d' } })",
        "Object.prototype.polluted = 1",
        "globalThis.polluted = 1",
        "Array.prototype.push = () => { throw 1 }",
        "null.x",
        "setTimeout(() => { throw 1 }); return new Promise((done) => setTimeout(done, 600000))",
    ];
    let files: Vec<(String, String)> = wrong
        .iter()
        .enumerate()
        .map(|(n, text)| (format!("{n}.js"), format!("export default () => {{ {text} }}")))
        .chain([("fine.js".to_owned(), FINE.to_owned())])
        .collect();
    let routes: Vec<String> = (0..wrong.len())
        .map(|n| format!("{{get: /{n}, script: {{file: {n}.js, cpu: 1s}}}}"))
        .chain(["{get: /fine, script: fine.js}".to_owned()])
        .collect();
    let routes: Vec<&str> = routes.iter().map(String::as_str).collect();
    let files: Vec<(&str, &str)> = files.iter().map(|(n, t)| (n.as_str(), t.as_str())).collect();
    let server = start(&routes, &files);
    let mut client = server.connect();
    for (n, text) in wrong.iter().enumerate() {
        assert_problem(&client.get(&format!("/{n}")), 500, "script-failed", text);
        assert_eq!(client.get("/fine").text(), "[\"clean\",1]", "after {text}");
    }
}

const FINE: &str = "export default () => {
    Promise.reject(new Error('nobody handles this'));
    const a = []; a.push(1);
    return [({}).polluted ?? globalThis.polluted ?? 'clean', a.length] }";

#[test]
fn fetch_reaches_what_the_route_names_and_nothing_else() {
    let named = Upstream::responding("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi");
    let other = Upstream::responding("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nno");
    let text = "export default async (r) => {
        try { return (await fetch(r.query.get('to'))).text() } catch (e) { return `${e}` } }";
    let more = format!(
        "upstreams:\n  named: {{targets: [\"http://{}\"]}}\n  other: {{targets: [\"http://{}\"]}}\n",
        named.addr, other.addr
    );
    let routes = [
        "{get: /a, script: {file: a.js, fetch: named}}",
        "{get: /b, script: {file: a.js, fetch: other}}",
        "{get: /none, script: a.js}",
    ];
    let server = weir(&routes, &[("a.js", text)], &more).start();
    let mut client = server.connect();
    assert_eq!(client.get("/a?to=http://named/x").text(), "\"hi\"");
    for to in [
        "http://other/",
        &format!("http://{}/", other.addr),
        "http://127.0.0.1:1/",
        "http://named.evil/",
        "http://user@other/",
        "http://named:80@other/",
        "https://named/",
        "file:///etc/passwd",
        "http:///x",
        "other",
    ] {
        let response = client.get(&format!("/a?to={to}"));
        assert!(response.text().starts_with("\"TypeError: "), "{to}: {}", response.text());
    }
    assert!(client.get("/none?to=http://named/").text().contains("TypeError"));
    assert_eq!((named.heads().len(), other.heads().len()), (1, 0));
}
