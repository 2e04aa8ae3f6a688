//! Connections that become WebSockets, or something else: real clients and servers, and ends of
//! every kind.

mod ends;

use crate::harness::{self, Client, Peer, Response, Server, Upstream, Weir, eventually};
use std::net::{SocketAddr, TcpListener, TcpStream};
use tungstenite::protocol::frame::coding::CloseCode;
use tungstenite::protocol::{CloseFrame, WebSocket};
use tungstenite::{Message, client::IntoClientRequest};
use weir_journal::{Outcome, Transaction};

/// A WebSocket server that answers every message with itself, a thread a connection.
pub(crate) fn echo() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let addr = listener.local_addr().expect("an address");
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            std::thread::spawn(move || {
                let Ok(mut socket) = tungstenite::accept(stream) else { return };
                while let Ok(message) = socket.read() {
                    if (message.is_text() || message.is_binary()) && socket.send(message).is_err() {
                        return;
                    }
                }
            });
        }
    });
    addr
}

/// weir in front of one target, recording what passes.
pub(crate) fn before(addr: SocketAddr, upgrade: &str, more: &str) -> Server {
    Weir::new(&config(addr, upgrade, more)).start()
}

fn config(addr: SocketAddr, upgrade: &str, more: &str) -> String {
    format!(
        "listen: [{{addr: \"127.0.0.1:0\"}}]\nworkers: 1\ntracker: {{enabled: true}}\n\
         upstreams: {{chat: {{targets: [\"http://{addr}\"], timeout: 5s}}}}\n\
         apis:\n  all:\n    base: /\n    routes:\n      - {{get: /plain, proxy: chat}}\n      \
         - {{path: \"/*\", proxy: {{upstream: chat, upgrade: {upgrade}}}}}\n{more}"
    )
}

/// A real client's WebSocket at a path.
fn open(weir: &Server, path: &str) -> WebSocket<TcpStream> {
    let stream = TcpStream::connect(weir.listen[0]).expect("a connection");
    stream.set_read_timeout(Some(harness::PATIENCE)).expect("a timeout");
    let request = format!("ws://{}{path}", weir.listen[0]).into_client_request().expect("a URL");
    tungstenite::client(request, stream).expect("a handshake").0
}

/// The head of a request for an upgrade.
fn asking(path: &str, protocol: &str) -> String {
    format!(
        "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: keep-alive, Upgrade\r\n\
         Upgrade: {protocol}\r\nSec-WebSocket-Version: 13\r\n\
         Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    )
}

/// The head with which an upstream agrees.
fn agreeing(protocol: &str) -> String {
    format!(
        "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: {protocol}\r\n\r\n"
    )
}

/// A client and an upstream played by hand that have agreed to speak `protocol`.
fn agreed(weir: &Server, upstream: &Upstream, protocol: &str) -> (Client, Peer) {
    let mut client = weir.connect();
    client.send(asking("/x", protocol));
    let mut peer = upstream.accept();
    peer.head().expect("a request");
    peer.send(agreeing(protocol));
    assert_eq!(client.any_response().status, 101);
    (client, peer)
}

fn assert_problem(response: &Response, status: u16, slug: &str) {
    assert_eq!(response.status, status, "{}", response.text());
    assert_eq!(response.json()["type"], format!("urn:weir:problem:{slug}"));
}

/// The only transaction, once weir has been stopped.
fn only(weir: &mut Server) -> Transaction {
    weir.kill();
    let mut all = harness::transactions(&weir.data());
    assert_eq!(all.len(), 1, "{all:?}");
    all.remove(0)
}

fn property<'t>(transaction: &'t Transaction, name: &str) -> &'t str {
    let found = transaction.properties.iter().find(|(known, _)| known == name);
    found.map_or("", |(_, value)| value)
}

fn ended(weir: &Server, by: &str) -> f64 {
    weir.metric("weir_upgrades_total", &[&format!("weir_ended_by=\"{by}\"")])
}

