//! Running weir: its command line, its admin listener, its log, its bounds.

use crate::harness::{self, Client, Server, Signal, Weir, eventually, weir};
use std::path::Path;

const HELLO: &str = "apis: {api: {base: /, routes: [{get: \"/x/{id}\", reply: {text: hello}}]}}\n";

fn config(more: &str) -> String {
    format!("listen: [{{addr: \"127.0.0.1:0\"}}]\nworkers: 1\n{more}\n{HELLO}")
}

#[test]
fn the_command_line_goes_over_the_file() {
    // Every address of the file is one that cannot be bound here.
    let config = format!(
        "listen: [{{addr: \"192.0.2.1:80\"}}]\nadmin: {{addr: \"192.0.2.1:81\"}}\n\
         data: /nonexistent/data\nworkers: 1\n{HELLO}"
    );
    let data = tempfile::tempdir().unwrap();
    let server = Weir::new(&config)
        .args(&["--listen", "127.0.0.1:0", "--listen", "127.0.0.1:0", "--workers", "3"])
        .args(&["--data", data.path().to_str().unwrap()])
        .args(&["--set", "apis.api.routes.0.reply.text=set", "--set", "limits.url=256B"])
        .start();
    assert_eq!(server.listen.len(), 2);
    for addr in &server.listen {
        assert_eq!(Client::connect(*addr).get("/x/1").text(), "set");
    }
    assert_eq!(server.connect().get(&format!("/x/{}", "1".repeat(256))).status, 414);
    assert_eq!(server.metric("weir_workers", &[]), 3.0);
}

#[test]
fn a_wrong_command_line_is_refused() {
    for (args, said) in [
        (["--set", "limits.body=much"], "body"),
        (["--set", "limts.body=1MiB"], "limts"),
        (["--listen", "nowhere"], "nowhere"),
        (["--workers", "0"], "0"),
    ] {
        let output = Weir::new(&config("")).args(&args).refused();
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{args:?}: {message}");
        assert!(message.contains(said), "{args:?}: {message}");
    }
    let missing = weir(Path::new("/"), &["serve", "/nonexistent/weir.yaml"]);
    assert_eq!(missing.status.code(), Some(2), "{missing:?}");
}

#[test]
fn addresses_that_cannot_be_had_are_named() {
    let first = Weir::new(&config("")).start();
    let (listen, admin) = (first.listen[0].to_string(), first.admin.unwrap().to_string());
    for (option, addr) in [("--listen", listen), ("--admin", admin)] {
        let mut args = vec!["serve", "--json", option, &addr];
        let others = if option == "--listen" { "--admin" } else { "--listen" };
        args.extend([others, "127.0.0.1:0", "weir.yaml"]);
        let output = weir(first.dir(), &args);
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{option}: {message}");
        assert!(message.contains(&addr) && message.contains("in use"), "{option}: {message}");
        assert!(output.stdout.is_empty(), "it never was ready");
    }
    assert_eq!(first.connect().get("/x/1").status, 200, "the first one does not notice");
}

#[test]
fn the_admin_listener_responds_to_this_machine_only() {
    let server = Weir::new(&config("admin: {addr: \"127.0.0.1:0\", hosts: ops.example}")).start();
    let addr = server.admin.unwrap();
    let status = |host: &str| {
        let mut client = server.connect_admin();
        client.send(format!("GET /metrics HTTP/1.1\r\n{host}\r\n\r\n"));
        client.response().status
    };
    for good in [
        "Host: localhost",
        "Host: localhost:1",
        "Host: 127.0.0.1",
        "Host: ops.example",
        &format!("Host: {addr}"),
    ] {
        assert_eq!(status(good), 200, "{good}");
    }
    for bad in [
        "Host: evil.example",
        "Host: localhost.evil.example",
        "Host: 192.0.2.1",
        "Host: ",
        "X: 1",
        "Host: localhost\r\nHost: evil.example",
    ] {
        let status = status(bad);
        assert!((400..500).contains(&status), "{bad}: {status}");
    }
    assert_eq!(server.connect_admin().get("/none").status, 404);
    assert_eq!(server.connect_admin().post("/healthz", "{}").status, 405);
    assert_eq!(server.connect().get("/metrics").status, 404, "not where traffic is served");
}

