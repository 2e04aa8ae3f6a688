//! What is given up, and in which order, while no segment is ready.

use super::*;
use crate::counted;

const LARGER: Settings = Settings { segment_bytes: 1 << 16, ..SMALL };

fn with_body(id: u8) -> (Received<'static>, Completed<'static>) {
    (request(id), answer())
}

fn with_head(id: u8) -> (Received<'static>, Completed<'static>) {
    (request(id), answer().reduced())
}

fn facts(id: u8) -> (Received<'static>, Completed<'static>) {
    (Received { head: b"", ..request(id) }, answer().reduced())
}

/// Appends until there is no room; gives how many found some.
fn fill(lane: &mut Lane, make: impl Fn(u8) -> (Received<'static>, Completed<'static>)) -> usize {
    let (received, end) = make(1);
    (0..).take_while(|_| lane.append(&received, &end).is_ok()).count()
}

fn counts(journal: &Journal) -> usize {
    all(journal).iter().filter(|one| one.is_count()).count()
}

#[test]
fn bodies_go_first_then_headers_then_all_but_the_count() {
    let data = tempfile::tempdir().unwrap();
    let (journal, mut lane, _) = open_with(data.path(), LARGER, &Faults::default());
    assert!(fill(&mut lane, with_body) > 100);
    for make in [with_head, facts] {
        let found = fill(&mut lane, make);
        assert!(found > 5, "{found}");
        assert_eq!(fill(&mut lane, with_body), 0, "a smaller share is not for larger records");
    }
    let before = journal.statistics();
    let call = Received { counted: counted::RULE, ..Received::default() };
    for _ in 0..500 {
        lane.count_call(&call, &answer().reduced()).unwrap();
    }
    let statistics = journal.statistics();
    assert!((1..500).contains(&statistics.pending_counts), "{statistics:?}");
    assert!(statistics.records > before.records + 5, "some found room");
    // Those that wait are written once there is a segment.
    journal.work().unwrap();
    lane.tick();
    assert_eq!((counts(&journal), journal.statistics().pending_counts), (500, 0));
    assert!(fill(&mut lane, with_body) > 0);
}

#[test]
fn counts_that_wait_take_no_more_than_they_may() {
    let data = tempfile::tempdir().unwrap();
    let (journal, mut lane, _) = open_with(data.path(), LARGER, &Faults::default());
    fill(&mut lane, with_body);
    let name = "n".repeat(10_000);
    let call = Received { counted: counted::RULE, operation: &name, ..Received::default() };
    let taken = (0..2000).filter(|_| lane.count_call(&call, &answer().reduced()).is_ok()).count();
    assert!((700..1000).contains(&taken), "{taken}");
    assert!(lane.count_call(&call, &answer().reduced()).is_err());
    drop((lane, journal));
}

#[test]
fn an_end_without_room_keeps_its_figures_and_says_that_it_is_shortened() {
    let data = tempfile::tempdir().unwrap();
    let (journal, mut lane, _) = open_with(data.path(), LARGER, &Faults::default());
    let handles: Vec<_> = (0..3).map(|id| lane.start(&request(id)).unwrap()).collect();
    fill(&mut lane, with_body);
    while lane.part(handles[0], Side::Request, b"x").is_ok() {}
    for handle in handles {
        lane.complete(handle, &answer()).unwrap();
    }
    let read: Vec<_> = all(&journal).into_iter().filter(|one| one.id[0] != 1).collect();
    assert_eq!(read.len(), 2);
    for one in read {
        assert!(one.shortened && !one.damaged && one.response_body.is_empty());
        assert_eq!((one.status, one.response.length, one.response.stored), (201, 9, 0));
        assert_eq!(one.stages, [(1, 20), (2, 30)]);
    }
    assert_eq!(journal.statistics().shortened, 3);
}
