//! Streams of messages: WebSockets against a real server, and peers that misbehave.

use crate::data::{folder, run};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;
use tungstenite::Message;
use weir_lab::engine::Summary;
use weir_lab::record::Tally;
use weir_lab::sample::ErrorKind;

/// Serves each connection on a thread of its own.
fn serve(answer: fn(TcpStream)) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            std::thread::spawn(move || answer(stream));
        }
    });
    addr
}

/// A WebSocket server: sends messages back, and closes after `bye`; a text `noise` comes first.
fn echo(stream: TcpStream) {
    let Ok(mut socket) = tungstenite::accept(stream) else { return };
    while let Ok(message) = socket.read() {
        if message == Message::text("bye") {
            let _ = socket.close(None);
        }
        if message.is_text() || message.is_binary() {
            let _ = socket.send(Message::text("noise"));
            let _ = socket.send(message);
        }
    }
}

/// Reads the head of a request. Returns it.
fn head(stream: &mut TcpStream) -> String {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).is_ok_and(|read| read > 0) {
        head.push(byte[0]);
    }
    String::from_utf8(head).unwrap()
}

/// Agrees to the WebSocket of a request, by hand.
fn agree(stream: &mut TcpStream) {
    let head = head(stream);
    let key = head.lines().find_map(|line| line.strip_prefix("Sec-WebSocket-Key: ")).unwrap();
    let accept = tungstenite::handshake::derive_accept_key(key.as_bytes());
    let answer = format!(
        "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Accept: {accept}\r\n\r\n"
    );
    stream.write_all(answer.as_bytes()).unwrap();
}

/// Runs a request against an address: samples of the stream and of its messages.
fn streamed(addr: SocketAddr, request: &str, load: &str) -> (Tally, Tally, Summary) {
    let text = format!(
        "lab: 1\ntarget: {{base: \"http://{addr}\", timeout: 2s}}\nrequests: [{{name: s, {request}}}]\n\
         load: {load}\n"
    );
    let summary = run(folder(&[]).path(), &text);
    (summary.total.labels[0].clone(), summary.total.labels[1].clone(), summary)
}

const TWICE: &str = "{executor: shared-iterations, vus: 1, iterations: 2}";

#[test]
fn messages_of_a_websocket_are_samples() {
    let request = "websocket: /chat, repeat: 5, checks: [{status: 101}, {body_contains: noise}], messages: \
                   [{send: \"hello ${user()}\", expect: \"^hello 1$\"}, {binary: AAEC, expect: \"(?-u)\\\\x00\\\\x01\"}, \
                   {json: {a: 1}}, {expect: '\"a\":1'}, {ping: true}]";
    let (stream, messages, _) = streamed(serve(echo), request, TWICE);
    assert_eq!((stream.ok, stream.failed(), stream.connects), (2, 0, 2));
    assert_eq!((messages.ok, messages.failed()), (2 * 5 * 5, 0));
    assert!(messages.sent > 0 && messages.received > messages.sent, "noise is received, too");
}

#[test]
fn websockets_of_an_open_model() {
    let request = "websocket: /, messages: [{send: a, expect: a}]";
    let load = "{executor: constant-arrival-rate, rate: 50, duration: 1s, max_in_flight: 10}";
    let (stream, messages, _) = streamed(serve(echo), request, load);
    assert_eq!((stream.failed(), stream.ok, messages.ok), (0, 50, 50));
}

#[test]
fn pings_are_answered_during_a_pause() {
    let strict = |stream: TcpStream| {
        let Ok(mut socket) = tungstenite::accept(stream) else { return };
        let _ = socket.send(Message::text("early"));
        let _ = socket.send(Message::Ping(bytes::Bytes::from_static(b"there?")));
        // Hangs up on a client without a pong.
        socket.get_ref().set_read_timeout(Some(Duration::from_millis(200))).unwrap();
        if !socket.read().is_ok_and(|message| message.is_pong()) {
            return;
        }
        socket.get_ref().set_read_timeout(None).unwrap();
        while socket.read().is_ok_and(|_| socket.send(Message::text("back")).is_ok()) {}
    };
    let request =
        "websocket: /, messages: [{pause: 500ms, send: a, expect: early}, {send: b, expect: back}]";
    let (stream, messages, _) = streamed(serve(strict), request, TWICE);
    assert_eq!((stream.ok, messages.ok, messages.failed()), (2, 4, 0));
}