#[test]
fn metrics_say_what_happened() {
    let echo = harness::echo(&[]);
    let config = format!(
        "listen: [{{addr: \"127.0.0.1:0\"}}]\nworkers: 2\n\
         upstreams: {{echo: {{targets: [\"http://{}\"]}}}}\n\
         apis: {{api: {{base: /v1, routes: [{{post: \"/x/{{id}}\", op: make, proxy: echo}}]}}}}\n",
        echo.listen[0]
    );
    let server = Weir::new(&config).start();
    for id in 0..20 {
        assert_eq!(server.connect().post(&format!("/v1/x/{id}"), "0123456789").status, 200);
    }
    assert_eq!(server.metric("weir_request_body_bytes_total", &[]), 200.0);
    let http2 = ["-s", "-o", "/dev/null", "--http2-prior-knowledge", "-d", "0123456789"];
    let mut curl = std::process::Command::new("curl");
    harness::run(curl.args(http2).arg(server.url("/v1/x/h2")), b"");
    assert_eq!(server.metric("weir_request_body_bytes_total", &[]), 210.0);
    assert_eq!(server.connect().get("/v1/x/1").status, 405);
    assert_eq!(server.connect().get("/secret-path").status, 404);
    let name = "http_server_request_duration_seconds";
    let labels = [
        "http_request_method=\"POST\"",
        "http_response_status_code=\"200\"",
        "weir_api=\"api\"",
        "make",
    ];
    assert_eq!(server.metric(&format!("{name}_count"), &labels), 21.0);
    assert_eq!(server.metric(&format!("{name}_count"), &["status_code=\"405\""]), 1.0);
    assert_eq!(server.metric(&format!("{name}_count"), &["status_code=\"404\""]), 1.0);
    let sum = server.metric(&format!("{name}_sum"), &labels);
    assert!(sum > 0.0 && sum < 60.0, "{sum}");
    let infinite = [&labels[..], &["le=\"+Inf\""]].concat();
    assert_eq!(server.metric(&format!("{name}_bucket"), &infinite), 21.0);
    assert!(server.metric("weir_response_body_bytes_total", &[]) >= 200.0);
    assert_eq!(server.metric("weir_connections_accepted_total", &[]), 23.0);
    assert_eq!(server.metric("http_client_request_duration_seconds_count", &["echo"]), 21.0);
    assert_eq!(server.metric("http_server_active_requests", &[]), 0.0);
    let text = server.connect_admin().get("/metrics").text();
    assert!(!text.contains("secret-path"), "paths of strangers make no series");
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let value = line.rsplit(' ').next().unwrap();
        assert!(value.parse::<f64>().is_ok_and(|value| value >= 0.0), "{line}");
    }
}

#[test]
fn a_renamed_access_log_is_opened_again() {
    let server = Weir::new(&config("log: {access: json, to: access.log}")).start();
    let (log, old) = (server.dir().join("access.log"), server.dir().join("access.log.1"));
    let read = |path: &Path| std::fs::read_to_string(path).unwrap_or_default();
    let mut client = server.connect();
    client.get("/x/before");
    eventually("the first line", || read(&log).contains("/x/before"));
    std::fs::rename(&log, &old).unwrap();
    client.get("/x/between");
    eventually("it goes on in the file", || read(&old).contains("/x/between"));
    server.signal(Signal::USR1);
    eventually("a new file", || {
        client.get("/x/after");
        read(&log).contains("/x/after")
    });
    assert!(!read(&log).contains("/x/between"));
    for line in (read(&old) + &read(&log)).lines() {
        let line: serde_json::Value = serde_json::from_str(line).expect("a JSON object a line");
        assert_eq!((&line["status"], &line["operation"]), (&200.into(), &"GET /x/{id}".into()));
        assert_eq!(line["id"].as_str().unwrap().len(), 36);
    }
}

/// The log goes to a pipe that nobody reads: opening it already waits for ever.
#[test]
fn a_log_that_is_stuck_loses_lines_and_holds_nobody_up() {
    let weir = Weir::new(&config("log: {access: text, to: access.log}"));
    let fifo = weir.dir().join("access.log");
    harness::run(std::process::Command::new("mkfifo").arg(&fifo), b"");
    let mut server = weir.start();
    let mut client = server.connect();
    // More than wait for their turn at most.
    let batch = "GET /x/1 HTTP/1.1\r\nHost: h\r\n\r\n".repeat(100);
    for _ in 0..180 {
        client.send(&batch);
        for _ in 0..100 {
            assert_eq!(client.response().status, 200);
        }
    }
    assert!(server.metric("weir_access_log_dropped_total", &[]) > 0.0);
    server.signal(Signal::TERM);
    server.event("draining");
    assert_eq!(server.event("stopped")["failed"], 0);
    assert_eq!(server.wait().code(), Some(0), "nor is the stop held up");
}

