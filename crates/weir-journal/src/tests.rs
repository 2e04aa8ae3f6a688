mod attempts;
mod backlog;
mod count_only;
mod damage;
mod degrade;
mod durable;
mod followers;
mod handover;
mod model;
mod retention;
mod sealing;
mod snapshot;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::failpoint::Faults;
use crate::{
    Address, BodyMetadata, Completed, Discarded, Durability, Error, Journal, Lane, Outcome,
    Position, Received, RecoveryReport, Refused, Settings, Side, Transaction,
};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);
const FOREVER: Duration = Duration::from_secs(100_000 * 24 * 60 * 60);
const SMALL: Settings = Settings {
    lanes: 1,
    segment_bytes: 4096,
    disk_bytes: 1 << 20,
    durability: Durability::Process,
    seal_after: DAY,
    keep_completed: FOREVER,
    keep_failed: FOREVER,
};

/// A journal whose threads do nothing by themselves, and its only lane.
fn open(data: &Path) -> (Journal, Lane, RecoveryReport) {
    open_with(data, SMALL, &Faults::default())
}

fn open_with(data: &Path, settings: Settings, faults: &Faults) -> (Journal, Lane, RecoveryReport) {
    let (journal, mut lanes, report) =
        Journal::open_without_threads(data, settings, faults.clone()).unwrap();
    (journal, lanes.remove(0), report)
}

/// Appends as a worker would for whom segments are made ready in time.
fn whole(journal: &Journal, lane: &mut Lane, id: u8) -> Address {
    journal.state().supply().unwrap();
    lane.append(&request(id), &answer()).unwrap()
}

fn request(id: u8) -> Received<'static> {
    Received {
        id: [id; 16],
        method: "POST",
        target: "/a",
        head: b"a: b\r\n",
        ..Received::default()
    }
}

fn answer() -> Completed<'static> {
    Completed {
        status: 201,
        stages: &[(1, 20), (2, 30)],
        response: BodyMetadata { length: 9, stored: 3, truncated: true, ..BodyMetadata::default() },
        response_body: b"end",
        keys: &[("order", "17")],
        logs: &["one", "two"],
        ..Completed::default()
    }
}

fn all(journal: &Journal) -> Vec<Transaction> {
    let mut reader = journal.reader(0, Position::START);
    std::iter::from_fn(|| reader.next_transaction().unwrap()).collect()
}

fn segment(data: &Path, number: u32) -> PathBuf {
    data.join(format!("journal/lane-0000/{number:010}.segment"))
}

fn of_kind(data: &Path, kind: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(data.join("journal/lane-0000")).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    paths.filter(|path| path.extension() == Some(kind.as_ref())).collect()
}

#[test]
fn a_transaction_comes_back_whole_however_it_was_written() {
    let data = tempfile::tempdir().unwrap();
    let (journal, mut lane, _) = open(data.path());
    let handle = lane.start(&request(1)).unwrap();
    lane.part(handle, Side::Request, b"ab").unwrap();
    let address = lane.append(&request(2), &answer()).unwrap();
    lane.part(handle, Side::Request, b"cd").unwrap();
    lane.complete(handle, &answer()).unwrap();
    assert_eq!(lane.complete(handle, &answer()), Err(Refused::NotOpen));

    let read = all(&journal);
    assert_eq!(read.iter().map(|one| one.id[0]).collect::<Vec<_>>(), [2, 1]);
    assert_eq!(journal.get(address).unwrap().as_ref(), Some(&read[0]));
    assert_eq!(read[1].request_body, b"abcd");
    for one in &read {
        assert_eq!((one.target.as_str(), one.status, one.damaged), ("/a", 201, false));
        assert_eq!(one.request_head, b"a: b\r\n");
        assert_eq!(one.response, answer().response);
        assert_eq!(one.response_body, b"end");
        assert_eq!(one.stages, [(1, 20), (2, 30)]);
        assert_eq!(one.keys, [("order".to_owned(), "17".to_owned())]);
        assert_eq!(one.logs, ["one", "two"]);
    }
}

