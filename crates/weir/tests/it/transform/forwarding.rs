//! What upstreams are told, and what of their answers clients see.

use super::seen;
use crate::harness::{self, Server, Upstream, Weir};
use serde_json::Value;

/// A network that nothing here is in.
const NOBODY: &str = "192.0.2.0/24";

/// Every proxy mode, in front of this upstream.
fn server(upstream: std::net::SocketAddr, trust: &str) -> Server {
    Weir::new(&format!(
        "listen: [{{addr: \"127.0.0.1:0\", trust: [{trust}]}}]\nworkers: 1\n\
         upstreams:\n  up: {{targets: [\"http://{upstream}\"]}}\n  \
         bearer: {{targets: [\"http://{upstream}\"], auth: {{bearer: geheim}}}}\n  \
         basic: {{targets: [\"http://{upstream}\"], auth: {{basic: {{user: weir, password: pass}}}}}}\n  \
         header: {{targets: [\"http://{upstream}\"], auth: {{header: {{name: x-key, value: geheim}}}}}}\n\
         apis:\n  api:\n    base: /v1\n    path_normalization: {{escaped_slashes: keep, empty_segments: keep}}\n    request: {{headers: {{set: {{x-api: a}}, remove: [x-secret]}}}}\n    \
         response: {{headers: {{set: {{x-answer: a}}, remove: [content-type]}}}}\n    routes:\n      \
         - {{get: /headers, proxy: {{upstream: up, path: strip-base}}}}\n      \
         - {{get: \"/x/{{id}}/*\", proxy: {{upstream: up, path: \"/t/{{id}}/{{*}}\", query: drop}}}}\n      \
         - {{get: /edit, proxy: {{upstream: up, query: {{set: {{a: \"1 2\"}}, remove: [b]}}}}}}\n      \
         - {{get: /keep/*, proxy: up}}\n      \
         - {{get: /client, proxy: {{upstream: up, host: client}}}}\n      \
         - {{get: /fixed, proxy: {{upstream: up, host: \"inner:81\"}}}}\n      \
         - {{get: /set, proxy: {{upstream: up, path: /headers, headers: {{set: {{x-hop: 1, x-api: b}}, remove: [accept]}}}}}}\n      \
         - {{get: /bearer, proxy: {{upstream: bearer, path: /headers}}}}\n      \
         - {{get: /basic, proxy: {{upstream: basic, path: /headers}}}}\n      \
         - {{get: /header, proxy: {{upstream: header, path: /headers}}}}\n"
    ))
    .start()
}

fn told(server: &Server, path: &str, headers: &[(&str, &str)]) -> Value {
    let response = server.connect().request("GET", path, headers, "");
    assert_eq!(response.status, 200, "{}", response.text());
    response.json()
}

/// The request line and the Host that an upstream gets for a request.
fn asked(server: &Server, upstream: &Upstream, target: &str) -> (String, String) {
    let mut client = server.connect();
    client.send(format!("GET {target} HTTP/1.1\r\nHost: Example.com:80\r\n\r\n"));
    let mut peer = upstream.accept();
    let head = peer.head().unwrap();
    peer.send("HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n");
    assert_eq!(client.response().status, 204);
    let host = head.lines().find_map(|line| line.strip_prefix("host: ")).expect("a Host");
    (head.lines().next().unwrap().to_owned(), host.to_owned())
}

#[test]
fn paths_queries_and_hosts_are_made_as_said() {
    let upstream = Upstream::by_hand();
    let server = server(upstream.addr, NOBODY);
    let own = upstream.addr.to_string();
    for (target, line, host) in [
        ("/v1/headers?a=1", "GET /headers?a=1 HTTP/1.1", own.as_str()),
        ("/v1/x/4%2F2/a/b%20c/?q=1", "GET /t/4%2F2/a/b%20c/ HTTP/1.1", &own),
        ("/v1/edit?b=1&c=%20&a=0&B=2", "GET /v1/edit?c=%20&B=2&a=1%202 HTTP/1.1", &own),
        ("/v1/keep/a//b?x=%zz", "GET /v1/keep/a//b?x=%zz HTTP/1.1", &own),
        ("/v1/keep/a/./c/../b/%7e", "GET /v1/keep/a/b/~ HTTP/1.1", &own),
        ("/v1/client", "GET /v1/client HTTP/1.1", "Example.com:80"),
        ("/v1/fixed", "GET /v1/fixed HTTP/1.1", "inner:81"),
    ] {
        assert_eq!(
            asked(&server, &upstream, target),
            (line.to_owned(), host.to_owned()),
            "{target}"
        );
    }
}

