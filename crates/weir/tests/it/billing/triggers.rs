//! Triggers: an event for each transaction that ends as a rule says.

use super::sink::{Mood, Sink};
use crate::harness::{
    Certificate, Client, KILL_AT, PANIC_AT, Server, Signal, Weir, each_transaction, eventually,
    id_of, key_hash, kills,
};
use serde_json::Value;
use std::collections::BTreeSet;
use std::time::Duration;

fn config(sink: &Sink, triggers: &str) -> String {
    format!(
        "workers: 2\n\
         listen: [{{addr: \"127.0.0.1:0\"}}]\n\
         upstreams:\n  hooks: {}\n\
         tracker:\n  enabled: true\n  keys: {{order: \"$.order\"}}\n  triggers:\n{triggers}\
         apis:\n  \
         good: {{base: /good, routes: [{{post: /, reply: {{text: fine}}}}]}}\n  \
         bad: {{base: /bad, routes: [{{post: /, reply: {{status: 500, text: broken}}}}]}}\n",
        sink.target()
    )
}

const FAILED: &str = "    - {name: broken, to: hooks, path: /failures}\n";

/// Sends so many requests and gives the ids of the transactions.
fn send(server: &Server, path: &str, body: &str, count: usize) -> BTreeSet<String> {
    let mut client = server.connect();
    let id = |response: &crate::harness::Response| {
        response.header("weir-transaction-id").expect("it is recorded").to_owned()
    };
    let json = [("content-type", "application/json")];
    (0..count).map(|_| id(&client.request("POST", path, &json, body))).collect()
}

