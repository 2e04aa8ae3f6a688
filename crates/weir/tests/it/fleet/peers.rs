//! Any node finds the transactions of all, as far as the others respond; only nodes with the key are
//! believed.

use super::node::{
    KEY, config, copy_data, is_up, json, member, member_in, members, members_with_transactions,
    text, transaction,
};
use crate::admin_api::{ask, command, first_token, get, tokens};
use crate::harness::{
    Certificate, Mode, Postgres, Server, Signal, Weir, eventually, free_address, weir,
};
use serde_json::Value;
use std::time::{Duration, Instant};

/// The result of a request with the first token.
fn ok(server: &Server, path: &str) -> Value {
    let response = get(server, path, &first_token(server));
    assert_eq!(response.status, 200, "{path}: {}", response.text());
    response.json()
}

/// `ID NODE` of the transactions of a page.
fn shown(page: &Value) -> Vec<String> {
    let word = |hit: &Value, key: &str| hit[key].as_str().unwrap_or("-").to_owned();
    let hits = page["transactions"].as_array().expect("transactions");
    hits.iter().map(|hit| format!("{} {}", word(hit, "id"), word(hit, "node"))).collect()
}

/// All pages of a search with so many transactions on each.
fn pages(server: &Server, limit: usize) -> Vec<String> {
    let (mut all, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = ok(server, &format!("/v1/transactions?limit={limit}{cursor}"));
        assert_eq!(page["nodes"].get("missing"), None, "{page}");
        all.extend(shown(&page));
        let Some(next) = page["next"].as_str() else { return all };
        assert_eq!(page["transactions"].as_array().map(Vec::len), Some(limit), "{page}");
        cursor = format!("&cursor={next}");
    }
}

#[test]
fn any_node_finds_the_transactions_of_all_newest_first() {
    let database = Postgres::start();
    let (nodes, expected) = members_with_transactions(database.addr());
    for node in &nodes {
        for limit in [1, 2, 4, 9, 50] {
            assert_eq!(pages(&node.server, limit), expected, "{limit}");
        }
    }
    let one = &nodes[0].server;
    let of_two = ok(one, "/v1/transactions?node=two");
    assert_eq!(of_two["transactions"].as_array().map(Vec::len), Some(3));
    let id = json(one, &["fleet", "status", "--json"])["nodes"][1]["id"].clone();
    let by_id = ok(one, &format!("/v1/transactions?node={}", id.as_str().unwrap()));
    assert_eq!(by_id["transactions"].as_array().map(Vec::len), Some(3));
    assert_eq!(shown(&ok(one, "/v1/transactions?node=here")).len(), 3);
    let unknown = get(one, "/v1/transactions?node=four", &first_token(one));
    assert_eq!(unknown.status, 400, "{}", unknown.text());
    // The commands.
    let table = text(one, &["search", "--limit", "2"]);
    let last = expected[0].split_once(' ').unwrap();
    assert!(table.contains("NODE") && table.contains(last.0) && table.contains(last.1), "{table}");
    assert!(!text(one, &["search", "--node", "here"]).contains("NODE"));
    assert_eq!(text(one, &["search", "--json", "--node", "two"]).lines().count(), 3);
    let counts = ok(one, "/v1/transactions/summary");
    assert_eq!((&counts["matched"], &counts["nodes"]["queried"]), (&9.into(), &3.into()));
    assert_eq!(ok(one, "/v1/transactions/summary?node=three")["matched"], 3);
    let facets = text(one, &["search", "--facets", "--json"]);
    assert!(facets.contains("\"count\":9"), "{facets}");
}

#[test]
fn any_node_shows_what_another_has_as_that_does() {
    let database = Postgres::start();
    let [one, two] = members(database.addr(), ["one", "two"]);
    let id = transaction(&two.server);
    let mut own = ok(&two.server, &format!("/v1/transactions/{id}"));
    let shown = ok(&one.server, &format!("/v1/transactions/{id}"));
    assert_eq!(own.get("node"), None);
    own["node"] = "two".into();
    assert_eq!(shown, own);
    let part = text(&one.server, &["show", &id[..18]]);
    assert!(part.contains("node       two"), "{part}");
    assert_eq!(text(&one.server, &["show", &id, "--raw", "response"]), "hi");
    let explained = format!("/v1/transactions/{id}/explanation");
    assert_eq!(ok(&one.server, &explained), ok(&two.server, &explained));
    // It is where it was said to be, or nowhere.
    let path = format!("/v1/transactions/{id}?node=here");
    assert_eq!(get(&one.server, &path, &first_token(&one.server)).status, 404);
    let none = "/v1/transactions/019a9e3c-4c5e-7d2a-9b1f-3f6d2c1e0a55";
    assert_eq!(get(&one.server, none, &first_token(&one.server)).status, 404);
}

