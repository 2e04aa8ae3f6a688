//! `weir serve` as a process: start, reload, stop, the admin listener.

use crate::harness::{self, Client, Server, Signal, Weir};
use std::fs;
use std::time::Duration;

/// One hosted reply.
fn hello(text: &str) -> String {
    format!(
        "listen: [{{addr: \"127.0.0.1:0\"}}]\nworkers: 2\n\
         apis:\n  hello:\n    base: /\n    routes:\n      - {{get: /, reply: {{text: {text}}}}}\n"
    )
}

fn write(server: &Server, config: &str) {
    // As editors do it.
    let new = server.dir().join("weir.yaml.new");
    fs::write(&new, config).expect("the folder is writable");
    fs::rename(new, server.dir().join("weir.yaml")).expect("the folder is writable");
}

fn admin(server: &Server) -> Client {
    Client::connect(server.admin.expect("an admin listener"))
}

#[test]
fn it_prints_where_it_listens_and_responds_there() {
    let server = Weir::new(&hello("one")).args(&["--listen", "127.0.0.1:0"]).start();
    let response = server.connect().get("/");
    assert_eq!((response.status, response.text().as_str()), (200, "one"));
    assert_eq!(admin(&server).get("/healthz").status, 200);
    assert_eq!(admin(&server).get("/readyz").status, 200);
}

#[test]
fn a_wrong_configuration_is_refused_with_its_findings() {
    let output = Weir::new("listen: 8080\napis: {}\nnonsense: 1\n").refused();
    assert_eq!(output.status.code(), Some(2));
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(message.contains("nonsense") && message.contains("weir.yaml:1"), "{message}");
    assert!(output.stdout.is_empty(), "standard output carries events only");
}

#[test]
fn an_address_in_use_is_named() {
    let first = Weir::new(&hello("one")).start();
    let addr = first.listen[0].to_string();
    let output = Weir::new(&hello("two")).args(&["--listen", &addr]).refused();
    assert_eq!(output.status.code(), Some(1));
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(message.contains(&addr) && message.contains("in use"), "{message}");
}

#[test]
fn a_change_of_the_file_is_taken_without_closing_a_connection() {
    let mut server = Weir::new(&hello("one")).start();
    let mut client = server.connect();
    assert_eq!(client.get("/").text(), "one");
    write(&server, &hello("two"));
    server.event("reloaded");
    assert_eq!(client.get("/").text(), "two");
    write(&server, &hello("three"));
    server.event("reloaded");
    assert_eq!(client.get("/").text(), "three");
}

#[test]
fn sighup_reloads() {
    let mut server = Weir::new(&hello("one")).start();
    server.signal(Signal::HUP);
    server.event("reloaded");
    assert_eq!(server.connect().get("/").text(), "one");
}

#[test]
fn a_wrong_change_is_refused_and_the_old_configuration_stays() {
    let mut server = Weir::new(&hello("one")).start();
    write(&server, &hello("two").replace("reply", "repyl"));
    let refused = server.event("reload-refused");
    assert!(refused["findings"].as_array().unwrap().iter().any(|f| f["line"] == 7), "{refused}");
    assert_eq!(server.connect().get("/").text(), "one");
    write(&server, &hello("three"));
    server.event("reloaded");
    assert_eq!(server.connect().get("/").text(), "three");
}

#[test]
fn what_needs_a_restart_is_said_and_nothing_changes() {
    let mut server = Weir::new(&hello("one")).start();
    write(&server, &hello("two").replace("workers: 2", "workers: 1"));
    let refused = server.event("reload-refused");
    assert_eq!(refused["findings"][0]["code"], "needs-restart", "{refused}");
    assert!(refused["findings"][0]["message"].as_str().unwrap().contains("workers"));
    assert_eq!(server.connect().get("/").text(), "one");
}

#[test]
fn the_command_line_stays_in_force() {
    let set = ["--set", "apis.hello.routes.0.reply.text=set"];
    let mut server = Weir::new(&hello("one")).args(&set).start();
    assert_eq!(server.connect().get("/").text(), "set");
    write(&server, &hello("two"));
    server.event("reloaded");
    assert_eq!(server.connect().get("/").text(), "set");
}

#[test]
fn the_environment_fills_in_what_the_file_leaves_out() {
    let server =
        Weir::new(&hello("\"${env:WEIR_TEST_TEXT}\"")).env("WEIR_TEST_TEXT", "set").start();
    assert_eq!(server.connect().get("/").text(), "set");
    let output = Weir::new(&hello("\"${env:WEIR_TEST_UNSET}\"")).refused();
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn a_stop_is_told_step_by_step() {
    let config = hello("one") + "drain: {delay: 1s, deadline: 10s}\n";
    let mut server = Weir::new(&config).start();
    server.signal(Signal::TERM);
    server.event("draining");
    assert_eq!(admin(&server).get("/readyz").status, 503);
    assert_eq!(server.connect().get("/").status, 200, "listeners accept while it delays");
    let stopped = server.event("stopped");
    assert_eq!(stopped["failed"], 0, "{stopped}");
    assert_eq!(server.wait().code(), Some(0));
}

#[test]
fn a_second_interrupt_ends_it_at_once() {
    let config = hello("one") + "drain: {delay: 1h}\n";
    let mut server = Weir::new(&config).start();
    server.signal(Signal::INT);
    server.event("draining");
    server.signal(Signal::INT);
    assert_eq!(server.wait().code(), Some(1));
}

#[test]
fn metrics_name_operations_and_never_paths() {
    let config = hello("one").replace("get: /", "get: \"/x/{id}\"");
    let server = Weir::new(&config).start();
    let mut client = server.connect();
    for path in ["/x/first", "/x/second", "/none"] {
        client.get(path);
    }
    let text = admin(&server).get("/metrics").text();
    let count = text
        .lines()
        .find(|line| {
            line.starts_with("http_server_request_duration_seconds_count") && line.contains("{id}")
        })
        .unwrap_or_else(|| panic!("no count of the route in\n{text}"));
    assert!(count.ends_with(" 2"), "{count}");
    assert!(!text.contains("second\"") && !text.contains("none"), "{text}");
    for name in ["weir_build_info", "process_resident_memory_bytes", "weir_config_reloads_total"] {
        assert!(text.contains(name), "{name}");
    }
}

#[test]
fn check_and_routes_say_what_serve_would() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("weir.yaml"), hello("one")).unwrap();
    let check = harness::weir(dir.path(), &["check", "--json"]);
    assert_eq!(check.status.code(), Some(0));
    let checked: serde_json::Value = serde_json::from_slice(&check.stdout).unwrap();
    assert_eq!(checked["ok"], true);
    let routes = harness::weir(dir.path(), &["routes", "--json"]);
    let routes: serde_json::Value = serde_json::from_slice(&routes.stdout).unwrap();
    assert_eq!(routes[0]["path"], "/");
    assert_eq!(routes[0]["line"], 7);
    fs::write(dir.path().join("weir.yaml"), "nonsense: 1\n").unwrap();
    for command in ["check", "routes"] {
        assert_eq!(harness::weir(dir.path(), &[command]).status.code(), Some(2), "{command}");
    }
}

#[test]
fn nobody_reading_its_output_does_not_stop_it() {
    let mut server = Weir::new(&hello("one")).start();
    server.stop_reading();
    for _ in 0..3 {
        server.signal(Signal::HUP);
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(server.connect().get("/").text(), "one");
}
