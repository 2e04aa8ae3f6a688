//! Payloads that are made to hurt.

use std::io::Write;

use weir_journal::{Completed, Received};

use super::{Bench, NOON, append, id, settings};

/// With room for long records.
fn large() -> Bench {
    Bench::with_segments(tempfile::tempdir().unwrap(), 1, settings(), 16 << 20)
}

fn write(bench: &mut Bench, number: u64, head: &[u8], body: &[u8], keys: &[(&str, &str)]) {
    let received = Received {
        id: id(number).to_be_bytes(),
        received_us: NOON + number,
        head,
        ..Received::default()
    };
    let completed = Completed { status: 200, request_body: body, keys, ..Completed::default() };
    append(&mut bench.lanes[0], &received, &completed);
}

pub(super) fn gzip(body: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(body).unwrap();
    encoder.finish().unwrap()
}

#[test]
fn hostile_payloads_are_indexed_as_far_as_the_bounds_and_nothing_else_is_lost() {
    let mut bench = large();
    let bomb = gzip(&vec![b'x'; 64 << 20]);
    let packed = gzip(b"hidden treasure");
    let headers: String = (0..10_000).map(|n| format!("x-{n}: value{n}\r\n")).collect();
    let keys: Vec<(String, String)> =
        (0..100_000).map(|n| (format!("k{}", n % 10), format!("v-{n}"))).collect();
    let keys: Vec<(&str, &str)> =
        keys.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let long = "y".repeat(1 << 20);
    write(&mut bench, 1, b"", b"before \xff\xfe\xc3 after\xff", &[]);
    write(&mut bench, 2, b"content-encoding: gzip\r\n", &bomb, &[]);
    write(&mut bench, 3, b"content-encoding: gzip\r\n", &packed, &[]);
    write(&mut bench, 4, headers.as_bytes(), b"", &[]);
    write(&mut bench, 5, b"", b"", &keys);
    write(&mut bench, 6, b"content-type: text/event-stream\r\n", b"data: streamed\n\n", &[]);
    write(&mut bench, 7, b"", b"PK\0\0binary", &[]);
    write(&mut bench, 8, b"", long.as_bytes(), &[("long", &long)]);
    write(
        &mut bench,
        9,
        b"no colon\r\n: \r\n\r\n:::\n\n",
        b"{\"a\":\"\\u",
        &[("", ""), ("nul\0", "a\0b")],
    );
    write(&mut bench, 10, b"", b"after all", &[]);
    for sealed in [false, true] {
        assert_eq!(bench.numbers("before after", 50), [1]);
        assert_eq!(bench.numbers("treasure", 50), [3]);
        assert_eq!(bench.numbers("header.x-77:value77", 50), [4]);
        assert_eq!(bench.numbers("header.x-78:*", 50), [4]);
        assert_eq!(bench.numbers("key.k7:v-99997", 50), [5]);
        assert_eq!(bench.numbers("key.k7:v-99998", 50), [0; 0]);
        assert_eq!(bench.numbers("streamed OR binary", 50), [0; 0]);
        assert_eq!(bench.numbers(&format!("key.long:{}", &long[..2000]), 50), [8]);
        assert_eq!(bench.numbers(&format!("key.long:{}", &long[..200]), 50), [0; 0]);
        assert_eq!(bench.numbers("key.long:*", 50), [8]);
        assert_eq!(bench.numbers("after", 50), [10, 1]);
        assert_eq!(bench.numbers("", 50).len(), 10);
        bench.indexer.catch_up().unwrap();
        if !sealed {
            bench.indexer.seal().unwrap();
        }
    }
}

#[test]
fn a_block_with_too_many_terms_counts_as_having_all() {
    let mut bench = large();
    for number in 0..10 {
        let body: String = (0..30_000).map(|n| format!("w{} ", number * 30_000 + n)).collect();
        write(&mut bench, number, b"", body.as_bytes(), &[]);
    }
    (10..200).for_each(|number| bench.write(number));
    bench.indexer.catch_up().unwrap();
    for _ in 0..2 {
        assert_eq!(bench.numbers("w285000", 50), [9]);
        assert_eq!(bench.numbers("unique40", 50), [40]);
        bench.indexer.seal().unwrap();
    }
}

#[test]
fn a_page_of_large_payloads_ends_early_and_goes_on() {
    let mut bench = large();
    let body = vec![b'x'; 1 << 20];
    for number in 0..40 {
        write(&mut bench, number, b"", &body, &[]);
        bench.indexer.step(100).unwrap();
    }
    let found = bench.search("", &crate::Page::default());
    assert!((16..20).contains(&found.hits.len()) && found.next.is_some());
    assert_eq!(bench.numbers("", 50), (0..40).rev().collect::<Vec<_>>());
}