#[test]
fn a_node_that_does_not_respond_is_named_and_then_skipped_for_a_while() {
    let database = Postgres::start();
    let [one, mut two] = members(database.addr(), ["one", "two"]);
    let (mine, other) = (transaction(&one.server), transaction(&two.server));
    two.relay.set(Mode::BlackHole);
    let misses = || one.server.metric("weir_fleet_peer_misses_total", &[]);
    let search = || {
        let started = Instant::now();
        let page = ok(&one.server, "/v1/transactions?timeout=1");
        assert_eq!(shown(&page), [format!("{mine} one")]);
        assert_eq!(page["nodes"]["missing"][0]["name"], "two", "{page}");
        assert_eq!((&page["incomplete"], &page["nodes"]["queried"]), (&true.into(), &2.into()));
        started.elapsed()
    };
    for expected in [1.0, 2.0, 3.0] {
        let took = search();
        assert!(took < Duration::from_secs(60), "the deadline was a second: {took:?}");
        assert_eq!(misses(), expected);
    }
    search();
    assert_eq!(misses(), 3.0, "it is skipped");
    // What it may have is not said to be unknown.
    let path = format!("/v1/transactions/{other}");
    let response = get(&one.server, &path, &first_token(&one.server));
    assert_eq!(response.status, 503, "{}", response.text());
    assert!(response.text().contains("two"), "{}", response.text());
    let (_, _, err) = command(&one.server, &first_token(&one.server), &["search"]);
    assert!(err.contains("1 of 2 nodes responded (two: "), "{err}");
    two.relay.set(Mode::Pass);
    let found = || shown(&ok(&one.server, "/v1/transactions")).len() == 2;
    eventually("it is asked again", found);
}

#[test]
fn a_node_that_is_down_is_named_until_it_is_retired() {
    let database = Postgres::start();
    let [one, mut two] = members(database.addr(), ["one", "two"]);
    two.server.signal(Signal::TERM);
    two.server.wait();
    let missing = || ok(&one.server, "/v1/transactions")["nodes"]["missing"].clone();
    eventually("it is down", || missing()[0]["reason"] == "it sends no heartbeats");
    text(&one.server, &["fleet", "retire", "two"]);
    eventually("it is retired", || missing().is_null());
}

#[test]
fn a_transaction_that_two_nodes_have_is_shown_once() {
    let database = Postgres::start();
    let mut one = member("one", database.addr(), KEY);
    eventually("it has joined", || is_up(&one.server));
    let ids: Vec<String> = (0..5).map(|_| transaction(&one.server)).collect();
    one.server.signal(Signal::TERM);
    one.server.wait();
    let data = one.server.data();
    let copy = member_in("copy", database.addr(), (KEY, ""), |weir| {
        copy_data(&data, &weir.dir().join("data"));
        weir
    });
    one.server.restart(&[]);
    let queried = || ok(&copy.server, "/v1/transactions")["nodes"].clone();
    eventually("both serve", || queried()["queried"] == 2 && queried().get("missing").is_none());
    for limit in [1, 2, 3, 50] {
        let found = pages(&copy.server, limit);
        let found: Vec<&str> = found.iter().map(|line| line.split(' ').next().unwrap()).collect();
        let expected: Vec<&str> = ids.iter().rev().map(String::as_str).collect();
        assert_eq!(found, expected, "{limit}");
    }
}

#[test]
fn only_nodes_with_the_key_are_believed() {
    let database = Postgres::start();
    let one = member("one", database.addr(), KEY);
    let foreign = member("foreign", database.addr(), "another key of 32 bytes and more");
    let known = || ok(&one.server, "/v1/transactions")["nodes"]["queried"] == 2;
    eventually("they know each other", known);
    transaction(&one.server);
    eventually("the foreign one knows it", || {
        ok(&foreign.server, "/v1/transactions")["nodes"]["queried"] == 2
    });
    // Neither gets anything from the other, whatever its own callers may do.
    for (here, there) in [(&one, "foreign"), (&foreign, "one")] {
        let page = ok(&here.server, "/v1/transactions");
        let missing = &page["nodes"]["missing"][0];
        assert_eq!(missing["name"], there, "{page}");
        assert!(missing["reason"].as_str().unwrap().contains("signature"), "{page}");
    }
    assert_eq!(shown(&ok(&foreign.server, "/v1/transactions")), Vec::<String>::new());
    assert!(one.server.metric("weir_fleet_peer_rejected_total", &[]) > 0.0);
    let id = json(&one.server, &["fleet", "status", "--json"])["node"].clone();
    for credential in ["", "a", "a.b", "e30.AAAA", id.as_str().unwrap()] {
        let mut client = one.server.connect_admin();
        client.send(format!(
            "GET /v1/transactions HTTP/1.1\r\nhost: localhost\r\n\
             authorization: Weir-Node {credential}\r\n\r\n"
        ));
        assert_eq!(client.response().status, 401, "{credential}");
    }
    let unsigned = ask(&one.server, "GET", "/v1/transactions", None, "");
    assert_eq!(unsigned.status, 401);
    // A single node without a fleet accepts none either.
    let single = Weir::new("listen: [\"127.0.0.1:0\"]\ntracker: {enabled: true}\n").start();
    let mut client = single.connect_admin();
    client.send(
        "GET /v1/transactions HTTP/1.1\r\nhost: localhost\r\nauthorization: Weir-Node a.b\r\n\r\n",
    );
    assert_eq!(client.response().status, 401);
    let page = ok(&single, "/v1/transactions");
    assert_eq!(page.get("nodes"), None, "as before there were fleets");
    assert_eq!(get(&single, "/v1/transactions?node=x", &first_token(&single)).status, 404);
}

