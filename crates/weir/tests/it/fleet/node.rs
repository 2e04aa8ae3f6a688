//! A node of a fleet in a test.

use crate::admin_api::{command, first_token};
use crate::harness::{PATIENCE, Postgres, Relay, Server, Weir, eventually, free_address};
use serde_json::Value;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

const APIS: &str = "apis: {x: {base: /, routes: [{op: hello, get: /, reply: {text: hi}}]}}\n";

/// The configuration of a node whose database is at this address; `more` is further configuration, with
/// APIs in place of the one that has a single route.
pub(super) fn config(database: SocketAddr, more: &str) -> String {
    let apis = if more.contains("apis:") { "" } else { APIS };
    format!(
        "listen: [{{addr: \"127.0.0.1:0\"}}]\n\
         workers: 1\n\
         fleet: {{node: \"${{env:NODE}}\", postgres: {{url: \"{}\", password: {}}}}}\n\
         monitor: {{count: all}}\n\
         {more}\n{apis}",
        Postgres::url_at(database),
        Postgres::PASSWORD,
    )
}

/// A node with this name.
pub(super) fn node(name: &str, database: SocketAddr, more: &str) -> Weir {
    Weir::new(&config(database, more)).env("NODE", name)
}

/// The result of a command on a node as JSON.
pub(super) fn json(server: &Server, args: &[&str]) -> Value {
    serde_json::from_str(&text(server, args)).unwrap_or_default()
}

/// The output of a command on a node.
pub(super) fn text(server: &Server, args: &[&str]) -> String {
    let (ok, out, err) = command(server, &first_token(server), args);
    assert!(ok, "{args:?}: {err}");
    out
}

/// The state of the fleet as a node knows it.
pub(super) fn status(server: &Server) -> Value {
    json(server, &["fleet", "status", "--json"])
}

/// `NAME STATE` of all nodes, as a node knows them.
pub(super) fn states(server: &Server) -> Vec<String> {
    let status = status(server);
    let nodes = status["nodes"].as_array().expect("nodes");
    let word = |node: &Value, key: &str| node[key].as_str().unwrap_or_default().to_owned();
    nodes.iter().map(|node| format!("{} {}", word(node, "name"), word(node, "state"))).collect()
}

/// The codes of the findings, as a node knows them.
pub(super) fn findings(server: &Server) -> Vec<String> {
    let status = status(server);
    let findings = status["findings"].as_array().expect("findings").clone();
    findings.iter().map(|finding| finding["code"].as_str().unwrap_or_default().to_owned()).collect()
}

/// Whether a node is registered in the database.
pub(super) fn is_up(server: &Server) -> bool {
    server.metric("weir_fleet_up", &["postgres"]) == 1.0
}

/// The calls of the whole fleet, as a node reports them.
pub(super) fn fleet_calls(server: &Server) -> u64 {
    calls(server, &[])
}

/// The calls that a node has counted itself.
pub(super) fn own_calls(server: &Server) -> u64 {
    calls(server, &["--node", "here"])
}

fn calls(server: &Server, args: &[&str]) -> u64 {
    let args = [&["usage", "--by", "api", "--json"], args].concat();
    // Right after a failure of the database there is no report (503): the caller tries again.
    let (_, out, _) = command(server, &first_token(server), &args);
    let report: Value = serde_json::from_str(&out).unwrap_or_default();
    report["calls"].as_u64().unwrap_or_default()
}

/// Sends calls over one connection, each of which must succeed.
pub(super) fn send(server: &Server, calls: usize) {
    let mut client = server.connect();
    for _ in 0..calls {
        assert_eq!(client.get("/").status, 200);
    }
}

/// The key of a fleet.
pub(super) const KEY: &str = "a key of a fleet, of 32 bytes and more";

/// A node whose admin listener others reach through a relay.
pub(super) struct Member {
    pub(super) server: Server,
    pub(super) relay: Relay,
}

impl AsRef<Server> for Member {
    fn as_ref(&self) -> &Server {
        &self.server
    }
}

/// A node that records, and that others query through a relay.
pub(super) fn member(name: &str, database: SocketAddr, key: &str) -> Member {
    member_in(name, database, (key, ""), |weir| weir)
}

/// As [`member`], with more APIs, and prepared by `prepare`.
pub(super) fn member_in(
    name: &str,
    database: SocketAddr,
    (key, apis): (&str, &str),
    prepare: impl FnOnce(Weir) -> Weir,
) -> Member {
    let admin = free_address();
    let relay = Relay::new(admin);
    let text = config(database, "tracker: {enabled: true}");
    let peers = format!("fleet: {{key: \"{key}\", advertise: \"http://{}\", ", relay.addr());
    let text = text.replace("fleet: {", &peers).replace("apis: {", &format!("{apis}apis: {{"));
    let weir = Weir::new(
        &text.replace("apis: {x: {base: /, routes: [", ROUTES[usize::from(!apis.is_empty())]),
    );
    Member { server: prepare(weir.env("NODE", name).admin(admin)).start(), relay }
}

