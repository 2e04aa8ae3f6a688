//! Segments in which everything was recorded to be counted are dropped instead of sealed.

use super::*;
use crate::{CallRecord, Reservation, counted};
use std::io::ErrorKind;

fn call(journal: &Journal, lane: &mut Lane, id: u8) {
    journal.state().supply().unwrap();
    let received =
        Received { plan: "gold", counted: counted::COUNT_ONLY | counted::PLAN, ..request(id) };
    lane.append(&received, &Completed { retries: 2, ..answer() }).unwrap();
}

fn calls(journal: &Journal, lane: &mut Lane, count: u8) {
    (0..count).for_each(|id| call(journal, lane, id));
}

/// Reads all there is as a follower does that counts; gives how many it were.
fn count(journal: &Journal) -> usize {
    let mut follower = journal.follower("counts").unwrap();
    let mut reader = journal.follow(&follower, 0);
    let found = std::iter::from_fn(|| reader.next_transaction().unwrap()).count();
    follower.advance(&reader);
    follower.commit().unwrap();
    found
}

#[test]
fn why_a_call_is_counted_comes_back() {
    let data = tempfile::tempdir().unwrap();
    let (journal, mut lane, _) = open(data.path());
    call(&journal, &mut lane, 1);
    whole(&journal, &mut lane, 2);
    let read = all(&journal);
    let told = |one: &Transaction| (one.plan.clone(), one.counted, one.retries, one.is_count());
    assert_eq!(told(&read[0]), ("gold".to_owned(), counted::COUNT_ONLY | counted::PLAN, 2, true));
    assert_eq!(told(&read[1]), (String::new(), 0, 0, false));
}

#[test]
fn what_was_counted_is_dropped_and_what_follows_goes_on_behind_it() {
    let data = tempfile::tempdir().unwrap();
    let (journal, mut lane, _) = open(data.path());
    let mut counted = 0;
    for _ in 0..5 {
        calls(&journal, &mut lane, 60);
        counted += count(&journal);
        journal.work().unwrap();
    }
    let statistics = journal.statistics();
    assert_eq!((counted, statistics.sealed), (300, 0), "{statistics:?}");
    assert!(statistics.dropped > 10 && statistics.unsealed == 0, "{statistics:?}");
    let (end, left) = (journal.end(0), all(&journal));
    assert!(left.len() < 20 && of_kind(data.path(), "carry").len() == 1);
    let handle = left.last().map(|one| one.sequence).unwrap();
    drop((lane, journal));

    let (journal, mut lane, report) = open(data.path());
    assert!(report.damage.is_empty());
    assert!(journal.end(0) >= end, "segments are never numbered twice");
    call(&journal, &mut lane, 9);
    assert_eq!(count(&journal), 1);
    assert_eq!(all(&journal).last().map(|one| one.sequence), Some(handle + 1));
}

#[test]
fn numbers_go_on_when_nothing_at_all_is_left() {
    let data = tempfile::tempdir().unwrap();
    let (journal, mut lane, _) = open(data.path());
    calls(&journal, &mut lane, 60);
    lane.close_segment();
    assert_eq!(count(&journal), 60);
    journal.work().unwrap();
    let end = journal.end(0);
    assert_eq!(all(&journal).len(), 0);
    drop((lane, journal));
    let (journal, mut lane, _) = open(data.path());
    call(&journal, &mut lane, 9);
    assert!(journal.end(0) > end);
    assert_eq!(all(&journal).last().map(|one| one.sequence), Some(61));
    assert_eq!(count(&journal), 1);
}

#[test]
fn what_was_promised_has_room_when_the_journal_is_full_and_is_dropped_like_others() {
    let data = tempfile::tempdir().unwrap();
    let (journal, mut lane, _) = open(data.path());
    let received = Received { counted: counted::COUNT_ONLY | counted::PLAN, ..request(7) };
    let record =
        |room: Reservation, lane: &mut Lane| lane.append_reserved(room, &received, &answer());
    let rooms: Vec<Reservation> = (0..3).map(|_| lane.reserve(200).unwrap()).collect();
    // Segments come and go, and it always has room in the one that is written to.
    while lane.append(&received, &answer()).is_ok() {}
    assert_eq!(lane.reserve(200), Err(Refused::Full));
    assert!(lane.start(&request(1)).is_err());
    for room in rooms {
        record(room, &mut lane).unwrap();
    }
    let all = count(&journal);
    journal.work().unwrap();
    // What is only promised keeps no segment from being dropped.
    let room = lane.reserve(200).unwrap();
    calls(&journal, &mut lane, 60);
    count(&journal);
    journal.work().unwrap();
    let statistics = journal.statistics();
    assert!(all > 3 && statistics.sealed == 0 && statistics.dropped > 3, "{statistics:?}");
    record(room, &mut lane).unwrap();
    assert_eq!(lane.reserve(2000), Err(Refused::Open), "more than a quarter of a segment");
}

#[test]
fn what_was_not_counted_yet_is_kept() {
    let data = tempfile::tempdir().unwrap();
    let (journal, mut lane, _) = open(data.path());
    assert_eq!(count(&journal), 0);
    calls(&journal, &mut lane, 200);
    journal.work().unwrap();
    assert!(journal.statistics().sealed > 0, "too many wait");
    assert_eq!(all(&journal).len(), 200);
    assert_eq!(count(&journal), 200);
}

