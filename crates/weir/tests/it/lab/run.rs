//! `weir lab run` with scenario files: verdicts, exit codes and words, on servers that are well and
//! on servers that are not.

use super::target::{Response, Target};
use crate::harness::{self, Signal, weir};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Runs a scenario in a folder; results are in `out` there.
fn run(dir: &Path, scenario: &str, args: &[&str]) -> Output {
    fs::write(dir.join("scenario.yaml"), scenario).unwrap();
    weir(dir, &[&["lab", "run", "scenario.yaml", "--out", "out"], args].concat())
}

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn said(output: &Output) -> String {
    format!("{}\n{}", stdout(output), String::from_utf8_lossy(&output.stderr))
}

fn summary(dir: &Path) -> Value {
    let text = fs::read_to_string(dir.join("out/summary.json")).expect("a summary");
    serde_json::from_str(&text).expect("JSON")
}

/// A scenario of `iterations` by four users.
fn once(base: &str, request: &str, iterations: u32, more: &str) -> String {
    format!(
        "lab: 1\ntarget: {{base: \"http://{base}\", timeout: 500ms}}\nrequests: [{request}]\n\
         load: {{executor: shared-iterations, vus: 4, iterations: {iterations}}}\n{more}\n"
    )
}

#[test]
fn a_maximum_rate_and_a_time_limit_apply() {
    let target = Target::start(|_, _| Response::Text(Duration::ZERO, "well".to_owned()));
    let dir = tempfile::tempdir().unwrap();
    let scenario = once(&target.addr.to_string(), "{name: ask, get: /}", 1_000_000, "");
    let begun = std::time::Instant::now();
    let output = run(dir.path(), &scenario, &["--json", "--most", "50", "--within", "3s"]);
    let most = 50.0 * begun.elapsed().as_secs_f64() + 4.0;
    let text = stdout(&output);
    let last: Value = serde_json::from_str(text.lines().last().expect("a line")).unwrap();
    assert_eq!(last["interrupted"], true, "{last}");
    let sent = target.requests();
    assert!(sent > 0 && (sent as f64) < most, "{sent} in the time of {most}");
}

#[test]
fn requests_sent_are_those_the_server_counted() {
    let target = Target::start(|_, _| Response::Text(Duration::ZERO, "well".to_owned()));
    let dir = tempfile::tempdir().unwrap();
    let request = "{name: ask, get: /, checks: [{body_equals: well}]}";
    let scenario = once(&target.addr.to_string(), request, 2_003, "");
    let output = run(dir.path(), &scenario, &["--json"]);
    let text = stdout(&output);
    let last: Value = serde_json::from_str(text.lines().last().expect("a line")).unwrap();
    assert_eq!((&last["samples"], target.requests()), (&2_003.into(), 2_003), "{}", said(&output));
    for kind in ["refused", "reset", "timeout", "http_4xx", "http_500", "http_503"] {
        assert_eq!(last["errors"][kind], 0, "{kind} is there, and none");
    }
    assert!(last["throughput"].as_f64() > Some(0.0), "{last}");
    assert!(last["percentiles"]["p99"].as_f64() > Some(0.0), "{last}");
    let files =
        ["run.json", "series.csv", "server.csv", "events.jsonl", "junit.xml", "report.html"];
    for file in files {
        assert!(
            fs::metadata(dir.path().join("out").join(file)).is_ok_and(|f| f.len() > 0),
            "{file}"
        );
    }
    let again = run(dir.path(), &scenario, &[]);
    assert!(said(&again).contains("already has results"), "{}", said(&again));
}

#[test]
fn runs_that_start_at_once_have_folders_of_their_own() {
    let target = Target::start(|_, _| Response::Text(Duration::ZERO, "well".to_owned()));
    let dir = tempfile::tempdir().unwrap();
    let scenario = once(&target.addr.to_string(), "{name: ask, get: /}", 20, "");
    fs::write(dir.path().join("scenario.yaml"), scenario).unwrap();
    let folder = || {
        let output = weir(dir.path(), &["lab", "run", "scenario.yaml", "--json"]);
        let text = stdout(&output);
        let last: Value = serde_json::from_str(text.lines().last().unwrap_or_default())
            .unwrap_or_else(|_| panic!("{}", said(&output)));
        assert_eq!(last["samples"], 20, "{last}");
        last["folder"].as_str().expect("a folder").to_owned()
    };
    let folders: BTreeSet<String> = std::thread::scope(|scope| {
        let runs = [(); 4].map(|()| scope.spawn(folder));
        runs.into_iter().map(|run| run.join().expect("a result")).collect()
    });
    assert_eq!(folders.len(), 4, "{folders:?}");
    for folder in &folders {
        assert!(folder.starts_with("lab-results/scenario-"), "{folder}");
        assert!(dir.path().join(folder).join("report.html").exists(), "{folder}");
    }
}

