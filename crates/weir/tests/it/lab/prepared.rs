//! What precedes the load of contenders: prepared files, levels of the matrix, probes; and figures of
//! servers whose processes end with the request, and of their counters.

use crate::harness::weir;
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::Output;

const WEIR: &str = "version: 1\nlisten: [{addr: \"127.0.0.1:8080\"}]\nworkers: 1\napis:\n  open:\n    \
    base: /\n    routes:\n      - {get: /a, reply: {text: NAME}}\n      - {get: /b, reply: {text: b}}\n";

/// Rules that a busy machine meets: no round is repeated.
const ROUNDS: &str = "warm_up: 0s, repeats: 4, others: 100%";

/// A folder with a configuration, and the output of a scenario in it.
fn run(scenario: &str) -> (tempfile::TempDir, Output) {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("weir.yaml.in"), WEIR).unwrap();
    fs::write(dir.path().join("scenario.yaml"), scenario).unwrap();
    let output = weir(dir.path(), &["lab", "run", "scenario.yaml", "--out", "out"]);
    (dir, output)
}

fn shown(output: &Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    format!("{}\n{}", text(&output.stdout), text(&output.stderr))
}

fn summary(dir: &Path) -> Value {
    let text = fs::read_to_string(dir.join("out/summary.json")).expect("a summary");
    serde_json::from_str(&text).expect("JSON")
}

fn prepared(prepare: &str, probe: &str) -> String {
    format!(
        "lab: 1\ntarget: {{base: \"http://127.0.0.1:8080\"}}\n\
         prepare: [[sh, -c, \"{prepare}\"]]\n\
         matrix:\n  load:\n    one: {{workers: 1, vus: 1, path: /a}}\n    two: {{workers: 2, vus: 2, path: /b}}\n\
         contenders:\n  shared: {{server: {{weir: \"${{shared}}/weir.yaml\", set: {{workers: \"${{load.workers}}\"}}}}}}\n  \
         own:\n    only: {{load: one}}\n    server:\n      weir: \"${{data}}/weir.yaml\"\n      \
         files: {{weir.yaml.in: weir.yaml.in}}\n      \
         prepare: [{{command: [sh, -c, \"sed s/NAME/a/ ${{data}}/weir.yaml.in > ${{data}}/weir.yaml\"], timeout: 20s}}]\n\
         requests: [{{name: get, get: \"${{load.path}}\"}}]\n\
         verify: [{{status: 200}}, {{body_equals: a, only: {{load: one}}}}, {{body_equals: b, only: {{load: two}}}}]\n\
         probes: [{{get: /none, checks: [{{status: {probe}}}], only: {{contender: own}}}}]\n\
         load: {{executor: constant-vus, vus: \"${{load.vus}}\", duration: 300ms}}\n\
         observe: {{counters: {{counted: http_server_request_duration_seconds_count}}}}\n\
         protocol: {{rounds: {{count: 1, {ROUNDS}}}}}\n\
         bars: [counted of own <= 1, counted of shared >= 1, errors of shared <= 0%]\n"
    )
}

#[test]
fn files_are_prepared_and_levels_have_servers_of_their_own() {
    let make = "sed s/NAME/a/ weir.yaml.in > ${shared}/weir.yaml";
    let (dir, output) = run(&prepared(make, "404"));
    let all = summary(dir.path());
    let text = shown(&output);
    let names: Vec<&str> =
        all["cells"].as_array().unwrap().iter().map(|c| c["name"].as_str().unwrap()).collect();
    let expected =
        ["load=one contender=shared", "load=one contender=own", "load=two contender=shared"];
    assert_eq!(names, expected, "{text}");
    for cell in all["cells"].as_array().unwrap() {
        let samples = cell["labels"][0]["samples"].as_u64();
        assert!(samples > Some(10), "every cell is verified and loaded: {cell}\n{text}");
    }
    // With one round a bar is inconclusive; its figure is known.
    let bars = all["bars"].as_array().unwrap();
    let values: Vec<Option<f64>> = bars.iter().map(|bar| bar["value"].as_f64()).collect();
    let measured: Vec<f64> = values.into_iter().flatten().collect();
    assert!(measured.iter().all(|value| [0.0, 1.0].contains(value)), "{bars:?}");
    let events = fs::read_to_string(dir.path().join("out/events.jsonl")).unwrap();
    let started = events.lines().filter(|line| line.contains("\"started\"")).count();
    assert_eq!(started, 3, "workers differ between the levels: {events}");
    let left = fs::read_dir(dir.path().join("out/servers")).unwrap();
    let left: Vec<_> = left.map(|entry| entry.unwrap().file_name()).collect();
    assert!(left.iter().all(|name| name != "shared"), "deleted: {left:?}");
}

