//! Counting, on journals that the tests write.

mod unbilled;

use super::*;
use crate::bucket::OTHER;
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use weir_journal::{
    BodyMetadata, CallRecord, Completed, Journal, Lane, Outcome, Received, counted,
};
use weir_model::{Amount, Counts, stage};
use weir_store::clock;

const SECOND: u64 = 1_000_000;
/// The midnight that was last (UTC), in seconds since 1970: counts of minutes are kept for 40 days, so
/// a date that stands here would be too old one day.
fn midnight() -> u64 {
    static MIDNIGHT: OnceLock<u64> = OnceLock::new();
    *MIDNIGHT.get_or_init(|| {
        let now = clock::now().as_secs();
        now - now % 86_400
    })
}

const COUNTED: u8 = counted::RULE;

/// A call at a time, in seconds since 1970.
fn call(at: u64, consumer: &'static str) -> (Received<'static>, Completed<'static>) {
    let received = Received {
        received_us: at * SECOND,
        api: "orders",
        operation: "GET /x",
        consumer,
        plan: "gold",
        counted: COUNTED,
        ..Received::default()
    };
    let end = Completed {
        status: 200,
        stages: &[(stage::TOTAL, 1000)],
        request: BodyMetadata { length: 3, ..BodyMetadata::default() },
        response: BodyMetadata { length: 40, ..BodyMetadata::default() },
        ..Completed::default()
    };
    (received, end)
}

/// All calls count but rejected and resubmitted ones.
fn settings() -> Settings {
    let counts = Counts { failed: true, interrupted: true, retried: true, ..Counts::default() };
    let keep = Duration::from_secs(400 * 86_400);
    Settings { counts, keep, cardinality: 10_000, ..Settings::default() }
}

struct Bench {
    data: tempfile::TempDir,
    journal: Arc<Journal>,
    lanes: Vec<Lane>,
    settings: Settings,
}

impl Bench {
    fn new() -> Self {
        Self::with(weir_journal::Settings { segment_bytes: 64 << 10, ..Default::default() })
    }

    fn with(journal: weir_journal::Settings) -> Self {
        let data = tempfile::tempdir().unwrap();
        let (journal, lanes, _) =
            Journal::open(data.path(), weir_journal::Settings { lanes: 2, ..journal }).unwrap();
        let bench = Self { data, journal: Arc::new(journal), lanes, settings: settings() };
        // What is there before it is opened first is not counted.
        drop(bench.open());
        bench
    }

    /// The same folder, with its journal emptied.
    fn emptied(self) -> Self {
        let Self { data, journal, lanes, settings } = self;
        drop((lanes, journal));
        std::fs::remove_dir_all(data.path().join("journal")).unwrap();
        let lanes =
            weir_journal::Settings { segment_bytes: 64 << 10, lanes: 2, ..Default::default() };
        let (journal, lanes, _) = Journal::open(data.path(), lanes).unwrap();
        let bench = Self { data, journal: Arc::new(journal), lanes, settings };
        // As weir does it before anything is recorded.
        drop(bench.open());
        bench
    }

    fn open(&self) -> (Monitor, Counter) {
        let journal = Arc::clone(&self.journal);
        Monitor::open(self.data.path(), journal, self.settings.clone()).unwrap()
    }