/// Verdict, exit code and words of a scenario.
fn verdict(scenario: &str, code: i32, words: &[&str]) {
    let dir = tempfile::tempdir().unwrap();
    let output = run(dir.path(), scenario, &[]);
    let text = stdout(&output);
    for word in words {
        assert!(text.contains(word), "{word}: {}", said(&output));
    }
    assert_eq!(output.status.code(), Some(code), "{}", said(&output));
}

#[test]
fn errors_hangs_rejections_and_wrong_responses_are_distinguished() {
    let echo = harness::echo(&[]);
    let echo = echo.listen[0].to_string();
    let failing = once(&echo, "{get: /status/500}", 20, "");
    verdict(&failing, 3, &["INVALID", "20 of 20 requests failed", "http_500"]);
    let promised = once(&echo, "{get: /status/500}", 20, "thresholds: [\"error-rate<=0\"]");
    verdict(&promised, 1, &["FAIL", "error-rate<=0 is not met: 100.000 %"]);
    let declared =
        once(&echo, "{get: /status/503, expected: 503}", 20, "thresholds: [\"errors<=0\"]");
    let dir = tempfile::tempdir().unwrap();
    let output = run(dir.path(), &declared, &["--quick"]);
    assert_eq!(summary(dir.path())["cells"][0]["labels"][0]["expected"], 20, "{}", said(&output));

    let hanging = Target::start(|_, _| Response::Hang).addr.to_string();
    verdict(&once(&hanging, "{get: /}", 8, ""), 3, &["INVALID", "8 of 8", "timeout"]);
    let nobody = harness::nobody().to_string();
    verdict(&once(&nobody, "{get: /}", 8, ""), 3, &["INVALID", "8 of 8", "refused"]);
    let other = Target::start(|_, _| Response::Text(Duration::ZERO, "<html>".to_owned()));
    let checked = "{get: /, checks: [{body_contains: '\"ok\"'}]}";
    let wrong = once(&other.addr.to_string(), checked, 8, "thresholds: [\"errors<=0\"]");
    verdict(&wrong, 1, &["FAIL", "8 of 8", "check"]);
}

#[test]
fn a_server_that_does_not_start_fails_its_case_only() {
    let dir = tempfile::tempdir().unwrap();
    // Slow: it is there after a second. Broken: it ends at once.
    let weir_program = env!("CARGO_BIN_EXE_weir");
    let script = format!(
        "if [ $HOW = slow ]; then sleep 1; exec {weir_program} echo --listen 127.0.0.1:$0; fi; \
         echo no luck today >&2; exit 4"
    );
    let scenario = format!(
        r#"
lab: 1
target: {{base: "http://127.0.0.1:1"}}
server: {{command: [sh, -c, "{script}"], patience: 20s}}
cases: {{factors: {{how: [broken, slow]}}, apply: {{env: {{HOW: "${{how}}"}}, args: ["${{port}}"]}}}}
requests: [{{get: /}}]
load: {{executor: shared-iterations, vus: 2, iterations: 50}}
"#
    );
    let output = run(dir.path(), &scenario, &[]);
    assert_eq!(output.status.code(), Some(3), "{}", said(&output));
    let text = stdout(&output);
    assert!(
        text.contains("the server of how=broken did not start: it exited with exit status: 4"),
        "{text}"
    );
    assert!(text.contains("no luck today"), "{text}");
    let summary = summary(dir.path());
    assert_eq!(summary["cells"][1]["labels"][0]["ok"], 50, "{text}");
    let patience = scenario.replace("20s", "200ms").replace("[broken, slow]", "[slow]");
    let dir = tempfile::tempdir().unwrap();
    let output = run(dir.path(), &patience, &[]);
    assert!(stdout(&output).contains("it was not ready within 0.2 s"), "{}", said(&output));
}

