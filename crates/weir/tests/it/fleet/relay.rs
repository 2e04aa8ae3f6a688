//! The relay does to connections what its modes say, and nothing else.

use crate::harness::{Mode, PATIENCE, Relay, eventually, nobody};
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Sends back all it gets, and keeps it.
struct Echo {
    addr: SocketAddr,
    received: Arc<Mutex<Vec<u8>>>,
}

impl Echo {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = listener.local_addr().unwrap();
        let received = Arc::new(Mutex::new(Vec::new()));
        let keeping = Arc::clone(&received);
        // It ends with the process of the tests.
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let keeping = Arc::clone(&keeping);
                std::thread::spawn(move || echo(client, &keeping));
            }
        });
        Self { addr, received }
    }

    fn received(&self) -> String {
        String::from_utf8(self.received.lock().unwrap().clone()).unwrap()
    }
}

fn echo(mut client: TcpStream, received: &Mutex<Vec<u8>>) {
    let mut buffer = [0; 1024];
    while let Ok(read @ 1..) = client.read(&mut buffer) {
        received.lock().unwrap().extend_from_slice(&buffer[..read]);
        if client.write_all(&buffer[..read]).is_err() {
            return;
        }
    }
}

fn connect(relay: &Relay) -> TcpStream {
    let client = TcpStream::connect(relay.addr()).unwrap();
    client.set_read_timeout(Some(PATIENCE)).unwrap();
    client
}

/// Whether what is sent comes back.
fn echoes(client: &mut TcpStream, text: &str) -> bool {
    let mut back = vec![0; text.len()];
    client.write_all(text.as_bytes()).is_ok()
        && client.read_exact(&mut back).is_ok()
        && back == text.as_bytes()
}

/// Whether the connection ends without another byte.
fn ends(client: &mut TcpStream) -> bool {
    match client.read(&mut [0; 1]) {
        Ok(read) => read == 0,
        Err(error) => error.kind() == ErrorKind::ConnectionReset,
    }
}

/// Whether nothing comes for a while, not even the end.
fn is_silent(client: &mut TcpStream) -> bool {
    client.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    let read = client.read(&mut [0; 1]);
    client.set_read_timeout(Some(PATIENCE)).unwrap();
    read.is_err_and(|error| error.kind() == ErrorKind::WouldBlock)
}

#[test]
fn bytes_and_ends_pass() {
    let server = Echo::start();
    let relay = Relay::new(server.addr);
    let mut client = connect(&relay);
    assert!(echoes(&mut client, "one"));
    let large = "0123456789".repeat(100_000);
    let mut writer = client.try_clone().unwrap();
    let sent = large.clone();
    let writing = std::thread::spawn(move || {
        writer.write_all(sent.as_bytes()).unwrap();
        writer.shutdown(Shutdown::Write).unwrap();
    });
    let mut back = String::new();
    client.read_to_string(&mut back).unwrap();
    writing.join().unwrap();
    assert!(back == large, "{} of {} bytes", back.len(), large.len());
    eventually("the relay forgets the connection", || relay.connections() == 0);
}

#[test]
fn without_a_server_connections_end() {
    let relay = Relay::new(nobody());
    assert!(ends(&mut connect(&relay)));
}

#[test]
fn refused_connections_work_again_at_the_same_address() {
    let server = Echo::start();
    let mut relay = Relay::new(server.addr);
    let mut client = connect(&relay);
    assert!(echoes(&mut client, "one"));
    relay.set(Mode::Refuse);
    assert!(ends(&mut client));
    let refused = TcpStream::connect(relay.addr()).expect_err("nobody listens");
    assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
    relay.set(Mode::Pass);
    assert!(echoes(&mut connect(&relay), "two"));
}

#[test]
fn nothing_leaves_a_black_hole_before_its_end() {
    let server = Echo::start();
    let mut relay = Relay::new(server.addr);
    let mut old = connect(&relay);
    assert!(echoes(&mut old, "one"));
    relay.set(Mode::BlackHole);
    let mut new = connect(&relay);
    for client in [&mut old, &mut new] {
        client.write_all(b"two").unwrap();
        assert!(is_silent(client));
    }
    assert_eq!(server.received(), "one");
    relay.set(Mode::Pass);
    for client in [&mut old, &mut new] {
        let mut back = [0; 3];
        client.read_exact(&mut back).unwrap();
        assert_eq!(&back, b"two");
    }
}

#[test]
fn connections_in_a_black_hole_can_be_cut() {
    let server = Echo::start();
    let mut relay = Relay::new(server.addr);
    relay.set(Mode::BlackHole);
    let mut client = connect(&relay);
    client.write_all(b"one").unwrap();
    eventually("it is accepted", || relay.connections() == 1);
    relay.cut();
    assert!(ends(&mut client));
    relay.set(Mode::Pass);
    assert!(echoes(&mut connect(&relay), "two"));
    assert_eq!(server.received(), "two");
}

#[test]
fn both_directions_are_delayed() {
    let server = Echo::start();
    let mut relay = Relay::new(server.addr);
    let mut client = connect(&relay);
    assert!(echoes(&mut client, "one"));
    let delay = Duration::from_millis(60);
    relay.set(Mode::Delay(delay));
    let start = Instant::now();
    assert!(echoes(&mut client, "two"));
    assert!(start.elapsed() >= delay * 2, "{:?}", start.elapsed());
}

#[test]
fn all_connections_are_cut_and_new_ones_pass() {
    let server = Echo::start();
    let relay = Relay::new(server.addr);
    let mut clients = [connect(&relay), connect(&relay)];
    assert!(clients.iter_mut().all(|client| echoes(client, "one")));
    relay.cut();
    assert!(clients.iter_mut().all(ends));
    assert!(echoes(&mut connect(&relay), "two"));
}

#[test]
fn the_response_to_a_pattern_is_lost_but_not_its_request() {
    let server = Echo::start();
    let relay = Relay::new(server.addr);
    let (mut first, mut second) = (connect(&relay), connect(&relay));
    relay.cut_after(b"COMMIT");
    assert!(echoes(&mut first, "BEGIN;COM"));
    assert!(echoes(&mut second, "MIT;"));
    // Split, and with more behind it.
    first.write_all(b"MIT;").unwrap();
    assert!(ends(&mut first));
    assert_eq!(server.received(), "BEGIN;COMMIT;MIT;");
    assert_eq!(relay.lost_responses(), 1);
    // Once only.
    assert!(echoes(&mut second, "COMMIT;"));
    assert_eq!(relay.lost_responses(), 1);
}
