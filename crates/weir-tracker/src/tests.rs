//! The index on a real journal.

mod damage;
mod hostile;
mod keys;
mod model;
mod phrases;
mod sifting;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use weir_journal::{Completed, Journal, Lane, Outcome, Position, Received, Refused, Transaction};
use weir_model::stage;

use crate::index::indexer::MAX_OPEN_TIME;
use crate::{Cursor, Depth, Error, Hits, Index, Indexer, Page, Query, Settings, stored_depth};

/// 2026-11-20T12:00:00Z
pub(super) const NOON: u64 = 1_795_176_000_000_000;
pub(super) fn settings() -> Settings {
    Settings { depth: Depth::Payload, ..Settings::default() }
}

const KEEP: Duration = Duration::from_secs(1000 * 365 * 86_400);

/// A data folder with a journal and its index.
pub(super) struct Bench {
    pub(super) data: tempfile::TempDir,
    pub(super) journal: Arc<Journal>,
    pub(super) lanes: Vec<Lane>,
    pub(super) index: Index,
    pub(super) indexer: Indexer,
}

impl Bench {
    pub(super) fn new(lanes: u16) -> Self {
        Self::open(tempfile::tempdir().unwrap(), lanes, settings())
    }

    pub(super) fn open(data: tempfile::TempDir, lanes: u16, settings: Settings) -> Self {
        Self::with_segments(data, lanes, settings, 1 << 20)
    }

    /// With a journal of segments that long.
    pub(super) fn with_segments(
        data: tempfile::TempDir,
        lanes: u16,
        settings: Settings,
        segment_bytes: u32,
    ) -> Self {
        let journal = weir_journal::Settings {
            lanes,
            segment_bytes,
            // The transactions of tests grow old.
            keep_completed: KEEP,
            keep_failed: KEEP,
            ..weir_journal::Settings::default()
        };
        let (journal, lanes, _) = Journal::open(data.path(), journal).unwrap();
        let journal = Arc::new(journal);
        let (index, indexer) = Index::open(data.path(), Arc::clone(&journal), settings).unwrap();
        Self { data, journal, lanes, index, indexer }
    }

    /// Ends without a word, as a process that is killed, and begins again.
    pub(super) fn reopen(self, settings: Settings) -> Self {
        let Self { data, journal, lanes, index, indexer } = self;
        let count = lanes.len() as u16;
        drop((lanes, index, indexer, journal));
        Self::open(data, count, settings)
    }

    /// Reopens the index alone.
    pub(super) fn reopen_index(&mut self) {
        let journal = Arc::clone(&self.journal);
        let (index, indexer) = Index::open(self.data.path(), journal, settings()).unwrap();
        (self.index, self.indexer) = (index, indexer);
    }

    pub(super) fn write(&mut self, number: u64) {
        let lane = number as usize % self.lanes.len();
        write(&mut self.lanes[lane], number);
    }

    pub(super) fn search(&self, query: &str, page: &Page) -> Hits {
        self.index.search(&Query::parse(query, NOON).unwrap(), page).unwrap()
    }

    /// Numbers of all hits, newest first, in pages of `limit`.
    pub(super) fn numbers(&self, query: &str, limit: usize) -> Vec<u64> {
        let mut page = Page { limit, budget: Duration::from_secs(60), ..Page::default() };
        let mut all = Vec::new();
        loop {
            let found = self.search(query, &page);
            assert!(!found.cut && !found.incomplete, "{query}");
            all.extend(found.hits.iter().map(|hit| number(hit.row.id)));
            if found.next.is_none() {
                return all;
            }
            page.after = found.next;
        }
    }

    pub(super) fn parts(&self) -> Vec<PathBuf> {
        let days = folders(&self.data.path().join("index"));
        days.iter().filter(|day| !day.ends_with("building")).flat_map(|day| folders(day)).collect()
    }
}

fn folders(path: &Path) -> Vec<PathBuf> {
    let mut all: Vec<_> =
        std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()).collect();
    all.sort();
    all
}

pub(super) fn id(number: u64) -> u128 {
    u128::from((NOON + number) / 1000) << 80 | 0x7 << 76 | u128::from(number)
}

pub(super) fn number(id: u128) -> u64 {
    id as u64 & 0xFFFF_FFFF
}