#[test]
fn a_failed_preparation_or_probe_is_the_reason() {
    let (dir, output) = run(&prepared("echo no such curve >&2; exit 7", "404"));
    assert_eq!(output.status.code(), Some(3), "{}", shown(&output));
    let reasons = summary(dir.path())["cells"][0]["reasons"].to_string();
    assert!(reasons.contains("exit status: 7") && reasons.contains("no such curve"), "{reasons}");
    let make = "sed s/NAME/a/ weir.yaml.in > ${shared}/weir.yaml";
    let (dir, _) = run(&prepared(make, "401"));
    let all = summary(dir.path());
    let reasons = all["cells"][1]["reasons"].to_string();
    assert!(reasons.contains("/none") && reasons.contains("status 404"), "{reasons}");
    assert_eq!(all["cells"][1]["window"], 0.0, "it is not loaded");
}

/// The work of a request is done by a process that no other one waits for.
#[test]
fn the_cpu_of_the_machine_includes_ended_processes() {
    let program = "import http.server, os, signal, sys, time
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        ended, write = os.pipe()
        if os.fork() == 0:
            until = time.process_time() + 0.02
            while time.process_time() < until: pass
            os._exit(0)
        os.close(write)
        os.read(ended, 1)
        os.close(ended)
        self.send_response(200)
        self.send_header('Content-Length', '0')
        self.end_headers()
    def log_message(self, *_): pass
http.server.HTTPServer(('127.0.0.1', int(sys.argv[1])), Handler).serve_forever()
";
    let scenario = |cpu: &str| {
        format!(
            "lab: 1\ntarget: {{base: \"http://127.0.0.1:8080\"}}\n\
             contenders: {{forking: {{server: {{command: [python3, \"${{folder}}/forking.py\", \"${{port}}\"]}}}}}}\n\
             requests: [{{get: /}}]\nload: {{executor: constant-vus, vus: 1, duration: 600ms}}\n\
             observe: {{cpu: {cpu}}}\nprotocol: {{rounds: {{count: 1, {ROUNDS}}}}}\n\
             bars: [cpu of forking >= 1us]\n"
        )
    };
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("forking.py"), program).unwrap();
    let mut found = Vec::new();
    for cpu in ["processes", "machine"] {
        fs::write(dir.path().join("scenario.yaml"), scenario(cpu)).unwrap();
        let output = weir(dir.path(), &["lab", "run", "scenario.yaml", "--out", "out"]);
        let cell = summary(dir.path())["cells"][0].clone();
        let Some(cpu) = cell["recorded"][0]["resources"]["cpu_us"].as_f64() else {
            // The machine is too busy for a valid round.
            assert_ne!(cell["verdict"], "PASS", "{}", shown(&output));
            return;
        };
        found.push(cpu);
        fs::remove_dir_all(dir.path().join("out")).unwrap();
    }
    let [processes, machine] = found[..] else { panic!("two: {found:?}") };
    assert!(processes < 15_000.0, "20 ms of a process that has ended are unknown: {processes}");
    assert!(machine > 15_000.0, "and are part of the machine: {machine}");
}
