//! API keys that end: by themselves, and because somebody revokes them.

use super::api_keys::{Key, new_key};
use super::assert_problem;
use crate::admin_api::{ask, command, first_token, get, tokens};
use crate::harness::{Client, Response, Server, Signal, Weir, eventually, unix_now};
use serde_json::{Value, json};

/// `auth` and an API, with these keys of the consumer `acme`.
fn config(keys: &str) -> String {
    format!(
        "listen: [{{addr: \"127.0.0.1:0\"}}]\nworkers: 2\ntracker: {{enabled: true}}\n\
         auth: {{keys: {{api_key: {{header: x-key}}}}}}\nconsumers: {{acme: {{api_keys: [{keys}]}}}}\n\
         apis: {{api: {{base: /, auth: keys, routes: [{{get: /, reply: {{text: hi}}}}]}}}}\n"
    )
}

fn with_key(client: &mut Client, key: &str) -> Response {
    client.request("GET", "/", &[("x-key", key)], "")
}

/// `revoke` or `restore` by the admin API.
fn act(server: &Server, token: &str, id: &str, action: &str) -> Response {
    let path = format!("/v1/api-keys/{id}/{action}");
    ask(server, "POST", &path, Some(token), &json!({"reason": "in a repository"}).to_string())
}

/// The id that records have.
fn id(hash: &str) -> &str {
    &hash["sha256:".len()..][..8]
}

/// Principal and consumer of the transactions of a query.
fn found(server: &Server, query: &str) -> Vec<(Value, Value)> {
    eventually("it is indexed", || server.metric("weir_index_lag_seconds", &[]) == 0.0);
    let page = get(server, &format!("/v1/transactions?q={query}"), &first_token(server)).json();
    let all = page["transactions"].as_array().expect("transactions").clone();
    all.iter().map(|one| (one["principal"].clone(), one["consumer"].clone())).collect()
}

#[test]
fn a_key_ends_at_its_end() {
    let (open, over, soon) = (new_key(), new_key(), new_key());
    let end = jiff::Timestamp::from_second(i64::try_from(unix_now()).unwrap() + 3).unwrap();
    let keys = format!(
        "{{hash: \"{}\", name: ci, expires: 2100-01-31}}, {{hash: \"{}\", expires: 2001-01-31}}, \
         {{hash: \"{}\", name: soon, expires: \"{end}\"}}",
        open.hash, over.hash, soon.hash
    );
    let server = Weir::new(&config(&keys)).start();
    assert!(server.stderr().contains("expired-key"), "{}", server.stderr());
    let mut client = server.connect();
    assert_eq!(with_key(&mut client, &open.key).status, 200);
    assert_problem(&with_key(&mut client, &over.key), 401, "api-key-expired", "since 2001");
    eventually("the other one ends, too", || {
        let before = unix_now();
        let has_ended = with_key(&mut client, &soon.key).status == 401;
        let end = end.as_second().unsigned_abs();
        assert!(if has_ended { unix_now() >= end } else { before < end }, "not before its end");
        has_ended
    });
    let shown = get(&server, "/v1/consumers/acme", &first_token(&server)).json();
    let key = |at: usize| shown["credentials"][at]["key"].clone();
    assert_eq!((&key(0)["name"], &key(0)["expired"]), (&json!("ci"), &json!(false)));
    assert_eq!(key(0)["expires"], "2100-02-01T00:00:00Z");
    assert_eq!((&key(1)["expired"], &key(2)["expired"]), (&json!(true), &json!(true)));
    // Nobody is billed for it, and it is found by the key.
    let principal = json!(format!("sha256:{}", id(&over.hash)));
    assert_eq!(found(&server, "problem:api-key-expired")[1..], [(principal, Value::Null)]);
}

