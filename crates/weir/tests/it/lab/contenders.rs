//! Several servers in one scenario: nginx, HAProxy and weir in rounds under the same load, bars,
//! verification, cores, processes and other load generators.

use crate::harness::weir;
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::Output;

const NGINX: &str = "daemon off;\nworker_processes 1;\nuser root;\npid ${data}/nginx.pid;\n\
    error_log ${data}/nginx.log error;\nevents {worker_connections 1000;}\n\
    http {\n\
      access_log off;\n\
      client_body_temp_path ${data}/1; proxy_temp_path ${data}/2; fastcgi_temp_path ${data}/3;\n\
      uwsgi_temp_path ${data}/4; scgi_temp_path ${data}/5;\n\
      server {listen 127.0.0.1:${port}; location / {proxy_pass http://${backend};}}\n\
      server {listen 127.0.0.1:${port.other}; location / {proxy_pass http://${backend};}}\n\
    }\n";

const HAPROXY: &str = "defaults\n  mode http\n  timeout connect 5s\n  timeout client 60s\n  \
    timeout server 60s\nfrontend proxy\n  bind 127.0.0.1:${port}\n  default_backend echo\n\
    backend echo\n  server one ${backend}\n";

const WEIR: &str = "version: 1\nlisten: [{addr: \"127.0.0.1:8080\"}]\nupstreams:\n  echo:\n    \
    targets: [\"http://127.0.0.1:9\"]\napis:\n  open:\n    base: /\n    routes:\n      \
    - {post: /echo, proxy: echo}\n      - {get: \"/status/*\", proxy: echo}\n";

/// A folder with the configurations, and the output of a scenario in it.
pub(super) fn run(scenario: &str, args: &[&str]) -> (tempfile::TempDir, Output) {
    let dir = tempfile::tempdir().unwrap();
    let files = [
        ("nginx.conf", NGINX),
        ("haproxy.cfg", HAPROXY),
        ("weir.yaml", WEIR),
        ("scenario.yaml", scenario),
    ];
    for (name, text) in files {
        fs::write(dir.path().join(name), text).unwrap();
    }
    let output =
        weir(dir.path(), &[&["lab", "run", "scenario.yaml", "--out", "out"], args].concat());
    (dir, output)
}

pub(super) fn shown(output: &Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    format!("{}\n{}", text(&output.stdout), text(&output.stderr))
}

pub(super) fn summary(dir: &Path) -> Value {
    let text = fs::read_to_string(dir.join("out/summary.json")).expect("a summary");
    serde_json::from_str(&text).expect("JSON")
}

/// Proxies of a slow backend, so that waits of a busy machine are a small part of response times.
const SERVERS: &str = r#"
lab: 1
target: {base: "http://127.0.0.1:8080"}
contenders:
  weir: {server: {weir: weir.yaml, set: {workers: 1, upstreams.echo.targets.0: "http://${backend}"}, cores: [0]}}
  nginx:
    server:
      command: [nginx, -e, "${data}/nginx.log", -c, "${data}/nginx.conf"]
      files: {nginx.conf: nginx.conf}
      ports: [other]
      cores: [0]
  other: {server: nginx, port: other}
  haproxy: {server: {command: [haproxy, -db, -f, "${data}/a.cfg"], files: {a.cfg: haproxy.cfg}}}
backend: {echo: {port: 0, delay: 200ms}}
requests: [{post: /echo, body: well, only: {contender: [weir, nginx, haproxy]}}, {get: /status/200, only: {contender: other}}]
"#;

/// Rules that a busy machine meets: no round is repeated.
pub(super) const ROUNDS: &str =
    "protocol: {rounds: {count: 2, warm_up: 100ms, repeats: 4, others: 100%}}\n";