/// A transaction of which every part follows from its number.
pub(super) fn write(lane: &mut Lane, number: u64) {
    let api = ["orders", "invoices", "users"][number as usize % 3];
    let body = format!(
        "{{\"order\":\"A-{number}\",\"note\":\"common unique{number} bulk{}\"}}",
        number / 10
    );
    let received = Received {
        id: id(number).to_be_bytes(),
        received_us: NOON + number,
        api,
        method: if number.is_multiple_of(2) { "GET" } else { "POST" },
        consumer: if number.is_multiple_of(5) { "acme" } else { "" },
        target: &format!("/things/{number}?q=caf%C3%A9"),
        head: b"content-type: application/json\r\nx-foo: bar baz\r\n",
        ..Received::default()
    };
    let failed = number % 100 == 99;
    let completed = Completed {
        status: if failed { 503 } else { 200 },
        outcome: if failed { Outcome::Failed } else { Outcome::Completed },
        head: b"content-type: text/plain\r\n",
        stages: &[(stage::TOTAL, number as u32 % 1000 * 1000)],
        request_body: body.as_bytes(),
        response_body: b"thanks for all",
        keys: &[("order", &format!("A-{number}"))],
        ..Completed::default()
    };
    append(lane, &received, &completed);
}

/// Appends, and waits for a segment if none is ready.
pub(super) fn append(lane: &mut Lane, received: &Received<'_>, completed: &Completed<'_>) {
    until_there_is_room(|| lane.append(received, completed));
}

