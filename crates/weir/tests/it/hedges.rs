//! Second tries beside first ones that take long: when, whose, how many, and what becomes of the
//! one that is beaten.

use crate::admin_api::{first_token, get, id};
use crate::grpc::frames::{head, odd};
use crate::harness::{self, Peer, Server, Upstream, Weir, eventually};
use serde_json::Value;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;
use weir_model::stage;

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
const BUSY: &str = "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 4\r\n\r\nbusy";
/// A second try soon, and nothing else that would help.
const SOON: &str = "hedge: 20ms, tries: 2, budget: 100%, minimum: 1000";

/// weir in front of these targets, which have a minute to answer.
fn before(targets: [&str; 2], retries: &str, more: &str) -> Server {
    let [one, other] = targets;
    Weir::new(&format!(
        "listen: [{{addr: \"127.0.0.1:0\"}}]\nworkers: 1\ntracker: {{enabled: true}}\n\
         upstreams:\n  one: {{targets: [\"http://{one}\", \"http://{other}\"], timeout: 60s, \
         health: {{failures: 0}}, retries: {{{retries}}}{more}}}\n\
         apis:\n  all:\n    base: /\n    routes: [{{path: \"/*\", proxy: one}}]\n"
    ))
    .start()
}

/// One that does this with every request.
fn doing(how: impl Fn(&mut Peer) + Send + Sync + 'static) -> Upstream {
    Upstream::start(move |_, peer| {
        while peer.request().is_some() {
            how(peer);
        }
    })
}

fn after(delay: u64, response: &'static str) -> Upstream {
    doing(move |peer| {
        std::thread::sleep(Duration::from_millis(delay));
        peer.send(response);
    })
}

fn hedged(weir: &Server) -> f64 {
    weir.metric("weir_upstream_retries_total", &["weir_reason=\"hedge\""])
}

fn won(weir: &Server, who: &str) -> f64 {
    weir.metric("weir_upstream_hedges_total", &[&format!("weir_winner=\"{who}\"")])
}

#[test]
fn a_target_that_hangs_is_not_waited_for_and_its_connection_goes() {
    let (slow, quick) = (doing(Peer::hang), Upstream::responding(OK));
    let (first, second) = (slow.addr.to_string(), quick.addr.to_string());
    let weir = before([&first, &second], SOON, "");
    let mut client = weir.connect();
    let mut ids = Vec::new();
    for _ in 0..10 {
        let response = client.get("/x");
        assert_eq!(response.text(), "ok");
        ids.push(id(&response));
    }
    let token = first_token(&weir);
    let shown = |id: &String| get(&weir, &format!("/v1/transactions/{id}"), &token).json();
    let shown: Vec<_> = ids.iter().map(shown).collect();
    assert!(shown.iter().all(|one| one["upstream_target"] == second));
    let beaten = |one: &&Value| one["upstream_attempts"][0]["target"] == first;
    let beaten: Vec<_> = shown.iter().filter(beaten).collect();
    assert_eq!(beaten.len(), 5);
    assert!(beaten.iter().all(|one| one["upstream_attempts"][0]["error"] == "cancelled"));
    // Every other request goes to it first.
    assert_eq!((slow.heads().len(), quick.heads().len()), (5, 10));
    assert_eq!([hedged(&weir), won(&weir, "second"), won(&weir, "first")], [5.0, 5.0, 0.0]);
    let host = format!("\r\nhost: {second}\r\n");
    assert!(quick.heads().iter().all(|head| head.contains(&host)));
    let count = "http_client_request_duration_seconds_count";
    assert_eq!(weir.metric(count, &["error_type=\"cancelled\""]), 5.0);
    assert_eq!(weir.metric(count, &["http_response_status_code=\"200\""]), 10.0);
    let port = format!("server_port=\"{}\"", slow.addr.port());
    eventually("nothing leads there", || {
        weir.metric("http_client_open_connections", &[&port]) == 0.0
    });
}

