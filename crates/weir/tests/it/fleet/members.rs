//! Nodes join, leave, are copied, suspended and upgraded.

use super::node::{
    config, copy_data, findings, fleet_calls, is_up, node, send, states, status, text,
};
use crate::admin_api::{command, first_token};
use crate::harness::{
    Mode, PgBouncer, Postgres, Relay, Server, Signal, Weir, eventually, from_environment, weir,
};
use std::time::Duration;

/// The id of a node.
fn id(server: &Server) -> String {
    status(server)["node"].as_str().unwrap_or_default().to_owned()
}

#[test]
fn nodes_know_each_other_and_a_node_that_has_ended_can_be_retired() {
    let database = Postgres::start();
    let one = node("one", database.addr(), "").start();
    let mut two = node("two", database.addr(), "").start();
    eventually("they know each other", || states(&one) == ["one live", "two live"]);
    assert_eq!(one.metric("weir_fleet_nodes", &[]), 2.0);
    // A node that serves is not retired.
    let retire = |name: &str| command(&one, &first_token(&one), &["fleet", "retire", name]);
    let (ok, _, err) = retire("two");
    assert!(!ok && err.contains("heartbeats"), "{err}");
    two.signal(Signal::TERM);
    two.wait();
    eventually("its lease has ended", || states(&one) == ["one live", "two down"]);
    assert!(findings(&one).contains(&"node-down".to_owned()));
    let (ok, _, err) = retire("three");
    assert!(!ok && err.contains("unknown node"), "{err}");
    assert!(retire("two").0);
    eventually("it is retired", || states(&one) == ["one live", "two retired"]);
    // It is a member again when it starts again, as its next boot.
    two.restart(&[]);
    eventually("it is back", || states(&one) == ["one live", "two live"]);
    assert_eq!(database.query("SELECT boot FROM weir.node WHERE name = 'two'"), "2");
    let audit = text(&one, &["audit", "--json", "--node", "here", "--action", "retire-node"]);
    assert!(audit.contains(&id(&two)), "{audit}");
}

#[test]
fn a_node_serves_without_its_database_and_joins_when_that_is_there() {
    let database = Postgres::start();
    let mut relay = Relay::new(database.addr());
    relay.set(Mode::Refuse);
    let one = node("one", relay.addr(), "").start();
    assert_eq!(one.connect().get("/").status, 200);
    assert_eq!(one.connect_admin().get("/readyz").status, 200);
    assert!(!is_up(&one));
    eventually("it says why", || findings(&one).contains(&"postgres-down".to_owned()));
    relay.set(Mode::Pass);
    eventually("it has joined", || is_up(&one));
    // Packets get lost: it finds out by itself, and comes back by itself.
    relay.set(Mode::BlackHole);
    eventually("it notices", || !is_up(&one));
    assert_eq!(one.connect().get("/").status, 200);
    relay.set(Mode::Pass);
    eventually("it has joined again", || is_up(&one));
    let errors = one.stderr();
    assert!(!errors.contains(Postgres::PASSWORD), "{errors}");
}

#[test]
fn a_copied_data_folder_is_another_node() {
    let database = Postgres::start();
    let one = node("one", database.addr(), "").start();
    eventually("it has joined", || is_up(&one));
    let copy = node("copy", database.addr(), "");
    copy_data(&one.data(), &copy.dir().join("data"));
    let copy = copy.start();
    eventually("it has joined", || is_up(&copy));
    assert_ne!(id(&copy), id(&one));
    assert!(findings(&copy).contains(&"copied-data-folder".to_owned()));
    assert!(copy.stderr().contains("is a copy of"), "{}", copy.stderr());
    assert_eq!(states(&copy), ["copy live", "one live"]);
    assert_eq!(database.query("SELECT boot FROM weir.node WHERE name = 'one'"), "1");
}

#[test]
fn a_folder_that_was_moved_or_crashed_keeps_its_identity() {
    let database = Postgres::start();
    let mut one = node("one", database.addr(), "").start();
    eventually("it has joined", || is_up(&one));
    let before = id(&one);
    one.kill();
    one.restart(&[]);
    eventually("it has joined", || is_up(&one));
    assert_eq!(id(&one), before);
    one.signal(Signal::TERM);
    one.wait();
    let moved = node("one", database.addr(), "");
    std::fs::rename(one.data(), moved.dir().join("data")).unwrap();
    let copied = moved.start();
    eventually("it has joined", || is_up(&copied));
    assert_eq!(id(&copied), before);
    assert_eq!(database.query("SELECT count(*), max(boot) FROM weir.node"), "1|3");
}

#[test]
fn a_process_that_was_suspended_writes_nothing_before_it_has_renewed_its_lease() {
    let database = Postgres::start();
    let one = node("one", database.addr(), "").start();
    eventually("it has joined", || is_up(&one));
    // As if it had been suspended, and somebody had started its folder elsewhere meanwhile.
    one.signal(Signal::STOP);
    // It may be in a transaction that has locked the row: the server ends that.
    database.query(
        "UPDATE weir.node SET boot = boot + 1, boot_token = gen_random_uuid(),
         until = now() + interval '1 day', digest = 'of another'",
    );
    one.signal(Signal::CONT);
    eventually("it has another identity", || {
        database.query("SELECT count(*) FROM weir.node") == "2"
    });
    let other = "SELECT digest, boot FROM weir.node WHERE until > now() + interval '1 hour'";
    assert_eq!(database.query(other), "of another|2");
}

