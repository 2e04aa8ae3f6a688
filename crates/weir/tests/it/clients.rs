//! What clients do that are slow, old, patient or impatient.

use crate::harness::{self, Client, Peer, Server, Upstream, Weir, eventually, run, transactions};
use std::process::Command;

/// An upstream under the test's hand, and replies.
fn server(upstream: std::net::SocketAddr, more: &str) -> Server {
    Weir::new(&format!(
        "listen: [{{addr: \"127.0.0.1:0\"}}]\nworkers: 1\n{more}\n\
         upstreams: {{up: {{targets: [\"http://{upstream}\"], timeout: 20s}}}}\n\
         apis:\n  api:\n    base: /\n    compress: true\n    routes:\n      \
         - {{get: /hello, reply: {{text: hello}}}}\n      \
         - {{get: /large, reply: {{text: \"{}\"}}}}\n      \
         - {{get: /events, limits: {{request: none}}, proxy: up}}\n      \
         - {{path: \"/*\", proxy: up}}\n",
        "x".repeat(4 * 1024 * 1024)
    ))
    .start()
}

/// The same before an upstream that the test plays.
fn by_hand(more: &str) -> (Upstream, Server) {
    let upstream = Upstream::by_hand();
    let server = server(upstream.addr, more);
    (upstream, server)
}

/// Sends a request and waits until its head has come to the upstream.
fn ask(server: &Server, upstream: &Upstream, request: &str) -> (Client, Peer) {
    let mut client = server.connect();
    client.send(request);
    let mut peer = upstream.accept();
    assert!(peer.head().is_some());
    (client, peer)
}

const ANY: &str = "GET /any HTTP/1.1\r\nHost: h\r\n\r\n";
/// An answer that has begun and goes on.
const BEGUN: &str = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n";

fn curl(args: &[&str]) -> String {
    let mut command = Command::new("curl");
    command.args(["-s", "--max-time", "60", "-w", "%{http_code} %{http_version}"]).args(args);
    String::from_utf8(run(&mut command, b"")).expect("a text")
}

#[test]
fn curl_speaks_every_version() {
    let echo = harness::echo(&[]);
    let server = server(echo.listen[0], "");
    let (hello, any) = (server.url("/hello"), server.url("/any"));
    let file = server.dir().join("body");
    std::fs::write(&file, vec![b'b'; 300 * 1024]).unwrap();
    let file = format!("@{}", file.display());
    for version in ["--http1.0", "--http1.1", "--http2-prior-knowledge"] {
        let spoken = if version == "--http2-prior-knowledge" { "2" } else { "1.1" };
        assert_eq!(curl(&[version, &hello]), format!("hello200 {spoken}"));
        assert_eq!(curl(&[version, "-I", "-o", "/dev/null", &hello]), format!("200 {spoken}"));
        assert_eq!(curl(&[version, "-d", "a=1", &any]), format!("a=1200 {spoken}"));
        let echoed = curl(&[version, "--data-binary", &file, &any]);
        assert_eq!(echoed.len(), 300 * 1024 + format!("200 {spoken}").len());
    }
    // Above 1 MiB curl does so by itself; it would wait for a minute and fail.
    let waits = ["-H", "Expect: 100-continue", "--expect100-timeout", "60"];
    let echoed = curl(&[&waits[..], &["--data-binary", &file, &any]].concat());
    assert_eq!(echoed.len(), 300 * 1024 + "200 1.1".len());
    let chunked = ["-H", "Transfer-Encoding: chunked", "--data-binary", &file, &any];
    assert_eq!(curl(&chunked).len(), 300 * 1024 + "200 1.1".len());
}

#[test]
fn one_connection_serves_curl_many_times() {
    let echo = harness::echo(&[]);
    let server = server(echo.listen[0], "");
    let url = server.url("/hello");
    let output = ["-w", "%{num_connects}\n", "-o", "/dev/null"];
    let printed =
        curl(&[&output[..], &[&url, "-o", "/dev/null", &url, "-o", "/dev/null", &url]].concat());
    assert_eq!(printed, "1\n0\n0\n");
}

