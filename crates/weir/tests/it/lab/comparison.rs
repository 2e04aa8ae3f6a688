//! Rounds of a comparison beyond their load: servers that start for each round, deferred work, setup,
//! background load, figures of single requests, charts.

use super::contenders::{ROUNDS, run, shown, summary};
use crate::harness::weir;
use serde_json::Value;
use std::fs;

#[test]
fn a_server_is_started_for_each_round_and_ratios_are_charts() {
    let server =
        r#"files: {nginx.conf: nginx.conf}, ports: [other], ready: /status/200, restart: round"#;
    let scenario = format!(
        "lab: 1\ntarget: {{base: \"http://127.0.0.1:8080\"}}\ncontenders:\n  \
         weir: {{server: {{weir: weir.yaml, set: {{upstreams.echo.targets.0: \"http://${{backend}}\"}}, \
         ready: /status/200, restart: round}}}}\n  \
         nginx: {{server: {{command: [nginx, -e, \"${{data}}/nginx.log\", -c, \"${{data}}/nginx.conf\"], {server}}}}}\n\
         backend: {{echo: {{port: 0, delay: 50ms}}}}\nrequests: [{{get: /status/200}}]\n\
         load: {{executor: constant-vus, vus: 2, duration: 300ms}}\nobserve: {{every: 100ms, thread: worker}}\n{ROUNDS}\
         bars:\n- start of weir <= 1000 x nginx\n- {{bar: start of nginx <= 1000 x weir, overview: start, reason: none}}\n\
         - start of weir <= 60s\n- descriptors of weir >= 1\n- anonymous-memory of weir >= 1KiB\n\
         - thread-cpu of weir <= 10s\n- generator-memory of weir >= 1MiB\n- disk of weir <= 1GiB\n"
    );
    let (dir, output) = run(&scenario, &[]);
    let all = summary(dir.path());
    let rounds = |cell: usize| all["cells"][cell]["recorded"].as_array().unwrap().clone();
    for round in rounds(0).iter().chain(&rounds(1)) {
        assert!(round["resources"]["start_ms"].as_f64() > Some(0.1), "{round}");
        assert!(round["resources"]["descriptors"].as_u64() > Some(3), "{round}");
    }
    for round in rounds(0) {
        assert!(round["resources"]["thread_cpu_us"].as_f64() > Some(1.0), "{round}");
    }
    let events = fs::read_to_string(dir.path().join("out/events.jsonl")).unwrap();
    let started = events.lines().filter(|line| line.contains("\"started\"")).count();
    let ran = events.lines().filter(|line| line.contains("\"round\"")).count();
    assert!(started == ran && started >= 4, "one start for each round: {events}");
    let text = shown(&output);
    assert!(all["bars"].as_array().unwrap().iter().all(|bar| bar["value"].is_number()), "{text}");
    fs::write(dir.path().join("page.md"), "<!-- lab:begin -->\n<!-- lab:end -->\n").unwrap();
    let args = ["lab", "tables", "out", "--page", "page.md", "--charts", "pictures"];
    let tables = weir(dir.path(), &args);
    assert!(tables.status.success(), "{}", shown(&tables));
    let page = fs::read_to_string(dir.path().join("page.md")).unwrap();
    assert!(page.contains("![Ratios of scenario](pictures/scenario.svg)"), "{page}");
    let svg = fs::read_to_string(dir.path().join("pictures/scenario.svg")).unwrap();
    assert!(svg.contains("start of weir &lt;= 1000 x nginx"), "{svg}");
    assert!(!dir.path().join("pictures/overview.svg").exists(), "it has one ratio only");
}

/// A recording weir whose admin API accepts the token `wadm_test`.
const RECORDING: &str = "version: 1\nlisten: [{addr: \"127.0.0.1:8080\"}]\n\
    admin: {addr: \"127.0.0.1:9080\"}\nupstreams:\n  echo:\n    targets: [\"http://127.0.0.1:9\"]\n\
    apis:\n  open:\n    base: /\n    routes:\n      - {post: /echo, proxy: echo}\n\
    tracker: {enabled: true}\n";
const TOKENS: &str = "[{\"id\": \"test\", \"name\": \"test\", \"role\": \"admin\", \"sha256\": \
    \"4df75d47b8677f849cc2b5f3c2184121f3ac6852f567bdb7d96e71e792b0ce3c\"}]";

