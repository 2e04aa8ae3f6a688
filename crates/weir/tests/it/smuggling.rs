//! Request smuggling: hostile requests through weir to real servers. What the server behind weir
//! read must be exactly what weir passed on and answered, request by request.

use crate::harness::{RealServer, Server, Weir};
use crate::hostile::{self, SMUGGLED};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

/// Requests that are allowed, but look like something else to a careless parser. In each,
/// `/smuggled` must never be read as a request.
const TRICKY: &[(&str, &str)] = &[
    ("a request as the body", "POST /t1 HTTP/1.1\r\nHost: a\r\nContent-Length: 35\r\n\r\nSMUGGLED"),
    (
        "a request as a chunk",
        "POST /t2 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n23\r\nSMUGGLED\r\n0\r\n\r\n",
    ),
    (
        "sizes with zeros in front and extensions",
        "POST /t3 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n\
         00000000023;a=\"b\"\r\nSMUGGLED\r\n000;x\r\n\r\n",
    ),
    (
        "framing in the trailers",
        "POST /t4 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\
         Content-Length: 35\r\nTransfer-Encoding: chunked\r\nHost: b\r\n\r\n",
    ),
    (
        "framing nominated away",
        "POST /t5 HTTP/1.1\r\nHost: a\r\nConnection: content-length, host\r\nContent-Length: 35\r\n\r\n\
         SMUGGLED",
    ),
    (
        "chunked nominated away",
        "POST /t6 HTTP/1.1\r\nHost: a\r\nConnection: transfer-encoding\r\n\
         Transfer-Encoding: chunked\r\n\r\n23\r\nSMUGGLED\r\n0\r\n\r\n",
    ),
    (
        "names with underscores",
        "POST /t7 HTTP/1.1\r\nHost: a\r\nContent_Length: 0\r\nTransfer_Encoding: chunked\r\n\
         Content-Length: 35\r\n\r\nSMUGGLED",
    ),
    (
        "names that are nearly right",
        "POST /t8 HTTP/1.1\r\nHost: a\r\nContent-Length: 35\r\nX-Transfer-Encoding: chunked\r\n\
         Transfer-Encodin: chunked\r\n\r\nSMUGGLED",
    ),
    ("a GET with a body", "GET /t9 HTTP/1.1\r\nHost: a\r\nContent-Length: 35\r\n\r\nSMUGGLED"),
    (
        "a DELETE with a body",
        "DELETE /t10 HTTP/1.1\r\nHost: a\r\nContent-Length: 35\r\n\r\nSMUGGLED",
    ),
    ("another host in the target", "GET http://b/t11 HTTP/1.1\r\nHost: a\r\n\r\n"),
    (
        "old and kept alive with a body",
        "POST /t12 HTTP/1.0\r\nConnection: keep-alive\r\nContent-Length: 35\r\n\r\nSMUGGLED",
    ),
    (
        "an upgrade",
        "GET /t13 HTTP/1.1\r\nHost: a\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA\r\n\r\n",
    ),
    (
        "an escaped line end in the target",
        "GET /t14%0d%0aX:%20y%0d%0a%0d%0aGET%20/smuggled HTTP/1.1\r\nHost: a\r\n\r\n",
    ),
    (
        "te for trailers",
        "POST /t15 HTTP/1.1\r\nHost: a\r\nTE: trailers, chunked\r\nContent-Length: 35\r\n\r\nSMUGGLED",
    ),
    (
        "a body for a length with zeros",
        "POST /t16 HTTP/1.1\r\nHost: a\r\nContent-Length: 0000035\r\n\r\nSMUGGLED",
    ),
    ("a head with a length", "HEAD /t17 HTTP/1.1\r\nHost: a\r\nContent-Length: 35\r\n\r\nSMUGGLED"),
    (
        "an expectation",
        "POST /t18 HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 35\r\n\r\nSMUGGLED",
    ),
];

fn weir_before(upstream: &RealServer) -> Server {
    let config = format!(
        "listen: [{{addr: \"127.0.0.1:0\"}}]\nworkers: 1\nlimits: {{header_time: 1s, idle: 1s}}\n\
         upstreams: {{one: {{targets: [\"http://{}\"], health: {{failures: 0}}}}}}\n\
         apis: {{all: {{base: /, routes: [{{path: \"/*\", proxy: one}}]}}}}\n",
        upstream.addr
    );
    Weir::new(&config).start()
}

