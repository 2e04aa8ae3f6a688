//! Business keys that are read out of what was recorded.

use crate::Counted;
use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use weir_expr::BusinessKeys;
use weir_expr::business_keys::Source;
use weir_journal::{Completed, Journal, Received};

use super::{Bench, NOON, append, id, settings};
use crate::{Index, Page, Query, Settings};

fn with_keys() -> Settings {
    let customer = Source::expression("request.headers[\"x-customer\"]");
    keyed([("order", Source::path("$.orderId")), ("customer", customer)])
}

fn keyed<const N: usize>(sources: [(&str, Result<Source, String>); N]) -> Settings {
    let mut keys = BusinessKeys::default();
    sources.into_iter().for_each(|(name, source)| keys.add(name, name, source.unwrap()));
    Settings { keys: Arc::new(keys), ..settings() }
}

fn write(bench: &mut Bench, number: u64, head: &[u8], body: &[u8]) {
    let received = Received {
        id: id(number).to_be_bytes(),
        received_us: NOON + number,
        head,
        ..Received::default()
    };
    append(
        &mut bench.lanes[0],
        &received,
        &Completed { request_body: body, ..Completed::default() },
    );
}

fn gzip(body: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(body).unwrap();
    encoder.finish().unwrap()
}

fn found_by_key(bench: &Bench) {
    assert_eq!(bench.numbers("key.order:A-1", 50), [1]);
    assert_eq!(bench.numbers("key.order:A-2", 50), [2]);
    assert_eq!(bench.numbers("key.order:a-1", 50), [0; 0]);
    assert_eq!(bench.numbers("key.order:*", 50), [2, 1]);
    assert_eq!(bench.numbers("key.customer:acme", 50), [1]);
    assert_eq!(bench.numbers("-key.order:*", 50), [3]);
    assert_eq!(bench.numbers("key.other:*", 50), [0; 0]);
    let shown = bench.index.show(id(1)).unwrap().unwrap();
    let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    assert_eq!(shown.keys, [pair("order", "A-1"), pair("customer", "acme")]);
    let all = Query::parse("", NOON).unwrap();
    let counts = bench.index.count(&all, Duration::from_secs(60), true).unwrap();
    let facet = counts.facets.iter().find(|facet| facet.field == "key.order").unwrap();
    let one = |value: &str| Counted { value: value.to_owned(), count: 1 };
    assert_eq!(facet.values, [one("A-1"), one("A-2")]);
}

#[test]
fn keys_are_read_from_bodies_and_heads_before_and_after_they_are_indexed() {
    let mut bench = Bench::open(tempfile::tempdir().unwrap(), 1, with_keys());
    write(&mut bench, 1, b"x-customer: acme\r\n", b"{\"orderId\": \"A-1\"}");
    write(&mut bench, 2, b"content-encoding: gzip\r\n", &gzip(b"{\"orderId\": \"A-2\"}"));
    write(&mut bench, 3, b"", b"not json");
    found_by_key(&bench);
    bench.indexer.catch_up().unwrap();
    found_by_key(&bench);
    bench.indexer.seal().unwrap();
    found_by_key(&bench);
    // The index alone knows them, whoever asks.
    let bench = bench.reopen(settings());
    found_by_key(&bench);
    // And an index that is lost is made again.
    std::fs::remove_dir_all(bench.data.path().join("index")).unwrap();
    let mut bench = bench.reopen(with_keys());
    bench.indexer.catch_up().unwrap();
    found_by_key(&bench);
}

#[test]
fn what_was_indexed_without_knowing_the_keys_is_indexed_again_by_who_knows_them() {
    let mut bench = Bench::open(tempfile::tempdir().unwrap(), 1, with_keys());
    let order = |bench: &mut Bench, number: u64| {
        let body = format!("{{\"orderId\": \"A-{number}\"}}");
        write(bench, number, b"", body.as_bytes());
        bench.indexer.catch_up().unwrap();
        bench.indexer.seal().unwrap();
    };
    order(&mut bench, 1);
    let passed = |bench: &Bench| bench.journal.follower("tracker").unwrap().position(0);
    let before = passed(&bench);
    let mut bench = bench.reopen(Settings { provisional: true, ..settings() });
    order(&mut bench, 2);
    assert_eq!(bench.parts().len(), 2);
    assert_eq!(passed(&bench), before, "the journal keeps it");
    let found = bench.search("key.order:*", &Page::default());
    assert_eq!((found.hits.len(), found.incomplete), (1, true));
    assert_eq!(bench.numbers("body:\"A 2\"", 50), [2]);
    // Without a configuration it is not made again, and stays provisional.
    let mut bench = bench.reopen(Settings { provisional: true, ..settings() });
    assert_eq!(bench.indexer.step(100).unwrap(), 0);
    assert!(bench.search("key.order:*", &Page::default()).incomplete);
    let mut bench = bench.reopen(with_keys());
    assert_eq!(bench.parts().len(), 1);
    for _ in 0..2 {
        assert_eq!(bench.numbers("key.order:A-2", 50), [2]);
        bench.indexer.catch_up().unwrap();
        bench.indexer.seal().unwrap();
    }
    assert_eq!(bench.parts().len(), 2);
    assert!(passed(&bench) > before);
}

