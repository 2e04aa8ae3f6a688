//! Alerts are evaluated once for the fleet, on the sums of all nodes.

use super::node::{findings, is_up, send};
use crate::billing::sink::{Mood, Sink};
use crate::harness::{Mode, PATIENCE, Postgres, Relay, Server, eventually};
use std::time::{Duration, Instant};

/// Waits for something that takes the end of a minute, and the time until it is evaluated.
fn within_minutes(what: &str, holds: impl Fn() -> bool) {
    let deadline = Instant::now() + PATIENCE + Duration::from_secs(120);
    while !holds() {
        assert!(Instant::now() < deadline, "in vain: {what}");
        std::thread::sleep(Duration::from_millis(200));
    }
}

/// An alert of more than `above` calls in 10 minutes, and its sink.
fn alert(above: usize, sink: &Sink) -> String {
    format!(
        "upstreams: {{hooks: {}}}\n\
         monitor: {{count: all, alerts: [{{name: busy, calls: {above}, over: 10m, to: hooks, path: /alerts}}]}}\n",
        sink.target()
    )
}

fn start(name: &str, database: std::net::SocketAddr, more: &str) -> Server {
    let text = super::node::config(database, more).replacen("monitor: {count: all}\n", "", 1);
    crate::harness::Weir::new(&text).env("NODE", name).start()
}

/// The node that has the task.
fn evaluator(database: &Postgres) -> String {
    let sql = "SELECT n.name FROM weir.task t JOIN weir.node n ON n.id = t.owner
         WHERE t.name = 'alerts' AND t.until > now()";
    database.query(sql)
}

#[test]
fn a_sum_over_nodes_fires_once_and_another_node_goes_on() {
    let (database, sink) = (Postgres::start(), Sink::start(Mood::Take));
    let more = alert(30, &sink);
    let mut nodes = ["one", "two"].map(|name| (name, start(name, database.addr(), &more)));
    eventually("both have joined", || nodes.iter().all(|(_, node)| is_up(node)));
    // 40 in total, and no more than 20 on a node.
    nodes.iter().for_each(|(_, node)| send(node, 20));
    within_minutes("the alert fires", || !sink.taken().is_empty());
    let event = sink.taken().remove(0);
    assert_eq!(event["type"], "weir.usage.alert");
    assert_eq!(event["source"], "urn:weir:fleet:weir:monitor");
    assert_eq!((&event["data"]["calls"], &event["data"]["alert"]), (&40.into(), &"busy".into()));
    let delivered = "SELECT count(*) FILTER (WHERE delivered), count(*) FROM weir.alert_event";
    eventually("it is known to be delivered", || database.query(delivered) == "1|1");
    // Its node is killed; the other one evaluates the next minute, with the calls of both.
    let before = evaluator(&database);
    let killed = nodes.iter_mut().find(|(name, _)| *name == before).expect("the owner of the task");
    killed.1.kill();
    eventually("another node has the task", || {
        let owner = evaluator(&database);
        !owner.is_empty() && owner != before
    });
    let evaluated =
        || database.query("SELECT extract(epoch FROM evaluated)::bigint FROM weir.alert");
    let first = evaluated();
    within_minutes("the next minute is evaluated", || evaluated() != first);
    assert_eq!(database.query("SELECT firing FROM weir.alert"), "t");
    assert_eq!((sink.came(), database.query(delivered)), (1, "1|1".to_owned()));
}

#[test]
fn an_outage_delays_an_alert_and_says_so() {
    let (database, sink) = (Postgres::start(), Sink::start(Mood::Take));
    let mut relay = Relay::new(database.addr());
    let one = start("one", relay.addr(), &alert(30, &sink));
    eventually("it has joined", || is_up(&one));
    eventually("the alert is known", || database.query("SELECT count(*) FROM weir.alert") == "1");
    relay.set(Mode::Refuse);
    eventually("it notices", || findings(&one).contains(&"alerts-paused".to_owned()));
    send(&one, 40);
    eventually("they are counted", || super::node::own_calls(&one) == 40);
    assert_eq!(sink.came(), 0);
    relay.set(Mode::Pass);
    within_minutes("the alert fires", || !sink.taken().is_empty());
    assert!(!findings(&one).contains(&"alerts-paused".to_owned()));
}

#[test]
fn calls_that_are_reported_late_are_evaluated_and_an_event_survives_a_sink_that_is_down() {
    let (database, sink) = (Postgres::start(), Sink::start(Mood::Fail));
    let more = alert(30, &sink);
    let one = start("one", database.addr(), &more);
    eventually("it has joined", || is_up(&one));
    send(&one, 1);
    let count = "SELECT count(*) FROM weir.bucket WHERE step = 60";
    eventually("it is replicated", || database.query(count) == "1");
    // Of another node, that reports calls of minutes that were evaluated: its first report.
    database.query(
        "INSERT INTO weir.bucket SELECT step, start - interval '5 minutes', gen_random_uuid(), series, 1, 40,
             0, 0, 0, latency FROM weir.bucket WHERE step = 60",
    );
    within_minutes("the event is posted", || sink.came() > 0);
    let waiting = "SELECT delivered FROM weir.alert_event";
    assert_eq!(database.query(waiting), "f");
    sink.set(Mood::Take);
    eventually("it is delivered", || database.query(waiting) == "t");
    assert_eq!(sink.wait_for(1).len(), 1);
}
