//! Bodies of every size and kind, and more names than anybody needs: memory stays bounded, and
//! nothing is lost that should be kept.

use super::{search, show, wait_for_index};
use crate::harness::{self, Server, Upstream, Weir, eventually, id_of, transactions};
use flate2::{Compression, write::GzEncoder};
use std::io::Write;
use std::net::SocketAddr;
use weir_journal::{Outcome, Transaction};

const MIB: usize = 1 << 20;
/// What weir may take beyond what it took before, in KiB: far less than what passes.
const BOUND: u64 = 20 * 1024;

fn start(upstream: SocketAddr) -> Server {
    let config = format!(
        "listen: [{{addr: \"127.0.0.1:0\"}}]\nworkers: 1\nlimits: {{body: 200MiB}}\n\
         tracker: {{enabled: true, body_limit: 64KiB}}\n\
         upstreams: {{one: {{targets: [\"http://{upstream}\"]}}}}\n\
         apis: {{all: {{base: /, routes: [{{path: \"/*\", proxy: one}}]}}}}\n"
    );
    Weir::new(&config).start()
}

/// One that answers with as many bytes as it was sent.
fn mirror() -> Upstream {
    Upstream::start(|_, peer| {
        while let Some(head) = peer.head() {
            let head = head.to_ascii_lowercase();
            let length = head.split("\r\ncontent-length: ").nth(1).unwrap_or("0");
            let length: usize = length.split("\r\n").next().unwrap().parse().unwrap();
            assert_eq!(peer.drain(length), length);
            peer.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n"));
            let piece = vec![b'a'; MIB.min(length)];
            (0..length / piece.len().max(1)).for_each(|_| {
                peer.send(&piece);
            });
        }
    })
}

/// Ends it, and gives what is recorded.
fn recorded(mut weir: Server) -> Vec<Transaction> {
    weir.kill();
    transactions(&weir.data())
}

#[test]
fn bodies_of_every_size_pass_and_leave_their_beginning_and_their_length() {
    let upstream = mirror();
    let weir = start(upstream.addr);
    let sizes = [1024, MIB, 100 * MIB];
    weir.connect().post("/warm", "0123456789abcdef");
    let (before, mut most) = (weir.anonymous_memory_at_rest(), 0);
    for size in sizes {
        let mut client = weir.connect();
        let sender = client.sender();
        let sending = std::thread::spawn(move || {
            let head = format!("POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: {size}\r\n\r\n");
            sender.send(head.as_bytes()).unwrap();
            let piece = vec![b'b'; MIB.min(size)];
            (0..size / piece.len()).for_each(|_| sender.send(&piece).unwrap());
        });
        let head = client.response_to_head();
        assert_eq!(head.header("content-length"), Some(size.to_string().as_str()));
        most = most.max(weir.anonymous_memory());
        assert_eq!(client.rest_of(size), size);
        most = most.max(weir.anonymous_memory());
        sending.join().unwrap();
    }
    assert!(most < before + BOUND, "{before} KiB became {most} KiB");
    let recorded = recorded(weir);
    for (one, size) in recorded[1..].iter().zip(sizes) {
        let kept = size.min(64 * 1024);
        assert_eq!((one.request.length, one.response.length), (size as u64, size as u64));
        assert_eq!(one.request_body, vec![b'b'; kept]);
        assert_eq!(one.response_body, vec![b'a'; kept]);
        assert_eq!(one.response.truncated, size > kept);
        assert_eq!(one.outcome, Outcome::Completed);
    }
    assert_eq!(recorded.len(), 4);
}

#[test]
fn slow_and_broken_bodies_are_recorded_as_far_as_they_came() {
    let upstream = Upstream::start(|_, peer| {
        if let Some(head) = peer.head() {
            if head.contains("/slow") {
                peer.read(100);
                peer.send("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 4\r\n\r\nslow");
            } else if head.contains("/half") {
                peer.send("HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\nhalf of it");
                std::thread::sleep(std::time::Duration::from_millis(200));
            } else {
                peer.hang();
            }
        }
    });
    let weir = start(upstream.addr);
    let mut slow = weir.connect();
    slow.send("POST /slow HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n");
    for _ in 0..100 {
        slow.send("s");
        std::thread::sleep(std::time::Duration::from_millis(3));
    }
    assert_eq!(slow.response().text(), "slow");
    // The client leaves in the middle of its body.
    let mut leaving = weir.connect();
    leaving.send("POST /left HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\nbeginning");
    upstream.wait_for_requests(2);
    drop(leaving);
    // The upstream leaves in the middle of its answer.
    let mut half = weir.connect();
    half.send("GET /half HTTP/1.1\r\nHost: a\r\n\r\n");
    half.rest();
    eventually("three are recorded", || weir.metric("weir_index_transactions", &[]) == 3.0);
    let recorded = recorded(weir);
    let of = |path: &str| recorded.iter().find(|one| one.target == path).unwrap();
    assert_eq!((of("/slow").outcome, of("/slow").request.length), (Outcome::Completed, 100));
    assert_eq!(of("/slow").request_body, vec![b's'; 100]);
    let left = of("/left");
    assert!(left.request.aborted && left.problem == "bad-body", "{left:?}");
    assert_eq!(left.request_body, b"beginning");
    let half = of("/half");
    assert!(half.response.aborted && half.outcome == Outcome::Failed, "{half:?}");
    assert_eq!(half.response_body, b"half of it");
}

