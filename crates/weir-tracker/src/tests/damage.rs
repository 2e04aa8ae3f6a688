//! What is lost or spoilt is made again from the journal.

use std::fs;

use weir_journal::Position;

use super::{Bench, settings};
use crate::Page;

/// Three parts of 100 transactions, and 50 that are only in memory.
fn three_pieces() -> Bench {
    let mut bench = Bench::new(2);
    for part in 0..3 {
        (part * 100..part * 100 + 100).for_each(|number| bench.write(number));
        bench.indexer.catch_up().unwrap();
        bench.indexer.seal().unwrap();
    }
    (300..350).for_each(|number| bench.write(number));
    bench.indexer.catch_up().unwrap();
    assert_eq!(bench.parts().len(), 3);
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
    let mut bench = three_pieces().reopen(settings());
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
    let mut bench = bench.reopen(settings());
    is_whole_by_tail(&bench);
    bench.indexer.catch_up().unwrap();
    is_whole(&bench);
}

#[test]
fn any_piece_can_be_deleted_or_be_unfinished() {
    for at in 0..3 {
        let bench = three_pieces();
        let part = &bench.parts()[at];
        // As if the process had ended before the part was put in its place.
        fs::rename(part, bench.data.path().join("index/building/left")).unwrap();
        let mut bench = bench.reopen(settings());
        let found = bench.search("common", &Page::default());
        assert_eq!(found.incomplete, at < 2, "piece {at}");
        bench.indexer.catch_up().unwrap();
        is_whole(&bench);
        let mut bench = bench.reopen(settings());
        bench.indexer.catch_up().unwrap();
        is_whole(&bench);
    }
}

#[test]
fn every_file_of_a_piece_can_be_damaged_or_lost() {
    let mut bench = three_pieces();
    for file in ["terms", "columns"] {
        for step in [0, 1, 2, 3] {
            let path = bench.parts()[0].join(file);
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
            // What the last part had is found by reading the end of the journal.
            assert!(found.incomplete || found.hits.len() == 347, "{path:?} {step}");
            bench.indexer.catch_up().unwrap();
            bench.indexer.seal().unwrap();
            is_whole(&bench);
        }
    }
}

fn checkpoint(bench: &Bench) -> std::path::PathBuf {
    bench.data.path().join("journal/followers/tracker")
}

#[test]
fn an_end_between_a_piece_and_its_checkpoint_costs_nothing() {
    let mut bench = three_pieces();
    let before = fs::read(checkpoint(&bench)).unwrap();
    bench.indexer.seal().unwrap();
    assert_ne!(fs::read(checkpoint(&bench)).unwrap(), before);
    fs::write(checkpoint(&bench), before).unwrap();
    let mut bench = bench.reopen(settings());
    assert_eq!(bench.indexer.step(100).unwrap(), 0);
    is_whole(&bench);
}

#[test]
fn the_journal_keeps_what_a_deleted_index_has_to_read_again() {
    let bench = three_pieces();
    assert_ne!(bench.journal.follower("tracker").unwrap().position(1), Position::START);
    fs::remove_dir_all(bench.data.path().join("index")).unwrap();
    let bench = bench.reopen(settings());
    assert_eq!(bench.journal.follower("tracker").unwrap().position(1), Position::START);
}

#[test]
fn lag_is_told_in_records_and_in_time() {
    let mut bench = three_pieces();
    assert_eq!(bench.index.statistics(0).lag_records, 0);
    (350..2000).for_each(|number| bench.write(number));
    bench.indexer.step(1).unwrap();
    let statistics = bench.index.statistics(super::NOON + 10_000_000);
    let indexed = statistics.transactions - 350;
    assert_eq!((statistics.lag_records, statistics.missing), (1650 - indexed, 0));
    assert!((9_000_000..10_000_000).contains(&statistics.lag_us), "{statistics:?}");
    bench.indexer.catch_up().unwrap();
    assert_eq!(bench.index.statistics(u64::MAX).lag_us, 0);
}