/// Sends bytes over one connection and reads all that comes back.
fn exchange(weir: &Server, pieces: &[&[u8]]) -> String {
    let mut stream = TcpStream::connect(weir.listen[0]).expect("a connection");
    stream.set_read_timeout(Some(Duration::from_secs(30))).expect("a timeout");
    stream.set_nodelay(true).expect("no delay");
    for piece in pieces {
        if stream.write_all(piece).is_err() {
            break;
        }
        if pieces.len() > 1 {
            std::thread::sleep(Duration::from_millis(2));
        }
    }
    let _ = stream.shutdown(Shutdown::Write);
    let mut responses = Vec::new();
    let _ = stream.read_to_end(&mut responses);
    String::from_utf8_lossy(&responses).into_owned()
}

/// Everything that is sent: what is hostile, what is tricky, each whole and in two pieces.
fn attacks() -> Vec<(String, String)> {
    let mut attacks = Vec::new();
    for case in hostile::HEADS {
        attacks.push((case.name.to_owned(), case.bytes.to_owned()));
    }
    for case in hostile::BODIES {
        attacks.push((case.name.to_owned(), hostile::chunked("/chunks", case)));
    }
    for (name, bytes) in TRICKY {
        attacks.push(((*name).to_owned(), bytes.replace("SMUGGLED", SMUGGLED)));
    }
    attacks
}

/// What the upstream must have read is what weir passed on answers of: all that carry its mark.
fn check(upstream: RealServer, mark: &str) {
    let weir = weir_before(&upstream);
    let mut expected: Vec<String> = Vec::new();
    for (number, (name, bytes)) in attacks().iter().enumerate() {
        for split in [None, Some(bytes.len() / 2), Some(bytes.len() - 1)] {
            let before = format!("GET /before-{number} HTTP/1.1\r\nHost: a\r\n\r\n");
            // On a refused connection this is never looked at, on any other it is a request.
            let after = format!("GET /after-{number} HTTP/1.1\r\nHost: a\r\n\r\n");
            let all = format!("{before}{bytes}{after}");
            let (first, second) = all.split_at(split.map_or(0, |at| before.len() + at));
            let responses = match split {
                None => exchange(&weir, &[all.as_bytes()]),
                Some(_) => exchange(&weir, &[first.as_bytes(), second.as_bytes()]),
            };
            let context = format!("{mark}, {name}, split at {split:?}:\n{responses}");
            assert!(
                !responses.contains("/smuggled\r\n") && !responses.ends_with("/smuggled"),
                "{context}"
            );
            let marked = responses.matches(&format!("x-upstream: {mark}\r\n")).count();
            let refused = responses.matches("urn:weir:problem:").count();
            assert_eq!(responses.matches("HTTP/1.1 200 OK\r\n").count(), marked, "{context}");
            // Nothing is answered behind what is refused.
            let allowed = is_allowed(bytes);
            assert_eq!(allowed, responses.contains(&format!("/after-{number}")), "{context}");
            // A body may prove to be broken when the upstream has answered already.
            let early = split.is_some() && bytes.starts_with("POST /chunks ");
            assert!(refused == usize::from(!allowed) || (refused == 0 && early), "{context}");

            expected.push(format!("GET /before-{number}"));
            if allowed {
                expected.push(line(bytes));
                expected.push(format!("GET /after-{number}"));
                assert_eq!(marked, 3, "{context}");
            }
            // Whatever connection to the upstream is used next: it has nothing left in it.
            let canary = format!("GET /canary-{number} HTTP/1.1\r\nHost: a\r\n\r\n");
            let response = exchange(&weir, &[canary.as_bytes()]);
            assert!(response.ends_with(&format!("GET /canary-{number}")), "{context}\n{response}");
            expected.push(format!("GET /canary-{number}"));
        }
    }
    drop(weir);
    // The peer's log may swap the last request of one connection with the first of the next: each
    // request is told apart by its number, so what counts is that every one was read once.
    let mut read: Vec<String> = upstream.requests();
    read.sort();
    expected.sort();
    // A request whose body turned out to be broken may or may not have been begun.
    let read: Vec<&String> = read.iter().filter(|request| *request != "POST /chunks").collect();
    let expected: Vec<&String> = expected.iter().collect();
    assert_eq!(read, expected);
}

fn is_allowed(bytes: &str) -> bool {
    TRICKY
        .iter()
        .any(|(_, allowed)| allowed.split("SMUGGLED").next().is_some_and(|a| bytes.starts_with(a)))
}

/// The request line as the upstream must have read it.
fn line(bytes: &str) -> String {
    let mut words = bytes.split(' ');
    let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let target = target.strip_prefix("http://b").unwrap_or(target);
    let target = target.replace("%0d%0a", "%0D%0A").replace("%3a", ":");
    format!("{method} {target}")
}

#[test]
fn nginx_reads_what_weir_passed_on() {
    check(RealServer::nginx(), "nginx");
}

#[test]
fn haproxy_reads_what_weir_passed_on() {
    check(RealServer::haproxy(), "haproxy");
}
