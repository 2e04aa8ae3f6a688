//! Requests over a real socket.

use super::*;
use crate::configuration::{Configuration, ReloadHistory};
use crate::metrics::{Family, Kind};
use std::path::Path;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use weir_config::Admin;
use weir_server::Gateway;

/// A server on a free port, and the gateway behind it.
async fn start() -> (SocketAddr, Arc<Gateway>) {
    let dir = tempfile::tempdir().unwrap();
    let text = "listen: [\"127.0.0.1:0\"]\nworkers: 1\n\
        apis: {a: {base: /, routes: [{get: /, reply: {text: a}}]}}\n";
    let loaded = weir_gateway::configuration::load_text("weir.yaml", text).unwrap();
    let (compiled, findings) = (loaded.compiled, loaded.findings);
    let hosts = vec!["ops.example.com".to_owned()];
    let addr = "127.0.0.1:0".parse().unwrap();
    let admin = Admin { addr, hosts, tls: None, clients: None, oidc: None };
    let config = Arc::new(Config { data: dir.path().to_owned(), admin, ..loaded.config });
    let bound = bind(&config, &Certificates::default(), &mut Passed::default()).unwrap();
    let gateway = Gateway::bind(&config, &mut Passed::default())
        .unwrap()
        .start(config, compiled, Vec::new())
        .unwrap();
    let gateway = Arc::new(gateway);
    let addr = bound.addr();
    let sources = Sources {
        gateway: Arc::clone(&gateway),
        metrics: Arc::new(|| vec![Family::single(Kind::Counter, "weir_test_total", "Test.", 7.0)]),
        configuration: Configuration {
            kept: None,
            source: Default::default(),
            history: Arc::new(ReloadHistory::new(Path::new("weir.yaml"), &findings)),
            reload: mpsc::channel(1).0,
        },
        access: None,
        events: None,
        lab: None,
        tracker: None,
        metering: None,
        gaps: None,
        fleet: None,
        sinks: None,
        resubmitter: None,
    };
    tokio::spawn(bound.serve(sources, Arc::new(|_| ()), watch::channel(false).1));
    (addr, gateway)
}

/// Sends one request and gives everything that comes back.
async fn ask(addr: SocketAddr, request: &str) -> String {
    let mut stream = TcpStream::connect(addr).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

async fn get(addr: SocketAddr, path: &str, host: &str) -> String {
    ask(addr, &format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n")).await
}

#[tokio::test]
async fn readiness_fails_while_draining_and_health_does_not() {
    let (addr, gateway) = start().await;
    assert!(get(addr, "/readyz", "localhost").await.starts_with("HTTP/1.1 200 "));
    gateway.start_draining();
    let answer = get(addr, "/readyz", "localhost").await;
    assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
    assert!(answer.contains("urn:weir:problem:draining"), "{answer}");
    assert!(get(addr, "/healthz", "localhost").await.starts_with("HTTP/1.1 200 "));
}

#[tokio::test]
async fn metrics_are_in_the_text_format() {
    let (addr, _) = start().await;
    let answer = get(addr, "/metrics", "ops.example.com").await;
    assert!(answer.contains("content-type: text/plain; version=0.0.4"), "{answer}");
    assert!(answer.ends_with("# TYPE weir_test_total counter\nweir_test_total 7\n"), "{answer}");
}

#[tokio::test]
async fn other_hosts_are_misdirected() {
    let (addr, _) = start().await;
    let answer = get(addr, "/metrics", "evil.example.com").await;
    assert!(answer.starts_with("HTTP/1.1 421 "), "{answer}");
    assert!(!answer.contains("weir_test_total"), "{answer}");
    let absolute = "GET http://evil.example.com/metrics HTTP/1.1\r\nHost: localhost\r\n\
        Connection: close\r\n\r\n";
    assert!(ask(addr, absolute).await.starts_with("HTTP/1.1 421 "));
}

#[tokio::test]
async fn exactly_one_host_is_needed() {
    let (addr, _) = start().await;
    for hosts in ["", "Host: localhost\r\nHost: localhost\r\n"] {
        let request = format!("GET /healthz HTTP/1.1\r\n{hosts}Connection: close\r\n\r\n");
        assert!(ask(addr, &request).await.starts_with("HTTP/1.1 400 "), "{hosts}");
    }
    assert!(ask(addr, "GET /healthz HTTP/1.0\r\n\r\n").await.contains(" 200 "));
}

#[tokio::test]
async fn unknown_pages_are_problems() {
    let (addr, _) = start().await;
    let answer = get(addr, "/nothing", "localhost").await;
    assert!(answer.starts_with("HTTP/1.1 404 "), "{answer}");
    assert!(answer.contains("application/problem+json"), "{answer}");
    assert!(answer.contains("cache-control: no-store"), "{answer}");
}

#[tokio::test]
async fn a_large_head_is_refused() {
    let (addr, _) = start().await;
    let large = "x".repeat(2 * MAX_HEAD_BYTES);
    let request = format!("GET / HTTP/1.1\r\nHost: localhost\r\nX: {large}\r\n\r\n");
    let mut stream = TcpStream::connect(addr).await.unwrap();
    let _ = stream.write_all(request.as_bytes()).await;
    let mut answer = [0; 12];
    let read = stream.read(&mut answer).await.unwrap_or(0);
    assert!(read == 0 || answer.starts_with(b"HTTP/1.1 431"), "{answer:?}");
}

#[tokio::test]
async fn connections_are_bounded() {
    let (addr, _) = start().await;
    let mut idle = Vec::new();
    for _ in 0..MAX_CONNECTIONS {
        idle.push(TcpStream::connect(addr).await.unwrap());
    }
    let mut refused = TcpStream::connect(addr).await.unwrap();
    let mut answer = Vec::new();
    let _ = refused.write_all(b"GET /healthz HTTP/1.0\r\n\r\n").await;
    let _ = refused.read_to_end(&mut answer).await;
    assert!(answer.is_empty());
}

#[test]
fn an_address_in_use_is_named() {
    let at = |addr| {
        let loaded = weir_gateway::configuration::load_text("weir.yaml", "{}").unwrap();
        let config = Config { admin: Admin { addr, ..loaded.config.admin }, ..loaded.config };
        bind(&config, &Certificates::default(), &mut Passed::default())
    };
    let first = at("127.0.0.1:0".parse().unwrap()).unwrap();
    let message = at(first.addr()).unwrap_err().to_string();
    assert!(message.contains(&first.addr().to_string()), "{message}");
}
