//! Two processes write one journal for a while, and nothing is lost or read twice.

use super::*;
use crate::LaneProgress;
use crate::data_lock::DataLock;

/// The successor of a journal that is released, and its lane.
fn successor(data: &Path, before: &Journal) -> (Journal, Lane) {
    let lock = DataLock::inherit(data, before.release().unwrap()).unwrap();
    let held = before.progress();
    let (journal, mut lanes, report) =
        Journal::open_locked((data, lock), SMALL, &held, Faults::default()).unwrap();
    assert_eq!((report.interrupted, lanes.len()), (0, 1));
    (journal, lanes.remove(0))
}

fn ids(journal: &Journal, lane: u16) -> Vec<u8> {
    let mut reader = journal.reader(lane, Position::START);
    let all = std::iter::from_fn(|| reader.next_transaction().unwrap());
    all.map(|one| one.id[0]).collect()
}

#[test]
fn a_successor_reads_what_the_predecessor_still_writes_and_adopts_it_at_its_end() {
    let data = tempfile::tempdir().unwrap();
    let (old, mut old_lane, _) = open(data.path());
    old.follower("tracker").unwrap();
    for id in 0..30 {
        whole(&old, &mut old_lane, id);
    }
    let left_open = old_lane.start(&request(90)).unwrap();
    let completed = old_lane.start(&request(30)).unwrap();

    let (new, mut lane) = successor(data.path(), &old);
    assert_eq!(ids(&new, 0), (0..30).collect::<Vec<_>>());
    let mut reader = new.reader(0, old.progress()[0].end);
    // Both write, and the maintenance of the new one leaves the lane of the old one alone.
    let files = of_kind(data.path(), "segment").len();
    for id in 31..60 {
        whole(&old, &mut old_lane, id);
        assert_eq!(whole(&new, &mut lane, 100 + id).lane, 1);
        new.work().unwrap();
    }
    assert!(
        of_kind(data.path(), "segment").len() > files && of_kind(data.path(), "meta").is_empty()
    );
    old_lane.complete(completed, &answer()).unwrap();
    assert!(reader.next_transaction().unwrap().is_none(), "nothing is reported yet");
    new.follow_predecessor(&old.progress()).unwrap();
    let read = std::iter::from_fn(|| reader.next_transaction().unwrap());
    assert_eq!(
        read.map(|one| one.id[0]).collect::<Vec<_>>(),
        [&(31..60).collect::<Vec<_>>()[..], &[30]].concat()
    );

    // The old one ends like a process that is killed, with one more record than it has reported.
    whole(&old, &mut old_lane, 61);
    let _ = left_open;
    drop((old_lane, old));
    let report = new.adopt().unwrap();
    assert_eq!((report.interrupted, report.damage.len()), (1, 0));
    let read: Vec<u8> =
        std::iter::from_fn(|| reader.next_transaction().unwrap()).map(|one| one.id[0]).collect();
    assert_eq!(read, [61, 90]);
    assert_eq!(new.adopt().unwrap().records, 0, "once");
    let mut follower = new.follower("tracker").unwrap();
    while reader.next_transaction().unwrap().is_some() {}
    follower.advance(&reader);
    follower.commit().unwrap();
    new.work().unwrap();
    assert!(!of_kind(data.path(), "meta").is_empty(), "adopted lanes are sealed");
    assert_eq!(ids(&new, 0).len(), 62);
    drop((lane, new));

    let (again, _lane, report) = open(data.path());
    assert_eq!((report.interrupted, report.missing.len(), report.damage.len()), (0, 0, 0));
    assert_eq!((ids(&again, 0).len(), ids(&again, 1).len()), (62, 29));
}

#[test]
fn the_folder_stays_locked_until_both_have_ended() {
    let data = tempfile::tempdir().unwrap();
    let (old, old_lane, _) = open(data.path());
    let (new, lane) = successor(data.path(), &old);
    assert_eq!(new.progress(), [LaneProgress { lane: 1, ..new.progress()[0] }]);
    drop((old_lane, old));
    let locked = || matches!(DataLock::acquire(data.path()), Err(Error::InUse { .. }));
    assert!(locked());
    drop((lane, new));
    assert!(!locked());
    // The lock of another folder is none of this one.
    let other = tempfile::tempdir().unwrap();
    let lock = DataLock::acquire(other.path()).unwrap().share().unwrap();
    assert!(DataLock::inherit(data.path(), lock).is_err());
}
