//! How fast transactions are shipped. `cargo test -p weir --test it shipping::rate -- --ignored
//! --nocapture` prints it; a figure counts only from a release build.

use super::{config, count};
use crate::harness::{OpenSearch, Weir};
use std::path::Path;
use std::time::{Duration, Instant};
use weir_journal::{Completed, Journal, Received, Settings};

const TRANSACTIONS: u64 = 100_000;

/// Records transactions with a body of so many bytes, as workers do.
fn record(data: &Path, bytes: usize) {
    let (journal, mut lanes, _) = Journal::open(data, Settings::default()).unwrap();
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    let mut random = 1u64;
    for number in 0..TRANSACTIONS {
        let id = (now.as_millis() << 80) | (7 << 76) | (2 << 62) | u128::from(number);
        let mut body = format!("{{\"order\":\"A-{number}\",\"text\":\"");
        while body.len() < bytes {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            // Frequent and rare words.
            let word = (random >> 33) % (1 + (random >> 40) % 50_000);
            body.push_str(&format!("w{word} "));
        }
        body.push_str("\"}");
        let received = Received {
            id: id.to_be_bytes(),
            received_us: now.as_micros() as u64,
            api: "orders",
            operation: "place",
            consumer: "acme",
            client: "10.0.0.7",
            method: "POST",
            target: "/orders",
            head: b"content-type: application/json\r\n",
            ..Received::default()
        };
        let completed = Completed { status: 201, request_body: body.as_bytes(), ..<_>::default() };
        while lanes[0].append(&received, &completed).is_err() {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    drop(lanes);
    drop(journal);
}

fn measure(content: &str, bytes: usize) {
    let Some(opensearch) = OpenSearch::start() else { return };
    let weir = Weir::new(&config(opensearch.addr(), &format!(", content: {content}")));
    record(&weir.dir().join("data"), bytes);
    let begin = Instant::now();
    let server = weir.start();
    while (server.metric("weir_ship_docs_total", &[]) as u64) < TRANSACTIONS {
        std::thread::sleep(Duration::from_millis(200));
    }
    let seconds = begin.elapsed().as_secs_f64();
    assert_eq!(count(&opensearch), TRANSACTIONS);
    let retries = server.metric("weir_ship_retries_total", &[]);
    let memory = server.peak_memory() >> 10;
    let rate = TRANSACTIONS as f64 / seconds;
    println!("{content}: {rate:.0} docs/s, {retries} retries, {memory} MiB at most");
}

#[test]
#[ignore = "a measurement"]
fn keys() {
    measure("keys", 0);
}

#[test]
#[ignore = "a measurement"]
fn payload_of_1_kib() {
    measure("payload", 1024);
}
