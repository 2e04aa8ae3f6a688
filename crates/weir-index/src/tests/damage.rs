//! What is lost or spoilt is made again from the journal.

use std::fs;

use super::{Bench, SETTINGS};
use crate::Page;

/// Three pieces of 100 transactions, and 50 that are only in memory.
fn three_pieces() -> Bench {
    let mut bench = Bench::new(2);
    for piece in 0..3 {
        (piece * 100..piece * 100 + 100).for_each(|number| bench.write(number));
        bench.indexer.catch_up().unwrap();
        bench.indexer.seal().unwrap();
    }
    (300..350).for_each(|number| bench.write(number));
    bench.indexer.catch_up().unwrap();
    assert_eq!(bench.pieces().len(), 3);
    bench
}

fn is_whole(bench: &Bench) {
    let all: Vec<u64> = (0..350).rev().collect();
    assert_eq!(bench.numbers("common", 1000), all);
    assert_eq!(bench.numbers("", 1000), all);
    assert_eq!(bench.index.statistics(0).missing, 0);
    assert_eq!(bench.index.statistics(0).transactions, 350);
}

#[test]
fn what_was_only_in_memory_is_read_again() {
    let mut bench = three_pieces().reopen(SETTINGS);
    assert_eq!(bench.index.statistics(0).transactions, 300);
    is_whole_by_tail(&bench);
    bench.indexer.catch_up().unwrap();
    is_whole(&bench);
}

/// Nothing is missing to a search even before the indexer ran.
fn is_whole_by_tail(bench: &Bench) {
    assert_eq!(bench.numbers("common", 1000).len(), 350);
}

#[test]
fn the_whole_index_can_be_deleted() {
    let bench = three_pieces();
    fs::remove_dir_all(bench.data.path().join("index")).unwrap();
    let mut bench = bench.reopen(SETTINGS);
    is_whole_by_tail(&bench);
    bench.indexer.catch_up().unwrap();
    is_whole(&bench);
}

#[test]
fn any_piece_can_be_deleted_or_be_unfinished() {
    for at in 0..3 {
        let bench = three_pieces();
        let piece = &bench.pieces()[at];
        // As if the process had ended before the piece was put in its place.
        fs::rename(piece, bench.data.path().join("index/building/left")).unwrap();
        let mut bench = bench.reopen(SETTINGS);
        let found = bench.search("common", &Page::default());
        assert_eq!(found.incomplete, at < 2, "piece {at}");
        bench.indexer.catch_up().unwrap();
        is_whole(&bench);
        let mut bench = bench.reopen(SETTINGS);
        bench.indexer.catch_up().unwrap();
        is_whole(&bench);
    }
}

#[test]
fn every_file_of_a_piece_can_be_damaged_or_lost() {
    let mut bench = three_pieces();
    let piece = bench.pieces()[0].clone();
    let terms = fs::read_dir(piece.join("terms")).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> =
        terms.map(|path| path.strip_prefix(&piece).unwrap().to_owned()).collect();
    files.push("columns".into());
    assert!(files.len() > 4);
    for file in files {
        for step in [0, 1, 2, 3] {
            let path = bench.pieces()[0].join(&file);
            // The names of segments differ from piece to piece.
            let path = if path.exists() { path } else { same_kind(&path) };
            let mut bytes = fs::read(&path).unwrap();
            let length = bytes.len();
            match step {
                0 => bytes[length / 2] ^= 0x55,
                1 => bytes[length - 1] ^= 0x55,
                2 => bytes.truncate(length / 2),
                _ => bytes.clear(),
            }
            fs::remove_file(&path).unwrap();
            fs::write(&path, &bytes).unwrap();
            bench.reopen_index();
            let page = Page { limit: 1000, ..Page::default() };
            let found = bench.search("common status:200 took:<999ms", &page);
            assert_eq!(bench.index.statistics(0).damaged, 1, "{path:?} {step}");
            // What the last piece had is found by reading the end of the journal.
            assert!(found.incomplete || found.hits.len() == 347, "{path:?} {step}");
            bench.indexer.catch_up().unwrap();
            bench.indexer.seal().unwrap();
            is_whole(&bench);
        }
    }
}

fn same_kind(path: &std::path::Path) -> std::path::PathBuf {
    let others = fs::read_dir(path.parent().unwrap()).unwrap().map(|entry| entry.unwrap().path());
    let mut same = others.filter(|other| other.extension() == path.extension());
    same.next().unwrap()
}

#[test]
fn old_partitions_are_dropped_whole_and_the_rest_stays() {
    let mut bench = three_pieces();
    bench.indexer.drop_before(super::NOON + 100).unwrap();
    assert_eq!(bench.pieces().len(), 3, "a day with anything newer stays whole");
    bench.indexer.drop_before(super::NOON + 400).unwrap();
    assert_eq!(bench.pieces().len(), 0);
    assert_eq!(bench.numbers("", 1000).len(), 50);
}