#[test]
fn the_stream_that_is_beaten_is_reset() {
    let resets = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&resets);
    let (slow, connections) = odd(move |_, mut connection| {
        let seen = Arc::clone(&seen);
        async move {
            while let Some(Ok((_, mut respond))) = connection.accept().await {
                let seen = Arc::clone(&seen);
                tokio::task::spawn_local(async move {
                    let reason = std::future::poll_fn(|cx| respond.poll_reset(cx)).await;
                    seen.fetch_add(
                        usize::from(reason.is_ok_and(|r| r == h2::Reason::CANCEL)),
                        SeqCst,
                    );
                });
            }
        }
    });
    let (quick, _) = odd(|_, mut connection| async move {
        while let Some(Ok((_, mut respond))) = connection.accept().await {
            let _ = respond.send_response(head(204), true);
        }
    });
    let (first, second) = (slow.to_string(), quick.to_string());
    let weir = before([&first, &second], SOON, ", protocol: http2");
    let mut client = weir.connect();
    for _ in 0..10 {
        assert_eq!(client.get("/x").status, 204);
    }
    assert_eq!([hedged(&weir), won(&weir, "second")], [5.0, 5.0]);
    eventually("streams are reset", || resets.load(SeqCst) == 5);
    assert_eq!(connections.load(SeqCst), 1, "its connection is kept");
    let count = "http_client_request_duration_seconds_count";
    assert_eq!(weir.metric(count, &["error_type=\"cancelled\""]), 5.0);
}

#[test]
fn a_response_in_time_starts_no_hedge() {
    let (one, other) = (after(1, OK), after(1, OK));
    let (first, second) = (one.addr.to_string(), other.addr.to_string());
    let weir = before([&first, &second], "hedge: 20s", "");
    let mut client = weir.connect();
    (0..20).for_each(|_| assert_eq!(client.get("/x").text(), "ok"));
    assert_eq!(one.heads().len() + other.heads().len(), 20);
    assert_eq!(hedged(&weir), 0.0);
}

#[test]
fn only_what_may_be_done_twice_and_is_at_hand_is_asked_twice() {
    let (one, other) = (after(200, OK), after(200, OK));
    let (first, second) = (one.addr.to_string(), other.addr.to_string());
    let weir = before([&first, &second], &format!("{SOON}, methods: any"), "");
    let long = "a".repeat(100_000);
    let expected = [("POST", "", 0.0), ("PATCH", "short", 0.0), ("PUT", long.as_str(), 0.0)];
    for (method, body, count) in expected.into_iter().chain([("PUT", "short", 1.0)]) {
        assert_eq!(weir.connect().request(method, "/x", &[], body).text(), "ok", "{method}");
        assert_eq!(hedged(&weir), count, "{method}");
    }
    let puts = |upstream: &Upstream| {
        let is_short = |head: &&String| head.contains("content-length: 5\r\n");
        upstream.heads().iter().filter(is_short).filter(|h| h.starts_with("PUT")).count()
    };
    assert_eq!((puts(&one), puts(&other)), (1, 1), "with its body");
}

#[test]
fn hedges_cause_no_retry_storm() {
    let (one, other) = (after(100, OK), after(100, OK));
    let (first, second) = (one.addr.to_string(), other.addr.to_string());
    let weir = before([&first, &second], "hedge: 1ms, budget: 20%, minimum: 0", "");
    // The hedge is due long before the response, however late a thread is woken.
    let mut client = weir.connect();
    for count in 1..=30 {
        assert_eq!(client.get("/x").text(), "ok");
        let sent = one.heads().len() + other.heads().len();
        assert!(sent <= count + count / 5, "{sent} of {count}");
    }
    assert!((1.0..=6.0).contains(&hedged(&weir)), "{}", hedged(&weir));
    let refused = "weir_upstream_retries_refused_total";
    assert!(weir.metric(refused, &["weir_reason=\"budget\""]) >= 24.0);
}

