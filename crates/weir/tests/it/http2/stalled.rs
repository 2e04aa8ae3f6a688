//! Clients of HTTP/2 that take nothing of a response, or little of it.

use crate::harness::frames::{DATA, Frames, HEADERS, RST_STREAM};
use crate::harness::{Server, Upstream, Weir, eventually};
use std::time::Duration;

/// Streams of the client without a window; as many connections the upstream has.
const STREAMS: u32 = 80;

/// Opens so many streams that may get no byte, and waits until each has its head.
fn stall(server: &Server, path: &str, count: u32) -> Frames {
    let mut client = Frames::connect(server.listen[0], 0);
    for number in 0..count {
        client.get(2 * number + 1, path);
    }
    for _ in 0..count {
        let frame = client.next().expect("a head");
        assert_eq!((frame.kind, frame.status()), (HEADERS, 200), "{frame:?}");
    }
    client
}

/// Waits until every stream has been reset, whatever PINGs are acknowledged meanwhile.
fn see_resets(client: &mut Frames, count: u32) {
    for _ in 0..count {
        let frame = client.next().expect("the stream is reset");
        assert_eq!(frame.kind, RST_STREAM, "{frame:?}");
    }
}

/// A response of any length keeps its upstream's connection as long as its client takes nothing,
/// which must be no longer than any other client may.
fn upstream_connections_come_back(length: usize) {
    let upstream = Upstream::start(move |_, peer| {
        while peer.request().is_some() {
            // The first of each connection is for the client without a window.
            let length = if peer.last_head().starts_with("GET /large") { length } else { 2 };
            peer.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n"));
            peer.send(vec![b'x'; length]);
        }
    });
    let server = Weir::new(&format!(
        "listen: [127.0.0.1:0]\nworkers: 1\nlimits: {{idle: 2s}}
upstreams: {{up: {{targets: [\"http://{}\"], connections: {STREAMS}, connect_timeout: 20s}}}}
apis: {{api: {{base: /, routes: [{{path: \"/*\", proxy: up}}]}}}}\n",
        upstream.addr
    ))
    .start();
    let mut stalled = stall(&server, "/large", STREAMS);
    // Other clients wait until connections are free again.
    let mut other = server.connect();
    let answered = other.get("/small");
    assert_eq!((answered.status, answered.body), (200, b"xx".to_vec()), "of {length} bytes");
    see_resets(&mut stalled, STREAMS);
    eventually("nothing is in flight", || {
        server.metric("http_server_active_requests", &[]) == 0.0
            && server.metric("weir_aborted_requests_total", &[]) == f64::from(STREAMS)
    });
    assert!(server.metric("weir_request_timeouts_total", &[]) >= f64::from(STREAMS));
}

#[test]
fn clients_without_a_window_give_upstream_connections_back() {
    upstream_connections_come_back(8 * 1024 * 1024);
}

#[test]
fn clients_without_a_window_give_up_short_responses_too() {
    upstream_connections_come_back(5);
}

#[test]
fn clients_without_a_window_give_agents_back() {
    let server = Weir::new(&format!(
        "listen: [127.0.0.1:0]\nworkers: 1\nlimits: {{idle: 2s}}
pools: {{p: {{protocol: http, command: [python3, -S, agent.py, http], user: {}, agents: {{min: 2, max: 2}}, queue: {{wait: 20s}}}}}}
apis: {{api: {{base: /, routes: [{{path: \"/*\", pool: p}}]}}}}\n",
        rustix::process::geteuid().as_raw()
    ))
    .file("agent.py", include_str!("../pools/agent.py"))
    .start();
    let mut stalled = stall(&server, "/big?100", 2);
    // Another client waits until an agent is free again.
    assert_eq!(server.connect().get("/pid").status, 200);
    see_resets(&mut stalled, 2);
    eventually("they are counted", || {
        server.metric("weir_request_timeouts_total", &[]) >= 2.0
            && server.metric("http_server_active_requests", &[]) == 0.0
    });
}

/// Each wait is within the limit, all of them together are not.
#[test]
fn a_client_that_takes_little_at_a_time_gets_everything() {
    const STEPS: u32 = 40;
    let upstream = Upstream::responding(format!(
        "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{}",
        STEPS * 10,
        "0123456789".repeat(STEPS as usize)
    ));
    let server = super::server(upstream.addr, "limits: {idle: 3s}");
    let mut client = stall(&server, "/slow", 1);
    let mut body: Vec<u8> = Vec::new();
    for _ in 0..STEPS {
        std::thread::sleep(Duration::from_millis(100));
        client.grow_window(1, 10);
        let frame = client.next().expect("data");
        assert_eq!(frame.kind, DATA, "{frame:?}");
        body.extend_from_slice(&frame.payload);
    }
    assert_eq!(body, "0123456789".repeat(STEPS as usize).into_bytes());
    assert_eq!(server.metric("weir_aborted_requests_total", &[]), 0.0);
}
