use super::*;

const SECOND: u64 = 1_000_000;

fn sink(name: &str) -> Sink {
    Sink { upstream: weir_model::UpstreamId(0), name: name.to_owned(), path: "/in".to_owned() }
}

fn event(id: &str) -> Event {
    Event {
        id: id.to_owned(),
        part: "test",
        kind: "weir.test".to_owned(),
        subject: "s".to_owned(),
        time_us: 1_767_225_630_000_000,
        data: json!({"n": 1}),
    }
}

fn queue(ids: &[&str]) -> (tempfile::TempDir, Deliveries) {
    let folder = tempfile::tempdir().unwrap();
    let mut queue = Deliveries::open(folder.path()).unwrap();
    let mut batch = queue.begin(SECOND).unwrap();
    ids.iter().for_each(|id| batch.push(&sink("hooks"), &event(id)).unwrap());
    batch.commit().unwrap();
    (folder, queue)
}

/// What waits for `hooks`, since when, and what was given up.
fn state(queue: &Deliveries) -> (u64, u64, u64, u64) {
    let found = queue.queues().unwrap().into_iter().find(|sink| sink.sink == "hooks").unwrap();
    (found.waiting, found.oldest_us, found.overflowed, found.expired)
}

fn ids(queue: &Deliveries, now_us: u64) -> Vec<String> {
    let due = queue.due("hooks", now_us, 100).unwrap().into_iter();
    due.map(|due| serde_json::from_str::<Value>(&due.event).unwrap()["id"].to_string()).collect()
}

#[test]
fn an_event_is_a_cloud_event() {
    let (_folder, queue) = queue(&["a"]);
    let due = queue.due("hooks", SECOND, 9).unwrap().remove(0);
    let event: Value = serde_json::from_str(&due.event).unwrap();
    assert_eq!(event["specversion"], "1.0");
    assert_eq!(event["time"], "2026-01-01T00:00:30Z");
    let source = event["source"].as_str().unwrap();
    assert!(source.starts_with("urn:weir:") && source.ends_with(":test"), "{source}");
    assert_eq!((due.path.as_str(), &event["data"]["n"]), ("/in", &json!(1)));
    assert_eq!(event["subject"], "s");
}

#[test]
fn an_event_without_a_subject_has_none() {
    let (_folder, mut queue) = queue(&[]);
    let batch = queue.begin(SECOND).unwrap();
    let text = batch.text(&Event { subject: String::new(), ..event("a") });
    let event: Value = serde_json::from_str(&text).unwrap();
    assert!(event.get("subject").is_none(), "{event}");
}

#[test]
fn what_is_delivered_is_gone_and_what_is_not_comes_again_later() {
    let (folder, mut queue) = queue(&["a", "b"]);
    let mut due = queue.due("hooks", SECOND, 9).unwrap();
    let (second, first) = (due.pop().unwrap(), due.pop().unwrap());
    queue
        .record_outcomes(&[(first, Outcome::Delivered), (second, Outcome::Retry)], SECOND)
        .unwrap();
    assert!(ids(&queue, SECOND + 499_999).is_empty());
    assert!(queue.sinks(SECOND + 499_999).unwrap().is_empty());
    drop(queue);
    let queue = Deliveries::open(folder.path()).unwrap();
    assert_eq!(ids(&queue, SECOND + 500_000), ["\"b\""]);
    assert_eq!(queue.sinks(2 * SECOND).unwrap(), ["hooks"]);
    assert_eq!(state(&queue), (1, SECOND, 0, 0));
}

#[test]
fn what_is_not_committed_was_not_made() {
    let (_folder, mut queue) = queue(&["a"]);
    let mut batch = queue.begin(SECOND).unwrap();
    batch.push(&sink("hooks"), &event("b")).unwrap();
    drop(batch);
    assert_eq!(ids(&queue, SECOND), ["\"a\""]);
}

#[test]
fn an_event_waits_only_once() {
    let (_folder, queue) = queue(&["a", "a", "b"]);
    assert_eq!(ids(&queue, SECOND), ["\"a\"", "\"b\""]);
    assert_eq!(state(&queue), (2, SECOND, 0, 0));
}

#[test]
fn what_nobody_takes_for_a_week_is_given_up() {
    let (_folder, mut queue) = queue(&["a"]);
    let week = MAX_AGE.as_micros() as u64;
    queue.drop_expired(SECOND + week).unwrap();
    assert_eq!(state(&queue), (1, SECOND, 0, 0));
    queue.drop_expired(SECOND + week + 1).unwrap();
    assert_eq!(state(&queue), (0, 0, 0, 1));
}

#[test]
fn a_full_sink_loses_its_own_oldest_and_no_other_does() {
    let (_folder, mut queue) = queue(&["a", "b", "c"]);
    let other = sink("other");
    queue.limit = 3;
    let mut batch = queue.begin(2 * SECOND).unwrap();
    for id in ["d", "e", "d"] {
        batch.push(&sink("hooks"), &event(id)).unwrap();
        batch.push(&other, &event(id)).unwrap();
    }
    batch.commit().unwrap();
    assert_eq!(ids(&queue, 2 * SECOND), ["\"c\"", "\"d\"", "\"e\""]);
    assert_eq!(state(&queue), (3, SECOND, 2, 0));
    let others = &queue.queues().unwrap()[1];
    assert_eq!((others.sink.as_str(), others.waiting, others.overflowed), ("other", 2, 0));
    // Whatever becomes of what was on its way meanwhile.
    let on_its_way = DueEvent { number: 1, path: "/in".into(), event: String::new(), attempts: 0 };
    queue.record_outcomes(&[(on_its_way, Outcome::Delivered)], 2 * SECOND).unwrap();
    assert_eq!(state(&queue), (3, SECOND, 2, 0));
}

#[test]
fn pauses_double_up_to_five_minutes() {
    let pauses = [1, 2, 3, 10, 11, 60, u32::MAX].map(|n| retry_delay(n).as_millis());
    assert_eq!(pauses, [500, 1000, 2000, 256_000, 300_000, 300_000, 300_000]);
}

#[test]
fn an_event_of_the_fleet_is_queued_once_and_known_to_have_left() {
    let folder = tempfile::tempdir().unwrap();
    let mut queue = Deliveries::open(folder.path()).unwrap();
    let sink = sink("hooks");
    let event = event("busy-60");
    assert!(!queue.queue_for_fleet("prod", (&sink, &event), 0).unwrap());
    assert!(!queue.queue_for_fleet("prod", (&sink, &event), 0).unwrap());
    let due = queue.due("hooks", 0, 10).unwrap();
    assert_eq!(due.len(), 1);
    assert!(due[0].event.contains("urn:weir:fleet:prod:"), "{}", due[0].event);
    queue.record_outcomes(&[(due[0].clone(), Outcome::Delivered)], 0).unwrap();
    assert!(queue.queue_for_fleet("prod", (&sink, &event), 0).unwrap());
    queue.forget_fleet_events(std::slice::from_ref(&event.id)).unwrap();
    assert!(queue.queue_for_fleet("prod", (&sink, &event), 0).unwrap());
    queue.forget_fleet_events(&[]).unwrap();
    assert!(!queue.queue_for_fleet("prod", (&sink, &event), 0).unwrap(), "it is forgotten");
}
