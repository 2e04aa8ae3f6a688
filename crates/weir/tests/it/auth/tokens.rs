//! JSON Web Tokens.

use super::{assert_problem, challenge, get_with};
use crate::harness::{KEYS, SECRET, Server, Weir, unix_now, unsigned};
use serde_json::{Value, json};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const ALGORITHMS: [&str; 5] = ["HS256", "RS256", "PS256", "ES256", "EdDSA"];

/// One API behind one auth, and files for the keys of every algorithm.
fn server(auth: &str, more: &str) -> Server {
    let config = format!(
        "listen: [{{addr: \"127.0.0.1:0\"}}]\nworkers: 1\n\
         auth: {{idp: {{jwt: {auth}}}}}\n\
         {more}\napis:\n  api:\n    base: /\n    auth: idp\n    routes:\n      \
         - get: /\n        reply: {{map: {{sub: {{cel: claims.sub}}, consumer: {{cel: consumer}}}}}}\n      \
         - {{get: /write, auth: {{idp: {{scopes: [write]}}}}, reply: {{text: written}}}}\n"
    );
    with_keys(Weir::new(&config)).start()
}

fn with_keys(weir: Weir) -> Weir {
    let weir = weir.file("HS256", SECRET).file("jwks.json", KEYS.jwks(&ALGORITHMS));
    let pairs = ALGORITHMS.iter().filter(|algorithm| **algorithm != "HS256");
    pairs.fold(weir, |weir, algorithm| weir.file(algorithm, &KEYS.of(algorithm).public))
}

/// What the auth of [`rs256`] wants.
fn good() -> Value {
    json!({"iss": "idp", "aud": "orders", "sub": "me", "exp": unix_now() + 600})
}

/// [`good`] with one claim changed, or taken away by null.
fn good_but(claim: &str, value: Value) -> Value {
    let mut claims = good();
    match value {
        Value::Null => drop(claims.as_object_mut().unwrap().remove(claim)),
        value => claims[claim] = value,
    }
    claims
}

fn rs256() -> Server {
    server("{algorithms: RS256, key: \"file:RS256\", issuer: idp, audience: orders}", "")
}

fn bearer(token: &str) -> String {
    format!("Bearer {token}")
}

#[test]
fn every_algorithm_passes_by_its_key_and_by_a_key_set() {
    for algorithm in ALGORITHMS {
        let token = KEYS.token(algorithm, &good());
        let header = json!({"alg": algorithm, "kid": algorithm});
        let named = KEYS.token_with(&header, &good());
        for source in [format!("key: \"file:{algorithm}\""), "jwks: \"file:jwks.json\"".to_owned()]
        {
            let server = server(&format!("{{algorithms: {algorithm}, {source}}}"), "");
            for token in [&token, &named] {
                let response = get_with(&server, "/", &bearer(token));
                assert_eq!(response.status, 200, "{algorithm}, {source}: {}", response.text());
                assert_eq!(response.json(), json!({"sub": "me"}));
            }
        }
    }
}

#[test]
fn a_key_of_a_set_is_taken_for_its_own_algorithm_only() {
    const PUBLIC: [&str; 4] = ["RS256", "PS256", "ES256", "EdDSA"];
    let server = server("{algorithms: [RS256, PS256, ES256, EdDSA], jwks: \"file:jwks.json\"}", "");
    for algorithm in PUBLIC {
        let token = KEYS.token(algorithm, &good());
        assert_eq!(get_with(&server, "/", &bearer(&token)).status, 200, "{algorithm}");
        for other in PUBLIC.iter().filter(|other| **other != algorithm) {
            let token = KEYS.token_with(&json!({"alg": algorithm, "kid": other}), &good());
            let refused = get_with(&server, "/", &bearer(&token));
            assert_problem(&refused, 401, "token-key", &format!("{algorithm}, key of {other}"));
        }
    }
    let refused = get_with(&server, "/", &bearer(&KEYS.confused(&good())));
    assert_problem(&refused, 401, "token-algorithm", "confused");
}

