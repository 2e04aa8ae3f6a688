//! `weir lab`: the commands on results.

use super::target::{Response, Target};
use crate::harness::weir;
use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use std::process::Output;
use std::time::Duration;

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// A finished run with one case, whose rounds have about this throughput.
fn run_folder(at: &Path, throughput: f64) {
    let rounds: Vec<Value> = [0.99, 1.0, 1.01, 1.005, 0.995]
        .iter()
        .zip(1..)
        .map(|(factor, number)| {
            let times = json!({"mean": 2.0, "deviation": 0.5, "min": 1.0, "p50": 2.0, "p75": 2.1,
                "p90": 2.2, "p95": 2.3, "p98": 2.4, "p99": 2.5, "p99.9": 3.0, "p99.99": 4.0, "max": 5.0});
            json!({"number": number, "throughput": throughput * factor, "response": times})
        })
        .collect();
    let spread = json!({"n": 5, "mean": throughput, "deviation": 0.01 * throughput,
        "min": 0.99 * throughput, "max": 1.01 * throughput});
    let cell = json!({"name": "hello", "factors": [], "verdict": "PASS", "reasons": [],
        "throughput": spread, "interval": null, "window": 10.0, "labels": [], "recorded": rounds});
    let summary =
        json!({"lab": 1, "name": "demo", "verdict": "PASS", "reasons": [], "cells": [cell]});
    let host = json!({"name": "h", "kernel": "k", "processor": "p", "cores": 2, "memory": 0});
    let run = json!({"lab": 1, "name": "demo", "started": "", "command": ["weir", "lab", "hit"],
        "version": "weir", "target": "http://127.0.0.1:1", "host": host});
    fs::create_dir_all(at).unwrap();
    fs::write(at.join("summary.json"), summary.to_string()).unwrap();
    fs::write(at.join("run.json"), run.to_string()).unwrap();
}

#[test]
fn a_regression_has_an_exit_code_and_words() {
    let dir = tempfile::tempdir().unwrap();
    run_folder(&dir.path().join("before"), 1000.0);
    run_folder(&dir.path().join("same"), 1003.0);
    run_folder(&dir.path().join("slow"), 800.0);
    let same = weir(dir.path(), &["lab", "compare", "before", "same"]);
    assert_eq!(same.status.code(), Some(0));
    assert!(
        text(&same).contains("same") && text(&same).contains("verdict: PASS"),
        "{}",
        text(&same)
    );
    let slow = weir(dir.path(), &["lab", "compare", "before", "slow"]);
    assert_eq!(slow.status.code(), Some(5));
    assert!(
        text(&slow).contains("throughput is 20.0 % lower than the baseline"),
        "{}",
        text(&slow)
    );
    let json = weir(dir.path(), &["lab", "compare", "before", "slow", "--json"]);
    let found: Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(found["cells"][0]["judgement"], "worse");
    let missing = weir(dir.path(), &["lab", "compare", "before", "nowhere"]);
    assert_eq!(missing.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&missing.stderr).contains("nowhere/run.json"));
}

#[test]
fn a_report_can_be_made_again() {
    let dir = tempfile::tempdir().unwrap();
    run_folder(&dir.path().join("run"), 1000.0);
    let made = weir(dir.path(), &["lab", "report", "run"]);
    assert_eq!(made.status.code(), Some(0), "{}", String::from_utf8_lossy(&made.stderr));
    assert_eq!(text(&made), "run/report.html\n");
    let page = fs::read_to_string(dir.path().join("run/report.html")).unwrap();
    assert!(page.starts_with("<!DOCTYPE html>") && page.contains("weir lab hit"));
    assert!(!page.contains("src=\"http") && !page.contains("href=\"http"), "it needs no network");
}

