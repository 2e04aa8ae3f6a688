//! The engines that failure tests need start, lose nothing that they have confirmed, and come back.

use crate::harness::OpenSearch;
use std::net::TcpStream;

/// Number of documents of an index that can be searched.
fn documents(engine: &OpenSearch, index: &str) -> u64 {
    let refreshed = engine.request("POST", &format!("/{index}/_refresh"), "");
    assert_eq!(refreshed.status, 200, "{}", refreshed.text());
    let counted = engine.request("GET", &format!("/{index}/_count"), "");
    counted.json()["count"].as_u64().expect("a number")
}

#[test]
fn opensearch_keeps_what_it_has_confirmed() {
    let Some(mut engine) = OpenSearch::start() else { return };
    let index = r#"{"settings":{"number_of_shards":1,"number_of_replicas":0}}"#;
    assert_eq!(engine.request("PUT", "/calls", index).status, 200);
    let bulk = "{\"create\":{\"_id\":\"1\"}}\n{\"status\":200}\n{\"create\":{\"_id\":\"2\"}}\n{\"status\":500}\n";
    let created = engine.request("POST", "/calls/_bulk", bulk);
    assert_eq!(created.json()["errors"], false, "{}", created.text());
    engine.kill_9();
    assert!(TcpStream::connect(engine.addr()).is_err());
    engine.restart();
    let waiting = "/_cluster/health?wait_for_status=green&timeout=60s";
    assert_eq!(engine.request("GET", waiting, "").status, 200);
    assert_eq!(documents(&engine, "calls"), 2);
    // What is sent again is no second document.
    let again = engine.request("POST", "/calls/_bulk", bulk);
    assert_eq!(again.json()["items"][0]["create"]["status"], 409, "{}", again.text());
    assert_eq!(documents(&engine, "calls"), 2);
}