#[test]
fn the_owner_enforces_the_role_of_the_person_and_audits_by_name() {
    let database = Postgres::start();
    let [one, two] = members(database.addr(), ["one", "two"]);
    let id = transaction(&two.server);
    let [viewer, payload_viewer, ..] = &tokens(&one.server)[..] else { panic!("no tokens") };
    let path = format!("/v1/transactions/{id}");
    let shown = get(&one.server, &path, viewer).json();
    assert_eq!((shown.get("payload"), &shown["node"]), (None, &"two".into()), "{shown}");
    let body = format!("{path}/response-body?node=two");
    assert_eq!(get(&one.server, &body, viewer).status, 403);
    assert_eq!(get(&one.server, "/v1/transactions?q=hi&node=two", viewer).status, 403);
    let shown = get(&one.server, &path, payload_viewer).json();
    assert!(shown["payload"].is_object(), "{shown}");
    let audit =
        text(&two.server, &["audit", "--json", "--node", "here", "--who", "payload-viewer"]);
    let lines: Vec<Value> = audit.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 1, "{audit}");
    assert_eq!((&lines[0]["subject"], &lines[0]["action"]), (&id.into(), &"show".into()));
    // The one that only passed it on has no such entry.
    let audit = text(&one.server, &["audit", "--json", "--node", "here", "--action", "show"]);
    assert_eq!(audit, "");
    let denied = text(&two.server, &["audit", "--json", "--node", "here", "--who", "viewer"]);
    assert!(denied.contains("payload-viewer"), "{denied}");
}

/// A node whose admin listener has this certificate; `tls` is what it has for requests to others.
fn start_with_tls(
    database: &Postgres,
    name: &str,
    certificate: &Certificate,
    (tls, ca): (&str, &str),
) -> Server {
    let admin = free_address();
    let text = config(database.addr(), "tracker: {enabled: true}").replace(
        "fleet: {",
        &format!(
            "admin: {{tls: {{cert: \"file:tls.crt\", key: \"file:tls.key\"}}}}\n\
             fleet: {{key: \"{KEY}\", advertise: \"https://{admin}\", tls: {tls}, "
        ),
    );
    let weir = Weir::new(&text).env("NODE", name).admin(admin);
    let weir = weir.file("tls.crt", &certificate.cert).file("tls.key", &certificate.key);
    weir.file("ca.crt", ca).start()
}

/// Lines and notes of a search in all nodes.
fn search_with_tls(server: &Server) -> (String, String) {
    let url = format!("https://{}", server.admin.unwrap());
    let args = ["search", "--admin", &url, "--ca", "tls.crt", "--json"];
    let token = ["--token-file", "data/admin.token"];
    let output = weir(server.dir(), &[&args[..], &token].concat());
    (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap())
}

#[test]
fn nodes_query_each_other_over_tls() {
    let database = Postgres::start();
    let certificate = Certificate::of("127.0.0.1");
    let start = |name: &str, ca: &str| {
        start_with_tls(&database, name, &certificate, ("{ca: \"file:ca.crt\"}", ca))
    };
    let (one, two) = (start("one", &certificate.cert), start("two", &certificate.cert));
    let foreign = start("foreign", &Certificate::of("127.0.0.1").cert);
    let page = search_with_tls;
    let id = transaction(&two);
    eventually("it is found", || page(&one).0.contains(&id));
    // With another authority it trusts nobody.
    eventually("it says why", || page(&foreign).1.contains("1 of 3 nodes responded"));
    assert!(page(&foreign).1.contains("invalid peer certificate"), "{}", page(&foreign).1);
}

#[test]
fn with_mutual_tls_a_node_without_a_certificate_is_rejected_although_it_has_the_key() {
    let database = Postgres::start();
    let certificate = Certificate::of("127.0.0.1");
    let mutual = r#"{ca: "file:ca.crt", cert: "file:tls.crt", key: "file:tls.key"}"#;
    let start = |name: &str, tls: &str| {
        start_with_tls(&database, name, &certificate, (tls, &certificate.cert))
    };
    let (one, two) = (start("one", mutual), start("two", mutual));
    let plain = start("plain", r#"{ca: "file:ca.crt"}"#);
    let id = transaction(&two);
    // People have a token, and no certificate.
    eventually("it is found", || search_with_tls(&one).0.contains(&id));
    eventually("it says why", || search_with_tls(&plain).1.contains("1 of 3 nodes responded"));
    assert!(!search_with_tls(&plain).0.contains(&id));
    let notes = search_with_tls(&plain).1;
    assert!(notes.contains("no certificate of the authority `fleet.tls.ca`"), "{notes}");
}
