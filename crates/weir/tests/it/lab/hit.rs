//! `weir lab hit`.

use crate::harness::{self, Server, weir};
use serde_json::Value;
use std::path::Path;
use std::process::Output;

fn url(server: &Server, path: &str) -> String {
    format!("http://{}{path}", server.listen[0])
}

fn hit(args: &[&str]) -> Output {
    weir(Path::new("."), &[&["lab", "hit"], args].concat())
}

/// The last line of `--json`, and the exit code.
fn result(args: &[&str]) -> (Value, i32) {
    let output = hit(&[&["--json"], args].concat());
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    let last = text.lines().last().unwrap_or_else(|| panic!("nothing printed; {errors}"));
    (serde_json::from_str(last).unwrap(), output.status.code().unwrap())
}

#[test]
fn so_many_requests_are_sent_and_no_more() {
    let echo = harness::echo(&[]);
    let (result, code) = result(&["-c", "7", "-n", "1003", &url(&echo, "/")]);
    assert_eq!((&result["samples"], &result["ok"]), (&1003.into(), &1003.into()));
    assert_eq!(result["connections"], 7);
    let errors = result["errors"].as_object().unwrap();
    for kind in ["refused", "reset", "timeout", "http_4xx", "http_500", "http_503"] {
        assert_eq!(errors[kind], 0, "{kind} is there, and none");
    }
    assert!(result["throughput"].as_f64().unwrap() > 0.0);
    let at = |name: &str| result["percentiles"][name].as_f64().unwrap();
    assert!(at("p50") > 0.0 && at("p50") <= at("p99") && at("p99") <= at("p99.99"));
    // Whether this machine was quiet enough is not for this test to say.
    let verdict = result["verdict"].as_str().unwrap();
    assert!(matches!((verdict, code), ("PASS", 0) | ("INVALID", 3)), "{verdict} is {code}");
}

#[test]
fn a_constant_rate_is_sent() {
    let echo = harness::echo(&[]);
    let (result, _) = result(&["--rate", "300/s", "-d", "2s", &url(&echo, "/delay/20ms")]);
    assert_eq!(result["samples"], 600);
    assert!(result["percentiles"]["p50"].as_f64().unwrap() >= 19.0);
}

#[test]
fn both_kinds_of_waiting_for_connections_send_the_same() {
    let echo = harness::echo(&[]);
    let folder = tempfile::tempdir().unwrap();
    let body = folder.path().join("body");
    std::fs::write(&body, "x".repeat(300_000)).unwrap();
    let (body, target) = (body.to_str().unwrap(), url(&echo, "/"));
    let loads: [&[&str]; 3] = [
        &["-n", "500", "-c", "5"],
        &["--rate", "200/s", "-d", "1s"],
        &["-n", "50", "--body", body],
    ];
    for load in loads {
        let results = ["epoll", "auto"].map(|io| {
            let (result, _) = result(&[&["--io", io, &target], load].concat());
            assert_eq!(result["samples"], result["ok"], "{io}: {load:?}");
            result
        });
        assert_eq!(
            (&results[0]["io"], &results[0]["samples"]),
            (&"epoll".into(), &results[1]["samples"])
        );
        assert_eq!(results[0]["sent"], results[1]["sent"]);
        let is_open = load[0] == "--rate";
        assert!(!is_open || results[1]["io"] == "epoll", "{}", results[1]);
    }
}

#[test]
fn a_body_and_fields_are_sent() {
    let echo = harness::echo(&[]);
    let folder = tempfile::tempdir().unwrap();
    let body = folder.path().join("body.json");
    std::fs::write(&body, "x".repeat(5000)).unwrap();
    let field = "Content-Type: text/x-own";
    let args = ["-n", "10", "-c", "2", "-H", field, "--body", body.to_str().unwrap()];
    let (result, _) = result(&[&args[..], &[&url(&echo, "/")]].concat());
    assert_eq!(result["ok"], 10);
    let received = result["received"].as_u64().unwrap();
    assert!(received > 50_000, "the echo gives bodies back: {received}");
}

#[test]
fn a_row_is_written_for_each_request() {
    let echo = harness::echo(&[]);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("rows.jtl");
    let args = ["-n", "250", "-c", "4", "--jtl", file.to_str().unwrap(), &url(&echo, "/")];
    let (result, _) = result(&args);
    assert_eq!(result["ok"], 250);
    let rows = std::fs::read_to_string(file).unwrap();
    assert_eq!(rows.lines().count(), 251);
    assert!(rows.lines().skip(1).all(|row| row.contains(",GET /,200,")), "{rows}");
}

#[test]
fn errors_are_counted_by_kind_and_invalidate_the_result() {
    let echo = harness::echo(&[]);
    let (result_503, code) = result(&["-n", "20", "-c", "2", &url(&echo, "/status/503")]);
    assert_eq!((&result_503["errors"]["http_503"], code), (&20.into(), 3));
    assert_eq!(result_503["verdict"], "INVALID");
    let (expected, _) =
        result(&["-n", "20", "-c", "2", "--expected", "503", &url(&echo, "/status/503")]);
    assert_eq!(expected["expected"], 20);
    assert_eq!(expected["errors"]["http_503"], 0);
    let nobody = format!("http://{}/", harness::nobody());
    let (refused, code) = result(&["-n", "20", "-c", "2", &nobody]);
    assert_eq!((&refused["errors"]["refused"], code), (&20.into(), 3));
}

#[test]
fn people_get_a_table_and_the_reason() {
    let echo = harness::echo(&[]);
    let output = hit(&["-n", "20", "-c", "2", &url(&echo, "/status/503")]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    for word in ["20 requests", "P99.9", "response time", "20 × http_503", "INVALID", "20 of 20"] {
        assert!(text.contains(word), "{word}: {text}");
    }
}

#[test]
fn an_invalid_command_line_is_explained() {
    for (args, word) in [
        (&["ftp://h/"][..], "http://"),
        (&["-H", "none", "http://127.0.0.1/"], "header field"),
        (&["--body", "/no/such/file", "http://127.0.0.1/"], "/no/such/file"),
        (&["--rate", "none", "http://127.0.0.1/"], "rate"),
        (&["-n", "5", "-d", "5s", "http://127.0.0.1/"], "cannot be used with"),
        (&["-X", "NO SPACE", "http://127.0.0.1/"], "method"),
        (&["--io", "kqueue", "http://127.0.0.1/"], "auto or epoll"),
    ] {
        let output = hit(args);
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && message.contains(word), "{args:?}: {message}");
    }
}