/// A server that writes a log like that of a JVM: 20 pauses of 2 ms in a second.
const WITH_GC_LOG: &str = r#"
touch "$2/gc.log"
while kill -0 $$ 2>/dev/null; do
  echo '[1.0s][info][gc] GC(1) Pause Young (Normal) (G1 Evacuation Pause) 24M->4M(256M) 2.000ms' >> "$2/gc.log"
  sleep 0.05
done &
exec WEIR echo --listen "127.0.0.1:$1"
"#;

#[test]
fn gc_pauses_and_sockets_of_the_server_are_observed_and_a_missing_log_is_a_remark() {
    let run_with = |log: &str| {
        let dir = tempfile::tempdir().unwrap();
        let script = WITH_GC_LOG.replace("WEIR", env!("CARGO_BIN_EXE_weir"));
        fs::write(dir.path().join("server.sh"), script).unwrap();
        let scenario = r#"
lab: 1
target: {base: "http://127.0.0.1:1"}
server: {command: [sh, server.sh, "${port}", "${data}"]}
observe: {gc_log: "${data}/LOG"}
requests: [{get: /}]
load: {executor: constant-vus, vus: 1, duration: 2s}
"#;
        let output = run(dir.path(), &scenario.replace("LOG", log), &[]);
        let cell = summary(dir.path())["cells"][0].clone();
        (dir, output, cell)
    };
    let (dir, output, cell) = run_with("gc.log");
    let throughput = cell["traits"]["gc_throughput"].as_f64();
    assert!(throughput.is_some_and(|found| found > 50.0 && found < 100.0), "{}", said(&output));
    let out = dir.path().join("out");
    let rows = fs::read_to_string(out.join("server.csv")).unwrap();
    let header: Vec<&str> = rows.lines().next().unwrap().split(',').collect();
    let column = |subject: &str, name: &str| -> Vec<f64> {
        let at = header.iter().position(|known| *known == name).expect("a column");
        let of_subject = rows.lines().filter(|row| row.split(',').nth(1) == Some(subject));
        of_subject.filter_map(|row| row.split(',').nth(at)?.parse().ok()).collect()
    };
    let sockets = column("server", "sockets");
    assert!(sockets.contains(&1.0), "one user has one connection: {rows}");
    let pauses = column("gc pauses", "gauge");
    assert!(pauses.len() >= 2 && pauses.iter().any(|millis| *millis > 0.0), "{rows}");
    let page = fs::read_to_string(out.join("report.html")).unwrap();
    assert!(page.contains("\"gc pauses\"") || !page.contains("id=\"data\""), "it is drawn");
    assert!(!stdout(&output).contains("GC log"), "{}", said(&output));

    let (_dir, output, cell) = run_with("none.log");
    let remark = "the GC log ${data}/none.log cannot be read: No such file or directory";
    assert!(stdout(&output).contains(&format!("note: {remark}")), "{}", said(&output));
    assert!(cell["remarks"][0].as_str().is_some_and(|text| text.starts_with(remark)), "{cell}");
    assert_eq!(cell["traits"]["gc_throughput"], Value::Null);
}

const SERVED: &str = r#"
version: 1
listen: [{addr: "127.0.0.1:8080"}]
apis:
  word: {base: /, routes: [{get: /, reply: {text: none}}]}
"#;

/// Each case has a server with its own settings; rounds of the cases follow each other in turn.
#[test]
fn cases_have_servers_of_their_own_and_take_turns() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("weir.yaml"), SERVED).unwrap();
    let scenario = r#"
lab: 1
target: {base: "http://127.0.0.1:8080"}
server: {weir: weir.yaml, patience: 2m}
cases:
  factors: {word: [left, right], tracker: [true, false]}
  apply: {set: {apis.word.routes.0.reply.text: "${word}", tracker.enabled: "${tracker}"}}
