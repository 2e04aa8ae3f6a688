//! A process without a free file descriptor says so, and nobody else is blamed or left hanging.

use crate::harness::{Client, PATIENCE, Response, Server, Upstream, Weir, eventually};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::mpsc::channel;
use std::time::Duration;

/// With 256 descriptors the last sixteenth of them is the reserve.
const RESERVE: usize = 16;

fn is_exhausted(response: &Response) -> bool {
    let text = response.text();
    assert!([200, 503].contains(&response.status), "{text}");
    assert!(response.status != 503 || text.contains("descriptors-exhausted"), "{text}");
    response.status == 503
}

fn server(upstream: &Upstream) -> Server {
    let server = Weir::new(&format!(
        "listen: [127.0.0.1:0]
workers: 1
limits: {{connections: 4000, header_time: 10m, idle: 10m}}
upstreams:
  u: {{targets: [\"http://{}\"], connections: 100, timeout: 10m}}
apis:
  a:
    base: /
    routes:
      - {{get: /reply, reply: {{text: ok}}}}
      - {{get: /up, proxy: u}}
",
        upstream.addr
    ))
    .descriptors(256)
    .start();
    assert!(server.stderr().contains("but only 256 may be open"));
    server
}

/// Connects clients until one is told that there are no descriptors. Those that are served are kept.
fn connect_until_told(server: &Server, kept: &mut Vec<Client>) -> Response {
    loop {
        assert!(kept.len() < 256, "there is no end");
        let mut client = server.connect();
        // The response may be there before the request is sent.
        let response = client.try_get("/reply").expect("a response");
        if is_exhausted(&response) {
            return response;
        }
        kept.push(client);
    }
}

#[test]
fn silent_clients_do_not_keep_others_from_being_told_that_descriptors_have_run_out() {
    let server = server(&Upstream::responding("HTTP/1.1 204 No Content\r\n\r\n"));
    let mut kept = Vec::new();
    let told = connect_until_told(&server, &mut kept);
    assert!(kept.len() > 100, "{}", kept.len());
    assert_eq!(told.header("retry-after"), Some("1"));
    assert_eq!(told.header("connection"), Some("close"));
    // More than the reserve has: the rest waits in the queue.
    let silent: Vec<Client> = (0..3 * RESERVE).map(|_| server.connect()).collect();
    for _ in 0..20 {
        connect_until_told(&server, &mut kept);
    }
    // Though each has ten minutes for its request.
    for mut client in silent {
        if let Some(response) = client.try_response() {
            assert!(is_exhausted(&response));
        }
    }
    drop(kept);
    eventually("requests are served again", || {
        let mut client = Client::try_connect(server.listen[0]);
        client.as_mut().and_then(|c| c.try_get("/reply")).is_some_and(|r| r.status == 200)
    });
}

#[test]
fn clients_are_told_when_no_descriptor_is_free_for_the_upstream_and_served_later() {
    let is_over = Arc::new(AtomicBool::new(false));
    let upstream = Upstream::start({
        let is_over = Arc::clone(&is_over);
        move |_, peer| {
            while peer.request().is_some() {
                while !is_over.load(SeqCst) {
                    std::thread::sleep(Duration::from_millis(5));
                }
                peer.send("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nup");
            }
        }
    });
    let server = server(&upstream);
    let mut kept = Vec::new();
    connect_until_told(&server, &mut kept);
    // Connections to the upstream use up the reserve; more are not to be had.
    let (sender, responses) = channel();
    let waiting: Vec<_> = kept
        .drain(..3 * RESERVE)
        .map(|mut client| {
            let sender = sender.clone();
            std::thread::spawn(move || {
                let response = client.get("/up");
                sender.send(response).expect("the test takes all");
                client
            })
        })
        .collect();
    for _ in 0..RESERVE {
        let response = responses.recv_timeout(PATIENCE).expect("a response without the upstream");
        assert!(is_exhausted(&response), "{}", response.text());
    }
    // There is none for other clients either, who are told all the same.
    for _ in 0..20 {
        connect_until_told(&server, &mut kept);
    }
    eventually("it is logged", || server.stderr().contains("file descriptors are in use"));
    is_over.store(true, SeqCst);
    let clients: Vec<Client> = waiting.into_iter().map(|t| t.join().expect("no panic")).collect();
    let responses: Vec<Response> = responses.try_iter().collect();
    let served = responses.iter().any(|response| response.text() == "up");
    assert!(served, "{:?}", responses.iter().map(|r| (r.status, r.text())).collect::<Vec<_>>());
    drop((clients, kept));
    eventually("requests are served again", || {
        let mut client = Client::try_connect(server.listen[0]);
        client.as_mut().and_then(|c| c.try_get("/up")).is_some_and(|r| r.status == 200)
    });
    assert!(server.metric("weir_descriptors_exhausted_total", &[]) >= 20.0);
}
