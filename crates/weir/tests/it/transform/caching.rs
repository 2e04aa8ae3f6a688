//! The response cache, through the real binary.

use crate::harness::{
    KEYS, Peer, Response, SECRET, Server, Upstream, Weir, transactions, unix_now,
};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

/// An upstream that answers by the path: its first segment is `Cache-Control`, `=` for spaces.
fn backend() -> (Upstream, Arc<AtomicUsize>) {
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    let upstream = Upstream::start(move |_, peer: &mut Peer| {
        while let Some(_body) = peer.request() {
            let number = count.fetch_add(1, SeqCst);
            let head = peer.last_head();
            let path = head.split(' ').nth(1).unwrap().to_owned();
            if path.contains("slow") {
                std::thread::sleep(Duration::from_millis(400));
            }
            let lower = head.to_ascii_lowercase();
            if path.contains("tagged") && lower.contains("if-none-match: \"t\"") {
                peer.send(
                    "HTTP/1.1 304 Not Modified\r\nETag: \"t\"\r\nCache-Control: max-age=60\r\n\r\n",
                );
                continue;
            }
            let control = path.split('/').nth(1).unwrap().replace('+', " ");
            let tag = if path.contains("tagged") { "ETag: \"t\"\r\n" } else { "" };
            let vary = if path.contains("vary") { "Vary: accept-language\r\n" } else { "" };
            let cookie = if path.contains("cookie") { "Set-Cookie: a=b\r\n" } else { "" };
            let body =
                if path.contains("large") { "x".repeat(5000) } else { format!("answer {number}") };
            let (framing, body) = match path.contains("chunked") {
                true => (
                    "Transfer-Encoding: chunked".to_owned(),
                    format!("{:x}\r\n{body}\r\n0\r\n\r\n", body.len()),
                ),
                false => (format!("Content-Length: {}", body.len()), body),
            };
            peer.send(format!(
                "HTTP/1.1 200 OK\r\n{framing}\r\nContent-Type: text/plain\r\nCache-Control: {control}\r\n{tag}{vary}{cookie}\r\n{body}"
            ));
        }
    });
    (upstream, asked)
}

fn serve(upstream: &Upstream, cache: &str, more: &str) -> Server {
    Weir::new(&format!(
        "listen: [{{addr: \"127.0.0.1:0\"}}]\nworkers: 2\nupstreams: {{up: {{targets: [\"http://{}\"]}}}}\n\
         tracker: {{enabled: true}}\n{more}\
         apis: {{api: {{base: /, cache: {cache}, routes: [{{path: \"/*\", proxy: up}}]}}}}\n",
        upstream.addr
    ))
    .start()
}

fn get(server: &Server, path: &str, headers: &[(&str, &str)]) -> Response {
    server.connect().request("GET", path, headers, "")
}

fn status(response: &Response) -> &str {
    response.header("cache-status").unwrap_or_default()
}

#[test]
fn a_fresh_response_is_served_from_the_cache_and_says_so() {
    let (upstream, asked) = backend();
    let server = serve(&upstream, "true", "");
    for path in ["/max-age=60/a", "/max-age=60/chunked"] {
        let first = get(&server, path, &[]);
        assert_eq!(status(&first), "weir; fwd=uri-miss; stored");
        for _ in 0..8 {
            let again = get(&server, path, &[]);
            assert_eq!(again.text(), first.text());
            assert!(status(&again).starts_with("weir; hit; ttl="), "{}", status(&again));
            assert!(again.header("age").unwrap().parse::<u64>().unwrap() < 60);
            assert_eq!(again.header("content-length"), Some(first.body.len().to_string().as_str()));
        }
    }
    assert_eq!(asked.load(SeqCst), 2);
    assert_eq!(server.metric("weir_cache_requests_total", &["hit"]), 16.0);
    assert_eq!(server.metric("weir_cache_requests_total", &["miss"]), 2.0);
    assert_eq!(server.metric("weir_cache_entries", &[]), 2.0);
    assert_ne!(
        get(&server, "/max-age=60/a?x=1", &[]).text(),
        get(&server, "/max-age=60/a", &[]).text()
    );
    // Backends may put the name and port they were asked by into their answers.
    let mut other = server.connect();
    other.send("GET /max-age=60/a HTTP/1.1\r\nHost: 127.0.0.1:1\r\n\r\n");
    assert_ne!(other.response().text(), get(&server, "/max-age=60/a", &[]).text());
    // Whoever wants another gets another, which is then everybody's.
    let anew = get(&server, "/max-age=60/a", &[("cache-control", "no-cache")]);
    assert_eq!(get(&server, "/max-age=60/a", &[]).text(), anew.text());
}