#[test]
fn what_does_not_count_is_not_read_back() {
    let data = tempfile::tempdir().unwrap();
    let (journal, mut lane, _) = open(data.path());
    for discarded in [Discarded::Nothing, Discarded::Response, Discarded::Payload] {
        let handle = lane.start(&request(1)).unwrap();
        lane.part(handle, Side::Request, b"asked").unwrap();
        lane.part(handle, Side::Response, b"told ").unwrap();
        let (head, response_body) = if discarded == Discarded::Payload {
            (&b""[..], &b""[..])
        } else {
            (answer().head, &b"end"[..])
        };
        let end = Completed { discarded, head, request_body: b"", response_body, ..answer() };
        lane.complete(handle, &end).unwrap();
    }
    let read = all(&journal);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let told: Vec<_> = read
        .iter()
        .map(|one| (text(&one.request_head), text(&one.request_body), text(&one.response_body)))
        .collect();
    let whole = |answer: &str| ("a: b\r\n".to_owned(), "asked".to_owned(), answer.to_owned());
    assert_eq!(told, [whole("told end"), whole("end"), <_>::default()]);
    assert_eq!(read.iter().map(|one| one.discarded).collect::<Vec<_>>(), [false, false, true]);
    assert!(read.iter().all(|one| !one.damaged && one.status == 201));
}

#[test]
fn what_was_open_is_interrupted_once_even_from_segments_ago() {
    let data = tempfile::tempdir().unwrap();
    let (journal, mut lane, _) = open(data.path());
    let handle = lane.start(&request(1)).unwrap();
    for _ in 0..60 {
        whole(&journal, &mut lane, 2);
    }
    lane.part(handle, Side::Request, b"xyz").unwrap();
    assert!(journal.statistics().segments > 2);
    drop((lane, journal));

    let (journal, lane, report) = open(data.path());
    assert_eq!((report.interrupted, report.segments, report.damage.len()), (1, 1, 0));
    drop((lane, journal));
    let (journal, _, report) = open(data.path());
    assert_eq!(report.interrupted, 0);
    let read = all(&journal);
    assert_eq!(read.len(), 61);
    let last = &read[60];
    assert_eq!((last.id[0], last.outcome), (1, Outcome::Interrupted));
    assert_eq!(last.request_body, b"xyz");
}

#[test]
fn a_flipped_byte_costs_one_transaction_and_is_reported() {
    let data = tempfile::tempdir().unwrap();
    let (journal, mut lane, _) = open(data.path());
    let mut ends = Vec::new();
    for id in 1..=3 {
        ends.push(lane.append(&request(id), &answer()).unwrap().position.offset() as usize);
    }
    drop((lane, journal));
    let whole = fs::read(segment(data.path(), 1)).unwrap();
    for at in ends[1]..ends[2] - 8 {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x55;
        fs::write(segment(data.path(), 1), &bytes).unwrap();
        let (journal, _, report) = open(data.path());
        assert_eq!(report.damage.len(), 1, "byte {at}");
        assert_eq!(report.damage[0].offset as usize, ends[1]);
        let ids: Vec<_> = all(&journal).iter().map(|one| one.id[0]).collect();
        assert_eq!(ids, [1, 3], "byte {at}");
    }
}

#[test]
fn a_segment_that_is_cut_short_under_the_lane_is_left() {
    let data = tempfile::tempdir().unwrap();
    let (journal, mut lane, _) = open(data.path());
    let handle = lane.start(&request(1)).unwrap();
    let cut = fs::OpenOptions::new().write(true).open(segment(data.path(), 1)).unwrap();
    cut.set_len(0).unwrap();
    let address = lane.append(&request(2), &answer()).unwrap();
    assert_eq!(address.position.segment(), 2);
    assert_eq!(journal.statistics().errors, 1);
    lane.complete(handle, &answer()).unwrap();
    let read = all(&journal);
    assert_eq!(read.iter().map(|one| one.id[0]).collect::<Vec<_>>(), [2, 0]);
    assert!(read[1].damaged && read[1].status == 201, "what was received of it is gone");
}

#[test]
fn a_torn_tail_is_dropped_at_every_length() {
    let data = tempfile::tempdir().unwrap();
    let (journal, mut lane, _) = open(data.path());
    lane.append(&request(1), &answer()).unwrap();
    let from = lane.append(&request(2), &answer()).unwrap().position.offset() as usize;
    drop((lane, journal));
    let whole = fs::read(segment(data.path(), 1)).unwrap();
    for cut in from..from + 100 {
        let mut bytes = whole.clone();
        bytes[cut..].fill(0);
        fs::write(segment(data.path(), 1), &bytes).unwrap();
        let (journal, ..) = open(data.path());
        assert_eq!(all(&journal).len(), 1, "cut at {cut}");
    }
}

