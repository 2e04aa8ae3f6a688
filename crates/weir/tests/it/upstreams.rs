//! Upstreams that fail in every way they can, and what the client is told.

use crate::harness::{Client, FullBacklog, Response, Server, Upstream, Weir, eventually, nobody};
use std::time::Duration;

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

/// weir in front of this address; short waits, and no target is ever taken out.
fn before(addr: impl ToString) -> Server {
    with(addr, "timeout: 500ms")
}

/// The same with more settings of the upstream.
fn with(addr: impl ToString, settings: &str) -> Server {
    let config = format!(
        "listen: [{{addr: \"127.0.0.1:0\"}}]\nworkers: 1\nlimits: {{idle: 5s, body: 64MiB}}\n\
         upstreams:\n  one: {{targets: [\"http://{}\"], connect_timeout: 1s, \
         idle_timeout: 500ms, health: {{failures: 0}}, {settings}}}\n\
         apis:\n  all:\n    base: /\n    routes: [{{path: \"/*\", proxy: one}}]\n",
        addr.to_string()
    );
    Weir::new(&config).start()
}

fn assert_problem(response: &Response, status: u16, slug: &str, context: &str) {
    assert_eq!(response.status, status, "{context}: {}", response.text());
    assert_eq!(response.json()["type"], format!("urn:weir:problem:{slug}"), "{context}");
}

/// The client is told of the failure on a connection that goes on: it did nothing wrong.
fn assert_told_and_kept(client: &mut Client, status: u16, slug: &str, context: &str) {
    for _ in 0..2 {
        let response = client.get("/x");
        assert_problem(&response, status, slug, context);
        assert_eq!(response.header("connection"), None, "{context}");
    }
}

/// The connection is closed before the answer is whole, and not in a way that looks whole.
fn assert_broken_off(mut client: Client, request: &str, context: &str) {
    client.send(request);
    let (all, reset) = client.rest_or_reset();
    let all = String::from_utf8_lossy(&all).into_owned();
    let Some((head, body)) = all.split_once("\r\n\r\n") else { return };
    let head = head.to_ascii_lowercase();
    if head.starts_with("http/1.1 502") || head.starts_with("http/1.1 504") {
        return;
    }
    let length = head.split("content-length: ").nth(1).and_then(|s| s.lines().next());
    let looks_whole = match length {
        Some(length) => body.len() >= length.parse::<usize>().expect("a number"),
        None if head.contains("transfer-encoding: chunked") => body.ends_with("0\r\n\r\n"),
        None => !reset,
    };
    assert!(!looks_whole, "{context}: {head}, {} bytes, reset: {reset}", body.len());
}

#[test]
fn clients_that_leave_while_they_wait_for_a_connection_leave_no_place_behind() {
    let upstream = Upstream::by_hand();
    let weir = with(upstream.addr, "connections: 2, timeout: 20s");
    let ask = "GET /x HTTP/1.1\r\nHost: a\r\n\r\n";
    let mut holding: Vec<_> = (0..2).map(|_| weir.connect()).collect();
    holding.iter_mut().for_each(|client| client.send(ask));
    let mut peers: Vec<_> = (0..2).map(|_| upstream.accept()).collect();
    peers.iter_mut().for_each(|peer| assert!(peer.head().is_some()));
    for _ in 0..10 {
        let mut client = weir.connect();
        client.send(ask);
        eventually("it waits", || weir.metric("http_server_active_requests", &[]) == 3.0);
        client.reset();
        eventually("it is gone", || weir.metric("http_server_active_requests", &[]) == 2.0);
    }
    let mut last = weir.connect();
    last.send(ask);
    eventually("it waits", || weir.metric("http_server_active_requests", &[]) == 3.0);
    peers[0].send(OK);
    assert_eq!(holding[0].response().text(), "ok");
    assert!(peers[0].head().is_some(), "the last one has its turn");
    peers[0].send(OK);
    assert_eq!(last.response().text(), "ok");
}

#[test]
fn names_are_asked_for_again_and_no_connection_is_given_up_for_it() {
    let upstream = Upstream::responding("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    let config = format!(
        "listen: [{{addr: \"127.0.0.1:0\"}}]\nworkers: 1\n\
         upstreams: {{one: {{targets: [\"http://localhost:{}\"], resolve: 1s}}}}\n\
         apis: {{all: {{base: /, routes: [{{path: \"/*\", proxy: one}}]}}}}\n",
        upstream.addr.port()
    );
    let weir = Weir::new(&config).start();
    let asked = |result: &str| {
        let result = format!("weir_result=\"{result}\"");
        weir.metric("weir_upstream_resolutions_total", &[&result])
    };
    assert_eq!(asked("good"), 0.0);
    assert_eq!(weir.connect().get("/x").text(), "ok");
    eventually("it has been asked for again", || asked("good") >= 3.0);
    assert_eq!(weir.connect().get("/x").text(), "ok");
    assert_eq!((asked("bad"), upstream.connections()), (0.0, 1));
}