requests: [{get: /, checks: [{body_equals: "${word}"}]}]
load: {executor: shared-iterations, vus: 2, iterations: 200}
protocol: {stabilise: {rounds: 3, max_rounds: 9, exact: true, idle: drained}}
thresholds: ["errors<=0"]
"#;
    let output = run(dir.path(), scenario, &[]);
    let summary = summary(dir.path());
    let cells = summary["cells"].as_array().expect("cells");
    assert_eq!(cells.len(), 4, "{}", said(&output));
    for cell in cells {
        let total = &cell["labels"][0];
        assert!(total["ok"].as_u64() >= Some(600), "{cell}\n{}", said(&output));
        assert_eq!(total["samples"], total["ok"], "{cell}\n{}", said(&output));
        let flaws = cell["flaws"].as_array();
        assert!(flaws.is_none_or(|all| all.iter().all(|f| f["kind"] != "miscounted")), "{cell}");
        assert!(cell["server"]["memory"].as_u64() > Some(0), "the server was watched: {cell}");
    }
    let events = fs::read_to_string(dir.path().join("out/events.jsonl")).unwrap();
    let events: Vec<Value> = events.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    let of = |kind: &str| events.iter().filter(|e| e["kind"] == kind).collect::<Vec<_>>().len();
    assert_eq!(of("started"), 4, "{events:?}");
    let turns: Vec<u64> = events
        .iter()
        .filter(|event| event["kind"] == "round")
        .filter_map(|event| event["cell"].as_u64())
        .take(8)
        .collect();
    assert_eq!(turns, [0, 1, 2, 3, 0, 1, 2, 3], "{events:?}");
    let left = fs::read_dir(dir.path().join("out/servers")).unwrap().flatten();
    let left: Vec<String> = left.map(|f| f.file_name().to_string_lossy().into_owned()).collect();
    assert!(left.iter().all(|name| name.ends_with(".log")), "data is removed: {left:?}");
}

/// How rounds of a target come out that takes `delay(n)` milliseconds over its request n, by these
/// rules.
fn rounds(delay: impl Fn(u64) -> f64 + Send + Sync + 'static, rules: &str) -> (Output, Value) {
    let target = Target::start(move |number, _| {
        Response::Text(Duration::from_secs_f64(delay(number) / 1e3), "well".to_owned())
    });
    let dir = tempfile::tempdir().unwrap();
    let protocol = format!("protocol: {{stabilise: {{rounds: 3, exact: true, {rules}}}}}");
    let scenario = once(&target.addr.to_string(), "{get: /}", 100, &protocol);
    let output = run(dir.path(), &scenario, &[]);
    let summary = summary(dir.path());
    (output, summary)
}

#[test]
fn a_server_that_gets_slower_round_by_round_is_unstable() {
    // 7 % a round.
    let (output, summary) = rounds(|n| 5.0 * 1.07_f64.powf(n as f64 / 100.0), "max_rounds: 14");
    let cell = &summary["cells"][0];
    assert_eq!(summary["verdict"], "UNSTABLE", "{}", said(&output));
    assert_eq!(output.status.code(), Some(4));
    assert_eq!(cell["rounds"].as_array().map(Vec::len), Some(14));
    assert!(cell["throughput"].is_null(), "no headline number");
    assert!(stdout(&output).contains("UNSTABLE"), "{}", said(&output));
}

#[test]
fn a_server_that_warms_up_is_decided_late_and_measured_warm() {
    // 50 ms at first, 10 ms at last. On a busy machine it may take some tries.
    for _ in 0..6 {
        let delay = |n| 10.0 + 40.0 * (-(n as f64) / 250.0).exp();
        let (_, summary) = rounds(delay, "max_rounds: 40, margin: 20%");
        let cell = &summary["cells"][0];
        let Some(mean) = cell["throughput"]["mean"].as_f64() else { continue };
        let rounds = cell["rounds"].as_array().expect("rounds");
        let first = rounds.iter().position(|round| round["used"] == "recorded").expect("recorded");
        let cold = rounds[0]["throughput"].as_f64().expect("a number");
        // Six rounds decide at the earliest: here some are cold.
        assert!(first >= 7, "decided in round {first}, while it was warming up: {cell}");
        assert!(mean > 2.5 * cold, "{mean} a second, {cold} when cold");
        return;
    }
    panic!("never stable");
}

