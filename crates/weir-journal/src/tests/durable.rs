//! Durability `disk`: who waits is woken once its lane was synced, or told that it was not.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Poll, Wake, Waker};

use super::*;

#[derive(Default)]
struct Woken(AtomicU32);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

const DISK: Settings = Settings { durability: Durability::Disk, ..SMALL };

#[test]
fn a_wait_ends_with_the_sync_of_its_lane() {
    let data = tempfile::tempdir().unwrap();
    let (journal, mut lane, _) = open_with(data.path(), DISK, &Faults::default());
    let woken = Arc::new(Woken::default());
    let waker = Waker::from(Arc::clone(&woken));
    whole(&journal, &mut lane, 1);
    let first = lane.position();
    assert!(!journal.state().sync(), "nobody waits");
    assert_eq!(lane.poll_durable(first, &waker), Poll::Pending);
    whole(&journal, &mut lane, 2);
    assert_eq!(lane.poll_durable(lane.position(), &waker), Poll::Pending);
    assert!(journal.state().sync());
    assert_eq!(woken.0.load(Ordering::Relaxed), 1, "one for the group");
    assert_eq!(lane.poll_durable(first, &waker), Poll::Ready(Ok(())));
    assert_eq!(lane.poll_durable(lane.position(), &waker), Poll::Ready(Ok(())));
}

#[test]
fn a_disk_that_fails_is_told_and_its_segment_left() {
    let data = tempfile::tempdir().unwrap();
    let faults = Faults::default();
    let (journal, mut lane, _) = open_with(data.path(), DISK, &faults);
    let waker = Waker::from(Arc::new(Woken::default()));
    let lost = whole(&journal, &mut lane, 1);
    let position = lane.position();
    assert_eq!(lane.poll_durable(position, &waker), Poll::Pending);
    faults.inject("sync", 1, std::io::ErrorKind::Other);
    journal.state().sync();
    assert_eq!(lane.poll_durable(position, &waker), Poll::Ready(Err(crate::NotDurable)));
    let next = whole(&journal, &mut lane, 2);
    assert!(next.position.segment() > lost.position.segment());
    assert_eq!(lane.poll_durable(lane.position(), &waker), Poll::Pending);
    journal.state().sync();
    assert_eq!(lane.poll_durable(lane.position(), &waker), Poll::Ready(Ok(())));
    assert_eq!(journal.statistics().errors, 1);
}

#[test]
fn the_thread_wakes_who_waits() {
    let data = tempfile::tempdir().unwrap();
    let (journal, mut lanes, _) = Journal::open(data.path(), DISK).unwrap();
    let woken = Arc::new(Woken::default());
    let waker = Waker::from(Arc::clone(&woken));
    lanes[0].append(&request(1), &answer()).unwrap();
    let position = lanes[0].position();
    while lanes[0].poll_durable(position, &waker).is_pending() {
        std::thread::yield_now();
    }
    drop(lanes);
    drop(journal);
}

#[test]
fn with_durability_process_nobody_waits() {
    let data = tempfile::tempdir().unwrap();
    let (journal, mut lane, _) = open(data.path());
    whole(&journal, &mut lane, 1);
    let polled = lane.poll_durable(lane.position(), Waker::noop());
    assert_eq!(polled, Poll::Ready(Ok(())));
}
