//! What is damaged costs what was there, and nothing that is gone comes back.

use super::*;

/// Segments of four pages, so that one of them can be lost.
const PAGES: Settings = Settings { segment_bytes: 16_384, ..SMALL };
const PAGE: usize = 4096;

fn ids(journal: &Journal) -> Vec<u8> {
    all(journal).iter().map(|one| one.id[0]).collect()
}

/// Fills `segments` segments; gives the id of each transaction and where it is.
fn fill(journal: &Journal, lane: &mut Lane, segments: u64) -> Vec<(u8, Position)> {
    let until = journal.statistics().segments + segments;
    let mut written = Vec::new();
    while journal.statistics().segments < until {
        let id = written.len() as u8;
        written.push((id, whole(journal, lane, id).position));
    }
    written
}

#[test]
fn a_damaged_header_costs_nothing_but_itself() {
    let data = tempfile::tempdir().unwrap();
    let (journal, mut lane, _) = open(data.path());
    let written = fill(&journal, &mut lane, 4);
    let last = written.last().unwrap().1.segment();
    drop((lane, journal));
    for number in [2, last] {
        let good = fs::read(segment(data.path(), number)).unwrap();
        for at in 0..64 {
            let mut bytes = good.clone();
            bytes[at] ^= 0x55;
            fs::write(segment(data.path(), number), &bytes).unwrap();
            let (journal, _, report) = open(data.path());
            assert_eq!(all(&journal).len(), written.len(), "byte {at} of segment {number}");
            assert_eq!(report.damage.len(), usize::from(number == last), "{report:?}");
        }
        if number == last {
            fs::write(segment(data.path(), number), &good).unwrap();
        }
    }
    // It is sealed as it was read.
    let (journal, lane, _) = open(data.path());
    drop(lane);
    let before = all(&journal);
    journal.work().unwrap();
    assert_eq!(all(&journal), before);
    assert_eq!((journal.statistics().unsealed, journal.statistics().damaged_bytes), (0, 64));
}

#[test]
fn a_position_of_a_caller_within_a_record_is_no_damage() {
    let data = tempfile::tempdir().unwrap();
    let (journal, mut lane, _) = open(data.path());
    let first = whole(&journal, &mut lane, 1).position;
    let within = Position::new(first.segment(), first.offset() - 8);
    let mut reader = journal.reader(0, within).without_damage();
    assert_eq!(reader.next_transaction().unwrap().map(|found| found.id[0]), Some(1));
    assert_eq!(journal.statistics().damaged_bytes, 0);
    // Other readers know that one begins there.
    let _ = journal.reader(0, within).next_transaction().unwrap();
    assert_ne!(journal.statistics().damaged_bytes, 0);
}

#[test]
fn a_segment_whose_preparation_was_cut_is_no_damage() {
    let data = tempfile::tempdir().unwrap();
    let (journal, mut lane, _) = open(data.path());
    whole(&journal, &mut lane, 1);
    drop((lane, journal));
    let last = of_kind(data.path(), "segment").len() as u32;
    // Killed between the creation of the file and the allocation of its blocks, or among these.
    for lengths in [[0, 4096], [4096, 0], [4096, 2048]] {
        for (number, length) in (last + 1..).zip(lengths) {
            fs::write(segment(data.path(), number), vec![0; length]).unwrap();
        }
        let (journal, lane, report) = open(data.path());
        assert_eq!((report.damage.len(), ids(&journal)), (0, vec![1]), "{lengths:?}: {report:?}");
        drop((lane, journal));
    }
    // Other lengths below that of a header are damage.
    fs::write(segment(data.path(), last + 9), [0; 16]).unwrap();
    assert_ne!(open(data.path()).2.damage.len(), 0);
}

