//! The disk of a node is full, read-only or fails while the database is down: requests are served, and
//! what was counted is replicated afterwards.

use super::node::{config, fleet_calls, is_up, own_calls, send};
use crate::harness::{Disk, Mode, Postgres, Relay, Server, Weir, eventually};
use std::os::unix::fs::symlink;

/// A node with its data on a disk, with calls that are counted and not replicated.
fn start(disk: &Disk, relay: &mut Relay) -> Server {
    let text = config(relay.addr(), "tracker: {enabled: true}\n");
    let one = Weir::new(&text).env("NODE", "one");
    std::fs::create_dir(disk.data()).expect("it is empty");
    symlink(disk.data(), one.dir().join("data")).expect("there is no data yet");
    let one = one.start();
    eventually("it has joined", || is_up(&one));
    relay.set(Mode::Refuse);
    eventually("it notices", || !is_up(&one));
    send(&one, 20);
    eventually("they are counted", || own_calls(&one) == 20);
    one
}

#[test]
fn a_full_disk_and_no_database_stop_no_traffic_and_lose_no_counts() {
    let Some(disk) = Disk::small(120) else { return };
    let database = Postgres::start();
    let mut relay = Relay::new(database.addr());
    let one = start(&disk, &mut relay);
    disk.leave(0);
    send(&one, 200);
    relay.set(Mode::Pass);
    // It is a member, whatever it can write itself.
    eventually("it has joined again", || is_up(&one));
    eventually("what was counted is replicated", || fleet_calls(&one) >= 20);
    disk.fill(0);
    send(&one, 5);
    eventually("the sums are equal again", || {
        let own = own_calls(&one);
        own >= 25 && fleet_calls(&one) == own
    });
}

#[test]
fn a_read_only_or_failing_disk_and_no_database_stop_no_traffic() {
    for fail in [Disk::make_read_only as fn(&Disk), Disk::break_down] {
        let Some(disk) = Disk::ext4(256) else { return };
        let database = Postgres::start();
        let mut relay = Relay::new(database.addr());
        let one = start(&disk, &mut relay);
        fail(&disk);
        send(&one, 200);
        relay.set(Mode::Pass);
        send(&one, 20);
        assert_eq!(one.connect_admin().get("/healthz").status, 200);
    }
}