#[test]
fn connections_beyond_the_limit_are_closed() {
    let server = Weir::new(&config("limits: {connections: 3}")).start();
    let mut kept: Vec<Client> = (0..3).map(|_| server.connect()).collect();
    for client in &mut kept {
        assert_eq!(client.get("/x/1").status, 200);
    }
    assert!(server.connect().try_get("/x/1").is_none(), "the fourth is closed without a word");
    assert!(server.metric("weir_connections_refused_total", &[]) >= 1.0);
    assert_eq!(server.connect_admin().get("/healthz").status, 200, "watchers still get in");
    for client in &mut kept {
        assert_eq!(client.get("/x/1").status, 200);
    }
    kept.pop();
    eventually("there is room again", || server.connect().try_get("/x/1").is_some());
}

#[test]
fn idle_connections_and_slow_heads_are_ended() {
    let server = Weir::new(&config("limits: {idle: 1s, header_time: 1500ms}")).start();
    let mut idle = server.connect();
    assert_eq!(idle.get("/x/1").status, 200);
    assert!(idle.is_closed());
    let mut silent = server.connect();
    assert!(silent.is_closed(), "it never asked");
    let mut slow = server.connect();
    slow.send("GET /x/1 HTTP/1.1\r\nHost: h\r\nX-");
    assert_eq!(slow.response().status, 408);
    assert!(slow.is_closed());
    // A byte now and then does not help a head.
    let mut drip = server.connect();
    drip.send("GET /x/1 HTTP/1.1\r\nHost: h\r\n");
    let started = std::time::Instant::now();
    while drip.try_send("X") && started.elapsed() < std::time::Duration::from_secs(20) {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    assert!(started.elapsed() < std::time::Duration::from_secs(20), "slow-loris");
}

#[test]
fn a_request_that_takes_too_long_is_answered_all_the_same() {
    let echo = harness::echo(&[]);
    let config = format!(
        "listen: [{{addr: \"127.0.0.1:0\"}}]\nworkers: 1\nlimits: {{request: 300ms}}\n\
         upstreams: {{echo: {{targets: [\"http://{}\"]}}}}\n\
         apis: {{api: {{base: /, routes: [{{path: \"/*\", proxy: echo}}]}}}}\n",
        echo.listen[0]
    );
    let server = Weir::new(&config).start();
    let late = server.connect().get("/delay/20s");
    assert_eq!(late.status, 504);
    assert_eq!(late.json()["type"], "urn:weir:problem:deadline-exceeded");
}

/// Readiness goes first, so that balancers stop sending; what they still send is served.
#[test]
fn a_stop_fails_readiness_and_serves_on_for_a_while() {
    let mut server = Weir::new(&config("drain: {delay: 3s}")).start();
    let ready = |server: &Server| server.connect_admin().get("/readyz").status;
    assert_eq!(ready(&server), 200);
    let mut kept = server.connect();
    assert_eq!(kept.get("/x/1").header("connection"), None);
    server.signal(Signal::TERM);
    server.event("draining");
    assert_eq!(ready(&server), 503);
    assert_eq!(server.connect_admin().get("/healthz").status, 200);
    for mut client in [kept, server.connect()] {
        let response = client.get("/x/1");
        assert_eq!((response.status, response.header("connection")), (200, Some("close")));
    }
    let http2 = std::process::Command::new("curl")
        .args(["-s", "--http2-prior-knowledge", &server.url("/x/1")])
        .output()
        .expect("curl runs");
    assert_eq!(String::from_utf8_lossy(&http2.stdout), "hello", "{http2:?}");
    assert_eq!(server.event("stopped")["failed"], 0);
    assert_eq!(server.wait().code(), Some(0));
}

#[test]
fn health_is_the_readiness_of_the_running_weir() {
    // A pool whose agent never starts.
    let hello = config("");
    let pool =
        "pools: {app: {command: [\"/bin/false\"], protocol: fastcgi, agents: {min: 1, max: 1}}}\n";
    let config = config(pool).replace("reply: {text: hello}", "pool: app");
    let mut unready = Weir::new(&config).start();
    let ready = Weir::new(&hello).start();
    let health = |server: &Server, more: &[&str]| {
        let admin = format!("http://{}", server.admin.expect("an admin listener"));
        weir(server.dir(), &[&["health", "--admin", &admin], more].concat())
    };
    // No token is read or sent: the data folder has none for others.
    std::fs::remove_file(ready.data().join("admin.token")).expect("the first token");
    let output = health(&ready, &[]);
    assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(0), &b"ready\n"[..]));
    let output = health(&ready, &["--quiet"]);
    assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(0), &b""[..]));

    eventually("the pool has no agent", || !health(&unready, &[]).status.success());
    let output = health(&unready, &[]);
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(1) && message.contains("app"), "{message}");
    unready.signal(Signal::STOP);
    let output = health(&unready, &["--timeout", "100ms"]);
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.code() == Some(1) && message.contains("no response in time"),
        "{message}"
    );
    unready.signal(Signal::CONT);
    unready.kill();
    assert_eq!(health(&unready, &[]).status.code(), Some(1));
}
