//! Any node exports the transactions of all, and an export that lacks some does not look complete.

use super::backend::Backend;
use super::node::{
    KEY, Member, member, members, members_with_transactions, states, text, transaction,
};
use crate::admin_api::{command, first_token, get, id, tokens};
use crate::harness::{Mode, Postgres, Server, eventually};
use serde_json::Value;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};

/// The lines of an export, the last one first.
fn export(server: &Server, query: &str) -> (Value, Vec<Value>) {
    let path = format!("/v1/transactions/export?{query}");
    let response = get(server, &path, &first_token(server));
    assert_eq!(response.status, 200, "{path}: {}", response.text());
    let text = response.text();
    let lines = text.lines().filter(|line| !line.is_empty());
    let mut lines: Vec<Value> = lines.map(|line| serde_json::from_str(line).unwrap()).collect();
    (lines.pop().expect("a last line"), lines)
}

/// `ID NODE` of exported transactions.
fn shown(lines: &[Value]) -> Vec<String> {
    let word = |line: &Value, key: &str| line[key].as_str().unwrap_or("-").to_owned();
    lines.iter().map(|line| format!("{} {}", word(line, "id"), word(line, "node"))).collect()
}

#[test]
fn any_node_exports_the_transactions_of_all_newest_first() {
    let database = Postgres::start();
    let (nodes, expected) = members_with_transactions(database.addr());
    for node in &nodes {
        let (end, lines) = export(&node.server, "");
        assert_eq!(shown(&lines), expected);
        let end = &end["end"];
        assert_eq!((&end["transactions"], &end["cut"]), (&9.into(), &false.into()), "{end}");
        assert_eq!((&end["incomplete"], &end["nodes"]["queried"]), (&false.into(), &3.into()));
        assert!(lines.iter().all(|line| line["payload"].is_object()), "{:?}", lines[0]);
        // In parts, each by the cursor of the one before.
        for limit in [1, 2, 4] {
            let (mut all, mut cursor) = (Vec::new(), String::new());
            loop {
                let (end, lines) = export(&node.server, &format!("limit={limit}{cursor}"));
                all.extend(shown(&lines));
                let Some(next) = end["end"]["next"].as_str() else { break };
                assert_eq!(lines.len(), limit, "{end}");
                cursor = format!("&cursor={next}");
            }
            assert_eq!(all, expected, "{limit}");
        }
    }
    let one = &nodes[0].server;
    let of_two: Vec<String> =
        expected.iter().filter(|line| line.ends_with(" two")).cloned().collect();
    let (end, lines) = export(one, "node=two&limit=2");
    assert_eq!(shown(&lines), of_two[..2]);
    let cursor = end["end"]["next"].as_str().unwrap();
    assert_eq!(shown(&export(one, &format!("node=two&cursor={cursor}")).1), of_two[2..]);
    assert_eq!(export(one, "node=here").1.len(), 3);
    let unknown = get(one, "/v1/transactions/export?node=four", &first_token(one));
    assert_eq!(unknown.status, 400, "{}", unknown.text());
    // The command.
    assert_eq!(text(one, &["search", "--export"]).lines().count(), 9);
    assert_eq!(text(one, &["search", "--export", "--node", "two"]).lines().count(), 3);
    assert_eq!(text(one, &["search", "--export", "--node", "here"]).lines().count(), 3);
}

#[test]
fn the_owner_enforces_the_role_and_audits_the_export() {
    let database = Postgres::start();
    let [one, two] = members(database.addr(), ["one", "two"]);
    transaction(&two.server);
    let [viewer, payload_viewer, ..] = &tokens(&one.server)[..] else { panic!("no tokens") };
    let exported = |token: &str, query: &str| {
        get(&one.server, &format!("/v1/transactions/export?{query}"), token)
    };
    let line = |token: &str| -> Value {
        let text = exported(token, "").text();
        serde_json::from_str(text.lines().find(|line| !line.is_empty()).unwrap()).unwrap()
    };
    assert_eq!(line(viewer).get("payload"), None);
    assert!(line(payload_viewer)["payload"].is_object());
    for query in ["q=body:hi", "q=body:hi&node=two"] {
        assert_eq!(exported(viewer, query).status, 403, "{query}");
    }
    let audit =
        text(&two.server, &["audit", "--json", "--node", "here", "--who", "payload-viewer"]);
    assert_eq!(audit.lines().count(), 1, "{audit}");
    assert!(audit.contains("\"export\""), "{audit}");
}