fn subjects(events: &[Value]) -> BTreeSet<String> {
    events.iter().map(|event| event["subject"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_transaction_that_fails_is_told_once() {
    let sink = Sink::start(Mood::Take);
    let server = Weir::new(&config(&sink, FAILED)).start();
    send(&server, "/good", "{}", 3);
    let failed = send(&server, "/bad", "{\"order\": \"secret\"}", 2);
    let events = sink.wait_for(2);
    assert_eq!(subjects(&events), failed);
    let event = &events[0];
    assert_eq!(event["specversion"], "1.0");
    assert_eq!(event["type"], "weir.transaction.failed");
    assert_eq!(event["data"]["trigger"], "broken");
    assert_eq!((&event["data"]["api"], &event["data"]["status"]), (&"bad".into(), &500.into()));
    assert!(!event.to_string().contains("secret"), "no payload: {event}");
    let head = sink.heads()[0].to_ascii_lowercase();
    assert!(head.starts_with("post /failures http/1.1\r\n"), "{head}");
    assert!(head.contains("\r\ncontent-type: application/cloudevents+json"), "{head}");
    eventually("all are noted", || server.metric("weir_events_waiting", &[]) == 0.0);
    assert_eq!(sink.came(), 2);
    assert_eq!(server.metric("weir_events_delivered_total", &[]), 2.0);
}

#[test]
fn a_trigger_looks_at_api_state_and_key() {
    let sink = Sink::start(Mood::Take);
    let rules = "    - {name: seven, to: hooks, api: good, state: [completed, failed], key: order, value: \"7\"}\n    \
                 - {name: any, to: hooks, state: failed, key: order}\n";
    let server = Weir::new(&config(&sink, rules)).start();
    send(&server, "/good", "{\"order\": 8}", 1);
    let seven = send(&server, "/good", "{\"order\": 7}", 1);
    send(&server, "/bad", "{}", 1);
    let any = send(&server, "/bad", "{\"order\": 7}", 1);
    let events = sink.wait_for(2);
    let of = |name: &str| {
        let own = events.iter().filter(|event| event["data"]["trigger"] == name);
        subjects(&own.cloned().collect::<Vec<_>>())
    };
    assert_eq!((of("seven"), of("any")), (seven, any));
    assert_eq!(events[0]["data"]["key"]["value"], "7");
}

#[test]
fn a_sink_that_fails_hangs_or_breaks_off_gets_every_event_in_the_end() {
    let sink = Sink::start(Mood::Fail);
    let mut server = Weir::new(&config(&sink, FAILED)).start();
    let mut failed = send(&server, "/bad", "{}", 3);
    eventually("it is tried", || sink.came() > 0);
    sink.set(Mood::Hang);
    let before = sink.came();
    eventually("it is tried again", || sink.came() > before);
    sink.set(Mood::BreakOff);
    let before = sink.came();
    eventually("and again", || sink.came() > before);
    // What waits survives a crash.
    server.kill();
    sink.set(Mood::Take);
    server.restart(&[]);
    failed.extend(send(&server, "/bad", "{}", 2));
    assert_eq!(subjects(&sink.wait_for(5)), failed);
    assert!(server.stderr().contains("event delivery to hooks failed"), "{}", server.stderr());
}

#[test]
fn an_event_that_is_refused_holds_up_no_other() {
    let sink = Sink::start(Mood::Pick("\"bad\""));
    let rules = "    - {name: all, to: hooks, state: [completed, failed]}\n";
    let server = Weir::new(&config(&sink, rules)).start();
    send(&server, "/bad", "{}", 1);
    let good = send(&server, "/good", "{}", 2);
    assert_eq!(subjects(&sink.wait_for(2)), good);
    sink.set(Mood::Take);
    sink.wait_for(3);
}

#[test]
fn a_kill_anywhere_on_the_way_loses_no_event() {
    for point in ["trigger.make", "trigger.made", "delivery.sent", "delivery.settled"] {
        let sink = Sink::start(Mood::Take);
        let mut server = Weir::new(&config(&sink, FAILED)).env(KILL_AT, point).start();
        let failed = send(&server, "/bad", "{}", 1);
        server.wait();
        server.restart(&[]);
        assert_eq!(subjects(&sink.wait_for(1)), failed, "{point}");
        let more = send(&server, "/bad", "{}", 1);
        let all = sink.wait_for(2);
        assert_eq!(subjects(&all), &failed | &more, "{point}");
        server.signal(Signal::TERM);
        assert_eq!(server.wait().code(), Some(0), "{point}");
        // Only an event on its way may come twice.
        let twice = sink.came() - 2;
        assert!(twice <= usize::from(point == "delivery.sent"), "{point}: {twice}");
    }
}

#[test]
fn kills_at_any_moment_lose_no_event() {
    let sink = Sink::start(Mood::Take);
    let more = "journal: {when_full: refuse}\n";
    let config = config(&sink, FAILED).replace("workers: 2\n", &format!("workers: 2\n{more}"));
    let mut server = Weir::new(&config).start();
    for _ in 0..kills() {
        let addr = server.listen[0];
        let client = std::thread::spawn(move || {
            let mut client = Client::try_connect(addr)?;
            let request = "POST /bad HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{}";
            while client.try_send(request) {
                client.try_response()?;
                // Not more than a sink has room for, however often it is killed.
                std::thread::sleep(Duration::from_millis(2));
            }
            Some(())
        });
        // What is killed at once has answered nothing: that is tried, too, but not only.
        let answered = || server.metric("weir_journal_records_total", &[]) > 2.0;
        eventually("something is recorded", answered);
        std::thread::sleep(Duration::from_millis(fastrand::u64(..400)));
        server.kill();
        client.join().unwrap();
        server.restart(&[]);
    }
    eventually("all are noted", || {
        server.metric("weir_journal_follower_lag_records", &["\"triggers\""]) == 0.0
            && server.metric("weir_events_waiting", &[]) == 0.0
    });
    server.signal(Signal::TERM);
    server.wait();
    let mut failed = BTreeSet::new();
    each_transaction(&server.data(), |one| {
        if one.outcome == weir_journal::Outcome::Failed {
            failed.insert(id_of(&one));
        }
    });
    assert!(failed.len() > kills(), "{} are no test", failed.len());
    let told = subjects(&sink.taken());
    assert_eq!(failed.difference(&told).count(), 0, "of {}", failed.len());
    assert_eq!(told.len(), failed.len(), "and nothing else is told");
}

#[test]
fn after_a_panic_it_goes_on() {
    let sink = Sink::start(Mood::Take);
    let server = Weir::new(&config(&sink, FAILED)).env(PANIC_AT, "trigger.make").start();
    let failed = send(&server, "/bad", "{}", 3);
    assert_eq!(subjects(&sink.wait_for(3)), failed);
}

#[test]
fn a_sink_that_is_gone_holds_back_neither_others_nor_the_journal() {
    let sink = Sink::start(Mood::Take);
    let both = format!("{FAILED}    - {{name: lost, to: gone, path: /}}\n");
    let gone = "upstreams:\n  gone: {targets: [\"http://127.0.0.1:1\"]}\n";
    let config = config(&sink, &both).replace("upstreams:\n", gone);
    let mut server = Weir::new(&config).start();
    server.signal(Signal::TERM);
    server.wait();
    // All that there is room for, some days ago.
    let database = rusqlite::Connection::open(server.data().join("weir.db")).unwrap();
    let full = "WITH RECURSIVE n (n) AS (VALUES (1) UNION ALL SELECT n + 1 FROM n LIMIT 100000)
                INSERT INTO delivery (sink, path, id, event, made, due)
                SELECT 'gone', '/', n, '{}', unixepoch() * 1000000 - 1000000, 0 FROM n";
    assert_eq!(database.execute(full, []).unwrap(), 100_000);
    drop(database);
    server.restart(&[]);
    let failed = send(&server, "/bad", "{}", 7);
    assert_eq!(subjects(&sink.wait_for(7)), failed);
    let events = |name: &str, label: &str| server.metric(&format!("weir_events_{name}"), &[label]);
    eventually("it is known what was given up", || events("given_up_total", "\"gone\"") == 7.0);
    assert_eq!(events("waiting", "\"gone\""), 100_000.0);
    assert_eq!(events("given_up_total", "\"hooks\""), 0.0);
    eventually("the journal may drop what was looked at", || {
        server.metric("weir_journal_follower_lag_records", &["\"triggers\""]) == 0.0
    });
    let token = crate::admin_api::first_token(&server);
    let shown = crate::admin_api::get(&server, "/v1/events", &token).json()["sinks"].clone();
    assert_eq!((&shown[0]["sink"], &shown[0]["overtaken"]), (&"gone".into(), &7.into()));
    assert!(shown[0]["oldest_seconds"].as_f64().unwrap() > 0.9, "{shown}");
    assert_eq!((&shown[1]["sink"], &shown[1]["overtaken"]), (&"hooks".into(), &0.into()));
    let told = server.stderr();
    assert!(told.contains("events for gone were dropped"), "{told}");
}

#[test]
fn a_sink_is_reached_over_tls_with_its_credential() {
    let Certificate { cert, key } = Certificate::of("hooks.example.com");
    let hash = key_hash("secret");
    let sink = Weir::new(&format!(
        "listen: [{{addr: \"127.0.0.1:0\", tls: {{cert: \"file:c.pem\", key: \"file:k.pem\"}}}}]\n\
         auth: {{keys: {{api_key: {{header: x-key}}}}}}\n\
         consumers: {{weir: {{api_keys: [\"{hash}\"]}}}}\n\
         apis: {{hooks: {{base: /, auth: keys, routes: [{{post: /in, reply: {{text: taken}}}}]}}}}\n"
    ));
    let sink = sink.file("c.pem", &cert).file("k.pem", &key).start();
    let config = format!(
        "listen: [{{addr: \"127.0.0.1:0\"}}]\n\
         upstreams:\n  hooks:\n    targets: [\"https://{}\"]\n    \
         tls: {{ca: \"file:c.pem\", server_name: hooks.example.com}}\n    \
         auth: {{header: {{name: x-key, value: \"file:key\"}}}}\n\
         tracker: {{enabled: true, triggers: [{{name: t, to: hooks, path: /in}}]}}\n\
         apis: {{bad: {{base: /bad, routes: [{{post: /, reply: {{status: 500, text: x}}}}]}}}}\n",
        sink.listen[0]
    );
    let server = Weir::new(&config).file("c.pem", &cert).file("key", "secret").start();
    send(&server, "/bad", "{}", 2);
    eventually("they come", || server.metric("weir_events_delivered_total", &[]) == 2.0);
    assert_eq!(server.metric("weir_events_failed_total", &[]), 0.0);
    assert!(!server.stderr().contains("secret"));
}

#[test]
fn a_reload_begins_with_what_ends_then_and_ends_with_what_was_made() {
    let sink = Sink::start(Mood::Take);
    let mut server =
        Weir::new(&config(&sink, FAILED).replace("  triggers:\n", "").replace(FAILED, "")).start();
    send(&server, "/bad", "{}", 2);
    server.reload(&config(&sink, FAILED));
    let mut told = BTreeSet::new();
    eventually("it is told", || {
        told.extend(send(&server, "/bad", "{}", 1));
        !sink.taken().is_empty()
    });
    assert!(subjects(&sink.taken()).is_subset(&told));
}
