//! Socket activation: the sockets outlive weir.

use super::config;
use crate::harness::{Client, Signal, Upstream, eventually};
use rustix::process::{Pid, kill_process};
use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Starts weir as systemd does: with the socket as descriptor 3.
fn start(folder: &Path, socket: &TcpListener) -> Child {
    let script =
        "exec 3<&0 </dev/null; LISTEN_PID=$$ LISTEN_FDS=1 LISTEN_FDNAMES=web exec \"$0\" \"$@\"";
    let socket: OwnedFd = socket.try_clone().expect("a descriptor").into();
    Command::new("/bin/sh")
        .args(["-c", script, env!("CARGO_BIN_EXE_weir"), "serve", "--admin", "127.0.0.1:0"])
        .current_dir(folder)
        .env("NOTIFY_SOCKET", folder.join("notify"))
        .stdin(Stdio::from(socket))
        .stdout(Stdio::null())
        .stderr(std::fs::File::create(folder.join("stderr.txt")).expect("a file"))
        .spawn()
        .expect("it starts")
}

fn prepare(listen: SocketAddr) -> (tempfile::TempDir, Upstream) {
    let (folder, upstream) = (tempfile::tempdir().expect("a folder"), Upstream::by_hand());
    let text = config(upstream.addr, "").replace("127.0.0.1:0", &listen.to_string());
    std::fs::write(folder.path().join("weir.yaml"), text).expect("a file");
    (folder, upstream)
}

#[test]
fn connections_wait_in_a_passed_socket_while_weir_restarts() {
    let socket = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let addr = socket.local_addr().expect("an address");
    let (folder, _upstream) = prepare(addr);
    let notifications = UnixDatagram::bind(folder.path().join("notify")).expect("a socket");
    let notified = |what: &str| {
        let mut text = [0; 256];
        let length = notifications.recv(&mut text).expect("a notification");
        assert_eq!(String::from_utf8_lossy(&text[..length]).trim(), what);
    };
    for _ in 0..2 {
        // Nobody accepts yet: the connection waits in the queue of the socket.
        let mut client = Client::connect(addr);
        client.send(format!("GET /fast HTTP/1.1\r\n{}", super::HEADERS));
        let mut child = start(folder.path(), &socket);
        assert_eq!(client.response().text(), "fast");
        notified("READY=1");
        let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw).expect("a process");
        kill_process(pid, Signal::TERM).expect("it runs");
        notified("STOPPING=1");
        assert_eq!(child.wait().expect("it ends").code(), Some(0));
    }
}

#[test]
fn a_passed_socket_that_no_listener_has_is_an_error() {
    let socket = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let other = TcpListener::bind("127.0.0.1:0").expect("a free port").local_addr().expect("one");
    let (folder, _upstream) = prepare(other);
    let mut child = start(folder.path(), &socket);
    eventually("it ends", || child.try_wait().expect("it can be asked").is_some());
    let stderr = std::fs::read_to_string(folder.path().join("stderr.txt")).expect("a file");
    assert!(stderr.contains("but no listener of the configuration has that address"), "{stderr}");
}

/// The real passer of sockets, on a socket of its own.
#[test]
fn systemd_socket_activate_starts_weir_with_its_socket() {
    if Command::new("systemd-socket-activate").arg("--version").output().is_err() {
        println!("SKIPPED systemd-socket-activate: not installed (package systemd)");
        return;
    }
    // Free a moment ago; the program has no way to bind port 0 and say which.
    let addr = TcpListener::bind("127.0.0.1:0").and_then(|socket| socket.local_addr());
    let addr = addr.expect("a free port");
    let (folder, _upstream) = prepare(addr);
    let mut child = Command::new("systemd-socket-activate")
        .args(["--listen", &addr.to_string(), env!("CARGO_BIN_EXE_weir"), "serve"])
        .args(["--admin", "127.0.0.1:0"])
        .current_dir(folder.path())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("it starts");
    // The program listens, and starts weir for the first connection, in its own process.
    let connect = || Client::try_connect(addr);
    eventually("it listens", || connect().is_some());
    let mut client = connect().expect("it listens");
    client.send(format!("GET /fast HTTP/1.1\r\n{}", super::HEADERS));
    assert_eq!(client.response().text(), "fast");
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw).expect("a process");
    kill_process(pid, Signal::TERM).expect("it runs");
    assert_eq!(child.wait().expect("it ends").code(), Some(0));
}
