//! Jobs of a fleet: any node shows and commands them, another node takes over when the one that runs a job
//! fails, and nothing is sent twice.

use super::backend::{Backend, failed};
use super::node::{Member, know_each_other, states, text};
use crate::admin_api::{ask, first_token, get};
use crate::harness::{Mode, Postgres, Relay, Server, Signal, eventually};
use serde_json::Value;

/// Transactions of each node.
const EACH: usize = 10;

fn members<const N: usize>(
    backend: &Backend,
    database: &Postgres,
    names: [&str; N],
) -> ([Member; N], Vec<String>) {
    let members = names.map(|name| backend.member(name, database.addr()));
    know_each_other(&members);
    let ids = members.iter().flat_map(|one| (0..EACH).map(|_| failed(&one.server))).collect();
    backend.heal();
    (members, ids)
}

fn create(server: &Server, new: &str) -> Value {
    let made = ask(server, "POST", "/v1/jobs", Some(&first_token(server)), new);
    assert_eq!(made.status, 201, "{}", made.text());
    made.json()
}

/// A job that runs at this rate.
fn run(server: &Server, rate: usize) -> i64 {
    let new = format!("{{\"query\": \"state:failed\", \"run\": true, \"rate\": {rate}}}");
    create(server, &new)["number"].as_i64().expect("a number")
}

fn command(server: &Server, job: i64, action: &str) -> u16 {
    let path = format!("/v1/jobs/{job}/{action}");
    ask(server, "POST", &path, Some(&first_token(server)), "").status
}

/// The job as a node shows it; null while that cannot be.
fn shown(server: &Server, job: i64) -> Value {
    let response = get(server, &format!("/v1/jobs/{job}"), &first_token(server));
    if response.status == 200 { response.json() } else { Value::Null }
}

fn state(server: &Server, job: i64) -> String {
    shown(server, job)["state"].as_str().unwrap_or_default().to_owned()
}

/// The number of transactions of a job in a state.
fn count(job: &Value, state: &str) -> u64 {
    let all = job["transactions"].as_array().cloned().unwrap_or_default();
    let counts = all.iter().filter(|one| one["state"] == state);
    counts.map(|one| one["count"].as_u64().unwrap_or_default()).sum()
}

/// The place of the member that runs a job.
fn runner(members: &[Member], names: &[&str], job: i64) -> usize {
    let mut place = None;
    eventually("a node runs it", || {
        let shown = shown(&members[0].server, job);
        place = names.iter().position(|name| shown["node"] == *name);
        place.is_some()
    });
    place.expect("a place")
}

#[test]
fn any_node_shows_and_commands_the_jobs_of_all() {
    let (database, backend) = (Postgres::start(), Backend::start());
    let ([one, two, three], ids) = members(&backend, &database, ["one", "two", "three"]);
    let all = ids.len() as u64;
    let job = create(&one.server, "{\"query\": \"state:failed\"}")["number"].as_i64().unwrap();
    eventually("it is previewed", || state(&two.server, job) == "previewed");
    let previewed = shown(&three.server, job);
    assert_eq!((count(&previewed, "pending"), &previewed["incomplete"]), (all, &false.into()));
    assert!(ids.iter().all(|id| backend.again(id) == 0));
    // Commands of other nodes.
    assert_eq!(command(&two.server, job, "run"), 200);
    eventually("some were sent", || ids.iter().any(|id| backend.again(id) > 0));
    assert_eq!(command(&three.server, job, "pause"), 200);
    eventually("none is in flight", || count(&shown(&one.server, job), "sending") == 0);
    let paused = shown(&one.server, job);
    assert_eq!(paused["state"], "paused", "{paused}");
    assert!(count(&paused, "pending") > 0, "{paused}");
    assert_eq!(command(&one.server, job, "run"), 200);
    eventually("it has ended", || state(&three.server, job) == "finished");
    assert_eq!(count(&shown(&two.server, job), "succeeded"), all);
    assert!(ids.iter().all(|id| backend.again(id) == 1));
    // By its owner, which has the attempt of the job.
    let shown =
        get(&one.server, &format!("/v1/transactions/{}", ids[2 * EACH]), &first_token(&one.server));
    assert_eq!(shown.json()["attempts"][0]["job"], job, "{}", shown.text());
    let table = text(&two.server, &["resubmit", "--jobs"]);
    assert!(table.contains("finished"), "{table}");
    // What succeeded is not sent again.
    let again = run(&three.server, 100);
    eventually("it has ended", || state(&one.server, again) == "finished");
    assert!(ids.iter().all(|id| backend.again(id) == 1));
    assert_eq!(command(&two.server, 17, "run"), 404);
}

