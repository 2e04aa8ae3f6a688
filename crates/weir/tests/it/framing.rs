//! Where one request ends and the next begins, over raw sockets.

use crate::harness::{self, Client, Response, Server, Upstream, Weir};
use crate::hostile::{self, SMUGGLED};
use std::time::Duration;

const CONFIG: &str = r#"
listen: [{addr: "127.0.0.1:0"}]
workers: 1
limits: {header_bytes: 4KiB, headers: 20, url: 1KiB, body: 32KiB, header_time: 1s, idle: 2s}
upstreams:
  echo: {targets: ["http://ECHO"]}
apis:
  hosted:
    base: /
    routes:
      - {path: "/x", reply: {text: hello}}
      - {path: /smuggled, reply: {text: smuggled}}
      - {get: /empty, reply: {status: 204}}
      - {get: /not-modified, reply: {status: 304}}
  fronted:
    base: /echo
    routes: [{path: "/*", proxy: echo}]
"#;

/// weir and its echo backend.
struct Pair {
    weir: Server,
    _echo: Server,
}

fn pair() -> Pair {
    let echo = harness::echo(&[]);
    let weir = Weir::new(&CONFIG.replace("ECHO", &echo.listen[0].to_string())).start();
    Pair { weir, _echo: echo }
}

/// weir in front of a scripted upstream, with the same settings.
fn before(upstream: &Upstream) -> Server {
    Weir::new(&CONFIG.replace("ECHO", &upstream.addr.to_string())).start()
}

fn assert_problem(response: &Response, status: u16, slug: &str, context: &str) {
    assert_eq!(response.status, status, "{context}: {}", response.text());
    assert_eq!(response.header("content-type"), Some("application/problem+json"), "{context}");
    let document = response.json();
    assert_eq!(document["type"], format!("urn:weir:problem:{slug}"), "{context}");
    assert_eq!(document["status"], status, "{context}");
    assert!(document["title"].is_string(), "{context}");
}

fn assert_refused(client: &mut Client, status: u16, slug: &str, context: &str) {
    let response = client.response();
    assert_problem(&response, status, slug, context);
    assert_eq!(response.header("connection"), Some("close"), "{context}");
    assert!(client.is_closed(), "{context}: something comes after the refusal");
}

#[test]
fn hostile_heads_are_refused_and_the_connection_closed() {
    let pair = pair();
    for case in hostile::HEADS {
        let mut client = pair.weir.connect();
        client.send(case.bytes.to_owned() + SMUGGLED);
        assert_refused(&mut client, 400, "bad-request", case.name);
    }
}

#[test]
fn hostile_heads_are_refused_byte_by_byte_too() {
    let pair = pair();
    for case in hostile::HEADS {
        let mut client = pair.weir.connect();
        for byte in case.bytes.as_bytes().chunks(1) {
            client.send(byte);
        }
        client.send(SMUGGLED);
        assert_refused(&mut client, 400, "bad-request", case.name);
    }
}

#[test]
fn a_hostile_request_behind_a_good_one_is_refused_after_its_response() {
    let pair = pair();
    for case in hostile::HEADS {
        let mut client = pair.weir.connect();
        client.send(format!("GET /x HTTP/1.1\r\nHost: a\r\n\r\n{}{SMUGGLED}", case.bytes));
        assert_eq!(client.response().text(), "hello", "{}", case.name);
        assert_refused(&mut client, 400, "bad-request", case.name);
    }
}

#[test]
fn hostile_chunks_are_refused_by_replies_and_proxies_alike() {
    let pair = pair();
    for case in hostile::BODIES {
        for path in ["/x", "/echo/x"] {
            let context = format!("{} to {path}", case.name);
            let mut client = pair.weir.connect();
            client.send(hostile::chunked(path, case) + SMUGGLED);
            assert_refused(&mut client, 400, "bad-body", &context);
        }
    }
}