#[test]
fn what_is_wrong_with_a_token_is_said() {
    let server = rs256();
    let rs256 = |claims: &Value| KEYS.token("RS256", claims);
    let now = unix_now();
    let cases = [
        ("expired", rs256(&good_but("exp", json!(now - 1))), "token-expired"),
        ("not yet valid", rs256(&good_but("nbf", json!(now + 600))), "token-not-yet-valid"),
        ("without exp", rs256(&good_but("exp", Value::Null)), "token-claim"),
        ("exp as text", rs256(&good_but("exp", json!("later"))), "malformed-credential"),
        ("wrong audience", rs256(&good_but("aud", json!("billing"))), "token-audience"),
        ("no audience", rs256(&good_but("aud", Value::Null)), "token-audience"),
        ("wrong issuer", rs256(&good_but("iss", json!("idp.example"))), "token-issuer"),
        ("no issuer", rs256(&good_but("iss", Value::Null)), "token-issuer"),
        ("forged", KEYS.forged(&good()), "token-signature"),
        ("another algorithm", KEYS.token("ES256", &good()), "token-algorithm"),
        ("its public key as a secret", KEYS.confused(&good()), "token-algorithm"),
        ("garbage", "garbage".to_owned(), "malformed-credential"),
        ("garbage in three parts", "a.b.c".to_owned(), "malformed-credential"),
        ("dots", "..".to_owned(), "malformed-credential"),
        ("too long", "x".repeat(17_000), "malformed-credential"),
    ];
    for (what, token, slug) in &cases {
        let refused = get_with(&server, "/", &bearer(token));
        assert_problem(&refused, 401, slug, what);
        let code =
            if *slug == "malformed-credential" { "invalid_request" } else { "invalid_token" };
        let expected = format!("Bearer realm=\"idp\", error=\"{code}\"");
        assert!(challenge(&refused).starts_with(&expected), "{what}: {}", challenge(&refused));
    }
    assert_eq!(get_with(&server, "/", &bearer(&rs256(&good()))).status, 200);
    assert_eq!(get_with(&server, "/", &format!("bEARER  {}", rs256(&good()))).status, 200);
    assert_eq!(
        get_with(&server, "/", &bearer(&rs256(&good_but("aud", json!(["x", "orders"]))))).status,
        200
    );
}

#[test]
fn a_changed_token_no_longer_holds() {
    let server = rs256();
    let token = KEYS.token("RS256", &good());
    // It is remembered now; what is changed must not be found by it.
    assert_eq!(get_with(&server, "/", &bearer(&token)).status, 200);
    let parts: Vec<&str> = token.split('.').collect();
    let root = KEYS.token("RS256", &good_but("sub", json!("root")));
    let payload = root.split('.').nth(1).unwrap();
    let swapped = format!("{}.{payload}.{}", parts[0], parts[2]);
    assert_problem(&get_with(&server, "/", &bearer(&swapped)), 401, "token-signature", "payload");
    let cut = &token[..token.len() - 2];
    assert_problem(&get_with(&server, "/", &bearer(cut)), 401, "token-signature", "cut");
    let unsigned = format!("{}.{}.", parts[0], parts[1]);
    assert_problem(&get_with(&server, "/", &bearer(&unsigned)), 401, "token-signature", "none");
}

#[test]
fn none_is_no_algorithm_however_it_is_written() {
    let server = rs256();
    let token = KEYS.token("RS256", &good());
    let signature = token.rsplit('.').next().unwrap();
    for none in ["none", "None", "NONE", "nOnE", "none ", ""] {
        for signature in ["", signature, "AA"] {
            let token = unsigned(&json!({"alg": none, "typ": "JWT"}), &good(), signature);
            let refused = get_with(&server, "/", &bearer(&token));
            assert_problem(&refused, 401, "token-algorithm", none);
        }
    }
    let token = unsigned(&json!({"typ": "JWT"}), &good(), signature);
    assert_problem(&get_with(&server, "/", &bearer(&token)), 401, "malformed-credential", "no alg");
}

#[test]
fn an_unknown_key_is_not_replaced_by_a_known_one() {
    let server = server("{algorithms: RS256, jwks: \"file:jwks.json\"}", "");
    let token = KEYS.token_with(&json!({"alg": "RS256", "kid": "rotated"}), &good());
    assert_problem(&get_with(&server, "/", &bearer(&token)), 401, "token-key", "unknown kid");
}

#[test]
fn a_credential_sent_twice_or_of_another_kind_is_refused() {
    let server = rs256();
    let good = bearer(&KEYS.token("RS256", &good()));
    let twice = [("authorization", good.as_str()), ("Authorization", good.as_str())];
    let refused = server.connect().request("GET", "/", &twice, "");
    assert_problem(&refused, 401, "malformed-credential", "twice");
    for other in ["Basic bWU6c2VjcmV0", "Bearer", "Bearer ", "Token abc", "-"] {
        assert_problem(&get_with(&server, "/", other), 401, "malformed-credential", other);
    }
    let missing = server.connect().get("/");
    assert_problem(&missing, 401, "missing-credential", "nothing");
    assert_eq!(challenge(&missing), "Bearer realm=\"idp\"", "no error where nothing was tried");
}

