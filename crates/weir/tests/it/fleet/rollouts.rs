//! Versions of the configuration: pushed, rolled out in stages, rolled back.

use super::node::{json, status, text};
use crate::admin_api::{command, first_token};
use crate::harness::{Postgres, Server, Signal, Weir, eventually, weir};
use serde_json::Value;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// The own file of a node: no API.
fn own(database: SocketAddr) -> String {
    format!(
        "listen: [{{addr: \"127.0.0.1:0\"}}]\n\
         workers: 1\n\
         fleet: {{node: \"${{env:NODE}}\", config: {{source: fleet, stage: 3s}},\n  \
         postgres: {{url: \"{}\", password: {}}}}}\n",
        Postgres::url_at(database),
        Postgres::PASSWORD,
    )
}

fn node(name: &str, database: SocketAddr) -> Weir {
    Weir::new(&own(database)).env("NODE", name)
}

/// Three nodes that know each other.
fn three(database: SocketAddr) -> [Server; 3] {
    let nodes = ["a", "b", "c"].map(|name| node(name, database).start());
    let live = |node: &Server| {
        let status = status(node);
        let all = status["nodes"].as_array().expect("nodes").clone();
        all.iter().filter(|one| one["state"] == "live" && one["in_force"]["ready"] == true).count()
    };
    eventually("all have joined", || nodes.iter().all(|node| live(node) == 3));
    nodes
}

/// Responds with this text.
fn version(text: &str) -> String {
    format!("apis: {{x: {{base: /, routes: [{{get: /, reply: {{text: {text}}}}}]}}}}\n")
}

/// Writes the main file of a version beside a node and pushes it from there; the output.
fn push(node: &Server, text: &str, more: &[&str]) -> (bool, String, String) {
    let folder = node.dir().join("pushed");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("weir.yaml"), text).unwrap();
    command(node, &first_token(node), &[&["push", "pushed"], more].concat())
}

/// The latest rollout, as the database has it.
fn rollout(node: &Server) -> Value {
    json(node, &["rollout", "status", "--json"])
}

fn state(node: &Server) -> String {
    rollout(node)["rollout"]["state"].as_str().unwrap_or_default().to_owned()
}

/// The text that a node responds with.
fn served(node: &Server) -> String {
    String::from_utf8_lossy(&node.connect().get("/").body).into_owned()
}

/// Waits until version 1 is that of all nodes.
fn first_version(nodes: &[Server]) {
    let (ok, _, err) = push(&nodes[0], &version("one"), &["--rollout"]);
    assert!(ok, "{err}");
    eventually("version 1 is rolled out", || state(&nodes[0]) == "succeeded");
    eventually("all serve it", || nodes.iter().all(|node| served(node) == "one"));
    // It was in force for a stage: from now on it is the last good one.
    let good = |node: &Server| {
        let state = std::fs::read(node.data().join("config/state.json")).unwrap_or_default();
        let state: Value = serde_json::from_slice(&state).unwrap_or_default();
        state["good"] == 1 && state["trying"].is_null()
    };
    eventually("it is good", || nodes.iter().all(good));
}

/// Starts the rollout of a version from node `a`, so that `b` is the first to try it.
fn start(nodes: &[Server], text: &str) {
    let (ok, _, err) = push(&nodes[0], text, &["--rollout"]);
    assert!(ok, "{err}");
    let first = rollout(&nodes[0])["rollout"]["nodes"][0].clone();
    assert_eq!(first, status(&nodes[1])["node"]);
}

/// Waits for the end of a rollout that fails, and for its rollback; the verdict.
fn failed(nodes: &[Server]) -> String {
    eventually("it has failed", || state(&nodes[0]) == "failed");
    let last = rollout(&nodes[0]);
    assert_eq!(last["rollout"]["stage"], "one", "{last}");
    assert_eq!(last["version"], 1, "{last}");
    let findings = |node: &Server| status(node)["findings"].to_string();
    eventually("every node knows", || findings(&nodes[0]).contains("rollout-failed"));
    last["rollout"]["verdict"].as_str().unwrap_or_default().to_owned()
}

/// Sends requests to nodes all the time; each must succeed.
struct Traffic {
    stop: Arc<AtomicBool>,
    sent: Arc<AtomicUsize>,
    threads: Vec<JoinHandle<()>>,
}

