//! What is old goes, file by file, and never from under a follower.

use std::time::{SystemTime, UNIX_EPOCH};

use super::*;

fn now_us() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_micros() as u64
}

/// One completed and one failed transaction of `received_us` in a segment of their own, sealed.
fn seal_pair(journal: &Journal, lane: &mut Lane, received_us: u64) -> [Address; 2] {
    journal.state().supply().unwrap();
    let received = Received { received_us, ..request(1) };
    let failed = Completed { outcome: Outcome::Failed, ..answer() };
    let pair =
        [lane.append(&received, &answer()).unwrap(), lane.append(&received, &failed).unwrap()];
    lane.close_segment();
    journal.state().seal_all().unwrap();
    pair
}

#[test]
fn each_part_goes_on_its_own_clock_and_none_before_its_followers() {
    let data = tempfile::tempdir().unwrap();
    let settings = Settings { keep_completed: DAY, keep_failed: 10 * DAY, ..SMALL };
    let (journal, mut lane, _) = open_with(data.path(), settings, &Faults::default());
    let day = DAY.as_micros() as u64;
    let mut follower = journal.follower("tracker").unwrap();
    let pairs = [20, 5, 0].map(|days| seal_pair(&journal, &mut lane, now_us() - days * day));
    assert_eq!(journal.statistics().sealed, 0, "followers read segments before they are sealed");
    let mut reader = journal.follow(&follower, 0);
    while reader.next_transaction().unwrap().is_some() {}
    follower.advance(&reader);
    let mut late = journal.follower("late").unwrap();
    follower.commit().unwrap();
    journal.work().unwrap();
    assert_eq!(journal.statistics().dropped, 0);
    late.advance(&reader);
    late.commit().unwrap();
    journal.work().unwrap();

    assert_eq!(journal.statistics().sealed, 3);
    assert_eq!(journal.statistics().dropped, 4);
    let [oldest, older, new] = pairs.map(|pair| pair.map(|one| journal.get(one).unwrap()));
    assert_eq!(oldest, [None, None]);
    let [completed, failed] = older.map(Option::unwrap);
    assert!(completed.expired && completed.response_body.is_empty() && completed.status == 201);
    assert!(!failed.expired && failed.response_body == b"end");
    assert!(new.into_iter().flatten().all(|one| !one.expired && one.response_body == b"end"));
    drop((lane, journal));
    let (journal, ..) = open_with(data.path(), settings, &Faults::default());
    assert_eq!(all(&journal).len(), 4);
}

#[test]
fn a_clock_that_jumps_back_makes_nothing_old() {
    let data = tempfile::tempdir().unwrap();
    let settings = Settings { keep_completed: DAY, keep_failed: DAY, ..SMALL };
    let (journal, mut lane, _) = open_with(data.path(), settings, &Faults::default());
    let pairs = [now_us(), 1].map(|received_us| seal_pair(&journal, &mut lane, received_us));
    journal.work().unwrap();
    assert_eq!(journal.statistics().dropped, 0);
    assert!(journal.get(pairs[1][0]).unwrap().is_some_and(|one| !one.expired));
}

#[test]
fn a_clock_that_was_ahead_keeps_nothing_for_longer() {
    let data = tempfile::tempdir().unwrap();
    let settings = Settings { keep_completed: DAY, keep_failed: DAY, ..SMALL };
    let (journal, mut lane, _) = open_with(data.path(), settings, &Faults::default());
    let day = DAY.as_micros() as u64;
    let times = [now_us() - 3 * day, now_us() + 30 * day, now_us() - 2 * day, now_us()];
    for received_us in times {
        seal_pair(&journal, &mut lane, received_us);
    }
    journal.work().unwrap();
    let left: Vec<_> = all(&journal).iter().map(|one| one.received_us).collect();
    // The clock that seals is right, so the third does not count as older than the first of them.
    assert_eq!(left, [times[1], times[1], times[2], times[2], times[3], times[3]]);
    let settings =
        Settings { keep_completed: Duration::ZERO, keep_failed: Duration::ZERO, ..SMALL };
    drop((lane, journal));
    let (journal, lane, _) = open_with(data.path(), settings, &Faults::default());
    drop(lane);
    journal.work().unwrap();
    assert!(all(&journal).is_empty());
}

#[test]
fn the_budget_drops_the_oldest_payloads_first_and_appending_goes_on() {
    let data = tempfile::tempdir().unwrap();
    let settings = Settings { disk_bytes: 10 * 4096, ..SMALL };
    let (journal, mut lane, _) = open_with(data.path(), settings, &Faults::default());
    for _ in 0..60 {
        seal_pair(&journal, &mut lane, now_us());
        journal.work().unwrap();
        assert!(journal.statistics().disk_bytes <= settings.disk_bytes);
    }
    assert!(journal.statistics().dropped > 0);
    let read = all(&journal);
    assert!(read[0].expired && !read.last().unwrap().expired);
    assert_eq!(journal.statistics().refused, 0);
}

#[test]
fn a_follower_that_lags_fills_the_budget_until_it_goes_on() {
    let data = tempfile::tempdir().unwrap();
    let settings = Settings { disk_bytes: 12 * 4096, ..SMALL };
    let (journal, mut lane, _) = open_with(data.path(), settings, &Faults::default());
    let mut follower = journal.follower("tracker").unwrap();
    let mut noise = 1u64;
    let mut body = || -> Vec<u8> {
        let next = |_| {
            noise = noise.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (noise >> 56) as u8
        };
        (0..1500).map(next).collect()
    };
    let mut written = 0;
    while lane.append(&request(1), &Completed { response_body: &body(), ..answer() }).is_ok() {
        written += 1;
        journal.work().unwrap();
        assert!(written < 1000, "the budget holds");
    }
    let mut reader = journal.follow(&follower, 0);
    let mut read = 0;
    while reader.next_transaction().unwrap().is_some() {
        read += 1;
    }
    assert_eq!(read, written, "nothing was dropped before it was read");
    follower.advance(&reader);
    follower.commit().unwrap();
    journal.work().unwrap();
    lane.append(&request(1), &answer()).unwrap();
}
