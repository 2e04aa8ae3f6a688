//! Transactions in a real Kafka: each at least once, as a CloudEvent, whatever ends in between.

use crate::admin_api::{command, first_token, get};
use crate::harness::{
    Consumer, Kafka, PATIENCE, Server, Signal, Weir, eventually, from_environment, incompressible,
    transactions,
};
use serde_json::Value;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};
use weir_model::TransactionId;

/// What a broker accepts by default.
const MAX_MESSAGE_BYTES: usize = 1_048_588;

fn config(kafka: &str, sink: &str) -> String {
    format!(
        "workers: 2\n\
         listen: [{{addr: \"127.0.0.1:0\"}}]\n\
         tracker:\n  enabled: true\n  keys: {{order: \"$.order\"}}\n  \
         sinks: [{{kafka: {{{kafka}}}{sink}}}]\n\
         apis:\n  \
         good: {{base: /good, routes: [{{path: \"/*\", reply: {{text: fine}}}}]}}\n  \
         bad: {{base: /bad, routes: [{{path: \"/*\", reply: {{status: 500, text: broken}}}}]}}\n"
    )
}

fn topic(kafka: &Kafka, topic: &str) -> String {
    format!("brokers: [\"{}\"], topic: {topic}", kafka.addr())
}

fn acknowledged(server: &Server) -> u64 {
    server.metric("weir_ship_docs_total", &["sink=\"kafka\""]) as u64
}

fn is_paused(server: &Server) -> bool {
    server.metric("weir_ship_paused", &["sink=\"kafka\""]) > 0.0
}