/// The errors of a stream that fails, with the message.
fn failure(answer: fn(TcpStream), request: &str) -> (ErrorKind, String) {
    let one = "{executor: shared-iterations, vus: 1, iterations: 1}";
    let request = format!("timeout: 300ms, {request}");
    let (stream, _, summary) = streamed(serve(answer), &request, one);
    assert_eq!((stream.ok, stream.failed()), (0, 1));
    let error = summary.total.failures.groups().iter().find(|error| error.label.0 == 0).unwrap();
    (error.kind, error.message.clone())
}

#[test]
fn peers_that_fail_at_websockets() {
    let request = "websocket: /, messages: [{send: hello, expect: nothing}]";
    let (kind, message) = failure(echo, request);
    assert_eq!(kind, ErrorKind::Timeout);
    assert!(
        message.contains("no message matches nothing within 300ms; the last one was"),
        "{message}"
    );
    let (kind, message) = failure(echo, "websocket: /, messages: [{send: bye, expect: nothing}]");
    assert_eq!((kind, message.contains("closed")), (ErrorKind::Closed, true), "{message}");
    let refused = |mut stream: TcpStream| {
        head(&mut stream);
        stream.write_all(b"HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\n\r\n").unwrap();
    };
    assert_eq!(failure(refused, request), (ErrorKind::Http4xx, "Forbidden".to_owned()));
    let other_key = |mut stream: TcpStream| {
        head(&mut stream);
        let answer = b"HTTP/1.1 101 OK\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: x\r\n\r\n";
        stream.write_all(answer).unwrap();
    };
    let (kind, message) = failure(other_key, request);
    assert_eq!((kind, message.contains("does not match the key")), (ErrorKind::Protocol, true));
    let malformed = |mut stream: TcpStream| {
        agree(&mut stream);
        // A reserved opcode.
        stream.write_all(&[0x83, 0x01, b'x']).unwrap();
        std::thread::sleep(Duration::from_secs(1));
    };
    assert_eq!(failure(malformed, request).0, ErrorKind::Protocol);
    let cut = |mut stream: TcpStream| {
        agree(&mut stream);
        // Half of a frame.
        stream.write_all(&[0x81, 0x7E, 0x10]).unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let _ = stream.read_to_end(&mut Vec::new());
    };
    assert_eq!(failure(cut, request).0, ErrorKind::Closed);
    let silent = |mut stream: TcpStream| {
        head(&mut stream);
        std::thread::sleep(Duration::from_secs(1));
    };
    assert_eq!(failure(silent, request).0, ErrorKind::Timeout);
}