impl Traffic {
    fn start(nodes: &[&Server]) -> Self {
        let (stop, sent) = (Arc::<AtomicBool>::default(), Arc::<AtomicUsize>::default());
        let threads = nodes.iter().map(|node| {
            let (stop, sent, mut client) = (Arc::clone(&stop), Arc::clone(&sent), node.connect());
            std::thread::spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    let response = client.get("/");
                    assert_eq!((response.status, &response.body[..]), (200, &b"one"[..]));
                    sent.fetch_add(1, Ordering::Relaxed);
                    std::thread::sleep(Duration::from_millis(2));
                }
            })
        });
        Self { threads: threads.collect(), stop, sent }
    }

    fn finish(self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads {
            thread.join().expect("every request has succeeded");
        }
        assert!(self.sent.load(Ordering::Relaxed) > 0);
    }
}

#[test]
fn a_version_is_rolled_out_in_stages_and_a_node_starts_with_it_without_the_database() {
    let mut database = Postgres::start();
    let mut nodes = three(database.addr());
    assert_eq!(nodes[0].connect().get("/").status, 404);
    first_version(&nodes);
    start(&nodes, &version("two"));
    eventually("one node has it", || served(&nodes[1]) == "two");
    eventually("version 2 is rolled out", || state(&nodes[0]) == "succeeded");
    eventually("all serve it", || nodes.iter().all(|node| served(node) == "two"));
    let table = text(&nodes[0], &["fleet", "status"]);
    assert!(table.contains("version 2") && table.contains(" (2)"), "{table}");
    assert!(text(&nodes[0], &["rollout", "versions"]).contains("VERSION"));
    let last = rollout(&nodes[0]);
    let compared = last["rollout"]["compared"]["nodes"].as_object().expect("what was compared");
    assert_eq!(compared.len(), 3, "{last}");
    assert_eq!(nodes[1].metric("weir_config_version", &[]), 2.0);
    // The folders of the nodes differ, their configurations do not.
    let digests = "SELECT count(DISTINCT digest) FROM weir.node";
    eventually("they are equal", || database.query(digests) == "1");
    // All return at once. The one before is the last good version of a node from now on.
    assert!(text(&nodes[2], &["rollback"]).contains("version 1"));
    eventually("all are back", || nodes.iter().all(|node| served(node) == "one"));
    // Repeated, it does not change the version to return to.
    assert!(text(&nodes[2], &["rollback", "1"]).contains("version 1"));
    let base = "SELECT base FROM weir.rollout r, weir.fleet f WHERE r.id = f.rollout";
    assert_eq!(database.query(base), "2");
    let audit = text(&nodes[2], &["audit", "--json", "--node", "here", "--action", "roll-back"]);
    assert!(audit.contains("roll-back"), "{audit}");
    database.kill_9();
    nodes[1].kill();
    nodes[1].restart(&[]);
    assert_eq!(served(&nodes[1]), "one");
    assert_eq!(nodes[1].connect_admin().get("/readyz").status, 200);
    // So does one whose data folder is restored from a backup.
    let folder = tempfile::tempdir().unwrap();
    let backup = folder.path().join("backup");
    let made = weir(nodes[1].dir(), &["backup", backup.to_str().unwrap(), "--data", "data"]);
    assert!(made.status.success(), "{made:?}");
    let restored = node("r", database.addr());
    let data = restored.dir().join("data");
    let made = weir(
        restored.dir(),
        &["restore", backup.to_str().unwrap(), "--data", data.to_str().unwrap()],
    );
    assert!(made.status.success(), "{made:?}");
    assert_eq!(served(&restored.start()), "one");
}

#[test]
fn a_node_that_had_proven_a_version_does_not_start_with_it_after_the_rollout_was_aborted() {
    let database = Postgres::start();
    let mut nodes = three(database.addr());
    first_version(&nodes);
    // A failover may lose a push: its number is not used again.
    database.query("UPDATE weir.fleet SET pushed = 0");
    start(&nodes, &version("two"));
    let stage = "SELECT stage FROM weir.rollout ORDER BY id DESC LIMIT 1";
    eventually("the first stage has ended", || database.query(stage) != "one");
    assert_eq!(served(&nodes[1]), "two");
    text(&nodes[0], &["rollout", "abort"]);
    eventually("it is back", || served(&nodes[1]) == "one");
    nodes[1].kill();
    nodes[1].restart(&[]);
    assert_eq!(served(&nodes[1]), "one");
}