#[test]
fn refused() {
    let weir = before(nobody());
    assert_told_and_kept(&mut weir.connect(), 502, "upstream-unreachable", "refused");
}

#[test]
fn takes_no_connection() {
    let full = FullBacklog::new();
    let weir = before(full.addr);
    for _ in 0..2 {
        let response = weir.connect().get("/x");
        assert_problem(&response, 502, "upstream-unreachable", "nobody accepts");
        assert_eq!(response.json()["detail"], "connect timeout");
    }
    let count = "http_client_request_duration_seconds_count";
    assert_eq!(weir.metric(count, &["error_type=\"connect-timeout\""]), 2.0);
    assert_eq!(weir.metric(count, &[]), 2.0);
    assert_eq!(weir.metric("weir_request_timeouts_total", &[]), 0.0);
    assert_eq!(weir.metric("http_client_open_connections", &[]), 0.0);
}

#[test]
fn hangs_before_the_head() {
    for part in ["", "HTTP/1.1 200 OK\r\nContent-Le"] {
        let upstream = Upstream::start(move |_, peer| {
            peer.request();
            peer.send(part);
            peer.hang();
        });
        let weir = before(upstream.addr);
        assert_told_and_kept(&mut weir.connect(), 504, "upstream-timeout", part);
        assert_eq!(weir.metric("weir_request_timeouts_total", &[]), 2.0, "{part}");
    }
}

#[test]
fn hangs_after_the_head() {
    for head in ["Content-Length: 100", "Transfer-Encoding: chunked", "Connection: close"] {
        let upstream = Upstream::start(move |_, peer| {
            peer.request();
            peer.send(format!("HTTP/1.1 200 OK\r\n{head}\r\n\r\n"));
            peer.send("5\r\nhello\r\n");
            peer.hang();
        });
        let weir = before(upstream.addr);
        let request = "GET /x HTTP/1.1\r\nHost: a\r\n\r\n";
        assert_broken_off(weir.connect(), request, head);
    }
}

#[test]
fn closes_before_the_response_is_complete() {
    for part in ["", "HTTP/1.1 2", "HTTP/1.1 200 OK\r\n", "HTTP/1.1 100 Continue\r\n\r\n"] {
        for reset in [false, true] {
            let upstream = Upstream::start(move |_, peer| {
                peer.request();
                peer.send(part);
                if reset {
                    peer.reset();
                }
            });
            let weir = before(upstream.addr);
            let context = format!("{part:?}, reset: {reset}");
            assert_told_and_kept(&mut weir.connect(), 502, "upstream-closed", &context);
        }
    }
}

#[test]
fn is_killed_inside_the_body() {
    for head in ["Content-Length: 100000", "Transfer-Encoding: chunked", "Connection: close"] {
        for version in ["1.1", "1.0"] {
            let upstream = Upstream::start(move |_, peer| {
                peer.request();
                peer.send(format!("HTTP/1.1 200 OK\r\n{head}\r\n\r\n"));
                peer.send(format!("10000\r\n{}\r\n", "a".repeat(0x10000)));
                // So that it is on its way before the end comes.
                std::thread::sleep(Duration::from_millis(100));
                peer.reset();
            });
            let weir = before(upstream.addr);
            let request = format!("GET /x HTTP/{version}\r\nHost: a\r\n\r\n");
            assert_broken_off(weir.connect(), &request, &format!("{head} to HTTP/{version}"));
        }
    }
}

#[test]
fn ends_the_body_early() {
    for head in ["Content-Length: 100", "Transfer-Encoding: chunked"] {
        for version in ["1.1", "1.0"] {
            for pause in [0, 50] {
                let upstream = Upstream::start(move |_, peer| {
                    peer.request();
                    peer.send(format!("HTTP/1.1 200 OK\r\n{head}\r\n\r\n5\r\nhello\r\n"));
                    std::thread::sleep(Duration::from_millis(pause));
                    peer.finish();
                    peer.hang();
                });
                let weir = before(upstream.addr);
                let request = format!("GET /x HTTP/{version}\r\nHost: a\r\n\r\n");
                assert_broken_off(weir.connect(), &request, &format!("{head} to HTTP/{version}"));
            }
        }
    }
}

