//! What the metrics page tells of requests to upstreams.

use crate::harness::{Server, Upstream, Weir, eventually, nobody};
use std::net::SocketAddr;

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
const COUNT: &str = "http_client_request_duration_seconds_count";

fn before(addr: SocketAddr) -> Server {
    Weir::new(&format!(
        "listen: [{{addr: \"127.0.0.1:0\"}}]\nworkers: 1\n\
         upstreams:\n  one: {{targets: [\"http://{addr}\"], timeout: 300ms, \
         idle_timeout: 300ms, health: {{failures: 0}}}}\n\
         apis:\n  all:\n    base: /\n    routes: [{{path: \"/*\", proxy: one}}]\n"
    ))
    .start()
}

/// Requests to upstreams that have all of these labels, and all there are.
fn counted(weir: &Server, labels: &[&str]) -> (f64, f64) {
    (weir.metric(COUNT, labels), weir.metric(COUNT, &[]))
}

#[test]
fn responses_are_counted_by_method_status_and_target() {
    let upstream = Upstream::start(|_, peer| {
        while peer.request().is_some() {
            let last = peer.requests() == 3;
            peer.send(if last { "HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n" } else { OK });
        }
    });
    let weir = before(upstream.addr);
    assert_eq!(counted(&weir, &[]), (0.0, 0.0));
    let mut client = weir.connect();
    assert_eq!(client.get("/a").status, 200);
    assert_eq!(client.request("PUT", "/b", &[], "hello").status, 200);
    assert_eq!(client.get("/c").status, 503);
    let port = format!("server_port=\"{}\"", upstream.addr.port());
    let target = ["weir_upstream=\"one\"", "server_address=\"127.0.0.1\"", &port];
    for labels in [
        &["http_request_method=\"GET\"", "http_response_status_code=\"200\""][..],
        &["http_request_method=\"PUT\"", "http_response_status_code=\"200\""],
        &["http_request_method=\"GET\"", "error_type=\"503\""],
    ] {
        assert_eq!(counted(&weir, &[&target, labels].concat()), (1.0, 3.0), "{labels:?}");
    }
    assert_eq!(weir.metric(COUNT, &["error_type"]), 1.0);
}

#[test]
fn failures_say_what_went_wrong() {
    for (part, error) in [
        ("", "upstream-closed"),
        ("hello\r\n\r\n", "upstream-garbage"),
        ("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf", "upstream-closed"),
    ] {
        let upstream = Upstream::start(move |_, peer| {
            peer.request();
            peer.send(part);
        });
        let weir = before(upstream.addr);
        let mut client = weir.connect();
        client.send("GET /x HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
        let _ = client.rest_or_reset();
        let error = format!("error_type=\"{error}\"");
        eventually(&error, || counted(&weir, &[&error]) == (1.0, 1.0));
        let answered = weir.metric(COUNT, &["http_response_status_code"]);
        assert_eq!(answered == 1.0, part.ends_with("half"), "a status where one came: {part:?}");
    }
}

#[test]
fn a_late_upstream_and_one_that_is_not_there() {
    let silent = Upstream::start(|_, peer| peer.hang());
    let weir = before(silent.addr);
    assert_eq!(weir.connect().get("/").status, 504);
    assert_eq!(counted(&weir, &["error_type=\"upstream-timeout\""]), (1.0, 1.0));

    let weir = before(nobody());
    assert_eq!(weir.connect().get("/").status, 502);
    assert_eq!(counted(&weir, &["error_type=\"connect\""]), (1.0, 1.0));
}

#[test]
fn a_client_that_leaves_is_not_the_fault_of_the_upstream() {
    let upstream = Upstream::start(|_, peer| {
        peer.request();
        peer.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
        while peer.send("1\r\nx\r\n") {
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    });
    let weir = before(upstream.addr);
    let mut client = weir.connect();
    client.send("GET /x HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(client.response_to_head().status, 200);
    drop(client);
    eventually("it is counted", || counted(&weir, &["error_type=\"cancelled\""]) == (1.0, 1.0));
}

#[test]
fn open_connections_are_active_or_idle() {
    // Of every two answers the second stays half.
    let upstream = Upstream::start(|_, peer| {
        while peer.request().is_some() {
            if peer.requests() % 2 == 0 {
                peer.send("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nha");
                return peer.hang();
            }
            peer.send(OK);
        }
    });
    let weir = before(upstream.addr);
    let states = || {
        ["active", "idle"].map(|state| {
            let label = format!("http_connection_state=\"{state}\"");
            weir.metric("http_client_open_connections", &[&label])
        })
    };
    assert_eq!(states(), [0.0, 0.0]);
    let mut client = weir.connect();
    assert_eq!(client.get("/1").status, 200);
    assert_eq!(states(), [0.0, 1.0]);
    client.send("GET /2 HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(client.response_to_head().status, 200);
    assert_eq!(weir.connect().get("/3").status, 200);
    assert_eq!(states(), [1.0, 1.0]);
    drop(client);
    eventually("the half answer is given up", || states() == [0.0, 1.0]);
}