#[test]
fn several_servers_are_compared_in_rounds() {
    let scenario = format!(
        "{SERVERS}{ROUNDS}matrix: {{load: [saturated, fixed]}}\n\
         load:\n\
         - {{executor: constant-vus, vus: 4, duration: 500ms, only: {{load: saturated}}}}\n\
         - {{executor: constant-arrival-rate, duration: 500ms, only: {{load: fixed}}, \
         rate: {{fraction: 20%, of: {{load: saturated}}}}}}\n\
         bars:\n\
         - {{bar: cpu of weir <= 1000 x nginx, title: cheap, only: {{load: saturated}}}}\n\
         - rate of haproxy >= 0.001 x nginx\n\
         - memory of weir <= 2GiB\n\
         - cpu of other <= nginx + 10s\n"
    );
    let (dir, output) = run(&scenario, &[]);
    let all = summary(dir.path());
    let cells = all["cells"].as_array().unwrap();
    assert_eq!(cells.len(), 8, "{}", shown(&output));
    for cell in cells {
        let of_round = |round: &Value| {
            let resources = &round["resources"];
            assert!(resources["cpu_us"].as_f64() > Some(0.0), "{cell}");
            assert!(resources["memory"].as_u64() > Some(100_000), "{cell}");
            round["number"].as_u64().unwrap()
        };
        let numbers: Vec<u64> = cell["recorded"].as_array().unwrap().iter().map(of_round).collect();
        assert!(numbers.len() == 2 || cell["verdict"] != "PASS", "{cell}");
    }
    let fixed = &cells[4];
    assert!(fixed["name"].as_str().unwrap().starts_with("load=fixed"), "{fixed}");
    assert!(fixed["offered"].as_f64() > Some(1.0), "the rate is one that was measured: {fixed}");
    let bars = all["bars"].as_array().unwrap();
    let loads: Vec<&str> = bars.iter().map(|bar| bar["load"].as_str().unwrap()).collect();
    assert_eq!(loads.len(), 7, "one load of the first, two of each other: {loads:?}");
    assert_eq!(
        (bars[0]["outcome"].as_str(), bars[0]["title"].as_str()),
        (Some("met"), Some("cheap"))
    );
    let text = shown(&output);
    assert!(text.contains("BAR") && text.contains("cheap"), "{text}");
    let events = fs::read_to_string(dir.path().join("out/events.jsonl")).unwrap();
    let started = events.lines().filter(|line| line.contains("\"started\"")).count();
    assert_eq!(started, 3, "`other` has the server of `nginx`: {events}");
    let order: Vec<&str> = events
        .lines()
        .filter_map(|line| line.split("load=saturated contender=").nth(1))
        .filter(|rest| rest.contains(": 0.5 s"))
        .map(|rest| rest.split(':').next().unwrap())
        .collect();
    assert_eq!(order[..4], ["weir", "nginx", "other", "haproxy"], "{events}");
    assert_eq!(order[4], "nginx", "the second round starts with another one: {order:?}");
    let csv = fs::read_to_string(dir.path().join("out/summary.csv")).unwrap();
    assert!(csv.lines().next().unwrap().contains("Server CPU per Request"), "{csv}");
}

const CLOSED: &str = "load: {executor: constant-vus, vus: 4, duration: 500ms}\n";

#[test]
fn a_missed_bar_fails_the_run() {
    let bars = "bars: [\"cpu of nginx <= 0.0001 x weir\", \"cpu of weir <= 1000s\"]\n";
    let (dir, output) = run(&format!("{SERVERS}{ROUNDS}{CLOSED}{bars}"), &[]);
    let all = summary(dir.path());
    let outcomes: Vec<&str> = all["bars"]
        .as_array()
        .unwrap()
        .iter()
        .map(|bar| bar["outcome"].as_str().unwrap())
        .collect();
    let text = shown(&output);
    let junit = fs::read_to_string(dir.path().join("out/junit.xml")).unwrap();
    assert!(junit.contains("<testsuite name=\"bars\" tests=\"2\""), "{junit}");
    if all["bars"][0]["value"].is_null() {
        // The machine is too busy for a valid round.
        assert!(matches!(output.status.code(), Some(3 | 4)), "{text}");
        return;
    }
    assert_eq!(outcomes, ["missed", "met"], "{text}");
    assert!(text.contains("cpu of nginx <= 0.0001 x weir is missed: "), "{text}");
    assert!(matches!(output.status.code(), Some(1 | 3 | 4)), "{text}");
    assert!(junit.contains("<testsuite name=\"bars\" tests=\"2\" failures=\"1\""), "{junit}");
}

