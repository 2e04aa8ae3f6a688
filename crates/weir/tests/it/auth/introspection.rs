//! Tokens that an authorization server is asked about.

use super::{assert_problem, challenge, get_with};
use crate::harness::{Peer, Server, Upstream, Weir, unix_now};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// An authorization server that says the same of every token.
struct Idp {
    upstream: Upstream,
    /// What it answers with; nothing: it does not.
    says: Arc<Mutex<Option<(u16, String)>>>,
    asked: Arc<AtomicUsize>,
    /// Head and body of the last question.
    last: Arc<Mutex<String>>,
    /// Milliseconds before it answers.
    slow: Arc<AtomicU64>,
}

impl Idp {
    fn saying(body: &str) -> Self {
        let says = Arc::new(Mutex::new(Some((200, body.to_owned()))));
        let (asked, last) = (Arc::new(AtomicUsize::new(0)), Arc::new(Mutex::new(String::new())));
        let slow = Arc::new(AtomicU64::new(0));
        let shared = (Arc::clone(&says), Arc::clone(&asked), Arc::clone(&last), Arc::clone(&slow));
        let upstream = Upstream::start(move |_, peer: &mut Peer| {
            while let Some(body) = peer.request() {
                let head = peer.last_head();
                shared.1.fetch_add(1, SeqCst);
                *shared.2.lock().unwrap() = format!("{head}{}", String::from_utf8_lossy(&body));
                std::thread::sleep(Duration::from_millis(shared.3.load(SeqCst)));
                let Some((status, body)) = shared.0.lock().unwrap().clone() else { return };
                peer.send(
                    format!(
                        "HTTP/1.1 {status} X\r\ncontent-type: application/json\r\n\
                         content-length: {}\r\n\r\n{body}",
                        body.len()
                    )
                    .as_bytes(),
                );
            }
        });
        Self { upstream, says, asked, last, slow }
    }

    fn now(&self, status: u16, body: &str) {
        *self.says.lock().unwrap() = Some((status, body.to_owned()));
    }

    fn count(&self) -> usize {
        self.asked.load(SeqCst)
    }

    fn serve(&self, more: &str) -> Server {
        Weir::new(&format!(
            "listen: [{{addr: \"127.0.0.1:0\"}}]\nworkers: 2\n\
             auth: {{idp: {{introspect: {{url: \"http://{}/introspect\", \
             auth: {{basic: {{user: \"we ir\", password: \"se:cret\"}}}}{more}}}}}}}\n\
             consumers: {{acme: {{match: {{auth: idp, when: \"claims.client_id == 'acme'\"}}}}}}\n\
             apis: {{api: {{base: /, auth: idp, routes: [\
             {{get: /, reply: {{map: {{who: {{cel: consumer}}}}}}}}, \
             {{post: /, auth: {{idp: {{scopes: [write]}}}}, reply: {{}}}}]}}}}\n",
            self.upstream.addr
        ))
        .start()
    }
}

const ACTIVE: &str = r#"{"active":true,"client_id":"acme","sub":"me","scope":"read","iss":"i"}"#;
const INACTIVE: &str = r#"{"active":false}"#;

#[test]
fn the_server_is_asked_once_about_a_token_and_its_response_holds_for_every_worker() {
    let idp = Idp::saying(ACTIVE);
    let server = idp.serve("");
    for _ in 0..20 {
        let response = get_with(&server, "/", "Bearer opaque+token/~=");
        assert_eq!((response.status, response.json()["who"].as_str()), (200, Some("acme")));
    }
    assert_eq!(idp.count(), 1);
    let question = idp.last.lock().unwrap().clone();
    assert!(question.starts_with("POST /introspect HTTP/1.1\r\n"), "{question}");
    assert!(question.contains("\r\ncontent-type: application/x-www-form-urlencoded\r\n"));
    // `we%20ir:se%3Acret`: id and secret are form-encoded first (RFC 6749 section 2.3.1).
    let proof = "\r\nauthorization: Basic d2UlMjBpcjpzZSUzQWNyZXQ=\r\n";
    assert!(question.contains(proof), "{question}");
    let form = "\r\n\r\ntoken=opaque%2Btoken%2F%7E%3D&token_type_hint=access_token";
    assert!(question.ends_with(form), "{question}");
    assert_eq!(server.metric("weir_introspections_total", &["active"]), 1.0);
    let lacking =
        server.connect().request("POST", "/", &[("authorization", "Bearer opaque+token/~=")], "");
    assert_problem(&lacking, 403, "insufficient-scope", "scope");
    assert_eq!(idp.count(), 1);
}