#[test]
fn what_may_not_be_given_again_is_not() {
    let (upstream, asked) = backend();
    let server = serve(&upstream, "{entry: 1KiB}", "");
    for path in [
        "/no-store/a",
        "/private,+max-age=60/a",
        "/max-age=0/a",
        "/public/a",
        "/max-age=60/cookie",
        "/max-age=60/large",
        "/max-age=60/large-chunked",
    ] {
        let before = asked.load(SeqCst);
        for _ in 0..3 {
            let response = get(&server, path, &[]);
            assert!(!status(&response).contains("hit"), "{path}");
        }
        assert_eq!(asked.load(SeqCst), before + 3, "{path}");
    }
    for headers in [
        [("authorization", "Bearer a")],
        [("cookie", "a=b")],
        [("range", "bytes=0-1")],
        [("cache-control", "no-store")],
    ] {
        let before = asked.load(SeqCst);
        get(&server, "/max-age=60/b", &headers);
        get(&server, "/max-age=60/b", &headers);
        assert_eq!(asked.load(SeqCst), before + 2, "{headers:?}");
    }
    let before = asked.load(SeqCst);
    for _ in 0..2 {
        server.connect().request("POST", "/max-age=60/c", &[], "x");
    }
    assert_eq!(asked.load(SeqCst), before + 2);
    assert_eq!(server.metric("weir_cache_entries", &[]), 6.0, "only that they pass is known");
}

#[test]
fn responses_vary_and_are_revalidated_by_their_tags() {
    let (upstream, asked) = backend();
    let server = serve(&upstream, "true", "");
    let path = "/max-age=60/vary";
    let german = get(&server, path, &[("accept-language", "de")]);
    let english = get(&server, path, &[("accept-language", "en")]);
    assert_ne!(german.text(), english.text());
    assert_eq!(get(&server, path, &[("accept-language", "de")]).text(), german.text());
    assert_eq!(asked.load(SeqCst), 2);

    let path = "/max-age=0/tagged";
    let first = get(&server, path, &[]);
    let again = get(&server, path, &[]);
    assert_eq!((again.status, again.text()), (200, first.text()));
    assert_eq!(status(&again), "weir; hit; fwd=stale; fwd-status=304");
    assert_eq!(server.metric("weir_cache_requests_total", &["revalidated"]), 1.0);
    // The 304 made it fresh for a minute; who has it already is told so by weir.
    let had = get(&server, path, &[("if-none-match", "W/\"t\"")]);
    assert_eq!((had.status, had.body.len()), (304, 0));
    assert!(status(&had).starts_with("weir; hit; ttl="));
    assert_eq!(get(&server, path, &[("if-none-match", "\"u\"")]).text(), first.text());
    assert_eq!(asked.load(SeqCst), 4);
}

#[test]
fn a_change_makes_what_is_stored_worthless() {
    let (upstream, _asked) = backend();
    let server = serve(&upstream, "true", "");
    let first = get(&server, "/max-age=60/a", &[]).text();
    assert_eq!(get(&server, "/max-age=60/a", &[]).text(), first);
    server.connect().request("PUT", "/max-age=60/a", &[], "x");
    assert_ne!(get(&server, "/max-age=60/a", &[]).text(), first);
}

#[test]
fn requests_for_the_same_wait_for_one() {
    let (upstream, asked) = backend();
    let server = serve(&upstream, "true", "");
    let texts: Vec<String> = std::thread::scope(|scope| {
        let ask = || scope.spawn(|| get(&server, "/max-age=60/slow", &[]).text());
        let all: Vec<_> = (0..16).map(|_| ask()).collect();
        all.into_iter().map(|one| one.join().unwrap()).collect()
    });
    assert!(texts.iter().all(|text| *text == texts[0]), "{texts:?}");
    assert_eq!(asked.load(SeqCst), 1);
    assert!(server.metric("weir_cache_waits_total", &[]) > 0.0);
}

