//! Long bodies pass through without being held.

use crate::harness::{Server, Upstream, Weir};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

const MIB: usize = 1024 * 1024;
/// Bytes sent each way.
const LONG: usize = 100 * MIB;
/// How much more memory than before may be resident at any time meanwhile.
const BOUND: usize = 32 * MIB;

fn before(upstream: &Upstream) -> Server {
    let config = format!(
        "listen: [{{addr: \"127.0.0.1:0\"}}]\nworkers: 1\nlimits: {{body: 200MiB}}\n\
         upstreams: {{one: {{targets: [\"http://{}\"]}}}}\n\
         apis: {{all: {{base: /, routes: [{{path: \"/*\", proxy: one}}]}}}}\n",
        upstream.addr
    );
    Weir::new(&config).start()
}

/// A field of the process's status in bytes.
fn memory(server: &Server, field: &str) -> usize {
    let status =
        std::fs::read_to_string(format!("/proc/{}/status", server.pid())).expect("it runs");
    let line = status.lines().find_map(|line| line.strip_prefix(field)).expect("the field");
    line.trim_matches([':', ' ', '\t', 'k', 'B']).parse::<usize>().expect("a number") * 1024
}

/// Sends `head` and a body in `pieces`, reads everything; gives how many bytes came.
fn through(server: &Server, head: &str, piece: &[u8], pieces: usize, end: &[u8]) -> usize {
    let mut stream = TcpStream::connect(server.listen[0]).expect("a connection");
    stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a timeout");
    let mut sender = stream.try_clone().expect("a second handle");
    let (head, piece, end) = (head.to_owned(), piece.to_vec(), end.to_vec());
    let sending = std::thread::spawn(move || {
        sender.write_all(head.as_bytes()).expect("it reads");
        for _ in 0..pieces {
            sender.write_all(&piece).expect("it reads");
        }
        sender.write_all(&end).expect("it reads");
    });
    let (mut buffer, mut count) = (vec![0; 256 * 1024], 0);
    loop {
        match stream.read(&mut buffer).expect("an answer") {
            0 => break,
            read => count += read,
        }
    }
    sending.join().expect("all is sent");
    count
}

/// Reads the whole body and sends it back, as it comes.
fn mirror(framing: &'static str) -> Upstream {
    Upstream::start(move |_, peer| {
        while peer.head().is_some() {
            peer.send(format!("HTTP/1.1 200 OK\r\n{framing}\r\n\r\n"));
            let mut sent = 0;
            while let Some(bytes) = peer.some() {
                sent += bytes.len();
                let ends = bytes.ends_with(b"\r\n0\r\n\r\n");
                peer.send(&bytes);
                if ends || (framing.starts_with("Content") && sent >= LONG) {
                    break;
                }
            }
        }
    })
}

fn assert_flat(server: &Server, work: impl FnOnce()) {
    // The first use of everything is not what is measured.
    let before = memory(server, "VmRSS");
    work();
    let most = memory(server, "VmHWM");
    assert!(most < before + BOUND, "{} MiB before, {} MiB at most", before / MIB, most / MIB);
}

#[test]
fn a_hundred_mebibytes_of_known_length_both_ways() {
    let upstream = mirror("Content-Length: 104857600");
    let weir = before(&upstream);
    let head = format!(
        "POST /x HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: {LONG}\r\n\r\n"
    );
    assert_flat(&weir, || {
        let came = through(&weir, &head, &vec![b'a'; 64 * 1024], LONG / (64 * 1024), b"");
        assert!((LONG..LONG + 1000).contains(&came), "{came} bytes");
    });
}

#[test]
fn a_hundred_mebibytes_in_chunks_both_ways() {
    let upstream = mirror("Transfer-Encoding: chunked");
    let weir = before(&upstream);
    let head =
        "POST /x HTTP/1.1\r\nHost: a\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n";
    let mut chunk = b"4000\r\n".to_vec();
    chunk.resize(6 + 0x4000, b'a');
    chunk.extend_from_slice(b"\r\n");
    assert_flat(&weir, || {
        let came = through(&weir, head, &chunk, LONG / 0x4000, b"0\r\n\r\n");
        assert!(came >= LONG, "{came} bytes");
    });
}

#[test]
fn a_client_that_reads_nothing_holds_the_upstream_back() {
    let (sender, sent) = std::sync::mpsc::channel();
    let upstream = Upstream::start(move |_, peer| {
        peer.request();
        peer.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {LONG}\r\n\r\n"));
        for _ in 0..LONG / MIB {
            peer.send(vec![b'a'; MIB]);
            let _ = sender.send(());
        }
    });
    let weir = before(&upstream);
    assert_flat(&weir, || {
        let mut stream = TcpStream::connect(weir.listen[0]).unwrap();
        stream.write_all(b"GET /x HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
        let mut mebibytes = 0;
        // It stops once the buffers of the kernel are full.
        while sent.recv_timeout(Duration::from_secs(1)).is_ok() {
            mebibytes += 1;
        }
        assert!(mebibytes < 50, "{mebibytes} MiB went into the dark");
    });
}

#[test]
fn events_come_as_they_are_sent() {
    let (go, next) = std::sync::mpsc::channel::<()>();
    let next = std::sync::Mutex::new(next);
    let upstream = Upstream::start(move |_, peer| {
        peer.request();
        peer.send("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n");
        for number in 0..5 {
            peer.send(format!("9\r\ndata: {number}\n\n\r\n"));
            let _ = next.lock().unwrap().recv();
        }
        peer.send("0\r\n\r\n");
    });
    let weir = before(&upstream);
    let mut stream = TcpStream::connect(weir.listen[0]).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    stream.write_all(b"GET /x HTTP/1.1\r\nHost: a\r\nAccept-Encoding: gzip\r\n\r\n").unwrap();
    let (mut all, mut buffer) = (Vec::new(), [0; 1024]);
    for number in 0..5 {
        // The next event is sent only once this one is here.
        while !String::from_utf8_lossy(&all).contains(&format!("data: {number}\n\n")) {
            let count = stream.read(&mut buffer).unwrap();
            assert!(count > 0, "closed before event {number}");
            all.extend_from_slice(&buffer[..count]);
        }
        go.send(()).unwrap();
    }
}
