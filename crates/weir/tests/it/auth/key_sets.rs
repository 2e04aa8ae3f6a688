//! Key sets by URL: rotating, slow and down.

use super::assert_problem;
use crate::harness::{Client, KEYS, Response, Server, Weir, eventually, unix_now};
use serde_json::json;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// What an endpoint does with a request.
#[derive(Clone)]
enum Does {
    /// Answers with these keys.
    Give(String),
    /// The same, later.
    Wait(Duration, String),
    /// Closes the connection.
    Fail,
}

/// Where keys are.
struct Endpoint {
    addr: SocketAddr,
    does: Arc<Mutex<Does>>,
    asked: Arc<AtomicUsize>,
}

impl Endpoint {
    fn start(does: Does) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = listener.local_addr().unwrap();
        let (does, asked) = (Arc::new(Mutex::new(does)), Arc::new(AtomicUsize::new(0)));
        let (shared, count) = (Arc::clone(&does), Arc::clone(&asked));
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                count.fetch_add(1, SeqCst);
                let does = shared.lock().unwrap().clone();
                std::thread::spawn(move || response(stream, &does));
            }
        });
        Self { addr, does, asked }
    }

    fn now(&self, does: Does) {
        *self.does.lock().unwrap() = does;
    }
}

fn response(mut stream: TcpStream, does: &Does) {
    let mut head = Vec::new();
    let mut byte = [0; 1];
    while !head.ends_with(b"\r\n\r\n") && matches!(stream.read(&mut byte), Ok(1)) {
        head.push(byte[0]);
    }
    let keys = match does {
        Does::Fail => return,
        Does::Give(keys) => keys,
        Does::Wait(time, keys) => {
            std::thread::sleep(*time);
            keys
        }
    };
    let _ = write!(
        stream,
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n\
         content-length: {}\r\n\r\n{keys}",
        keys.len()
    );
}

fn keys(algorithm: &str) -> String {
    KEYS.jwks(&[algorithm])
}

fn start(endpoint: &Endpoint, refresh: &str) -> Server {
    Weir::new(&format!(
        "listen: [{{addr: \"127.0.0.1:0\"}}]\nworkers: 2\nlimits: {{failed_authentication: none}}\n\
         auth: {{idp: {{jwt: {{algorithms: [RS256, ES256], jwks: \"http://{}/keys\", \
         refresh: {refresh}}}}}}}\n\
         apis: {{api: {{base: /, auth: idp, routes: [{{get: /, reply: {{}}}}]}}}}\n",
        endpoint.addr
    ))
    .start()
}

fn token(algorithm: &str) -> String {
    let header = json!({"alg": algorithm, "kid": algorithm});
    KEYS.token_with(&header, &json!({"sub": "me", "exp": unix_now() + 600}))
}

fn get(server: &Server, token: &str) -> Response {
    get_at(server.listen[0], token)
}

fn get_at(addr: SocketAddr, token: &str) -> Response {
    let bearer = format!("Bearer {token}");
    Client::connect(addr).request("GET", "/", &[("authorization", &bearer)], "")
}

#[test]
fn an_unknown_key_is_looked_for_once_and_a_dropped_one_is_never_believed() {
    let endpoint = Endpoint::start(Does::Give(keys("RS256")));
    let server = start(&endpoint, "1h");
    let (old, new) = (token("RS256"), token("ES256"));
    assert_eq!(get(&server, &old).status, 200);
    assert_eq!(get(&server, &old).status, 200);
    assert_eq!(endpoint.asked.load(SeqCst), 1);
    endpoint.now(Does::Give(keys("ES256")));
    // The request itself brings the new set; the old key's token is in the cache, and refused.
    assert_eq!(get(&server, &new).status, 200);
    assert_problem(&get(&server, &old), 401, "token-key", "dropped");
    for _ in 0..100 {
        assert_problem(&get(&server, &old), 401, "token-key", "dropped");
    }
    assert_eq!(endpoint.asked.load(SeqCst), 2);
    assert_eq!(server.metric("weir_jwks_fetches_total", &["taken"]), 2.0);
    assert_eq!(server.metric("weir_jwks_keys", &["idp"]), 1.0);
}

#[test]
fn rotation_under_load_is_followed_without_an_unknown_name() {
    let endpoint = Endpoint::start(Does::Give(keys("RS256")));
    let server = start(&endpoint, "5s");
    let tokens = [token("RS256"), token("ES256")];
    assert_eq!(get(&server, &tokens[0]).status, 200);
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for token in &tokens {
            let (addr, over) = (server.listen[0], &over);
            scope.spawn(move || {
                while !over.load(SeqCst) {
                    let status = get_at(addr, token).status;
                    assert!(matches!(status, 200 | 401), "{status}");
                }
            });
        }
        for (kept, dropped, set) in [(1, 0, "ES256"), (0, 1, "RS256")] {
            endpoint.now(Does::Give(keys(set)));
            eventually("the new set", || get(&server, &tokens[kept]).status == 200);
            for _ in 0..20 {
                assert_eq!(get(&server, &tokens[dropped]).status, 401);
                assert_eq!(get(&server, &tokens[kept]).status, 200);
            }
        }
        over.store(true, SeqCst);
    });
}

#[test]
fn an_endpoint_that_is_down_stops_nobody_whose_key_is_known() {
    let endpoint = Endpoint::start(Does::Fail);
    let server = start(&endpoint, "5s");
    let good = token("RS256");
    assert_problem(&get(&server, &good), 503, "keys-unavailable", "no keys yet");
    endpoint.now(Does::Give(keys("RS256")));
    eventually("keys", || get(&server, &good).status == 200);
    endpoint.now(Does::Fail);
    let failed = server.metric("weir_jwks_fetches_total", &["failed"]);
    eventually("another failure", || {
        assert_eq!(get(&server, &good).status, 200);
        server.metric("weir_jwks_fetches_total", &["failed"]) > failed
    });
    assert_eq!(get(&server, &good).status, 200);
}

#[test]
fn an_endpoint_that_is_slow_holds_nobody_longer_than_a_fetch_may_take() {
    const SLOW: Duration = Duration::from_secs(30);
    let endpoint = Endpoint::start(Does::Wait(SLOW, keys("RS256")));
    let server = start(&endpoint, "1h");
    let begun = Instant::now();
    assert_problem(&get(&server, &token("RS256")), 503, "keys-unavailable", "slow");
    assert!(begun.elapsed() < SLOW, "{:?}", begun.elapsed());
    endpoint.now(Does::Give(keys("RS256")));
    eventually("keys", || get(&server, &token("RS256")).status == 200);
    endpoint.now(Does::Wait(SLOW, keys("ES256")));
    let begun = Instant::now();
    assert_problem(&get(&server, &token("ES256")), 401, "token-key", "unknown");
    assert_eq!(get(&server, &token("RS256")).status, 200);
    assert!(begun.elapsed() < SLOW, "{:?}", begun.elapsed());
}
