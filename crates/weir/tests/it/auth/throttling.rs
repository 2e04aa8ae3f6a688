//! Failed authentication is throttled by the client's address, before the expensive work.

use super::{assert_problem, get_with};
use crate::harness::{KEYS, Peer, Response, SECRET, Server, Upstream, Weir, unix_now, weir};
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

/// A server behind a proxy that it trusts, with these limits.
fn server(limits: &str, auth: &str) -> Server {
    Weir::new(&format!(
        "listen: [{{addr: \"127.0.0.1:0\", trust: [127.0.0.1]}}]\nworkers: 2\n\
         limits: {{{limits}}}\nauth: {{idp: {auth}}}\n\
         apis: {{api: {{base: /, auth: idp, routes: [{{get: /, reply: {{text: in}}}}]}}}}\n"
    ))
    .file("HS256", SECRET)
    .start()
}

const JWT: &str = "{jwt: {algorithms: HS256, key: \"file:HS256\"}}";

fn token(number: usize) -> String {
    KEYS.token("HS256", &json!({"sub": "me", "exp": unix_now() + 600, "number": number}))
}

/// A token that was signed by nobody.
fn forged(number: usize) -> String {
    let good = token(number);
    format!("{}.{}", good.rsplit_once('.').unwrap().0, "A".repeat(43))
}

fn get(server: &Server, from: &str, token: &str) -> Response {
    let authorization = format!("Bearer {token}");
    let headers = [("x-forwarded-for", from), ("authorization", authorization.as_str())];
    server.connect().request("GET", "/", &headers, "")
}

fn assert_throttled(response: &Response, what: &str) {
    assert_problem(response, 429, "authentication-throttled", what);
    let seconds: u64 = response.header("retry-after").expect(what).parse().expect("seconds");
    assert!((1..=3600).contains(&seconds), "{what}: {seconds}");
}

#[test]
fn failures_use_up_what_an_address_may_try_and_successes_do_not() {
    let server = server("failed_authentication: {rate: 1/h, burst: 5}", JWT);
    let known = token(0);
    for round in 0..20 {
        assert_eq!(get(&server, "192.0.2.1", &known).status, 200);
        assert_eq!(get(&server, "192.0.2.1", &token(round)).status, 200, "successes are free");
    }
    for number in 0..5 {
        let response = get(&server, "192.0.2.1", &forged(number));
        assert_problem(&response, 401, "token-signature", "within the burst");
    }
    assert_throttled(&get(&server, "192.0.2.1", &forged(5)), "beyond it");
    // One worker or the other has verified it before; both, in so many requests.
    assert!((0..10).any(|_| get(&server, "192.0.2.1", &known).status == 200));
    assert_throttled(&get(&server, "192.0.2.1", &token(100)), "what is not known is not verified");
    let response = server.connect().request("GET", "/", &[("x-forwarded-for", "192.0.2.1")], "");
    assert_problem(&response, 401, "missing-credential", "nothing was tried");
    assert_eq!(get(&server, "192.0.2.2", &token(101)).status, 200, "another address");
    for number in 0..5 {
        assert_eq!(get(&server, "2001:db8::1", &forged(number)).status, 401);
    }
    assert_throttled(&get(&server, "2001:db8::ffff:2", &forged(9)), "of the same /64");
    assert_eq!(get(&server, "2001:db8:0:1::1", &forged(9)).status, 401, "of another /64");
    assert_eq!(server.metric("weir_authentication_throttled_total", &[]), 3.0);
}

#[test]
fn failures_are_throttled_by_default_and_can_be_let_through() {
    let statuses = |limits: &str| -> Vec<u16> {
        let server = server(limits, JWT);
        let token = forged(0);
        (0..400).map(|_| get(&server, "192.0.2.1", &token).status).collect()
    };
    let usual = statuses("");
    assert!(usual[..100].iter().all(|&status| status == 401), "{usual:?}");
    // What flows back meanwhile depends on how fast the machine is.
    assert!(usual.contains(&429), "{usual:?}");
    assert!(statuses("failed_authentication: none").iter().all(|&status| status == 401));
}

#[test]
fn an_authorization_server_is_not_asked_for_whoever_fails() {
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    let idp = Upstream::start(move |_, peer: &mut Peer| {
        while peer.request().is_some() {
            count.fetch_add(1, SeqCst);
            let body = r#"{"active":false}"#;
            peer.send(format!(
                "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
                body.len()
            ));
        }
    });
    let auth = format!(
        "{{introspect: {{url: \"http://{}/\", auth: {{basic: {{user: a, password: b}}}}}}}}",
        idp.addr
    );
    let server = server("failed_authentication: {rate: 1/h, burst: 4}", &auth);
    for number in 0..4 {
        let response = get(&server, "192.0.2.1", &format!("opaque-{number}"));
        assert_problem(&response, 401, "token-inactive", "within the burst");
    }
    for number in 4..20 {
        assert_throttled(&get(&server, "192.0.2.1", &format!("opaque-{number}")), "beyond it");
    }
    assert_eq!(asked.load(SeqCst), 4);
    assert_problem(&get(&server, "192.0.2.2", "opaque-x"), 401, "token-inactive", "another");
}

#[test]
fn of_many_keys_a_token_without_a_name_is_tried_with_a_bounded_number() {
    // Of RSA keys 16 are tried.
    let set = |before: usize| {
        let filler = |number: usize| {
            let mut key = KEYS.jwk("RS256");
            let modulus = key["n"].as_str().unwrap();
            key["n"] = format!("{}{number:0>4}{}", &modulus[..40], &modulus[44..]).into();
            key["kid"] = format!("other-{number}").into();
            key
        };
        let mut keys: Vec<_> = (0..before).map(filler).collect();
        keys.push(KEYS.jwk("RS256"));
        json!({"keys": keys}).to_string()
    };
    for (before, status) in [(15, 200), (16, 401)] {
        let server = Weir::new(
            "listen: [\"127.0.0.1:0\"]\nauth: {idp: {jwt: {algorithms: RS256, jwks: \"file:jwks.json\"}}}\n\
             apis: {api: {base: /, auth: idp, routes: [{get: /, reply: {text: in}}]}}\n",
        )
        .file("jwks.json", set(before))
        .start();
        let claims = json!({"sub": "me", "exp": unix_now() + 600});
        let nameless = KEYS.token("RS256", &claims);
        let named = KEYS.token_with(&json!({"alg": "RS256", "kid": "RS256"}), &claims);
        assert_eq!(get_with(&server, "/", &format!("Bearer {nameless}")).status, status);
        assert_eq!(get_with(&server, "/", &format!("Bearer {named}")).status, 200);
        let check = weir(server.dir(), &["check", "weir.yaml"]);
        let told = String::from_utf8_lossy(&check.stdout).into_owned()
            + &String::from_utf8_lossy(&check.stderr);
        assert_eq!(told.contains("without a `kid`"), status == 401, "{told}");
    }
}
