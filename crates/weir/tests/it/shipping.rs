//! Transactions in a real OpenSearch: each of them once, whatever ends in between; found by the same
//! queries as in weir.

mod kafka;
mod outages;
mod poison;

use crate::admin_api::{first_token, get};
use crate::harness::{Client, OpenSearch, Server, Weir, eventually, repetitions};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};
use weir_model::search_sink::Content;
use weir_tracker::opensearch::{SearchBody, found_document};
use weir_tracker::{Query, Search};

fn config(opensearch: SocketAddr, sink: &str) -> String {
    format!(
        "workers: 2\n\
         listen: [{{addr: \"127.0.0.1:0\"}}]\n\
         upstreams:\n  search: {{targets: [\"http://{opensearch}\"]}}\n\
         tracker:\n  enabled: true\n  keys: {{order: \"$.order\"}}\n  \
         sinks: [{{to: search{sink}}}]\n\
         apis:\n  \
         good: {{base: /good, routes: [{{path: \"/*\", reply: {{text: fine}}}}]}}\n  \
         bad: {{base: /bad, routes: [{{path: \"/*\", reply: {{status: 500, text: broken}}}}]}}\n"
    )
}

/// Hits of a search in all indexes of the sink.
fn hits(opensearch: &OpenSearch, query: &Value) -> Vec<Value> {
    let body = json!({"size": 1000, "query": {"bool": {"filter": [query]}}}).to_string();
    let response = opensearch.request("POST", "/weir-search-*/_search", &body);
    assert_eq!(response.status, 200, "{query}: {}", response.text());
    response.json()["hits"]["hits"].as_array().unwrap().clone()
}

fn count(opensearch: &OpenSearch) -> u64 {
    opensearch.request("POST", "/weir-search-*/_refresh", "");
    let response = opensearch.request("GET", "/weir-search-*/_count", "");
    response.json()["count"].as_u64().unwrap_or(0)
}

/// Waits until so many transactions are acknowledged.
fn wait_for(server: &Server, opensearch: &OpenSearch, docs: u64) {
    eventually("all are acknowledged", || {
        server.metric("weir_ship_docs_total", &["sink=\"search\""]) as u64 >= docs
    });
    assert_eq!(count(opensearch), docs, "{}", server.stderr());
}

/// Transactions with texts of every kind.
fn send(client: &mut Client) -> u64 {
    let json_type = ("content-type", "application/json");
    let bodies = [
        r#"{"order": "A-1", "note": "refund for acme corp"}"#,
        r#"{"order": "A-7", "city": "Utrecht", "note": "acme, then corp"}"#,
        r#"{"order": "A=7%", "note": "caf\u00e9 3.50_EUR"}"#,
        r#"{"order": ["A-1", "B-2"], "text": "東京タワー Straße"}"#,
        "{}",
    ];
    let mut sent = 0;
    for (number, body) in bodies.iter().cycle().take(20).enumerate() {
        let api = if number % 4 == 3 { "bad" } else { "good" };
        let trace = format!("abc-{number} acme corp");
        let headers = [json_type, ("x-trace", trace.as_str())];
        let method = if number % 3 == 0 { "POST" } else { "PUT" };
        client.request(method, &format!("/{api}/orders%20new?pin={number}"), &headers, body);
        sent += 1;
    }
    let form = [("content-type", "application/x-www-form-urlencoded")];
    client.request("POST", "/good/form", &form, "a=one+two%20caf%C3%A9&b=refund");
    client.request("GET", "/good/", &[], "");
    client.request(
        "POST",
        "/good/word",
        &[json_type],
        &format!("{{\"w\":\"{}\"}}", "x".repeat(50_000)),
    );
    sent + 3
}

const QUERIES: &[&str] = &[
    "",
    "api:good",
    "api:go* -method:PUT",
    "api:*",
    "consumer:* OR problem:*",
    "-consumer:*",
    "status:5xx",
    "status:[200 TO 500}",
    "state:failed OR state:interrupted",
    "took:>=1us",
    "took:<1us",
    "since:1h",
    "before:2020-01-01",
    "key.order:A-1",
    "key.order:A=7%",
    "key.order:*",
    "key.other:*",
    "-key.order:A-1 method:POST",
    "refund",
    "\"acme corp\"",
    "\"corp acme\"",
    "body:\"acme corp\"",
    "body:utrecht OR body:refund",
    "body:*",
    "café",
    "京",
    "\"3 50_eur\"",
    "straße",
    "header.x-trace:\"abc 3\"",
    "header.x-trace:*",
    "header.x-none:*",
    "header:trace",
    "header:\"acme corp\"",
    "target:pin",
    "target:\"orders new\"",
    "target:*",
    "NOT (body:acme OR key.order:A-7)",
    "-refund status:200 (target:form OR target:word)",
    "sender:127.0.0.1",
    "type:http",
];

/// A word of 50,000 letters is compared up to its 64th byte.
fn long_word() -> String {
    format!("body:{}", "x".repeat(70))
}

