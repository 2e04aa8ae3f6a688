//! How upgraded connections end, and what is told and recorded of it.

use super::{agreed, before, config, echo, ended, only, open, property};
use crate::harness::{Client, Peer, Server, Signal, Upstream, Weir, eventually};
use tungstenite::Message;
use tungstenite::protocol::frame::coding::CloseCode;
use weir_journal::Outcome;

/// A close frame with the status of weir's own, as a server sends it.
const GOING_AWAY: [u8; 4] = [0x88, 2, 3, 233];

/// A client's and an upstream's WebSocket over which one message each has passed.
fn talking(upgrade: &str) -> (Server, Client, Peer) {
    let upstream = Upstream::by_hand();
    let weir = before(upstream.addr, upgrade, "");
    let (mut client, mut peer) = agreed(&weir, &upstream, "websocket");
    client.send([0x81, 0x82, 0, 0, 0, 0, b'h', b'i']);
    assert_eq!(peer.read(8), [0x81, 0x82, 0, 0, 0, 0, b'h', b'i']);
    peer.send([0x81, 1, b'!']);
    assert_eq!(client.rest_of(3), 3);
    (weir, client, peer)
}

/// The masked close frame of weir's own that an upstream gets.
fn assert_goodbye(peer: &mut Peer) {
    let frame = peer.read(8);
    assert_eq!(frame[..2], [0x88, 0x82]);
    assert_eq!([frame[6] ^ frame[2], frame[7] ^ frame[3]], [3, 233]);
    assert_eq!(peer.some(), None);
}

#[test]
fn a_client_that_is_gone() {
    let (mut weir, client, mut peer) = talking("websocket");
    client.reset();
    peer.hang();
    eventually("it is over", || ended(&weir, "client-reset") == 1.0);
    let transaction = only(&mut weir);
    assert_eq!(transaction.outcome, Outcome::Interrupted);
    assert_eq!(property(&transaction, "upgrade_ended_by"), "client-reset");
    assert_eq!((transaction.request.length, transaction.response.length), (8, 3));
}

#[test]
fn an_upstream_that_is_gone() {
    let (mut weir, client, mut peer) = talking("websocket");
    peer.reset();
    drop(peer);
    let (rest, reset) = client.rest_or_reset();
    assert!(rest.is_empty() && reset, "it must not look like an end");
    eventually("it is over", || ended(&weir, "upstream-reset") == 1.0);
    let transaction = only(&mut weir);
    assert_eq!(transaction.outcome, Outcome::Failed);
    assert_eq!(property(&transaction, "upgrade_ended_by"), "upstream-reset");
}

#[test]
fn an_end_of_one_side_reaches_the_other_and_what_it_still_says_comes_back() {
    let upstream = Upstream::by_hand();
    let mut weir = before(upstream.addr, "{protocols: lines}", "");
    let (mut client, mut peer) = agreed(&weir, &upstream, "lines");
    client.send("last line\n");
    client.finish();
    assert_eq!(peer.read(10), b"last line\n");
    assert_eq!(peer.some(), None);
    peer.send("answer");
    drop(peer);
    assert_eq!(client.rest(), b"answer");
    eventually("it is over", || ended(&weir, "client") == 1.0);
    let transaction = only(&mut weir);
    assert_eq!(transaction.outcome, Outcome::Completed);
    assert_eq!((transaction.request.length, transaction.response.length), (10, 6));
    assert_eq!(property(&transaction, "upgrade_messages_in"), "");
}

#[test]
fn an_upstream_that_ends_it() {
    let (mut weir, client, mut peer) = talking("websocket");
    peer.send([0x88, 2, 3, 242]);
    peer.finish();
    assert_eq!(client.rest(), [0x88, 2, 3, 242]);
    eventually("it is over", || ended(&weir, "upstream") == 1.0);
    assert_eq!(property(&only(&mut weir), "upgrade_close_status"), "1010");
}

#[test]
fn silence_ends_it_and_both_are_told() {
    let (mut weir, client, mut peer) = talking("{protocols: websocket, idle: 300ms}");
    assert_eq!(client.rest(), GOING_AWAY);
    assert_goodbye(&mut peer);
    let transaction = only(&mut weir);
    assert_eq!(transaction.outcome, Outcome::Completed);
    assert_eq!(property(&transaction, "upgrade_ended_by"), "idle");
}