#[test]
fn a_full_journal_completes_what_it_took_on_and_recovers() {
    let data = tempfile::tempdir().unwrap();
    let faults = Faults::default();
    let (journal, mut lane, _) = open_with(data.path(), SMALL, &faults);
    let mut handles = Vec::new();
    let refused = loop {
        match lane.start(&request(1)) {
            Ok(handle) => handles.push(handle),
            Err(refused) => break refused,
        }
    };
    assert!(matches!(refused, Refused::Full | Refused::Open), "{refused:?}");
    while lane.append(&request(2), &answer()).is_ok() {}
    faults.inject("segment.create", 1, std::io::ErrorKind::StorageFull);
    assert!(journal.work().is_err());
    for handle in &handles {
        lane.complete(*handle, &answer()).unwrap();
    }
    let read = all(&journal);
    assert_eq!(
        read.iter().filter(|one| one.id[0] == 1 && one.status == 201).count(),
        handles.len()
    );
    assert!(read.iter().any(|one| one.shortened));
    while lane.append(&request(3), &answer()).is_ok() {}
    journal.work().unwrap();
    lane.append(&request(3), &answer()).unwrap();
}

#[test]
fn a_disk_that_takes_no_change_for_a_while_costs_no_room() {
    let data = tempfile::tempdir().unwrap();
    let faults = Faults::default();
    let settings = Settings { disk_bytes: 8 * 4096, ..SMALL };
    let (journal, mut lane, _) = open_with(data.path(), settings, &faults);
    for _ in 0..60 {
        whole(&journal, &mut lane, 1);
        journal.work().unwrap();
    }
    assert!(!of_kind(data.path(), "spare").is_empty());
    for point in ["segment.reuse", "spare.remove"] {
        faults.inject(point, u32::MAX, std::io::ErrorKind::ReadOnlyFilesystem);
    }
    for _ in 0..60 {
        while lane.append(&request(2), &answer()).is_ok() {}
        let _ = journal.work();
    }
    assert!(lane.append(&request(2), &answer()).is_err(), "all spare files were tried");
    faults.clear();
    for _ in 0..60 {
        journal.work().unwrap();
        lane.append(&request(3), &answer()).unwrap();
    }
    // One that cannot be used, but removed, makes room for a new one.
    faults.inject("segment.reuse", u32::MAX, std::io::ErrorKind::Other);
    for _ in 0..60 {
        let _ = journal.work();
        lane.append(&request(3), &answer()).unwrap();
    }
    let paths = fs::read_dir(data.path().join("journal/lane-0000")).unwrap();
    let counted = paths.map(|entry| entry.unwrap().path());
    let counted = counted.filter(|path| path.extension() != Some("carry".as_ref()));
    let bytes: u64 = counted.map(|path| fs::metadata(path).unwrap().len()).sum();
    assert_eq!(journal.statistics().disk_bytes, bytes);
}

#[test]
fn a_second_opening_names_the_holder() {
    let data = tempfile::tempdir().unwrap();
    let _first = open(data.path());
    match Journal::open(data.path(), SMALL) {
        Err(Error::InUse { pid }) => assert_eq!(pid, std::process::id().to_string()),
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_fixture_of_version_1_still_opens() {
    let data = tempfile::tempdir().unwrap();
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/version-1.segment");
    fs::create_dir_all(data.path().join("journal/lane-0000")).unwrap();
    fs::copy(fixture, segment(data.path(), 1)).unwrap();
    let (journal, _, report) = open(data.path());
    assert_eq!((report.records, report.interrupted, report.damage.len()), (5, 1, 0));
    let read = all(&journal);
    assert_eq!(read.iter().map(|one| one.id[0]).collect::<Vec<_>>(), [2, 1]);
    assert_eq!((read[0].status, read[0].response_body.as_slice()), (201, b"end".as_slice()));
    assert_eq!(
        (read[1].outcome, read[1].request_body.as_slice()),
        (Outcome::Interrupted, b"abcd".as_slice())
    );
}
