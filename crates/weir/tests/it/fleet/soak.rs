//! Three nodes under load, with a failure again and again: in the end all sums are equal, and memory has
//! not grown. `make soak` makes it longer (`WEIR_FLEET_SOAK_SECONDS`).

use super::node::{Load, fleet_calls, is_up, node, own_calls};
use crate::harness::{Mode, Postgres, Relay, Server, Signal, eventually, from_environment};
use std::time::{Duration, Instant};

/// Time between two failures; a failure lasts up to a third of it.
const INTERVAL: u64 = 10;
/// Growth of the resident memory that is none, in MiB.
const FLAT_MIB: u64 = 64;

struct Soak {
    database: Postgres,
    relays: Vec<Relay>,
    nodes: Vec<Server>,
}

impl Soak {
    fn start() -> Self {
        let database = Postgres::start();
        let relays: Vec<Relay> = (0..3).map(|_| Relay::new(database.addr())).collect();
        let nodes: Vec<Server> = (0..3)
            .map(|number| node(&format!("n{number}"), relays[number].addr(), "").start())
            .collect();
        eventually("all have joined", || nodes.iter().all(is_up));
        Self { database, relays, nodes }
    }

    /// A random failure; returns its name.
    fn fail(&mut self, load: &Load) -> &'static str {
        let (victim, time) = (fastrand::usize(..3), Duration::from_secs(INTERVAL / 3));
        let impair = |relay: &mut Relay, mode| {
            relay.set(mode);
            std::thread::sleep(time);
            relay.set(Mode::Pass);
        };
        match fastrand::u8(..9) {
            0 => {
                self.database.kill_9();
                self.database.restart();
                "the database is killed"
            }
            1 => {
                impair(&mut self.relays[victim], Mode::Refuse);
                "connections are refused"
            }
            2 => {
                impair(&mut self.relays[victim], Mode::BlackHole);
                "packets are lost"
            }
            3 => {
                impair(&mut self.relays[victim], Mode::Delay(Duration::from_millis(100)));
                "the database is slow"
            }
            4 => {
                self.relays[victim].cut_after(b"COMMIT");
                "the response to a commit is lost"
            }
            5 => {
                let snapshot = self.database.snapshot();
                std::thread::sleep(time);
                self.database.restore(&snapshot);
                "a failover loses commits"
            }
            6 => {
                self.nodes[victim].signal(Signal::STOP);
                std::thread::sleep(time);
                self.nodes[victim].signal(Signal::CONT);
                "a node is suspended"
            }
            7 => {
                self.nodes[victim].kill();
                std::thread::sleep(time);
                self.nodes[victim].restart(&[]);
                load.moved(victim, self.nodes[victim].listen[0]);
                "a node is killed"
            }
            _ => {
                self.relays.iter().for_each(Relay::cut);
                "all connections are cut"
            }
        }
    }

    /// Resident memory of the nodes in MiB.
    fn memory(&self) -> Vec<u64> {
        let resident =
            |node: &Server| node.metric("process_resident_memory_bytes", &[]) as u64 / 1024 / 1024;
        self.nodes.iter().map(resident).collect()
    }
}

#[test]
fn sums_are_equal_and_memory_is_flat_after_random_failures() {
    let seconds = from_environment("WEIR_FLEET_SOAK_SECONDS", 60);
    let mut soak = Soak::start();
    let addresses: Vec<_> = soak.nodes.iter().map(|node| node.listen[0]).collect();
    let load = Load::start(&addresses, Duration::from_millis(10));
    let mut memory = None;
    let end = Instant::now() + Duration::from_secs(seconds);
    while Instant::now() < end {
        let next = Instant::now() + Duration::from_secs(INTERVAL);
        let failure = soak.fail(&load);
        eprintln!("{failure}: {:?} MiB", soak.memory());
        std::thread::sleep(next.saturating_duration_since(Instant::now()));
        // After the first failures everything has the size that it needs.
        memory.get_or_insert_with(|| soak.memory());
    }
    let sent = load.end();
    for (node, (responses, unknown)) in soak.nodes.iter().zip(&sent) {
        // A call that a kill left without a response may be recorded.
        let possible = *responses as u64..=(responses + unknown) as u64;
        eventually("the node has counted its calls", || possible.contains(&own_calls(node)));
    }
    let counted = || soak.nodes.iter().map(own_calls).sum::<u64>();
    for node in &soak.nodes {
        eventually("all sums are equal", || fleet_calls(node) == counted());
    }
    let by_length = "SELECT string_agg(DISTINCT calls::text, ',') FROM (
         SELECT sum(calls) AS calls FROM weir.bucket GROUP BY step) AS sums";
    assert_eq!(soak.database.query(by_length), counted().to_string());
    let (before, after) = (memory.unwrap_or_default(), soak.memory());
    let grown = before.iter().zip(&after).any(|(before, after)| *after > before + FLAT_MIB);
    assert!(!grown, "from {before:?} to {after:?} MiB");
}