const SEARCH: &str = r#"
lab: 1
target: {base: "http://127.0.0.1:8080"}
contenders:
  weir:
    server:
      weir: recording.yaml
      set: {workers: 1, upstreams.echo.targets.0: "http://${backend}"}
      files: {admin-tokens.json: tokens.json}
backend: {echo: {port: 0}}
setup:
  requests: [{post: SETUP, body: well}]
  load: {executor: shared-iterations, vus: 2, iterations: 20}
background:
  requests: [{post: BACKGROUND, body: well}]
  load: {executor: constant-arrival-rate, rate: 20/s, duration: 1h}
requests:
  - name: list
    get: "http://127.0.0.1:9080/v1/transactions?limit=50"
    headers: {Authorization: Bearer wadm_test}
  - {name: ready, get: "http://127.0.0.1:9080/readyz"}
verify: [{status: 200}]
load: {executor: shared-iterations, vus: 1, iterations: 10}
protocol: {rounds: {count: 2, warm_up: 0s, repeats: 4, others: 100%, idle: quiet}}
bars:
  - p99 of weir for list <= 60s
  - drained-cpu of weir >= 1us
  - drained-rate of weir >= 0.01/s
  - drain-time of weir <= 170s
"#;

fn scenario(setup: &str, background: &str) -> String {
    SEARCH.replace("SETUP", setup).replace("BACKGROUND", background)
}

fn search(setup: &str, background: &str) -> (tempfile::TempDir, std::process::Output) {
    let dir = tempfile::tempdir().unwrap();
    let scenario = scenario(setup, background);
    let files = [
        ("recording.yaml", RECORDING.to_owned()),
        ("tokens.json", TOKENS.to_owned()),
        ("scenario.yaml", scenario),
    ];
    for (name, text) in files {
        fs::write(dir.path().join(name), text).unwrap();
    }
    let output = weir(dir.path(), &["lab", "run", "scenario.yaml", "--out", "out"]);
    (dir, output)
}

#[test]
fn searches_are_measured_beside_a_load_in_a_filled_server() {
    let (dir, output) = search("/echo", "/echo");
    let all = summary(dir.path());
    let cell = &all["cells"][0];
    let text = shown(&output);
    let names: Vec<&str> =
        cell["labels"].as_array().unwrap().iter().filter_map(|one| one["label"].as_str()).collect();
    assert_eq!(names, ["TOTAL", "list", "ready"], "only the measured load is reported: {text}");
    for round in cell["recorded"].as_array().unwrap() {
        let list = &round["labels"]["list"];
        assert!(list["p99"].as_f64() > Some(0.0), "{round}");
        let drained = &round["resources"]["drained"];
        let cpu = round["resources"]["cpu_us"].as_f64();
        assert!(drained["cpu_us"].as_f64() >= cpu, "deferred work is added: {round}");
    }
    let values = all["bars"].as_array().unwrap().iter().filter(|bar| bar["value"].is_number());
    assert_eq!(values.count(), 4, "{text}");
}

#[test]
fn a_failed_setup_or_background_load_is_a_reason() {
    let reasons = |(dir, output): (tempfile::TempDir, std::process::Output)| {
        assert_eq!(output.status.code(), Some(3), "{}", shown(&output));
        let all: Value = summary(dir.path());
        all["cells"][0]["reasons"].to_string()
    };
    let why = reasons(search("/none", "/echo"));
    assert!(
        why.contains("the setup load: ") && why.contains("/none") && why.contains("404"),
        "{why}"
    );
    let why = reasons(search("/echo", "/none"));
    assert!(why.contains("the background load: ") && why.contains("404"), "{why}");
}

#[test]
fn wrong_side_loads_and_names_of_requests_are_findings() {
    let dir = tempfile::tempdir().unwrap();
    let valid = scenario("/echo", "/echo");
    let check = |scenario: String| {
        fs::write(dir.path().join("scenario.yaml"), scenario).unwrap();
        shown(&weir(dir.path(), &["lab", "check", "scenario.yaml"]))
    };
    let text = check(valid.replace("for list", "for lsit"));
    assert!(
        text.contains("`lsit` is not the name of a request") && text.contains("ready"),
        "{text}"
    );
    let text = check(valid.replace("p99 of weir for list", "cpu of weir for list"));
    assert!(text.contains("`cpu` has no figure for each request"), "{text}");
    let text = check(valid.replace("rate: 20/s", "rate: {fraction: 50%, of: {load: x}}"));
    assert!(text.contains("cannot be a measured one"), "{text}");
    let text = check(valid.replace("body: well", "bodi: well"));
    assert!(text.contains("bodi"), "{text}");
}