#[test]
fn another_node_continues_the_job_of_one_that_was_killed() {
    let (database, backend) = (Postgres::start(), Backend::start());
    let names = ["one", "two", "three"];
    let (mut members, ids) = members(&backend, &database, names);
    backend.hold(true);
    let job = run(&members[0].server, 20);
    let killed = runner(&members, &names, job);
    let own = format!(
        "SELECT count(*) FROM weir.attempt a JOIN weir.node n ON n.id = a.node
         WHERE n.name = '{}' AND a.state = 'sending'",
        names[killed]
    );
    let of_killed = &ids[killed * EACH..(killed + 1) * EACH];
    let arrived = || of_killed.iter().filter(|id| backend.again(id) > 0).count();
    eventually("it sends", || database.query(&own) != "0" && arrived() > 0);
    members[killed].server.kill();
    let in_flight: u64 = database.query(&own).parse().unwrap();
    backend.hold(false);
    let other = &members[(killed + 1) % names.len()].server;
    eventually("another runs it", || {
        let shown = shown(other, job);
        shown["node"].as_str().is_some_and(|name| name != names[killed])
    });
    eventually("what was in flight is unknown", || {
        count(&shown(other, job), "unknown") == in_flight
    });
    let others = (ids.len() - EACH) as u64;
    eventually("the others are sent", || count(&shown(other, job), "succeeded") == others);
    // Nothing of it was sent since; the job waits for the node.
    eventually("it waits for the node", || shown(other, job)["waits_for"][0] == names[killed]);
    assert_eq!(state(other, job), "running");
    text(other, &["fleet", "retire", names[killed], "--lost"]);
    eventually("it has ended", || state(other, job) == "finished");
    let ended = shown(other, job);
    let left = EACH as u64 - in_flight;
    assert_eq!((count(&ended, "unknown"), count(&ended, "refused")), (in_flight, left), "{ended}");
    for (place, id) in ids.iter().enumerate() {
        let sent = backend.again(id);
        assert!(if place / EACH == killed { sent <= 1 } else { sent == 1 }, "{id}: {sent}");
    }
}

#[test]
fn a_node_that_was_stopped_for_longer_than_its_lease_sends_nothing_twice() {
    let (database, backend) = (Postgres::start(), Backend::start());
    let names = ["one", "two"];
    let (members, ids) = members(&backend, &database, names);
    let job = run(&members[0].server, 2);
    let stopped = runner(&members, &names, job);
    eventually("some were sent", || ids.iter().any(|id| backend.again(id) > 0));
    let (stopped, other) = (&members[stopped].server, &members[1 - stopped].server);
    stopped.signal(Signal::STOP);
    eventually("its lease has ended", || {
        states(other).iter().any(|state| state.ends_with(" down"))
    });
    let name = shown(other, job)["node"].clone();
    eventually("the other runs it", || {
        let node = shown(other, job)["node"].clone();
        node.is_string() && node != name || count(&shown(other, job), "succeeded") >= EACH as u64
    });
    let epoch = format!("SELECT epoch FROM weir.task WHERE name = 'job-{job}'");
    eventually("it has the lease", || database.query(&epoch) == "2");
    stopped.signal(Signal::CONT);
    eventually("it has ended", || state(other, job) == "finished");
    assert!(ids.iter().all(|id| backend.again(id) == 1));
    // What was unknown meanwhile is known again.
    eventually("all have succeeded", || count(&shown(other, job), "succeeded") == ids.len() as u64);
}

#[test]
fn without_the_database_jobs_stand_still() {
    let (database, backend) = (Postgres::start(), Backend::start());
    let mut relay = Relay::new(database.addr());
    let one = backend.member("one", relay.addr());
    know_each_other(std::slice::from_ref(&one));
    let ids: Vec<String> = (0..EACH).map(|_| failed(&one.server)).collect();
    backend.heal();
    let job = run(&one.server, 2);
    let sent = || ids.iter().map(|id| backend.again(id)).sum::<usize>();
    eventually("some were sent", || sent() > 0);
    relay.set(Mode::Refuse);
    eventually("it is down", || {
        super::node::findings(&one.server).contains(&"postgres-down".to_owned())
    });
    let before = sent();
    let new =
        ask(&one.server, "POST", "/v1/jobs", Some(&first_token(&one.server)), "{\"query\": \"a\"}");
    assert_eq!((new.status, &new.json()["type"]), (503, &"urn:weir:problem:no-database".into()));
    assert_eq!(command(&one.server, job, "pause"), 503);
    assert_eq!(sent(), before);
    relay.set(Mode::Pass);
    eventually("it has ended", || state(&one.server, job) == "finished");
    assert!(ids.iter().all(|id| backend.again(id) == 1));
}