#[test]
fn a_node_that_restarts_during_a_stage_tries_the_version_again() {
    let database = Postgres::start();
    let mut nodes = three(database.addr());
    first_version(&nodes);
    start(&nodes, &version("two"));
    eventually("it tries the version", || served(&nodes[1]) == "two");
    nodes[1].signal(Signal::TERM);
    nodes[1].wait();
    nodes[1].restart(&[]);
    assert_eq!(served(&nodes[1]), "one", "not yet proven");
    eventually("the rollout ends", || state(&nodes[0]) != "running");
    assert_eq!(state(&nodes[0]), "succeeded", "{}", rollout(&nodes[0]));
    eventually("all serve it", || nodes.iter().all(|node| served(node) == "two"));
}

#[test]
fn an_outage_of_the_database_does_not_end_a_rollout() {
    let mut database = Postgres::start();
    let nodes = three(database.addr());
    first_version(&nodes);
    start(&nodes, &version("two"));
    eventually("it tries the version", || served(&nodes[1]) == "two");
    database.kill_9();
    // Every lease ends: nobody knows who is live when it is back.
    std::thread::sleep(Duration::from_secs(13));
    assert_eq!((served(&nodes[0]), served(&nodes[1])), ("one".to_owned(), "two".to_owned()));
    database.restart();
    eventually("they are connected", || nodes.iter().all(super::node::is_up));
    eventually("the rollout ends", || state(&nodes[0]) != "running");
    assert_eq!(state(&nodes[0]), "succeeded", "{}", rollout(&nodes[0]));
    eventually("all serve it", || nodes.iter().all(|node| served(node) == "two"));
}

#[test]
fn a_new_node_is_ready_when_it_has_the_version_of_the_fleet() {
    let mut database = Postgres::start();
    let first = [node("a", database.addr()).start()];
    eventually("it has joined", || super::node::is_up(&first[0]));
    // There is no version yet.
    assert_eq!(first[0].connect_admin().get("/readyz").status, 200);
    first_version(&first);
    database.kill_9();
    let new = node("b", database.addr()).start();
    let response = new.connect_admin().get("/readyz");
    assert_eq!((response.status, response.json()["title"].is_string()), (503, true));
    assert!(response.text().contains("no-version"), "{}", response.text());
    database.restart();
    eventually("it is ready", || new.connect_admin().get("/readyz").status == 200);
    assert_eq!(served(&new), "one");
}

#[test]
fn files_are_in_force_without_versions() {
    let database = Postgres::start();
    let text = format!("{}{}", own(database.addr()), version("files"));
    let fleet = Weir::new(&text).env("NODE", "a").start();
    let files = text.replace("config: {source: fleet, stage: 3s},", "");
    let files = Weir::new(&files).env("NODE", "b").start();
    eventually("both have joined", || {
        [&fleet, &files].iter().all(|node| status(node)["nodes"].as_array().unwrap().len() == 2)
    });
    for node in [&fleet, &files] {
        assert_eq!(served(node), "files");
        assert_eq!(node.connect_admin().get("/readyz").status, 200);
    }
    // A version is for nodes that take versions.
    let (ok, _, err) = push(&files, &version("one"), &[]);
    assert!(!ok && err.contains("This node does not take versions"), "{err}");
    assert!(!files.data().join("config").exists());
    let only = "plans: {p: {rate: 5/s}}\n";
    let (ok, _, err) = push(&fleet, only, &["--rollout"]);
    assert!(ok, "{err}");
    eventually("it is rolled out", || state(&fleet) == "succeeded");
    let nodes = status(&fleet)["nodes"].clone();
    assert_eq!(
        (&nodes[0]["in_force"]["version"], &nodes[1]["in_force"]),
        (&1.into(), &Value::Null)
    );
    assert_eq!((served(&fleet), served(&files)), ("files".to_owned(), "files".to_owned()));
    let digests = "SELECT count(DISTINCT digest) FROM weir.node";
    eventually("they differ", || database.query(digests) == "2");
}

