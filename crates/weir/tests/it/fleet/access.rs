//! Admin tokens and the audit log are those of the fleet: of all nodes, on any node.

use super::node::{copy_data, findings, is_up, members, node, states, text};
use crate::admin_api::{ask, command, first_token, get};
use crate::harness::{Mode, Postgres, Relay, Server, Signal, eventually, key_hash};
use serde_json::Value;
use std::net::SocketAddr;

fn nodes(addrs: [SocketAddr; 2]) -> [Server; 2] {
    let [one, two] =
        [("one", addrs[0]), ("two", addrs[1])].map(|(name, addr)| node(name, addr, "").start());
    let all = ["one live", "two live"];
    eventually("they know each other", || states(&one) == all && states(&two) == all);
    [one, two]
}

/// Makes a token on a node; the token and its id.
fn make(server: &Server, role: &str) -> (String, String) {
    let body = format!("{{\"name\": \"ann\", \"role\": \"{role}\"}}");
    let made = ask(server, "POST", "/v1/tokens", Some(&first_token(server)), &body);
    assert_eq!(made.status, 201, "{}", made.text());
    let text = |key: &str| made.json()[key].as_str().unwrap().to_owned();
    (text("token"), text("id"))
}

fn revoke(server: &Server, id: &str) -> u16 {
    let path = format!("/v1/tokens/{id}");
    ask(server, "DELETE", &path, Some(&first_token(server)), "").status
}

/// The status of a request that every role may send.
fn status(server: &Server, token: &str) -> u16 {
    get(server, "/v1/fleet", token).status
}

#[test]
fn a_token_of_one_node_works_on_all_until_any_revokes_it() {
    let database = Postgres::start();
    let [one, two] = nodes([database.addr(); 2]);
    let (token, id) = make(&one, "viewer");
    eventually("the other one accepts it", || status(&two, &token) == 200);
    assert_eq!(get(&two, "/v1/audit", &token).status, 403, "its role is viewer there, too");
    let listed = text(&two, &["token", "list", "--json"]);
    assert!(listed.contains(&id), "{listed}");
    // The first tokens, too: each node has one of its own.
    eventually("so it does with the first", || status(&two, &first_token(&one)) == 200);
    assert_eq!(revoke(&two, &id), 204);
    assert_eq!(status(&two, &token), 401);
    eventually("it is revoked where it was made", || status(&one, &token) == 401);
    assert!(!text(&one, &["token", "list", "--json"]).contains(&id));
    assert_eq!(revoke(&one, &id), 404);
    assert_eq!(database.query("SELECT count(*) FROM weir.token WHERE revoked IS NULL"), "2");
    let stored = database.query("SELECT string_agg(sha256 || name, ' ') FROM weir.token");
    assert!(!stored.contains(&token[5..]), "only a hash is stored");
    // What has expired is deleted, also its revocation.
    let body = r#"{"name": "ann", "role": "viewer", "expires_in": 600}"#;
    let ending = ask(&one, "POST", "/v1/tokens", Some(&first_token(&one)), body).json();
    let ending = ending["id"].as_str().unwrap();
    let count =
        |rows: &str| database.query(&format!("SELECT count(*) FROM weir.token WHERE {rows}"));
    let ends = "expires BETWEEN extract(epoch FROM now()) AND extract(epoch FROM now()) + 600";
    eventually("its end is known", || count(ends) == "1");
    eventually("it is known", || text(&two, &["token", "list"]).contains(ending));
    assert_eq!(revoke(&two, ending), 204);
    eventually("it is revoked", || count(&format!("{ends} AND revoked IS NOT NULL")) == "1");
    database.query(&format!("UPDATE weir.token SET expires = 1 WHERE {ends}"));
    make(&two, "viewer");
    eventually("both are deleted", || count("expires IS NOT NULL") == "0");
    assert_eq!(status(&one, &token), 401);
}

