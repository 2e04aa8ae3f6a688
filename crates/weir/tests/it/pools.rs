//! Pools of agents: good ones, bad ones, and what becomes of requests meanwhile.

mod cgi;
mod failures;
mod load;
mod peers;
mod requests;
mod supervision;

use crate::harness::{Client, Response, Server, Weir, eventually};
use serde_json::Value;

/// An agent whose manners are chosen by the path of each request.
const AGENT: &str = include_str!("pools/agent.py");

/// A weir with a pool `p` of that agent, made of these keys beside its command; every path goes to
/// it.
fn start(protocol: &str, keys: &str) -> Server {
    Weir::new(&config(protocol, keys)).file("agent.py", AGENT).start()
}

fn config(protocol: &str, keys: &str) -> String {
    format!(
        "listen: [127.0.0.1:0]
workers: 2
pools:
  p:
    protocol: {protocol}
    command: [python3, -S, agent.py, {protocol}]
    user: {user}
{keys}
apis:
  a:
    base: /
    routes: [{{path: \"/*\", pool: p}}]
  still:
    base: /still
    routes: [{{get: /there, reply: {{text: here}}}}]
",
        user = rustix::process::geteuid().as_raw()
    )
}

/// Both protocols of agents that stay.
const PROTOCOLS: [&str; 2] = ["fastcgi", "http"];

fn get(server: &Server, path: &str) -> Response {
    server.connect().get(path)
}

/// What the admin API tells of the only pool.
fn status(server: &Server) -> Value {
    let pools = crate::pools::ask(server, "GET", "/v1/pools");
    pools.json()["pools"][0].clone()
}

fn ask(server: &Server, method: &str, path: &str) -> Response {
    let token = std::fs::read_to_string(server.data().join("admin.token")).expect("a token");
    let bearer = format!("Bearer {}", token.trim());
    let mut client = server.connect_admin();
    client.request(method, path, &[("Authorization", &bearer)], "")
}

/// Process ids of the agents, ascending.
fn pids(server: &Server) -> Vec<u64> {
    let status = status(server);
    let listed = status["agents"]["pids"].as_array().expect("a list");
    let mut pids: Vec<u64> = listed.iter().filter_map(Value::as_u64).collect();
    pids.sort_unstable();
    pids
}

/// Whether a process is there and has not ended.
fn runs(pid: u64) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat.rsplit_once(") ").map(|(_, rest)| rest.as_bytes().first().copied());
    state.flatten().is_some_and(|state| state != b'Z')
}

/// Waits until every agent is available and there are so many.
fn settled(server: &Server, count: u64) {
    eventually("every agent is available", || {
        let agents = &status(server)["agents"];
        agents["available"] == count
            && ["busy", "starting", "locked"].iter().all(|state| agents[state] == 0)
    });
}

/// A request whose answer nobody has read yet.
fn send(server: &Server, path: &str) -> Client {
    let mut client = server.connect();
    client.send(format!("GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"));
    client
}

/// Lets requests for `/gate` be answered.
fn open(server: &Server) {
    server.replace("open", "");
}

/// Sees an answer break off, so that nobody takes it for whole; or told to have, if nothing of it
/// had been passed on yet.
fn breaks_off(client: Client) {
    let (bytes, _) = client.rest_or_reset();
    let text = String::from_utf8_lossy(&bytes);
    let begun = text.starts_with("HTTP/1.1 200");
    assert!(begun || text.contains("urn:weir:problem:upstream-"), "{text}");
    assert!(!begun || !text.ends_with("0\r\n\r\n") && bytes.len() < 900, "{text}");
}