/// Sends three events in chunks, the last one of type `done`, and goes on with comments.
fn feed(mut stream: TcpStream) {
    let head = head(&mut stream);
    assert!(head.contains("Accept: text/event-stream"), "{head}");
    let mut text = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\n\
                    transfer-encoding: chunked\r\n\r\n"
        .to_owned();
    for part in ["data: a\n\nda", "ta: {\"n\": 7}\n", "\nevent: done\ndata: c\n\n"] {
        text.push_str(&format!("{:x}\r\n{part}\r\n", part.len()));
    }
    if head.starts_with("GET /ends") {
        text.push_str("0\r\n\r\n");
    }
    stream.write_all(text.as_bytes()).unwrap();
    while !head.starts_with("GET /cut") && stream.write_all(b"3\r\n:c\n\r\n").is_ok() {
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn events_are_samples() {
    for (request, events) in [
        ("sse: /", None),
        ("sse: /ends", Some(3)),
        ("sse: /, until: {events: 2}", Some(2)),
        ("sse: /, until: {event: done}", Some(3)),
        ("sse: /, until: {data: '\"n\": \\d'}, checks: [{body_contains: 'data: a'}]", Some(2)),
        ("sse: /, until: {time: 100ms}", Some(3)),
    ] {
        let load = match events {
            Some(_) => TWICE,
            // Without a limit the stream ends with the load.
            None => "{executor: constant-vus, vus: 2, duration: 300ms}",
        };
        let (stream, messages, _) = streamed(serve(feed), request, load);
        let expected = (2, 0, 2 * events.unwrap_or(3));
        assert_eq!((stream.ok, stream.failed(), messages.ok), expected, "{request}");
    }
}

#[test]
fn peers_that_fail_at_events() {
    let (kind, message) = failure(feed, "sse: /ends, until: {events: 9}");
    assert_eq!(kind, ErrorKind::Closed);
    assert_eq!(message, "the stream ended after 3 events, before 9 events");
    assert_eq!(failure(feed, "sse: /cut").0, ErrorKind::Closed);
    let (kind, message) = failure(feed, "sse: /, until: {events: 9}");
    assert_eq!((kind, message.as_str()), (ErrorKind::Timeout, "no event within 300ms"));
    let page = |mut stream: TcpStream| {
        head(&mut stream);
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").unwrap();
    };
    assert_eq!(failure(page, "sse: /").0, ErrorKind::Protocol);
    let broken = |mut stream: TcpStream| {
        head(&mut stream);
        let text = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\
                    transfer-encoding: chunked\r\n\r\nxyz\r\n";
        stream.write_all(text.as_bytes()).unwrap();
    };
    assert_eq!(failure(broken, "sse: /").0, ErrorKind::Protocol);
    let unavailable = |mut stream: TcpStream| {
        head(&mut stream);
        stream.write_all(b"HTTP/1.1 503 Busy\r\ncontent-length: 0\r\n\r\n").unwrap();
    };
    assert_eq!(failure(unavailable, "sse: /"), (ErrorKind::Http503, "Busy".to_owned()));
}

/// A server of HTTP/2 that sends three events, the last one of type `done`; after a path other than `/ends` the
/// response goes on.
fn feed_http2() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let addr = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async move {
            let listener = tokio::net::TcpListener::from_std(listener).unwrap();
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(async move {
                    let Ok(mut connection) = h2::server::handshake(stream).await else { return };
                    while let Some(Ok((request, mut respond))) = connection.accept().await {
                        assert_eq!(request.headers()["accept"], "text/event-stream");
                        let ends = request.uri().path() == "/ends";
                        tokio::spawn(async move {
                            let head = http::Response::builder();
                            let head = head.header("content-type", "text/event-stream").body(());
                            let mut body = respond.send_response(head.unwrap(), false).unwrap();
                            for part in ["data: a\n\nda", "ta: b\n\n", "event: done\ndata: c\n\n"] {
                                let _ = body.send_data(bytes::Bytes::from(part), false);
                                tokio::time::sleep(Duration::from_millis(1)).await;
                            }
                            if ends {
                                let _ = body.send_data(bytes::Bytes::new(), true);
                            }
                            tokio::time::sleep(Duration::from_secs(20)).await;
                        });
                    }
                });
            }
        });
    });
    addr
}

#[test]
fn events_come_over_http2() {
    let addr = feed_http2();
    for request in
        ["sse: /ends", "sse: /, until: {event: done}, checks: [{body_contains: 'data: b'}]"]
    {
        let text = format!(
            "lab: 1\ntarget: {{base: \"http://{addr}\", http2: true, timeout: 2s}}\n\
             requests: [{{name: s, {request}}}]\nload: {TWICE}\n"
        );
        let summary = run(folder(&[]).path(), &text);
        let (stream, messages) = (&summary.total.labels[0], &summary.total.labels[1]);
        let failed = summary.total.failures.groups();
        assert_eq!((stream.ok, messages.ok, stream.connects), (2, 6, 2), "{request}: {failed:?}");
        assert!(stream.received > 0 && stream.body > 0 && stream.sent > 0);
    }
    let cut = "timeout: 300ms, sse: /, until: {events: 9}";
    let text = format!(
        "lab: 1\ntarget: {{base: \"http://{addr}\", http2: true}}\nrequests: [{{name: s, {cut}}}]\nload: {TWICE}\n"
    );
    let summary = run(folder(&[]).path(), &text);
    assert_eq!(summary.total.labels[0].errors[ErrorKind::Timeout.index()], 2);
}
