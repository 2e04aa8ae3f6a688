//! Other upstreams by condition and by share, and how large answers may be.

use crate::harness::{Server, Upstream, Weir};
use serde_json::Value;

fn named(name: &str) -> Upstream {
    Upstream::responding(format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{name}", name.len()))
}

fn start() -> (Server, [Upstream; 3]) {
    let upstreams = [named("stable"), named("beta"), named("canary")];
    let server = Weir::new(&format!(
        "listen: [{{addr: \"127.0.0.1:0\"}}]\nworkers: 2\nupstreams:\n  \
         stable: {{targets: [\"http://{}\"]}}\n  beta: {{targets: [\"http://{}\"]}}\n  \
         canary: {{targets: [\"http://{}\"]}}\ntracker: {{enabled: true}}\n\
         apis:\n  api:\n    base: /\n    routes:\n      - path: \"/*\"\n        \
         request: {{headers: {{remove: [x-beta]}}}}\n        \
         proxy:\n          upstream: stable\n          instead:\n            \
         - {{when: \"request.headers['x-beta'] == '1'\", upstream: beta}}\n            \
         - {{share: 20%, by: {{header: x-user}}, upstream: canary}}\n",
        upstreams[0].addr, upstreams[1].addr, upstreams[2].addr
    ))
    .start();
    (server, upstreams)
}

#[test]
fn the_first_that_takes_a_request_has_it_and_a_share_keeps_its_users() {
    let (server, _upstreams) = start();
    let mut client = server.connect();
    let mut ask = |headers: &[(&str, &str)]| client.request("GET", "/a", headers, "").text();
    assert_eq!(ask(&[]), "stable", "nobody is in no share");
    assert_eq!(ask(&[("x-beta", "1"), ("x-user", "u")]), "beta");
    assert_eq!(ask(&[("x-beta", "2")]), "stable");
    let users: Vec<String> = (0..400).map(|number| format!("user-{number}")).collect();
    let first: Vec<String> = users.iter().map(|user| ask(&[("x-user", user)])).collect();
    let canary = first.iter().filter(|response| *response == "canary").count();
    assert!((50..=110).contains(&canary), "{canary} of 400");
    for (user, response) in users.iter().zip(&first) {
        assert_eq!(&ask(&[("x-user", user)]), response, "{user}");
    }
    assert!(server.metric("http_client_request_duration_seconds_count", &["canary"]) > 99.0);
}

#[test]
fn explain_and_the_record_name_the_upstream_that_has_it() {
    let (mut server, _upstreams) = start();
    let beta = server.connect().request("GET", "/a", &[("x-beta", "1")], "");
    let said = crate::harness::weir(
        server.dir(),
        &["explain", "GET", "/a", "-H", "x-beta: 1", "--json", "weir.yaml"],
    );
    let told: Value = serde_json::from_slice(&said.stdout).unwrap();
    assert_eq!(told["sent"]["name"], "beta", "{told}");
    assert!(told.to_string().contains("upstream beta, by `instead`"), "{told}");
    assert_eq!(beta.text(), "beta");
    server.kill();
    assert_eq!(crate::harness::transactions(&server.data())[0].upstream, "beta");
}

#[test]
fn a_response_is_as_large_as_it_may_be_at_most() {
    let upstream = Upstream::start(|_, peer| {
        while let Some(head) = peer.head() {
            let length: usize = head.split(['/', ' ']).nth(2).unwrap().parse().unwrap();
            let body = "x".repeat(length);
            if head.contains("pieces") {
                peer.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nxxx\r\n");
                std::thread::sleep(std::time::Duration::from_millis(300));
                peer.send(format!("{length:x}\r\n{body}\r\n0\r\n\r\n"));
                return;
            }
            peer.send(match head.contains("chunked") {
                true => format!(
                    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{length:x}\r\n{body}\r\n0\r\n\r\n"
                ),
                false => format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{body}"),
            });
        }
    });
    let server = Weir::new(&format!(
        "listen: [{{addr: \"127.0.0.1:0\"}}]\nworkers: 1\nupstreams: {{up: {{targets: [\"http://{}\"]}}}}\n\
         apis: {{api: {{base: /, limits: {{answer: 1KiB}}, routes: [{{path: \"/*\", proxy: up}}]}}}}\n",
        upstream.addr
    ))
    .start();
    for kind in ["length", "chunked"] {
        let fits = server.connect().request("GET", "/1024", &[("x-kind", kind)], "");
        assert_eq!((fits.status, fits.body.len()), (200, 1024), "{kind}");
    }
    for kind in ["length", "chunked"] {
        let large = server.connect().request("GET", "/200000", &[("x-kind", kind)], "");
        assert_eq!(large.status, 502, "{kind}");
        assert_eq!(large.json()["type"], "urn:weir:problem:answer-too-large");
    }
    // What has begun is broken off, in a way that does not look whole.
    let mut client = server.connect();
    client.send("GET /200000 HTTP/1.1\r\nHost: h\r\nx-kind: pieces\r\n\r\n");
    let (all, _) = client.rest_or_reset();
    assert!(all.starts_with(b"HTTP/1.1 200 ") && all.len() < 1000, "{}", all.len());
    assert!(!all.ends_with(b"0\r\n\r\n"));
}