/// Start of the API without and with an upstream `back`.
const ROUTES: [&str; 2] = [
    "apis: {x: {base: /, routes: [",
    "apis: {x: {base: /, routes: [{op: all, path: \"/orders/*\", proxy: back}, ",
];

/// Nodes with these names, each of which knows all others.
pub(super) fn members<const N: usize>(database: SocketAddr, names: [&str; N]) -> [Member; N] {
    let members = names.map(|name| member(name, database, KEY));
    know_each_other(&members);
    members
}

/// Waits until each of these nodes knows all others.
pub(super) fn know_each_other(nodes: &[impl AsRef<Server>]) {
    let known = |server: &Server| server.metric("weir_fleet_nodes", &[]) == nodes.len() as f64;
    eventually("they know each other", || nodes.iter().all(|node| known(node.as_ref())));
}

/// Sends a request to a node; its transaction id.
pub(super) fn transaction(server: &Server) -> String {
    let response = server.connect().get("/");
    assert_eq!(response.status, 200);
    crate::admin_api::id(&response)
}

/// Three nodes and their transactions, by turns: `ID NODE` of each, newest first.
pub(super) fn members_with_transactions(database: SocketAddr) -> ([Member; 3], Vec<String>) {
    let names = ["one", "two", "three"];
    let nodes = members(database, names);
    let mut sent = Vec::new();
    for turn in [0, 1, 2, 1, 1, 0, 2, 2, 0] {
        let id = transaction(&nodes[turn].server);
        sent.insert(0, format!("{id} {}", names[turn]));
    }
    (nodes, sent)
}

/// Copies a data folder. Of one that is in use, a file may vanish meanwhile.
pub(super) fn copy_data(from: &Path, to: &Path) {
    eventually("the folder is copied", || {
        let _ = std::fs::remove_dir_all(to);
        let copied = Command::new("cp").arg("-a").arg(from).arg(to).status();
        copied.is_ok_and(|status| status.success())
    });
}

/// Sends calls at a steady rate, from one thread for each node, until it is dropped; nodes may end
/// meanwhile.
pub(super) struct Load {
    stop: Arc<AtomicBool>,
    clients: Arc<Vec<LoadClient>>,
    threads: Vec<JoinHandle<()>>,
}

/// What a thread sends to a node.
struct LoadClient {
    /// Another one after the node has been restarted.
    addr: Mutex<SocketAddr>,
    responses: AtomicUsize,
    /// Calls without a response: the node may have recorded them.
    unknown: AtomicUsize,
}

impl Load {
    /// Sends a call to each node in each `pause`.
    pub(super) fn start(addresses: &[SocketAddr], pause: Duration) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let client = |addr: &SocketAddr| LoadClient {
            addr: Mutex::new(*addr),
            responses: AtomicUsize::default(),
            unknown: AtomicUsize::default(),
        };
        let clients: Arc<Vec<_>> = Arc::new(addresses.iter().map(client).collect());
        let threads = (0..addresses.len()).map(|index| {
            let (stop, clients) = (Arc::clone(&stop), Arc::clone(&clients));
            std::thread::spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    clients[index].call_until(pause, &stop);
                    std::thread::sleep(pause);
                }
            })
        });
        let threads = threads.collect();
        Self { stop, clients, threads }
    }

    /// A node has another address.
    pub(super) fn moved(&self, index: usize, addr: SocketAddr) {
        *self.clients[index].addr.lock().unwrap() = addr;
    }

    /// The calls that a node has responded to.
    pub(super) fn responses(&self, index: usize) -> usize {
        self.clients[index].responses.load(Ordering::Relaxed)
    }

    /// Ends it; the calls that nodes have responded to, and those that they have not.
    pub(super) fn end(mut self) -> Vec<(usize, usize)> {
        self.join();
        let unknown = |index: usize| self.clients[index].unknown.load(Ordering::Relaxed);
        (0..self.clients.len()).map(|index| (self.responses(index), unknown(index))).collect()
    }

    fn join(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.threads.drain(..).for_each(|thread| drop(thread.join()));
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.join();
    }
}

impl LoadClient {
    /// Sends calls over one connection until it fails.
    fn call_until(&self, pause: Duration, stop: &AtomicBool) {
        let addr = *self.addr.lock().unwrap();
        let Ok(mut stream) = TcpStream::connect(addr) else { return };
        let _ = stream.set_read_timeout(Some(PATIENCE));
        let mut response = [0; 4096];
        while !stop.load(Ordering::Relaxed) {
            let sent = stream.write_all(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n");
            match sent.and_then(|()| stream.read(&mut response)) {
                Ok(read @ 1..) if response[..read].starts_with(b"HTTP/1.1 200") => {
                    self.responses.fetch_add(1, Ordering::Relaxed);
                }
                _ => {
                    self.unknown.fetch_add(1, Ordering::Relaxed);
                    return;
                }
            }
            std::thread::sleep(pause);
        }
    }
}