#[test]
fn an_upstream_is_told_the_way_so_far() {
    let echo = harness::echo(&[]);
    let server = server(echo.listen[0], NOBODY);
    // All of this is made up by a client that nobody trusts.
    let spoofed = [
        ("x-forwarded-for", "1.2.3.4"),
        ("x-forwarded-proto", "https"),
        ("X-Forwarded-Host", "bank.example"),
        ("x-forwarded-prefix", "/admin"),
        ("forwarded", "for=1.2.3.4;host=bank.example"),
        ("weir-consumer", "acme"),
        ("Weir-Transaction-Id", "1"),
    ];
    let told = told(&server, "/v1/headers", &spoofed);
    for (name, expected) in [
        ("x-forwarded-for", "127.0.0.1"),
        ("x-forwarded-proto", "http"),
        ("x-forwarded-host", "localhost"),
        ("forwarded", "for=127.0.0.1;host=localhost;proto=http"),
        ("via", "1.1 weir"),
    ] {
        assert_eq!(seen(&told, name), [expected], "{name} in {told}");
    }
    assert!(seen(&told, "x-forwarded-prefix").is_empty(), "{told}");
    assert!(seen(&told, "weir-consumer").is_empty(), "{told}");
    assert_eq!(seen(&told, "weir-transaction-id")[0].len(), 36, "{told}");
}

const SAID: [(&str, &str); 7] = [
    ("x-forwarded-for", "1.2.3.4"),
    ("x-forwarded-proto", "https"),
    ("x-forwarded-host", "shop.example"),
    ("x-forwarded-prefix", "/admin"),
    ("forwarded", "for=1.2.3.4"),
    ("via", "1.1 front"),
    ("weir-consumer", "acme"),
];

/// A proxy that sets some headers passes the others on as its clients write them.
#[test]
fn of_a_trusted_peer_only_listed_headers_are_believed() {
    let echo = harness::echo(&[]);
    for (listed, host, prefix) in [
        ("", "localhost", None),
        (", trust_headers: [x-forwarded-for, x-forwarded-proto]", "localhost", None),
        (
            ", trust_headers: [x-forwarded-for, x-forwarded-host, x-forwarded-proto]",
            "shop.example",
            None,
        ),
        (
            ", trust_headers: [x-forwarded-for, x-forwarded-proto, x-forwarded-prefix]",
            "localhost",
            Some("/admin"),
        ),
    ] {
        let trust = format!("127.0.0.0/8]{listed}");
        // The list that is last is closed by the configuration around it.
        let server = server(echo.listen[0], trust.trim_end_matches(']'));
        let told = told(&server, "/v1/headers", &SAID);
        assert_eq!(seen(&told, "x-forwarded-for"), ["1.2.3.4, 127.0.0.1"], "{listed}: {told}");
        assert_eq!(seen(&told, "x-forwarded-proto"), ["https"], "{listed}: {told}");
        assert_eq!(seen(&told, "x-forwarded-host"), [host], "{listed}: {told}");
        let prefix: Vec<&str> = prefix.into_iter().collect();
        assert_eq!(seen(&told, "x-forwarded-prefix"), prefix, "{listed}: {told}");
        assert!(seen(&told, "weir-consumer").is_empty(), "{listed}: {told}");
    }
    // `Forwarded` has a host, too, which is believed like that of `X-Forwarded-Host`.
    let said = [("forwarded", "for=1.2.3.4;host=shop.example;proto=https")];
    for (listed, host) in
        [("forwarded", "localhost"), ("forwarded, x-forwarded-host", "shop.example")]
    {
        let server = server(echo.listen[0], &format!("127.0.0.0/8], trust_headers: [{listed}"));
        let told = told(&server, "/v1/headers", &said);
        assert_eq!(seen(&told, "x-forwarded-host"), [host], "{listed}: {told}");
        assert_eq!(seen(&told, "x-forwarded-proto"), ["https"], "{listed}: {told}");
    }
}

