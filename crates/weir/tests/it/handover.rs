//! One process takes over from another under load, and nothing is lost: no connection, no request,
//! no record, no call.

mod activation;
mod failures;
mod http2;
mod older_data;

use crate::harness::{
    self, Client, Server, Signal, Upstream, Weir, eventually, key_hash, transactions,
};
use crate::monitor::{calls, usage};
use rustix::process::{Pid, kill_process};
use serde_json::Value;
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;

/// Clients of a load.
const CLIENTS: usize = 4;
/// Requests on one connection.
const REQUESTS: usize = 20;
/// The head of each request.
const HEADERS: &str = "Host: localhost\r\nx-key: of acme\r\n\r\n";

/// A process that is not our child.
struct Process(u32);

impl Process {
    fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.0).ok().and_then(Pid::from_raw).expect("a process");
        // It may have ended.
        let _ = kill_process(pid, signal);
    }

    /// Whether it has ended; nobody may have waited for it.
    fn has_ended(&self) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.0)).unwrap_or_default();
        stat.rsplit(") ").next().is_none_or(|rest| rest.is_empty() || rest.starts_with('Z'))
    }

    fn stop(&self) {
        self.signal(Signal::TERM);
        eventually("the process ends", || self.has_ended());
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
    }
}

fn config(target: SocketAddr, more: &str) -> String {
    format!(
        "listen: [{{addr: \"127.0.0.1:0\"}}]\nworkers: 2\ndata: data\ntracker: {{enabled: true}}\n\
         {more}auth: {{keys: {{api_key: {{header: x-key}}}}}}\n\
         plans: {{gold: {{quota: {{calls: 1000000, per: day}}}}}}\n\
         consumers:\n  acme: {{plan: gold, api_keys: [\"{}\"]}}\n\
         upstreams: {{slow: {{targets: [\"http://{target}\"], timeout: 100s}}}}\n\
         apis:\n  all:\n    base: /\n    auth: keys\n    routes:\n      \
         - {{get: /fast, reply: {{text: fast}}}}\n      \
         - {{get: /ws, proxy: {{upstream: slow, upgrade: websocket}}}}\n      \
         - {{path: \"/slow/*\", proxy: slow}}\n",
        key_hash("of acme"),
    )
}

/// Clients that send one request after the other and accept no failure.
struct Load {
    stop: Arc<AtomicBool>,
    answered: Arc<AtomicU64>,
    clients: Vec<JoinHandle<BTreeSet<String>>>,
}

/// Sends requests on one connection; adds their ids.
type Requests = fn(SocketAddr, &mut BTreeSet<String>, &AtomicU64);

impl Load {
    /// A load of HTTP/1.1 requests.
    fn start(addr: SocketAddr) -> Self {
        Self::of(addr, connection)
    }

    fn of(addr: SocketAddr, requests: Requests) -> Self {
        let (stop, answered) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let clients = (0..CLIENTS).map(|_| {
            let (stop, answered) = (Arc::clone(&stop), Arc::clone(&answered));
            std::thread::spawn(move || {
                let mut ids = BTreeSet::new();
                while !stop.load(Ordering::Relaxed) {
                    requests(addr, &mut ids, &answered);
                }
                ids
            })
        });
        let clients = clients.collect();
        Self { stop, answered, clients }
    }

    /// Waits until so many more requests were answered.
    fn more(&self, count: u64) {
        let before = self.answered.load(Ordering::Relaxed);
        let enough = || self.answered.load(Ordering::Relaxed) >= before + count;
        eventually("requests are answered", enough);
    }

    /// The ids of all transactions.
    fn end(self) -> BTreeSet<String> {
        self.stop.store(true, Ordering::Relaxed);
        let ids = self.clients.into_iter().map(|client| client.join());
        ids.flat_map(|ids| ids.expect("every request of this client was answered")).collect()
    }
}

