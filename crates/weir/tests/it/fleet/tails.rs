//! Any node follows the transactions of all; one that goes away is reported, and continued.

use super::node::{members, text, transaction};
use crate::admin_api::{first_token, get, tokens};
use crate::harness::{Mode, Postgres, Server, eventually};
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};

/// A tail in progress: its lines are read as they arrive.
struct Tail {
    child: Child,
    lines: Arc<Mutex<Vec<Value>>>,
    notes: Arc<Mutex<Vec<String>>>,
}

impl Tail {
    /// Follows with these arguments; ready once all nodes were tried.
    fn start(server: &Server, args: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_weir"))
            .args(["tail", "--json"])
            .args(args)
            .arg("--admin")
            .arg(format!("http://{}", server.admin.unwrap()))
            .env("WEIR_TOKEN", first_token(server))
            .current_dir(server.dir())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let (lines, notes) = (Arc::<Mutex<Vec<_>>>::default(), Arc::<Mutex<Vec<_>>>::default());
        let (kept, out) = (Arc::clone(&lines), child.stdout.take().unwrap());
        std::thread::spawn(move || {
            for line in BufReader::new(out).lines().map_while(Result::ok) {
                kept.lock().unwrap().push(serde_json::from_str(&line).unwrap());
            }
        });
        let (kept, err) = (Arc::clone(&notes), child.stderr.take().unwrap());
        std::thread::spawn(move || {
            for line in BufReader::new(err).lines().map_while(Result::ok) {
                kept.lock().unwrap().push(line);
            }
        });
        Self { child, lines, notes }
    }

    /// `ID NODE` of what has arrived.
    fn shown(&self) -> Vec<String> {
        let word = |line: &Value, key: &str| line[key].as_str().unwrap_or("-").to_owned();
        let lines = self.lines.lock().unwrap();
        lines.iter().map(|line| format!("{} {}", word(line, "id"), word(line, "node"))).collect()
    }

    /// How often a text was noted.
    fn noted(&self, text: &str) -> usize {
        self.notes.lock().unwrap().iter().filter(|note| note.contains(text)).count()
    }

    /// Sends requests to a node until one of them is shown.
    fn wait_for(&self, server: &Server, name: &str) {
        eventually(name, || {
            transaction(server);
            std::thread::sleep(std::time::Duration::from_millis(50));
            self.shown().iter().any(|line| line.ends_with(&format!(" {name}")))
        });
    }
}

