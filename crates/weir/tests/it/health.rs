//! Targets that go out of service and come back: by checks, by failures, by errors.

use crate::harness::{self, Peer, Server, Upstream, Weir, nobody};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::{Duration, Instant};

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
const ERROR: &str = "HTTP/1.1 500 No\r\nContent-Length: 2\r\n\r\nno";

fn before(targets: &[String], workers: usize, health: &str) -> Server {
    let targets: Vec<String> = targets.iter().map(|addr| format!("\"http://{addr}\"")).collect();
    let config = format!(
        "listen: [{{addr: \"127.0.0.1:0\"}}]\nworkers: {workers}\n\
         upstreams:\n  one: {{targets: [{}], timeout: 300ms, health: {{{health}}}}}\n\
         apis:\n  all:\n    base: /\n    routes: [{{path: \"/*\", proxy: one}}]\n",
        targets.join(", ")
    );
    Weir::new(&config).start()
}

/// One that answers requests well, and checks as it is told.
fn asked(how: impl Fn(&mut Peer) + Send + Sync + 'static) -> Upstream {
    Upstream::start(move |_, peer| {
        while peer.request().is_some() {
            if !peer.last_head().starts_with("GET /health") {
                peer.send(OK);
                continue;
            }
            how(peer);
            return;
        }
    })
}

fn taken_out(weir: &Server, why: &str) -> f64 {
    weir.metric("weir_upstream_taken_out_total", &[&format!("weir_reason=\"{why}\"")])
}

#[test]
fn only_those_get_requests_that_say_they_are_well() {
    let responses = [
        ERROR,
        "HTTP/1.1 302 Found\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nlying",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        "SSH-2.0-OpenSSH_9.2\r\n\r\n",
        "",
    ];
    let mut bad: Vec<Upstream> = responses
        .map(|response| {
            asked(move |peer| {
                peer.send(response);
            })
        })
        .into();
    bad.push(asked(|peer| peer.reset()));
    bad.push(asked(|peer| peer.hang()));
    let good = asked(|peer| {
        peer.send(OK);
    });
    let mut targets: Vec<String> = bad.iter().map(|one| one.addr.to_string()).collect();
    targets.push(nobody().to_string());
    targets.push(good.addr.to_string());
    let check = "check: {path: \"/health?deep=1\", every: 1s, timeout: 500ms, unhealthy: 2}";
    let weir = before(&targets, 1, &format!("failures: 0, {check}"));
    harness::eventually("nine of ten are out", || weir.metric("weir_upstream_up", &[]) == 1.0);
    assert_eq!(taken_out(&weir, "check"), 9.0);
    let requests = |all: &[Upstream]| {
        let heads = all.iter().flat_map(Upstream::heads);
        heads.filter(|head| head.starts_with("GET /x ")).count()
    };
    let mut client = weir.connect();
    for _ in 0..20 {
        assert_eq!(client.get("/x").text(), "ok");
    }
    assert_eq!(requests(&bad), 0);
    assert_eq!(requests(&[good]), 20);
}

#[test]
fn a_check_asks_as_it_is_told_to_and_once_for_all_workers() {
    let upstream = asked(|peer| {
        peer.send("HTTP/1.1 429 Busy\r\nContent-Length: 0\r\n\r\n");
    });
    let check = "check: {path: /health, every: 1s, statuses: [200, 429], unhealthy: 1}";
    let started = Instant::now();
    let weir = before(&[upstream.addr.to_string()], 4, check);
    upstream.wait_for_requests(4);
    let (asked, seconds) = (upstream.heads(), started.elapsed().as_secs() as usize);
    assert!(asked.len() <= seconds + 2, "{} in {seconds} s", asked.len());
    let addr = upstream.addr.to_string();
    for head in asked {
        assert!(head.starts_with("GET /health HTTP/1.1\r\n"), "{head}");
        assert!(head.contains(&format!("\r\nhost: {addr}\r\n")), "{head}");
        assert!(head.contains("\r\nuser-agent: weir-health-check\r\n"), "{head}");
    }
    assert_eq!(upstream.connections(), upstream.heads().len(), "each over one of its own");
    assert_eq!(weir.metric("weir_upstream_up", &[]), 1.0);
    assert!(weir.metric("weir_upstream_checks_total", &["weir_result=\"good\""]) >= 3.0);
    assert_eq!(weir.metric("weir_upstream_checks_total", &["weir_result=\"bad\""]), 0.0);
    assert_eq!(weir.metric("http_client_request_duration_seconds_count", &[]), 0.0);
}

#[test]
fn one_that_gets_well_is_asked_again_and_a_reload_without_checks_asks_nobody() {
    let well = Arc::new(AtomicBool::new(true));
    let state = Arc::clone(&well);
    let upstream = asked(move |peer| {
        peer.send(if state.load(SeqCst) { OK } else { ERROR });
    });
    let other = asked(|peer| {
        peer.send(OK);
    });
    let targets = [upstream.addr.to_string(), other.addr.to_string()];
    let check = "check: {path: /health, every: 1s, healthy: 1, unhealthy: 1}";
    let mut weir = before(&targets, 2, check);
    let up = |weir: &Server| weir.metric("weir_upstream_up", &[]);
    for _ in 0..2 {
        well.store(false, SeqCst);
        harness::eventually("it is out", || up(&weir) == 1.0);
        well.store(true, SeqCst);
        harness::eventually("it is back", || up(&weir) == 2.0);
    }
    well.store(false, SeqCst);
    harness::eventually("it is out again", || up(&weir) == 1.0);
    let config = std::fs::read_to_string(weir.dir().join("weir.yaml")).unwrap();
    weir.reload(&config.replace(check, ""));
    assert_eq!(up(&weir), 2.0, "nobody says otherwise any more");
    let asked = other.heads().len();
    std::thread::sleep(Duration::from_millis(2500));
    assert!(other.heads().len() <= asked + 1, "one may have been under way");
}

#[test]
fn errors_take_a_target_out_but_never_more_than_may_be() {
    let errors = "errors: {share: 50%, requests: 4, window: 1h}, failures: 0, pause: 1h";
    let (bad, good) = (Upstream::responding(ERROR), Upstream::responding(OK));
    let targets = [bad.addr.to_string(), good.addr.to_string()];
    let weir = before(&targets, 1, errors);
    let mut client = weir.connect();
    let failed = (0..100).filter(|_| client.get("/x").status == 500).count();
    assert_eq!((failed, bad.heads().len()), (4, 4));
    assert_eq!(taken_out(&weir, "errors"), 1.0);

    let all: Vec<Upstream> = (0..4).map(|_| Upstream::responding(ERROR)).collect();
    let targets: Vec<String> = all.iter().map(|one| one.addr.to_string()).collect();
    let weir = before(&targets, 1, &format!("{errors}, most_out: 50%"));
    let mut client = weir.connect();
    for _ in 0..100 {
        assert_eq!(client.get("/x").status, 500);
    }
    assert_eq!(weir.metric("weir_upstream_up", &[]), 2.0);
    assert_eq!(taken_out(&weir, "errors"), 2.0);
}
