use super::*;
use std::time::Duration;
use weir_model::UpstreamId;
use weir_model::events::AlertRule;

const T: u64 = 1_767_225_600;

fn sink() -> Sink {
    Sink { upstream: UpstreamId(0), name: "hooks".to_owned(), path: "/".to_owned() }
}

fn alert(rule: AlertRule) -> Alert {
    Alert {
        name: "busy".to_owned(),
        rule,
        over: Duration::from_secs(120),
        apis: vec!["orders".to_owned()],
        consumers: vec![],
        sink: sink(),
    }
}

struct Test {
    _folder: tempfile::TempDir,
    queue: Deliveries,
    events: UsageEvents,
}

impl Test {
    fn new(buckets: bool, alerts: &[Alert]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut queue = Deliveries::open(folder.path()).unwrap();
        let (mut events, sink) = (UsageEvents::default(), sink());
        events.configure(buckets.then_some(&sink), alerts, &mut queue, T).unwrap();
        Self { _folder: folder, queue, events }
    }

    /// Counts calls in the bucket of a minute.
    fn count(&mut self, minute: u64, api: &str, status: u8, calls: u64) {
        self.count_all(minute..minute + 1, api, status, calls);
    }

    /// Counts so many calls in each of the buckets of these minutes.
    fn count_all(&mut self, minutes: std::ops::Range<u64>, api: &str, status: u8, calls: u64) {
        let batch = self.queue.begin(0).unwrap();
        let series = "INSERT INTO series (consumer, api, operation, plan, status)
                      VALUES ('acme', ?1, 'GET /', 'gold', ?2) ON CONFLICT DO NOTHING";
        batch.database.execute(series, params![api, status]).unwrap();
        let bucket = "INSERT INTO bucket SELECT 60, ?1, id, ?2, 5, 7, '1500000000000000000', x'', 1
                      FROM series WHERE api = ?3 AND status = ?4
                      ON CONFLICT DO UPDATE SET calls = calls + ?2, revision = revision + 1";
        for start in minutes.map(|minute| T + minute * 60) {
            batch.database.execute(bucket, params![start, calls, api, status]).unwrap();
            let note = "INSERT INTO bucket_changed SELECT ?1, id FROM series, bucket_cursor
                        WHERE api = ?2 AND status = ?3 AND start <= ?1 ON CONFLICT DO NOTHING";
            batch.database.execute(note, params![start, api, status]).unwrap();
        }
        batch.commit().unwrap();
    }

    /// What is made at so many seconds: the ids.
    fn made(&mut self, second: u64) -> Vec<String> {
        while self.events.step(&mut self.queue, (T + second) * 1_000_000).unwrap() {}
        let due = self.queue.due("hooks", u64::MAX, 5000).unwrap();
        let id = |text: &str| {
            let event: serde_json::Value = serde_json::from_str(text).unwrap();
            event["id"].as_str().unwrap().replace(&T.to_string(), "T")
        };
        let ids = due.iter().map(|due| id(&due.event)).collect();
        let taken: Vec<_> =
            due.into_iter().map(|due| (due, crate::delivery::Outcome::Delivered)).collect();
        self.queue.record_outcomes(&taken, 0).unwrap();
        ids
    }
}

#[test]
fn a_bucket_is_told_when_its_minute_is_over_and_again_when_it_is_revised() {
    let mut test = Test::new(true, &[]);
    test.count(0, "orders", 2, 3);
    assert!(test.made(62).is_empty(), "it may still be counted in");
    assert_eq!(test.made(63), ["T-1-1"]);
    assert!(test.made(64).is_empty());
    assert!(test.made(124).is_empty());
    test.count(0, "orders", 2, 1);
    test.count(1, "orders", 5, 1);
    assert_eq!(test.made(183), ["T-1-2".to_owned(), format!("{}-2-1", T + 60)]);
    assert!(test.made(243).is_empty());
}

#[test]
fn what_was_counted_before_anybody_asked_is_not_told() {
    let mut test = Test::new(false, &[]);
    test.count(0, "orders", 2, 3);
    assert!(test.made(120).is_empty());
    let sink = sink();
    test.events.configure(Some(&sink), &[], &mut test.queue, T + 130).unwrap();
    test.count(1, "orders", 2, 3);
    test.count(2, "orders", 2, 3);
    assert_eq!(test.made(190), [format!("{}-1-1", T + 120)]);
}