#[test]
fn breaks_its_chunks() {
    for body in [
        "zz\r\nhello\r\n",
        "5\r\nhello!\r\n0\r\n\r\n",
        "5\r\nhello\r\n0\r\nA : b\r\n\r\n",
        "5\nhello",
    ] {
        let upstream = Upstream::responding(format!(
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n{body}"
        ));
        let weir = before(upstream.addr);
        let request = "GET /x HTTP/1.1\r\nHost: a\r\n\r\n";
        assert_broken_off(weir.connect(), request, body);
    }
}

#[test]
fn breaks_off_before_anything_has_left() {
    for (response, slug) in [
        ("Transfer-Encoding: chunked\r\n\r\nzz\r\n", "upstream-garbage"),
        ("Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nzz\r\n", "upstream-garbage"),
    ] {
        let response = format!("HTTP/1.1 200 OK\r\nETag: \"a\"\r\n{response}");
        let upstream = Upstream::responding(response.clone());
        let weir = before(upstream.addr);
        assert_told_and_kept(&mut weir.connect(), 502, slug, &response);
        assert_eq!(weir.connect().get("/x").header("etag"), None, "{response}");
        assert_eq!(weir.metric("weir_aborted_requests_total", &[]), 0.0, "{response}");
    }
}

#[test]
fn responds_with_garbage() {
    let long = format!("HTTP/1.1 200 OK\r\nA: {}\r\n\r\n", "a".repeat(100_000));
    let many = format!("HTTP/1.1 200 OK\r\n{}\r\n", "A: b\r\n".repeat(300));
    for response in [
        "SSH-2.0-OpenSSH_9.2\r\n\r\n",
        "hello\r\n\r\n",
        "\x16\x03\x01",
        "\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
        "HTTP/2 200 OK\r\n\r\n",
        "HTTP/1.1 2000 OK\r\n\r\n",
        "HTTP/1.1 200 OK\nContent-Length: 2\n\nok",
        "HTTP/1.1 200 OK\r\nContent-Length : 2\r\n\r\nok",
        "HTTP/1.1 200 OK\r\nA: b\r\n c\r\nContent-Length: 2\r\n\r\nok",
        "HTTP/1.1 200 OK\r\nA: b\0c\r\nContent-Length: 2\r\n\r\nok",
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nok",
        "HTTP/1.1 200 OK\r\nContent-Length: two\r\n\r\nok",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n",
        &long,
        &many,
    ] {
        let upstream = Upstream::responding(response);
        let weir = before(upstream.addr);
        let context = &response[..response.len().min(60)];
        assert_told_and_kept(&mut weir.connect(), 502, "upstream-garbage", context);
        assert_eq!(upstream.connections(), 2, "never used again: {context}");
    }
}

#[test]
fn sends_endless_interim_responses() {
    let upstream = Upstream::start(|_, peer| {
        peer.request();
        peer.send("HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n".repeat(100));
        peer.hang();
    });
    let weir = before(upstream.addr);
    assert_told_and_kept(&mut weir.connect(), 502, "upstream-garbage", "interim");
}

#[test]
fn sends_a_few_interim_responses() {
    let upstream = Upstream::responding(format!(
        "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n{OK}"
    ));
    let weir = before(upstream.addr);
    let mut client = weir.connect();
    for _ in 0..3 {
        assert_eq!(client.request("POST", "/x", &[], "hello").text(), "ok");
    }
    assert_eq!(upstream.connections(), 1);
}

#[test]
fn sends_its_response_byte_by_byte() {
    let upstream = Upstream::start(|_, peer| {
        while peer.request().is_some() {
            let response = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2;a=b\r\nok\r\n0\r\nA: b\r\n\r\n";
            for byte in response.as_bytes().chunks(1) {
                peer.send(byte);
            }
        }
    });
    let weir = before(upstream.addr);
    let mut client = weir.connect();
    for _ in 0..20 {
        assert_eq!(client.get("/x").text(), "ok");
    }
    assert_eq!(upstream.connections(), 1);
}

#[test]
fn sends_more_than_it_said() {
    const MORE: &str = "HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\npoisoned";
    // With the answer, or while the connection waits for the next request.
    for late in [false, true] {
        let upstream = Upstream::start(move |_, peer| {
            while peer.request().is_some() {
                if late {
                    peer.send(OK);
                    std::thread::sleep(Duration::from_millis(50));
                    peer.send(MORE);
                } else {
                    peer.send(OK.to_owned() + MORE);
                }
            }
        });
        let weir = before(upstream.addr);
        let mut client = weir.connect();
        for number in 0..3 {
            assert_eq!(client.get("/x").text(), "ok", "request {number}, late: {late}");
            if late {
                std::thread::sleep(Duration::from_millis(300));
            }
        }
        assert_eq!(upstream.connections(), 3, "a connection that talks out of turn is not used");
    }
}