#[test]
fn transactions_of_a_job_are_listed_and_retried_through_any_node() {
    let (database, backend) = (Postgres::start(), Backend::start());
    let members = ["one", "two"].map(|name| backend.member(name, database.addr()));
    know_each_other(&members);
    let [one, two] = &members;
    let ids: Vec<String> =
        members.iter().flat_map(|member| (0..EACH).map(|_| failed(&member.server))).collect();
    let all = ids.len() as u64;
    // The backend still fails.
    let job = run(&one.server, 500);
    eventually("it has ended", || state(&two.server, job) == "finished");
    assert_eq!(count(&shown(&two.server, job), "failed"), all);
    let list = |filter: &str| {
        let path = format!("/v1/jobs/{job}/items?{filter}");
        get(&two.server, &path, &first_token(&two.server)).json()
    };
    let page = list("state=sent&limit=15");
    let found = page["transactions"].as_array().unwrap();
    assert_eq!((found.len(), &page["matching"]), (15, &all.into()), "{page}");
    assert_eq!((&found[0]["status"], &found[0]["node"]), (&500.into(), &"two".into()), "{page}");
    assert!(found[0]["attempt"].is_string() && found[0]["began"].is_string(), "{page}");
    let rest = list(&format!("state=sent&limit=15&after={}", page["next"].as_str().unwrap()));
    assert_eq!(rest["transactions"].as_array().unwrap().len(), ids.len() - 15);
    assert!(rest["next"].is_null() && list("state=rejected")["matching"] == 0, "{rest}");
    // One succeeds by itself in between, on the other node.
    backend.heal();
    let path = format!("/v1/transactions/{}/resubmit", ids[0]);
    let sent = ask(&two.server, "POST", &path, Some(&first_token(&two.server)), "");
    assert_eq!(sent.json()["state"], "succeeded", "{}", sent.text());
    let settled = format!("SELECT state FROM weir.resolution WHERE id = '{}'", ids[0]);
    eventually("the fleet knows", || database.query(&settled) == "resubmitted");
    let path = format!("/v1/jobs/{job}/retry");
    let made = ask(&two.server, "POST", &path, Some(&first_token(&two.server)), "{\"run\": true}");
    assert_eq!((made.status, &made.json()["retry_of"]), (201, &job.into()), "{}", made.text());
    let retry = made.json()["number"].as_i64().unwrap();
    eventually("it has ended", || state(&one.server, retry) == "finished");
    let over = shown(&one.server, retry);
    assert_eq!((count(&over, "succeeded"), count(&over, "cannot")), (all - 1, 1), "{over}");
    assert!(ids.iter().all(|id| backend.again(id) == 2));
    assert_eq!(shown(&one.server, job)["retries"], serde_json::json!([retry]));
    let nothing = ask(
        &one.server,
        "POST",
        &format!("/v1/jobs/{retry}/retry"),
        Some(&first_token(&one.server)),
        "",
    );
    assert_eq!(nothing.status, 409, "{}", nothing.text());
    retry_with_again(&one.server, &two.server, &backend);
}

/// A job with `again` fails; one of two retries sends its transactions, though they were settled before.
fn retry_with_again(one: &Server, two: &Server, backend: &Backend) {
    let call = |path: &str, body: &str| -> i64 {
        let made = ask(two, "POST", path, Some(&first_token(two)), body);
        assert!(made.status < 300, "{}", made.text());
        made.json()["number"].as_i64().unwrap()
    };
    let ends = |job| {
        eventually("it has ended", || state(one, job) == "finished");
        shown(one, job)
    };
    backend.respond(503);
    let body = "{\"query\": \"state:failed\", \"rate\": 500, \"again\": true, \"run\": true}";
    let job = call("/v1/jobs", body);
    let failed = count(&ends(job), "failed");
    assert!(failed > 0, "{}", shown(one, job));
    let retry = format!("/v1/jobs/{job}/retry");
    let [first, second] = [0, 1].map(|_| call(&retry, ""));
    for (number, expected) in [(first, "failed"), (second, "refused")] {
        call(&format!("/v1/jobs/{number}/run"), "{\"rate\": 500}");
        let over = ends(number);
        assert_eq!(count(&over, expected), failed, "{over}");
    }
    backend.respond(200);
    let third = call(&format!("/v1/jobs/{first}/retry"), "{\"run\": true}");
    assert_eq!(count(&ends(third), "succeeded"), failed);
    let none = call(&retry, "{\"run\": true}");
    assert_eq!(count(&ends(none), "cannot"), failed, "settled since");
    let again = call(&retry, "{\"again\": true, \"run\": true}");
    assert_eq!(count(&ends(again), "succeeded"), failed);
}
