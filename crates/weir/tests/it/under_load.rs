//! Reload and stop while clients do not pause. `make soak` makes these last longer.

use crate::harness::{self, Client, Server, Signal, Weir, load_time};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Clients that send one request after the other, half of them through to the upstream.
struct Load {
    stop: Arc<AtomicBool>,
    answered: Arc<AtomicU64>,
    clients: Vec<JoinHandle<()>>,
}

/// Clients at once.
const CLIENTS: usize = 8;
/// Requests on one connection before a client makes a new one.
const REQUESTS: usize = 50;

impl Load {
    fn start(addr: SocketAddr) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let answered = Arc::new(AtomicU64::new(0));
        let clients = (0..CLIENTS)
            .map(|index| {
                let (stop, answered) = (Arc::clone(&stop), Arc::clone(&answered));
                let path = if index % 2 == 0 { "/hosted" } else { "/proxied" };
                std::thread::spawn(move || {
                    while !stop.load(Ordering::Relaxed) {
                        // Nobody listens any more: the end of a stop.
                        let Some(client) = Client::try_connect(addr) else { return };
                        answered.fetch_add(connection(client, path, &stop), Ordering::Relaxed);
                    }
                })
            })
            .collect();
        Self { stop, answered, clients }
    }

    /// Waits for every client; each has panicked if an answer was missing or wrong.
    fn end(self) -> u64 {
        self.stop.store(true, Ordering::Relaxed);
        for client in self.clients {
            client.join().expect("every request of this client was answered");
        }
        self.answered.load(Ordering::Relaxed)
    }

    fn answered(&self) -> u64 {
        self.answered.load(Ordering::Relaxed)
    }
}

/// Requests on one connection; gives how many were answered.
fn connection(mut client: Client, path: &str, stop: &AtomicBool) -> u64 {
    for sent in 0..REQUESTS {
        if stop.load(Ordering::Relaxed) {
            return sent as u64;
        }
        let Some(response) = client.try_get(path) else {
            // A connection that was never accepted is nobody's fault; one that was may not be
            // closed without a word.
            assert_eq!(sent, 0, "closed after {sent} answers that did not say so");
            return 0;
        };
        assert_eq!(response.status, 200, "{}", response.text());
        if response.header("connection") == Some("close") {
            return sent as u64 + 1;
        }
    }
    REQUESTS as u64
}

fn config(echo: &Server, text: &str) -> String {
    format!(
        "listen: [{{addr: \"127.0.0.1:0\"}}]\nworkers: 2\ndrain: {{delay: 500ms}}\n\
         upstreams: {{echo: {{targets: [\"http://{}\"]}}}}\n\
         apis:\n  all:\n    base: /\n    routes:\n      \
         - {{get: /hosted, reply: {{text: {text}}}}}\n      \
         - {{get: /proxied, proxy: echo}}\n",
        echo.listen[0]
    )
}

#[test]
fn reloads_under_load_fail_no_request() {
    let echo = harness::echo(&[]);
    let mut server = Weir::new(&config(&echo, "start")).start();
    let load = Load::start(server.listen[0]);
    let end = Instant::now() + load_time(Duration::from_secs(30));
    let mut reloads = 0;
    while Instant::now() < end {
        reloads += 1;
        std::fs::write(server.dir().join("weir.new"), config(&echo, &format!("v{reloads}")))
            .expect("the folder is writable");
        std::fs::rename(server.dir().join("weir.new"), server.dir().join("weir.yaml"))
            .expect("the folder is writable");
        server.signal(Signal::HUP);
        server.event("reloaded");
        std::thread::sleep(Duration::from_millis(100));
    }
    // A change is seen twice, as a file and as a signal, so events run ahead of the last version.
    let last = format!("v{reloads}");
    while server.connect().get("/hosted").text() != last {
        server.event("reloaded");
    }
    server.no_more("reload-refused");
    let answered = load.end();
    assert!(answered > reloads, "{answered} answers in {reloads} reloads");
}

#[test]
fn a_stop_under_load_leaves_no_request_unanswered() {
    let echo = harness::echo(&[]);
    let mut server = Weir::new(&config(&echo, "hello")).start();
    let load = Load::start(server.listen[0]);
    while load.answered() < 1000 {
        std::thread::sleep(Duration::from_millis(1));
    }
    server.signal(Signal::TERM);
    server.event("draining");
    let stopped = server.event("stopped");
    assert_eq!(stopped["failed"], 0, "{stopped}");
    assert_eq!(server.wait().code(), Some(0));
    load.end();
}