#[test]
fn rounds_wait_until_gauges_are_zero() {
    let asked = AtomicU64::new(0);
    let target = Target::start(move |_, path| {
        let text = match path {
            "/metrics" => {
                format!("queue {}\n", u64::from(asked.fetch_add(1, Ordering::SeqCst) < 3))
            }
            _ => "well".to_owned(),
        };
        Response::Text(Duration::ZERO, text)
    });
    let dir = tempfile::tempdir().unwrap();
    let more = format!(
        "protocol: {{fixed: {{cut: 0s, idle: {{zero: [queue]}}}}}}\n\
         observe: {{metrics: \"http://{}/metrics\", gauges: [queue]}}",
        target.addr
    );
    let output = run(dir.path(), &once(&target.addr.to_string(), "{get: /}", 300, &more), &[]);
    let ok = summary(dir.path())["cells"][0]["labels"][0]["ok"].as_u64();
    assert_eq!(ok, Some(300), "{}", said(&output));
    let metrics = target.requests() - 300;
    assert!(metrics >= 4, "it was asked {metrics} times");
    let server = fs::read_to_string(dir.path().join("out/server.csv")).unwrap();
    assert!(
        server.lines().any(|line| line.contains(",queue,") && line.ends_with(",0.0")),
        "{server}"
    );
}

#[test]
fn a_signal_ends_the_run_with_a_partial_result() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("weir.yaml"), SERVED).unwrap();
    let scenario = "lab: 1\ntarget: {base: \"http://127.0.0.1:8080\"}\nserver: {weir: weir.yaml}\n\
        matrix: {users: [2, 3]}\nrequests: [{get: /}]\n\
        load: {executor: constant-vus, vus: \"${users}\", duration: 60s}\n";
    fs::write(dir.path().join("scenario.yaml"), scenario).unwrap();
    let child = Command::new(env!("CARGO_BIN_EXE_weir"))
        .args(["lab", "run", "scenario.yaml", "--out", "out"])
        .current_dir(dir.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let series = dir.path().join("out/events.jsonl");
    harness::eventually("a server is started", || {
        fs::metadata(dir.path().join("out/servers/server-1.log")).is_ok_and(|log| log.len() > 0)
    });
    // A second or two of load.
    std::thread::sleep(Duration::from_secs(3));
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, Signal::INT).unwrap();
    let output = child.wait_with_output().map(|output| (output.status, output.stdout)).unwrap();
    let text = String::from_utf8_lossy(&output.1).into_owned();
    assert_eq!(output.0.code(), Some(3), "{text}");
    assert!(text.contains("interrupted"), "{text}");
    let summary = summary(dir.path());
    assert_eq!(summary["interrupted"], "interrupted");
    assert!(summary["cells"][0]["labels"][0]["ok"].as_u64() > Some(0), "{text}");
    assert!(fs::metadata(dir.path().join("out/report.html")).is_ok());
    let events = fs::read_to_string(series).unwrap();
    let started: Value = serde_json::from_str(events.lines().next().unwrap()).unwrap();
    let place = started["text"].as_str().and_then(|text| text.rsplit(' ').next()).unwrap();
    assert!(std::net::TcpStream::connect(place).is_err(), "the server has ended: {place}");
}

#[test]
fn on_error_stop_ends_the_run() {
    let echo = harness::echo(&[]);
    let dir = tempfile::tempdir().unwrap();
    let scenario = format!(
        "lab: 1\ntarget: {{base: \"http://{}\"}}\nmatrix: {{status: [500, 200]}}\n\
         requests: [{{get: \"/status/${{status}}\"}}]\n\
         load: {{executor: constant-vus, vus: 2, duration: 60s, on_error: stop}}\n",
        echo.listen[0]
    );
    let output = run(dir.path(), &scenario, &[]);
    assert!(stdout(&output).contains("`on_error: stop` ends the run"), "{}", said(&output));
    assert_eq!(output.status.code(), Some(3), "{}", said(&output));
}

#[test]
fn a_scenario_with_mistakes_is_not_run() {
    let dir = tempfile::tempdir().unwrap();
    let output = run(dir.path(), &once("127.0.0.1:1", "{gett: /}", 1, ""), &[]);
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
    assert!(said(&output).contains("gett") && !dir.path().join("out/run.json").exists());
    let output =
        run(dir.path(), &once("127.0.0.1:1", "{get: /}", 1, ""), &["--set", "load.vuss=3"]);
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
    let output = weir(dir.path(), &["lab", "run", "nothing"]);
    assert_eq!(output.status.code(), Some(2), "1 is a verdict");
    assert!(said(&output).contains("suites: toro, martini"), "{}", said(&output));
    let plan = weir(dir.path(), &["lab", "run", "plan.jmx", "--quick"]);
    assert!(said(&plan).contains("are for scenarios"), "{}", said(&plan));
}

