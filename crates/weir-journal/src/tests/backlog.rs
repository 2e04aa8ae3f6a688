//! A follower with a bounded backlog holds back that much and no more, and is told what it skips.

use super::*;
use crate::{Follower, Skipped};

const BUDGET: u64 = 24 * 4096;
const SETTINGS: Settings = Settings { disk_bytes: BUDGET, ..SMALL };

/// Bytes that do not compress, so that sealing saves no space.
fn noise(seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let next = |_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 56) as u8
    };
    (0..1200).map(next).collect()
}

/// Appends transactions, none of which may be refused. Metadata does not compress, too.
fn append(journal: &Journal, lane: &mut Lane, numbers: std::ops::Range<u64>) {
    for number in numbers {
        journal.work().unwrap();
        let mut id = [0; 16];
        id[8..].copy_from_slice(&number.to_be_bytes());
        let detail: String = noise(number).iter().map(|byte| char::from(byte % 94 + 33)).collect();
        let received = Received { id, ..request(0) };
        let body = noise(number);
        let completed = Completed { response_body: &body, detail: &detail[..600], ..answer() };
        lane.append(&received, &completed).unwrap();
    }
    journal.work().unwrap();
}

fn number(transaction: &Transaction) -> u64 {
    u64::from_be_bytes(transaction.id[8..].try_into().unwrap())
}

/// Everything that the follower has not read, in all parts or without its body.
fn read_on(journal: &Journal, follower: &mut Follower) -> Vec<Transaction> {
    let mut reader = journal.follow(follower, 0);
    let read = std::iter::from_fn(|| reader.next_transaction().unwrap()).collect();
    follower.advance(&reader);
    follower.commit().unwrap();
    read
}

fn records(skipped: &[Skipped]) -> u64 {
    skipped.iter().map(|skipped| skipped.records).sum()
}

#[test]
fn a_stalled_follower_costs_no_record_and_is_told_what_it_skips() {
    let data = tempfile::tempdir().unwrap();
    let (journal, mut lane, _) = open_with(data.path(), SETTINGS, &Faults::default());
    let mut follower = journal.follower_with_backlog("ship", BUDGET / 2).unwrap();
    append(&journal, &mut lane, 0..300);
    assert_eq!(journal.statistics().refused, 0);
    let skipped = follower.take_skipped();
    assert_eq!(skipped.len(), 1, "contiguous: {skipped:?}");
    assert!(skipped[0].records > 100 && !skipped[0].at_most, "{skipped:?}");
    assert_eq!(follower.take_skipped(), [], "told once");
    let read = read_on(&journal, &mut follower);
    assert_eq!(read.len() as u64 + records(&skipped), 300);
    assert_eq!(number(&read[0]), skipped[0].records, "the first that is kept");
    assert!(read.windows(2).all(|pair| number(&pair[0]) + 1 == number(&pair[1])));
    // Once it keeps up, nothing is dropped before it was read.
    append(&journal, &mut lane, 300..304);
    assert_eq!(read_on(&journal, &mut follower).len(), 4);
    assert_eq!(follower.take_skipped(), []);
}

#[test]
fn within_its_bound_nothing_of_its_backlog_is_dropped() {
    let data = tempfile::tempdir().unwrap();
    let (journal, mut lane, _) = open_with(data.path(), SETTINGS, &Faults::default());
    append(&journal, &mut lane, 0..100);
    let mut follower = journal.follower_with_backlog("ship", BUDGET / 2).unwrap();
    let first = read_on(&journal, &mut follower);
    assert_eq!(number(first.last().unwrap()), 99, "a new one begins with what there is");
    assert_eq!(follower.take_skipped(), [], "what there was before is not skipped");
    // About 2 KiB each, in segments of two.
    append(&journal, &mut lane, 100..115);
    let read = read_on(&journal, &mut follower);
    assert_eq!((read.len(), number(&read[0])), (15, 100));
    assert!(read.iter().all(|one| !one.expired), "bodies are kept, too");
    assert_eq!(follower.take_skipped(), []);
}

#[test]
fn what_was_read_and_is_not_processed_yet_does_not_count_as_skipped() {
    let data = tempfile::tempdir().unwrap();
    let (journal, mut lane, _) = open_with(data.path(), SETTINGS, &Faults::default());
    let follower = journal.follower_with_backlog("ship", BUDGET / 4).unwrap();
    append(&journal, &mut lane, 0..10);
    let mut reader = journal.follow(&follower, 0);
    for _ in 0..7 {
        reader.next_transaction().unwrap().unwrap();
    }
    append(&journal, &mut lane, 10..300);
    let mut read = 7;
    while reader.next_transaction().unwrap().is_some() {
        read += 1;
    }
    assert_eq!(read + records(&follower.take_skipped()), 300);
}

#[test]
fn a_bound_as_large_as_the_disk_still_costs_no_record() {
    let data = tempfile::tempdir().unwrap();
    let (journal, mut lane, _) = open_with(data.path(), SETTINGS, &Faults::default());
    let mut others = ["a", "b"].map(|name| journal.follower_with_backlog(name, BUDGET).unwrap());
    append(&journal, &mut lane, 0..300);
    assert_eq!(journal.statistics().refused, 0);
    for follower in &mut others {
        let skipped = records(&follower.take_skipped());
        assert_eq!(read_on(&journal, follower).len() as u64 + skipped, 300);
    }
}

#[test]
fn what_a_crash_left_untold_is_told_at_the_next_opening() {
    let data = tempfile::tempdir().unwrap();
    let (journal, mut lane, _) = open_with(data.path(), SETTINGS, &Faults::default());
    let mut follower = journal.follower_with_backlog("ship", BUDGET / 2).unwrap();
    append(&journal, &mut lane, 0..3);
    read_on(&journal, &mut follower);
    append(&journal, &mut lane, 3..300);
    drop((lane, journal));
    let (journal, _lane, _) = open_with(data.path(), SETTINGS, &Faults::default());
    let mut follower = journal.follower_with_backlog("ship", BUDGET / 2).unwrap();
    let skipped = follower.take_skipped();
    assert!(skipped.len() == 1 && skipped[0].at_most, "{skipped:?}");
    assert_eq!(3 + records(&skipped) + read_on(&journal, &mut follower).len() as u64, 300);
    drop(journal);
}

#[test]
fn other_followers_keep_what_they_need() {
    let data = tempfile::tempdir().unwrap();
    let (journal, mut lane, _) = open_with(data.path(), SETTINGS, &Faults::default());
    journal.follower("tracker").unwrap();
    let _ship = journal.follower_with_backlog("ship", BUDGET / 4).unwrap();
    let body = noise(1);
    let completed = Completed { response_body: &body, ..answer() };
    let mut written = 0;
    while lane.append(&request(1), &completed).is_ok() {
        written += 1;
        journal.work().unwrap();
        assert!(written < 1000, "the budget holds");
    }
    assert_eq!(all(&journal).len(), written);
    // A follower without a bound becomes one with a bound, and back.
    let _tracker = journal.follower_with_backlog("tracker", BUDGET / 4).unwrap();
    append(&journal, &mut lane, 0..100);
}
