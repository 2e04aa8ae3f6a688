//! What a segment holds is the same before and after it is sealed, whenever weir ends.

use std::io::ErrorKind;

use super::*;

/// Places where sealing may end.
const POINTS: [&str; 7] = [
    "seal.scanned",
    "seal.part",
    "seal.carried",
    "seal.written",
    "seal.before-recycling",
    "seal.recycle",
    "seal.recycled",
];

/// Fills some segments with transactions of every kind; one stays open all the time.
pub(super) fn fill(journal: &Journal, lane: &mut Lane) {
    let long = lane.start(&request(200)).unwrap();
    for id in 0..40 {
        whole(journal, lane, id);
        lane.part(long, Side::Response, &[id; 10]).unwrap();
        let handle = lane.start(&request(100 + id)).unwrap();
        lane.part(handle, Side::Request, b"first ").unwrap();
        whole(journal, lane, id);
        lane.part(handle, Side::Response, b"answer ").unwrap();
        let outcome = if id % 3 == 0 { Outcome::Failed } else { Outcome::Completed };
        let end = Completed { outcome, request_body: b"second", ..answer() };
        journal.state().supply().unwrap();
        lane.complete(handle, &end).unwrap();
        let handle = lane.start(&request(150)).unwrap();
        lane.part(handle, Side::Request, b"asked ").unwrap();
        lane.part(handle, Side::Response, b"void ").unwrap();
        whole(journal, lane, id);
        let discarded = if id % 2 == 0 { Discarded::Response } else { Discarded::Payload };
        lane.complete(handle, &Completed { discarded, outcome, ..answer() }).unwrap();
    }
}

#[test]
fn sealed_transactions_read_as_before_at_the_same_addresses() {
    let data = tempfile::tempdir().unwrap();
    let (journal, mut lane, _) = open(data.path());
    fill(&journal, &mut lane);
    let before = all(&journal);
    assert_eq!(before.len(), 200);
    assert!(before.iter().any(|one| one.outcome == Outcome::Failed));
    assert!(before.iter().all(|one| !one.damaged));
    let used = journal.statistics().disk_bytes;

    let mut reader = journal.reader(0, Position::START);
    for one in &before {
        reader.next_transaction().unwrap();
        assert_eq!(reader.position(), one.after);
    }

    journal.work().unwrap();
    let mut reader = journal.reader(0, Position::START);
    for one in &before {
        reader.next_transaction().unwrap();
        assert_eq!(reader.position(), one.after, "the same checkpoints as before");
    }
    // Files that are only kept to be used again do not count.
    journal.state().lanes[0].catalog.remove_spares(&journal.state().budget);
    let statistics = journal.statistics();
    assert!(statistics.sealed > 3 && statistics.unsealed == 0, "{statistics:?}");
    // Files kept to be used again are no part of what was sealed.
    let there = fs::read_dir(data.path().join("journal/lane-0000")).unwrap();
    let spares = there.filter(|entry| {
        entry.as_ref().unwrap().path().extension().is_some_and(|kind| kind == "spare")
    });
    let kept = spares.count() as u64 * u64::from(SMALL.segment_bytes);
    assert!(statistics.disk_bytes - kept < used, "{used}: {statistics:?}");
    assert_eq!(all(&journal), before);
    let addresses: Vec<_> = before.iter().filter_map(|one| one.address).collect();
    assert_eq!(journal.get_many(&addresses, true).unwrap(), before);
    assert_eq!(journal.get(addresses[7]).unwrap().as_ref(), Some(&before[7]));
    let payload = |one: &Transaction| !one.request_head.is_empty() || !one.request_body.is_empty();
    // The last of them are in a segment that is not full.
    let without = journal.get_many(&addresses[..100], false).unwrap();
    assert!(before[..100].iter().any(payload) && !without.iter().any(payload));
    let ids = |all: &[Transaction]| all.iter().map(|one| (one.id, one.status)).collect::<Vec<_>>();
    assert_eq!(ids(&without), ids(&before[..100]));

    drop((lane, journal));
    let (journal, _lane, report) = open(data.path());
    assert_eq!((report.interrupted, report.damage.len()), (1, 0));
    let after = all(&journal);
    assert_eq!(after[..200], before);
    let bodies: Vec<u8> = (0..40).flat_map(|id| [id; 10]).collect();
    assert_eq!((after[200].id[0], after[200].response_body.as_slice()), (200, bodies.as_slice()));
    assert!(!after[200].damaged);
}

#[test]
fn metadata_is_read_without_payloads() {
    let data = tempfile::tempdir().unwrap();
    let (journal, mut lane, _) = open(data.path());
    fill(&journal, &mut lane);
    drop(lane);
    for sealed in [false, true] {
        if sealed {
            journal.work().unwrap();
        }
        let mut reader = journal.reader(0, Position::START).metadata_only();
        let mut read = 0;
        while let Some(one) = reader.next_transaction().unwrap() {
            assert_eq!((one.target.as_str(), one.status, one.damaged), ("/a", 201, false));
            assert!(one.request_head.is_empty() && one.request_body.is_empty());
            assert!(one.response_body.is_empty() && one.logs.is_empty());
            read += 1;
        }
        assert_eq!(read, 200);
    }
}

