//! The resolution of a failure is set on any node, also while the one that has it is down, and a newer one
//! is never replaced by an older one.

use super::backend::{Backend, failed};
use super::node::{is_up, json, know_each_other, text};
use crate::admin_api::{ask, first_token};
use crate::harness::{Mode, Postgres, Relay, Response, Server, eventually};

fn resolve(server: &Server, id: &str, state: &str, comment: &str) -> Response {
    let path = format!("/v1/transactions/{id}/resolution");
    let body = serde_json::json!({"state": state, "comment": comment}).to_string();
    ask(server, "POST", &path, Some(&first_token(server)), &body)
}

fn resubmit(server: &Server, id: &str) -> Response {
    let path = format!("/v1/transactions/{id}/resubmit");
    ask(server, "POST", &path, Some(&first_token(server)), "")
}

/// The resolution that a node has itself.
fn resolution(server: &Server, id: &str) -> String {
    let path = format!("/v1/transactions/{id}?node=here");
    let shown = ask(server, "GET", &path, Some(&first_token(server)), "").json();
    shown["resolution"].as_str().unwrap_or_default().to_owned()
}

#[test]
fn a_resolution_that_is_set_while_the_owner_is_down_is_applied_when_it_is_back() {
    let (database, backend) = (Postgres::start(), Backend::start());
    let mut members = ["one", "two", "three"].map(|name| backend.member(name, database.addr()));
    know_each_other(&members);
    let ids: Vec<String> = (0..3).map(|_| failed(&members[1].server)).collect();
    backend.heal();
    // While it is up, it is set there at once.
    let set = resolve(&members[0].server, &ids[0], "resolved", "by hand");
    assert_eq!(set.status, 204, "{}", set.text());
    assert_eq!(resolution(&members[1].server, &ids[0]), "resolved");
    members[1].server.kill();
    // Of several, the last one counts, whichever node it is set on.
    for (node, id, state) in [(0, 0, "open"), (0, 1, "resolved"), (2, 1, "dismissed")] {
        let set = resolve(&members[node].server, &ids[id], state, "while it is down");
        assert_eq!(set.status, 202, "{}", set.text());
    }
    // It does not depend on the nodes that it was set on.
    for node in [0, 2] {
        members[node].server.kill();
        members[node].server.restart(&[]);
    }
    members[1].server.restart(&[]);
    let two = &members[1].server;
    eventually("they are applied", || {
        resolution(two, &ids[0]) == "open" && resolution(two, &ids[1]) == "dismissed"
    });
    assert_eq!(resolution(two, &ids[2]), "open");
    let history = json(two, &["show", &ids[1], "--json"])["history"].clone();
    let last = history.as_array().unwrap().last().unwrap().clone();
    assert_eq!(
        (&last["state"], &last["comment"]),
        (&"dismissed".into(), &"while it is down".into())
    );
    assert!(last["who"].is_string(), "{last}");
    know_each_other(&members);
    for member in &members {
        let refused = resubmit(&member.server, &ids[1]);
        assert_eq!((refused.status, &refused.json()["reason"]), (409, &"settled".into()));
    }
    assert_eq!(backend.again(&ids[1]), 0);
    assert_eq!(resubmit(&members[0].server, &ids[0]).status, 200);
    let audit = text(&members[0].server, &["audit", "--json", "--action", "resolve"]);
    assert_eq!(audit.lines().count(), 4, "{audit}");
}

#[test]
fn without_the_database_no_resolution_is_set() {
    let (database, backend) = (Postgres::start(), Backend::start());
    let mut relay = Relay::new(database.addr());
    let one = backend.member("one", relay.addr());
    eventually("it has joined", || is_up(&one.server));
    let id = failed(&one.server);
    relay.set(Mode::Refuse);
    let set = resolve(&one.server, &id, "dismissed", "");
    assert_eq!(set.status, 503, "{}", set.text());
    assert_eq!(set.json()["type"], "urn:weir:problem:no-database");
    assert_eq!(resolution(&one.server, &id), "open");
    relay.set(Mode::Pass);
    eventually("it is set", || resolve(&one.server, &id, "dismissed", "").status == 204);
    assert_eq!(resolution(&one.server, &id), "dismissed");
    // A node that the database is behind of does not go back.
    eventually("it is copied", || is_up(&one.server));
    assert_eq!(resolution(&one.server, &id), "dismissed");
}

#[test]
fn two_nodes_with_the_same_transaction_agree_on_its_resolution() {
    let (database, backend) = (Postgres::start(), Backend::start());
    let (mut twins, ids) = backend.twins(database.addr(), 3);
    backend.heal();
    let agree = |twins: &[super::node::Member; 2], id: &str, state: &str| {
        eventually(state, || twins.iter().all(|twin| resolution(&twin.server, id) == state));
    };
    assert_eq!(resolve(&twins[0].server, &ids[0], "dismissed", "").status, 204);
    // At once, whether it has been copied or not.
    let refused = resubmit(&twins[1].server, &ids[0]);
    assert_eq!((refused.status, &refused.json()["reason"]), (409, &"settled".into()));
    agree(&twins, &ids[0], "dismissed");
    assert_eq!(resolve(&twins[1].server, &ids[0], "open", "").status, 204);
    agree(&twins, &ids[0], "open");
    // What has succeeded on one node is so on the other.
    assert_eq!(resubmit(&twins[0].server, &ids[0]).status, 200);
    agree(&twins, &ids[0], "resubmitted");
    let history = |server: &Server| {
        let history =
            json(server, &["show", &ids[0], "--json", "--node", "here"])["history"].clone();
        let states = history.as_array().unwrap().iter().map(|one| one["state"].clone());
        states.skip(2).collect::<Vec<_>>()
    };
    for twin in &twins {
        assert_eq!(history(&twin.server), ["dismissed", "open", "resubmitted"]);
    }
    // Nothing older comes back, and nothing twice, with a new connection that copies all again.
    for twin in &mut twins {
        twin.server.kill();
        twin.server.restart(&[]);
    }
    know_each_other(&twins);
    assert_eq!(resolve(&twins[1].server, &ids[1], "resolved", "").status, 204);
    agree(&twins, &ids[1], "resolved");
    for twin in &twins {
        assert_eq!(history(&twin.server), ["dismissed", "open", "resubmitted"]);
    }
}

#[test]
fn what_did_not_fail_has_no_resolution() {
    let (database, backend) = (Postgres::start(), Backend::start());
    let members = ["one", "two"].map(|name| backend.member(name, database.addr()));
    know_each_other(&members);
    backend.heal();
    let fine = crate::admin_api::id(&members[1].server.connect().post("/orders/17", "{}"));
    for member in &members {
        assert_eq!(resolve(&member.server, &fine, "resolved", "").status, 409);
    }
    let unknown = "019a9e3c-4c5e-7d2a-9b1f-3f6d2c1e0a55";
    assert_eq!(resolve(&members[0].server, unknown, "resolved", "").status, 404);
    assert_eq!(database.query("SELECT count(*) FROM weir.resolution WHERE revision > 0"), "0");
}