#[test]
fn a_revoked_key_is_rejected_at_once_and_until_it_is_restored() {
    let (Key { key, hash }, other) = (new_key(), new_key());
    let keys = format!("\"{hash}\", \"{}\"", other.hash);
    let mut server = Weir::new(&config(&keys)).start();
    let all = tokens(&server);
    // One to each worker, as far as the kernel spreads them.
    let mut clients: Vec<Client> = (0..8).map(|_| server.connect()).collect();
    assert!(clients.iter_mut().all(|client| with_key(client, &key).status == 200));
    let (viewer, admin) = (&all[0], &all[3]);
    for token in &all[..3] {
        assert_eq!(act(&server, token, id(&hash), "revoke").status, 403);
    }
    assert!(clients.iter_mut().all(|client| with_key(client, &key).status == 200));
    let revoked = act(&server, admin, id(&hash), "revoke");
    assert_eq!(revoked.status, 200, "{}", revoked.text());
    for client in &mut clients {
        assert_problem(&with_key(client, &key), 401, "api-key-revoked", "on an open connection");
        assert_eq!(with_key(client, &other.key).status, 200, "the other one stays valid");
    }
    let shown = get(&server, &format!("/v1/api-keys/{hash}"), viewer).json();
    let by = (&shown["consumer"], &shown["revoked"]["who"], &shown["revoked"]["reason"]);
    assert_eq!(by, (&json!("acme"), &json!("admin"), &json!("in a repository")));
    assert!(!shown.to_string().contains(&hash[..40]), "the hash is not shown: {shown}");
    // Again: the first one is named.
    assert_eq!(act(&server, admin, id(&hash), "revoke").json(), shown);
    let principal = json!(format!("sha256:{}", id(&hash)));
    let used = found(&server, "problem:api-key-revoked");
    assert_eq!(used, vec![(principal, Value::Null); 8], "who uses it is seen");
    for signal in [Signal::TERM, Signal::KILL] {
        server.signal(signal);
        server.wait();
        server.restart(&[]);
        let response = with_key(&mut server.connect(), &key);
        assert_problem(&response, 401, "api-key-revoked", "after a restart");
    }
    // It is not forgotten with the configuration.
    server.reload(&config(&format!("\"{}\"", other.hash)));
    let unknown = with_key(&mut server.connect(), &key);
    assert_problem(&unknown, 401, "unknown-api-key", "it is removed");
    let listed = get(&server, "/v1/api-keys", viewer).json();
    assert_eq!((&listed[1]["configured"], &listed[1]["id"]), (&json!(false), &shown["id"]));
    server.reload(&config(&keys));
    let response = with_key(&mut server.connect(), &key);
    assert_problem(&response, 401, "api-key-revoked", "it has returned");
    assert_eq!(act(&server, viewer, id(&hash), "restore").status, 403);
    assert_eq!(act(&server, admin, id(&hash), "restore").json()["revoked"], Value::Null);
    assert_eq!(with_key(&mut server.connect(), &key).status, 200);
    let audit = get(&server, &format!("/v1/audit?subject=sha256:{}", id(&hash)), admin).json();
    let entry = |at: usize| (audit[at]["action"].clone(), audit[at]["name"].clone());
    assert_eq!(
        (entry(0), entry(1)),
        ((json!("restore-key"), json!("admin")), (json!("revoke-key"), json!("admin"))),
        "{audit}"
    );
    assert_eq!(audit.as_array().unwrap().len(), 2, "what changed nothing is no entry: {audit}");
    let details = audit[1]["details"].as_str().unwrap();
    assert!(details.contains("in a repository") && details.contains("acme"), "{details}");
}

#[test]
fn wrong_ids_and_reasons_change_nothing() {
    let Key { key, hash } = new_key();
    let server = Weir::new(&config(&format!("\"{hash}\""))).start();
    let token = first_token(&server);
    for (wrong, status) in [("sha256:0", 400), ("acme", 400), ("sha256:00000000", 404)] {
        assert_eq!(act(&server, &token, wrong, "revoke").status, status, "{wrong}");
    }
    assert_eq!(act(&server, &token, id(&hash), "remove").status, 404);
    let path = format!("/v1/api-keys/{}/revoke", id(&hash));
    let long = json!({"reason": "x".repeat(501)}).to_string();
    for body in
        ["", "{}", "{\"reason\": \" \"}", "{\"reason\": \"a\\nb\"}", "{\"why\": \"x\"}", &long]
    {
        assert_eq!(ask(&server, "POST", &path, Some(&token), body).status, 400, "{body}");
    }
    assert_eq!(with_key(&mut server.connect(), &key).status, 200);
    let audit = get(&server, "/v1/audit?action=revoke-key", &token).json();
    assert_eq!(audit, json!([]));
}

#[test]
fn commands_list_revoke_and_restore_keys() {
    let Key { key, hash } = new_key();
    let keys = format!("{{hash: \"{hash}\", name: ci, expires: 2100-01-31}}");
    let server = Weir::new(&config(&keys)).start();
    let token = first_token(&server);
    let run = |args: &[&str]| command(&server, &token, args);
    let id = format!("sha256:{}", id(&hash));
    let (ok, out, _) = run(&["key", "list"]);
    assert!(ok && out.contains(&id) && out.contains("2100-02-01T00:00:00Z"), "{out}");
    let (ok, _, err) = run(&["key", "revoke", &id]);
    assert!(!ok && err.contains("--reason"), "{err}");
    let (ok, _, err) = run(&["key", "revoke", &id, "--reason", "leaked"]);
    assert!(ok && err.contains(&format!("{id} of acme is revoked by first")), "{err}");
    assert_eq!(with_key(&mut server.connect(), &key).status, 401);
    let (_, out, _) = run(&["key", "list", "--consumer", "acme", "--json"]);
    let listed: Value = serde_json::from_str(&out).expect("one object");
    assert_eq!((&listed["name"], &listed["revoked"]["reason"]), (&json!("ci"), &json!("leaked")));
    assert_eq!(run(&["key", "list", "--consumer", "beta", "--json"]).1, "");
    let (ok, _, err) = run(&["key", "restore", &id, "--reason", "a false alarm"]);
    assert!(ok && err.contains("is not revoked"), "{err}");
    assert_eq!(with_key(&mut server.connect(), &key).status, 200);
    let (ok, _, err) = run(&["key", "revoke", "ci", "--reason", "x"]);
    assert!(!ok && err.contains("is not the id"), "{err}");
}
