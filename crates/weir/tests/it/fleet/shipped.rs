//! Transactions of a node that is gone are found in OpenSearch, shown byte for byte, and sent again once.

use super::node::{KEY, Member, config, states, text};
use crate::admin_api::{ask, first_token, get, id};
use crate::harness::{
    Client, OpenSearch, Postgres, Relay, Response, Server, Upstream, Weir, eventually, free_address,
};
use serde_json::Value;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, Mutex};

/// An upstream with the status that it is set to, which keeps the bodies of its requests.
struct Backend {
    upstream: Upstream,
    status: Arc<AtomicU16>,
    bodies: Arc<Mutex<Vec<Vec<u8>>>>,
}

impl Backend {
    fn start() -> Self {
        let status = Arc::new(AtomicU16::new(500));
        let bodies = Arc::<Mutex<Vec<Vec<u8>>>>::default();
        let (response, requests) = (Arc::clone(&status), Arc::clone(&bodies));
        let upstream = Upstream::start(move |_, peer| {
            while let Some(body) = peer.request() {
                requests.lock().unwrap().push(body);
                let status = response.load(Ordering::SeqCst);
                let head = format!("HTTP/1.1 {status} x\r\ncontent-length: 4\r\n\r\n");
                peer.send([head.as_bytes(), b"\xff\x00ok"].concat());
            }
        });
        Self { upstream, status, bodies }
    }
}

/// A node that ships its transactions.
fn member(
    name: &str,
    database: SocketAddr,
    (opensearch, content): (SocketAddr, &str),
    backend: &Backend,
) -> Member {
    let admin = free_address();
    let relay = Relay::new(admin);
    let more = format!(
        "upstreams:\n  search: {{targets: [\"http://{opensearch}\"]}}\n  \
         back: {{targets: [\"http://{}\"]}}\n\
         tracker: {{enabled: true, keys: {{order: \"$.order\"}}, \
         sinks: [{{to: search, content: {content}}}]}}\n\
         apis: {{x: {{base: /, routes: [{{op: all, path: \"/*\", proxy: back}}]}}}}\n",
        backend.upstream.addr
    );
    let text = config(database, &more);
    let peers = format!("fleet: {{key: \"{KEY}\", advertise: \"http://{}\", ", relay.addr());
    let weir = Weir::new(&text.replace("fleet: {", &peers));
    Member { server: weir.env("NODE", name).admin(admin).start(), relay }
}

/// The body of a request; it is not UTF-8.
fn body(number: usize) -> Vec<u8> {
    [format!("{{\"order\":\"A-{number}\",\"note\":\"refund \u{e9} ").as_bytes(), b"\xff\x01\"}"]
        .concat()
}

/// Sends a request that fails; its id.
fn fail(client: &mut Client, number: usize) -> String {
    let body = body(number);
    let head = format!(
        "POST /orders/{number} HTTP/1.1\r\nhost: x\r\ncontent-type: text/plain\r\n\
         content-length: {}\r\n\r\n",
        body.len()
    );
    client.send([head.as_bytes(), &body].concat());
    let response = client.response();
    assert_eq!(response.status, 500);
    id(&response)
}

fn ok(server: &Server, path: &str) -> Value {
    let response = get(server, path, &first_token(server));
    assert_eq!(response.status, 200, "{path}: {}", response.text());
    response.json()
}

/// `ID NODE SINK` of all pages of a search.
fn pages(server: &Server, limit: usize) -> Vec<String> {
    let (mut all, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = ok(server, &format!("/v1/transactions?limit={limit}{cursor}"));
        let word = |hit: &Value, key: &str| hit[key].as_str().unwrap_or("-").to_owned();
        let hits = page["transactions"].as_array().unwrap().iter();
        all.extend(hits.map(|hit| ["id", "node", "sink"].map(|key| word(hit, key)).join(" ")));
        let Some(next) = page["next"].as_str() else { return all };
        cursor = format!("&cursor={next}");
        assert!(all.len() < 100, "pages come to an end: {all:?}");
    }
}