#[test]
fn the_first_good_response_counts_whoever_gives_it() {
    // A bad answer is not waited for twice, and nobody gets it.
    let (bad, good) = (after(100, BUSY), after(300, OK));
    let (first, second) = (bad.addr.to_string(), good.addr.to_string());
    let weir = before([&first, &second], SOON, "");
    let mut client = weir.connect();
    assert_eq!(client.get("/x").text(), "ok");
    assert_eq!((bad.heads().len(), good.heads().len()), (1, 1));
    assert_eq!(won(&weir, "second"), 1.0);
    assert_eq!(client.get("/x").text(), "ok");
    assert_eq!(won(&weir, "first"), 1.0);
    assert_eq!(bad.connections(), 1, "a whole answer keeps its connection");
}

#[test]
fn a_client_that_leaves_takes_both_with_it() {
    let (one, other) = (doing(Peer::hang), doing(Peer::hang));
    let (first, second) = (one.addr.to_string(), other.addr.to_string());
    let mut weir = before([&first, &second], SOON, "");
    let mut client = weir.connect();
    client.send("GET /x HTTP/1.1\r\nHost: a\r\n\r\n");
    eventually("both are asked", || one.heads().len() + other.heads().len() == 2);
    client.reset();
    let count = "http_client_request_duration_seconds_count";
    eventually("both are over", || weir.metric(count, &["error_type=\"cancelled\""]) == 2.0);
    eventually("nothing is open", || weir.metric("http_client_open_connections", &[]) == 0.0);
    weir.kill();
    let all = harness::transactions(&weir.data());
    let attempts = all[0].attempts.iter().map(|one| (&*one.target, &*one.error, one.status));
    // Either may be the first.
    let mut expected = [(&*first, "cancelled", 0), (&*second, "cancelled", 0)];
    expected.sort_unstable();
    let mut attempts: Vec<_> = attempts.collect();
    attempts.sort_unstable();
    assert_eq!(attempts, expected);
}

#[test]
fn the_record_says_that_it_was_sent_twice_and_how_long_the_first_try_took() {
    let (slow, quick) = (doing(Peer::hang), Upstream::responding(OK));
    let (first, second) = (slow.addr.to_string(), quick.addr.to_string());
    let mut weir = before([&first, &second], "hedge: 100ms", "");
    assert_eq!(weir.connect().get("/x").text(), "ok");
    weir.kill();
    let all = harness::transactions(&weir.data());
    assert_eq!((all.len(), all[0].retries), (1, 1));
    let took = |code| all[0].stages.iter().find(|stage| stage.0 == code).map_or(0, |s| s.1);
    assert!(took(stage::RETRY) >= 100_000, "{:?}", all[0].stages);
    assert!(took(stage::TOTAL) >= took(stage::RETRY) + took(stage::FIRST_BYTE));
}

#[test]
fn when_both_fail_there_is_one_error() {
    for (response, status) in [("", 502), (BUSY, 503)] {
        // Without an answer it ends the connection.
        let fail = move |_, peer: &mut Peer| {
            while peer.request().is_some() {
                std::thread::sleep(Duration::from_millis(150));
                if response.is_empty() || !peer.send(response) {
                    return;
                }
            }
        };
        let (one, other) = (Upstream::start(fail), Upstream::start(fail));
        let (first, second) = (one.addr.to_string(), other.addr.to_string());
        let weir = before([&first, &second], SOON, "");
        let mut client = weir.connect();
        assert_eq!(client.get("/x").status, status);
        assert_eq!((one.heads().len(), other.heads().len()), (1, 1));
        assert_eq!([hedged(&weir), won(&weir, "none")], [1.0, 1.0]);
        assert_eq!(weir.metric("http_client_request_duration_seconds_count", &[]), 2.0);
        assert_eq!(weir.metric("http_server_request_duration_seconds_count", &[]), 1.0);
        // Further tries are those of `retries`, and the second one was one of them.
        let refused = "weir_upstream_retries_refused_total";
        assert_eq!(weir.metric(refused, &["weir_reason=\"tries\""]), 1.0);
    }
}
