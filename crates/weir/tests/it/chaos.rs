//! One target of five fails, in every way there is, while clients ask on: what they see of it, and
//! what becomes of all others.

use crate::harness::{Client, Peer, Server, Upstream, Weir, nobody};
use std::net::SocketAddr;

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
/// Clients at once, and requests of each.
const CLIENTS: usize = 4;
const REQUESTS: usize = 60;
/// Failures that take a target out.
const FAILURES: usize = 3;

/// How a target fails.
struct Fault {
    what: &'static str,
    how: fn(&mut Peer),
    /// Whether its failures can be told from answers before any of these has left.
    retried: bool,
}

const FAULTS: [Fault; 8] = [
    Fault { what: "reset", how: |peer| peer.reset(), retried: true },
    Fault { what: "closed", how: |_| {}, retried: true },
    Fault { what: "silent", how: Peer::hang, retried: true },
    Fault {
        what: "busy",
        how: |peer| _ = peer.send("HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n"),
        retried: true,
    },
    Fault { what: "garbage", how: |peer| _ = peer.send("SSH-2.0-OpenSSH\r\n\r\n"), retried: false },
    Fault {
        what: "shorter than it says",
        how: |peer| _ = peer.send("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nok"),
        retried: false,
    },
    Fault {
        what: "broken in a chunk",
        how: |peer| {
            _ = peer.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n")
        },
        retried: false,
    },
    Fault {
        what: "stuck in the body",
        how: |peer| {
            peer.send("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nok");
            peer.hang();
        },
        retried: false,
    },
];

/// weir before five targets and, at `/other`, one that has nothing to do with them.
fn before(targets: &[SocketAddr], other: SocketAddr) -> Server {
    let targets: Vec<String> = targets.iter().map(|addr| format!("\"http://{addr}\"")).collect();
    Weir::new(&format!(
        "listen: [{{addr: \"127.0.0.1:0\"}}]\nworkers: 1\n\
         upstreams:\n  other: {{targets: [\"http://{other}\"]}}\n  \
         many: {{targets: [{}], timeout: 1s, idle_timeout: 1s, \
         health: {{failures: {FAILURES}, pause: 10m}}, \
         retries: {{budget: 100%, minimum: 1000, backoff: 1ms, timeout: 300ms}}}}\n\
         apis:\n  all:\n    base: /\n    routes:\n      - {{get: /other, proxy: other}}\n      \
         - {{get: /many, proxy: many}}\n",
        targets.join(", ")
    ))
    .start()
}

/// One request over a connection of its own; whether a whole answer came, and its body.
fn ask(addr: SocketAddr, path: &str) -> (bool, String) {
    let mut client = Client::connect(addr);
    client.send(format!("GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"));
    let (bytes, _) = client.rest_or_reset();
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or(("", ""));
    let whole = head.starts_with("HTTP/1.1 200 ") && head.contains("content-length: 2");
    (whole && body == "ok", body.to_owned())
}

/// All clients ask; gives how many of the requests to the five failed.
fn failures(weir: &Server) -> usize {
    let addr = weir.listen[0];
    let one = move |_| {
        std::thread::spawn(move || {
            let mut failed = 0;
            for _ in 0..REQUESTS {
                failed += usize::from(!ask(addr, "/many").0);
                let (whole, body) = ask(addr, "/other");
                assert!(whole, "another upstream has nothing to do with it: {body}");
            }
            failed
        })
    };
    let clients: Vec<_> = (0..CLIENTS).map(one).collect();
    clients.into_iter().map(|client| client.join().expect("no panic")).sum()
}

fn good() -> Upstream {
    Upstream::responding(OK)
}

#[test]
fn a_target_that_fails_in_any_way_costs_few_requests_and_no_other_any() {
    for Fault { what, how, retried } in FAULTS {
        let bad = Upstream::start(move |_, peer| {
            if peer.request().is_some() {
                how(peer);
            }
        });
        let (goods, other) = ([good(), good(), good(), good()], good());
        let mut targets = vec![bad.addr];
        targets.extend(goods.iter().map(|one| one.addr));
        let weir = before(&targets, other.addr);
        let failed = failures(&weir);
        // Requests on their way when the last failure is seen may fail, too.
        let most = if retried { 0 } else { FAILURES + CLIENTS };
        assert!(failed <= most, "{what}: {failed} failed");
        let asked = bad.heads().len();
        // A status is an answer: that alone takes nobody out.
        let out = if what == "busy" { usize::MAX } else { FAILURES + CLIENTS };
        assert!(asked >= 1 && asked <= out, "{what}: asked {asked} times");
        let total: usize = goods.iter().map(|one| one.heads().len()).sum();
        assert!(total >= CLIENTS * REQUESTS - most, "{what}: {total} answers");
        assert_eq!(weir.metric("http_server_active_requests", &[]), 0.0, "{what}");
    }
}

#[test]
fn a_target_that_is_killed_costs_nothing() {
    let (goods, other) = ([good(), good(), good(), good()], good());
    let mut targets = vec![nobody()];
    targets.extend(goods.iter().map(|one| one.addr));
    let weir = before(&targets, other.addr);
    assert_eq!(failures(&weir), 0);
}

#[test]
fn bytes_beyond_the_announced_length_never_become_another_response() {
    let liar = Upstream::responding(
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil",
    );
    let (goods, other) = ([good(), good(), good(), good()], good());
    let mut targets = vec![liar.addr];
    targets.extend(goods.iter().map(|one| one.addr));
    let weir = before(&targets, other.addr);
    assert_eq!(failures(&weir), 0);
    assert_eq!(liar.heads().len(), liar.connections(), "each connection of its is used once");
}