#[test]
fn without_the_database_a_copy_of_tokens_is_trusted_for_an_hour() {
    let database = Postgres::start();
    let mut relay = Relay::new(database.addr());
    let [one, mut two] = nodes([database.addr(), relay.addr()]);
    let (token, _) = make(&one, "operator");
    let (revoked, id) = make(&one, "operator");
    eventually("the other one accepts them", || {
        status(&two, &token) == 200 && status(&two, &revoked) == 200
    });
    relay.set(Mode::Refuse);
    eventually("it notices", || !is_up(&two));
    assert_eq!(status(&two, &token), 200);
    // A revocation is not lost, wherever it was made.
    assert_eq!(revoke(&two, &id), 204);
    assert_eq!((status(&two, &revoked), status(&one, &revoked)), (401, 200));
    two.signal(Signal::TERM);
    two.wait();
    two.restart(&[]);
    assert_eq!((status(&two, &token), status(&two, &revoked)), (200, 401), "from its copy");
    two.signal(Signal::TERM);
    two.wait();
    let file = two.data().join("fleet-tokens.json");
    let mut copy: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    copy["at"] = (copy["at"].as_u64().unwrap() - 3601).into();
    std::fs::write(&file, copy.to_string()).unwrap();
    two.restart(&[]);
    assert_eq!(status(&two, &token), 401);
    assert_eq!(status(&two, &first_token(&two)), 200, "its own tokens are valid always");
    relay.set(Mode::Pass);
    eventually("it is accepted again", || status(&two, &token) == 200);
    eventually("the other one is told", || status(&one, &revoked) == 401);
}

/// `SUBJECT NODE` of the entries about tokens, as a command shows them.
fn entries(server: &Server, args: &[&str]) -> Vec<String> {
    let args = [&["audit", "--json", "--action", "make-token"], args].concat();
    let lines = text(server, &args);
    let entry = |line: &str| {
        let entry: Value = serde_json::from_str(line).unwrap();
        let word = |key: &str| entry[key].as_str().unwrap_or("-").to_owned();
        format!("{} {}", word("subject"), word("node"))
    };
    lines.lines().map(entry).collect()
}

#[test]
fn any_node_shows_the_audit_log_of_all() {
    let database = Postgres::start();
    let mut relay = Relay::new(database.addr());
    let [one, two] = nodes([database.addr(), relay.addr()]);
    let (_, first) = make(&one, "viewer");
    let expected = [format!("{first} one")];
    assert_eq!(entries(&one, &[]), expected, "its own at once");
    eventually("the other one knows", || entries(&two, &[]) == expected);
    let (_, second) = make(&two, "viewer");
    let expected = [format!("{second} two"), format!("{first} one")];
    eventually("both are there", || entries(&one, &[]) == expected);
    assert_eq!(entries(&two, &["--limit", "1"]), expected[..1]);
    assert_eq!(entries(&two, &["--node", "one"]), expected[1..]);
    assert_eq!(entries(&two, &["--node", "here"]), [format!("{second} -")]);
    assert!(text(&one, &["audit"]).contains("NODE"));
    // An outage holds up what it has, and nothing else.
    relay.set(Mode::Refuse);
    eventually("it notices", || findings(&two).contains(&"postgres-down".to_owned()));
    let (ok, _, err) = command(&two, &first_token(&two), &["audit"]);
    assert!(!ok && err.contains("node=here"), "{err}");
    let (_, third) = make(&two, "viewer");
    assert_eq!(entries(&two, &["--node", "here"])[0], format!("{third} -"));
    assert_eq!(entries(&one, &[]), expected);
    relay.set(Mode::Pass);
    eventually("it is there", || entries(&one, &[]).first() == Some(&format!("{third} two")));
    let twice = "SELECT count(*) FROM (SELECT subject FROM weir.audit WHERE action = 'make-token'
         GROUP BY subject HAVING count(*) > 1) s";
    assert_eq!(database.query(twice), "0");
}

#[test]
fn a_copied_data_folder_repeats_no_entry() {
    let database = Postgres::start();
    let one = node("one", database.addr(), "").start();
    eventually("it has joined", || is_up(&one));
    make(&one, "viewer");
    let copy = node("copy", database.addr(), "");
    copy_data(&one.data(), &copy.dir().join("data"));
    let copy = copy.start();
    eventually("it has joined", || is_up(&copy));
    let (_, id) = make(&copy, "viewer");
    eventually("it has copied its log", || entries(&one, &[])[0] == format!("{id} copy"));
    assert_eq!(entries(&one, &[]).len(), 2);
}

