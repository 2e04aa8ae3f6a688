//! How many agents there are, and how they are replaced.

use super::{PROTOCOLS, ask, config, get, open, pids, runs, send, settled, start, status};
use crate::harness::{Server, Signal, eventually, weir};

#[test]
fn agents_come_with_demand_and_go_when_idle() {
    let keys = "    agents: {min: 1, max: 4, starting: 4}\n    recycle: {idle: 300ms}";
    let server = start("fastcgi", keys);
    settled(&server, 1);
    let mut clients: Vec<_> = (0..4).map(|_| send(&server, "/gate")).collect();
    eventually("there is one for each", || status(&server)["agents"]["busy"] == 4);
    open(&server);
    clients.iter_mut().for_each(|client| assert_eq!(client.response().status, 200));
    settled(&server, 1);
    assert_eq!(status(&server)["restarted"], 0);
}

#[test]
fn initial_agents_are_there_before_requests_and_trimmed_on_demand() {
    let server = start("http", "    agents: {min: 1, initial: 3, max: 4}");
    settled(&server, 3);
    let admin = format!("http://{}", server.admin.expect("an admin listener"));
    let run = |args: &[&str]| {
        let output = weir(server.dir(), &[args, &["--admin", &admin]].concat());
        assert!(output.status.success(), "{output:?}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    assert!(run(&["pool", "status"]).contains("0/4"));
    run(&["pool", "trim", "p"]);
    settled(&server, 1);
    let before = pids(&server);
    run(&["pool", "recycle", "p"]);
    eventually("it is replaced", || {
        let now = pids(&server);
        now.len() == 1 && now != before
    });
    settled(&server, 1);
    assert_eq!(status(&server)["restarted"], 1);
    let json = run(&["pool", "status", "p", "--json"]);
    let json: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(json["agents"]["available"], 1);
    assert_eq!(ask(&server, "POST", "/v1/pools/q/trim").status, 404);
    assert_eq!(ask(&server, "POST", "/v1/pools/p/smash").status, 404);
    let unknown = weir(server.dir(), &["pool", "status", "q", "--admin", &admin]);
    assert!(!unknown.status.success());
}

#[test]
fn agents_are_replaced_after_so_many_requests_and_when_they_have_grown() {
    let server = start("fastcgi", "    agents: {max: 1}\n    recycle: {requests: 3}");
    let mut seen = Vec::new();
    for _ in 0..9 {
        let response = get(&server, "/pid");
        assert_eq!(response.status, 200);
        seen.push(response.text());
    }
    let lives: Vec<usize> = seen.chunk_by(|a, b| a == b).map(<[String]>::len).collect();
    assert_eq!(lives, [3, 3, 3], "{seen:?}");

    let server = start("fastcgi", "    agents: {max: 1}\n    recycle: {memory: 60MiB}");
    settled(&server, 1);
    let before = pids(&server);
    assert_eq!(get(&server, "/leak").text(), "leaked");
    eventually("it is replaced", || !runs(before[0]) && pids(&server).len() == 1);
    assert_eq!(get(&server, "/x").status, 200);

    let server = start("http", "    agents: {max: 1}\n    recycle: {age: 400ms}");
    settled(&server, 1);
    let before = pids(&server);
    eventually("it is replaced", || {
        let now = pids(&server);
        now.len() == 1 && now != before
    });
}

#[test]
fn a_reload_replaces_agents_and_loses_no_request() {
    let mut server = start("fastcgi", "    agents: {min: 2, max: 2}\n    env: {ROUND: one}");
    settled(&server, 2);
    let before = pids(&server);
    let mut slow = send(&server, "/gate");
    eventually("one is busy", || status(&server)["agents"]["busy"] == 1);
    server.reload(&config("fastcgi", "    agents: {min: 2, max: 2}\n    env: {ROUND: two}"));
    let response = get(&server, "/env").text();
    assert!(response.contains("ROUND=two"), "{response}");
    open(&server);
    assert_eq!(slow.response().status, 200, "it ends with the agent it started with");
    eventually("the old ones have ended", || before.iter().all(|pid| !runs(*pid)));
    // What it has counted goes on.
    assert_eq!(status(&server)["served"], 2);
    // A change that does not concern the program keeps its agents.
    let kept = pids(&server);
    server.reload(&config("fastcgi", "    agents: {min: 2, max: 3}\n    env: {ROUND: two}"));
    assert_eq!(get(&server, "/x").status, 200);
    assert_eq!(pids(&server), kept);
    assert_eq!(status(&server)["agents"]["max"], 3);
}

/// The process that ends agents when weir cannot.
fn watchdog(server: &Server) -> Option<u64> {
    let children = format!("/proc/{0}/task", server.pid());
    let threads = std::fs::read_dir(children).expect("its threads").flatten();
    let children =
        threads.filter_map(|thread| std::fs::read_to_string(thread.path().join("children")).ok());
    let pids: Vec<u64> = children
        .flat_map(|text| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
        .filter_map(|pid| pid.parse().ok())
        .collect();
    pids.into_iter().find(|pid| {
        let words = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&words).contains("groups=")
    })
}

fn kill(pid: u64) {
    let pid = rustix::process::Pid::from_raw(pid as i32).expect("a process");
    rustix::process::kill_process(pid, Signal::KILL).expect("it runs");
}

#[test]
fn a_watchdog_that_is_killed_is_replaced_and_agents_still_end_with_weir() {
    let mut server = start("fastcgi", "    agents: {min: 2}");
    settled(&server, 2);
    let agents = pids(&server);
    let first = watchdog(&server).expect("a watchdog");
    kill(first);
    eventually("there is another one", || watchdog(&server).is_some_and(|pid| pid != first));
    assert!(!std::path::Path::new(&format!("/proc/{first}")).exists(), "it is a zombie");
    eventually("it is said", || server.stderr().contains("the watchdog of agents has ended"));
    server.kill();
    eventually("agents end with weir", || agents.iter().all(|pid| !runs(*pid)));
}

#[test]
fn requests_wait_for_other_agents_when_many_crash_at_once() {
    for protocol in PROTOCOLS {
        let server = start(protocol, "    agents: {min: 4, max: 4, starting: 4}");
        settled(&server, 4);
        for round in 1..=3 {
            pids(&server).into_iter().for_each(kill);
            eventually("it is noticed", || status(&server)["crashed"] == 4 * round);
            let response = get(&server, "/x");
            assert_eq!(response.status, 200, "{protocol} {round}: {}", response.text());
            settled(&server, 4);
        }
    }
}