/// To many programs `X_Secret` is `X-Secret`, to PHP `X.Secret` too, and `X_Forwarded_For` what a proxy
/// says.
#[test]
fn headers_with_an_underscore_reach_no_upstream_unless_they_are_listed() {
    let echo = harness::echo(&[]);
    let sent = [
        ("X_Secret", "1"),
        ("X.Secret", "1"),
        ("x-other", "1"),
        ("X_Forwarded_For", "1.2.3.4"),
        ("weir_mirrored", "1"),
        ("x-secret", "1"),
    ];
    for (listed, passed) in [
        ("", &[][..]),
        (", underscores_in_headers: x_secret", &["x_secret"]),
        (
            ", underscores_in_headers: [\"*\"]",
            &["x_secret", "x.secret", "x_forwarded_for", "weir_mirrored"],
        ),
    ] {
        let server = server(echo.listen[0], NOBODY);
        let config = std::fs::read_to_string(server.dir().join("weir.yaml")).unwrap();
        let target = format!("up: {{targets: [\"http://{}\"]", echo.listen[0]);
        let server = Weir::new(&config.replace(&target, &format!("{target}{listed}"))).start();
        let told = told(&server, "/v1/headers", &sent);
        for name in ["x_secret", "x.secret", "x_forwarded_for", "weir_mirrored"] {
            let expected: &[&str] = match (passed.contains(&name), name) {
                (false, _) => &[],
                (true, "x_forwarded_for") => &["1.2.3.4"],
                (true, _) => &["1"],
            };
            assert_eq!(seen(&told, name), expected, "{name} with `{listed}`: {told}");
        }
        assert_eq!(seen(&told, "x-other"), ["1"], "{told}");
        assert!(seen(&told, "x-secret").is_empty(), "{told}");
        let dropped = server.metric("weir_headers_dropped_total", &[]);
        assert_eq!(dropped, (4 - passed.len()) as f64, "`{listed}`");
    }
}

#[test]
fn what_a_trusted_peer_says_is_appended_to() {
    let echo = harness::echo(&[]);
    let trust = "127.0.0.0/8], trust_headers: [forwarded, x-forwarded-*, weir-*";
    let server = server(echo.listen[0], trust);
    let told = told(&server, "/v1/headers", &SAID);
    for (name, expected) in [
        ("x-forwarded-for", "1.2.3.4, 127.0.0.1"),
        ("x-forwarded-proto", "https"),
        ("x-forwarded-host", "shop.example"),
        ("forwarded", "for=1.2.3.4, for=127.0.0.1;host=shop.example;proto=https"),
        ("via", "1.1 front, 1.1 weir"),
        ("weir-consumer", "acme"),
    ] {
        assert_eq!(seen(&told, name), [expected], "{name} in {told}");
    }
}

#[test]
fn a_trace_goes_on_or_begins() {
    let echo = harness::echo(&[]);
    let server = server(echo.listen[0], NOBODY);
    let parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00";
    let headers = [("traceparent", parent), ("tracestate", "a=1")];
    let told_it = told(&server, "/v1/headers", &headers);
    assert_eq!(seen(&told_it, "traceparent"), [parent]);
    assert_eq!(seen(&told_it, "tracestate"), ["a=1"]);
    for invalid in ["", "00-00000000000000000000000000000000-b7ad6b7169203331-01", "garbage"] {
        let headers = [("traceparent", invalid), ("tracestate", "a=1")];
        let told = told(&server, "/v1/headers", &headers);
        let begun = seen(&told, "traceparent");
        assert_eq!((begun.len(), begun[0].len()), (1, 55), "{told}");
        assert!(begun[0] != invalid && begun[0].ends_with("-01"), "{told}");
        assert!(seen(&told, "tracestate").is_empty(), "{told}");
    }
}