#[test]
fn what_is_not_active_is_refused_and_remembered_likewise() {
    let idp = Idp::saying(INACTIVE);
    let server = idp.serve("");
    for _ in 0..5 {
        let refused = get_with(&server, "/", "Bearer bad");
        assert_problem(&refused, 401, "token-inactive", "inactive");
        assert!(challenge(&refused).contains("error=\"invalid_token\""));
    }
    assert_eq!(idp.count(), 1);
    assert_problem(&server.connect().get("/"), 401, "missing-credential", "none");
    assert_eq!(idp.count(), 1);
    assert_eq!(server.metric("weir_introspections_total", &["\"inactive\""]), 1.0);
}

#[test]
fn an_introspection_response_is_cached_as_long_as_configured_and_never_past_exp() {
    let idp = Idp::saying(ACTIVE);
    let server = idp.serve(", remember: 1s");
    assert_eq!(get_with(&server, "/", "Bearer one").status, 200);
    idp.now(200, INACTIVE);
    crate::harness::eventually("the revocation", || {
        get_with(&server, "/", "Bearer one").status == 401
    });
    let exp = unix_now() + 2;
    idp.now(200, &format!(r#"{{"active":true,"exp":{exp}}}"#));
    let server = idp.serve("");
    assert_eq!(get_with(&server, "/", "Bearer two").status, 200);
    crate::harness::eventually("exp", || get_with(&server, "/", "Bearer two").status == 401);
    assert!(unix_now() >= exp);
    // Nor is one that the server forgets to call inactive.
    idp.now(200, r#"{"active":true,"exp":1}"#);
    assert_problem(&get_with(&server, "/", "Bearer three"), 401, "token-expired", "exp");
}

#[test]
fn required_claims_of_the_response_are_checked() {
    let idp = Idp::saying(ACTIVE);
    let server = idp.serve(", issuer: i, audience: orders");
    assert_problem(&get_with(&server, "/", "Bearer one"), 401, "token-audience", "aud");
    idp.now(200, r#"{"active":true,"iss":"i","aud":["orders"]}"#);
    assert_eq!(get_with(&server, "/", "Bearer two").status, 200);
    idp.now(200, r#"{"active":true,"iss":"j","aud":["orders"]}"#);
    assert_problem(&get_with(&server, "/", "Bearer three"), 401, "token-issuer", "iss");
}

#[test]
fn without_a_response_nobody_passes_and_nothing_is_cached() {
    let idp = Idp::saying(ACTIVE);
    let server = idp.serve("");
    let what = [(500, ACTIVE), (401, ACTIVE), (200, "no JSON"), (200, r#"{"active":"true"}"#)];
    for (status, body) in what {
        idp.now(status, body);
        let refused = get_with(&server, "/", "Bearer one");
        assert_problem(&refused, 503, "introspection-unavailable", body);
    }
    *idp.says.lock().unwrap() = None;
    assert_eq!(get_with(&server, "/", "Bearer one").status, 503);
    idp.now(200, ACTIVE);
    assert_eq!(get_with(&server, "/", "Bearer one").status, 200);
    assert!(server.metric("weir_introspections_total", &["failed"]) >= 5.0);
}

#[test]
fn a_slow_server_is_asked_once_and_holds_nobody_longer_than_the_timeout() {
    let idp = Idp::saying(ACTIVE);
    let server = idp.serve(", timeout: 3s");
    idp.slow.store(500, SeqCst);
    std::thread::scope(|scope| {
        for _ in 0..16 {
            scope.spawn(|| assert_eq!(get_with(&server, "/", "Bearer one").status, 200));
        }
    });
    assert_eq!(idp.count(), 1);
    idp.slow.store(60_000, SeqCst);
    let begun = Instant::now();
    assert_eq!(get_with(&server, "/", "Bearer two").status, 503);
    assert!(begun.elapsed() < Duration::from_secs(50), "{:?}", begun.elapsed());
    assert_eq!(get_with(&server, "/", "Bearer one").status, 200, "what is known is known");
}

#[test]
fn explain_asks_nobody() {
    let idp = Idp::saying(ACTIVE);
    let server = idp.serve("");
    let said = crate::harness::weir(
        server.dir(),
        &["explain", "GET", "/", "-H", "authorization: Bearer one", "weir.yaml"],
    );
    let text = String::from_utf8_lossy(&said.stdout).into_owned();
    assert!(text.contains("a live request introspects the token"), "{text}");
    assert_eq!(idp.count(), 0);
}