#[test]
fn a_wrong_response_is_not_measured() {
    let verify = "verify: [{status: 200}, {body_equals: better}]\n";
    let (dir, output) = run(&format!("{SERVERS}{ROUNDS}{CLOSED}{verify}"), &[]);
    let text = shown(&output);
    assert_eq!(output.status.code(), Some(3), "{text}");
    assert!(text.contains("its response is not as it should be"), "{text}");
    assert!(text.contains("well"), "the body is shown: {text}");
    let all = summary(dir.path());
    assert!(all["cells"].as_array().unwrap().iter().all(|cell| cell["window"] == 0.0), "{all}");
}

#[test]
fn wrong_contenders_bars_and_rates_are_findings() {
    let dir = tempfile::tempdir().unwrap();
    let check = |scenario: String| {
        fs::write(dir.path().join("scenario.yaml"), scenario).unwrap();
        let output = weir(dir.path(), &["lab", "check", "scenario.yaml"]);
        assert_eq!(output.status.code(), Some(2), "{}", shown(&output));
        shown(&output)
    };
    let text = check(format!("{SERVERS}{ROUNDS}{CLOSED}bars: [cpu of wier <= nginx]\n"));
    assert!(text.contains("`wier` is not a contender") && text.contains("haproxy"), "{text}");
    let text = check(format!("{SERVERS}{ROUNDS}{CLOSED}bars: [speed of weir <= nginx]\n"));
    assert!(text.contains("is not a metric") && text.contains("generator-cpu"), "{text}");
    let text =
        check(SERVERS.replace("server: nginx, port", "server: ngins, port") + ROUNDS + CLOSED);
    assert!(text.contains("`ngins` is not a contender with a server of its own"), "{text}");
    let rate = "load: {executor: constant-arrival-rate, duration: 1s, \
                rate: {fraction: 50%, of: {load: saturated}}}\n";
    let text = check(format!("{SERVERS}{ROUNDS}{rate}"));
    assert!(text.contains("no cell with load=saturated is measured before"), "{text}");
    let posts = SERVERS.replace("port: other}", "port: other, generator: wrk}");
    let text =
        check(posts.replace("{get: /status/200,", "{post: /echo, body: x,") + ROUNDS + CLOSED);
    assert!(text.contains("a single GET request"), "{text}");
}

/// Seconds of work in child processes that end, then a server.
#[test]
fn processes_are_on_their_cores_and_their_children_count() {
    let scenario = r#"
lab: 1
target: {base: "http://127.0.0.1:8080"}
contenders:
  forking:
    server:
      command: [python3, "${folder}/forking.py", "${port}"]
      cores: [0]
  bad-cores: {server: {command: [python3, "${folder}/forking.py", "${port}"], cores: [1000]}}
generator: {cores: [1]}
requests: [{get: /}]
load: {executor: constant-vus, vus: 1, duration: 1s}
bars: [cpu of forking >= 2ms]
"#;
    let dir = tempfile::tempdir().unwrap();
    let program = "import http.server, os, sys, time
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        child = os.fork()
        if child == 0:
            until = time.process_time() + 0.005
            while time.process_time() < until: pass
            os._exit(0)
        os.waitpid(child, 0)
        body = str(os.sched_getaffinity(0)).encode()
        self.send_response(200)
        self.send_header('Content-Length', str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *_): pass
http.server.HTTPServer(('127.0.0.1', int(sys.argv[1])), Handler).serve_forever()
";
    fs::write(dir.path().join("forking.py"), program).unwrap();
    let verify = "verify: [{body_equals: \"{0}\"}]\n";
    fs::write(dir.path().join("scenario.yaml"), format!("{scenario}{ROUNDS}{verify}")).unwrap();
    let output = weir(dir.path(), &["lab", "run", "scenario.yaml", "--out", "out"]);
    let all = summary(dir.path());
    let forking = &all["cells"][0];
    for round in forking["recorded"].as_array().unwrap() {
        let cpu = round["resources"]["cpu_us"].as_f64().unwrap();
        assert!(cpu > 4_000.0, "5 ms of ended child processes for each request: {round}");
        assert!(round["resources"]["idle"].is_number(), "of core 0: {round}");
    }
    assert!(forking["server"]["cpu_us"].as_f64() > Some(4_000.0), "{}", shown(&output));
    let reasons = all["cells"][1]["reasons"].to_string();
    assert!(reasons.contains("cores 1000 cannot be used"), "{reasons}");
}