#[test]
fn what_concerns_one_connection_goes_no_further() {
    let upstream = Upstream::by_hand();
    let server = server(upstream.addr, NOBODY);
    let mut client = server.connect();
    client.send(
        "GET /v1/keep/x HTTP/1.1\r\nHost: h\r\nConnection: keep-alive, X-Mine\r\nX-Mine: 1\r\n\
         Keep-Alive: timeout=5\r\nProxy-Authorization: Basic eA==\r\nTE: trailers\r\n\
         Upgrade: websocket\r\nProxy-Connection: keep-alive\r\nX-Kept: 1\r\n\r\n",
    );
    let mut peer = upstream.accept();
    let head = peer.head().unwrap().to_ascii_lowercase();
    for gone in
        ["connection:", "x-mine:", "keep-alive:", "proxy-", "te:", "upgrade:", "transfer-encoding:"]
    {
        assert!(!head.lines().any(|line| line.starts_with(gone)), "{gone} in {head}");
    }
    assert!(head.contains("x-kept: 1"), "{head}");
    peer.send(
        "HTTP/1.1 200 OK\r\nConnection: X-Theirs\r\nX-Theirs: 1\r\nKeep-Alive: timeout=5\r\n\
         Proxy-Authenticate: Basic\r\nUpgrade: h2c\r\nX-Kept: 1\r\nContent-Length: 2\r\n\r\nok",
    );
    let response = client.response();
    for gone in ["connection", "x-theirs", "keep-alive", "proxy-authenticate", "upgrade"] {
        assert_eq!(response.header(gone), None, "{gone}");
    }
    assert_eq!((response.header("x-kept"), response.text().as_str()), (Some("1"), "ok"));
}

#[test]
fn the_length_that_head_tells_is_the_upstream_s_or_none() {
    let upstream = Upstream::by_hand();
    let server = server(upstream.addr, NOBODY);
    for (said, told) in [("Content-Length: 5", Some("5")), ("Transfer-Encoding: chunked", None)] {
        let mut client = server.connect();
        client.send("HEAD /v1/keep/x HTTP/1.1\r\nHost: h\r\n\r\n");
        let mut peer = upstream.accept();
        peer.head();
        peer.send(format!("HTTP/1.1 200 OK\r\n{said}\r\nConnection: close\r\n\r\n"));
        let response = client.response_to_head();
        assert_eq!((response.status, response.header("content-length")), (200, told), "{said}");
    }
}

#[test]
fn header_edits_remove_first_and_the_inner_ones_win() {
    let echo = harness::echo(&[]);
    let server = server(echo.listen[0], NOBODY);
    let sent = [("x-secret", "1"), ("x-api", "client"), ("accept", "*/*"), ("x-other", "1")];
    let told = told(&server, "/v1/set", &sent);
    assert_eq!(seen(&told, "x-api"), ["b"]);
    assert_eq!(seen(&told, "x-hop"), ["1"]);
    assert_eq!(seen(&told, "x-other"), ["1"]);
    for gone in ["x-secret", "accept"] {
        assert!(seen(&told, gone).is_empty(), "{gone} in {told}");
    }
    let response = server.connect().get("/v1/set");
    assert_eq!(response.header("x-answer"), Some("a"));
    assert_eq!(response.header("content-type"), None);
}

#[test]
fn weir_presents_its_own_credential_instead_of_the_client_s() {
    let echo = harness::echo(&[]);
    let server = server(echo.listen[0], NOBODY);
    let sent = [("authorization", "Bearer of-the-client"), ("x-key", "of-the-client")];
    for (path, name, expected) in [
        ("/v1/bearer", "authorization", "Bearer geheim"),
        ("/v1/basic", "authorization", "Basic d2VpcjpwYXNz"),
        ("/v1/header", "x-key", "geheim"),
        ("/v1/header", "authorization", "Bearer of-the-client"),
    ] {
        assert_eq!(seen(&told(&server, path, &sent), name), [expected], "{path}");
    }
}