#[test]
fn a_crash_anywhere_in_sealing_loses_nothing() {
    for point in POINTS {
        for pass in [0, 1, 4] {
            let data = tempfile::tempdir().unwrap();
            let faults = Faults::default();
            let (journal, mut lane, _) = open_with(data.path(), SMALL, &faults);
            fill(&journal, &mut lane);
            let before = all(&journal);
            faults.inject_after(point, pass, ErrorKind::Other);
            assert!(journal.work().is_err(), "{point} {pass}");
            drop((lane, journal));

            let (journal, lane, report) = open(data.path());
            assert_eq!((report.interrupted, report.damage.len()), (1, 0), "{point} {pass}");
            assert_eq!(all(&journal)[..200], before, "{point} {pass}");
            drop(lane);
            journal.work().unwrap();
            let after = all(&journal);
            assert_eq!(after[..200], before, "{point} {pass}");
            assert!(!after[200].damaged, "{point} {pass}");
            assert_eq!(journal.statistics().unsealed, 0);
        }
    }
}

#[test]
fn an_error_while_sealing_is_tried_again() {
    for point in POINTS {
        let data = tempfile::tempdir().unwrap();
        let faults = Faults::default();
        let (journal, mut lane, _) = open_with(data.path(), SMALL, &faults);
        fill(&journal, &mut lane);
        let before = all(&journal);
        faults.inject_after(point, 1, ErrorKind::Other);
        assert!(journal.work().is_err(), "{point}");
        journal.work().unwrap();
        assert_eq!(all(&journal), before, "{point}");
        assert_eq!(journal.statistics().unsealed, 0);
        let segments = of_kind(data.path(), "segment").len();
        let known = journal.state().lanes[0].catalog.segments.read().raw.len();
        assert_eq!(segments, known, "{point}: what is there is known");
    }
}

#[test]
fn a_flipped_byte_of_a_sealed_file_is_never_taken_for_a_transaction() {
    let data = tempfile::tempdir().unwrap();
    let (journal, mut lane, _) = open(data.path());
    let before: Vec<_> = (0..5).map(|id| whole(&journal, &mut lane, id)).collect();
    let before = journal.get_many(&before, true).unwrap();
    drop(lane);
    journal.work().unwrap();
    drop(journal);
    for kind in ["meta", "payload"] {
        let path = segment(data.path(), 1).with_extension(kind);
        let good = fs::read(&path).unwrap();
        for at in (0..good.len()).step_by(3) {
            let mut bytes = good.clone();
            bytes[at] ^= 0x55;
            fs::write(&path, &bytes).unwrap();
            let (journal, ..) = open(data.path());
            for one in all(&journal) {
                assert!(one.damaged || one.expired || before.contains(&one), "{kind} {at}");
            }
        }
        fs::write(&path, &good).unwrap();
    }
    assert_eq!(all(&open(data.path()).0), before);
}

#[test]
fn an_idle_lane_lets_go_of_an_old_segment() {
    let data = tempfile::tempdir().unwrap();
    let settings = Settings { seal_after: Duration::ZERO, ..SMALL };
    let (journal, mut lane, _) = open_with(data.path(), settings, &Faults::default());
    let address = whole(&journal, &mut lane, 1);
    let handle = lane.start(&request(2)).unwrap();
    journal.work().unwrap();
    assert_eq!(journal.statistics().sealed, 0);
    lane.tick();
    journal.work().unwrap();
    assert_eq!(journal.statistics().sealed, 1);
    lane.complete(handle, &answer()).unwrap();
    lane.tick();
    journal.work().unwrap();
    assert_eq!(journal.statistics().sealed, 2);
    assert!(journal.get(address).unwrap().is_some());
    assert!(all(&journal).iter().all(|one| one.response_body == b"end" && !one.damaged));
    whole(&journal, &mut lane, 3);
    assert_eq!(all(&journal).len(), 3);
}

#[test]
fn the_sealed_fixture_of_version_1_still_opens() {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/sealed-1");
    let data = tempfile::tempdir().unwrap();
    let lane = data.path().join("journal/lane-0000");
    fs::create_dir_all(&lane).unwrap();
    for kind in ["meta", "payload", "failed", "carry"] {
        fs::copy(fixtures.join(kind), segment(data.path(), 1).with_extension(kind)).unwrap();
    }
    let (journal, _, report) = open(data.path());
    assert_eq!((report.interrupted, report.damage.len()), (1, 0));
    let read = all(&journal);
    let seen: Vec<_> = read.iter().map(|one| (one.id[0], one.outcome, one.damaged)).collect();
    let expected = [
        (2, Outcome::Completed, false),
        (3, Outcome::Failed, false),
        (1, Outcome::Interrupted, false),
    ];
    assert_eq!(seen, expected);
    assert!(read[..2].iter().all(|one| one.response_body == b"end" && one.logs == ["one", "two"]));
    assert_eq!(read[2].request_body, b"ab");
}
