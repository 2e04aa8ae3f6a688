//! API keys, several ways in, and callers nobody knows.

use super::{assert_problem, challenge, get_with};
use crate::harness::{KEYS, SECRET, Server, Weir, unix_now, weir};
use base64::prelude::{BASE64_STANDARD, Engine as _};
use serde_json::{Value, json};

/// A key as `weir key new` makes it.
pub(super) struct Key {
    pub(super) key: String,
    pub(super) hash: String,
}

pub(super) fn new_key() -> Key {
    let output = weir(&std::env::temp_dir(), &["key", "new", "--json"]);
    assert!(output.status.success(), "{output:?}");
    let printed: Value = serde_json::from_slice(&output.stdout).expect("one JSON object");
    let text = |name: &str| printed[name].as_str().expect("a text").to_owned();
    Key { key: text("key"), hash: text("hash") }
}

fn server(hash: &str) -> Server {
    let config = format!(
        "listen: [{{addr: \"127.0.0.1:0\"}}]\nworkers: 1\n\
         auth:\n  header: {{api_key: {{header: X-Api-Key}}}}\n  query: {{api_key: {{query: key}}}}\n  \
         idp: {{jwt: {{algorithms: HS256, key: \"file:secret\"}}}}\n\
         consumers: {{acme: {{api_keys: [\"{hash}\"]}}}}\n\
         apis:\n  api:\n    base: /\n    auth: header\n    routes:\n      \
         - {{get: /header, reply: &who {{map: {{consumer: {{cel: consumer}}}}}}}}\n      \
         - {{get: /query, auth: query, reply: *who}}\n      \
         - {{get: /any, auth: [idp, header, query], reply: *who}}\n      \
         - {{get: /anonymous, auth: [idp, header, anonymous], reply: *who}}\n      \
         - {{get: /open, auth: none, reply: *who}}\n"
    );
    Weir::new(&config).file("secret", SECRET).start()
}

#[test]
fn a_new_key_opens_by_header_and_by_query() {
    let Key { key, hash } = new_key();
    let server = server(&hash);
    let acme = json!({"consumer": "acme"});
    let mut client = server.connect();
    let by_header = client.request("GET", "/header", &[("x-api-key", &*key)], "");
    assert_eq!((by_header.status, by_header.json()), (200, acme.clone()));
    let by_query = client.get(&format!("/query?a=1&key={key}&b=2"));
    assert_eq!((by_query.status, by_query.json()), (200, acme.clone()));
    for path in [format!("/any?key={key}"), "/any".to_owned()] {
        let response = client.request("GET", &path, &[("x-api-key", &*key)], "");
        assert_eq!((response.status, response.json()), (200, acme.clone()), "{path}");
    }
    // Each where it belongs only.
    assert_eq!(client.get(&format!("/header?key={key}")).status, 401);
    assert_eq!(client.request("GET", "/query", &[("x-api-key", &*key)], "").status, 401);
}

#[test]
fn every_new_key_is_another() {
    let (first, second) = (new_key(), new_key());
    assert_ne!(first.key, second.key);
    let server = server(&first.hash);
    let headers = [("x-api-key", second.key.as_str())];
    assert_eq!(server.connect().request("GET", "/header", &headers, "").status, 401);
}

#[test]
fn wrong_keys_are_refused() {
    let Key { key, hash } = new_key();
    let server = server(&hash);
    let mut client = server.connect();
    let changed = format!("{}x", &key[..key.len() - 1]);
    for wrong in [changed.as_str(), &key[1..], &hash, &hash["sha256:".len()..], "x"] {
        let refused = client.request("GET", "/header", &[("x-api-key", wrong)], "");
        assert_problem(&refused, 401, "unknown-api-key", wrong);
        assert!(challenge(&refused).starts_with("ApiKey realm=\"header\""), "{refused:?}");
        let refused = client.get(&format!("/query?key={wrong}"));
        assert_problem(&refused, 401, "unknown-api-key", wrong);
    }
    let twice = [("x-api-key", key.as_str()), ("x-api-key", key.as_str())];
    let refused = client.request("GET", "/header", &twice, "");
    assert_problem(&refused, 401, "malformed-credential", "twice");
    let refused = client.get(&format!("/query?key={key}&key={key}"));
    assert_problem(&refused, 401, "malformed-credential", "twice");
    assert_problem(&client.get("/header"), 401, "missing-credential", "nothing");
}

#[test]
fn every_way_in_is_named_to_those_who_try_none() {
    let server = server(&new_key().hash);
    let missing = server.connect().get("/any");
    assert_problem(&missing, 401, "missing-credential", "nothing");
    let expected = "Bearer realm=\"idp\", ApiKey realm=\"header\", header=\"x-api-key\", \
                    ApiKey realm=\"query\", query=\"key\"";
    assert_eq!(challenge(&missing).to_ascii_lowercase(), expected.to_ascii_lowercase());
}

#[test]
fn anonymous_is_nobody_else() {
    let Key { key, hash } = new_key();
    let server = server(&hash);
    let mut client = server.connect();
    let anonymous = client.get("/anonymous");
    assert_eq!((anonymous.status, anonymous.json()), (200, json!({})));
    let known = client.request("GET", "/anonymous", &[("x-api-key", &*key)], "");
    assert_eq!(known.json(), json!({"consumer": "acme"}));
    let token = KEYS.token("HS256", &json!({"exp": unix_now() - 10}));
    let refused = get_with(&server, "/anonymous", &format!("Bearer {token}"));
    assert_problem(&refused, 401, "token-expired", "an expired token is no anonymous caller");
    let refused = client.request("GET", "/anonymous", &[("x-api-key", "wrong")], "");
    assert_problem(&refused, 401, "unknown-api-key", "nor is a wrong key");
    // Where nothing is asked for, nothing is looked at.
    let open = client.request("GET", "/open", &[("x-api-key", "wrong")], "");
    assert_eq!((open.status, open.json()), (200, json!({})));
}

#[test]
fn basic_takes_the_name_of_a_consumer_and_its_key() {
    let hash = |key: &str| crate::harness::key_hash(key);
    let server = Weir::new(&format!(
        "listen: [{{addr: \"127.0.0.1:0\"}}]\nworkers: 1\nauth: {{staff: {{basic: true}}}}\n\
         consumers: {{ann: {{api_keys: [\"{}\"]}}, bob: {{api_keys: [\"{}\"]}}}}\n\
         apis: {{a: {{base: /, auth: staff, routes: [{{get: /, reply: {{map: {{cel: consumer}}}}}}]}}}}\n",
        hash("ann:s key"),
        hash("b")
    ))
    .start();
    let pair = |pair: &str| format!("Basic {}", BASE64_STANDARD.encode(pair));
    let good = get_with(&server, "/", &pair("ann:ann:s key"));
    assert_eq!((good.status, good.text().as_str()), (200, "\"ann\""));
    assert_eq!(get_with(&server, "/", &pair("bob:b")).status, 200);
    for wrong in ["ann:b", "bob:ann:s key", "ann:", "ann:x", ":b", "Ann:ann:s key"] {
        let refused = get_with(&server, "/", &pair(wrong));
        assert_problem(&refused, 401, "unknown-api-key", wrong);
    }
    for malformed in ["Basic", "Basic ", "Basic %%%", "Bearer x", &pair("ann")] {
        assert_problem(&get_with(&server, "/", malformed), 401, "malformed-credential", malformed);
    }
    let missing = server.connect().get("/");
    assert_problem(&missing, 401, "missing-credential", "none");
    assert_eq!(challenge(&missing), "Basic realm=\"staff\", charset=\"UTF-8\"");
}