#[test]
fn a_hole_costs_what_was_in_it() {
    let data = tempfile::tempdir().unwrap();
    let (journal, mut lane, _) = open_with(data.path(), PAGES, &Faults::default());
    let mut written = fill(&journal, &mut lane, 3);
    for id in written.len() as u8..written.len() as u8 + 60 {
        written.push((id, whole(&journal, &mut lane, id).position));
    }
    let last = written.last().unwrap().1.segment();
    drop((lane, journal));
    for (number, page) in [(1, 0), (1, 2), (2, 1), (last, 0)] {
        let good = fs::read(segment(data.path(), number)).unwrap();
        let mut bytes = good.clone();
        bytes[page * PAGE..(page + 1) * PAGE].fill(0);
        fs::write(segment(data.path(), number), &bytes).unwrap();
        let hole = (page * PAGE) as u32..((page + 1) * PAGE) as u32;
        let hit = |position: Position| position.segment() == number && position.offset() < hole.end;
        let (journal, lane, _) = open_with(data.path(), PAGES, &Faults::default());
        let read = ids(&journal);
        // The one before it may reach into it.
        let lost: Vec<u8> =
            written.iter().map(|one| one.0).filter(|id| !read.contains(id)).collect();
        let far = |id: &u8| {
            let (_, position) = written[usize::from(*id)];
            hit(position) && position.offset() + 400 > hole.start
        };
        assert!(lost.iter().all(far), "{lost:?}");
        assert_eq!(read.len() + lost.len(), written.len());
        let damaged = journal.statistics().damaged_bytes;
        assert!((1..PAGE as u64 + 800).contains(&damaged), "{damaged} in {number}, {page}");
        drop((lane, journal));
        fs::write(segment(data.path(), number), &good).unwrap();
    }
}

#[test]
fn what_an_earlier_use_of_a_file_has_left_does_not_come_back() {
    let data = tempfile::tempdir().unwrap();
    let (journal, mut lane, _) = open_with(data.path(), PAGES, &Faults::default());
    let mut written = fill(&journal, &mut lane, 3).len();
    lane.close_segment();
    journal.work().unwrap();
    assert!(journal.statistics().sealed >= 3);
    // Some segments later one is written to a file that was used before, and lost at its start.
    let number = loop {
        let number = whole(&journal, &mut lane, 0).position.segment();
        written += 1;
        let bytes = fs::read(segment(data.path(), number)).unwrap();
        let left = bytes[PAGE..].windows(4).any(|four| four == b"WJR1");
        if left {
            break number;
        }
        lane.close_segment();
    };
    drop((lane, journal));
    let mut bytes = fs::read(segment(data.path(), number)).unwrap();
    bytes[..PAGE].fill(0);
    fs::write(segment(data.path(), number), &bytes).unwrap();
    let (journal, lane, _) = open_with(data.path(), PAGES, &Faults::default());
    assert_eq!(all(&journal).len(), written - 1);
    drop(lane);
    journal.work().unwrap();
    assert_eq!(all(&journal).len(), written - 1);
}

#[test]
fn a_damaged_sealed_file_is_counted_once_and_the_rest_is_read() {
    let data = tempfile::tempdir().unwrap();
    let (journal, mut lane, _) = open(data.path());
    let written = fill(&journal, &mut lane, 3);
    drop(lane);
    journal.work().unwrap();
    drop(journal);
    let path = segment(data.path(), 2).with_extension("meta");
    let mut bytes = fs::read(&path).unwrap();
    bytes[20] ^= 0x55;
    fs::write(&path, &bytes).unwrap();
    let (journal, ..) = open(data.path());
    let kept = written.iter().filter(|(_, position)| position.segment() != 2).count();
    let mut damaged = 0;
    for _ in 0..2 {
        assert_eq!(all(&journal).len(), kept);
        let now = journal.statistics().damaged_bytes;
        assert!(now > 0 && (damaged == 0 || damaged == now), "{damaged}, {now}");
        damaged = now;
    }
}

#[test]
fn a_segment_of_a_later_version_is_left_alone() {
    let data = tempfile::tempdir().unwrap();
    let (journal, mut lane, _) = open(data.path());
    whole(&journal, &mut lane, 1);
    drop((lane, journal));
    let mut bytes = fs::read(segment(data.path(), 1)).unwrap();
    bytes[8] = 2;
    let sum = crc32fast::hash(&bytes[..60]);
    bytes[60..64].copy_from_slice(&sum.to_le_bytes());
    fs::write(segment(data.path(), 1), &bytes).unwrap();
    let opened = Journal::open_without_threads(data.path(), SMALL, Faults::default());
    let said = opened.map(|_| ()).unwrap_err().to_string();
    assert!(said.contains("segment of version 2"), "{said}");
    assert_eq!(fs::read(segment(data.path(), 1)).unwrap(), bytes);
}

