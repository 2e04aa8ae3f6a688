//! Which file answers, with which headers, and when the client has it already.

use super::{put, serve, start};
use crate::harness::{Server, weir};
use serde_json::json;

const ALL: &str = "{get: \"/*\", files: public}";

fn site() -> Server {
    serve(
        ALL,
        &[
            ("index.html", b"<p>home"),
            ("robots.txt", b"User-agent: *"),
            ("app.js", b"let a"),
            ("data.json", b"{}"),
            ("none", b"?"),
            ("empty.css", b""),
            ("docs/index.html", b"<p>docs"),
            ("docs/a b.txt", b"blank"),
            ("d\u{e4}.txt", "ä".as_bytes()),
            ("bare/file.txt", b"x"),
        ],
    )
}

#[test]
fn a_path_leads_to_its_file() {
    let server = site();
    let mut client = server.connect();
    for (path, content_type, body) in [
        ("/", "text/html; charset=utf-8", "<p>home"),
        ("/index.html", "text/html; charset=utf-8", "<p>home"),
        ("/robots.txt", "text/plain; charset=utf-8", "User-agent: *"),
        ("/robots.txt?version=2", "text/plain; charset=utf-8", "User-agent: *"),
        ("/app.js", "text/javascript; charset=utf-8", "let a"),
        ("/data.json", "application/json", "{}"),
        ("/none", "application/octet-stream", "?"),
        ("/empty.css", "text/css; charset=utf-8", ""),
        ("/docs/", "text/html; charset=utf-8", "<p>docs"),
        ("/docs/a%20b.txt", "text/plain; charset=utf-8", "blank"),
        ("/docs/../robots.txt", "text/plain; charset=utf-8", "User-agent: *"),
        ("/d%C3%A4.txt", "text/plain; charset=utf-8", "ä"),
        ("/%72obots.txt", "text/plain; charset=utf-8", "User-agent: *"),
    ] {
        let response = client.get(path);
        assert_eq!((response.status, response.text().as_str()), (200, body), "{path}");
        assert_eq!(response.header("content-type"), Some(content_type), "{path}");
        assert_eq!(response.header("content-length"), Some(&*body.len().to_string()), "{path}");
        assert_eq!(response.header("accept-ranges"), Some("bytes"), "{path}");
        assert_eq!(response.header("cache-control"), None, "{path}");
        assert_eq!(response.header("vary"), None, "{path}");
        for told in ["etag", "last-modified", "date", "weir-transaction-id"] {
            assert!(response.header(told).is_some(), "{told} of {path}");
        }
        let head = client.request("HEAD", path, &[], "");
        let of = |name: &str| (response.header(name), head.header(name));
        for name in ["content-type", "content-length", "etag", "last-modified", "accept-ranges"] {
            let (get, head) = of(name);
            assert_eq!(get, head, "{name} of {path}");
        }
        assert_eq!((head.status, head.body.len()), (200, 0), "{path}");
    }
}

#[test]
fn a_path_that_leads_to_none_is_a_404() {
    let server = site();
    let mut client = server.connect();
    for path in [
        "/nothing",
        "/robots.txt/",
        "/robots.txt/x",
        "/bare/",
        "/bare",
        "/ROBOTS.TXT",
        "/docs/index.html/",
        "/index.htm",
    ] {
        let response = client.get(path);
        assert_eq!(response.status, 404, "{path}");
        assert_eq!(response.json()["type"], "urn:weir:problem:no-file", "{path}");
    }
    let long = format!("/{}", "a".repeat(300));
    assert_eq!(client.get(&long).status, 404);
}

#[test]
fn a_folder_is_left_for_its_own_path_and_other_methods_are_refused() {
    let server = site();
    let mut client = server.connect();
    for (path, location) in [("/docs", "/docs/"), ("/docs?a=1&b", "/docs/?a=1&b")] {
        let response = client.get(path);
        assert_eq!((response.status, response.header("location")), (301, Some(location)));
        assert_eq!(response.body.len(), 0);
    }
    for method in ["POST", "PUT", "DELETE", "PATCH"] {
        let response = client.request(method, "/robots.txt", &[], "");
        assert_eq!(response.status, 405, "{method}");
        assert_eq!(response.header("allow"), Some("GET, HEAD, OPTIONS"));
    }
    let response = client.request("OPTIONS", "/robots.txt", &[], "");
    assert_eq!((response.status, response.header("allow")), (204, Some("GET, HEAD, OPTIONS")));
}