#[test]
fn a_missing_scope_is_forbidden_and_named() {
    let server = rs256();
    let token = KEYS.token("RS256", &good_but("scope", json!("read list")));
    assert_eq!(get_with(&server, "/", &bearer(&token)).status, 200);
    let refused = get_with(&server, "/write", &bearer(&token));
    assert_problem(&refused, 403, "insufficient-scope", "read only");
    let challenge = challenge(&refused);
    assert!(challenge.contains("error=\"insufficient_scope\""), "{challenge}");
    assert!(challenge.contains("scope=\"write\""), "{challenge}");
    for scopes in [json!({"scope": "read write"}), json!({"scp": ["write"]})] {
        let mut claims = good();
        claims.as_object_mut().unwrap().extend(scopes.as_object().unwrap().clone());
        let token = KEYS.token("RS256", &claims);
        assert_eq!(get_with(&server, "/write", &bearer(&token)).status, 200, "{scopes}");
    }
}

#[test]
fn required_claims_and_a_leeway_are_kept() {
    let auth = "{algorithms: HS256, key: \"file:HS256\", required_claims: tenant, \
                leeway: 60s, require_exp: false}";
    let server = server(auth, "");
    let status = |claims: Value| get_with(&server, "/", &bearer(&KEYS.token("HS256", &claims)));
    assert_problem(&status(json!({"sub": "me"})), 401, "token-claim", "no tenant");
    assert_eq!(status(json!({"tenant": "a"})).status, 200);
    assert_eq!(status(json!({"tenant": "a", "exp": unix_now() - 5})).status, 200);
    let expired = status(json!({"tenant": "a", "exp": unix_now() - 61}));
    assert_problem(&expired, 401, "token-expired", "beyond the leeway");
}

#[test]
fn a_remembered_token_ends_when_it_expires() {
    let server = rs256();
    let exp = unix_now() + 3;
    let authorization = bearer(&KEYS.token("RS256", &good_but("exp", json!(exp))));
    let mut passed = 0;
    let refused = loop {
        let sent = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        let response = get_with(&server, "/", &authorization);
        if response.status != 200 {
            break response;
        }
        passed += 1;
        assert!(sent < Duration::from_secs(exp + 1), "passed at {sent:?}, expired at {exp}");
        std::thread::sleep(Duration::from_millis(20));
    };
    assert_problem(&refused, 401, "token-expired", "after its time");
    assert!(unix_now() >= exp, "refused before its time");
    assert!(passed > 1);
    assert!(server.metric("weir_token_cache_lookups_total", &["hit"]) >= 1.0, "it was remembered");
}

#[test]
fn a_remembered_token_ends_when_its_key_is_taken_away() {
    let config = "listen: [{addr: \"127.0.0.1:0\"}]\nworkers: 1\n\
        auth: {idp: {jwt: {algorithms: [RS256, ES256], jwks: \"file:jwks.json\"}}}\n\
        apis: {api: {base: /, auth: idp, routes: [{get: /, reply: {text: hello}}]}}\n";
    let mut server = with_keys(Weir::new(config)).start();
    let authorization = bearer(&KEYS.token("RS256", &good()));
    for _ in 0..3 {
        assert_eq!(get_with(&server, "/", &authorization).status, 200);
    }
    // The key set alone changes; it is watched, too.
    server.replace("jwks.json", KEYS.jwks(&["ES256"]));
    server.event("reloaded");
    assert_problem(&get_with(&server, "/", &authorization), 401, "token-key", "key removed");
    server.replace("jwks.json", KEYS.jwks(&["ES256", "RS256"]));
    server.event("reloaded");
    assert_eq!(get_with(&server, "/", &authorization).status, 200);
}

#[test]
fn consumers_are_recognised_by_their_claims() {
    let consumers = "consumers:\n  \
        acme: {match: {auth: idp, when: 'claims.client_id == \"acme\"'}}\n  \
        beta: {match: {auth: idp, when: 'claims.roles.exists(r, r == \"beta\")'}}\n";
    let server = server("{algorithms: HS256, key: \"file:HS256\"}", consumers);
    let consumer = |claims: Value| {
        let mut all = good();
        all.as_object_mut().unwrap().extend(claims.as_object().unwrap().clone());
        let response = get_with(&server, "/", &bearer(&KEYS.token("HS256", &all)));
        assert_eq!(response.status, 200, "{}", response.text());
        response.json().get("consumer").cloned()
    };
    assert_eq!(consumer(json!({"client_id": "acme"})), Some(json!("acme")));
    assert_eq!(consumer(json!({"client_id": "x", "roles": ["a", "beta"]})), Some(json!("beta")));
    assert_eq!(consumer(json!({"client_id": "Acme"})), None);
    assert_eq!(consumer(json!({})), None, "an expression that fails does not hold");
}
