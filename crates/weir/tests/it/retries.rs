//! Requests that are sent again: when, to whom, how often, and never more than the budget allows.

use crate::admin_api::{first_token, get, id};
use crate::harness::{self, Client, Peer, Response, Server, Upstream, Weir, nobody};
use serde_json::json;
use weir_model::stage;

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
const BUSY: &str = "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 4\r\n\r\nbusy";
/// Enough for every test that is not about it.
const PLENTY: &str = "budget: 100%, minimum: 1000, backoff: 1ms";

/// weir in front of these targets, none of which is ever taken out.
fn before(targets: &[&str], retries: &str, more: &str) -> Server {
    let targets: Vec<String> = targets.iter().map(|addr| format!("\"http://{addr}\"")).collect();
    let config = format!(
        "listen: [{{addr: \"127.0.0.1:0\"}}]\nworkers: 1\n\
         upstreams:\n  one: {{targets: [{}], timeout: 5s, idle_timeout: 5s, \
         health: {{failures: 0}}, retries: {{{retries}}}}}\n\
         apis:\n  all:\n    base: /\n    routes: [{{path: \"/*\", proxy: one}}]\n{more}",
        targets.join(", ")
    );
    Weir::new(&config).start()
}

fn again(weir: &Server, why: &str) -> f64 {
    weir.metric("weir_upstream_retries_total", &[&format!("weir_reason=\"{why}\"")])
}

fn refused(weir: &Server, why: &str) -> f64 {
    weir.metric("weir_upstream_retries_refused_total", &[&format!("weir_reason=\"{why}\"")])
}

/// One that does this with every request.
fn failing(how: fn(&mut Peer)) -> Upstream {
    Upstream::start(move |_, peer| {
        if peer.request().is_some() {
            how(peer);
        }
    })
}

fn assert_problem(response: &Response, status: u16, slug: &str) {
    assert_eq!(response.status, status, "{}", response.text());
    assert_eq!(response.json()["type"], format!("urn:weir:problem:{slug}"));
}

#[test]
fn another_target_responds_whatever_the_first_one_does() {
    let faults: [fn(&mut Peer); 4] = [
        |peer| peer.reset(),
        |_| {},
        |peer| peer.hang(),
        |peer| {
            peer.send(BUSY);
        },
    ];
    let told =
        [("closed", "a reset"), ("closed", "an end"), ("timeout", "silence"), ("status", "503")];
    for ((why, what), how) in told.into_iter().zip(faults) {
        let (bad, good) = (failing(how), Upstream::responding(OK));
        let (first, second) = (bad.addr.to_string(), good.addr.to_string());
        let weir = before(&[&first, &second], &format!("{PLENTY}, timeout: 300ms"), "");
        let mut client = weir.connect();
        for _ in 0..4 {
            assert_eq!(client.get("/x").text(), "ok", "{what}");
        }
        assert_eq!(again(&weir, why), bad.heads().len() as f64, "{what}");
        assert!(!bad.heads().is_empty() && good.heads().len() == 4, "{what}");
        // Each has the host that it is known by.
        let host = |addr: &str| format!("\r\nhost: {addr}\r\n");
        assert!(bad.heads().iter().all(|head| head.contains(&host(&first))), "{what}");
        assert!(good.heads().iter().all(|head| head.contains(&host(&second))), "{what}");
        assert_eq!(weir.metric("weir_upstream_retries_refused_total", &[]), 0.0, "{what}");
    }
}