#[test]
fn the_history_of_the_configuration_names_the_node() {
    let database = Postgres::start();
    let [one, two] = members(database.addr(), ["one", "two"]);
    let (one, two) = (&one.server, &two.server);
    let token = first_token(one);
    let ask = |path: &str| get(one, &format!("/v1/configuration/history{path}"), &token).json();
    let names = |server: &Server| {
        let own = get(server, "/v1/configuration/history?node=here", &first_token(server)).json();
        own["configurations"][0]["node"].as_str().unwrap().to_owned()
    };
    let (first, second) = (names(one), names(two));
    assert!(first != second && !first.is_empty(), "{first} {second}");
    eventually("both nodes respond", || {
        let all = ask("");
        let all = all["configurations"].as_array().unwrap();
        [&first, &second].iter().all(|name| all.iter().any(|entry| entry["node"] == name.as_str()))
    });
    for name in [&first, &second] {
        let number = &ask(&format!("?node={name}"))["configurations"][0]["number"];
        assert_eq!(ask(&format!("/{number}?node={name}"))["configuration"]["node"], name.as_str());
    }
}

#[test]
fn a_view_saved_on_one_node_is_that_of_all() {
    let database = Postgres::start();
    let [one, two] = nodes([database.addr(); 2]);
    let send = |server: &Server, method: &str, body: &str| {
        ask(server, method, "/v1/views/failures", Some(&first_token(server)), body).status
    };
    assert_eq!(send(&one, "PUT", "{\"search\": \"q=a\"}"), 204);
    assert_eq!(send(&two, "PUT", "{\"search\": \"q=b\"}"), 204);
    let views = get(&one, "/v1/views", &first_token(&one)).json();
    assert_eq!((views.as_array().unwrap().len(), &views[0]["search"]), (1, &"q=b".into()));
    assert_eq!((send(&one, "DELETE", ""), send(&two, "DELETE", "")), (204, 404));
}

/// The status of a request with an API key.
fn with_key(server: &Server, key: &str) -> u16 {
    server.connect().request("GET", "/", &[("x-key", key)], "").status
}

/// `revoke` or `restore` of the key whose hash begins so.
fn change_key(server: &Server, hash: &str, action: &str) {
    let path = format!("/v1/api-keys/{}/{action}", &hash[..15]);
    let body = "{\"reason\": \"leaked\"}";
    let changed = ask(server, "POST", &path, Some(&first_token(server)), body);
    assert_eq!(changed.status, 200, "{}", changed.text());
}

#[test]
fn an_api_key_is_revoked_and_restored_on_all_nodes() {
    let database = Postgres::start();
    let mut relay = Relay::new(database.addr());
    let hash = key_hash("a-key");
    let more = format!(
        "auth: {{keys: {{api_key: {{header: x-key}}}}}}\nconsumers: {{acme: {{api_keys: [\"{hash}\"]}}}}\n\
         apis: {{x: {{base: /, auth: keys, routes: [{{get: /, reply: {{text: hi}}}}]}}}}"
    );
    let [one, mut two] = [("one", database.addr()), ("two", relay.addr())]
        .map(|(name, addr)| node(name, addr, &more).start());
    let all = ["one live", "two live"];
    eventually("they know each other", || states(&one) == all && states(&two) == all);
    change_key(&one, &hash, "revoke");
    assert_eq!(with_key(&one, "a-key"), 401);
    eventually("the other one rejects it", || with_key(&two, "a-key") == 401);
    change_key(&two, &hash, "restore");
    assert_eq!(with_key(&two, "a-key"), 200);
    eventually("it is restored where it was revoked", || with_key(&one, "a-key") == 200);
    // Without the database, each node revokes for itself, and tells the others later.
    relay.set(Mode::Refuse);
    eventually("it notices", || !is_up(&two));
    change_key(&two, &hash, "revoke");
    assert_eq!((with_key(&two, "a-key"), with_key(&one, "a-key")), (401, 200));
    two.signal(Signal::TERM);
    two.wait();
    two.restart(&[]);
    assert_eq!(with_key(&two, "a-key"), 401, "from its own database");
    relay.set(Mode::Pass);
    eventually("the other one is told", || with_key(&one, "a-key") == 401);
    assert_eq!(database.query("SELECT revoked, reason FROM weir.revoked_key"), "t|leaked");
}
