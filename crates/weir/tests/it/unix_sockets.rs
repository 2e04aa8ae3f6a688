//! Upstreams at Unix domain sockets: nginx by both versions of HTTP, a socket that is not there yet, and one
//! whose queue of connections is full.

use crate::admin_api::{first_token, get};
use crate::harness::{RealServer, Server, Weir, eventually};
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixListener;
use std::path::Path;

fn weir(socket: &Path, more: &str) -> Server {
    let text = format!(
        "workers: 1\nlisten: [{{addr: \"127.0.0.1:0\"}}]\ntracker: {{enabled: true}}\n\
         upstreams: {{app: {{targets: [\"unix:{}\"]{more}}}}}\n\
         apis: {{all: {{base: /, routes: [{{path: \"/*\", proxy: app}}]}}}}\n",
        socket.display()
    );
    Weir::new(&text).start()
}

#[test]
fn nginx_is_reached_by_both_versions_and_connections_are_reused() {
    let nginx = RealServer::nginx();
    for (version, more) in [(1, ""), (2, ", protocol: http2")] {
        let socket = nginx.socket(version);
        let server = weir(&socket, more);
        let mut client = server.connect();
        for number in 0..5 {
            let response = client.post(&format!("/orders/{number}"), &"x".repeat(20_000));
            assert_eq!(response.status, 200, "{version}: {}", response.text());
            assert_eq!(response.text(), format!("POST /orders/{number}"));
            let seen = format!("localhostunix:{}", socket.display());
            assert_eq!(response.header("x-host"), Some(seen.as_str()), "{version}");
        }
        let address = format!("server_address=\"{}\"", socket.display());
        let connections =
            server.metric("weir_upstream_connects_total", &[&address, "server_port=\"0\""]);
        assert_eq!(connections, 1.0, "{version}");
        let token = first_token(&server);
        let page = get(&server, "/v1/transactions?limit=1", &token).json();
        let id = page["transactions"][0]["id"].as_str().unwrap().to_owned();
        let shown = get(&server, &format!("/v1/transactions/{id}"), &token).text();
        assert!(shown.contains(&format!("unix:{}", socket.display())), "{shown}");
    }
}

#[test]
fn a_socket_that_appears_later_is_used_then() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("app.sock");
    let server = weir(&socket, ", health: {failures: 0}");
    let mut client = server.connect();
    let response = client.get("/");
    assert_eq!(response.status, 502);
    assert!(response.text().contains("upstream-unreachable"), "{}", response.text());
    let listener = UnixListener::bind(&socket).unwrap();
    std::thread::spawn(move || serve(&listener));
    eventually("it is used", || client.get("/").status == 200);
}

#[test]
fn a_full_queue_of_connections_is_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("app.sock");
    let address = socket2::SockAddr::unix(&path).unwrap();
    let socket =
        || socket2::Socket::new(socket2::Domain::UNIX, socket2::Type::STREAM, None).unwrap();
    let listener = socket();
    listener.bind(&address).unwrap();
    listener.listen(0).unwrap();
    let mut waiting = Vec::new();
    loop {
        let one = socket();
        one.set_nonblocking(true).unwrap();
        match one.connect(&address) {
            Ok(()) => waiting.push(one),
            Err(error) => break assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock),
        }
    }
    let server = weir(&path, "");
    let asked = std::thread::spawn({
        let mut client = server.connect();
        move || client.get("/").status
    });
    eventually("the request waits", || server.metric("weir_upstream_connects_total", &[]) == 1.0);
    assert!(!asked.is_finished());
    drop(waiting);
    let listener = UnixListener::from(listener);
    std::thread::spawn(move || serve(&listener));
    assert_eq!(asked.join().unwrap(), 200);
}

/// Responds to each connection once.
fn serve(listener: &UnixListener) {
    for stream in listener.incoming() {
        let Ok(mut stream) = stream else { return };
        let mut request = [0; 4096];
        if matches!(stream.read(&mut request), Ok(1..)) {
            let _ = stream
                .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
        }
    }
}