/// Writes to a lane, and waits for a segment if none is ready.
pub(super) fn until_there_is_room<T>(mut write: impl FnMut() -> Result<T, Refused>) -> T {
    loop {
        match write() {
            Ok(written) => return written,
            Err(why) => assert_eq!(why, Refused::Full),
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn transactions_are_found_by_all_that_is_in_them_before_and_after_they_are_written() {
    let mut bench = Bench::new(2);
    (0..1000).for_each(|number| bench.write(number));
    let check = |bench: &Bench| {
        let all: Vec<u64> = (0..1000).rev().collect();
        assert_eq!(bench.numbers("", 77), all);
        assert_eq!(bench.numbers("common", 1000), all);
        assert_eq!(bench.numbers("unique777", 50), [777]);
        assert_eq!(bench.numbers("key.order:A-41", 50), [41]);
        assert_eq!(bench.numbers("key.order:a-41", 50), [0; 0]);
        assert_eq!(bench.numbers("body:\"a 41\"", 50), [41]);
        assert_eq!(bench.numbers("target:café target:500", 50), [500]);
        assert_eq!(bench.numbers("header.x-foo:bar -header.x-foo:\"baz bar\" 12", 5), [12]);
        assert_eq!(bench.numbers("state:failed", 3).len(), 10);
        assert_eq!(bench.numbers("status:5xx api:orders", 50), [999, 699, 399, 99]);
        assert_eq!(bench.numbers("took:>=998ms", 50), [999, 998]);
        assert_eq!(bench.numbers("bulk7 -method:GET", 50), [79, 77, 75, 73, 71]);
        assert_eq!(bench.numbers("consumer:* bulk7", 50), [75, 70]);
        assert_eq!(bench.numbers("unique1 OR (unique2 api:users)", 50), [2, 1]);
        assert_eq!(bench.numbers("absent", 50), [0; 0]);
        let exact = format!("id:{:032x}", id(321));
        assert_eq!(bench.numbers(&exact, 50), [321]);
        let found = bench.index.show(id(321)).unwrap().unwrap();
        assert!(found.request_body.ends_with(b"unique321 bulk32\"}"));
        assert!(bench.index.show(id(5000)).unwrap().is_none());
    };
    check(&bench);
    bench.indexer.catch_up().unwrap();
    check(&bench);
    bench.indexer.seal().unwrap();
    assert_eq!(bench.parts().len(), 1);
    check(&bench);
    let mut bench = bench.reopen(settings());
    assert_eq!(bench.indexer.step(100).unwrap(), 0, "nothing is read twice");
    check(&bench);
    assert_eq!(bench.index.statistics(NOON).transactions, 1000);
}

#[test]
fn hits_show_where_the_words_stand() {
    let mut bench = Bench::new(1);
    (0..10).for_each(|number| bench.write(number));
    bench.indexer.catch_up().unwrap();
    let found = bench.search("unique3 header.x-foo:baz", &Page::default());
    let shown: Vec<_> = found.hits[0]
        .highlights
        .iter()
        .map(|one| (one.location.as_str(), &one.text[one.marks[0][0]..one.marks[0][1]]))
        .collect();
    assert_eq!(shown, [("request.body", "unique3"), ("request.header", "baz")]);
}

#[test]
fn pages_stay_the_same_while_records_arrive() {
    let mut bench = Bench::new(2);
    (0..500).for_each(|number| bench.write(number));
    let mut page = Page { limit: 7, ..Page::default() };
    let (mut all, mut next) = (Vec::new(), 500);
    loop {
        let found = bench.search("common", &page);
        all.extend(found.hits.iter().map(|hit| number(hit.row.id)));
        (next..next + 20).for_each(|number| bench.write(number));
        next += 20;
        match next % 3 {
            0 => bench.indexer.seal().unwrap(),
            _ => drop(bench.indexer.step(100).unwrap()),
        }
        let Some(cursor) = found.next else { break };
        assert_eq!(cursor.to_string().parse::<Cursor>(), Ok(cursor));
        page.after = Some(cursor);
    }
    assert_eq!(all, (0..500).rev().collect::<Vec<_>>());
    assert!("xyz".parse::<Cursor>().is_err());
}

#[test]
fn a_search_that_takes_too_long_says_so_and_can_go_on() {
    let mut bench = Bench::new(1);
    (0..300).for_each(|number| bench.write(number));
    bench.indexer.catch_up().unwrap();
    let mut page = Page { limit: 1000, budget: Duration::ZERO, ..Page::default() };
    let (mut all, mut cuts) = (Vec::new(), 0);
    loop {
        let found = bench.search("-absent", &page);
        all.extend(found.hits.iter().map(|hit| number(hit.row.id)));
        cuts += usize::from(found.cut);
        let Some(next) = found.next else { break };
        page.after = Some(next);
    }
    assert_eq!(all, (0..300).rev().collect::<Vec<_>>());
    assert!(cuts > 10);
}

#[test]
fn hits_are_counted_by_value_and_over_time() {
    let mut bench = Bench::new(2);
    (0..300).for_each(|number| bench.write(number));
    bench.indexer.catch_up().unwrap();
    bench.indexer.seal().unwrap();
    (300..600).for_each(|number| bench.write(number));
    for _ in 0..2 {
        for (query, matched, first) in
            [("", 600, "2xx"), ("common", 600, "2xx"), ("status:503", 6, "5xx")]
        {
            let query = Query::parse(query, NOON).unwrap();
            let counts = bench.index.count(&query, Duration::from_secs(60), true).unwrap();
            assert_eq!((counts.matched, counts.cut), (matched, false));
            assert_eq!(counts.histogram.iter().map(|bucket| bucket.count).sum::<u64>(), matched);
            let facet = |field: &str| {
                let found = counts.facets.iter().find(|facet| facet.field == field);
                found.unwrap_or_else(|| panic!("{field}"))
            };
            assert_eq!(facet("status").values[0].value, first);
            for field in ["api", "method", "state", "status"] {
                let values = facet(field).values.iter().map(|one| one.count);
                assert_eq!(values.sum::<u64>(), matched, "{field}");
            }
            let orders = facet("key.order");
            assert_eq!((orders.values.len() as u64, orders.more), (matched.min(20), matched > 20));
            let without = bench.index.count(&query, Duration::from_secs(60), false).unwrap();
            assert!(without.facets.iter().all(|facet| !facet.field.starts_with("key.")));
        }
        bench.indexer.catch_up().unwrap();
    }
}

#[test]
fn keys_alone_are_indexed_when_told_so_and_words_are_still_found() {
    let settings = Settings { depth: Depth::Keys, ..settings() };
    let mut bench = Bench::open(tempfile::tempdir().unwrap(), 1, settings);
    (0..200).for_each(|number| bench.write(number));
    bench.indexer.catch_up().unwrap();
    bench.indexer.seal().unwrap();
    assert_eq!(bench.numbers("key.order:A-41", 50), [41]);
    assert_eq!(bench.numbers("unique77", 50), [77]);
    assert_eq!(bench.numbers("header.x-foo:* unique78", 50), [78]);
    assert_eq!(stored_depth(bench.data.path()), Some(Depth::Keys));
    assert_eq!(stored_depth(&bench.data.path().join("other")), None);
}

#[test]
fn a_piece_is_written_after_a_while_even_if_little_arrives() {
    let mut bench = Bench::new(1);
    bench.write(0);
    bench.indexer.step(100).unwrap();
    assert_eq!(bench.parts().len(), 0);
    let Some(long_ago) = Instant::now().checked_sub(MAX_OPEN_TIME + Duration::from_secs(1)) else {
        // The machine has not been up for that long.
        return;
    };
    bench.indexer.opened = long_ago;
    bench.indexer.step(100).unwrap();
    assert_eq!(bench.parts().len(), 1);
    assert!(bench.journal.follower("tracker").unwrap().position(0) > Position::START);
}

/// Lets the other thread end, also after a panic.
struct Ended<'a>(&'a AtomicBool);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn a_search_sees_all_that_was_written_before_it_whatever_the_indexer_does() {
    let mut bench = Bench::new(2);
    let data = bench.data.path().join("other");
    let journal = Arc::clone(&bench.journal);
    let (_, other) = Index::open(&data, journal, settings()).unwrap();
    let mut indexer = std::mem::replace(&mut bench.indexer, other);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let stop = &stop;
        scope.spawn(move || {
            for round in 0.. {
                indexer.step(100).unwrap();
                if round % 20 == 19 {
                    indexer.seal().unwrap();
                }
                if stop.load(Ordering::Relaxed) {
                    return;
                }
            }
        });
        let _ended = Ended(stop);
        for round in 1..30 {
            (round * 40 - 40..round * 40).for_each(|number| bench.write(number));
            let all: Vec<u64> = (0..round * 40).rev().collect();
            assert_eq!(bench.numbers("common", 500), all);
            assert_eq!(bench.numbers("api:*", 500), all);
        }
    });
}