#[test]
fn callers_share_a_cached_response_or_have_their_own_as_configured() {
    let more = |hash: &str, other: &str| {
        format!(
            "auth: {{keys: {{api_key: {{header: x-api-key}}}}}}\n\
             consumers: {{a: {{api_keys: [\"{hash}\"]}}, b: {{api_keys: [\"{other}\"]}}}}\n"
        )
    };
    let keys = more(&crate::harness::key_hash("one"), &crate::harness::key_hash("two"));
    let (one, two) = ([("x-api-key", "one")], [("x-api-key", "two")]);
    for (cache, hits, shared) in [
        ("true", false, false),
        ("{credentials: shared}", true, true),
        ("{credentials: each}", true, false),
    ] {
        let (upstream, _asked) = backend();
        let server = serve(&upstream, &format!("{cache}, auth: keys"), &keys);
        let ask = |who: &[(&str, &str)]| get(&server, "/max-age=60/a", who);
        let first = ask(&one).text();
        assert_eq!(ask(&one).text() == first, hits, "{cache}");
        assert_eq!(ask(&two).text() == first, shared, "{cache}");
        assert_eq!(ask(&[]).status, 401, "who is not let in is not given anything");
    }
}

#[test]
fn the_same_subject_of_another_issuer_has_responses_of_its_own() {
    let auth = "auth: {idp: {jwt: {algorithms: HS256, key: \"file:HS256\", issuer: [a, b]}}}\n";
    let (upstream, _asked) = backend();
    let server = Weir::new(&format!(
        "listen: [\"127.0.0.1:0\"]\nworkers: 1\nupstreams: {{up: {{targets: [\"http://{}\"]}}}}\n{auth}\
         apis: {{api: {{base: /, cache: {{credentials: each}}, auth: idp, routes: [{{path: \"/*\", proxy: up}}]}}}}\n",
        upstream.addr
    ))
    .file("HS256", SECRET)
    .start();
    let ask = |claims: Value| {
        let mut claims = claims;
        claims["exp"] = (unix_now() + 600).into();
        claims["sub"] = "42".into();
        let token = format!("Bearer {}", KEYS.token("HS256", &claims));
        let response = get(&server, "/max-age=60/a", &[("authorization", &token)]);
        assert_eq!(response.status, 200, "{}", response.text());
        response.text()
    };
    let first = ask(json!({"iss": "a"}));
    assert_eq!(ask(json!({"iss": "a", "iat": 1, "jti": "another token"})), first);
    for other in [
        json!({"iss": "b"}),
        json!({"iss": "a", "scope": "admin"}),
        json!({"iss": "a", "aud": "orders"}),
        json!({"iss": "a", "tenant": 7}),
    ] {
        assert_ne!(ask(other.clone()), first, "{other}");
    }
}

#[test]
fn memory_is_bounded_and_what_goes_is_counted() {
    let (upstream, _asked) = backend();
    let server = serve(&upstream, "{memory: 100KiB}", "");
    let mut client = server.connect();
    for number in 0..200 {
        client.get(&format!("/max-age=60/large/{number}"));
    }
    assert!(server.metric("weir_cache_bytes", &[]) <= 102_400.0);
    let (entries, gone) = (
        server.metric("weir_cache_entries", &[]),
        server.metric("weir_cache_evictions_total", &[]),
    );
    assert_eq!(entries + gone, 200.0);
}

#[test]
fn the_record_and_explain_tell_of_it() {
    let (upstream, asked) = backend();
    let mut server = serve(&upstream, "{ttl: 60s}", "");
    get(&server, "/public/a", &[]);
    let hit = get(&server, "/public/a", &[]);
    assert!(status(&hit).contains("hit"), "`ttl` is for answers that say nothing");
    let said = crate::harness::weir(server.dir(), &["explain", "GET", "/public/a", "weir.yaml"]);
    let text = String::from_utf8_lossy(&said.stdout).into_owned();
    assert!(text.contains("a live request may get a cached response"), "{text}");
    assert_eq!(asked.load(SeqCst), 1);
    server.kill();
    let all = transactions(&server.data());
    let head = String::from_utf8_lossy(&all[1].response_head).into_owned();
    assert!(head.contains("cache-status: weir; hit; ttl="), "{head}");
}