#[test]
fn a_segment_with_anything_else_in_it_is_sealed() {
    let data = tempfile::tempdir().unwrap();
    let (journal, mut lane, _) = open(data.path());
    let mut others = 0;
    let long = lane.start(&request(200)).unwrap();
    for round in 0..30 {
        calls(&journal, &mut lane, 7);
        if round == 10 {
            lane.complete(long, &answer()).unwrap();
        }
        if round > 10 {
            whole(&journal, &mut lane, 100);
            others += 1;
        }
    }
    count(&journal);
    lane.close_segment();
    journal.work().unwrap();
    let left = all(&journal);
    assert!(left.iter().any(|one| one.id[0] == 200 && !one.damaged));
    assert_eq!(left.iter().filter(|one| one.id[0] == 100).count(), others);
    assert_eq!(left.len(), 30 * 7 + others + 1, "{:?}", journal.statistics());
}

#[test]
fn a_crash_anywhere_in_dropping_loses_nothing_that_was_not_counted() {
    for point in ["plain.carried", "seal.recycle", "plain.recycled"] {
        for pass in [0, 2] {
            let data = tempfile::tempdir().unwrap();
            let faults = Faults::default();
            let (journal, mut lane, _) = open_with(data.path(), SMALL, &faults);
            calls(&journal, &mut lane, 100);
            assert_eq!(count(&journal), 100);
            calls(&journal, &mut lane, 5);
            faults.inject_after(point, pass, ErrorKind::Other);
            assert!(journal.work().is_err(), "{point} {pass}");
            let end = journal.end(0);
            drop((lane, journal));

            let (journal, mut lane, report) = open(data.path());
            assert!(report.damage.is_empty(), "{point} {pass}");
            assert!(journal.end(0) >= end);
            call(&journal, &mut lane, 9);
            assert_eq!(count(&journal), 6, "{point} {pass}");
            journal.work().unwrap();
            assert_eq!(journal.statistics().unsealed, 0);
        }
    }
}

#[test]
fn an_error_while_dropping_is_tried_again() {
    for point in ["plain.carried", "seal.recycle", "plain.recycled"] {
        let data = tempfile::tempdir().unwrap();
        let faults = Faults::default();
        let (journal, mut lane, _) = open_with(data.path(), SMALL, &faults);
        calls(&journal, &mut lane, 100);
        count(&journal);
        faults.inject(point, 1, ErrorKind::Other);
        assert!(journal.work().is_err());
        journal.work().unwrap();
        assert_eq!(journal.statistics().unsealed, 0, "{point}");
    }
}

/// What counting sees of a transaction.
type Seen = (Option<Address>, u64, String, u8, Outcome, u16, u64, u64, u32);

fn seen(journal: &Journal, most: usize) -> Vec<Seen> {
    let mut reader = journal.reader(0, Position::START).metadata_only();
    let mut all = Vec::new();
    while reader
        .calls(most, |call| {
            let CallRecord { address, received_us, consumer, counted, outcome, .. } = *call;
            let lengths = (call.request_bytes, call.response_bytes);
            let who = (address, received_us, consumer.to_owned(), counted, outcome);
            let (address, received_us, consumer, counted, outcome) = who;
            all.push((
                address,
                received_us,
                consumer,
                counted,
                outcome,
                call.status,
                lengths.0,
                lengths.1,
                call.micros,
            ));
        })
        .unwrap()
        > 0
    {}
    all
}

#[test]
fn who_counts_sees_every_transaction_as_it_is_however_it_was_written() {
    let data = tempfile::tempdir().unwrap();
    let (journal, mut lane, _) = open(data.path());
    let long = lane.start(&request(200)).unwrap();
    for id in 0..60 {
        call(&journal, &mut lane, id);
        let received = Received { received_us: 7, consumer: "acme", ..request(id) };
        journal.state().supply().unwrap();
        let handle = lane.start(&received).unwrap();
        lane.part(handle, Side::Request, b"asked").unwrap();
        call(&journal, &mut lane, id);
        journal.state().supply().unwrap();
        lane.complete(handle, &Completed { outcome: Outcome::Failed, ..answer() }).unwrap();
    }
    lane.complete(long, &answer()).unwrap();
    let expected = |journal: &Journal| -> Vec<Seen> {
        let of = |one: Transaction| {
            let micros =
                one.stages.iter().find(|stage| stage.0 == weir_model::stage::TOTAL).unwrap().1;
            let (sent, answered) = (one.request.length, one.response.length);
            let Transaction { address, received_us, consumer, counted, outcome, status, .. } = one;
            (address, received_us, consumer, counted, outcome, status, sent, answered, micros)
        };
        all(journal).into_iter().map(of).collect()
    };
    let before = expected(&journal);
    assert_eq!(before.len(), 181);
    for most in [1, 7, 1000] {
        assert_eq!(seen(&journal, most), before, "{most}");
    }
    count(&journal);
    lane.close_segment();
    journal.work().unwrap();
    assert_eq!(seen(&journal, 100), expected(&journal));
}
