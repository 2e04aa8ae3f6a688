//! Agents that behave badly, and requests that they have then.

use super::{PROTOCOLS, breaks_off, config, get, open, pids, runs, send, settled, start, status};
use crate::harness::{Signal, Weir, eventually};

#[test]
fn an_agent_that_crashes_is_replaced_and_only_its_request_is_lost() {
    for protocol in PROTOCOLS {
        let server = start(protocol, "    agents: {min: 2, max: 2}");
        settled(&server, 2);
        for what in ["crash", "abort"] {
            let mut client = server.connect();
            let response = client.request("POST", &format!("/{what}"), &[], "x");
            assert_eq!(response.status, 502, "{protocol} {what}: {}", response.text());
            assert!(response.text().contains("upstream-closed"), "{}", response.text());
        }
        for _ in 0..10 {
            assert_eq!(get(&server, "/x").status, 200, "{protocol}");
        }
        settled(&server, 2);
        assert_eq!(status(&server)["crashed"], 2);
        let log = server.stderr();
        assert!(log.contains("exit status 3") && log.contains("signal 6"), "{log}");
    }
}

#[test]
fn an_agent_that_hangs_is_killed_at_its_deadline() {
    for protocol in PROTOCOLS {
        let server = start(protocol, "    agents: {max: 1}\n    timeout: 300ms");
        settled(&server, 1);
        let before = pids(&server);
        let response = get(&server, "/hang");
        assert_eq!(response.status, 504, "{protocol}: {}", response.text());
        eventually("it is killed", || !runs(before[0]));
        // The next request is served by another one.
        eventually("others are served", || get(&server, "/pid").status == 200);
        assert_ne!(pids(&server), before);
        assert_eq!(status(&server)["killed"], 1);
    }
}

#[test]
fn a_response_that_stalls_ends_with_its_agent() {
    let server = start("fastcgi", "    agents: {max: 1}\n    idle_timeout: 300ms");
    settled(&server, 1);
    let before = pids(&server);
    let client = send(&server, "/stall");
    breaks_off(client);
    eventually("it is killed", || !runs(before[0]));
    eventually("others are served", || get(&server, "/pid").status == 200);
}

#[test]
fn an_invalid_response_is_distinguished_and_its_agent_killed() {
    for protocol in PROTOCOLS {
        let server = start(protocol, "    agents: {max: 1}");
        settled(&server, 1);
        let before = pids(&server);
        let response = get(&server, "/garbage");
        assert_eq!(response.status, 502);
        assert!(response.text().contains("upstream-garbage"), "{protocol}: {}", response.text());
        eventually("it is killed", || !runs(before[0]));
        eventually("others are served", || get(&server, "/pid").status == 200);
    }
    let server = start("fastcgi", "");
    assert!(get(&server, "/nohead").text().contains("upstream-garbage"));
}

#[test]
fn a_response_that_ends_early_is_not_taken_for_whole() {
    for protocol in PROTOCOLS {
        let server = start(protocol, "    agents: {max: 1}");
        let client = send(&server, "/early");
        breaks_off(client);
        // It only closed the connection, and is asked whether it is well.
        eventually("it serves on", || get(&server, "/pid").status == 200);
        settled(&server, 1);
        let status = status(&server);
        assert_eq!((&status["crashed"], &status["started"]), (&0.into(), &1.into()), "{status}");
    }
}

#[test]
fn what_an_agent_has_forked_ends_with_it() {
    let server = start("fastcgi", "    agents: {max: 1}");
    settled(&server, 1);
    let agent = pids(&server)[0];
    assert_eq!(get(&server, "/fork").text(), "forked");
    let children = format!("/proc/{agent}/task/{agent}/children");
    let children = std::fs::read_to_string(children).unwrap_or_default();
    let child: u64 = children.trim().parse().expect("it has forked");
    assert_eq!(get(&server, "/crash").status, 502);
    eventually("both have ended", || !runs(agent) && !runs(child));
    assert_eq!(get(&server, "/x").status, 200);
}

#[test]
fn an_agent_whose_client_has_left_is_used_again_when_it_is_through() {
    for protocol in PROTOCOLS {
        let server = start(protocol, "    agents: {max: 1}");
        settled(&server, 1);
        let before = pids(&server);
        let client = send(&server, "/gate");
        eventually("it has the request", || status(&server)["agents"]["busy"] == 1);
        client.reset();
        eventually("it is known that nobody waits", || {
            let agents = &status(&server)["agents"];
            agents["locked"] == 1
        });
        open(&server);
        let response = get(&server, "/pid");
        assert_eq!(response.text(), before[0].to_string(), "{protocol}");
        assert_eq!(status(&server)["started"], 1);
    }
}

#[test]
fn a_pool_that_cannot_start_says_so_and_others_serve_on() {
    let keys = "    env: {FAILS: yes}\n    queue: {wait: 60s}";
    let mut server = Weir::new(&config("fastcgi", keys)).file("agent.py", super::AGENT).start();
    // Whoever came before that was known is told, too, and does not wait.
    let response = get(&server, "/x");
    assert_eq!(response.status, 503);
    assert!(response.text().contains("pool-unavailable"), "{}", response.text());
    assert!(response.header("retry-after").is_some_and(|after| after.parse::<u64>().is_ok()));
    assert_eq!(get(&server, "/still/there").text(), "here");
    let ready = server.connect_admin().get("/readyz");
    assert_eq!(ready.status, 503);
    assert!(ready.text().contains("pool-unavailable"), "{}", ready.text());
    let log = server.stderr();
    assert!(log.contains("this program cannot start"), "{log}");
    assert!(log.contains("pool p: an agent cannot be started"), "{log}");
    assert_eq!(status(&server)["ready"], false);
    // Mended, it goes on.
    server.reload(&config("fastcgi", ""));
    eventually("it serves", || get(&server, "/x").status == 200);
    eventually("it is ready", || server.connect_admin().get("/readyz").status == 200);
}

#[test]
fn a_program_that_is_not_there_or_speaks_otherwise_is_told_apart() {
    let gone = config("fastcgi", "").replace("python3, -S", "no-such-program-anywhere");
    let server = Weir::new(&gone).start();
    assert_eq!(get(&server, "/x").status, 503);
    assert!(server.stderr().contains("no-such-program-anywhere"), "{}", server.stderr());
    let other = config("fastcgi", "").replace("agent.py, fastcgi", "agent.py, http");
    let server = Weir::new(&other).file("agent.py", super::AGENT).start();
    assert_eq!(get(&server, "/x").status, 503);
}

#[test]
fn no_agent_outlives_weir_however_it_ends() {
    for signal in [Signal::TERM, Signal::KILL] {
        let keys = "    agents: {min: 2}\n    env: {STUBBORN: yes}\n    stop_timeout: 200ms";
        let mut server = start("fastcgi", keys);
        settled(&server, 2);
        let agents = pids(&server);
        let folder = server.data().join("agents");
        server.signal(signal);
        server.wait();
        eventually("they end", || agents.iter().all(|pid| !runs(*pid)));
        if signal == Signal::TERM {
            let left = std::fs::read_dir(folder).expect("the folder is there").count();
            assert_eq!(left, 0, "its folder is removed");
        }
    }
}