#[test]
fn more_buckets_than_fit_into_a_step_are_all_told() {
    let mut test = Test::new(true, &[]);
    test.count_all(0..2500, "orders", 2, 1);
    assert_eq!(test.made(2500 * 60 + 10).len(), 2500);
    assert!(test.made(2501 * 60 + 10).is_empty());
    // However late a call comes.
    test.count(0, "orders", 2, 1);
    assert_eq!(test.made(2502 * 60 + 10), ["T-1-2"]);
    // One that was dropped is forgotten.
    test.count(1, "orders", 2, 1);
    let batch = test.queue.begin(0).unwrap();
    batch.database.execute("DELETE FROM bucket", []).unwrap();
    batch.commit().unwrap();
    assert!(test.made(2503 * 60 + 10).is_empty());
    let left = "SELECT count(*) FROM bucket_changed";
    assert_eq!(test.queue.database().query_row(left, [], |row| row.get(0)), Ok(0));
}

#[test]
fn a_bucket_has_what_was_counted() {
    let mut test = Test::new(true, &[]);
    test.count(0, "orders", 2, 3);
    let batch = test.queue.begin(0).unwrap();
    let event = bucket_event(&changed(&batch.database, T + 60, 9).unwrap()[0]);
    assert_eq!(event.data["amount"], "1.5");
    assert_eq!((&event.data["calls"], &event.data["status"]), (&json!(3), &json!("2xx")));
    assert_eq!(event.data["start"], "2026-01-01T00:00:00Z");
}

#[test]
fn what_is_not_billed_has_no_amount() {
    let mut test = Test::new(true, &[]);
    test.count(0, "orders", 5, 3);
    let batch = test.queue.begin(0).unwrap();
    batch.database.execute("UPDATE series SET unbilled = 503", []).unwrap();
    let event = bucket_event(&changed(&batch.database, T + 60, 9).unwrap()[0]);
    let of = |name: &str| event.data[name].clone();
    assert_eq!(
        (of("amount"), of("unbilled"), of("unbilled_amount")),
        (json!("0"), json!(503), json!("1.5"))
    );
}

#[test]
fn an_alert_is_told_once_per_crossing() {
    let mut test = Test::new(false, &[alert(AlertRule::Calls { above: 10 })]);
    test.count(0, "orders", 2, 10);
    test.count(0, "other", 2, 99);
    assert!(test.made(63).is_empty(), "ten are none too many, and others do not matter");
    test.count(1, "orders", 2, 1);
    assert_eq!(test.made(123), [format!("busy-{}", T + 120)]);
    test.count(2, "orders", 2, 20);
    assert!(test.made(183).is_empty(), "it still holds");
    assert!(test.made(243).is_empty());
    assert!(test.made(303).is_empty(), "it does not hold any more");
    test.count(5, "orders", 2, 11);
    assert_eq!(test.made(363), [format!("busy-{}", T + 360)]);
}

#[test]
fn that_an_alert_holds_survives_a_restart_but_not_the_alert() {
    let rule = alert(AlertRule::Calls { above: 1 });
    let mut test = Test::new(false, std::slice::from_ref(&rule));
    test.count(0, "orders", 2, 5);
    assert_eq!(test.made(63).len(), 1);
    test.events = UsageEvents::default();
    test.events.configure(None, std::slice::from_ref(&rule), &mut test.queue, T + 64).unwrap();
    assert!(test.made(64).is_empty());
    test.events.configure(None, &[], &mut test.queue, T + 64).unwrap();
    test.events.configure(None, &[rule], &mut test.queue, T + 64).unwrap();
    assert_eq!(test.made(65).len(), 1);
}

#[test]
fn a_rate_of_errors_needs_enough_calls() {
    let rule = AlertRule::ErrorRate { above: 500, at_least: 20 };
    let mut test = Test::new(false, &[alert(rule)]);
    test.count(0, "orders", 5, 10);
    assert!(test.made(63).is_empty(), "too few calls");
    test.count(1, "orders", 2, 190);
    assert!(test.made(123).is_empty(), "5 % are not more than 5 %");
    test.count(2, "orders", 0, 20);
    assert_eq!(test.made(183).len(), 1, "no answer is an error");
}
