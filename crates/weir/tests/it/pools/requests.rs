//! Requests to agents that behave.

use super::{PROTOCOLS, get, pids, settled, start, status};
use crate::harness::{Weir, eventually};

#[test]
fn requests_and_responses_pass_complete_over_keep_alive_connections() {
    for protocol in PROTOCOLS {
        let server = start(protocol, "    agents: {max: 1}");
        let mut client = server.connect();
        for (at, length) in [0, 1, 5000, 70_000, 300_000].into_iter().enumerate() {
            let response = client.request("POST", "/x", &[], &"b".repeat(length));
            assert_eq!(response.text(), format!("POST {length} {}", at + 1), "{protocol}");
        }
        let response = client.get("/big?16");
        assert_eq!((response.status, response.body.len()), (200, 16 << 16));
        assert!(response.body.chunks(16).all(|piece| piece == b"0123456789abcdef"));
        let mut client = server.connect();
        client
            .send("POST /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n");
        client.send("4\r\ndefg\r\n0\r\n\r\n");
        assert_eq!(client.response().text(), "POST 7 7");
        assert_eq!(client.request("HEAD", "/x", &[], "").status, 200);
        eventually("every request is counted", || status(&server)["served"] == 8);
    }
}

#[test]
fn agents_see_no_more_than_they_should() {
    let server = start("fastcgi", "    env: {OWN: value}\n    headers: [X-Listed_One]");
    let environment = get(&server, "/env").text();
    let mut names: Vec<&str> =
        environment.lines().filter_map(|line| Some(line.split_once('=')?.0)).collect();
    // What Python and shells in front of it set themselves is none of weir's.
    let own = |name: &&str| {
        let known = ["LC_CTYPE", "PWD", "SHLVL", "_"];
        !known.contains(name) && !name.contains("PYENV")
    };
    names.retain(own);
    assert!(environment.contains("OWN=value"), "{environment}");
    let expected: Vec<&str> = ["LANG", "OWN", "PATH", "WEIR_SOCKET"]
        .into_iter()
        .filter(|name| *name != "LANG" || std::env::var_os("LANG").is_some())
        .collect();
    assert_eq!(names, expected);
    let descriptors = get(&server, "/descriptors").text();
    // The listening socket, the two pipes of the log, the connection.
    assert_eq!(descriptors, "pipe pipe socket socket");

    let headers = [
        ("Proxy", "http://evil"),
        ("X_User", "root"),
        ("X.User", "root"),
        ("X-Listed_One", "1"),
        ("Authorization", "Basic eDp5"),
        ("Cookie", "a=b"),
        ("Connection", "x-hop"),
        ("X-Hop", "1"),
        ("X-Plain", "plain"),
    ];
    let text = server.connect().request("GET", "/a%20b/variables?q=%31", &headers, "").text();
    for absent in
        ["HTTP_PROXY", "X.USER", "HTTP_X_USER", "AUTHORIZATION", "COOKIE", "HTTP_X_HOP", "evil"]
    {
        assert!(!text.contains(absent), "{absent} in {text}");
    }
    let lines: Vec<&str> = text.lines().collect();
    for line in [
        "HTTP_X_PLAIN=plain",
        "HTTP_X_LISTED_ONE=1",
        "REQUEST_METHOD=GET",
        "REQUEST_URI=/a%20b/variables?q=%31",
        "QUERY_STRING=q=%31",
        "PATH_INFO=/a b/variables",
        "SCRIPT_NAME=",
        "GATEWAY_INTERFACE=CGI/1.1",
        "REMOTE_ADDR=127.0.0.1",
    ] {
        assert!(lines.contains(&line), "no {line} in {text}");
    }
}

#[test]
fn limits_hold_from_the_start() {
    let server = start("fastcgi", "    limits: {files: 77, cpu: 120s}");
    assert_eq!(get(&server, "/limits").text(), "(77, 77) (120, 120)");
}

#[test]
fn an_agent_may_make_its_socket_itself_in_a_folder_of_weirs_own() {
    use std::os::unix::fs::PermissionsExt;
    let config =
        super::config("http", "").replace("agent.py, http", "agent.py, http, \"{socket}\"");
    let server = Weir::new(&config).file("agent.py", super::AGENT).start();
    assert_eq!(get(&server, "/x").status, 200);
    let folder = server.data().join("agents").join(server.pid().to_string());
    let mode = std::fs::metadata(&folder).expect("the folder is there").permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
}

#[test]
fn what_agents_write_is_in_the_log_and_a_flood_of_it_only_in_part() {
    for protocol in PROTOCOLS {
        let server = start(protocol, "    agents: {max: 1}");
        assert_eq!(get(&server, "/log").text(), "logged");
        eventually("the line is in the log", || {
            server.stderr().contains("pool p: a line for the log")
        });
        assert_eq!(get(&server, "/flood").text(), "flooded");
        eventually("the flood is over", || {
            let dropped = status(&server)["log_dropped"].as_u64().unwrap_or(0);
            let logged = server.stderr().matches("pool p: flood").count() as u64;
            // Lines may also be lost where all messages of weir wait.
            dropped > 10_000 && logged < 10_000 && dropped + logged <= 20_000
        });
    }
}

#[test]
fn the_time_in_the_queue_is_in_the_record() {
    let config =
        format!("tracker: {{enabled: true}}\n{}", super::config("fastcgi", "    agents: {max: 1}"));
    let server = Weir::new(&config).file("agent.py", super::AGENT).start();
    settled(&server, 1);
    let mut first = super::send(&server, "/gate");
    eventually("the agent is busy", || status(&server)["agents"]["busy"] == 1);
    let mut second = super::send(&server, "/pid");
    eventually("another one waits", || status(&server)["queue"]["current"] == 1);
    super::open(&server);
    let second = second.response();
    assert_eq!((first.response().status, second.status), (200, 200));
    let id = second.header("weir-transaction-id").expect("an id").to_owned();
    eventually("the wait is recorded", || {
        let shown = super::ask(&server, "GET", &format!("/v1/transactions/{id}"));
        shown.status == 200 && shown.text().contains("\"queue\"")
    });
    let status = status(&server);
    assert_eq!(status["request_wait"]["count"], 2);
    assert!(status["request_wait"]["max"].as_f64().expect("a number") > 0.0);
    assert!(status["request_duration"]["max"].as_f64().expect("a number") > 0.0);
    assert_eq!(pids(&server).len(), 1);
}