#[test]
fn conditions_are_held_against_the_file() {
    let server = site();
    let mut client = server.connect();
    let first = client.get("/robots.txt");
    let tag = first.header("etag").unwrap().to_owned();
    let date = first.header("last-modified").unwrap().to_owned();
    assert!(tag.starts_with('"') && tag.ends_with('"'), "{tag}");
    let weak = format!("W/{tag}");
    let early = "Sun, 06 Nov 1994 08:49:37 GMT";
    for (name, value, status) in [
        ("if-none-match", tag.as_str(), 304),
        ("if-none-match", &weak, 304),
        ("If-None-Match", "*", 304),
        ("if-none-match", "\"x\"", 200),
        ("if-modified-since", &date, 304),
        ("if-modified-since", early, 200),
        ("if-match", &tag, 200),
        ("if-match", "*", 200),
        ("if-match", &weak, 412),
        ("if-match", "\"x\"", 412),
        ("if-unmodified-since", &date, 200),
        ("if-unmodified-since", early, 412),
    ] {
        for method in ["GET", "HEAD"] {
            let response = client.request(method, "/robots.txt", &[(name, value)], "");
            assert_eq!(response.status, status, "{method} {name}: {value}");
            if status == 304 {
                assert_eq!(response.header("etag"), Some(tag.as_str()));
                assert_eq!(response.header("last-modified"), Some(date.as_str()));
                assert_eq!(response.header("content-type"), None);
                assert_eq!(response.body.len(), 0);
            }
        }
    }
    let problem = client.request("GET", "/robots.txt", &[("if-match", "\"x\"")], "");
    assert_eq!(problem.json()["type"], "urn:weir:problem:precondition-failed");
    put(&super::public(&server), "fresh.txt", b"x");
    std::fs::write(super::public(&server).join("fresh.txt"), "now").unwrap();
    let fresh = client.get("/fresh.txt");
    // Unless a whole second has passed since, it may change again and have the same time.
    let tag = fresh.header("etag").unwrap();
    assert!(
        tag.starts_with("W/\"") || fresh.header("date") > fresh.header("last-modified"),
        "{tag}"
    );
}

#[test]
fn what_is_said_of_files_is_told() {
    let server = start(
        "",
        &[
            "{get: /only.txt, files: public/robots.txt}",
            "{get: \"/old/*\", files: {root: public, index: [none.html, start.htm], cache_control: \"public, max-age=60\", types: {txt: text/x-own, '1': application/x-one}}}",
            "{get: \"/bare/*\", files: {root: public, index: none}}",
        ],
        &[("robots.txt", b"r"), ("start.htm", b"s"), ("a.1", b"1"), ("index.html", b"i")],
    );
    let mut client = server.connect();
    assert_eq!(client.get("/only.txt").text(), "r");
    let own = client.get("/old/robots.txt");
    assert_eq!(own.header("content-type"), Some("text/x-own"));
    assert_eq!(own.header("cache-control"), Some("public, max-age=60"));
    assert_eq!(client.get("/old/a.1").header("content-type"), Some("application/x-one"));
    for _ in 0..2 {
        let bare = client.get("/old?a");
        assert_eq!((bare.status, bare.header("location")), (301, Some("/old/?a")));
        assert_eq!(client.get("/old/").text(), "s");
    }
    assert_eq!(client.get("/bare/").status, 404);
    assert_eq!(client.get("/bare/index.html").text(), "i");
    let routes = weir(server.dir(), &["routes"]);
    let told = String::from_utf8_lossy(&routes.stdout).into_owned();
    assert!(told.contains("robots.txt") && told.contains("files "), "{told}");
}

#[test]
fn the_fallback_responds_for_pages_and_not_for_their_parts() {
    let server = serve(
        "{get: \"/*\", files: {root: public, fallback: index.html, cache_control: \"max-age=9\"}}",
        &[("index.html", b"app"), ("app.js", b"js"), ("docs/readme.txt", b"r")],
    );
    let mut client = server.connect();
    for path in ["/users/7", "/users/jane.doe", "/docs", "/docs/", "/old.html", "/.git/x"] {
        let response = client.get(path);
        assert_eq!((response.status, response.text().as_str()), (200, "app"), "{path}");
        assert_eq!(response.header("content-type"), Some("text/html; charset=utf-8"));
        assert_eq!(response.header("cache-control"), Some("no-cache"));
    }
    for path in ["/missing.js", "/users/face.png"] {
        assert_eq!(client.get(path).status, 404, "{path}");
    }
    assert_eq!(client.get("/app.js").header("cache-control"), Some("max-age=9"));
    assert_eq!(client.get("/index.html").header("cache-control"), Some("max-age=9"));
}

/// Stages behind the handler see its answer as any other.
#[test]
fn maps_and_headers_apply_to_files() {
    let server = serve(
        "{get: \"/*\", files: public, response: {map: {b: \"$.a\"}, headers: {set: {x-own: \"1\"}}}}",
        &[("a.json", br#"{"a": 1, "c": 2}"#), ("a.json.gz", b"no gzip"), ("a.txt", b"text")],
    );
    let mut client = server.connect();
    let headers = [("accept-encoding", "gzip"), ("range", "bytes=0-1"), ("if-none-match", "*")];
    let response = client.request("GET", "/a.json", &headers, "");
    assert_eq!((response.status, response.json()), (200, json!({"b": 1})));
    assert_eq!((response.header("etag"), response.header("x-own")), (None, Some("1")));
    let text = client.request("GET", "/a.txt", &headers[1..2], "");
    assert_eq!((text.status, text.text().as_str()), (206, "te"));
}
