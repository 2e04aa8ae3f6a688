//! Events made of counts: of minutes that are over, and alerts.
//!
//! A minute is long. So these tests stop weir and set its counts back by some minutes.

use super::sink::{Mood, Sink};
use crate::harness::{KILL_AT, Server, Signal, Weir, eventually, key_hash};

fn config(sink: &Sink) -> String {
    format!(
        "listen: [{{addr: \"127.0.0.1:0\"}}]\n\
         upstreams: {{hooks: {}}}\n\
         auth: {{keys: {{api_key: {{header: x-key}}}}}}\n\
         plans: {{gold: {{price: {{per_call: \"0.25\", currency: EUR}}}}}}\n\
         consumers: {{acme: {{plan: gold, api_keys: [\"{}\"]}}}}\n\
         monitor:\n  events: {{to: hooks, path: /counts}}\n  alerts:\n    \
         - {{name: busy, calls: 3, over: 1h, to: hooks, path: /alerts}}\n    \
         - {{name: failing, error_rate: 50%, over: 1h, to: hooks}}\n\
         apis:\n  orders: {{base: /, auth: keys, routes: [{{op: hello, get: /, reply: {{text: hi}}}}]}}\n",
        sink.target(),
        key_hash("k"),
    )
}

/// Makes so many calls and stops; they were some minutes ago once it is started again.
fn count_and_stop(server: &mut Server, calls: usize) {
    let before = server.metric("weir_monitor_counted_total", &[]);
    let mut client = server.connect();
    for _ in 0..calls {
        assert_eq!(client.request("GET", "/", &[("x-key", "k")], "").status, 200);
    }
    eventually("all are counted", || {
        server.metric("weir_monitor_counted_total", &[]) >= before + calls as f64
    });
    server.signal(Signal::TERM);
    server.wait();
    let database = rusqlite::Connection::open(server.data().join("weir.db")).unwrap();
    let back = "UPDATE bucket SET start = start - 300 WHERE step = 60;
                UPDATE bucket_changed SET start = start - 300;
                UPDATE bucket_cursor SET start = start - 3600;";
    database.execute_batch(back).unwrap();
}

#[test]
fn a_minute_that_is_over_and_an_alert_are_told_once() {
    let sink = Sink::start(Mood::Take);
    let mut server = Weir::new(&config(&sink)).start();
    count_and_stop(&mut server, 4);
    server.restart(&[]);
    let events = sink.wait_for(2);
    let of = |kind: &str| {
        let own: Vec<_> = events.iter().filter(|event| event["type"] == kind).collect();
        assert_eq!(own.len(), 1, "{events:?}");
        own[0].clone()
    };
    let bucket = of("weir.usage.bucket");
    assert_eq!((&bucket["data"]["calls"], &bucket["data"]["amount"]), (&4.into(), &"1".into()));
    assert_eq!((&bucket["subject"], &bucket["data"]["status"]), (&"acme".into(), &"2xx".into()));
    let alert = of("weir.usage.alert");
    assert_eq!((&alert["subject"], &alert["data"]["calls"]), (&"busy".into(), &4.into()));
    assert!(sink.heads().iter().any(|head| head.starts_with("POST /alerts ")));
    let noted = |server: &Server| server.metric("weir_events_waiting", &[]) == 0.0;
    // What is not noted as posted would be posted again.
    eventually("both are noted", || noted(&server));
    // It still holds, and the minute is still over.
    server.kill();
    server.restart(&[]);
    eventually("it is looked at", || noted(&server));
    // Orderly, so that all that was made has been posted, or waits.
    server.signal(Signal::TERM);
    server.wait();
    assert_eq!(sink.came(), 2);
    let database = rusqlite::Connection::open(server.data().join("weir.db")).unwrap();
    let waiting = "SELECT count(*) FROM delivery";
    assert_eq!(database.query_row(waiting, [], |row| row.get(0)), Ok(0));
}

#[test]
fn a_kill_anywhere_in_making_events_loses_and_repeats_none() {
    for point in ["bucket.make", "bucket.made", "alert.make", "alert.made", "delivery.sent"] {
        let sink = Sink::start(Mood::Take);
        let mut server = Weir::new(&config(&sink)).start();
        count_and_stop(&mut server, 5);
        server.restart_to_end(&[(KILL_AT, point)]);
        server.restart(&[]);
        let events = sink.wait_for(2);
        let calls: Vec<_> = events.iter().map(|event| event["data"]["calls"].clone()).collect();
        assert_eq!(calls, [5, 5], "{point}");
        eventually("all are noted", || server.metric("weir_events_waiting", &[]) == 0.0);
        let twice = sink.came() - 2;
        assert!(twice <= if point == "delivery.sent" { 2 } else { 0 }, "{point}: {twice}");
    }
}

#[test]
fn what_is_told_is_of_all_that_was_recorded_before() {
    let sink = Sink::start(Mood::Take);
    // The start writes twice: the call is not counted when weir ends.
    let mut server = loop {
        let mut server = Weir::new(&config(&sink)).env(KILL_AT, "monitor.buckets:2").start();
        let mut client = server.connect();
        client.try_send("GET / HTTP/1.1\r\nHost: a\r\nx-key: k\r\n\r\n");
        let response = client.try_response();
        server.wait();
        // On a slow machine it may write, and end, before.
        if response.is_some_and(|response| response.status == 200) {
            break server;
        }
    };
    server.restart_to_end(&[(KILL_AT, "bucket.make")]);
    let database = rusqlite::Connection::open(server.data().join("weir.db")).unwrap();
    let counted = "SELECT total(calls) FROM bucket WHERE step = 60";
    assert_eq!(database.query_row(counted, [], |row| row.get(0)), Ok(1.0));
}
