//! Upstreams over TLS, dead ones, and several of them.

use super::assert_problem;
use crate::harness::{self, Server, Upstream, Weir};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

fn server(upstream: &str) -> Weir {
    Weir::new(&format!(
        "listen: [{{addr: \"127.0.0.1:0\"}}]\nworkers: 1\nupstreams: {{up: {upstream}}}\n\
         apis: {{api: {{base: /, routes: [{{path: \"/*\", proxy: up}}]}}}}\n"
    ))
}

#[test]
fn a_dead_upstream_is_told_from_a_late_one() {
    let addr = harness::nobody();
    let server =
        server(&format!("{{targets: [\"http://{addr}\"], health: {{failures: 2, pause: 1h}}}}"))
            .start();
    let mut client = server.connect();
    // Where there is no other target, one that is out of service is still better than none.
    for _ in 0..4 {
        let refused = client.get("/");
        assert_problem(&refused, 502, "upstream-unreachable", "dead");
        assert_eq!(refused.json()["fault"], "upstream");
    }
    assert_eq!(server.metric("weir_upstream_up", &[]), 0.0);

    let silent = Upstream::by_hand();
    let server =
        self::server(&format!("{{targets: [\"http://{}\"], timeout: 100ms}}", silent.addr)).start();
    assert_problem(&server.connect().get("/"), 504, "upstream-timeout", "silent");
}

#[test]
fn a_dead_target_is_passed_over() {
    let addr = harness::nobody();
    let echo = harness::echo(&[]);
    for balance in ["round-robin", "least-busy"] {
        let server = server(&format!(
            "{{targets: [\"http://{addr}\", \"http://{}\"], balance: {balance}, \
             health: {{failures: 1, pause: 1h}}}}",
            echo.listen[0]
        ))
        .start();
        let mut client = server.connect();
        let failed = (0..40).filter(|_| client.get("/").status != 200).count();
        assert!(failed <= 1, "{balance}: {failed} failed, although one is enough to know");
        let down = format!("server_port=\"{}\"", addr.port());
        assert_eq!(server.metric("weir_upstream_up", &[&down]), 0.0, "{balance}");
    }
}

#[test]
fn two_targets_share_the_work() {
    let (one, two) = (harness::echo(&[]), harness::echo(&[]));
    let targets = format!("[\"http://{}\", \"http://{}\"]", one.listen[0], two.listen[0]);
    let server = server(&format!("{{targets: {targets}}}")).start();
    let mut client = server.connect();
    for _ in 0..20 {
        assert_eq!(client.get("/").status, 200);
    }
    for echo in [&one, &two] {
        let target = format!("server_port=\"{}\"", echo.listen[0].port());
        assert_eq!(server.metric("http_client_request_duration_seconds_count", &[&target]), 10.0);
    }
}

/// An authority and what it has signed, in PEM.
struct Certificates {
    ca: String,
    server: (String, String),
    client: (String, String),
}

fn certificates() -> Certificates {
    let named = |name: &str, alternatives: Vec<String>| {
        let mut params = CertificateParams::new(alternatives).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params
    };
    let mut params = named("an authority", Vec::new());
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let ca = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let signed = |name: &str| {
        let key = KeyPair::generate().unwrap();
        let params = named(name, vec![name.to_owned()]);
        (params.signed_by(&key, &ca).unwrap().pem(), key.serialize_pem())
    };
    Certificates { ca: ca.pem(), server: signed("inner.example"), client: signed("weir.example") }
}

/// OpenSSL as a server that asks for client certificates and answers every GET with a page about
/// the connection.
struct OpenSsl {
    child: Child,
    port: u16,
    _dir: tempfile::TempDir,
}

impl OpenSsl {
    fn start(certificates: &Certificates) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let file =
            |name: &str, content: &str| std::fs::write(dir.path().join(name), content).unwrap();
        file("ca.crt", &certificates.ca);
        file("tls.crt", &certificates.server.0);
        file("tls.key", &certificates.server.1);
        let mut child = Command::new("openssl")
            .current_dir(dir.path())
            .args(["s_server", "-accept", "127.0.0.1:0", "-www", "-cert", "tls.crt"])
            .args(["-key", "tls.key", "-CAfile", "ca.crt", "-Verify", "1", "-verify_return_error"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("openssl runs");
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let port = lines
            .map_while(Result::ok)
            .find_map(|line| line.strip_prefix("ACCEPT ")?.rsplit(':').next()?.trim().parse().ok())
            .expect("the port it listens on");
        Self { child, port, _dir: dir }
    }
}

impl Drop for OpenSsl {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn an_upstream_over_tls_is_verified_and_shown_a_certificate() {
    let certificates = certificates();
    let other = self::certificates();
    let openssl = OpenSsl::start(&certificates);
    let start = |ca: &str, client: &(String, String), tls: &str| -> Server {
        server(&format!("{{targets: [\"https://127.0.0.1:{}\"], tls: {{{tls}}}}}", openssl.port))
            .file("ca.crt", ca)
            .file("client.crt", &client.0)
            .file("client.key", &client.1)
            .start()
    };
    const ALL: &str = "ca: \"file:ca.crt\", cert: \"file:client.crt\", key: \"file:client.key\", \
                       server_name: inner.example";
    let server = start(&certificates.ca, &certificates.client, ALL);
    let response = server.connect().get("/");
    assert_eq!(response.status, 200, "{}", response.text());
    assert!(response.text().contains("Verify return code: 0 (ok)"), "{}", response.text());

