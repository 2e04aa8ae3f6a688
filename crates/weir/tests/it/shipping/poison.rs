//! Documents and mappings that OpenSearch does not accept.

use super::{config, hits, wait_for};
use crate::harness::{OpenSearch, Weir, echo};
use serde_json::json;
use std::time::{SystemTime, UNIX_EPOCH};

#[test]
fn an_index_whose_mapping_another_party_has_made_gets_documents_without_payload() {
    let Some(opensearch) = OpenSearch::start() else { return };
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis();
    for day in [now, now + 24 * 60 * 60 * 1000] {
        let index = format!("/weir-search-done-{}", weir_tracker::opensearch::day(day << 80));
        let mapping = json!({"mappings": {"dynamic": false, "properties": {
            "words": {"type": "keyword"}, "keys": {"type": "keyword"}, "id": {"type": "keyword"},
        }}});
        assert_eq!(opensearch.request("PUT", &index, &mapping.to_string()).status, 200);
    }
    let server = Weir::new(&config(opensearch.addr(), ", content: payload")).start();
    let mut client = server.connect();
    for _ in 0..10 {
        client.post("/good/", r#"{"order": "A-1"}"#);
        client.post("/bad/", r#"{"order": "B-1"}"#);
    }
    wait_for(&server, &opensearch, 20);
    let found = |key: &str| hits(&opensearch, &json!({"term": {"keys": key}}));
    let (reduced, whole) = (found("order=A-1"), found("order=B-1"));
    assert_eq!((reduced.len(), whole.len()), (10, 10), "both are found by key");
    assert!(reduced.iter().all(|hit| hit["_source"].get("payload").is_none()));
    assert!(whole.iter().all(|hit| hit["_source"].get("payload").is_some()));
    assert_eq!(server.metric("weir_ship_rejected_total", &[]), 0.0);
}

#[test]
fn documents_with_extreme_content_are_found_by_id_and_key_and_hold_up_nothing() {
    let Some(opensearch) = OpenSearch::start() else { return };
    // An upstream that reads whole bodies.
    let echo = echo(&[]);
    let upstreams = format!("upstreams:\n  echo: {{targets: [\"http://{}\"]}}\n", echo.listen[0]);
    let api = "  echo: {base: /echo, routes: [{path: \"/*\", proxy: echo}]}\n";
    let text = config(opensearch.addr(), ", content: payload") + api;
    let text = text.replace("enabled: true\n", "enabled: true\n  body_limit: 1MiB\n");
    let server = Weir::new(&text.replace("upstreams:\n", &upstreams)).start();
    let mut client = server.connect();
    let json_type = ("content-type", "application/json");
    let word = format!("{{\"order\": \"word\", \"w\": \"{}\"}}", "x".repeat((1 << 20) - 100));
    let names: Vec<String> = (0..10_000).map(|n| format!("\"name{n}\": {n}")).collect();
    let names = format!("{{\"order\": \"names\", {}}}", names.join(", "));
    let key = format!("{{\"order\": \"{}\"}}", "k".repeat(40_000));
    let deep =
        format!("{{\"order\": \"deep\", \"d\": {}1{}}}", "[".repeat(5_000), "]".repeat(5_000));
    for body in [&word, &names, &key, &deep] {
        assert_eq!(client.request("POST", "/echo/", &[json_type], body).status, 200);
    }
    let not_text = b"{\"order\": \"bytes\", \"b\": \"\xff\xfe\xc3(\"}";
    let head = format!(
        "POST /echo/ HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
        not_text.len()
    );
    client.send([head.as_bytes(), not_text].concat());
    assert_eq!(client.response().status, 200);
    let long_path = format!("/echo/{}", "p".repeat(4_000));
    assert_eq!(client.request("GET", &long_path, &[], "").status, 200);
    client.post("/good/", r#"{"order": "later"}"#);
    wait_for(&server, &opensearch, 7);
    for key in ["word", "names", "bytes", "later"] {
        let found = hits(&opensearch, &json!({"term": {"keys": format!("order={key}")}}));
        assert_eq!(found.len(), 1, "{key}");
        let by_id = hits(&opensearch, &json!({"term": {"id": found[0]["_id"]}}));
        assert_eq!(by_id.len(), 1, "{key}");
    }
    let bytes = hits(&opensearch, &json!({"term": {"keys": "order=bytes"}}));
    assert!(bytes[0]["_source"]["payload"]["request"].get("body_base64").is_some());
    let all = hits(&opensearch, &json!({"match_all": {}}));
    assert_eq!(all.len(), 7, "rejected: {}", server.metric("weir_ship_rejected_total", &[]));
    assert_eq!(fields(&opensearch), 27, "no content has created a field");
}

/// Number of fields of the index.
fn fields(opensearch: &OpenSearch) -> usize {
    let mapping = opensearch.request("GET", "/weir-search-done-*/_mapping", "").json();
    let index = mapping.as_object().and_then(|indexes| indexes.values().next());
    index.and_then(|index| index["mappings"]["properties"].as_object()).map_or(0, |all| all.len())
}