#[test]
fn the_record_names_every_target_that_was_asked() {
    let (bad, good) = (
        failing(|peer| {
            peer.send(BUSY);
        }),
        Upstream::responding(OK),
    );
    let targets = [nobody().to_string(), bad.addr.to_string(), good.addr.to_string()];
    let weir =
        before(&targets.each_ref().map(String::as_str), PLENTY, "tracker: {enabled: true}\n");
    let token = first_token(&weir);
    let response = weir.connect().get("/x");
    assert_eq!(response.text(), "ok");
    let shown = get(&weir, &format!("/v1/transactions/{}", id(&response)), &token).json();
    assert_eq!(shown["upstream_target"], targets[2]);
    let attempts = shown["upstream_attempts"].as_array().unwrap();
    let told: Vec<_> = attempts.iter().map(|one| (&one["target"], &one["status"])).collect();
    assert_eq!(told, [(&json!(targets[0]), &json!(0)), (&json!(targets[1]), &json!(503))]);
    assert_eq!((&attempts[0]["error"], &attempts[1]["error"]), (&json!("connect"), &json!(null)));
    let time = |at: usize, field: &str| attempts[at][field].as_u64().unwrap();
    assert!(time(0, "started_us") <= time(1, "started_us"));
    assert!(time(1, "started_us") + time(1, "took_us") <= shown["took_us"].as_u64().unwrap());

    // The client gets the last response: it is no failed attempt.
    let weir = before(&[&targets[1]], PLENTY, "tracker: {enabled: true}\n");
    let response = weir.connect().get("/y");
    let path = format!("/v1/transactions/{}", id(&response));
    let shown = get(&weir, &path, &first_token(&weir)).json();
    assert_eq!((&shown["status"], &shown["upstream_target"]), (&json!(503), &json!(targets[1])));
    assert_eq!(shown["upstream_attempts"].as_array().unwrap().len(), 2);
}

#[test]
fn one_that_cannot_be_connected_to_is_asked_again_after_a_pause() {
    let addr = nobody().to_string();
    let weir = before(&[&addr], &format!("{PLENTY}, tries: 4"), "");
    assert_problem(&weir.connect().get("/x"), 502, "upstream-unreachable");
    assert_eq!((again(&weir, "connect"), refused(&weir, "tries")), (3.0, 1.0));
    let count = "http_client_request_duration_seconds_count";
    assert_eq!(weir.metric(count, &["error_type=\"connect\""]), 4.0, "each try is seen");
}

#[test]
fn the_only_target_gets_it_again() {
    let upstream = Upstream::start(|number, peer| {
        while peer.request().is_some() {
            peer.send(if number == 0 && peer.requests() <= 2 { BUSY } else { OK });
        }
    });
    let weir = before(&[&upstream.addr.to_string()], PLENTY, "");
    assert_eq!(weir.connect().get("/x").text(), "ok");
    assert_eq!(upstream.heads().len(), 3);
    assert_eq!(
        upstream.connections(),
        1,
        "an answer that was there as a whole costs no connection"
    );
}

#[test]
fn the_client_gets_the_last_response_when_the_attempts_are_used_up() {
    let upstream = Upstream::responding(BUSY);
    let weir = before(&[&upstream.addr.to_string()], PLENTY, "");
    let response = weir.connect().get("/x");
    assert_eq!((response.status, response.text().as_str()), (503, "busy"));
    assert_eq!(upstream.heads().len(), 3);
    assert_eq!((again(&weir, "status"), refused(&weir, "tries")), (2.0, 1.0));
    let count = "http_client_request_duration_seconds_count";
    assert_eq!(weir.metric(count, &["http_response_status_code=\"503\""]), 3.0);
    assert_eq!(weir.metric("http_client_open_connections", &["state=\"active\""]), 0.0);
}

#[test]
fn a_response_that_is_discarded_may_have_any_length() {
    let long = "a".repeat(300_000);
    let fixed = format!("HTTP/1.1 503 No\r\nContent-Length: 300000\r\n\r\n{long}");
    let chunked = format!("HTTP/1.1 503 No\r\nTransfer-Encoding: chunked\r\n\r\n493e0\r\n{long}");
    let short = "HTTP/1.1 503 No\r\nContent-Length: 1000\r\n\r\nhalf".to_owned();
    let empty = "HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n".to_owned();
    for response in [fixed, chunked, short, empty] {
        let upstream = Upstream::start(move |_, peer| {
            while peer.request().is_some() {
                let first = peer.last_head().starts_with("GET /x ") && peer.requests() == 1;
                peer.send(if first { response.as_str() } else { OK });
            }
        });
        let good = Upstream::responding(OK);
        let addresses = [upstream.addr.to_string(), good.addr.to_string()];
        let weir = before(&[&addresses[0], &addresses[1]], PLENTY, "");
        let mut client = weir.connect();
        for _ in 0..6 {
            assert_eq!(client.get("/x").text(), "ok");
        }
    }
}