#[test]
fn what_the_disk_does_not_give_is_waited_for_and_then_passed_over() {
    let data = tempfile::tempdir().unwrap();
    let faults = Faults::default();
    let (journal, mut lane, _) = open_with(data.path(), PAGES, &faults);
    let written = fill(&journal, &mut lane, 3);
    let failing = || faults.inject("read", u32::MAX, std::io::ErrorKind::Other);

    failing();
    let mut reader = journal.reader(0, Position::START);
    assert!(reader.next_transaction().is_err() && reader.next_transaction().is_err());
    drop(lane);
    assert!(journal.state().seal_all().is_err());
    faults.clear();
    assert!(reader.next_transaction().unwrap().is_some(), "it goes on where it stopped");
    assert_eq!(all(&journal).len(), written.len());

    // One page of the second segment, for good: the file is opened, read, and read by pages.
    let damage = &journal.state().lanes[0].catalog.files.damage;
    let mut reader = journal.reader(0, Position::new(2, 0));
    let one_page = || {
        let header_and_window = 2;
        faults.inject_after("read", header_and_window - 1, std::io::ErrorKind::Other);
    };
    one_page();
    assert!(reader.next_transaction().is_ok(), "what fails once is tried again by pages");
    failing();
    let mut reader = journal.reader(0, Position::new(2, 0));
    assert!(reader.next_transaction().is_err());
    damage.age_failures();
    let kept = |journal: &Journal| {
        let mut reader = journal.reader(0, Position::new(2, 0));
        std::iter::from_fn(|| reader.next_transaction().unwrap()).count()
    };
    // Its header's page was given up, the others were not asked for yet.
    assert!(reader.next_transaction().is_err() || kept(&journal) == 0);
    faults.clear();
    let behind = written.iter().filter(|(_, position)| position.segment() >= 2).count();
    assert_eq!(kept(&journal), behind, "what can be read again is not lost");
    journal.work().unwrap();
    assert_eq!(all(&journal).len(), written.len());
}

#[test]
fn a_disk_that_cannot_be_read_does_not_keep_a_journal_from_being_opened() {
    let data = tempfile::tempdir().unwrap();
    let faults = Faults::default();
    let (journal, mut lane, _) = open_with(data.path(), PAGES, &faults);
    let written = fill(&journal, &mut lane, 3);
    drop((lane, journal));
    // Enough for the header of the last segment, its window and each of its pages.
    faults.inject("read", 30, std::io::ErrorKind::Other);
    let (journal, _, report) = open_with(data.path(), PAGES, &faults);
    assert!(!report.damage.is_empty() && journal.statistics().damaged_bytes > 0, "{report:?}");
    faults.clear();
    assert_eq!(all(&journal).len(), written.len(), "and costs nothing that can be read later");
}

/// Some sealed segments, maybe some that were begun since, and prepared ones made of files that
/// were used before. Gives how many transactions are in them, one of them open if some are begun.
fn used_again(data: &Path, begun: bool) -> usize {
    let (journal, mut lane, _) = open(data);
    let long = lane.start(&request(200)).unwrap();
    let mut written = fill(&journal, &mut lane, 6).len();
    lane.close_segment();
    journal.work().unwrap();
    written += fill(&journal, &mut lane, 3).len();
    if !begun {
        lane.complete(long, &answer()).unwrap();
        lane.close_segment();
        journal.work().unwrap();
        journal.state().supply().unwrap();
    }
    assert!(journal.statistics().sealed >= 6);
    drop((lane, journal));
    let prepared = |path: &PathBuf| {
        let bytes = fs::read(path).unwrap();
        bytes[..64] == [0; 64] && bytes.windows(4).any(|four| four == b"WJR1")
    };
    assert!(of_kind(data, "segment").iter().any(prepared));
    written + 1
}

fn next_sequence(journal: &Journal) -> u64 {
    journal.state().lanes[0].shared.next_sequence.load(std::sync::atomic::Ordering::Relaxed)
}

