//! A transaction is sent again once in the fleet, whoever wants that on whichever node, and whatever fails.

use super::backend::{Backend, failed};
use super::node::{fleet_calls, is_up, json, know_each_other, states, text};
use crate::admin_api::{ask, first_token};
use crate::harness::{KILL_AT, Mode, Postgres, Relay, Response, Server, eventually, repetitions};

fn resubmit(server: &Server, id: &str) -> Response {
    let path = format!("/v1/transactions/{id}/resubmit");
    ask(server, "POST", &path, Some(&first_token(server)), "")
}

/// Two operators want a transaction to be sent again at the same time: one of them is told that it is, or
/// was just now.
fn is_sent_once(backend: &Backend, [one, two]: [&Server; 2], id: &str) {
    let responses = std::thread::scope(|scope| {
        let other = scope.spawn(|| resubmit(two, id));
        [resubmit(one, id), other.join().unwrap()]
    });
    let mut statuses = responses.each_ref().map(|response| response.status);
    statuses.sort_unstable();
    let texts = responses.each_ref().map(Response::text);
    assert_eq!(statuses, [200, 409], "{texts:?}");
    let rejected = responses.iter().find(|response| response.status == 409).unwrap().json();
    assert!(rejected["reason"] == "sending" || rejected["reason"] == "settled", "{rejected}");
    assert_eq!(backend.again(id), 1, "{texts:?}");
}

#[test]
fn of_two_operators_on_two_nodes_one_sends() {
    let (database, backend) = (Postgres::start(), Backend::start());
    let members = ["one", "two"].map(|name| backend.member(name, database.addr()));
    know_each_other(&members);
    let [one, two] = members.each_ref().map(|member| &member.server);
    let count = repetitions(20);
    let ids: Vec<String> =
        (0..count).map(|number| failed(if number % 2 == 0 { one } else { two })).collect();
    backend.heal();
    for id in &ids {
        is_sent_once(&backend, [one, two], id);
    }
    // By the owner, who has it in its records.
    let shown = json(two, &["show", &ids[0], "--json"]);
    assert_eq!((&shown["node"], &shown["resolution"]), (&"one".into(), &"resubmitted".into()));
    let succeeded = "SELECT count(*) FROM weir.attempt WHERE state = 'succeeded' AND status = 200";
    eventually("the database knows", || database.query(succeeded) == count.to_string());
    let audit = text(one, &["audit", "--json", "--node", "here", "--subject", &ids[0]]);
    let resubmits = audit.lines().filter(|line| line.contains("\"resubmit\"")).count();
    assert_eq!(resubmits, 2, "of both operators: {audit}");
}

#[test]
fn of_two_nodes_with_the_same_transaction_one_sends() {
    let (database, backend) = (Postgres::start(), Backend::start());
    let count = repetitions(20);
    let (twins, ids) = backend.twins(database.addr(), count);
    let [one, two] = twins.each_ref().map(|member| &member.server);
    backend.heal();
    for id in &ids {
        is_sent_once(&backend, [one, two], id);
    }
    let states = "SELECT state, count(*) FROM weir.attempt GROUP BY state";
    eventually("all have ended", || database.query(states) == format!("succeeded|{count}"));
    // Each of them knows from the other, although its own records say that it is open.
    for server in [one, two] {
        assert!(ids.iter().all(|id| resubmit(server, id).status == 409));
    }
    // Bulk resubmission neither.
    let new = "{\"query\": \"state:failed\", \"run\": true}";
    let job = ask(one, "POST", "/v1/jobs", Some(&first_token(one)), new).json();
    assert!(job["number"].is_number(), "{job}");
    let finished = || {
        let path = format!("/v1/jobs/{}", job["number"]);
        ask(one, "GET", &path, Some(&first_token(one)), "").json()["state"] == "finished"
    };
    eventually("the job has ended", finished);
    assert!(ids.iter().all(|id| backend.again(id) == 1));
}

#[test]
fn without_the_database_nothing_is_sent() {
    let (database, backend) = (Postgres::start(), Backend::start());
    let mut relay = Relay::new(database.addr());
    let one = backend.member("one", relay.addr());
    eventually("it has joined", || is_up(&one.server));
    let failed = failed(&one.server);
    backend.heal();
    relay.set(Mode::Refuse);
    let response = resubmit(&one.server, &failed);
    assert_eq!(response.status, 503, "{}", response.text());
    assert_eq!(response.json()["type"], "urn:weir:problem:no-database");
    assert_eq!(backend.again(&failed), 0);
    let shown = json(&one.server, &["show", &failed, "--json"]);
    assert_eq!(shown.get("attempts"), None, "{shown}");
    relay.set(Mode::Pass);
    eventually("it is sent", || resubmit(&one.server, &failed).status == 200);
    assert_eq!(backend.again(&failed), 1);
}

#[test]
fn a_claim_whose_response_is_lost_is_not_sent_and_not_left_behind() {
    let (database, backend) = (Postgres::start(), Backend::start());
    let relay = Relay::new(database.addr());
    let one = backend.member("one", relay.addr());
    eventually("it has joined", || is_up(&one.server));
    let failed = failed(&one.server);
    // Nothing else is committed in a transaction from now on.
    eventually("the call is replicated", || fleet_calls(&one.server) == 1);
    backend.heal();
    let lost = (1..=20).any(|round| {
        relay.cut_after(b"COMMIT");
        let response = resubmit(&one.server, &failed);
        assert_eq!(response.status, 503, "{round}: {}", response.text());
        relay.lost_responses() > 0
    });
    assert!(lost);
    assert_eq!(backend.again(&failed), 0);
    let left = "SELECT count(*) FROM weir.attempt";
    eventually("it is withdrawn", || is_up(&one.server) && database.query(left) == "0");
    eventually("it is sent", || resubmit(&one.server, &failed).status == 200);
    assert_eq!(backend.again(&failed), 1);
}

#[test]
fn an_attempt_of_a_node_that_was_killed_is_unknown_from_then_on() {
    let (database, backend) = (Postgres::start(), Backend::start());
    let mut members = ["one", "two"].map(|name| backend.member(name, database.addr()));
    know_each_other(&members);
    for member in &mut members {
        member.server.kill();
        member.server.restart(&[(KILL_AT, "resubmit.claimed")]);
    }
    know_each_other(&members);
    let [one, two] = &mut members;
    let failed = [failed(&one.server), failed(&two.server)];
    let state = |id: &String| {
        database.query(&format!("SELECT state FROM weir.attempt WHERE original = '{id}'"))
    };
    // Both end before they have sent it.
    for (member, id) in [(&mut *one, &failed[0]), (&mut *two, &failed[1])] {
        let path = format!("/v1/transactions/{id}/resubmit");
        let token = first_token(&member.server);
        let mut client = member.server.connect_admin();
        client.send(format!(
            "POST {path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {token}\r\n\
             content-length: 0\r\n\r\n"
        ));
        member.server.wait();
        assert_eq!(state(id), "sending");
    }
    one.server.restart(&[]);
    eventually("it has settled its own", || state(&failed[0]) == "unknown");
    assert_eq!(state(&failed[1]), "sending");
    let refused = resubmit(&one.server, &failed[0]);
    assert_eq!((refused.status, &refused.json()["reason"]), (409, &"unknown".into()));
    // The other one does not come back.
    eventually("its lease has ended", || states(&one.server).contains(&"two down".to_owned()));
    text(&one.server, &["fleet", "retire", "two"]);
    assert_eq!(state(&failed[1]), "unknown");
    assert!(failed.iter().all(|id| backend.again(id) == 0));
}
