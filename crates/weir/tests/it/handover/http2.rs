//! HTTP/2 connections during an upgrade: streams in flight complete, GOAWAY ends the connection.

use super::{Load, config, id, recorded, upgraded};
use crate::harness::{Upstream, Weir, eventually};
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};

type Sender = h2::client::SendRequest<bytes::Bytes>;

async fn connect(weir: SocketAddr) -> Sender {
    let stream = tokio::net::TcpStream::connect(weir).await.expect("no connection is refused");
    let (sender, connection) = h2::client::handshake(stream).await.expect("a handshake");
    tokio::spawn(connection);
    sender
}

fn request(path: &str) -> http::Request<()> {
    let request = http::Request::builder().uri(format!("http://localhost{path}"));
    request.header("x-key", "of acme").body(()).expect("a request")
}

/// Status, id and body of a response.
async fn response(future: h2::client::ResponseFuture) -> Result<(u16, String, String), h2::Error> {
    let (head, mut body) = future.await?.into_parts();
    let mut text = Vec::new();
    while let Some(bytes) = body.data().await {
        text.extend_from_slice(&bytes?);
    }
    let id = head.headers["weir-transaction-id"].to_str().expect("text").to_owned();
    Ok((head.status.as_u16(), id, String::from_utf8(text).expect("text")))
}

/// Requests on one connection until GOAWAY. A stream above its last stream id was not processed, and
/// may be sent again on another connection (RFC 9113 section 6.8); every other failure is a loss.
async fn connection(weir: SocketAddr, ids: &mut BTreeSet<String>, answered: &AtomicU64) {
    let mut sender = connect(weir).await;
    for _ in 0..super::REQUESTS {
        let Ok(mut ready) = sender.ready().await else { return };
        let sent = match ready.send_request(request("/fast"), true) {
            Ok((future, _)) => response(future).await,
            Err(error) => Err(error),
        };
        match sent {
            Ok((status, id, text)) => {
                assert_eq!((status, text.as_str()), (200, "fast"));
                assert!(ids.insert(id), "an id came twice");
                answered.fetch_add(1, Ordering::Relaxed);
            }
            Err(error) => {
                let reason = error.reason();
                let is_unprocessed = reason == Some(h2::Reason::REFUSED_STREAM)
                    || (error.is_go_away() && reason == Some(h2::Reason::NO_ERROR));
                assert!(is_unprocessed, "a request was lost: {error}");
                return;
            }
        }
        sender = ready;
    }
}

/// A client of a load; see [`Load`].
pub(super) fn client(weir: SocketAddr, ids: &mut BTreeSet<String>, answered: &AtomicU64) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(connection(weir, ids, answered));
}

#[test]
fn http2_streams_in_flight_complete_and_no_request_is_lost() {
    let upstream = Upstream::by_hand();
    let mut server = Weir::new(&config(upstream.addr, "")).start();
    let weir = server.listen[0];
    let (started, has_started) = std::sync::mpsc::channel();
    let slow = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.expect("a runtime").block_on(async {
            let mut sender = connect(weir).await.ready().await.expect("a stream is free");
            let (future, _) = sender.send_request(request("/slow/1"), true).expect("it is open");
            started.send(()).expect("the test waits");
            let slow = response(future).await.expect("the stream completes");
            // GOAWAY: the connection takes no further stream, and ends.
            eventually_closed(sender).await;
            slow
        })
    });
    has_started.recv().expect("a request");
    let mut peer = upstream.accept();
    peer.head().expect("a request");
    peer.send("HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhello");

    let load = Load::of(weir, client);
    load.more(100);
    let successor = upgraded(&server);
    load.more(100);
    peer.send("world");
    let (status, slow, text) = slow.join().expect("the response is complete");
    assert_eq!((status, text.as_str()), (200, "helloworld"));
    assert_eq!(server.wait().code(), Some(0), "{}", server.stderr());
    let mut ids = load.end();
    ids.insert(slow);
    eventually("the successor adopts the journal", || {
        server.stderr().contains("the old process has ended")
    });
    successor.stop();
    assert_eq!(recorded(&server), ids, "every transaction is recorded once");
}

/// Waits until a connection accepts no stream any more.
async fn eventually_closed(mut sender: Sender) {
    let closed = async {
        while let Ok(ready) = sender.ready().await {
            sender = ready;
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
    };
    let limit = std::time::Duration::from_secs(60);
    tokio::time::timeout(limit, closed).await.expect("GOAWAY ends the connection");
}

#[test]
fn a_quota_is_exact_over_an_upgrade() {
    let upstream = Upstream::by_hand();
    let text = config(upstream.addr, "").replace("calls: 1000000", "calls: 1000");
    let mut server = Weir::new(&text).start();
    let key = [("x-key", "of acme")];
    let request =
        |server: &crate::harness::Server| server.connect().request("GET", "/fast", &key, "");
    let mut admitted = BTreeSet::new();
    // A request that the old process admitted and completes after the upgrade.
    let mut slow = server.connect();
    slow.send(format!("GET /slow/1 HTTP/1.1\r\n{}", super::HEADERS));
    let mut peer = upstream.accept();
    peer.head().expect("a request");
    for _ in 0..400 {
        admitted.insert(id(&request(&server)));
    }
    let first = upgraded(&server);
    peer.send("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok");
    admitted.insert(id(&slow.response()));
    assert_eq!(server.wait().code(), Some(0), "{}", server.stderr());
    eventually("the first successor adopts the journal", || {
        server.stderr().contains("the old process has ended")
    });
    for _ in 0..400 {
        admitted.insert(id(&request(&server)));
    }
    let second = upgraded(&server);
    eventually("the first successor ends", || first.has_ended());
    let mut rejected = 0;
    for _ in 0..250 {
        let response = request(&server);
        match response.status {
            200 => assert!(admitted.insert(id(&response))),
            429 => rejected += 1,
            other => panic!("{other}: {}", response.text()),
        }
    }
    assert_eq!((admitted.len(), rejected), (1000, 51));
    second.stop();
}
