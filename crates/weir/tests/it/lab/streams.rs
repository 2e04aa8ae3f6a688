//! `weir lab run` with streams of messages, through weir as a proxy to real servers.

use crate::harness::weir;
use crate::upgrades::{before, echo};
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener};

/// A server of three events for each request.
fn feed() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let addr = listener.local_addr().expect("an address");
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let head = BufReader::new(stream.try_clone().expect("a copy")).lines();
            head.map_while(Result::ok).take_while(|line| !line.is_empty()).for_each(drop);
            let text = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n\
                        data: a\n\ndata: b\n\nevent: done\ndata: c\n\n";
            let _ = stream.write_all(text.as_bytes());
        }
    });
    addr
}

/// Runs a request against weir in front of a server: successes of the stream and of its messages.
fn through_weir(addr: SocketAddr, request: &str) -> (Value, Value) {
    let proxy = before(addr, "websocket", "");
    let dir = tempfile::tempdir().expect("a folder");
    let scenario = format!(
        "lab: 1\ntarget: {{base: \"http://{}\", timeout: 5s}}\nrequests: [{{name: s, {request}}}]\n\
         load: {{executor: shared-iterations, vus: 2, iterations: 10}}\n\
         thresholds: [\"error-rate<=0\"]\n",
        proxy.listen[0]
    );
    fs::write(dir.path().join("scenario.yaml"), scenario).expect("written");
    let output = weir(dir.path(), &["lab", "run", "scenario.yaml", "--out", "out"]);
    assert!(output.status.success(), "{output:?}");
    let text = fs::read_to_string(dir.path().join("out/summary.json")).expect("a summary");
    let summary: Value = serde_json::from_str(&text).expect("JSON");
    let labels = &summary["cells"][0]["labels"];
    // The first row is the total.
    (labels[1]["ok"].clone(), labels[2]["ok"].clone())
}

#[test]
fn websockets_and_events_pass_through_weir() {
    let request = "websocket: /x, repeat: 3, messages: [{send: \"a ${uuid()}\", expect: \"^a \"}, {ping: true}]";
    assert_eq!(through_weir(echo(), request), (10.into(), 60.into()));
    let request = "sse: /feed, until: {event: done}, checks: [{body_contains: \"data: b\"}]";
    assert_eq!(through_weir(feed(), request), (10.into(), 30.into()));
}