#[test]
fn sends_a_body_where_none_may_be() {
    for (request, sent) in [
        ("GET", "HTTP/1.1 204 No Content\r\nContent-Length: 8\r\n\r\npoisoned"),
        ("GET", "HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
        ("HEAD", "HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\npoisoned"),
        ("GET", "HTTP/1.1 304 Not Modified\r\nContent-Length: 8\r\n\r\npoisoned"),
    ] {
        let upstream = Upstream::responding(sent);
        let weir = before(upstream.addr);
        let mut client = weir.connect();
        for _ in 0..3 {
            client.send(format!("{request} /x HTTP/1.1\r\nHost: a\r\n\r\n"));
            let response = client.response_to_head();
            assert_eq!(response.status.to_string(), sent[9..12], "{sent:?}");
            std::thread::sleep(Duration::from_millis(20));
        }
        assert_eq!(upstream.connections(), 3, "{sent:?}");
    }
}

#[test]
fn responds_before_the_request_is_complete() {
    // Reads nothing of the body, answers and closes, as servers do that refuse an upload.
    let upstream = Upstream::start(|_, peer| {
        peer.head();
        peer.send("HTTP/1.1 413 Too Large\r\nContent-Length: 3\r\nConnection: close\r\n\r\nbig");
        peer.finish();
        std::thread::sleep(Duration::from_millis(200));
    });
    let weir = before(upstream.addr);
    let mut client = weir.connect();
    client.send("POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 30000000\r\n\r\n");
    let sender = client.sender();
    std::thread::spawn(move || while sender.send(&[b'a'; 10_000]).is_ok() {});
    let response = client.response();
    assert_eq!((response.status, response.text().as_str()), (413, "big"));
}

#[test]
fn responds_early_and_reads_on() {
    let upstream = Upstream::start(|_, peer| {
        while peer.head().is_some() {
            peer.send("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nearly");
            assert_eq!(peer.drain(1_000_000), 1_000_000);
            peer.send(" late");
        }
    });
    let weir = before(upstream.addr);
    let mut client = weir.connect();
    for _ in 0..2 {
        client.send("POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\n");
        client.send(vec![b'a'; 1_000_000]);
        assert_eq!(client.response().text(), "early late");
    }
    assert_eq!(upstream.connections(), 1, "the exchange was whole: the connection is used again");
}

#[test]
fn responds_completely_while_the_request_is_still_being_sent() {
    let upstream = Upstream::start(|_, peer| {
        peer.head();
        peer.send(OK);
        peer.hang();
    });
    let weir = before(upstream.addr);
    let mut client = weir.connect();
    client.send("POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\nhalf");
    assert_eq!(client.response().text(), "ok");
    client.send(vec![b'a'; 996]);
    // The connection to the client is whole again, that to the upstream is given up.
    assert_eq!(client.get("/y").text(), "ok");
    assert_eq!(upstream.connections(), 2);
}

#[test]
fn reads_slowly() {
    let upstream = Upstream::start(|_, peer| {
        peer.head();
        let mut read = 0;
        while read < 3_000_000 {
            read += peer.drain(1);
            std::thread::sleep(Duration::from_millis(1));
        }
        peer.send(OK);
    });
    let weir = before(upstream.addr);
    let mut client = weir.connect();
    client.send("POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 3000000\r\n\r\n");
    client.send(vec![b'a'; 3_000_000]);
    assert_eq!(client.response().text(), "ok");
}

#[test]
fn reads_nothing() {
    let upstream = Upstream::start(|_, peer| {
        peer.head();
        std::thread::sleep(Duration::from_secs(5));
        peer.hang();
    });
    let weir = before(upstream.addr);
    let mut client = weir.connect();
    client.send("POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 30000000\r\n\r\n");
    let sender = client.sender();
    std::thread::spawn(move || while sender.send(&[b'a'; 10_000]).is_ok() {});
    assert_problem(&client.response(), 504, "upstream-timeout", "reads nothing");
}

#[test]
fn closes_a_kept_connection_between_requests() {
    let upstream = Upstream::start(|_, peer| {
        peer.request();
        peer.send(OK);
    });
    let weir = before(upstream.addr);
    let mut client = weir.connect();
    for _ in 0..5 {
        assert_eq!(client.request("POST", "/x", &[], "hello").text(), "ok");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(upstream.heads().len(), 5);
}

#[test]
fn closes_a_kept_connection_as_the_next_request_comes() {
    // The first connection answers once and dies of the second request.
    let upstream = Upstream::start(|number, peer| {
        while peer.request().is_some() {
            if number == 0 && peer.requests() == 2 {
                return peer.reset();
            }
            peer.send(OK);
        }
    });
    let weir = before(upstream.addr);
    let mut client = weir.connect();
    assert_eq!(client.get("/1").text(), "ok");
    assert_eq!(client.get("/2").text(), "ok", "sent again: it may be");
    assert_eq!((upstream.heads().len(), upstream.connections()), (3, 2));

    let upstream = Upstream::start(|number, peer| {
        while peer.request().is_some() {
            if number == 0 && peer.requests() == 2 {
                return;
            }
            peer.send(OK);
        }
    });
    let weir = before(upstream.addr);
    let mut client = weir.connect();
    assert_eq!(client.get("/1").text(), "ok");
    let response = client.request("POST", "/2", &[], "hello");
    assert_problem(&response, 502, "upstream-closed", "POST may have been done");
    assert_eq!(upstream.heads().len(), 2, "and is not done twice");
    assert_eq!(client.request("POST", "/3", &[], "hello").text(), "ok");
}

#[test]
fn closes_every_connection_at_the_first_request() {
    let upstream = Upstream::start(|_, peer| {
        peer.request();
    });
    let weir = before(upstream.addr);
    assert_told_and_kept(&mut weir.connect(), 502, "upstream-closed", "no endless retries");
    assert_eq!(upstream.heads().len(), 2);
}

#[test]
fn responds_without_a_length() {
    for head in ["HTTP/1.0 200 OK\r\nServer: old\r\n\r\n", "HTTP/1.1 200 OK\r\n\r\n"] {
        let upstream = Upstream::start(move |_, peer| {
            peer.request();
            peer.send(head);
            for _ in 0..100 {
                peer.send("a".repeat(1000));
            }
        });
        let weir = before(upstream.addr);
        let mut client = weir.connect();
        for _ in 0..2 {
            let response = client.get("/x");
            assert_eq!(response.header("transfer-encoding"), Some("chunked"));
            assert_eq!(response.body.len(), 100_000);
        }
        client.send("GET /x HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
        let response = client.response();
        assert_eq!(response.header("connection"), Some("close"));
        assert_eq!(response.body.len(), 100_000);
    }
}

#[test]
fn is_slower_than_the_whole_request_may_take() {
    let upstream = Upstream::start(|_, peer| {
        peer.request();
        peer.send("HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n");
        for _ in 0..100 {
            peer.send("a");
            std::thread::sleep(Duration::from_millis(50));
        }
        peer.hang();
    });
    let config = format!(
        "listen: [{{addr: \"127.0.0.1:0\"}}]\nlimits: {{request: 500ms}}\n\
         upstreams: {{one: {{targets: [\"http://{}\"]}}}}\n\
         apis: {{all: {{base: /, routes: [{{path: \"/*\", proxy: one}}]}}}}\n",
        upstream.addr
    );
    let weir = Weir::new(&config).start();
    assert_broken_off(weir.connect(), "GET /x HTTP/1.1\r\nHost: a\r\n\r\n", "drips");
}

#[test]
fn has_no_connection_left() {
    let upstream = Upstream::start(|_, peer| {
        peer.request();
        std::thread::sleep(Duration::from_secs(3));
        peer.send(OK);
    });
    let weir = with(upstream.addr, "timeout: 10s, connections: 1");
    let mut first = weir.connect();
    first.send("GET /x HTTP/1.1\r\nHost: a\r\n\r\n");
    upstream.wait_for_requests(1);
    let second = weir.connect().get("/x");
    assert_problem(&second, 503, "upstream-busy", "one connection, in use");
    assert_eq!(first.response().text(), "ok");
    assert_eq!(upstream.connections(), 1);
}

#[test]
fn is_left_alone_by_clients_that_go() {
    // A client that is gone before the answer must not leave a connection half used behind.
    let upstream = Upstream::start(|_, peer| {
        while peer.request().is_some() {
            std::thread::sleep(Duration::from_millis(100));
            peer.send(OK);
        }
    });
    let weir = before(upstream.addr);
    for _ in 0..5 {
        let mut client = weir.connect();
        client.send("GET /x HTTP/1.1\r\nHost: a\r\n\r\n");
        upstream.wait_for_requests(1);
        drop(client);
    }
    let mut client = weir.connect();
    for _ in 0..3 {
        assert_eq!(client.get("/x").text(), "ok");
    }
}