#[test]
fn a_node_that_rejects_a_version_ends_its_rollout() {
    let database = Postgres::start();
    let nodes = three(database.addr());
    first_version(&nodes);
    for index in [0, 2] {
        std::fs::write(nodes[index].dir().join("x.pass"), "hunter22").unwrap();
    }
    let traffic = Traffic::start(&[&nodes[0], &nodes[2], &nodes[1]]);
    let secret = "upstreams: {u: {targets: [\"http://127.0.0.1:9\"], \
                  auth: {basic: {user: u, password: \"file:x.pass\"}}}}\n\
                  apis: {x: {base: /, routes: [{path: \"/*\", proxy: u}]}}\n";
    start(&nodes, secret);
    let verdict = failed(&nodes);
    assert!(verdict.contains("b rejected it") && verdict.contains("x.pass"), "{verdict}");
    traffic.finish();
    // A version of a later release is not tried.
    let (ok, out, _) = push(&nodes[0], &version("late"), &[]);
    assert!(ok && out.contains("version 3"), "{out}");
    database.query("UPDATE weir.config SET min_weir = '9.9.9' WHERE number = 3");
    assert!(text(&nodes[0], &["rollout", "start", "3"]).contains("running"));
    eventually("it is the third", || rollout(&nodes[0])["rollout"]["version"] == 3);
    let verdict = failed(&nodes);
    assert!(verdict.contains("needs weir 9.9.9"), "{verdict}");
}

#[test]
fn a_node_that_ends_while_it_tries_a_version_starts_with_the_last_good_one() {
    let database = Postgres::start();
    let mut nodes = three(database.addr());
    first_version(&nodes);
    let traffic = Traffic::start(&[&nodes[0], &nodes[2]]);
    start(&nodes, &version("two"));
    eventually("it tries the version", || served(&nodes[1]) == "two");
    nodes[1].kill();
    nodes[1].restart(&[]);
    assert_eq!(served(&nodes[1]), "one");
    let verdict = failed(&nodes);
    assert!(verdict.contains("b rejected it: the process ended"), "{verdict}");
    // One that does not start any more.
    start(&nodes, &version("three"));
    eventually("it tries the version", || served(&nodes[1]) == "three");
    nodes[1].kill();
    let verdict = failed(&nodes);
    assert!(verdict.contains("b has sent no heartbeat"), "{verdict}");
    traffic.finish();
}

#[test]
fn a_version_that_responds_with_errors_is_rolled_back() {
    let database = Postgres::start();
    let nodes = three(database.addr());
    first_version(&nodes);
    let traffic = Traffic::start(&[&nodes[0], &nodes[2]]);
    let broken = "apis: {x: {base: /, routes: [{get: /, reply: {status: 503, text: no}}]}}\n";
    start(&nodes, broken);
    eventually("it tries the version", || served(&nodes[1]) == "no");
    // As long as it does.
    let mut client = nodes[1].connect();
    eventually("it is rolled back", || {
        (0..50).for_each(|_| drop(client.get("/")));
        state(&nodes[0]) == "failed"
    });
    let verdict = failed(&nodes);
    assert!(verdict.contains("b responded with 5xx"), "{verdict}");
    eventually("it is back", || served(&nodes[1]) == "one");
    traffic.finish();
    // The reason and its figures are in the audit log of the fleet, and in what is shown.
    let last = rollout(&nodes[2]);
    let b = status(&nodes[1])["node"].as_str().expect("an id").to_owned();
    let own = &last["rollout"]["compared"]["nodes"][&b];
    assert!(own["errors"].as_u64() > Some(0), "{last}");
    assert_eq!(last["rollout"]["compared"]["others"]["errors"], 0, "{last}");
    let shown = text(&nodes[2], &["rollout", "status"]);
    assert!(shown.contains("compared with") && shown.contains("b responded with 5xx"), "{shown}");
    let entries = || text(&nodes[2], &["audit", "--json", "--action", "roll-back"]);
    eventually("it is in the audit log", || entries().contains("b responded with 5xx"));
    assert_eq!(entries().matches("roll-back").count(), 1, "{}", entries());
    let rollbacks = nodes.iter().map(|node| node.metric("weir_config_rollbacks_total", &[]));
    assert_eq!(rollbacks.sum::<f64>(), 1.0);
}