fn ids_in_weir(server: &Server, token: &str, query: &str) -> BTreeSet<String> {
    let encoded: String = query.bytes().map(|byte| format!("%{byte:02x}")).collect();
    let response = get(server, &format!("/v1/transactions?limit=200&q={encoded}"), token);
    assert_eq!(response.status, 200, "{query}: {}", response.text());
    let page = response.json();
    let hits = page["transactions"].as_array().unwrap();
    hits.iter().map(|hit| hit["id"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn queries_find_the_same_in_opensearch_as_in_weir() {
    let Some(opensearch) = OpenSearch::start() else { return };
    let server = Weir::new(&config(opensearch.addr(), ", content: payload")).start();
    let sent = send(&mut server.connect());
    wait_for(&server, &opensearch, sent);
    let token = first_token(&server);
    let (mut answered, all) = (0, json!({"match_all": {}}));
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_micros() as u64;
    let long_word = long_word();
    for text in QUERIES.iter().copied().chain([long_word.as_str()]) {
        let expected = ids_in_weir(&server, &token, text);
        let translation = Query::parse(text, now).unwrap().translate(Content::Payload);
        assert!(translation.untranslated.is_empty(), "{text}: {:?}", translation.untranslated);
        let found = hits(&opensearch, &translation.query);
        let found: BTreeSet<_> =
            found.iter().map(|hit| hit["_id"].as_str().unwrap().to_owned()).collect();
        assert_eq!(found, expected, "{text}: {}", translation.query);
        answered += usize::from(!expected.is_empty());
    }
    assert!(answered > QUERIES.len() / 2, "{answered}: most queries have hits");
    pages_and_records_come_back(&opensearch, &server, &token, sent);
    let documents = hits(&opensearch, &all);
    let body = r#"{"order": "A-1", "note": "refund for acme corp"}"#;
    assert!(documents.iter().any(|hit| hit["_source"]["payload"]["request"]["body"] == body));
}

/// All transactions in pages, newest first, and one as it was recorded.
fn pages_and_records_come_back(opensearch: &OpenSearch, server: &Server, token: &str, sent: u64) {
    let ask = |body: &Value| {
        let request = weir_ship::search_request("search", body);
        let body = std::str::from_utf8(&request.body).unwrap();
        let response = opensearch.request(request.method, &request.path, body);
        assert_eq!(response.status, 200, "{}", response.text());
        response.text()
    };
    let mut search = Search {
        query: String::new(),
        limit: 10,
        cursor: None,
        payload: true,
        keys: false,
        apis: Vec::new(),
        timeout: std::time::Duration::from_secs(5),
    };
    let mut found = Vec::new();
    loop {
        let body = SearchBody::new(&search, Content::Payload).unwrap();
        let page = body.page(ask(&body.body).as_bytes()).unwrap();
        assert!(!page.incomplete);
        found.extend(page.transactions.iter().map(|hit| hit.summary.id.to_string()));
        search.cursor = page.next;
        if search.cursor.is_none() {
            break;
        }
    }
    let response = get(server, "/v1/transactions?limit=200", token).json();
    let expected = response["transactions"].as_array().unwrap().iter();
    let expected: Vec<_> = expected.map(|hit| hit["id"].as_str().unwrap().to_owned()).collect();
    assert_eq!((found.len() as u64, &found), (sent, &expected));
    let of_weir = get(server, &format!("/v1/transactions/{}", found[20]), token).json();
    let response = ask(&SearchBody::of_transaction(found[20].parse().unwrap()));
    let shown = found_document(response.as_bytes()).unwrap().unwrap().transaction(true);
    let shown = serde_json::to_value(shown).unwrap();
    for field in ["payload", "status", "method", "state", "request", "response"] {
        assert_eq!(shown[field], of_weir[field], "{field}");
    }
    let hidden = found_document(response.as_bytes()).unwrap().unwrap().transaction(false);
    assert_eq!(hidden.payload, None);
}

#[test]
fn opensearch_killed_again_and_again_has_every_transaction_once() {
    let Some(mut opensearch) = OpenSearch::start() else { return };
    let server = Weir::new(&config(opensearch.addr(), "")).start();
    let (stop, sent) = (AtomicBool::new(false), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut client = server.connect();
            while !stop.load(Ordering::Relaxed) {
                client.post("/good/", r#"{"order": "A-1"}"#);
                sent.fetch_add(1, Ordering::Relaxed);
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
        });
        for _ in 0..repetitions(3) {
            let before = sent.load(Ordering::Relaxed);
            eventually("more was sent", || sent.load(Ordering::Relaxed) > before + 200);
            opensearch.kill_9();
            let before = sent.load(Ordering::Relaxed);
            eventually("requests go on", || sent.load(Ordering::Relaxed) > before + 200);
            opensearch.restart();
        }
        stop.store(true, Ordering::Relaxed);
    });
    let sent = sent.load(Ordering::Relaxed) as u64;
    let started = std::time::Instant::now();
    let deadline = started + std::time::Duration::from_secs(120);
    while count(&opensearch) < sent {
        assert!(std::time::Instant::now() < deadline, "{}", server.stderr());
        std::thread::sleep(std::time::Duration::from_millis(200));
    }
    assert_eq!(count(&opensearch), sent, "ids are unique, so are documents");
    eventually("no lag is left", || server.metric("weir_ship_lag_seconds", &[]) < 5.0);
    assert_eq!(server.metric("weir_ship_rejected_total", &[]), 0.0);
    assert_eq!(server.metric("weir_journal_refused_total", &[]), 0.0);
}

#[test]
fn a_sink_that_is_down_or_removed_costs_no_request_and_no_record() {
    let closed: SocketAddr = "127.0.0.1:9".parse().unwrap();
    let mut server = Weir::new(&config(closed, "")).start();
    let mut client = server.connect();
    for _ in 0..50 {
        assert_eq!(client.post("/good/", "{}").status, 200);
    }
    eventually("it is tried", || server.metric("weir_ship_retries_total", &[]) > 0.0);
    assert!(server.metric("weir_ship_lag_bytes", &[]) > 0.0);
    let lag = "follower=\"ship-search\"";
    assert!(server.metric("weir_journal_follower_lag_records", &[lag]) > 0.0);
    let without = config(closed, "").replace("  sinks: [{to: search}]\n", "");
    server.reload(&without);
    eventually("its follower is removed", || {
        !server.connect_admin().get("/metrics").text().contains(lag)
    });
    assert_eq!(server.metric("weir_journal_refused_total", &[]), 0.0);
}