#[test]
fn one_that_lasts_too_long_is_ended_though_it_is_busy() {
    // A busy machine may need more than 400 ms for a round of the loop.
    let upgrade = "{protocols: websocket, idle: 900ms, lifetime: 1s}";
    let (weir, mut client, mut peer) = talking(upgrade);
    while ended(&weir, "lifetime") == 0.0 {
        client.send([0x81, 0x80, 0, 0, 0, 0]);
        std::thread::sleep(std::time::Duration::from_millis(50));
        assert_eq!(ended(&weir, "idle"), 0.0);
    }
    assert_eq!(client.rest(), GOING_AWAY);
    peer.hang();
}

#[test]
fn a_frame_of_weirs_own_never_stands_in_one_of_somebody_else() {
    let (weir, mut client, mut peer) = talking("{protocols: websocket, idle: 300ms}");
    // The first half of a message each way.
    client.send([0x81, 0x84, 0, 0, 0, 0, 1, 2]);
    peer.send([0x81, 4, 1, 2]);
    assert_eq!(client.rest(), [0x81, 4, 1, 2]);
    assert_eq!(peer.read(8), [0x81, 0x84, 0, 0, 0, 0, 1, 2]);
    assert_eq!(peer.some(), None);
    assert_eq!(ended(&weir, "idle"), 1.0);
}

#[test]
fn what_is_no_websocket_passes_as_it_is() {
    let (mut weir, mut client, mut peer) = talking("websocket");
    let garbage = [0x88, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff].repeat(1000);
    client.send(&garbage);
    assert_eq!(peer.read(garbage.len()), garbage);
    peer.send(&garbage);
    assert_eq!(client.rest_of(garbage.len()), garbage.len());
    drop((client, peer));
    eventually("it is over", || weir.metric("weir_upgrades_open", &[]) == 0.0);
    let transaction = only(&mut weir);
    assert_eq!(transaction.request.length, 8 + garbage.len() as u64);
    assert_eq!(property(&transaction, "upgrade_close_status"), "");
}

#[test]
fn a_stop_tells_real_clients_to_go_away_and_does_not_wait_for_them() {
    let mut weir = before(echo(), "websocket", "");
    let mut sockets: Vec<_> = (0..5).map(|_| open(&weir, "/chat")).collect();
    for socket in &mut sockets {
        socket.send(Message::text("hi")).expect("it is open");
        socket.read().expect("an answer");
    }
    weir.signal(Signal::TERM);
    for socket in &mut sockets {
        let frame = loop {
            if let Message::Close(frame) = socket.read().expect("a close frame") {
                break frame.expect("with a status");
            }
        };
        assert_eq!(frame.code, CloseCode::Away);
        while socket.read().is_ok() {}
    }
    assert!(weir.wait().success());
    let all = crate::harness::transactions(&weir.data());
    assert_eq!(all.len(), 5);
    assert!(all.iter().all(|one| property(one, "upgrade_ended_by") == "stop"));
    assert!(all.iter().all(|one| one.outcome == Outcome::Completed));
}

#[test]
fn a_reload_leaves_it_for_as_long_as_it_may_go_on() {
    let upstream = Upstream::by_hand();
    let text = |reload: &str| {
        config(upstream.addr, &format!("{{protocols: websocket, reload: {reload}}}"), "")
    };
    let mut weir = Weir::new(&text("1h")).start();
    let (mut first, mut first_peer) = agreed(&weir, &upstream, "websocket");
    weir.reload(&text("400ms"));
    let (second, mut second_peer) = agreed(&weir, &upstream, "websocket");
    weir.reload(&text("2h"));
    assert_eq!(second.rest(), GOING_AWAY);
    assert_goodbye(&mut second_peer);
    assert_eq!(ended(&weir, "reload"), 1.0);
    first.send([0x81, 0x80, 0, 0, 0, 0]);
    assert_eq!(first_peer.read(6).len(), 6);
    assert_eq!(weir.metric("weir_upgrades_open", &[]), 1.0);
}

#[test]
fn after_a_kill_it_is_one_that_was_interrupted() {
    let (mut weir, client, mut peer) = talking("websocket");
    weir.kill();
    peer.hang();
    drop(client);
    let transaction = only(&mut weir);
    assert_eq!(transaction.outcome, Outcome::Interrupted);
}