#[test]
fn who_expects_100_is_told_before_it_sends() {
    let echo = harness::echo(&[]);
    let server = server(echo.listen[0], "limits: {body: 1KiB}");
    let mut client = server.connect();
    let head = "POST /any HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\n";
    client.send(format!("{head}Content-Length: 4\r\n\r\n"));
    assert_eq!(client.any_response().status, 100);
    client.send("body");
    assert_eq!(client.response().text(), "body");
    // Who would be refused is spared the sending.
    client.send(format!("{head}Content-Length: 4000\r\n\r\n"));
    assert_eq!(client.any_response().status, 413);
    let mut client = server.connect();
    client.send("POST /any HTTP/1.1\r\nHost: h\r\nExpect: tea\r\nContent-Length: 4\r\n\r\n");
    assert_eq!(client.any_response().status, 417);
}

/// Each event is sent only after the one before has been seen: were one held back, nothing more
/// would ever come.
#[test]
fn events_come_one_by_one() {
    let (upstream, server) = by_hand("limits: {request: 2s}");
    for accept in ["identity", "gzip"] {
        let request =
            format!("GET /events HTTP/1.1\r\nHost: h\r\nAccept-Encoding: {accept}\r\n\r\n");
        let (mut client, mut peer) = ask(&server, &upstream, &request);
        peer.send("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n");
        let head = client.response_to_head();
        assert_eq!((head.status, head.header("content-encoding")), (200, None), "{accept}");
        for number in 0..4 {
            let event = format!("data: {number}\n\n");
            peer.send(format!("{:x}\r\n{event}\r\n", event.len()));
            assert_eq!(client.chunk(), event.as_bytes(), "{accept}");
            if number == 2 {
                // Past the time that other requests have.
                std::thread::sleep(std::time::Duration::from_millis(2200));
            }
        }
        peer.send("0\r\n\r\n");
        assert!(client.chunk().is_empty());
    }
}

#[test]
fn a_stream_of_other_routes_ends_with_its_time() {
    let (upstream, server) = by_hand("limits: {request: 2s}");
    let (mut client, mut peer) = ask(&server, &upstream, ANY);
    peer.send(BEGUN);
    assert_eq!(client.response_to_head().status, 200);
    let rest = String::from_utf8_lossy(&client.rest()).into_owned();
    assert_eq!(rest, "1\r\nx\r\n", "cut off, and not ended as if it were whole");
    eventually("it is counted", || server.metric("weir_request_timeouts_total", &[]) == 1.0);
}

#[test]
fn a_slow_reader_blocks_nobody() {
    let echo = harness::echo(&[]);
    let server = server(echo.listen[0], "");
    let slow: Vec<Client> = (0..8)
        .map(|_| {
            let mut client = server.connect();
            client.send("GET /large HTTP/1.1\r\nHost: h\r\n\r\n");
            client
        })
        .collect();
    // They fill their sockets and are waited for; there is one worker only.
    let mut client = server.connect();
    for _ in 0..100 {
        assert_eq!(client.get("/hello").text(), "hello");
    }
    for mut client in slow {
        assert_eq!(client.response().body.len(), 4 * 1024 * 1024);
    }
}

#[test]
fn a_slow_reader_of_a_stream_slows_its_upstream() {
    let (upstream, server) = by_hand("");
    // Not the peak, which includes pages of the program that this request is the first to need.
    let before = server.anonymous_memory_at_rest();
    let (mut client, mut peer) = ask(&server, &upstream, ANY);
    const BLOCKS: usize = 640;
    let sender = std::thread::spawn(move || {
        let block = vec![b'x'; 64 * 1024];
        peer.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", BLOCKS * block.len()));
        assert!((0..BLOCKS).all(|_| peer.send(&block)));
    });
    assert_eq!(client.response_to_head().status, 200);
    std::thread::sleep(std::time::Duration::from_millis(300));
    assert!(!sender.is_finished(), "40 MiB went nowhere");
    let growth = server.anonymous_memory().saturating_sub(before);
    assert!(growth < 8 * 1024, "they are in memory: {growth} KiB more");
    assert_eq!(client.rest_of(BLOCKS * 64 * 1024), BLOCKS * 64 * 1024);
    sender.join().unwrap();
}

#[test]
fn a_client_that_has_said_all_still_gets_its_response() {
    let (upstream, server) = by_hand("");
    let mut client = server.connect();
    client.send("POST /any HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n\r\nbody");
    client.finish();
    let mut peer = upstream.accept();
    assert!(peer.head().is_some());
    assert_eq!(peer.read(4), b"body");
    peer.send("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nlate");
    assert_eq!(client.response().text(), "late");
}

