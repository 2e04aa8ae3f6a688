//! Followers go on where they were, and nothing is dropped before they have passed it.

use super::*;

#[test]
fn a_follower_goes_on_at_its_checkpoint_and_knows_its_lag() {
    let data = tempfile::tempdir().unwrap();
    let (journal, mut lane, _) = open(data.path());
    let mut follower = journal.follower("tracker").unwrap();
    for id in 0..10 {
        whole(&journal, &mut lane, id);
    }
    let lag = journal.lags().unwrap().remove(0);
    assert_eq!((lag.name.as_str(), lag.records), ("tracker", 10));
    assert!(lag.bytes > 1000 && lag.seconds > DAY.as_secs_f64(), "{lag:?}");

    let mut reader = journal.follow(&follower, 0);
    for id in 0..4 {
        assert_eq!(reader.next_transaction().unwrap().unwrap().id[0], id);
    }
    follower.advance(&reader);
    // Not committed: a crash begins at the start again.
    assert_eq!(journal.lags().unwrap()[0].records, 10);
    follower.commit().unwrap();
    assert_eq!(journal.lags().unwrap()[0].records, 6);
    drop((lane, journal));

    let (journal, _lane, _) = open(data.path());
    let mut follower = journal.follower("tracker").unwrap();
    let mut reader = journal.follow(&follower, 0);
    let mut read = Vec::new();
    while let Some(one) = reader.next_transaction().unwrap() {
        read.push(one.id[0]);
    }
    assert_eq!(read, [4, 5, 6, 7, 8, 9]);
    follower.advance(&reader);
    follower.commit().unwrap();
    let lag = journal.lags().unwrap().remove(0);
    assert_eq!((lag.records, lag.bytes, lag.seconds), (0, 0, 0.0));
    follower.reset().unwrap();
    assert_eq!(journal.lags().unwrap()[0].records, 10);
    journal.forget("tracker").unwrap();
    assert!(journal.lags().unwrap().is_empty());
}

#[test]
fn a_follower_reads_on_from_what_is_sealed_under_it() {
    let data = tempfile::tempdir().unwrap();
    let (journal, mut lane, _) = open(data.path());
    let mut reader = journal.reader(0, Position::START);
    let mut read = Vec::new();
    for id in 0..100 {
        whole(&journal, &mut lane, id);
        if id % 7 == 0 {
            journal.work().unwrap();
        }
        if id % 5 == 0 {
            read.extend(reader.next_transaction().unwrap().map(|one| one.id[0]));
        }
    }
    while let Some(one) = reader.next_transaction().unwrap() {
        assert!(!one.damaged);
        read.push(one.id[0]);
    }
    assert_eq!(read, (0..100).collect::<Vec<_>>());
}

#[test]
fn a_damaged_checkpoint_begins_again_and_a_name_is_checked() {
    let data = tempfile::tempdir().unwrap();
    let (journal, mut lane, _) = open(data.path());
    whole(&journal, &mut lane, 1);
    let mut follower = journal.follower("usage").unwrap();
    let mut reader = journal.follow(&follower, 0);
    reader.next_transaction().unwrap().unwrap();
    follower.advance(&reader);
    follower.commit().unwrap();
    assert!(journal.follower("../usage").is_err());
    drop((lane, journal));
    let path = data.path().join("journal/followers/usage");
    let mut bytes = fs::read(&path).unwrap();
    bytes[3] ^= 1;
    fs::write(&path, bytes).unwrap();
    let (journal, ..) = open(data.path());
    assert_eq!(journal.follower("usage").unwrap().position(0), Position::START);
}