#[test]
fn what_may_have_been_done_is_not_done_again_unless_it_may_be() {
    for (what, response) in [("status", BUSY), ("closed", "")] {
        let upstream = Upstream::start(move |_, peer| {
            while let Some(body) = peer.request() {
                assert!(body == b"five!" || peer.last_head().starts_with("GET"));
                if response.is_empty() || !peer.send(response) {
                    return;
                }
            }
        });
        let addr = upstream.addr.to_string();
        let weir = before(&[&addr], PLENTY, "");
        for (method, requests) in [("POST", 1), ("PATCH", 1), ("PUT", 3), ("DELETE", 3)] {
            let before = upstream.heads().len();
            let response = weir.connect().request(method, "/x", &[], "five!");
            assert!(response.status >= 502);
            let sent = upstream.heads().len() - before;
            // A kept connection may turn out to be closed, which is none of the tries.
            let stale = again(&weir, "stale") as usize;
            assert!(sent == requests || sent == requests + stale, "{method}, {what}: {sent}");
        }
        let weir = self::before(&[&addr], &format!("{PLENTY}, methods: any"), "");
        let before = upstream.heads().len();
        assert!(weir.connect().request("POST", "/x", &[], "five!").status >= 502);
        assert_eq!(upstream.heads().len() - before, 3, "{what}");
    }
}

#[test]
fn a_body_that_is_not_at_hand_any_more_is_not_sent_again() {
    let upstream = failing(|peer| {
        peer.send(BUSY);
    });
    let weir = before(&[&upstream.addr.to_string()], PLENTY, "");
    let response = weir.connect().request("PUT", "/x", &[], &"a".repeat(1_000_000));
    assert_eq!(response.text(), "busy");
    assert_eq!(upstream.heads().len(), 1);
    // Where nobody could be connected to, nothing was sent.
    let good = Upstream::responding(OK);
    let addresses = [nobody().to_string(), good.addr.to_string()];
    let weir = before(&[&addresses[0], &addresses[1]], PLENTY, "");
    for _ in 0..4 {
        let response = weir.connect().request("POST", "/x", &[], &"a".repeat(1_000_000));
        assert_eq!(response.text(), "ok");
    }
}