    fn record(&mut self, (received, end): (Received<'_>, Completed<'_>)) {
        let lane = fastrand::usize(..self.lanes.len());
        while self.lanes[lane].append(&received, &end).is_err() {
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// What is counted in the end, asked in a way.
    fn usage(&self, usage: &Usage) -> Vec<Row> {
        let (monitor, mut counter) = self.open();
        counter.catch_up().unwrap();
        monitor.usage(usage).unwrap().rows
    }

    fn total(&self) -> u64 {
        self.usage(&Usage::default()).iter().map(|row| row.calls).sum()
    }
}

/// Calls by the begin of a step.
fn by_step(rows: &[Row]) -> BTreeMap<u64, u64> {
    rows.iter().map(|row| (row.time.unwrap().0, row.calls)).collect()
}

#[test]
fn calls_are_added_up_by_what_is_asked_for() {
    let mut bench = Bench::new();
    for minute in 0..90 {
        bench.record(call(midnight() + minute * 60, if minute % 3 == 0 { "acme" } else { "beta" }));
    }
    let (received, end) = call(midnight() + 60, "acme");
    bench.record((received, Completed { status: 404, stages: &[(stage::TOTAL, 9000)], ..end }));
    bench.record((Received { api: "site", plan: "", consumer: "", ..received }, end));

    let all = bench.usage(&Usage::default());
    assert_eq!(all.len(), 1);
    assert_eq!((all[0].calls, all[0].request_bytes, all[0].response_bytes), (92, 276, 3680));
    assert_eq!(
        [all[0].p50_us, all[0].p90_us, all[0].p99_us].map(|p| p.abs_diff(1000) <= 10),
        [true; 3]
    );

    let by = |by: &[Group]| bench.usage(&Usage { by: by.to_vec(), ..Usage::default() });
    let consumers = by(&[Group::Consumer]);
    let told: Vec<_> =
        consumers.iter().map(|row| (row.consumer.as_deref().unwrap(), row.calls)).collect();
    assert_eq!(told, [("", 1), ("acme", 31), ("beta", 60)]);
    assert_eq!(by(&[Group::Status]).iter().map(|row| row.calls).collect::<Vec<_>>(), [91, 1]);
    assert_eq!(by(&[Group::Operation])[1].api.as_deref(), Some("site"));
    assert_eq!(by(&[Group::Plan, Group::Api]).len(), 2);

    let hours = bench.usage(&Usage { step: Some(3600), ..Usage::default() });
    assert_eq!(by_step(&hours), BTreeMap::from([(midnight(), 62), (midnight() + 3600, 30)]));
    let part = Usage {
        from: midnight() + 600,
        to: Some(midnight() + 4000),
        consumer: Some("acme".to_owned()),
        ..Usage::default()
    };
    // Whole minutes: 10 to 66.
    assert_eq!(
        bench.usage(&part)[0].calls,
        (10..67).filter(|minute| minute % 3 == 0).count() as u64
    );
    let minutes =
        bench.usage(&Usage { step: Some(60), to: Some(midnight() + 120), ..part.clone() });
    assert_eq!(minutes, []);
    let bad = bench.open().0.usage(&Usage { step: Some(7), ..Usage::default() });
    assert!(matches!(bad, Err(UsageError::Step)));
}

#[test]
fn every_kind_of_call_counts_as_configured() {
    let none = Counts::default();
    type Make = fn(&mut (Received<'_>, Completed<'_>));
    let kinds: [(&str, Make, Counts); 5] = [
        (
            "rejected",
            |call| {
                call.0.counted |= counted::REJECTED;
                call.1.status = 401;
            },
            Counts { rejected: true, ..none },
        ),
        (
            "failed",
            |call| {
                call.1.outcome = Outcome::Failed;
                call.1.status = 502;
            },
            Counts { failed: true, ..none },
        ),
        (
            "interrupted",
            |call| {
                call.1.outcome = Outcome::Interrupted;
                call.1.status = 0;
            },
            Counts { interrupted: true, ..none },
        ),
        ("retried", |call| call.1.retries = 1, Counts { retried: true, ..none }),
        (
            "resubmitted",
            |call| call.0.resubmission_of = [7; 16],
            Counts { resubmitted: true, ..none },
        ),
    ];
    for (name, make, counts) in kinds {
        let mut bench = Bench::new();
        let mut special = call(midnight(), "acme");
        make(&mut special);
        bench.record(special);
        bench.record(call(midnight(), "acme"));
        let (mut uncounted, end) = call(midnight(), "acme");
        uncounted.counted = 0;
        bench.record((uncounted, end));
        bench.settings.counts = none;
        assert_eq!(bench.total(), 1, "{name}");
        // What was counted stays; counting it again is by the settings of then.
        bench.settings.counts = counts;
        assert_eq!(bench.total(), 1, "{name}");
        let rebuilt = bench.open().1.rebuild().unwrap();
        assert_eq!((rebuilt.before, rebuilt.after, rebuilt.from), (1, 2, 0), "{name}");
        assert_eq!(bench.total(), 2, "{name}");
    }
}

#[test]
fn a_resubmission_counts_where_its_route_says_that_it_is_billed() {
    let mut bench = Bench::new();
    let (again, end) = call(midnight(), "acme");
    let again = Received { resubmission_of: [7; 16], ..again };
    bench.record((again, end));
    assert_eq!(bench.total(), 0);
    let counted = again.counted | counted::BILLED;
    let (_, end) = call(midnight(), "acme");
    bench.record((Received { counted, ..again }, end));
    assert_eq!(bench.total(), 1);
}

#[test]
fn nothing_is_counted_twice_or_left_out_however_it_ends() {
    let mut bench = Bench::new();
    let mut recorded = 0;
    let (mut monitor, mut counter) = bench.open();
    for _ in 0..60 {
        for _ in 0..fastrand::usize(..400) {
            bench.record(call(midnight() + fastrand::u64(..100_000), "acme"));
            recorded += 1;
        }
        match fastrand::u8(..6) {
            0 => (monitor, counter) = bench.open(),
            1 => counter.recover().unwrap(),
            2 => counter.write().unwrap(),
            _ => drop(counter.step(fastrand::usize(1..300)).unwrap()),
        }
    }
    counter.catch_up().unwrap();
    for step in [None, Some(60), Some(3600), Some(86_400)] {
        let rows = monitor.usage(&Usage { step, ..Usage::default() }).unwrap().rows;
        assert_eq!(rows.iter().map(|row| row.calls).sum::<u64>(), recorded, "{step:?}");
    }
    drop((monitor, counter));
    assert_eq!(bench.total(), recorded);
}

#[test]
fn a_clock_that_goes_back_and_ahead_puts_calls_where_they_say() {
    let mut bench = Bench::new();
    let times = [0, 7200, 30, 86_400 * 3, 7205, 3599, 60, 86_399];
    let mut expected = BTreeMap::new();
    for at in times {
        bench.record(call(midnight() + at, "acme"));
        *expected.entry(midnight() + at - at % 3600).or_insert(0) += 1;
        // Each is written by itself.
        bench.total();
    }
    let hours = bench.usage(&Usage { step: Some(3600), ..Usage::default() });
    assert_eq!(by_step(&hours), expected);
    let days = bench.usage(&Usage { step: Some(86_400), ..Usage::default() });
    assert_eq!(by_step(&days), BTreeMap::from([(midnight(), 7), (midnight() + 3 * 86_400, 1)]));
}

#[test]
fn beyond_the_limit_operations_and_then_everything_become_others() {
    let mut bench = Bench::new();
    bench.settings.cardinality = 3;
    let consumers = ["a", "b", "c", "d", "e"];
    const OPERATIONS: [&str; 4] = ["1", "2", "3", "4"];
    for _ in 0..2 {
        for consumer in consumers {
            for operation in OPERATIONS {
                let (received, end) = call(midnight(), consumer);
                bench.record((Received { operation, ..received }, end));
            }
        }
        // One by one, as it does not matter in which batch they are.
        bench.total();
    }
    let (monitor, mut counter) = bench.open();
    let (received, end) = call(midnight() + 86_400, "e");
    bench.record((received, end));
    counter.catch_up().unwrap();
    let usage = Usage { by: vec![Group::Consumer, Group::Operation], ..Usage::default() };
    let rows = monitor.usage(&usage).unwrap().rows;
    assert_eq!(rows.iter().map(|row| row.calls).sum::<u64>(), 41);
    let named = |row: &&Row| row.operation.as_deref() != Some(OTHER);
    // Another day has room of its own.
    assert_eq!(rows.iter().filter(named).count(), 4, "{rows:?}");
    let folded = |row: &&Row| !named(row) && row.consumer.as_deref() != Some(OTHER);
    assert_eq!(rows.iter().filter(folded).count(), 3, "{rows:?}");
    assert_eq!(rows.len(), 4 + 3 + 1, "{rows:?}");
    let plans = monitor.usage(&Usage { plan: Some(OTHER.to_owned()), ..Usage::default() });
    assert!(plans.unwrap().rows[0].calls > 0);
    assert_eq!(monitor.statistics().overflow, 0, "the call of this opening has its own bucket");
}

#[test]
fn what_was_dropped_is_never_counted_again() {
    let mut bench = Bench::with(weir_journal::Settings {
        segment_bytes: 16 << 10,
        keep_completed: Duration::from_secs(1),
        keep_failed: Duration::from_secs(1),
        ..Default::default()
    });
    for minute in 0..400 {
        bench.record(call(midnight() - 86_400 * 30 + minute * 60, "acme"));
    }
    bench.total();
    let before = bench.usage(&Usage { step: Some(60), ..Usage::default() });
    let held = || (0..2).map(|lane| bench.journal.segments(lane).len()).sum::<usize>();
    let all = held();
    let patience = std::time::Instant::now();
    while held() >= all && patience.elapsed() < Duration::from_secs(120) {
        std::thread::sleep(Duration::from_millis(50));
    }
    assert!(held() < all, "{} segments are still there", held());
    // Somebody has spoilt the counts: the new ones are put right, the old ones stay as they are.
    let database = weir_store::open(bench.data.path()).unwrap();
    database.execute("UPDATE bucket SET calls = calls + 1000", []).unwrap();
    let rebuilt = bench.open().1.rebuild().unwrap();
    assert!(
        rebuilt.from > before[0].time.unwrap().0 && rebuilt.after < rebuilt.before,
        "{rebuilt:?}"
    );
    for (row, was) in bench.usage(&Usage { step: Some(60), ..Usage::default() }).iter().zip(&before)
    {
        let spoilt = if row.time.unwrap().0 < rebuilt.from { 1000 } else { 0 };
        assert_eq!(row.calls, was.calls + spoilt, "{rebuilt:?} {row:?}");
    }
    // Hours and days are what their minutes are.
    let minutes = by_step(&bench.usage(&Usage { step: Some(60), ..Usage::default() }));
    let hour = rebuilt.from - rebuilt.from % 3600;
    let hours = by_step(&bench.usage(&Usage { step: Some(3600), from: hour, ..Usage::default() }));
    for (start, calls) in hours {
        assert_eq!(minutes.range(start..start + 3600).map(|(_, calls)| calls).sum::<u64>(), calls);
    }
}

#[test]
fn what_an_emptied_journal_had_is_never_counted_again() {
    let mut bench = Bench::new();
    (0..3000).for_each(|_| bench.record(call(midnight(), "acme")));
    assert_eq!(bench.total(), 3000);
    for (round, more) in [(1, 10), (2, 3000)] {
        bench = bench.emptied();
        (0..more).for_each(|_| bench.record(call(midnight() + round * 3600, "acme")));
        let total = bench.total();
        let rebuilt = bench.open().1.rebuild().unwrap();
        assert!(rebuilt.from > midnight(), "{rebuilt:?}");
        assert_eq!(bench.total(), total);
    }
    assert_eq!(bench.total(), 6010);
    // What the journal has now can be.
    let database = weir_store::open(bench.data.path()).unwrap();
    database.execute("UPDATE bucket SET calls = calls + 1000", []).unwrap();
    let rebuilt = bench.open().1.rebuild().unwrap();
    assert_eq!((rebuilt.from, rebuilt.after), (midnight() + 3660, 3000), "{rebuilt:?}");
}

#[test]
fn a_lost_database_is_made_from_what_the_journal_has() {
    let mut bench = Bench::new();
    for _ in 0..2000 {
        bench.record(call(midnight(), "acme"));
    }
    assert_eq!(bench.total(), 2000);
    for name in ["weir.db", "weir.db-wal", "weir.db-shm"] {
        let _ = std::fs::remove_file(bench.data.path().join(name));
    }
    assert_eq!(bench.total(), 2000);
}

#[test]
fn quotas_come_back_by_the_second_and_later_by_the_quarter() {
    let mut bench = Bench::new();
    let now = clock::now().as_secs();
    let times = [now, now, now - 7, now - 2 * 3600, now - 2 * 3600 + 1, now - 4 * 86_400];
    for at in times {
        let (received, end) = call(at, "acme");
        // Whatever counts as a call, the quota has been used.
        let counted = counted::PLAN | counted::QUOTA | counted::REJECTED;
        bench.record((Received { counted, ..received }, end));
        bench.record((received, end));
    }
    let (monitor, mut counter) = bench.open();
    for _ in 0..3 {
        counter.catch_up().unwrap();
        quota::compact(&counter.connection, now).unwrap();
        let used = monitor.quota_used("gold", &(now - 5 * 86_400..now + 1)).unwrap();
        assert_eq!(used.iter().map(|used| used.calls).sum::<u64>(), 6, "{used:?}");
        assert!(used.iter().all(|used| times.iter().any(|at| used.at.contains(at))), "{used:?}");
        let widths: Vec<_> = used.iter().map(|used| used.at.end - used.at.start).collect();
        assert_eq!((widths[0], widths.last()), (900, Some(&1)), "{used:?}");
    }
    let recent = counter.quota_used("gold", &(now - 60..now + 1)).unwrap();
    assert_eq!(recent.iter().map(|used| used.calls).collect::<Vec<_>>(), [1, 2]);
    assert_eq!(monitor.quota_used("silver", &(0..u64::MAX >> 1)).unwrap(), []);
    // One that comes late finds its place among what was put together.
    let (received, end) = call(now - 4 * 86_400 + 1, "acme");
    bench.record((Received { counted: counted::QUOTA, ..received }, end));
    counter.catch_up().unwrap();
    quota::compact(&counter.connection, now).unwrap();
    let old = counter.quota_used("gold", &(0..now - 3 * 86_400)).unwrap();
    assert_eq!(old.iter().map(|used| used.calls).sum::<u64>(), 2);
    assert_eq!(monitor.usage(&Usage::default()).unwrap().rows[0].calls, 6);
}

#[test]
fn counts_are_kept_as_long_as_configured() {
    let mut bench = Bench::new();
    let now = clock::now().as_secs();
    for days in [0, 1, 39, 60, 100] {
        bench.record(call(now - days * 86_400, "acme"));
    }
    bench.settings.keep = Duration::from_secs(70 * 86_400);
    let steps = || {
        let database = weir_store::open(bench.data.path()).unwrap();
        [60, 3600, 86_400].map(|step| {
            let count = "SELECT count(*) FROM bucket WHERE step = ?1";
            database.query_row(count, [step], |row| row.get::<_, u64>(0)).unwrap()
        })
    };
    for _ in 0..4 {
        bench.total();
    }
    assert_eq!(steps(), [3, 4, 4]);
    assert_eq!(bench.total(), 4);
    let (_, dropped) = bench.open().0.complete_and_purged().unwrap();
    assert!((now - 100 * 86_400..=now - 99 * 86_400).contains(&dropped), "{dropped} {now}");
}

#[test]
fn it_is_noted_which_minutes_others_are_to_be_told_of() {
    let mut bench = Bench::new();
    let database = weir_store::open(bench.data.path()).unwrap();
    let changed = || -> Vec<(u64, u64)> {
        let read = "SELECT c.start, revision FROM bucket_changed c
                    JOIN bucket b ON b.step = 60 AND b.start = c.start AND b.series = c.series";
        let mut read = database.prepare(read).unwrap();
        let rows = read.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
        let rows = rows.collect::<Result<_, _>>().unwrap();
        database.execute("DELETE FROM bucket_changed", []).unwrap();
        rows
    };
    let old = (midnight() - 60, 1);
    bench.record(call(old.0, "acme"));
    bench.total();
    assert_eq!(changed(), [], "nobody wants to know");
    database.execute("INSERT INTO bucket_cursor VALUES (1, ?1)", [midnight()]).unwrap();
    for at in [0, 70, 130] {
        bench.record(call(midnight() + at, "acme"));
    }
    bench.record(call(old.0, "acme"));
    bench.total();
    let all = [0, 60, 120].map(|at| (midnight() + at, 1));
    assert_eq!(changed(), all);
    bench.record(call(midnight(), "acme"));
    bench.total();
    assert_eq!(changed(), [(midnight(), 2)]);
    // Counted again, only what has come out otherwise is told.
    let spoil = "UPDATE bucket SET amount = '7' WHERE step = 60 AND start IN (?1, ?2)";
    database.execute(spoil, [midnight() + 60, old.0]).unwrap();
    bench.open().1.rebuild().unwrap();
    assert_eq!(changed(), [(midnight() + 60, 2)]);
    bench.open().1.rebuild().unwrap();
    assert_eq!(changed(), []);
}

#[test]
fn it_is_known_until_when_all_is_counted() {
    let mut bench = Bench::new();
    bench.settings.max_call_time = Duration::from_secs(300);
    let settled = |monitor: &Monitor| monitor.complete_and_purged().unwrap().0;
    let (monitor, mut counter) = bench.open();
    counter.catch_up().unwrap();
    let first = settled(&monitor);
    let now = clock::now().as_secs();
    assert!((now - 400..=now - 300).contains(&first), "{first} {now}");
    // While something is left it stays where it is.
    let database = weir_store::open(bench.data.path()).unwrap();
    database.execute("UPDATE counted_until SET settled = 7", []).unwrap();
    (0..100).for_each(|_| bench.record(call(midnight(), "acme")));
    let (monitor, mut counter) = bench.open();
    counter.step(10).unwrap();
    counter.write().unwrap();
    assert_eq!(settled(&monitor), 7);
    counter.catch_up().unwrap();
    assert!(settled(&monitor) >= first);
}

#[test]
fn prices_are_added_up_by_plan() {
    let mut bench = Bench::new();
    bench.settings.price = Some(Arc::new(|call: &CallRecord<'_>| {
        let bytes = i128::from(call.request_bytes + call.response_bytes);
        Charge { units: bytes << if call.plan == "gold" { 70 } else { 0 }, unbilled: 0 }
    }));
    let (received, end) = call(midnight(), "acme");
    bench.record((received, end));
    bench.record((received, end));
    bench.record((Received { plan: "tin", ..received }, end));
    let rows = bench.usage(&Usage::default());
    let expected = BTreeMap::from([
        ("gold".to_owned(), Amount::from_units(86 << 70)),
        ("tin".to_owned(), Amount::from_units(43)),
    ]);
    assert_eq!(rows[0].amounts, expected);
}