#[test]
fn histogram_logs_are_added_up() {
    use weir_lab::results::hlog;
    let dir = tempfile::tempdir().unwrap();
    for (name, start, value) in [("one", 1_000, 2_000_000), ("two", 1_005, 8_000_000)] {
        let mut histogram = weir_lab::record::histogram();
        histogram.record_n(value, 100).unwrap();
        let since = std::time::Duration::from_secs;
        let interval = hlog::Interval {
            tag: "a/b/service".into(),
            start: since(0),
            length: since(10),
            histogram,
        };
        let mut log = Vec::new();
        hlog::head(&mut log, std::time::SystemTime::UNIX_EPOCH + since(start)).unwrap();
        hlog::line(&mut log, &interval).unwrap();
        fs::write(dir.path().join(name), log).unwrap();
    }
    let merged = weir(dir.path(), &["lab", "merge", "one", "two", "--out", "both"]);
    assert_eq!(text(&merged), "both: 2 intervals, 200 samples\n");
    let log = fs::read_to_string(dir.path().join("both")).unwrap();
    assert!(log.contains("Tag=a/b/service,5.000,10.000,8."), "on one clock: {log}");
    let shown = weir(dir.path(), &["lab", "hist", "both", "--json"]);
    let line: Value = serde_json::from_slice(&shown.stdout).unwrap();
    assert_eq!((&line["samples"], &line["tag"]), (&json!(200), &json!("a/b/service")));
    assert!((line["p50"].as_f64().unwrap() - 2.0).abs() < 0.01, "{line}");
    let again = weir(dir.path(), &["lab", "merge", "one", "two", "--out", "both"]);
    assert_eq!(again.status.code(), Some(1), "nothing is overwritten");
}

#[test]
fn pauses_of_a_jvm() {
    let dir = tempfile::tempdir().unwrap();
    let line = "[10.000s][info][gc] GC(0) Pause Young (Normal) (G1 Evacuation Pause) 9M->1M(16M) 50.000ms\n";
    fs::write(dir.path().join("gc.log"), line).unwrap();
    let shown = weir(dir.path(), &["lab", "gc", "gc.log", "--json"]);
    let found: Value = serde_json::from_slice(&shown.stdout).unwrap();
    assert_eq!((&found["count"], &found["throughput"]), (&json!(1), &json!(99.5)));
    fs::write(dir.path().join("other.log"), "nothing\n").unwrap();
    assert_eq!(weir(dir.path(), &["lab", "gc", "other.log"]).status.code(), Some(1));
}

#[test]
fn a_slow_decline_over_ten_runs_is_reported() {
    let target = Target::start(|_, _| Response::Text(Duration::ZERO, "well".to_owned()));
    let dir = tempfile::tempdir().unwrap();
    let scenario = format!(
        "lab: 1\ntarget: {{base: \"http://{}\"}}\nrequests: [{{name: get, get: /}}]\n\
         load: {{executor: constant-arrival-rate, rate: 50, duration: 1s}}\n",
        target.addr
    );
    fs::write(dir.path().join("scenario.yaml"), scenario).unwrap();
    let run = |out: &str| {
        let output = weir(dir.path(), &["lab", "run", "scenario.yaml", "--out", out]);
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let text = run("runs/first");
    assert!(!text.contains("history:"), "{text}");
    let path = |name: &str, file: &str| dir.path().join("runs").join(name).join(file);
    let read = |name: &str, file: &str| -> Value {
        serde_json::from_str(&fs::read_to_string(path(name, file)).unwrap()).unwrap()
    };
    let (mut facts, mut summary) = (read("first", "run.json"), read("first", "summary.json"));
    for at in 0..9 {
        let name = format!("run-{at}");
        fs::create_dir(dir.path().join("runs").join(&name)).unwrap();
        facts["started"] = format!("2026-01-0{}T00:00:00Z", at + 1).into();
        summary["cells"][0]["verdict"] = "PASS".into();
        summary["cells"][0]["throughput"]["mean"] = (50.0 * 1.03_f64.powi(10 - at)).into();
        fs::write(path(&name, "run.json"), facts.to_string()).unwrap();
        fs::write(path(&name, "summary.json"), summary.to_string()).unwrap();
    }
    fs::remove_dir_all(dir.path().join("runs/first")).unwrap();
    fs::create_dir(dir.path().join("runs/damaged")).unwrap();
    fs::write(path("damaged", "run.json"), "{").unwrap();
    let text = run("runs/last");
    assert!(text.contains("history: requests/s falls steadily: -"), "{text}");
    let last = read("last", "summary.json");
    assert_eq!(last["history"]["runs"].as_array().map(Vec::len), Some(10), "{last}");
    let markdown = fs::read_to_string(path("last", "summary.md")).unwrap();
    assert!(markdown.contains("requests/s falls steadily"), "{markdown}");
    let printed = weir(dir.path(), &["lab", "report", "runs/last", "--markdown"]);
    assert_eq!(String::from_utf8_lossy(&printed.stdout), markdown);
}