#[test]
fn a_response_that_has_started_is_not_retried() {
    let responses = [
        "HTTP/1.1 200 OK\r\nContent-Le",
        "HTTP/1.1 103 Early Hints\r\n\r\n",
        "SSH-2.0-OpenSSH_9.2\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nlying",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\nzz\r\n",
    ];
    for response in responses {
        let upstream = Upstream::start(move |_, peer| {
            peer.request();
            peer.send(response);
        });
        let weir = before(&[&upstream.addr.to_string()], PLENTY, "");
        let mut client = weir.connect();
        client.send("GET /x HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
        let (told, _) = client.rest_or_reset();
        assert!(!told.ends_with(b"lying") || told.len() < 200, "{response:?}");
        assert_eq!(upstream.heads().len(), 1, "{response:?}");
    }
}

#[test]
fn no_more_is_sent_again_than_the_budget_allows() {
    let upstream = Upstream::responding(BUSY);
    let weir = before(
        &[&upstream.addr.to_string()],
        "tries: 10, budget: 20%, minimum: 0, backoff: 0s",
        "",
    );
    let mut client = weir.connect();
    for count in 1..=300 {
        assert_eq!(client.get("/x").text(), "busy");
        assert!(upstream.heads().len() <= count + count / 5, "of {count}");
    }
    assert_eq!(again(&weir, "status"), 60.0, "and all of it is used");
    assert!(refused(&weir, "budget") > 200.0);
}

#[test]
fn kept_connections_that_break_are_in_the_budget_too() {
    let upstream = Upstream::start(|_, peer| {
        while peer.request().is_some() && peer.requests() == 1 {
            peer.send(OK);
        }
    });
    let weir = before(&[&upstream.addr.to_string()], "budget: 10%, minimum: 0, backoff: 0s", "");
    let mut client = weir.connect();
    for _ in 0..100 {
        client.get("/x");
    }
    let stale = again(&weir, "stale");
    assert!(stale > 0.0 && stale + again(&weir, "closed") <= 10.0, "{stale}");
    assert!(upstream.heads().len() <= 110);
}

/// One of five targets fails: with a budget of a fifth nearly all requests succeed, and the others
/// get no more than a fifth more.
#[test]
fn a_fifth_of_the_targets_may_fail() {
    let faults: [fn(&mut Peer); 3] = [
        |peer| peer.reset(),
        |_| {},
        |peer| {
            peer.send(BUSY);
        },
    ];
    for how in faults {
        let bad = failing(how);
        let good: Vec<Upstream> = (0..4).map(|_| Upstream::responding(OK)).collect();
        let mut addresses: Vec<String> = good.iter().map(|one| one.addr.to_string()).collect();
        addresses.insert(2, bad.addr.to_string());
        let addresses: Vec<&str> = addresses.iter().map(String::as_str).collect();
        let weir = before(&addresses, "minimum: 0, backoff: 1ms", "");
        let mut clients: Vec<Client> = (0..4).map(|_| weir.connect()).collect();
        let requests = 1000;
        let served = (0..requests).filter(|i| clients[i % 4].get("/x").status == 200).count();
        let sent = good.iter().map(|one| one.heads().len()).sum::<usize>() + bad.heads().len();
        assert!(sent <= requests * 12 / 10, "{sent}");
        // What failed beyond the budget is all that failed.
        assert_eq!((requests - served) as f64, refused(&weir, "budget"));
        assert!(served * 1000 >= requests * 995, "{served} of {requests}");
    }
}

#[test]
fn there_is_no_pause_that_the_request_has_no_time_for() {
    let upstream = Upstream::responding(BUSY);
    let weir = before(
        &[&upstream.addr.to_string()],
        "budget: 100%, minimum: 1000, backoff: 100000s",
        "limits: {request: 20s}\n",
    );
    assert_eq!(weir.connect().get("/x").text(), "busy", "at once");
    assert_eq!((upstream.heads().len(), refused(&weir, "deadline")), (1, 1.0));
}

#[test]
fn a_client_that_leaves_meanwhile_is_not_worked_for() {
    let upstream = Upstream::responding(BUSY);
    let weir = before(
        &[&upstream.addr.to_string()],
        "minimum: 1000, backoff: 100000s",
        "limits: {request: none}\n",
    );
    let mut client = weir.connect();
    client.send("GET /x HTTP/1.1\r\nHost: a\r\n\r\n");
    upstream.wait_for_requests(1);
    harness::eventually("a pause begins", || again(&weir, "status") == 1.0);
    client.reset();
    harness::eventually("it is over", || weir.metric("weir_aborted_requests_total", &[]) == 1.0);
    assert_eq!(upstream.heads().len(), 1);
}

#[test]
fn the_record_says_how_often_and_how_long() {
    let (bad, good) = (failing(|peer| peer.hang()), Upstream::responding(OK));
    let addresses = [bad.addr.to_string(), good.addr.to_string()];
    let mut weir = before(
        &[&addresses[0], &addresses[1]],
        &format!("{PLENTY}, timeout: 200ms"),
        "tracker: {enabled: true}\n",
    );
    let mut client = weir.connect();
    for _ in 0..2 {
        assert_eq!(client.get("/x").text(), "ok");
    }
    weir.kill();
    let all = harness::transactions(&weir.data());
    let retried: Vec<_> = all.iter().filter(|one| one.retries > 0).collect();
    assert_eq!((all.len(), retried.len(), retried[0].retries), (2, 1, 1));
    let took = |code| retried[0].stages.iter().find(|stage| stage.0 == code).map_or(0, |s| s.1);
    assert!(took(stage::RETRY) >= 200_000, "{:?}", retried[0].stages);
    assert!(took(stage::FIRST_BYTE) < took(stage::RETRY), "{:?}", retried[0].stages);
    assert!(took(stage::TOTAL) >= took(stage::RETRY) + took(stage::FIRST_BYTE));
}
