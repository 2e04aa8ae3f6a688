//! Services as upstreams: a real DNS server (dnsmasq) says by SRV records which servers there are.

use crate::harness::{
    Certificate, FullBacklog, PATIENCE, Server, Upstream, Weir, eventually, nobody,
};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const DNSMASQ: &str = "/usr/sbin/dnsmasq";
const SERVICE: &str = "_api._tcp.shop.test";

/// A DNS server that knows one host and these records.
struct Dns {
    child: Option<Child>,
    addr: SocketAddr,
}

impl Dns {
    /// Records are `port,priority,weight` at the host; an empty one says that there is no server.
    fn knowing(records: &[String]) -> Self {
        // The port is free when it is chosen; another process may be faster.
        for _ in 0..5 {
            let mut dns = Self { child: None, addr: nobody() };
            if dns.start(records) {
                return dns;
            }
        }
        panic!("{DNSMASQ} does not start");
    }

    fn start(&mut self, records: &[String]) -> bool {
        let mut command = Command::new(DNSMASQ);
        command.args([
            "--keep-in-foreground",
            "--conf-file=/dev/null",
            "--no-resolv",
            "--no-hosts",
        ]);
        command.args(["--bind-interfaces", "--listen-address=127.0.0.1", "--pid-file="]);
        command.arg(format!("--port={}", self.addr.port()));
        command.arg("--host-record=one.shop.test,127.0.0.1");
        for record in records {
            let server = if record.is_empty() { "" } else { ",one.shop.test," };
            command.arg(format!("--srv-host={SERVICE}{server}{record}"));
        }
        let child = command.stdin(Stdio::null()).stderr(Stdio::null()).spawn();
        let child = self.child.insert(child.expect("dnsmasq is needed: run `make setup`"));
        let end = Instant::now() + PATIENCE;
        while Instant::now() < end && child.try_wait().ok().flatten().is_none() {
            if TcpStream::connect(self.addr).is_ok() {
                return true;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        false
    }

    fn stop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    fn knows_now(&mut self, records: &[String]) {
        self.stop();
        assert!(self.start(records), "its port is taken");
    }
}

impl Drop for Dns {
    fn drop(&mut self) {
        self.stop();
    }
}

/// The record of a server at this address.
fn record(addr: SocketAddr, priority: u16, weight: u16) -> String {
    format!("{},{priority},{weight}", addr.port())
}

/// A server that answers with this text, and closes the connection if it is not kept.
fn responding(text: &str, kept: bool) -> Upstream {
    let connection = if kept { "keep-alive" } else { "close" };
    let head = format!("Connection: {connection}\r\nContent-Length: {}", text.len());
    Upstream::responding(format!("HTTP/1.1 200 OK\r\n{head}\r\n\r\n{text}"))
}

/// weir in front of the service, which it asks for every second.
fn before(dns: &Dns, settings: &str) -> Server {
    let config = format!(
        "listen: [{{addr: \"127.0.0.1:0\"}}]\nworkers: 1\n\
         upstreams:\n  one: {{targets: [\"srv+http://{SERVICE}\"], resolver: \"{}\", \
         resolve: 1s, health: {{failures: 0}}{settings}}}\n\
         apis:\n  all:\n    base: /\n    routes: [{{path: \"/*\", proxy: one}}]\n",
        dns.addr
    );
    Weir::new(&config).start()
}

fn asked(weir: &Server, result: &str) -> f64 {
    let labels = [
        format!("weir_result=\"{result}\""),
        format!("server_address=\"{SERVICE}\",server_port=\"0\""),
    ];
    weir.metric("weir_upstream_resolutions_total", &labels.each_ref().map(String::as_str))
}

/// Waits until requests are answered with this text.
fn answered_with(weir: &Server, text: &str) {
    eventually(&format!("{text} answers"), || weir.connect().get("/x").text() == text);
}

#[test]
fn the_lowest_priority_is_preferred_and_the_next_takes_over_when_it_is_dead() {
    let (first, second) = (responding("first", false), responding("second", false));
    let dns = Dns::knowing(&[record(second.addr, 20, 90), record(first.addr, 10, 0)]);
    let weir = before(&dns, "");
    for _ in 0..10 {
        assert_eq!(weir.connect().get("/x").text(), "first");
    }
    let head = first.heads().remove(0).to_ascii_lowercase();
    assert!(head.contains("\r\nhost: shop.test\r\n"), "{head}");
    assert_eq!((asked(&weir, "good") >= 1.0, asked(&weir, "bad")), (true, 0.0));
    drop(first);
    answered_with(&weir, "second");
    for _ in 0..10 {
        assert_eq!(weir.connect().get("/x").text(), "second");
    }
}

#[test]
fn a_server_that_does_not_respond_leaves_time_for_the_next() {
    let (silent, second) = (FullBacklog::new(), responding("second", true));
    let dns = Dns::knowing(&[record(silent.addr, 10, 0), record(second.addr, 20, 0)]);
    let weir = before(&dns, ", connect_timeout: 4s");
    assert_eq!(weir.connect().get("/x").text(), "second");
}

#[test]
fn connections_are_spread_by_the_weights() {
    let (heavy, light) = (responding("heavy", false), responding("light", false));
    let dns = Dns::knowing(&[record(light.addr, 1, 10), record(heavy.addr, 1, 30)]);
    let weir = before(&dns, "");
    let mut client = weir.connect();
    let count = (0..200).filter(|_| client.get("/x").text() == "heavy").count();
    assert!((110..190).contains(&count), "{count} of 200, expected are 150");
}

#[test]
fn other_records_are_taken_and_kept_connections_follow() {
    let (one, other) = (responding("one", true), responding("other", true));
    let mut dns = Dns::knowing(&[record(one.addr, 1, 1)]);
    let weir = before(&dns, "");
    answered_with(&weir, "one");
    dns.knows_now(&[record(other.addr, 1, 1)]);
    answered_with(&weir, "other");
    // A better one beside it.
    dns.knows_now(&[record(other.addr, 2, 1), record(one.addr, 1, 1)]);
    answered_with(&weir, "one");
}

#[test]
fn the_last_response_is_kept_while_there_is_no_dns_server() {
    let server = responding("here", false);
    let mut dns = Dns::knowing(&[record(server.addr, 1, 1)]);
    let weir = before(&dns, "");
    assert_eq!(weir.connect().get("/x").text(), "here");
    dns.stop();
    eventually("it is asked in vain", || asked(&weir, "bad") >= 2.0);
    assert_eq!(weir.connect().get("/x").text(), "here");
}

#[test]
fn a_service_without_servers_is_out_of_reach_until_it_has_some() {
    let server = responding("here", true);
    let mut dns = Dns::knowing(&[]);
    let weir = before(&dns, "");
    let out_of_reach = || {
        let response = weir.connect().get("/x");
        response.status == 502 && response.json()["type"] == "urn:weir:problem:upstream-unreachable"
    };
    assert!(out_of_reach());
    assert!(asked(&weir, "bad") >= 1.0);
    dns.knows_now(&[record(server.addr, 1, 1)]);
    answered_with(&weir, "here");
    // What says itself that it is not to be had is not kept, other than with no answer.
    dns.knows_now(&[String::new()]);
    eventually("it is gone", out_of_reach);
    dns.knows_now(&[record(server.addr, 1, 1)]);
    answered_with(&weir, "here");
}

#[test]
fn checks_and_http2_and_tls_go_there_by_the_name_of_the_domain() {
    let certificate = Certificate::of("shop.test");
    let inner = "listen: [{addr: \"127.0.0.1:0\", tls: {cert: \"file:tls.crt\", key: \"file:tls.key\"}}]\n\
         workers: 1\napis:\n  all:\n    hosts: [shop.test]\n    base: /\n    \
         routes: [{get: \"/*\", reply: {status: 200, text: \"by the name\"}}]\n";
    let inner = Weir::new(inner)
        .file("tls.crt", &certificate.cert)
        .file("tls.key", &certificate.key)
        .start();
    let dns = Dns::knowing(&[record(nobody(), 1, 1), record(inner.listen[0], 2, 1)]);
    let config = format!(
        "listen: [{{addr: \"127.0.0.1:0\"}}]\nworkers: 1\n\
         upstreams:\n  one: {{targets: [\"srv+https://{SERVICE}\"], resolver: \"{}\", \
         protocol: http2, tls: {{ca: \"file:ca.crt\"}}, health: {{check: {{path: /, every: 1s}}}}}}\n\
         apis:\n  all:\n    base: /\n    routes: [{{path: \"/*\", proxy: one}}]\n",
        dns.addr
    );
    let weir = Weir::new(&config).file("ca.crt", &certificate.cert).start();
    assert_eq!(weir.connect().get("/x").text(), "by the name");
    let good = ["weir_result=\"good\""];
    eventually("it is checked", || weir.metric("weir_upstream_checks_total", &good) >= 2.0);
    assert_eq!(weir.metric("weir_upstream_checks_total", &["weir_result=\"bad\""]), 0.0);
}