#[test]
fn a_node_that_was_suspended_past_its_lease_joins_again_with_its_identity() {
    let database = Postgres::start();
    let one = node("one", database.addr(), "").start();
    let two = node("two", database.addr(), "").start();
    eventually("both have joined", || states(&one) == ["one live", "two live"]);
    send(&two, 5);
    eventually("the fleet has them", || fleet_calls(&one) == 5);
    let before = id(&two);
    two.signal(Signal::STOP);
    eventually("its lease has ended", || states(&one) == ["one live", "two down"]);
    // The lease is over in the database, too; `make soak` waits longer.
    std::thread::sleep(Duration::from_secs(from_environment("WEIR_SUSPENDED_SECONDS", 0)));
    send(&one, 3);
    two.signal(Signal::CONT);
    eventually("it is back", || states(&one) == ["one live", "two live"]);
    send(&two, 4);
    eventually("each call counts once", || fleet_calls(&one) == 12 && fleet_calls(&two) == 12);
    assert_eq!(id(&two), before);
    assert_eq!(database.query("SELECT count(*) FROM weir.node"), "2");
}

#[test]
fn configurations_that_differ_and_rejected_ones_are_reported() {
    let database = Postgres::start();
    let one = node("one", database.addr(), "").start();
    let mut two = node("two", database.addr(), "").start();
    let digests = "SELECT count(DISTINCT digest) FROM weir.node WHERE digest <> ''";
    eventually("both have joined", || states(&one) == ["one live", "two live"]);
    assert_eq!(database.query(digests), "1");
    two.replace("weir.yaml", "listen: 5\n");
    two.event("reload-refused");
    let rejected = "configuration-rejected".to_owned();
    eventually("others know", || findings(&one).contains(&rejected));
    assert_eq!(database.query(digests), "1", "the one before is in force");
    two.reload(&config(database.addr(), "drain: {delay: 1s}"));
    eventually("they differ", || database.query(digests) == "2");
    eventually("it is fine again", || !findings(&one).contains(&rejected));
    // That is a finding if it lasts: after a minute, which is not waited for here.
    assert_eq!(one.metric("weir_config_drift", &[]), 0.0);
}

#[test]
fn members_need_no_more_than_what_a_managed_database_gives_them() {
    // TLS with verification, and PgBouncer in transaction mode.
    let database = Postgres::start_tls();
    let certificate = database.certificate().unwrap();
    let text = config(database.addr(), "").replace(
        &format!("password: {}", Postgres::PASSWORD),
        &format!("password: {}, tls: {{ca: \"file:ca.pem\"}}", Postgres::PASSWORD),
    );
    let encrypted = Weir::new(&text).env("NODE", "tls").file("ca.pem", &certificate.cert).start();
    eventually("it has joined", || is_up(&encrypted));
    // Another authority is not trusted.
    let other = crate::harness::Certificate::of("127.0.0.1");
    let foreign = Weir::new(&text).env("NODE", "foreign").file("ca.pem", &other.cert).start();
    eventually("it says why", || findings(&foreign).contains(&"postgres-down".to_owned()));
    assert!(!is_up(&foreign));

    let database = Postgres::start();
    let bouncer = PgBouncer::start(database.addr(), 2);
    let nodes = ["a", "b", "c"].map(|name| node(name, bouncer.addr(), "").start());
    let live = ["a live", "b live", "c live"];
    eventually("all have joined", || nodes.iter().all(|node| states(node) == live));
}

#[test]
fn a_database_belongs_to_one_fleet_and_may_be_ahead_of_this_version() {
    let database = Postgres::start();
    let one = node("one", database.addr(), "").start();
    eventually("it has joined", || is_up(&one));
    let text = config(database.addr(), "").replace("fleet: {", "fleet: {name: other, ");
    let other = Weir::new(&text).env("NODE", "other").start();
    eventually("it says why", || other.stderr().contains("belongs to the fleet `weir`"));
    // A later release has added something: this one goes on, unless that says otherwise.
    database
        .query("INSERT INTO weir.step (number, min_weir, by_weir) VALUES (99, '0.0.9', '9.9.9')");
    let two = node("two", database.addr(), "").start();
    eventually("it has joined", || is_up(&two));
    database.query("UPDATE weir.step SET min_weir = '9.9.0' WHERE number = 99");
    let three = node("three", database.addr(), "").start();
    eventually("it says why", || three.stderr().contains("needs weir 9.9.0 or later"));
    let output = weir(three.dir(), &["fleet", "migrate", "--set", "fleet.node=x"]);
    assert!(!output.status.success());
}

#[test]
fn an_upgrade_makes_the_next_boot_of_the_same_node() {
    let database = Postgres::start();
    let one = node("one", database.addr(), "").start();
    eventually("it has joined", || is_up(&one));
    let before = id(&one);
    let mut upgrade = std::process::Command::new(env!("CARGO_BIN_EXE_weir"));
    let output = upgrade.arg("upgrade").current_dir(one.dir()).env("NODE", "one").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let boot = format!("SELECT boot, until > now() FROM weir.node WHERE id = '{before}'");
    eventually("the next boot is registered", || database.query(&boot) == "2|t");
    assert_eq!(database.query("SELECT count(*) FROM weir.node"), "1");
}