/// An endless group whose only content is done once.
const ENDLESS: &str = r#"<?xml version="1.0" encoding="UTF-8"?>
<jmeterTestPlan version="1.2" properties="5.0" jmeter="5.6.3"><hashTree>
<TestPlan guiclass="TestPlanGui" testclass="TestPlan" testname="Endless"/>
<hashTree>
<ThreadGroup guiclass="ThreadGroupGui" testclass="ThreadGroup" testname="Users">
  <elementProp name="ThreadGroup.main_controller" elementType="LoopController">
    <boolProp name="LoopController.continue_forever">false</boolProp>
    <stringProp name="LoopController.loops">-1</stringProp>
  </elementProp>
  <stringProp name="ThreadGroup.num_threads">2</stringProp>
  <stringProp name="ThreadGroup.ramp_time">0</stringProp>
</ThreadGroup>
<hashTree>
  <OnceOnlyController guiclass="ControlPanel" testclass="OnceOnlyController" testname="First time"/>
  <hashTree>
    <HTTPSamplerProxy guiclass="HttpTestSampleGui" testclass="HTTPSamplerProxy" testname="ask">
      <elementProp name="HTTPsampler.Arguments" elementType="Arguments">
        <collectionProp name="Arguments.arguments"></collectionProp>
      </elementProp>
      <stringProp name="HTTPSampler.domain">127.0.0.1</stringProp>
      <stringProp name="HTTPSampler.port">PORT</stringProp>
      <stringProp name="HTTPSampler.protocol">http</stringProp>
      <stringProp name="HTTPSampler.path">/</stringProp>
      <stringProp name="HTTPSampler.method">GET</stringProp>
    </HTTPSamplerProxy>
    <hashTree/>
  </hashTree>
</hashTree>
</hashTree>
</hashTree></jmeterTestPlan>"#;

/// Ticks of CPU time that a process has used (utime and stime of `/proc/PID/stat`).
fn ticks(pid: u32) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).expect("it runs");
    let fields: Vec<&str> = stat.rsplit_once(')').expect("a name").1.split_whitespace().collect();
    fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
}

#[test]
fn an_endless_loop_without_requests_yields_and_ends_by_a_signal() {
    let target = Target::start(|_, _| Response::Text(Duration::ZERO, "well".to_owned()));
    for signal in [Signal::INT, Signal::TERM] {
        let dir = tempfile::tempdir().unwrap();
        let plan = ENDLESS.replace("PORT", &target.addr.port().to_string());
        fs::write(dir.path().join("plan.jmx"), plan).unwrap();
        let before = target.requests();
        let mut child = Command::new(env!("CARGO_BIN_EXE_weir"))
            .args(["lab", "run", "plan.jmx", "--threads", "1"])
            .current_dir(dir.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        harness::eventually("both have asked", || target.requests() == before + 2);
        let used = ticks(child.id());
        std::thread::sleep(Duration::from_secs(2));
        // A core gives 200 of them in that time.
        let used = ticks(child.id()) - used;
        assert!(used < 100, "{used} ticks of the CPU");
        rustix::process::kill_process(rustix::process::Pid::from_child(&child), signal).unwrap();
        harness::eventually("it ends", || child.try_wait().unwrap().is_some());
    }
}

#[test]
fn a_stalled_generator_is_invalid() {
    let wait = Duration::from_millis(5);
    let target = Target::start(move |_, _| Response::Text(wait, "well".to_owned()));
    let dir = tempfile::tempdir().unwrap();
    let scenario = once(&target.addr.to_string(), "{get: /}", 1_000, "");
    let scenario = scenario.replace("500ms", "60s");
    fs::write(dir.path().join("scenario.yaml"), scenario).unwrap();
    let child = Command::new(env!("CARGO_BIN_EXE_weir"))
        .args(["lab", "run", "scenario.yaml", "--out", "out"])
        .current_dir(dir.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let pid = rustix::process::Pid::from_child(&child);
    harness::eventually("it has begun", || target.requests() >= 100);
    rustix::process::kill_process(pid, Signal::STOP).unwrap();
    std::thread::sleep(Duration::from_secs(2));
    rustix::process::kill_process(pid, Signal::CONT).unwrap();
    let output = child.wait_with_output().unwrap();
    let text = stdout(&output);
    assert_eq!(output.status.code(), Some(3), "{text}");
    assert!(text.contains("INVALID") && text.contains("the generator was stalled"), "{text}");
}