#[test]
fn a_node_without_a_response_is_named_at_the_end_and_the_command_fails() {
    let database = Postgres::start();
    let [one, mut two] = members(database.addr(), ["one", "two"]);
    let mine = transaction(&one.server);
    transaction(&two.server);
    two.relay.set(Mode::BlackHole);
    let (end, lines) = export(&one.server, "");
    assert_eq!(shown(&lines), [format!("{mine} one")]);
    let end = &end["end"];
    assert_eq!((&end["incomplete"], &end["cut"]), (&true.into(), &false.into()), "{end}");
    assert_eq!(end["nodes"]["missing"][0]["name"], "two", "{end}");
    let (ok, out, err) = command(&one.server, &first_token(&one.server), &["search", "--export"]);
    assert!(!ok && out.lines().count() == 1, "{out}{err}");
    assert!(err.contains("the export is incomplete: 1 of 2 nodes responded (two: "), "{err}");
    let path = "/v1/transactions/export?node=two";
    let only = get(&one.server, path, &first_token(&one.server));
    assert_eq!(only.status, 503, "{}", only.text());
    assert!(only.text().contains("two"), "{}", only.text());
}

/// `weir search --export` whose output waits to be read.
fn start_export(server: &Server) -> Child {
    Command::new(env!("CARGO_BIN_EXE_weir"))
        .args(["search", "--export", "--admin"])
        .arg(format!("http://{}", server.admin.unwrap()))
        .env("WEIR_TOKEN", first_token(server))
        .current_dir(server.dir())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Nodes of which the second has more than sockets hold, older than what the others have.
fn with_much_on_two(backend: &Backend, database: &Postgres, count: usize) -> [Member; 3] {
    backend.heal();
    let members = ["one", "two", "three"].map(|name| backend.member(name, database.addr()));
    super::node::know_each_other(&members);
    let mut client = members[1].server.connect();
    let body = "x".repeat(64 << 10);
    for number in 0..count {
        assert_eq!(client.post(&format!("/orders/{number}"), &body).status, 200);
    }
    for member in [&members[0], &members[2]] {
        assert_eq!(member.server.connect().post("/orders/1", "{}").status, 200);
    }
    members
}

#[test]
fn a_node_that_is_killed_in_the_middle_ends_the_export_with_its_name() {
    let (database, backend) = (Postgres::start(), Backend::start());
    let mut nodes = with_much_on_two(&backend, &database, 600);
    let mut child = start_export(&nodes[0].server);
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let first: Vec<String> = lines.by_ref().take(5).map(Result::unwrap).collect();
    assert!(first[4].contains("\"node\":\"two\""), "{}", &first[4][..200]);
    nodes[1].server.kill();
    let rest = lines.map(Result::unwrap).count();
    let mut err = String::new();
    child.stderr.take().unwrap().read_to_string(&mut err).unwrap();
    assert!(5 + rest < 602, "{rest}: nothing was missing");
    assert_eq!(child.wait().unwrap().code(), Some(1), "{err}");
    assert!(err.contains("is incomplete: node two failed after "), "{err}");
    // From then on it is one that does not respond.
    let down = || states(&nodes[0].server).contains(&"two down".to_owned());
    eventually("its lease has ended", down);
    let (end, lines) = export(&nodes[0].server, "");
    assert_eq!(lines.len(), 2);
    let missing = &end["end"]["nodes"]["missing"][0];
    assert_eq!(
        (&missing["name"], &missing["reason"]),
        (&"two".into(), &"it sends no heartbeats".into())
    );
}

#[test]
fn an_export_of_much_takes_little_memory_whoever_reads_it() {
    let (database, backend) = (Postgres::start(), Backend::start());
    let nodes = with_much_on_two(&backend, &database, 1_000);
    let before = nodes[0].server.peak_memory();
    let mut child = start_export(&nodes[0].server);
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let (mut bytes, mut count) = (0, 0);
    for line in lines.map(Result::unwrap) {
        if count == 100 {
            // A reader that takes its time.
            std::thread::sleep(std::time::Duration::from_secs(2));
        }
        (bytes, count) = (bytes + line.len(), count + 1);
    }
    assert!(child.wait().unwrap().success());
    assert_eq!(count, 1_002);
    assert!(bytes > 1_000 * (64 << 10), "{bytes}");
    let more = nodes[0].server.peak_memory() - before;
    assert!(more < 24 << 10, "{more} KiB more than before");
}

#[test]
fn a_fleet_of_one_node_exports_like_others() {
    let database = Postgres::start();
    // No others, but a fleet.
    let one = member("one", database.addr(), KEY);
    eventually("it has joined", || super::node::is_up(&one.server));
    let expected = id(&one.server.connect().get("/"));
    let (end, lines) = export(&one.server, "");
    assert_eq!(shown(&lines), [format!("{expected} one")]);
    assert_eq!(end["end"]["nodes"]["queried"], 1, "{end}");
}