impl Drop for Tail {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Each of these has arrived once.
fn has_once(tail: &Tail, expected: &[String]) {
    eventually("all have arrived", || {
        let shown = tail.shown();
        expected.iter().all(|line| shown.contains(line))
    });
    let mut shown = tail.shown();
    shown.sort_unstable();
    let count = shown.len();
    shown.dedup();
    assert_eq!(shown.len(), count, "some arrived twice: {:?}", tail.shown());
}

#[test]
fn a_tail_shows_the_transactions_of_all_nodes_and_says_which_are_gone() {
    let database = Postgres::start();
    let mut nodes = members(database.addr(), ["one", "two", "three"]);
    let tail = Tail::start(&nodes[0].server, &[]);
    for (index, name) in ["one", "two", "three"].into_iter().enumerate() {
        tail.wait_for(&nodes[index].server, name);
    }
    let names = ["one", "two", "three"];
    let mut expected = Vec::new();
    for turn in [0, 1, 2, 1, 1, 0, 2, 2, 0] {
        expected.push(format!("{} {}", transaction(&nodes[turn].server), names[turn]));
    }
    has_once(&tail, &expected);
    nodes[1].server.kill();
    eventually("it is reported", || tail.noted("2 of 3 nodes responded (two: ") == 1);
    // The others go on.
    expected.push(format!("{} three", transaction(&nodes[2].server)));
    has_once(&tail, &expected);
    // What it does before it is followed again is not missing.
    nodes[1].server.restart(&[]);
    for _ in 0..3 {
        expected.push(format!("{} two", transaction(&nodes[1].server)));
    }
    has_once(&tail, &expected);
    eventually("that is reported", || tail.noted("3 of 3 nodes respond") == 1);
}

#[test]
fn what_ends_while_a_node_cannot_be_reached_is_shown_afterwards_once() {
    let database = Postgres::start();
    let [one, mut two] = members(database.addr(), ["one", "two"]);
    let tail = Tail::start(&one.server, &[]);
    tail.wait_for(&two.server, "two");
    let mut expected = Vec::new();
    for round in 1..=3 {
        for _ in 0..5 {
            expected.push(format!("{} two", transaction(&two.server)));
        }
        two.relay.set(Mode::Refuse);
        eventually("it is reported", || tail.noted("1 of 2 nodes responded (two: ") == round);
        for _ in 0..5 {
            expected.push(format!("{} two", transaction(&two.server)));
        }
        two.relay.set(Mode::Pass);
        has_once(&tail, &expected);
        eventually("that is reported", || tail.noted("2 of 2 nodes respond") == round);
    }
}

#[test]
fn a_tail_of_one_node_is_about_that_one() {
    let database = Postgres::start();
    let [one, two] = members(database.addr(), ["one", "two"]);
    let (of_two, here) = (
        Tail::start(&one.server, &["--node", "two"]),
        Tail::start(&one.server, &["--node", "here"]),
    );
    of_two.wait_for(&two.server, "two");
    here.wait_for(&one.server, "-");
    assert!(of_two.shown().iter().all(|line| line.ends_with(" two")), "{:?}", of_two.shown());
    assert!(here.shown().iter().all(|line| line.ends_with(" -")), "{:?}", here.shown());
    let token = first_token(&one.server);
    for (path, status) in [
        ("/v1/transactions/tail?node=four", 400),
        ("/v1/transactions/tail?cursors=true", 400),
        ("/v1/transactions/tail?cursor=1", 400),
        ("/v1/transactions/tail?node=here&cursor=1", 400),
        ("/v1/transactions/tail?node=two&q=stauts:1", 400),
    ] {
        assert_eq!(get(&one.server, path, &token).status, status, "{path}");
    }
}

#[test]
fn the_owner_enforces_the_role_and_audits_the_tail() {
    let database = Postgres::start();
    let [one, two] = members(database.addr(), ["one", "two"]);
    let viewer = &tokens(&one.server)[0];
    for query in ["q=body:hi", "q=body:hi&node=two"] {
        let response = get(&one.server, &format!("/v1/transactions/tail?{query}"), viewer);
        assert_eq!(response.status, 403, "{query}");
    }
    let tail = Tail::start(&one.server, &["body:hi"]);
    tail.wait_for(&two.server, "two");
    let audit = text(&two.server, &["audit", "--json", "--node", "here", "--action", "search"]);
    assert!(audit.contains("body:hi") && audit.contains("tail"), "{audit}");
}

#[test]
fn a_table_has_a_column_for_the_node() {
    let database = Postgres::start();
    let [one, two] = members(database.addr(), ["one", "two"]);
    let mut child = Command::new(env!("CARGO_BIN_EXE_weir"))
        .args(["tail", "--limit", "1", "--admin"])
        .arg(format!("http://{}", one.server.admin.unwrap()))
        .env("WEIR_TOKEN", first_token(&one.server))
        .current_dir(one.server.dir())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    eventually("one arrives", || {
        transaction(&two.server);
        std::thread::sleep(std::time::Duration::from_millis(50));
        child.try_wait().unwrap().is_some()
    });
    let lines: Vec<String> = lines.map(Result::unwrap).collect();
    let column = lines[0].find("NODE").expect("a column");
    assert!(lines.len() == 2 && lines[1][column..].starts_with("two "), "{lines:?}");
}