#[test]
fn a_fault_late_in_a_body_never_lets_the_rest_be_read_as_a_request() {
    let pair = pair();
    for case in hostile::BODIES {
        for path in ["/x", "/echo/x"] {
            let mut client = pair.weir.connect();
            let (head, body) = (hostile::chunked(path, case), SMUGGLED);
            // The head has been read, and perhaps answered, before the fault comes.
            let split = head.find("\r\n\r\n").unwrap() + 4;
            client.send(&head[..split]);
            std::thread::sleep(Duration::from_millis(20));
            client.send(head[split..].to_owned() + body);
            let all = String::from_utf8_lossy(&client.rest()).into_owned();
            assert!(all.matches("HTTP/1.1 ").count() <= 1, "{} to {path}: {all}", case.name);
            assert!(!all.contains("smuggled"), "{} to {path}: {all}", case.name);
        }
    }
}

#[test]
fn what_is_over_a_limit_is_refused_with_its_own_status() {
    let pair = pair();
    let long_url = format!("GET /{} HTTP/1.1\r\nHost: a\r\n\r\n", "a".repeat(1100));
    let endless_url = format!("GET /{}", "a".repeat(8000));
    let long_field = format!("GET /x HTTP/1.1\r\nHost: a\r\nA: {}\r\n\r\n", "a".repeat(5000));
    let endless_field = format!("GET /x HTTP/1.1\r\nHost: a\r\nA: {}", "a".repeat(5000));
    let many_fields = format!("GET /x HTTP/1.1\r\nHost: a\r\n{}\r\n", "A: b\r\n".repeat(30));
    for (request, status, slug) in [
        (long_url, 414, "url-too-long"),
        (endless_url, 414, "url-too-long"),
        (long_field, 431, "headers-too-large"),
        (endless_field, 431, "headers-too-large"),
        (many_fields, 431, "headers-too-large"),
    ] {
        let mut client = pair.weir.connect();
        client.send(&request);
        assert_refused(&mut client, status, slug, &request[..30]);
    }
    for path in ["/x", "/echo/x"] {
        let mut client = pair.weir.connect();
        client
            .send(format!("POST {path} HTTP/1.1\r\nHost: a\r\nContent-Length: 40000000\r\n\r\nab"));
        assert_refused(&mut client, 413, "body-too-large", path);
        let mut client = pair.weir.connect();
        client
            .send(format!("POST {path} HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"));
        for _ in 0..20 {
            client.send(format!("1000\r\n{}\r\n", "a".repeat(0x1000)));
        }
        if path == "/echo/x" {
            assert_refused(&mut client, 413, "body-too-large", "chunked");
        }
    }
}

#[test]
fn limits_are_no_lower_than_they_say() {
    let pair = pair();
    let mut client = pair.weir.connect();
    let path = format!("/x?{}", "a".repeat(1024 - 3));
    assert_eq!(client.get(&path).status, 200);
    client.send(format!("GET /x HTTP/1.1\r\nHost: a\r\n{}\r\n", "A: b\r\n".repeat(19)));
    assert_eq!(client.response().status, 200);
    let body = "b".repeat(32 * 1024);
    assert_eq!(client.request("POST", "/echo/x", &[], &body).text(), body);
}

#[test]
fn as_many_fields_as_may_be_configured_are_read() {
    let config =
        CONFIG.replace("header_bytes: 4KiB, headers: 20", "header_bytes: 64KiB, headers: 256");
    let weir = Weir::new(&config.replace("ECHO", "127.0.0.1:1")).start();
    let mut client = weir.connect();
    client.send(format!("GET /x HTTP/1.1\r\nHost: a\r\n{}\r\n", "A: b\r\n".repeat(255)));
    assert_eq!(client.response().status, 200);
    client.send(format!("GET /x HTTP/1.1\r\nHost: a\r\n{}\r\n", "A: b\r\n".repeat(256)));
    assert_refused(&mut client, 431, "headers-too-large", "one more");
}