/// Requests on one connection, until the server says that it is the last one.
fn connection(addr: SocketAddr, ids: &mut BTreeSet<String>, answered: &AtomicU64) {
    let mut client = Client::try_connect(addr).expect("no connection is refused");
    for sent in 0..REQUESTS {
        client.send(format!("GET /fast HTTP/1.1\r\n{HEADERS}"));
        let Some(response) = client.try_response() else {
            // A client that paused may meet the end of an idle connection (RFC 9112 section 9.5).
            assert!(sent > 0, "a new connection was closed");
            return;
        };
        assert_eq!(response.status, 200, "{}", response.text());
        assert!(ids.insert(id(&response)), "an id came twice");
        answered.fetch_add(1, Ordering::Relaxed);
        if response.header("connection") == Some("close") {
            return;
        }
    }
}

fn id(response: &harness::Response) -> String {
    response.header("weir-transaction-id").expect("an id").to_owned()
}

/// Runs `weir upgrade`; gives its output and whether it succeeded.
fn upgrade(server: &Server, more: &[&str]) -> (Value, bool) {
    let data = server.data();
    let args = ["upgrade", "--json", "--data", data.to_str().expect("UTF-8")];
    let output = harness::weir(server.dir(), &[&args, more].concat());
    let text = String::from_utf8_lossy(&output.stdout);
    let told = serde_json::from_str(&text);
    let told = told.unwrap_or_else(|_| panic!("{text}{}", String::from_utf8_lossy(&output.stderr)));
    (told, output.status.success())
}

/// Upgrades; gives the new process.
fn upgraded(server: &Server) -> Process {
    let (told, success) = upgrade(server, &[]);
    assert!(success, "{told}\n{}", server.stderr());
    Process(told["upgraded"]["pid"].as_u64().and_then(|pid| pid.try_into().ok()).expect("a pid"))
}

/// Ids in the journal, each of which must be there once.
fn recorded(server: &Server) -> BTreeSet<String> {
    // Threads of a process that is killed may outlive its first one for a moment.
    eventually("the folder is free", || weir_journal::DataLock::acquire(&server.data()).is_ok());
    let all = transactions(&server.data());
    let ids: BTreeSet<String> = all.iter().map(harness::id_of).collect();
    assert_eq!(ids.len(), all.len(), "a transaction is recorded twice");
    ids
}

#[test]
fn two_upgrades_under_load_lose_nothing() {
    let upstream = Upstream::by_hand();
    let mut server = Weir::new(&config(upstream.addr, "")).start();
    // A download that lasts longer than the upgrade.
    let mut slow = server.connect();
    slow.send(format!("GET /slow/1 HTTP/1.1\r\n{HEADERS}"));
    let mut peer = upstream.accept();
    peer.head().expect("a request");
    peer.send("HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhello");
    // A WebSocket, played by hand.
    let mut socket = server.connect();
    socket.send(format!(
        "GET /ws HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n{HEADERS}"
    ));
    let mut chat = upstream.accept();
    chat.head().expect("a request");
    chat.send(
        "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
    );
    let switched = socket.any_response();
    assert_eq!(switched.status, 101);
    let idle = server.connect();

    let load = Load::start(server.listen[0]);
    load.more(200);
    let first = upgraded(&server);
    load.more(200);
    assert!(idle.rest().is_empty(), "an idle connection is closed, not reset");
    // The old process completes what it has begun.
    chat.send([0x81, 2, b'h', b'i']);
    assert_eq!(socket.rest_of(4), 4);
    let (told, success) = upgrade(&server, &[]);
    assert!(
        !success && told["failed"]["reason"].as_str().is_some_and(|r| r.contains("before this"))
    );
    peer.send("world");
    let slow = slow.response();
    assert_eq!(slow.text(), "helloworld");
    drop((socket, chat));
    assert_eq!(server.wait().code(), Some(0), "{}", server.stderr());
    eventually("the first successor adopts the journal", || {
        server.stderr().contains("the old process has ended")
    });

    let second = upgraded(&server);
    load.more(200);
    eventually("the first successor ends", || first.has_ended());
    let mut ids = load.end();
    ids.extend([id(&slow), id(&switched)]);
    let metered = calls(&usage(&server, ""));
    assert_eq!(metered, ids.len() as u64, "every call is metered once");
    second.stop();
    assert_eq!(recorded(&server), ids, "every transaction is recorded once");
}