#[test]
fn messages_of_a_real_client_and_a_real_server_pass_both_ways() {
    let mut weir = before(echo(), "websocket", "");
    let mut socket = open(&weir, "/chat");
    assert_eq!(weir.metric("weir_upgrades_open", &[]), 1.0);
    let long = Message::binary(vec![7; 3 << 20]);
    let texts = (0..100).map(|number| Message::text(format!("message {number}")));
    for message in texts.chain([Message::text(""), long]) {
        socket.send(message.clone()).expect("it is open");
        assert_eq!(socket.read().expect("an answer"), message);
    }
    socket.send(Message::Ping(vec![1, 2].into())).expect("it is open");
    assert_eq!(socket.read().expect("an answer"), Message::Pong(vec![1, 2].into()));
    let frame = CloseFrame { code: CloseCode::Normal, reason: "done".into() };
    socket.close(Some(frame)).expect("it is open");
    while socket.read().is_ok() {}
    eventually("it is over", || ended(&weir, "client") == 1.0);
    assert_eq!(weir.metric("weir_upgrades_open", &[]), 0.0);
    assert_eq!(weir.metric("http_client_open_connections", &[]), 0.0);
    assert!(weir.metric("weir_request_body_bytes_total", &[]) > 3e6);

    let transaction = only(&mut weir);
    assert_eq!((transaction.outcome, transaction.status), (Outcome::Completed, 101));
    assert_eq!(property(&transaction, "upgrade"), "websocket");
    assert_eq!(property(&transaction, "upgrade_ended_by"), "client");
    assert_eq!(property(&transaction, "upgrade_close_status"), "1000");
    assert_eq!(property(&transaction, "upgrade_messages_in"), "102");
    assert_eq!(property(&transaction, "upgrade_messages_out"), "102");
    // What frames have around them differs by the mask that clients put on theirs.
    let (up, down) = (transaction.request.length, transaction.response.length);
    assert!(up > 3 << 20 && up < (3 << 20) + 4000 && down < up, "{up} and {down}");
    assert!(transaction.request_body.is_empty() && transaction.response_body.is_empty());
    let head = String::from_utf8(transaction.response_head).expect("text");
    assert!(head.contains("sec-websocket-accept: ") || head.contains("Sec-WebSocket-Accept: "));
}

#[test]
fn the_upstream_is_asked_for_what_was_chosen_and_bytes_behind_the_heads_pass() {
    let upstream = Upstream::by_hand();
    let weir = before(upstream.addr, "{protocols: [foo/2, WebSocket]}", "");
    let mut client = weir.connect();
    client.send(asking("/x?a=1", "bar, FOO/2, websocket") + "early");
    let mut peer = upstream.accept();
    let head = peer.head().expect("a request").to_ascii_lowercase();
    assert!(head.starts_with("get /x?a=1 http/1.1\r\n"), "{head}");
    assert!(head.contains("\r\nconnection: upgrade\r\nupgrade: foo/2\r\n"), "{head}");
    assert!(head.contains("\r\nsec-websocket-key: dghlihnhbxbszsbub25jzq==\r\n"), "{head}");
    assert_eq!(head.matches("upgrade:").count(), 1, "{head}");
    peer.send(agreeing("Foo/2") + "first");
    let response = client.any_response();
    assert_eq!(response.status, 101);
    assert_eq!(response.header("upgrade"), Some("foo/2"));
    assert_eq!(response.header("connection"), Some("upgrade"));
    assert!(
        response.header("weir-transaction-id").is_some()
            && response.header("content-length").is_none()
    );
    assert_eq!(peer.read(5), b"early");
    peer.send(" and last");
    peer.finish();
    peer.reset();
    assert_eq!(client.rest_of(14), 14);
}