    for (what, server) in [
        ("another authority", start(&other.ca, &certificates.client, ALL)),
        (
            "another name",
            start(&certificates.ca, &certificates.client, &ALL.replace("inner", "other")),
        ),
        ("a strange client", start(&certificates.ca, &other.client, ALL)),
        (
            "no client certificate",
            start(
                &certificates.ca,
                &other.client,
                "ca: \"file:ca.crt\", server_name: inner.example",
            ),
        ),
    ] {
        let refused = server.connect().get("/");
        assert_eq!(refused.status, 502, "{what}: {}", refused.text());
    }
}

/// Requests that each of these targets got.
fn shares(all: &[Upstream]) -> Vec<usize> {
    all.iter().map(|one| one.heads().len()).collect()
}

#[test]
fn weights_split_requests_exactly_and_spread_them_out() {
    const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
    let all: Vec<Upstream> = (0..3).map(|_| Upstream::responding(OK)).collect();
    let [stable, canary, drained] = [0, 1, 2].map(|index: usize| all[index].addr);
    let targets = |weight: u32| {
        format!(
            "targets: [{{url: \"http://{stable}\", weight: {weight}}}, \"http://{canary}\", \
             {{url: \"http://{drained}\", weight: 0}}]"
        )
    };
    let server = server(&format!("{{{}}}", targets(9))).start();
    let mut client = server.connect();
    for round in 1..=5 {
        for _ in 0..10 {
            assert_eq!(client.get("/").text(), "ok");
        }
        assert_eq!(shares(&all), [9 * round, round, 0], "of every ten one");
    }
    // Of two at random the less busy one, weighed: whoever is idle is as good as any other.
    let server = self::server(&format!("{{{}, balance: least-busy}}", targets(99))).start();
    let mut client = server.connect();
    for _ in 0..200 {
        assert_eq!(client.get("/").text(), "ok");
    }
    let got = shares(&all);
    assert!(got[0] - 45 > 150 && got[2] == 0, "{got:?}");
}

#[test]
fn what_a_dead_heavy_target_would_get_goes_to_the_others_by_their_weights() {
    const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
    let all: Vec<Upstream> = (0..2).map(|_| Upstream::responding(OK)).collect();
    let targets = [(harness::nobody(), 90), (all[0].addr, 3), (all[1].addr, 1)];
    let targets =
        targets.map(|(addr, weight)| format!("{{url: \"http://{addr}\", weight: {weight}}}"));
    let health = "health: {failures: 1, pause: 1h}";
    let server = server(&format!("{{targets: [{}], {health}}}", targets.join(", "))).start();
    let mut client = server.connect();
    for _ in 0..101 {
        assert_eq!(client.get("/").text(), "ok");
    }
    let got = shares(&all);
    assert!((74..=77).contains(&got[0]) && got[0] + got[1] == 101, "{got:?}");
}

#[test]
fn requests_that_belong_together_go_to_one_target_while_it_lives() {
    const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
    let dying = Upstream::start(|_, peer| {
        while peer.request().is_some() && !peer.last_head().starts_with("GET /die ") {
            peer.send(OK);
        }
    });
    let others: Vec<Upstream> = (0..3).map(|_| Upstream::responding(OK)).collect();
    let mut addresses: Vec<String> = others.iter().map(|one| one.addr.to_string()).collect();
    addresses.insert(1, dying.addr.to_string());
    let targets: Vec<String> = addresses.iter().map(|addr| format!("\"http://{addr}\"")).collect();
    for by in ["{header: X-User}", "{cel: \"request.headers['x-user']\"}"] {
        let up = format!(
            "{{targets: [{}], balance: hash, hash: {by}, health: {{failures: 1, pause: 1h}}}}",
            targets.join(", ")
        );
        let server = server(&up).start();
        // Which target gets the requests of each user.
        let owners = |server: &Server| -> Vec<usize> {
            let all = [&dying, &others[0], &others[1], &others[2]];
            let mut got = all.map(|one| one.heads().len());
            let mut client = server.connect();
            (0..40)
                .map(|user| {
                    let response =
                        client.request("GET", "/x", &[("x-user", &user.to_string())], "");
                    assert_eq!(response.text(), "ok");
                    let owner = (0..4).find(|&at| all[at].heads().len() > got[at]).unwrap();
                    got[owner] += 1;
                    owner
                })
                .collect()
        };
        let before = owners(&server);
        assert_eq!(owners(&server), before, "again and again, {by}");
        assert!((0..4).all(|target| before.contains(&target)), "{before:?}");
        let user = before.iter().position(|owner| *owner == 0).unwrap().to_string();
        for path in ["/die", "/die"] {
            server.connect().request("GET", path, &[("x-user", &user)], "");
        }
        harness::eventually("it is out", || server.metric("weir_upstream_up", &[]) == 3.0);
        let after = owners(&server);
        let moved = |at: usize| before[at] == after[at] || (before[at] == 0 && after[at] != 0);
        assert!((0..40).all(moved) && !after.contains(&0), "{before:?}, {after:?}");
        // Those that belong to nobody go round.
        let mut client = server.connect();
        for _ in 0..9 {
            assert_eq!(client.get("/x").text(), "ok");
        }
    }
}