#[test]
fn idle_time_is_left_when_it_is_not_enough_and_after_each_step() {
    let settings = Settings { in_idle_time: true, ..settings() };
    let mut bench = Bench::open(tempfile::tempdir().unwrap(), 2, settings);
    (0..300).for_each(|number| bench.write(number));
    bench.indexer.catch_up().unwrap();
    assert!(!bench.indexer.was_searched_recently());
    assert_eq!(bench.numbers("common", 1000).len(), 300);
    assert!(bench.indexer.was_searched_recently());
    // The 41st field of proc(5)'s stat is the policy, 39 behind the name in parentheses.
    let stat = std::fs::read_to_string("/proc/thread-self/stat").unwrap();
    let mut fields = stat.rsplit(')').next().unwrap().split_whitespace();
    assert_eq!(fields.nth(38), Some("0"), "{stat}");
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let ended = |ago: u64| Transaction {
        received_us: (now.as_secs() - ago) * 1_000_000,
        ..Transaction::default()
    };
    assert!(!bench.indexer.is_overdue(&[ended(30)]));
    assert!(bench.indexer.is_overdue(&[ended(90)]));
}

#[test]
fn what_is_left_for_later_is_said() {
    let mut bench = Bench::new(1);
    bench.indexer.catch_up().unwrap();
    let lag = |bench: &Bench| bench.index.statistics(u64::MAX).lag_us;
    assert_eq!(lag(&bench), 0);
    bench.indexer.set_behind();
    assert!(lag(&bench) > 0);
    bench.indexer.catch_up().unwrap();
    assert_eq!(lag(&bench), 0);
}

#[test]
fn an_index_that_is_far_behind_does_not_say_that_there_is_nothing() {
    let mut bench = Bench::new(1);
    (0..9000).for_each(|number| bench.write(number));
    let found = bench.search("api:orders", &Page::default());
    assert!(found.incomplete && !found.hits.is_empty());
    assert!(bench.index.show(id(100)).unwrap().is_some(), "it is read through as far as that");
    assert!(matches!(bench.index.show(id(8999)), Err(Error::Behind)));
    bench.indexer.catch_up().unwrap();
    assert!(bench.index.show(id(8999)).unwrap().is_some());
    assert!(bench.index.show(id(9001)).unwrap().is_none());
}
