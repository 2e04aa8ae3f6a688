//! An upstream behind nodes of a fleet, which counts what is sent again.

use super::node::{KEY, Member, copy_data, is_up, know_each_other, member_in};
use crate::admin_api::id;
use crate::harness::{Server, Signal, Upstream, eventually};
use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// An upstream that fails at first, and notes how often each transaction came again.
pub(super) struct Backend {
    upstream: Upstream,
    status: Arc<AtomicU16>,
    /// Transactions that come again get no response.
    hold: Arc<AtomicBool>,
    again: Arc<Mutex<HashMap<String, usize>>>,
}

impl Backend {
    pub(super) fn start() -> Self {
        let (status, again) =
            (Arc::new(AtomicU16::new(500)), Arc::<Mutex<HashMap<_, _>>>::default());
        let hold = Arc::new(AtomicBool::new(false));
        let (response, counts, held) = (Arc::clone(&status), Arc::clone(&again), Arc::clone(&hold));
        let upstream = Upstream::start(move |_, peer| {
            while peer.request().is_some() {
                let head = peer.last_head();
                let of = head.lines().find_map(|line| line.strip_prefix("weir-resubmission-of: "));
                if let Some(of) = of {
                    *counts.lock().unwrap().entry(of.to_owned()).or_default() += 1;
                    // Long enough for another operator to come in between.
                    std::thread::sleep(Duration::from_millis(100));
                    while held.load(Ordering::SeqCst) {
                        std::thread::sleep(Duration::from_millis(10));
                    }
                }
                let status = response.load(Ordering::SeqCst);
                peer.send(format!("HTTP/1.1 {status} x\r\ncontent-length: 2\r\n\r\nok"));
            }
        });
        Self { upstream, status, hold, again }
    }

    /// Whether transactions that come again wait for their response.
    pub(super) fn hold(&self, hold: bool) {
        self.hold.store(hold, Ordering::SeqCst);
    }

    pub(super) fn heal(&self) {
        self.respond(200);
    }

    pub(super) fn respond(&self, status: u16) {
        self.status.store(status, Ordering::SeqCst);
    }

    /// How often a transaction came again.
    pub(super) fn again(&self, id: &str) -> usize {
        self.again.lock().unwrap().get(id).copied().unwrap_or_default()
    }

    pub(super) fn member(&self, name: &str, database: SocketAddr) -> Member {
        let apis =
            format!("upstreams: {{back: {{targets: [\"http://{}\"]}}}}\n", self.upstream.addr);
        member_in(name, database, (KEY, &apis), |weir| weir)
    }

    /// A node, and a copy of its data folder with another identity; and transactions that both have.
    pub(super) fn twins(&self, database: SocketAddr, count: usize) -> ([Member; 2], Vec<String>) {
        let mut one = self.member("one", database);
        eventually("it has joined", || is_up(&one.server));
        let ids = (0..count).map(|_| failed(&one.server)).collect();
        one.server.signal(Signal::TERM);
        one.server.wait();
        let apis =
            format!("upstreams: {{back: {{targets: [\"http://{}\"]}}}}\n", self.upstream.addr);
        let data = one.server.data();
        let two = member_in("two", database, (KEY, &apis), |weir| {
            copy_data(&data, &weir.dir().join("data"));
            weir
        });
        one.server.restart(&[]);
        let twins = [one, two];
        know_each_other(&twins);
        (twins, ids)
    }
}

/// A transaction that has failed.
pub(super) fn failed(server: &Server) -> String {
    let response = server.connect().post("/orders/17", "{}");
    assert_eq!(response.status, 500);
    id(&response)
}