#[test]
fn of_two_rollouts_one_starts_and_goes_on_when_its_driver_ends() {
    let database = Postgres::start();
    let mut nodes = three(database.addr());
    first_version(&nodes);
    assert!(push(&nodes[0], &version("two"), &[]).0);
    let start = |node: &Server| command(node, &first_token(node), &["rollout", "start", "2"]);
    let results = std::thread::scope(|scope| {
        let threads = [&nodes[0], &nodes[2]].map(|node| scope.spawn(move || start(node)));
        threads.map(|thread| thread.join().unwrap())
    });
    let rejected: Vec<_> = results.iter().filter(|(ok, ..)| !ok).collect();
    assert_eq!(rejected.len(), 1, "{results:?}");
    assert!(rejected[0].2.contains("(409)"), "{rejected:?}");
    let owner = "SELECT n.name FROM weir.task t JOIN weir.node n ON n.id = t.owner
         WHERE t.name = 'rollout' AND t.until > now() AND EXISTS (
             SELECT FROM weir.rollout r WHERE r.state = 'running' AND t.owner <> ALL (r.nodes))";
    eventually("another node drives", || !database.query(owner).is_empty());
    assert!(text(&nodes[0], &["rollout", "pause"]).contains("paused"));
    let driver = database.query(&owner.replace("'running'", "'paused'"));
    let index = ["a", "b", "c"].iter().position(|name| *name == driver).expect("a driver");
    nodes[index].signal(Signal::KILL);
    nodes[index].wait();
    let rest: Vec<&Server> =
        nodes.iter().enumerate().filter(|(at, _)| *at != index).map(|(_, node)| node).collect();
    // Longer than a stage, and than the task of a driver that has ended: it does not go on.
    std::thread::sleep(Duration::from_secs(20));
    assert_eq!(state(rest[0]), "paused");
    let stage = "SELECT stage FROM weir.rollout ORDER BY id DESC LIMIT 1";
    assert_eq!(database.query(stage), "one");
    assert!(text(rest[0], &["rollout", "resume"]).contains("running"));
    eventually("another one goes on", || state(rest[0]) == "succeeded");
    eventually("the others have it", || rest.iter().all(|node| served(node) == "two"));
    // The one that was down takes it when it is back.
    nodes[index].restart(&[]);
    eventually("all have it", || nodes.iter().all(|node| served(node) == "two"));
}

#[test]
fn versions_with_errors_or_secrets_are_not_stored() {
    let database = Postgres::start();
    let node = node("a", database.addr()).start();
    eventually("it has joined", || super::node::is_up(&node));
    let (ok, _, err) = push(&node, "apis: {x: {bass: /}}\n", &[]);
    let excerpt = "did you mean `base`?";
    assert!(!ok && err.contains(excerpt) && err.contains("pushed/weir.yaml:1:"), "{err}");
    // Nothing is sent for that: nobody listens there.
    for wrong in ["apis: {x: {bass: /}}\n", "apis: [\n", "apis: {x: {base: 5, routes: []}}\n"] {
        std::fs::write(node.dir().join("pushed/weir.yaml"), wrong).unwrap();
        let nowhere = ["push", "pushed", "--admin", "http://127.0.0.1:1"];
        let output = weir(node.dir(), &nowhere);
        assert_eq!(output.status.code(), Some(2), "{wrong} {output:?}");
    }
    let secret = "upstreams: {u: {targets: [\"http://127.0.0.1:9\"], \
                  auth: {basic: {user: u, password: hunter22}}}}\n";
    let (ok, _, err) = push(&node, secret, &[]);
    assert!(!ok && err.contains("literal-secret") && !err.contains("hunter22"), "{err}");
    // What the own file has, or what only a restart changes.
    let (ok, _, err) = push(&node, "workers: 3\n", &[]);
    assert!(!ok && err.contains("in the own file"), "{err}");
    let (ok, _, err) = push(&node, &format!("tracker: {{enabled: true}}\n{}", version("x")), &[]);
    assert!(!ok && err.contains("needs-restart"), "{err}");
    assert_eq!(database.query("SELECT count(*) FROM weir.config"), "0");
    let (ok, _, err) = command(&node, &first_token(&node), &["rollout", "start", "1"]);
    assert!(!ok && err.contains("Unknown version"), "{err}");
    let (ok, _, err) = command(&node, &first_token(&node), &["rollout", "abort"]);
    assert!(!ok && err.contains("no rollout is active"), "{err}");
    // A rollback is no way around the stages.
    let (ok, _, err) = push(&node, &version("one"), &[]);
    assert!(ok, "{err}");
    let (ok, _, err) = command(&node, &first_token(&node), &["rollback", "1"]);
    assert!(!ok && err.contains("was never in force"), "{err}");
}