/// Waits until a consumer has all of these.
fn wait_for(server: &Server, consumer: &Consumer, ids: &BTreeSet<String>) {
    let missing = || {
        let (messages, _) = consumer.messages();
        ids.iter().filter(|id| !messages.contains_key(*id)).cloned().collect::<Vec<_>>()
    };
    let deadline = Instant::now() + PATIENCE;
    loop {
        let missing = missing();
        if missing.is_empty() {
            return;
        }
        let late = Instant::now() >= deadline;
        assert!(!late, "{} have not arrived: {missing:?}\n{}", missing.len(), server.stderr());
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn ids(server: &Server, token: &str) -> BTreeSet<String> {
    let page = get(server, "/v1/transactions?limit=200", token).json();
    let hits = page["transactions"].as_array().unwrap().iter();
    hits.map(|hit| hit["id"].as_str().unwrap().to_owned()).collect()
}

/// The transactions in the journal of a server that has ended.
fn recorded(server: &Server) -> BTreeSet<String> {
    let id = |id: [u8; 16]| TransactionId(u128::from_be_bytes(id)).to_string();
    transactions(&server.data()).iter().map(|transaction| id(transaction.id)).collect()
}

#[test]
fn each_transaction_is_a_cloud_event_with_its_id_as_key() {
    let Some(kafka) = Kafka::start() else { return };
    kafka.create("transactions", 4_000);
    let consumer = kafka.consume("transactions");
    let settings = config(&topic(&kafka, "transactions"), ", content: payload");
    let server = Weir::new(&settings).start();
    let mut client = server.connect();
    for number in 0..50 {
        let api = if number % 5 == 4 { "bad" } else { "good" };
        client
            .post(&format!("/{api}/orders?pin={number}"), &format!(r#"{{"order": "A-{number}"}}"#));
    }
    // Too large for the topic: with payload, and even without.
    client.post("/good/large", &format!(r#"{{"order": "L", "note": "{}"}}"#, "x".repeat(5_000)));
    client.post(&format!("/good/{}", "long".repeat(1_500)), r#"{"order": "R"}"#);
    eventually("all are settled", || {
        let rejected = server.metric("weir_ship_rejected_total", &["sink=\"kafka\""]);
        acknowledged(&server) >= 51 && rejected > 0.0
    });
    let token = first_token(&server);
    let mut ids = ids(&server, &token);
    let rejected = ids.iter().find(|id| {
        let shown = get(&server, &format!("/v1/transactions/{id}"), &token).json();
        shown["path"].as_str().unwrap().len() > 4_000
    });
    let rejected = rejected.unwrap().clone();
    ids.remove(&rejected);
    assert_eq!(ids.len(), 51);
    wait_for(&server, &consumer, &ids);
    let (messages, _) = consumer.messages();
    assert!(!messages.contains_key(&rejected));
    for (id, message) in &messages {
        let shown = get(&server, &format!("/v1/transactions/{id}"), &token).json();
        check(id, &message.headers, &message.value, &shown);
        let milliseconds = id.parse::<TransactionId>().unwrap().0 >> 80;
        assert!(u128::from(message.time_ms).abs_diff(milliseconds) <= 1, "{message:?}");
    }
    assert!(server.stderr().contains("Kafka error 10"), "{}", server.stderr());
}

/// A message against the transaction as the admin API shows it.
fn check(
    id: &str,
    headers: &std::collections::BTreeMap<String, String>,
    value: &Value,
    shown: &Value,
) {
    let mut expected = shown.clone();
    let keys = expected["payload"]["keys"].clone();
    let is_large = shown["path"] == "/good/large";
    if is_large {
        expected.as_object_mut().unwrap().remove("payload");
    }
    let mut value = value.clone();
    assert_eq!(value.as_object_mut().unwrap().remove("keys"), Some(keys), "{id}");
    assert_eq!(value, expected, "{id}");
    let state = shown["state"].as_str().unwrap();
    for (name, expected) in [
        ("content-type", "application/json"),
        ("ce_specversion", "1.0"),
        ("ce_id", id),
        ("ce_subject", id),
        ("ce_type", &format!("weir.transaction.{state}")),
        ("ce_time", shown["time"].as_str().unwrap()),
    ] {
        assert_eq!(headers.get(name).map(String::as_str), Some(expected), "{name} of {id}");
    }
    let source = &headers["ce_source"];
    assert!(source.starts_with("urn:weir:") && source.ends_with(":tracker"), "{source}");
    assert_eq!(headers.len(), 7, "{headers:?}");
}

#[test]
fn kafka_and_weir_killed_again_and_again_lose_no_transaction() {
    let Some(mut kafka) = Kafka::start() else { return };
    kafka.create("transactions", MAX_MESSAGE_BYTES);
    let mut server = Weir::new(&config(&topic(&kafka, "transactions"), "")).start();
    let send = |server: &Server| {
        let mut client = server.connect();
        for _ in 0..200 {
            assert_eq!(client.post("/good/", r#"{"order": "A-1"}"#).status, 200);
        }
    };
    for _ in 0..from_environment("WEIR_KAFKA_KILLS", 2) {
        send(&server);
        // While messages are sent.
        kafka.kill_9();
        send(&server);
        server.kill();
        server.restart(&[]);
        send(&server);
        kafka.restart();
        let before = acknowledged(&server);
        eventually("it goes on", || acknowledged(&server) > before);
        send(&server);
        server.kill();
        server.restart(&[]);
    }
    send(&server);
    eventually("no lag is left", || server.metric("weir_ship_lag_seconds", &[]) == 0.0);
    assert_eq!(server.metric("weir_ship_rejected_total", &[]), 0.0);
    assert_eq!(server.metric("weir_ship_gap_records_total", &[]), 0.0);
    assert_eq!(server.metric("weir_journal_refused_total", &[]), 0.0);
    server.kill();
    let recorded = recorded(&server);
    assert!(recorded.len() > 800, "{}", recorded.len());
    // What was recorded last may not have been sent before.
    server.restart(&[]);
    wait_for(&server, &kafka.consume("transactions"), &recorded);
}

#[test]
fn a_sink_without_its_topic_or_its_password_is_paused_until_it_has_them() {
    let Some(kafka) = Kafka::start() else { return };
    let mut server = Weir::new(&config(&topic(&kafka, "later"), ""))
        .file("kafka.crt", kafka.certificate())
        .file("password", "secret\n")
        .file("other", "wrong\n")
        .start();
    let mut client = server.connect();
    for _ in 0..20 {
        assert_eq!(client.post("/good/", "{}").status, 200);
    }
    eventually("it is paused", || is_paused(&server));
    assert!(server.stderr().contains("the topic `later` does not exist"), "{}", server.stderr());
    kafka.create("later", MAX_MESSAGE_BYTES);
    eventually("it goes on", || acknowledged(&server) >= 20);
    assert!(!is_paused(&server));

    let secure = |file: &str| {
        let kafka = format!(
            "brokers: \"{}\", topic: later, tls: {{ca: \"file:kafka.crt\"}}, \
             auth: {{user: weir, password: \"file:{file}\"}}",
            kafka.secure(),
        );
        config(&kafka, "")
    };
    server.reload(&secure("other"));
    for _ in 0..20 {
        client.post("/good/", "{}");
    }
    eventually("it is paused", || is_paused(&server));
    assert!(server.stderr().contains("SaslAuthenticationFailed"), "{}", server.stderr());
    assert!(!server.stderr().contains("wrong"), "{}", server.stderr());
    server.reload(&secure("password"));
    eventually("it goes on", || acknowledged(&server) >= 20);
    let token = first_token(&server);
    wait_for(&server, &kafka.consume("later"), &ids(&server, &token));
}

#[test]
fn a_drain_waits_until_kafka_has_acknowledged_everything() {
    let Some(kafka) = Kafka::start() else { return };
    kafka.create("transactions", MAX_MESSAGE_BYTES);
    let mut server = Weir::new(&config(&topic(&kafka, "transactions"), "")).start();
    let send = |server: &Server, count| {
        let mut client = server.connect();
        for _ in 0..count {
            assert_eq!(client.post("/good/", "{}").status, 200);
        }
    };
    send(&server, 1);
    eventually("it is acknowledged", || acknowledged(&server) == 1);
    send(&server, 3_000);
    server.signal(Signal::TERM);
    assert!(server.wait().success());
    assert!(!server.stderr().contains("not acknowledged"), "{}", server.stderr());
    let recorded = recorded(&server);
    assert_eq!(recorded.len(), 3_001);
    wait_for(&server, &kafka.consume("transactions"), &recorded);
}

#[test]
fn a_sink_of_kafka_is_listed_and_has_no_backfill() {
    let server = Weir::new(&config("brokers: \"127.0.0.1:9\", topic: t", "")).start();
    assert_eq!(server.connect().post("/good/", "{}").status, 200);
    let token = first_token(&server);
    eventually("it has a lag", || {
        get(&server, "/v1/sinks", &token).json()["nodes"][0]["sinks"][0]["lag"]["records"] == 1
    });
    let (ok, table, err) = command(&server, &token, &["sinks", "list"]);
    assert!(ok && table.contains("kafka") && !table.contains("opensearch"), "{table}{err}");
    let backfill = ["fleet", "backfill", "--sink", "kafka", "--all"];
    let (ok, _, err) = command(&server, &token, &backfill);
    assert!(!ok && err.contains("A sink of Kafka has no backfill"), "{err}");
    let (ok, _, err) = command(&server, &token, &["fleet", "backfill"]);
    assert!(!ok && err.contains("there is no sink of OpenSearch"), "{err}");
}

#[test]
fn a_kafka_that_is_down_costs_no_request_and_no_record() {
    let config = config("brokers: \"127.0.0.1:9\", topic: t", "");
    let mut server = Weir::new(&format!("drain: {{deadline: 1s}}\n{config}")).start();
    let mut client = server.connect();
    for _ in 0..50 {
        assert_eq!(client.post("/good/", "{}").status, 200);
    }
    eventually("it is tried", || server.metric("weir_ship_retries_total", &[]) > 0.0);
    assert!(server.metric("weir_ship_lag_bytes", &[]) > 0.0);
    assert!(!is_paused(&server), "it is tried again by itself");
    assert_eq!(server.metric("weir_journal_refused_total", &[]), 0.0);
    server.signal(Signal::TERM);
    server.wait();
    let left = "50 transactions are not acknowledged by sink kafka";
    assert!(server.stderr().contains(left), "{}", server.stderr());
}

#[test]
fn a_kafka_that_is_down_for_long_leaves_a_gap_that_is_counted() {
    let sink = ", content: payload, max_backlog: 10%";
    let small = "journal: {disk: 96MiB}\n";
    let config = config("brokers: \"127.0.0.1:9\", topic: t", sink) + small;
    // The journal waits for an index and for the seal without a bound: neither may be what fills it.
    let config = config.replace("enabled: true\n", "enabled: true\n  index: none\n");
    let server = Weir::new(&config).start();
    let mut client = server.connect();
    let mut sent = 0;
    while server.metric("weir_ship_gap_records_total", &["sink=\"kafka\""]) == 0.0 {
        assert!(sent < 50_000, "{}", server.stderr());
        for _ in 0..100 {
            assert_eq!(client.post("/good/", &incompressible(50_000)).status, 200);
        }
        sent += 100;
        eventually("the seal keeps up", || {
            server.metric("weir_journal_unsealed_segments", &[]) == 0.0
        });
    }
    assert_eq!(server.metric("weir_journal_refused_total", &[]), 0.0);
}