#[test]
fn a_lost_carry_brings_nothing_back_and_leaves_nothing_open() {
    let spoil: [fn(&Path); 2] = [
        |path| {
            let mut bytes = fs::read(path).unwrap();
            bytes[17] ^= 0x55;
            fs::write(path, bytes).unwrap();
        },
        |path| fs::remove_file(path).unwrap(),
    ];
    for (spoil, begun) in spoil.into_iter().flat_map(|spoil| [(spoil, true), (spoil, false)]) {
        let data = tempfile::tempdir().unwrap();
        let mut written = used_again(data.path(), begun);
        let carry = of_kind(data.path(), "carry");
        assert_eq!(carry.len(), 1);
        spoil(&carry[0]);
        let (journal, mut lane, report) = open(data.path());
        assert_eq!((report.interrupted, report.left_open), (u64::from(begun), 0));
        assert!(next_sequence(&journal) > written as u64, "{}", next_sequence(&journal));
        assert!(journal.statistics().damaged_bytes > 0);
        let read = all(&journal);
        assert_eq!(read.len(), written);
        // What was received of it was in the carry.
        assert!(read[..written - 1].iter().all(|one| !one.damaged));
        assert_eq!(read[written - 1].damaged, begun);
        // It goes on, and is the same when it is opened once more.
        written += fill(&journal, &mut lane, 4).len();
        lane.close_segment();
        journal.work().unwrap();
        assert_eq!(all(&journal).len(), written);
        drop((lane, journal));
        let (journal, _, report) = open(data.path());
        assert_eq!((report.interrupted, report.damage.len()), (0, 0));
        assert_eq!((all(&journal).len(), journal.statistics().damaged_bytes), (written, 0));
    }
}

#[test]
fn a_carry_that_the_disk_gives_later_has_lost_nothing() {
    let data = tempfile::tempdir().unwrap();
    let written = used_again(data.path(), true);
    let faults = Faults::default();
    let whole_and_by_pages = 2;
    faults.inject("read", whole_and_by_pages, std::io::ErrorKind::Other);
    let (journal, lane, report) = open_with(data.path(), SMALL, &faults);
    assert_eq!((report.interrupted, all(&journal).len()), (1, written));
    drop(lane);
    faults.inject("read", whole_and_by_pages, std::io::ErrorKind::Other);
    assert!(journal.work().is_err(), "sealing waits for it");
    journal.work().unwrap();
    let read = all(&journal);
    let last = read.last().unwrap();
    assert_eq!((read.len(), last.id[0], last.damaged), (written, 200, false));
}

#[test]
fn a_checkpoint_that_cannot_be_read_begins_again() {
    let data = tempfile::tempdir().unwrap();
    let (journal, mut lane, _) = open(data.path());
    fill(&journal, &mut lane, 2);
    let mut follower = journal.follower("tracker").unwrap();
    let mut reader = journal.follow(&follower, 0);
    while reader.next_transaction().unwrap().is_some() {}
    follower.advance(&reader);
    follower.commit().unwrap();
    drop((reader, lane, journal, follower));
    let faults = Faults::default();
    faults.inject("read", 1, std::io::ErrorKind::Other);
    let (journal, ..) = open_with(data.path(), SMALL, &faults);
    assert_eq!(journal.follower("tracker").unwrap().position(0), Position::START);
}

#[test]
fn a_page_that_was_read_in_between_has_not_failed_for_a_minute() {
    let data = tempfile::tempdir().unwrap();
    let faults = Faults::default();
    let (journal, mut lane, _) = open_with(data.path(), PAGES, &faults);
    let written = fill(&journal, &mut lane, 3).len();
    drop(lane);
    let damage = &journal.state().lanes[0].catalog.files.damage;
    let header_and_its_page = 2;
    let outage = || faults.inject("read", header_and_its_page, std::io::ErrorKind::Other);
    outage();
    assert!(journal.state().seal_all().is_err());
    assert_eq!(all(&journal).len(), written, "the disk is back");
    damage.age_failures();
    outage();
    assert!(journal.state().seal_all().is_err(), "it has failed for a moment only");
    journal.work().unwrap();
    assert_eq!((all(&journal).len(), journal.statistics().damaged_bytes), (written, 0));
}