#[test]
fn http_1_0_is_kept_alive_as_ab_asks() {
    let pair = pair();
    for path in ["/x", "/echo/x"] {
        let mut client = pair.weir.connect();
        for _ in 0..3 {
            client.send(format!(
                "GET {path} HTTP/1.0\r\nConnection: Keep-Alive\r\nHost: localhost\r\n\
                 User-Agent: ApacheBench/2.3\r\nAccept: */*\r\n\r\n"
            ));
            let response = client.response();
            assert_eq!(response.status, 200);
            assert_eq!(response.header("connection"), Some("keep-alive"), "{path}");
            assert!(response.header("content-length").is_some(), "{path}");
        }
        client.send(format!("GET {path} HTTP/1.0\r\n\r\n"));
        assert_eq!(client.response().header("connection"), Some("close"));
        assert!(client.is_closed());
    }
}

#[test]
fn an_old_client_gets_a_chunked_response_unchunked() {
    let upstream = Upstream::responding(
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
    );
    let weir = before(&upstream);
    let mut client = weir.connect();
    client.send("GET /echo/x HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    let response = client.response();
    assert_eq!(response.header("transfer-encoding"), None);
    assert_eq!(response.header("connection"), Some("close"));
    assert_eq!(response.text(), "hello");
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    let pair = pair();
    let mut client = pair.weir.connect();
    client.send(
        "POST /echo/1 HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\none\
         GET /x HTTP/1.1\r\nHost: a\r\n\r\n\
         POST /echo/2 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\ntwo\r\n0\r\nA: b\r\n\r\n\
         POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 35\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n\
         \r\nHEAD /x HTTP/1.1\r\nHost: a\r\n\r\n\
         PUT /echo/3 HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 5\r\n\r\nthree\
         GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n",
    );
    assert_eq!(client.response().text(), "one");
    assert_eq!(client.response().text(), "hello");
    assert_eq!(client.response().text(), "two");
    assert_eq!(client.response().text(), "hello");
    assert_eq!(client.response_to_head().header("content-length"), Some("5"));
    assert_eq!(client.response().text(), "three");
    assert!(client.is_closed());
}

#[test]
fn many_pipelined_requests_in_any_pieces() {
    let pair = pair();
    let mut client = pair.weir.connect();
    let mut all = Vec::new();
    for number in 0..60 {
        let body = format!("body {number}");
        all.extend(
            format!(
                "POST /echo/x HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n{body}",
                body.len()
            )
            .into_bytes(),
        );
        all.extend(b"GET /x HTTP/1.1\r\nHost: a\r\n\r\n");
    }
    for (number, piece) in all.chunks(37).enumerate() {
        client.send(piece);
        if number % 16 == 0 {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    for number in 0..60 {
        assert_eq!(client.response().text(), format!("body {number}"));
        assert_eq!(client.response().text(), "hello");
    }
}

#[test]
fn trailers_end_a_body_and_change_nothing() {
    let upstream = Upstream::responding("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    let weir = before(&upstream);
    let mut client = weir.connect();
    client.send(
        "POST /echo/x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5;x=y\r\nhello\r\n\
         0\r\nContent-Length: 100\r\nX-Forwarded-For: 1.2.3.4\r\nHost: b\r\n\r\n",
    );
    assert_eq!(client.response().text(), "ok");
    assert_eq!(client.get("/x").text(), "hello");
    let heads = upstream.heads();
    assert_eq!(heads.len(), 1);
    assert!(!heads[0].contains("content-length") && !heads[0].contains("1.2.3.4"), "{heads:?}");
}

#[test]
fn head_204_and_304_have_no_body() {
    let pair = pair();
    let mut client = pair.weir.connect();
    client.send("HEAD /x HTTP/1.1\r\nHost: a\r\n\r\n");
    let head = client.response_to_head();
    assert_eq!((head.status, head.header("content-length")), (200, Some("5")));
    client.send("HEAD /nowhere HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(client.response_to_head().status, 404);
    for (path, status) in [("/empty", 204), ("/not-modified", 304)] {
        let response = client.get(path);
        assert_eq!(response.status, status);
        assert_eq!(response.header("transfer-encoding"), None);
        assert!(response.header("content-length").is_none_or(|_| status == 304));
    }
    assert_eq!(client.get("/x").text(), "hello");
}

#[test]
fn upstreams_responses_without_body_are_passed_on_without_one() {
    for (status, lines) in [
        ("204 No Content", ""),
        ("304 Not Modified", "Content-Length: 5\r\n"),
        ("304 Not Modified", ""),
    ] {
        let upstream = Upstream::responding(format!("HTTP/1.1 {status}\r\n{lines}\r\n"));
        let weir = before(&upstream);
        let mut client = weir.connect();
        for _ in 0..2 {
            assert_eq!(client.get("/echo/x").status.to_string(), status[..3]);
        }
        assert_eq!(upstream.connections(), 1, "{status} {lines:?}");
    }
    let upstream = Upstream::responding("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n");
    let weir = before(&upstream);
    let mut client = weir.connect();
    for _ in 0..2 {
        client.send("HEAD /echo/x HTTP/1.1\r\nHost: a\r\n\r\n");
        let response = client.response_to_head();
        assert_eq!((response.status, response.header("content-length")), (200, Some("5")));
    }
    assert_eq!(upstream.connections(), 1);
}

#[test]
fn a_client_that_expects_continue_is_told_when_its_body_is_wanted() {
    let pair = pair();
    let mut client = pair.weir.connect();
    let head =
        "POST /echo/x HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n";
    client.send(head);
    assert_eq!(client.any_response().status, 100);
    client.send("hello");
    assert_eq!(client.any_response().text(), "hello");
    // A body that is there already is not asked for.
    client.send(head.to_owned() + "again");
    assert_eq!(client.any_response().text(), "again");
    assert_eq!(client.get("/x").text(), "hello");
}

#[test]
fn a_client_whose_body_is_not_wanted_gets_its_response_at_once() {
    let pair = pair();
    for (path, length, status) in [("/nowhere", 5, 404), ("/echo/x", 100_000, 413), ("/x", 5, 200)]
    {
        let mut client = pair.weir.connect();
        client.send(format!(
            "POST {path} HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\nExpect: 100-continue\r\n\r\n"
        ));
        assert_eq!(client.any_response().status, status, "{path}");
        // It may send its body or not: what comes can only be misread.
        assert!(client.is_closed(), "{path}");
    }
    let mut client = pair.weir.connect();
    client.send("POST /echo/x HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nExpect: x\r\n\r\n");
    assert_problem(&client.any_response(), 417, "expectation-failed", "another expectation");
    let mut client = pair.weir.connect();
    client.send("POST /echo/x HTTP/1.0\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\nhello");
    assert_eq!(client.any_response().text(), "hello", "HTTP/1.0 has no interim answers");
}

#[test]
fn a_head_that_drips_is_cut_off_in_time() {
    let pair = pair();
    let mut client = pair.weir.connect();
    let sender = client.sender();
    std::thread::spawn(move || {
        let head = format!("GET /x HTTP/1.1\r\nHost: a\r\nA: {}", "a".repeat(1000));
        for byte in head.as_bytes().chunks(1) {
            if sender.send(byte).is_err() {
                return;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    });
    assert_refused(&mut client, 408, "request-timeout", "drip");
}

#[test]
fn a_body_that_stalls_is_cut_off_in_time() {
    let pair = pair();
    for path in ["/echo/x", "/x"] {
        let mut client = pair.weir.connect();
        client.send(format!("POST {path} HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhell"));
        if path == "/x" {
            assert_eq!(client.response().text(), "hello", "a reply does not need the body");
            assert!(client.is_closed());
        } else {
            assert_refused(&mut client, 408, "request-timeout", path);
        }
    }
}

#[test]
fn a_body_that_drips_for_ever_is_cut_off_by_the_request_limit() {
    let echo = harness::echo(&[]);
    let config = CONFIG
        .replace("ECHO", &echo.listen[0].to_string())
        .replace("idle: 2s", "idle: 2s, request: 2s");
    let weir = Weir::new(&config).start();
    let mut client = weir.connect();
    client.send("POST /echo/x HTTP/1.1\r\nHost: a\r\nContent-Length: 10000\r\n\r\n");
    let sender = client.sender();
    std::thread::spawn(move || {
        while sender.send(b"a").is_ok() {
            std::thread::sleep(Duration::from_millis(50));
        }
    });
    let response = client.response();
    assert_eq!(response.json()["type"], "urn:weir:problem:deadline-exceeded");
    assert!(client.is_closed());
}

#[test]
fn idle_connections_are_closed_without_a_word() {
    let pair = pair();
    let mut fresh = pair.weir.connect();
    let mut used = pair.weir.connect();
    assert_eq!(used.get("/x").text(), "hello");
    assert!(fresh.is_closed() && used.is_closed());
}

#[test]
fn a_client_that_has_finished_sending_gets_its_responses() {
    let pair = pair();
    let mut client = pair.weir.connect();
    client.send("GET /x HTTP/1.1\r\nHost: a\r\n\r\nGET /echo/x HTTP/1.1\r\nHost: a\r\n\r\n");
    client.finish();
    assert_eq!(client.response().status, 200);
    assert_eq!(client.response().status, 200);
    assert!(client.is_closed());
}

#[test]
fn a_client_that_finishes_inside_a_request_gets_nothing_and_the_upstream_no_half_of_it() {
    let pair = pair();
    for half in [
        "GET /x HTTP/1.1\r\nHost: a\r\n",
        "POST /echo/x HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhell",
        "POST /echo/x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel",
    ] {
        let mut client = pair.weir.connect();
        client.send(half);
        client.finish();
        let rest = String::from_utf8_lossy(&client.rest()).into_owned();
        assert!(!rest.contains("200 OK"), "{half:?}: {rest}");
    }
    assert_eq!(pair.weir.connect().get("/x").text(), "hello");
}

#[test]
fn the_host_of_an_absolute_target_goes_before_the_header() {
    let upstream = Upstream::responding("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    let config = CONFIG
        .replace("ECHO", &upstream.addr.to_string())
        .replace("proxy: echo", "proxy: {upstream: echo, host: client}");
    let weir = Weir::new(&config).start();
    let mut client = weir.connect();
    client.send("GET http://b.example:81/echo/x?q HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(client.response().status, 200);
    let head = upstream.heads().remove(0).to_ascii_lowercase();
    assert!(head.starts_with("get /echo/x?q http/1.1\r\nhost: b.example:81\r\n"), "{head}");
    assert_eq!(head.matches("\r\nhost:").count(), 1, "{head}");
}

#[test]
fn what_ends_a_message_cannot_be_nominated_away() {
    let upstream = Upstream::responding("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    let weir = before(&upstream);
    let mut client = weir.connect();
    for (connection, framing, body) in [
        ("content-length", "Content-Length: 5", "hello"),
        ("transfer-encoding", "Transfer-Encoding: chunked", "5\r\nhello\r\n0\r\n\r\n"),
        ("host", "Content-Length: 5", "hello"),
    ] {
        client.send(format!(
            "POST /echo/x HTTP/1.1\r\nHost: a\r\nConnection: {connection}\r\n{framing}\r\n\r\n{body}"
        ));
        assert_eq!(client.response().status, 200, "{connection}");
        let head = upstream.heads().pop().unwrap().to_ascii_lowercase();
        assert!(head.contains(&framing.to_ascii_lowercase()), "{head}");
        assert!(head.contains("\r\nhost:") && !head.contains("\r\nconnection:"), "{head}");
    }
    assert_eq!(client.get("/x").text(), "hello");
}

#[test]
fn a_connection_header_has_at_most_32_options() {
    let server = Weir::new(
        "listen: [127.0.0.1:0]\napis: {a: {base: /, routes: [{get: /, reply: {text: ok}}]}}\n",
    )
    .start();
    for (count, status) in [(32, 200), (33, 400), (3000, 400)] {
        let options = vec!["x-a"; count].join(",");
        let mut client = server.connect();
        client.send(format!("GET / HTTP/1.1\r\nHost: a\r\nConnection: {options}\r\n\r\n"));
        assert_eq!(client.response().status, status, "{count} options");
    }
}