#[test]
fn a_websocket_is_refused_where_the_route_has_none_and_other_upgrades_are_left_out() {
    let upstream = Upstream::responding("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    let weir = before(upstream.addr, "mqtt", "");
    let mut client = weir.connect();
    for path in ["/plain", "/x"] {
        client.send(asking(path, "websocket"));
        assert_problem(&client.response(), 403, "upgrade-refused");
    }
    assert_eq!(weir.metric("weir_upgrades_refused_total", &[]), 2.0);
    assert_eq!(upstream.heads().len(), 0);
    client.send(asking("/plain", "h2c"));
    assert_eq!(client.response().text(), "ok");
    // Without a token in Connection it is none of weir's business.
    client.send("GET /plain HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\n\r\n");
    assert_eq!(client.response().text(), "ok");
    let heads = upstream.heads().concat().to_ascii_lowercase();
    assert!(!heads.contains("\r\nupgrade:") && !heads.contains("\r\nconnection:"), "{heads}");
}

#[test]
fn what_is_no_request_for_an_upgrade_is_refused() {
    let upstream = Upstream::responding("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    let weir = before(upstream.addr, "websocket", "");
    let post = asking("/x", "websocket").replace("GET ", "POST ");
    let body = asking("/x", "websocket").replace("Host:", "Content-Length: 2\r\nHost:") + "hi";
    for request in [post, body] {
        let mut client = weir.connect();
        client.send(request);
        assert_problem(&client.response(), 400, "bad-request");
    }
    assert_eq!(upstream.connections(), 0);
}

#[test]
fn an_upstream_may_refuse_and_the_connection_goes_on() {
    let response =
        "HTTP/1.1 426 Upgrade Required\r\nUpgrade: websocket\r\nContent-Length: 2\r\n\r\nno";
    let upstream = Upstream::responding(response);
    let weir = before(upstream.addr, "websocket", "");
    let mut client = weir.connect();
    for _ in 0..2 {
        client.send(asking("/x", "websocket"));
        let response = client.response();
        assert_eq!((response.status, response.text().as_str()), (426, "no"));
    }
    assert_eq!(upstream.connections(), 1);
    assert_eq!(weir.metric("weir_upgrades_open", &[]), 0.0);
}

#[test]
fn an_upstream_that_agrees_to_something_else_is_garbage() {
    for response in [
        agreeing("mqtt"),
        agreeing("websocket, mqtt"),
        "HTTP/1.1 101 Switching Protocols\r\n\r\n".to_owned(),
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n".to_owned(),
    ] {
        let upstream = Upstream::responding(response);
        let weir = before(upstream.addr, "websocket", "");
        let mut client = weir.connect();
        client.send(asking("/x", "websocket"));
        assert_problem(&client.response(), 502, "upstream-garbage");
        client.send("GET /plain HTTP/1.1\r\nHost: localhost\r\n\r\n");
        assert_problem(&client.response(), 502, "upstream-garbage");
    }
}

#[test]
fn policies_come_before_an_upgrade() {
    let key = harness::key_hash("right");
    let more = format!(
        "  locked:\n    base: /locked\n    auth: keys\n    routes: \
         [{{get: /chat, proxy: {{upstream: chat, upgrade: websocket}}}}]\n\
         auth: {{keys: {{api_key: {{header: x-key}}}}}}\nconsumers: {{me: {{api_keys: [\"{key}\"]}}}}\n"
    );
    let weir = before(echo(), "websocket", &more);
    let mut client = weir.connect();
    client.send(asking("/locked/chat", "websocket"));
    assert_problem(&client.response(), 401, "missing-credential");
    client.send(asking("/locked/chat", "websocket").replace("Host:", "X-Key: right\r\nHost:"));
    assert_eq!(client.any_response().status, 101);
}

#[test]
fn a_side_that_is_not_read_from_holds_the_other_up() {
    let upstream = Upstream::by_hand();
    let weir = before(upstream.addr, "websocket", "");
    let (client, mut peer) = agreed(&weir, &upstream, "websocket");
    let before = weir.anonymous_memory_at_rest();
    let sender = client.sender();
    let total = 64 << 20;
    let sent = std::thread::spawn(move || sender.send(&vec![0; total]));
    std::thread::sleep(std::time::Duration::from_millis(500));
    assert!(!sent.is_finished(), "64 MiB have gone somewhere");
    let grown = weir.anonymous_memory().saturating_sub(before);
    assert!(grown < 4 << 10, "{grown} KiB");
    assert_eq!(peer.drain(total), total);
    sent.join().expect("no panic").expect("it is open");
}

#[test]
fn explain_tells_of_it() {
    let upstream = Upstream::by_hand();
    let weir = before(upstream.addr, "websocket", "");
    let explain = |path: &str| {
        let url = weir.url(path);
        let headers = ["-H", "connection: upgrade", "-H", "upgrade: websocket"];
        let mut args = vec!["explain", "--json", "--config", "weir.yaml", "GET", &url];
        args.extend(headers);
        let output = harness::weir(weir.dir(), &args);
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let told = explain("/x");
    assert!(told.contains("upgrade to websocket allowed"), "{told}");
    assert!(told.contains("\"upgrade\""), "{told}");
    assert!(explain("/plain").contains("upgrade-refused"));
}

#[test]
fn pages_of_other_hosts_open_no_websocket_unless_they_are_listed() {
    let upstream = Upstream::responding(agreeing("websocket"));
    let asked = |weir: &Server, origins: &[&str]| {
        let lines: String = origins.iter().map(|origin| format!("Origin: {origin}\r\n")).collect();
        let mut client = weir.connect();
        client.send(format!(
            "GET /x HTTP/1.1\r\nHost: app.example:8080\r\nConnection: Upgrade\r\n\
             Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
             Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n{lines}\r\n"
        ));
        client.any_response()
    };
    let weir = before(upstream.addr, "websocket", "");
    for origins in [&[][..], &["http://app.example:8080"], &["https://APP.example:8080"]] {
        assert_eq!(asked(&weir, origins).status, 101, "{origins:?}");
    }
    for origins in [
        &["http://evil.example"][..],
        &["http://app.example"],
        &["http://app.example:3000"],
        &["null"],
        &["http://app.example:8080.evil.example"],
        &["http://app.example:8080", "http://evil.example"],
    ] {
        assert_problem(&asked(&weir, origins), 403, "upgrade-refused");
    }
    let listed = "{protocols: websocket, origins: \"https://pages.example\"}";
    let weir = before(upstream.addr, listed, "");
    assert_eq!(asked(&weir, &["https://pages.example"]).status, 101);
    assert_problem(&asked(&weir, &["https://evil.example"]), 403, "upgrade-refused");
    let weir = before(upstream.addr, "{protocols: websocket, origins: \"*\"}", "");
    assert_eq!(asked(&weir, &["https://evil.example"]).status, 101);
    // What is new is reported, with the way out of it.
    let is_reported = || {
        let output = harness::weir(weir.dir(), &["check", "weir.yaml"]);
        let text = [output.stdout, output.stderr].concat();
        String::from_utf8_lossy(&text).contains("websocket-origins")
    };
    assert!(!is_reported());
    std::fs::write(weir.dir().join("weir.yaml"), config(upstream.addr, "websocket", "")).unwrap();
    assert!(is_reported());
}