fn resubmit(server: &Server, id: &str) -> Response {
    let path = format!("/v1/transactions/{id}/resubmit");
    ask(server, "POST", &path, Some(&first_token(server)), "")
}

fn wait_until_shipped(server: &Server, docs: usize) {
    eventually("all are acknowledged", || {
        server.metric("weir_ship_docs_total", &["sink=\"search\""]) as usize >= docs
    });
}

#[test]
fn what_a_lost_node_has_shipped_is_found_shown_and_sent_again() {
    let Some(mut opensearch) = OpenSearch::start() else { return };
    let (database, backend) = (Postgres::start(), Backend::start());
    let contents = [("one", "payload"), ("two", "payload"), ("three", "keys")];
    let [one, mut two, mut three] = contents.map(|(name, content)| {
        member(name, database.addr(), (opensearch.addr(), content), &backend)
    });
    let live = || states(&one.server).iter().filter(|state| state.ends_with(" live")).count();
    eventually("all have joined", || live() == 3);
    let mut clients = [&one, &two, &three].map(|member| member.server.connect());
    let mut expected = Vec::new();
    for number in 0..12 {
        let id = fail(&mut clients[number % 3], number);
        let name = ["one -", "two search", "three search"][number % 3];
        expected.insert(0, format!("{id} {name}"));
    }
    for member in [&one, &two, &three] {
        wait_until_shipped(&member.server, 4);
    }
    assert_eq!(opensearch.request("POST", "/weir-search-*/_refresh", "").status, 200);
    let id_of = |name: &str| {
        let line = expected.iter().find(|line| line.contains(name)).unwrap();
        line.split(' ').next().unwrap().to_owned()
    };
    let (of_two, of_three) = (id_of(" two "), id_of(" three "));
    let path = format!("/v1/transactions/{of_two}");
    let own = ok(&two.server, &path);
    let lists = ok(&one.server, "/v1/sinks");
    assert_eq!(lists["nodes"].as_array().map(Vec::len), Some(3), "{lists}");
    drop(clients);
    two.server.kill();
    three.server.kill();

    for limit in [1, 2, 5, 50] {
        assert_eq!(pages(&one.server, limit), expected, "{limit}");
    }
    let page = ok(&one.server, "/v1/transactions");
    let sink = &page["nodes"]["sink"];
    assert_eq!(
        (&sink["name"], &sink["nodes"].as_array().map(Vec::len)),
        (&"search".into(), &Some(2))
    );
    assert_eq!((sink.get("error"), &page["incomplete"]), (None, &true.into()), "{page}");
    assert_eq!(page["nodes"]["missing"].as_array().map(Vec::len), Some(2), "{page}");
    let of_node = ok(&one.server, "/v1/transactions?node=two&limit=3");
    assert_eq!(of_node["transactions"].as_array().map(Vec::len), Some(3), "{of_node}");
    let by_words = ok(&one.server, "/v1/transactions?q=resolution%3Aopen%20key.order%3AA-1");
    assert_eq!(by_words["nodes"]["sink"]["untranslated"][0], "resolution:open", "{by_words}");
    is_shown_byte_for_byte(&one.server, &of_two, &own);
    is_sent_again_once(&one.server, &backend, (&of_two, &of_three));
    has_resolutions(&one.server, (&of_two, &of_three));

    let is_down = |state: &String| state == "two down";
    eventually("its lease ends", || states(&one.server).iter().any(is_down));
    text(&one.server, &["fleet", "retire", "two", "--lost"]);
    let missing = || ok(&one.server, "/v1/transactions")["nodes"]["missing"].clone();
    eventually("two is lost", || missing().as_array().is_some_and(|all| all.len() == 1));
    let found = pages(&one.server, 50);
    assert!(expected.iter().all(|line| found.contains(line)), "{found:?}");
    opensearch.kill_9();
    let page = ok(&one.server, "/v1/transactions");
    assert!(page["nodes"]["sink"]["error"].is_string(), "{page}");
    assert_eq!(page["nodes"]["missing"][0]["name"], "three", "as without a sink: {page}");
    assert_eq!(get(&one.server, &path, &first_token(&one.server)).status, 503);
}