#[test]
fn bodies_that_unpack_to_a_thousand_times_their_size_do_no_harm() {
    let mut bomb = GzEncoder::new(Vec::new(), Compression::best());
    bomb.write_all(&vec![b'a'; 10 * MIB]).unwrap();
    let bomb = bomb.finish().unwrap();
    assert!(bomb.len() < 16 * 1024);
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Encoding: gzip\r\n\
         Content-Length: {}\r\n\r\n",
        bomb.len()
    );
    let upstream = Upstream::responding([head.as_bytes(), &bomb].concat());
    let weir = start(upstream.addr);
    let mut client = weir.connect();
    let (before, mut most) = (weir.anonymous_memory_at_rest(), 0);
    let mut ids = Vec::new();
    for _ in 0..100 {
        let response = client.get("/bomb");
        assert_eq!(response.body, bomb);
        ids.push(response.header("weir-transaction-id").unwrap().to_owned());
        most = most.max(weir.anonymous_memory());
    }
    eventually("all are indexed", || {
        most = most.max(weir.anonymous_memory());
        weir.metric("weir_index_transactions", &[]) == 100.0
    });
    assert_eq!(show(&weir, &ids[50]).unwrap()["status"], 200);
    most = most.max(weir.anonymous_memory());
    assert!(most < before + BOUND, "{before} KiB became {most} KiB");
    assert!(recorded(weir).iter().all(|one| one.response_body == bomb));
}

#[test]
fn what_is_no_text_is_recorded_as_it_is() {
    let response =
        b"HTTP/1.1 200 OK\r\nX-Odd: \xff\xfe\r\nContent-Length: 4\r\n\r\n\xc3\x28\x00\xff";
    let upstream = Upstream::responding(&response[..]);
    let weir = start(upstream.addr);
    let mut client = weir.connect();
    client.send(
        &b"POST /odd%FF?q=%C3%28 HTTP/1.1\r\nHost: a\r\nX-Mine: \xe4\xf6\r\n\
           Content-Type: application/json\r\nContent-Length: 6\r\n\r\n{\"\xff\x80\"}"[..],
    );
    let id = client.response().header("weir-transaction-id").unwrap().to_owned();
    wait_for_index(&weir);
    eventually("it is found", || show(&weir, &id).is_some());
    let recorded = recorded(weir);
    let [one] = recorded.as_slice() else { panic!("{recorded:?}") };
    assert_eq!(id_of(one), id);
    assert_eq!(one.target, "/odd%FF?q=%C3%28");
    assert_eq!(one.request_body, b"{\"\xff\x80\"}");
    assert_eq!(one.response_body, b"\xc3\x28\x00\xff");
    let has = |head: &[u8], line: &[u8]| memchr::memmem::find(head, line).is_some();
    assert!(has(&one.request_head, b"\xe4\xf6"), "{:?}", one.request_head);
    assert!(has(&one.response_head, b"\xff\xfe"), "{:?}", one.response_head);
}

#[test]
fn ten_thousand_header_names_take_no_memory_that_stays() {
    let echo = harness::echo(&[]);
    let weir = start(echo.listen[0]);
    let mut client = weir.connect();
    let mut send = |round: usize| {
        let lines: String =
            (0..20).map(|n| format!("X-Name-{}: value-{n}\r\n", round * 20 + n)).collect();
        client.send(format!("GET /a HTTP/1.1\r\nHost: a\r\n{lines}\r\n"));
        assert_eq!(client.response().status, 200);
    };
    (0..50).for_each(&mut send);
    wait_for_index(&weir);
    let before = weir.anonymous_memory_at_rest();
    (50..500).for_each(&mut send);
    eventually("all are indexed", || weir.metric("weir_index_transactions", &[]) == 500.0);
    let after = weir.anonymous_memory();
    assert!(after < before + BOUND, "{before} KiB became {after} KiB");
    assert_eq!(search(&weir, "header.x-name-7777:value-17"), 1);
    // Names are no labels of metrics.
    assert!(!weir.connect_admin().get("/metrics").text().contains("x-name"));
}

#[test]
fn a_hundred_thousand_business_keys_are_found_and_take_no_memory_that_stays() {
    const KEYS: usize = 100_000;
    let config = "listen: [{addr: \"127.0.0.1:0\"}]\nworkers: 1\n\
        tracker: {enabled: true, index: keys, keys: {order: \"$.order\"}}\n\
        apis: {all: {base: /, routes: [{post: /order, reply: {text: taken}}]}}\n";
    let weir = Weir::new(config).start();
    let mut client = weir.connect();
    let mut send = |from: usize, to: usize| {
        // A hundred at a time, so that it does not take minutes.
        for from in (from..to).step_by(100) {
            let request = |key| {
                let body = format!("{{\"order\":\"K-{key}\"}}");
                let length = body.len();
                format!(
                    "POST /order HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n\
                     Content-Length: {length}\r\n\r\n{body}"
                )
            };
            client.send((from..from + 100).map(request).collect::<String>());
            (0..100).for_each(|_| assert_eq!(client.response().status, 200));
        }
    };
    send(0, KEYS / 10);
    wait_for_index(&weir);
    let before = weir.anonymous_memory_at_rest();
    send(KEYS / 10, KEYS);
    eventually("all are indexed", || weir.metric("weir_index_transactions", &[]) == KEYS as f64);
    let after = weir.anonymous_memory();
    assert!(after < before + BOUND, "{before} KiB became {after} KiB");
    for key in [0, 1, 777, 54_321, KEYS - 1] {
        assert_eq!(search(&weir, &format!("key.order:K-{key}")), 1, "K-{key}");
    }
    assert_eq!(search(&weir, &format!("key.order:K-{KEYS}")), 0);
}
