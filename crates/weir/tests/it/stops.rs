//! Stops while clients connect again and again: whoever is connected is served.

use crate::harness::{Server, Signal, Weir, from_environment};
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

const CLIENTS: usize = 16;

/// Connects, asks and reads to the end, until that is refused. Gives what went wrong meanwhile.
fn redial(addr: SocketAddr, served: &AtomicU64) -> Option<String> {
    loop {
        let mut connection = match TcpStream::connect_timeout(&addr, Duration::from_secs(60)) {
            Ok(connection) => connection,
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => return None,
            Err(error) => return Some(format!("connecting: {error}")),
        };
        let request = b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
        if let Err(error) = connection.write_all(request) {
            return Some(format!("sending: {error}"));
        }
        let mut text = String::new();
        if let Err(error) = connection.read_to_string(&mut text) {
            return Some(format!("reading: {error}"));
        }
        if !(text.starts_with("HTTP/1.1 200") && text.ends_with("served")) {
            return Some(format!("no response: {text:?}"));
        }
        served.fetch_add(1, Relaxed);
    }
}

fn stop(server: &mut Server) {
    let (addr, served) = (server.listen[0], AtomicU64::new(0));
    std::thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS).map(|_| scope.spawn(|| redial(addr, &served))).collect();
        while served.load(Relaxed) < 1000 {
            std::thread::sleep(Duration::from_millis(1));
        }
        server.signal(Signal::TERM);
        for client in clients {
            assert_eq!(client.join().expect("a client"), None, "after {served:?} requests");
        }
    });
    assert!(server.wait().success());
}

/// `WEIR_STOPS` says how many.
#[test]
fn a_connection_is_refused_or_served_and_never_reset_by_a_stop() {
    let config = "listen: [127.0.0.1:0]\nworkers: 2\n\
        apis:\n  a:\n    base: /\n    routes: [{get: /, reply: {text: served}}]\n";
    for _ in 0..from_environment("WEIR_STOPS", 10) {
        let mut server = Weir::new(config).start();
        stop(&mut server);
    }
}