#[test]
fn a_key_and_a_word_together_find_what_the_index_has_whatever_is_a_key_now() {
    let mut bench = Bench::open(tempfile::tempdir().unwrap(), 1, with_keys());
    for number in 0..200 {
        let body = format!("{{\"orderId\": \"A-{}\", \"note\": \"acme\"}}", number % 100);
        write(&mut bench, number, b"", body.as_bytes());
    }
    bench.indexer.catch_up().unwrap();
    bench.indexer.seal().unwrap();
    for settings in [with_keys(), keyed([("other", Source::path("$.other"))]), settings()] {
        bench = bench.reopen(settings);
        assert_eq!(bench.numbers("key.order:A-17", 50), [117, 17]);
        assert_eq!(bench.numbers("key.order:A-17 body:acme", 50), [117, 17]);
        assert_eq!(bench.numbers("-key.order:A-17 body:acme", 50).len(), 198);
        let query = Query::parse("key.order:A-17 body:acme", NOON).unwrap();
        let counts = bench.index.count(&query, Duration::from_secs(60), true).unwrap();
        assert_eq!(counts.matched, 2);
        let facet = counts.facets.iter().find(|facet| facet.field == "key.order").unwrap();
        assert_eq!(facet.values, [Counted { value: "A-17".to_owned(), count: 2 }]);
        let without = bench.index.count(&query, Duration::from_secs(60), false).unwrap();
        assert_eq!(without.matched, 2);
    }
}

#[test]
fn very_many_different_keys_are_bounded_in_memory_and_all_are_found() {
    let mut bench = Bench::open(tempfile::tempdir().unwrap(), 1, with_keys());
    let padding = "x".repeat(200);
    for number in 0..100_000 {
        let body = format!("{{\"orderId\": \"{number}-{padding}\"}}");
        write(&mut bench, number, b"", body.as_bytes());
        if number % 1000 == 999 {
            bench.indexer.catch_up().unwrap();
        }
    }
    // 100,000 of them would be 20 MB.
    assert!(bench.parts().len() >= 2, "{}", bench.parts().len());
    for number in [0, 33_333, 99_999] {
        assert_eq!(bench.numbers(&format!("key.order:{number}-{padding}"), 50), [number]);
    }
    let all = Query::parse("", NOON).unwrap();
    let counts = bench.index.count(&all, Duration::from_secs(60), true).unwrap();
    assert_eq!(counts.matched, 100_000);
    let facet = counts.facets.iter().find(|facet| facet.field == "key.order").unwrap();
    assert!(facet.more && facet.values.len() == 20, "{facet:?}");
}

#[test]
fn keys_outlive_the_bodies_and_pieces_go_when_the_journal_has_nothing_of_them() {
    let data = tempfile::tempdir().unwrap();
    let open = |keep_completed: u64, keep_failed: u64| {
        let settings = weir_journal::Settings {
            segment_bytes: 1 << 20,
            keep_completed: Duration::from_secs(keep_completed),
            keep_failed: Duration::from_secs(keep_failed),
            ..weir_journal::Settings::default()
        };
        let (journal, lanes, _) = Journal::open(data.path(), settings).unwrap();
        let journal = Arc::new(journal);
        let (index, indexer) = Index::open(data.path(), Arc::clone(&journal), with_keys()).unwrap();
        (journal, lanes, index, indexer)
    };
    let long = 1 << 40;
    for number in [1, 2] {
        // What was indexed in the opening before has been passed in this one.
        let (journal, mut lanes, index, mut indexer) = open(long, long);
        let received = Received {
            id: id(number).to_be_bytes(),
            received_us: NOON + number,
            ..Received::default()
        };
        let body = format!("{{\"orderId\": \"A-{number}\"}}");
        let completed = Completed { request_body: body.as_bytes(), ..Completed::default() };
        append(&mut lanes[0], &received, &completed);
        indexer.catch_up().unwrap();
        indexer.seal().unwrap();
        drop((lanes, index, indexer, journal));
    }
    let query = Query::parse("key.order:A-1", NOON).unwrap();
    let ended = std::time::Instant::now() + Duration::from_secs(60);
    let wait = |done: &mut dyn FnMut() -> bool| {
        while !done() {
            assert!(std::time::Instant::now() < ended);
            std::thread::sleep(Duration::from_millis(20));
        }
    };
    let (journal, lanes, index, indexer) = open(0, long);
    wait(&mut || {
        let found = index.search(&query, &Page::default()).unwrap();
        let [hit] = found.hits.as_slice() else { panic!("{found:?}") };
        let transaction = hit.transaction.as_ref().unwrap();
        assert_eq!(transaction.keys, [("order".to_owned(), "A-1".to_owned())]);
        transaction.expired
    });
    drop((lanes, index, indexer, journal));
    let (_journal, _lanes, index, mut indexer) = open(0, 0);
    wait(&mut || {
        indexer.catch_up().unwrap();
        index.search(&query, &Page::default()).unwrap().hits.is_empty()
    });
    assert_eq!(index.statistics(0).missing, 0);
    assert_eq!(index.statistics(0).parts, 1, "the other one is still in use");
}