#[test]
fn a_client_that_leaves_a_response_is_not_worked_for() {
    let (upstream, server) = by_hand("");
    let (mut client, mut peer) = ask(&server, &upstream, ANY);
    peer.send(BEGUN);
    assert_eq!(client.response_to_head().status, 200);
    drop(client);
    eventually("the upstream may stop, too", || !peer.send("1\r\nx\r\n"));
    eventually("it is counted", || server.metric("weir_aborted_requests_total", &[]) == 1.0);
    assert_eq!(server.metric("http_server_active_requests", &[]), 0.0);
}

/// Asks for something that the upstream does not answer; the transaction is then to be given up.
fn silence() -> (Upstream, Server, Client, Peer) {
    let (upstream, server) = by_hand("tracker: {enabled: true}\n");
    let (client, peer) = ask(&server, &upstream, ANY);
    (upstream, server, client, peer)
}

#[test]
fn a_client_that_leaves_a_silent_upstream_is_noticed() {
    let (_upstream, mut server, client, mut peer) = silence();
    drop(client);
    // Long before the upstream's 30 s are over.
    assert_eq!(peer.some(), None, "the upstream is let go");
    eventually("it is counted", || server.metric("weir_aborted_requests_total", &[]) == 1.0);
    assert_eq!(server.metric("http_server_active_requests", &[]), 0.0);
    server.kill();
    let recorded = transactions(&server.data());
    assert_eq!(recorded.len(), 1);
    assert_eq!(recorded[0].outcome, weir_journal::Outcome::Interrupted);
}

#[test]
fn a_client_that_has_sent_its_next_request_is_still_there() {
    let (_upstream, server, mut client, mut peer) = silence();
    client.send("GET /any HTTP/1.1\r\nHost: h\r\n\r\n");
    std::thread::sleep(std::time::Duration::from_millis(1500));
    peer.send("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nfirst");
    assert_eq!(client.response().text(), "first");
    assert!(peer.head().is_some());
    peer.send("HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nsecond");
    assert_eq!(client.response().text(), "second");
    assert_eq!(server.metric("weir_aborted_requests_total", &[]), 0.0);
}

#[test]
fn a_client_that_breaks_its_connection_is_noticed_at_once() {
    let (_upstream, server, client, mut peer) = silence();
    client.reset();
    assert_eq!(peer.some(), None, "the upstream is let go");
    eventually("it is counted", || server.metric("weir_aborted_requests_total", &[]) == 1.0);
}

#[test]
fn a_client_that_cancels_a_stream_of_http2_is_noticed() {
    let (upstream, server) = by_hand("");
    let url = server.url("/any");
    let mut curl = Command::new("curl");
    curl.args(["-s", "--http2-prior-knowledge", "--max-time", "2", &url]);
    let mut curl = curl.spawn().unwrap();
    let mut peer = upstream.accept();
    assert!(peer.head().is_some());
    curl.wait().unwrap();
    eventually("it is counted", || server.metric("weir_aborted_requests_total", &[]) == 1.0);
    assert_eq!(peer.some(), None, "the upstream is let go");
}

#[test]
fn early_hints_reach_those_who_may_get_them_at_once() {
    let (upstream, server) = by_hand("");
    let (mut client, mut peer) = ask(&server, &upstream, ANY);
    peer.send("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\nConnection: x-hop\r\nX-Hop: 1\r\n\r\n");
    let early = client.any_response();
    assert_eq!((early.status, early.header("link")), (103, Some("</a.css>")));
    assert_eq!((early.header("connection"), early.header("x-hop")), (None, None));
    peer.send("HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nlate");
    assert_eq!(client.any_response().status, 103);
    assert_eq!(client.any_response().text(), "late");
    // The next request on the connection is none the wiser.
    client.send(ANY);
    assert!(peer.head().is_some());
    peer.send("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nnext");
    assert_eq!(client.any_response().text(), "next");

    let old = "GET /any HTTP/1.0\r\nHost: h\r\n\r\n";
    let mut client = server.connect();
    client.send(old);
    assert!(peer.head().is_some());
    peer.send("HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nold");
    assert_eq!(client.any_response().text(), "old");
}

#[test]
fn more_early_hints_than_fit_are_left_out() {
    let (upstream, server) = by_hand("");
    let (mut client, mut peer) = ask(&server, &upstream, ANY);
    let long = format!("HTTP/1.1 103 Early Hints\r\nLink: {}\r\n\r\n", "x".repeat(20_000));
    peer.send(long);
    peer.send("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nlate");
    assert_eq!(client.any_response().text(), "late");
}