#[test]
fn wrk_is_a_cross_check() {
    let scenario = SERVERS.replace("port: other}", "generator: wrk}").replace("other: {", "wrk: {");
    let scenario = scenario.replace("contender: other}", "contender: wrk}");
    let load = "load: {executor: constant-vus, vus: 4, duration: 1s}\n";
    let bars = "bars: [generator-cpu of nginx <= 1000s, p99 of wrk <= 60s]\n";
    let (dir, output) = run(&format!("{scenario}{ROUNDS}{load}{bars}"), &[]);
    let all = summary(dir.path());
    let wrk = &all["cells"][2];
    assert!(wrk["name"].as_str().unwrap().contains("wrk"), "{wrk}");
    let rounds = wrk["recorded"].as_array().unwrap();
    assert!(rounds.len() == 2 || wrk["verdict"] != "PASS", "{}", shown(&output));
    for round in rounds {
        assert!(round["throughput"].as_f64() > Some(1.0), "{round}");
        assert!(round["response"]["p99"].as_f64() > Some(0.0), "{round}");
        assert!(round["resources"]["generator_cpu_us"].as_f64() > Some(0.1), "{round}");
    }
    // Whatever else the machine does, wrk has a result.
    assert!(wrk["labels"][0]["samples"].as_u64() > Some(4), "{wrk}");
    let missing = scenario.replace("generator: wrk}", "generator: wrk2}");
    let load = "load: {executor: constant-arrival-rate, rate: 100/s, duration: 1s}\n";
    let (_dir, output) = run(&format!("{missing}{ROUNDS}{load}"), &[]);
    let text = shown(&output);
    assert!(text.contains("wrk2: No such file") || text.contains("requests"), "{text}");
}

#[test]
fn the_scenarios_of_the_benchmarks_are_valid() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../perf/scenarios");
    let mut checked = 0;
    for entry in fs::read_dir(&root).unwrap() {
        let path = entry.unwrap().path();
        let output = weir(&root, &["lab", "check", path.to_str().unwrap()]);
        assert_eq!(output.status.code(), Some(0), "{}: {}", path.display(), shown(&output));
        checked += 1;
    }
    assert!(checked > 10, "{checked}");
}

#[test]
fn tables_of_runs_are_written_into_a_page() {
    let scenario = "lab: 1\ntarget: {base: \"http://127.0.0.1:8080\"}\n\
        contenders: {weir: {server: {weir: weir.yaml, set: {upstreams.echo.targets.0: \"http://${backend}\"}}}}\n\
        backend: {echo: {port: 0, delay: 200ms}}\nrequests: [{get: /status/200}]\n\
        bars: [memory of weir <= 2GiB]\n";
    let (dir, output) = run(&format!("{scenario}{ROUNDS}{CLOSED}"), &["--quick"]);
    let page = dir.path().join("page.md");
    fs::write(&page, "above\n<!-- lab:begin -->\n<!-- lab:end -->\nbelow\n").unwrap();
    let tables = weir(dir.path(), &["lab", "tables", "out", "--page", "page.md"]);
    assert!(tables.status.success(), "{} {}", shown(&output), shown(&tables));
    let text = fs::read_to_string(&page).unwrap();
    assert!(text.contains("<!-- lab:begin -->\n") && text.contains("bars met"), "{text}");
    assert!(text.contains("| memory of weir <= 2GiB") && text.ends_with("below\n"), "{text}");
    fs::write(&page, "no marks").unwrap();
    let tables = weir(dir.path(), &["lab", "tables", "out", "--page", "page.md"]);
    assert!(shown(&tables).contains("lab:begin"), "{}", shown(&tables));
    assert_eq!(fs::read_to_string(&page).unwrap(), "no marks");
}