fn is_shown_byte_for_byte(server: &Server, id: &str, own: &Value) {
    let path = format!("/v1/transactions/{id}");
    let shown = ok(server, &path);
    for field in ["payload", "status", "method", "state", "request", "response", "time"] {
        assert_eq!(shown[field], own[field], "{field}");
    }
    assert_eq!((&shown["node"], &shown["sink"]), (&"two".into(), &"search".into()));
    let raw = |side: &str| get(server, &format!("{path}/{side}-body"), &first_token(server)).body;
    let number: usize = own["path"].as_str().unwrap().rsplit('/').next().unwrap().parse().unwrap();
    assert_eq!(raw("request"), body(number));
    assert_eq!(raw("response"), b"\xff\x00ok");
    let explained = ok(server, &format!("{path}/explanation"));
    assert!(explained.is_object(), "{explained}");
}

fn is_sent_again_once(server: &Server, backend: &Backend, (whole, keys): (&str, &str)) {
    backend.status.store(200, Ordering::SeqCst);
    let before = backend.bodies.lock().unwrap().len();
    // Without payload in its document it stays where it is.
    let elsewhere = resubmit(server, keys);
    assert_eq!(elsewhere.status, 409, "{}", elsewhere.text());
    assert_eq!(elsewhere.json()["reason"], "elsewhere");
    let original =
        get(server, &format!("/v1/transactions/{whole}/request-body"), &first_token(server));
    let sent = resubmit(server, whole);
    assert_eq!(sent.status, 200, "{}", sent.text());
    assert_eq!(sent.json()["state"], "succeeded");
    let bodies = backend.bodies.lock().unwrap()[before..].to_vec();
    assert_eq!(bodies, [original.body], "byte for byte, once");
    let again = resubmit(server, whole);
    assert_eq!(again.status, 409, "{}", again.text());
    assert_eq!(backend.bodies.lock().unwrap().len(), before + 1);
}

/// The resolutions of what nodes that are down have shipped are those of the fleet.
fn has_resolutions(server: &Server, (sent, failed): (&str, &str)) {
    let resolve = |id: &str| {
        let (path, body) =
            (format!("/v1/transactions/{id}/resolution"), r#"{"state":"dismissed"}"#);
        ask(server, "POST", &path, Some(&first_token(server)), body)
    };
    let set = resolve(failed);
    assert_eq!(set.status, 202, "{}", set.text());
    let resolution = |id: &str| ok(server, &format!("/v1/transactions/{id}"))["resolution"].clone();
    assert_eq!(resolution(failed), "dismissed");
    eventually("the other was sent", || resolution(sent) == "resubmitted");
    let page = ok(server, "/v1/transactions");
    let hits = page["transactions"].as_array().unwrap();
    let hit = hits.iter().find(|hit| hit["id"] == failed).unwrap();
    assert_eq!(hit["resolution"], "dismissed", "{hit}");
    let refused = resubmit(server, failed);
    assert_eq!(refused.status, 409, "{}", refused.text());
}

#[test]
fn one_node_of_a_fleet_deletes_old_indexes() {
    let Some(opensearch) = OpenSearch::start() else { return };
    let (database, backend) = (Postgres::start(), Backend::start());
    let old = "/weir-search-done-2020.01.01";
    assert_eq!(opensearch.request("PUT", old, "").status, 200);
    let sink = (opensearch.addr(), "keys");
    // Without the database it is nobody's turn.
    let nowhere: SocketAddr = "127.0.0.1:9".parse().unwrap();
    let alone = member("alone", nowhere, sink, &backend);
    fail(&mut alone.server.connect(), 1);
    wait_until_shipped(&alone.server, 1);
    assert_eq!(opensearch.request("GET", old, "").status, 200);
    let nodes = ["one", "two"].map(|name| member(name, database.addr(), sink, &backend));
    eventually("it is deleted", || opensearch.request("GET", old, "").status == 404);
    drop(nodes);
}
