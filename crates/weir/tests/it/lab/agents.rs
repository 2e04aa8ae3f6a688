//! `weir lab run --agents`: several generators, as real processes.

use super::target::{Response, Target};
use crate::harness::{self, Signal, weir};
use crate::telemetry::collector::{Collector, attribute};
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Output, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// An agent with two threads, ended on drop.
struct Agent {
    process: Child,
    address: String,
    notes: BufReader<ChildStderr>,
}

impl Agent {
    fn start(dir: &Path, args: &[&str]) -> Self {
        let mut process = Command::new(env!("CARGO_BIN_EXE_weir"))
            .args(["lab", "agent", "--listen", "127.0.0.1:0", "--threads", "2"])
            .args(args)
            .current_dir(dir)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("listening on ").expect("an address").to_owned();
        let notes = BufReader::new(process.stderr.take().unwrap());
        Self { process, address, notes }
    }

    /// Waits for a line of standard error.
    fn note(&mut self, part: &str) {
        let mut line = String::new();
        while !line.contains(part) {
            line.clear();
            assert!(self.notes.read_line(&mut line).unwrap() > 0, "no line with {part}");
        }
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn text(output: &Output) -> String {
    let parts = [&output.stdout, &output.stderr].map(|part| String::from_utf8_lossy(part));
    parts.join("\n")
}

fn run(dir: &Path, agents: &[&Agent], args: &[&str]) -> Output {
    let addresses: Vec<&str> = agents.iter().map(|agent| agent.address.as_str()).collect();
    let addresses = addresses.join(",");
    let run = ["lab", "run", "scenario.yaml", "--out", "out", "--agents", &addresses];
    weir(dir, &[&run, args].concat())
}

fn cell(dir: &Path) -> Value {
    let text = fs::read_to_string(dir.join("out/summary.json")).expect("a summary");
    serde_json::from_str::<Value>(&text).expect("JSON")["cells"][0].clone()
}

fn endless(target: &Target) -> String {
    format!(
        "lab: 1\ntarget: {{base: \"http://{}\"}}\nrequests: [{{name: get, get: /}}]\n\
         load: {{executor: constant-vus, vus: 4, duration: 60s}}\n",
        target.addr
    )
}

fn well() -> Target {
    Target::start(|_, _| Response::Text(Duration::from_millis(1), "well".to_owned()))
}

#[test]
fn one_plan_is_divided_among_agents() {
    let paths = Arc::<Mutex<Vec<String>>>::default();
    let seen = paths.clone();
    let target = Target::start(move |_, path| {
        seen.lock().unwrap().push(path.to_owned());
        Response::Text(Duration::from_millis(1), "well".to_owned())
    });
    let dir = tempfile::tempdir().unwrap();
    let agents = [Agent::start(dir.path(), &[]), Agent::start(dir.path(), &[])];
    let rows: String = (0..400).map(|number| format!("{number}\n")).collect();
    fs::create_dir(dir.path().join("data")).unwrap();
    fs::write(dir.path().join("data/rows.csv"), format!("id\n{rows}")).unwrap();
    let scenario = format!(
        "lab: 1\ntarget: {{base: \"http://{}\"}}\nfeeders: {{rows: {{csv: data/rows.csv}}}}\n\
         requests: [{{name: get, get: \"/${{rows.id}}\"}}]\n\
         load: {{executor: shared-iterations, vus: 4, iterations: 400}}\n",
        target.addr
    );
    fs::write(dir.path().join("scenario.yaml"), scenario).unwrap();
    let output = run(dir.path(), &[&agents[0], &agents[1]], &["--json"]);
    let (paths, cell) = (paths.lock().unwrap().clone(), cell(dir.path()));
    assert_eq!(paths.len(), 400, "{}", text(&output));
    assert_eq!(paths.iter().collect::<BTreeSet<_>>().len(), 400, "each row once");
    assert_eq!(cell["labels"][0]["samples"], 400);
    let of = |agent: usize| cell["agents"][agent].clone();
    assert_eq!(of(0)["samples"].as_u64().unwrap() + of(1)["samples"].as_u64().unwrap(), 400);
    for (agent, started) in [of(0), of(1)].iter().zip(&agents) {
        assert_eq!((&agent["samples"], &agent["loops"]), (&200.into(), &2.into()), "{agent}");
        assert_eq!(agent["agent"], started.address);
        assert!(agent["round_trip"].as_f64().is_some_and(|ms| ms > 0.0), "{agent}");
    }
}

#[test]
fn the_controller_exports_the_sums_of_all_agents() {
    let (target, collector) = (well(), Collector::start());
    let dir = tempfile::tempdir().unwrap();
    let agents = [Agent::start(dir.path(), &[]), Agent::start(dir.path(), &[])];
    let scenario = format!(
        "lab: 1\ntarget: {{base: \"http://{}\"}}\nrequests: [{{name: get, get: /}}]\n\
         load: {{executor: shared-iterations, vus: 4, iterations: 400}}\n",
        target.addr
    );
    fs::write(dir.path().join("scenario.yaml"), scenario).unwrap();
    let otlp = format!("http://{}", collector.upstream.addr);
    let credential = "# of the collector\nAuthorization: Bearer secret-of-the-collector\n";
    fs::write(dir.path().join("headers"), credential).unwrap();
    let args = ["--otlp", &otlp, "--otlp-headers", "headers"];
    let output = run(dir.path(), &[&agents[0], &agents[1]], &args);
    let metrics = collector.last_report();
    let duration = metrics.iter().find(|one| one.name == "http.client.request.duration");
    let Some(Data::Histogram(found)) = duration.and_then(|one| one.data.clone()) else {
        panic!("no durations: {}", text(&output))
    };
    assert_eq!(found.data_points[0].count, 400, "{}", text(&output));
    let both = format!("{},{}", agents[0].address, agents[1].address);
    assert_eq!(attribute(&collector.resource().attributes, "weir.lab.agents"), both);
}

#[test]
fn a_plan_of_jmeter_runs_on_agents() {
    let target = well();
    let dir = tempfile::tempdir().unwrap();
    let agent = Agent::start(dir.path(), &[]);
    let plans = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/lab/plans");
    let plan = fs::read_to_string(plans.join("http-post.jmx")).unwrap();
    fs::write(dir.path().join("plan.jmx"), plan.replace(">POST<", ">GET<")).unwrap();
    fs::copy(plans.join("tokens.csv"), dir.path().join("tokens.csv")).unwrap();
    fs::write(dir.path().join("payload.json"), "").unwrap();
    let port = format!("-Jport={}", target.addr.port());
    let args = ["lab", "run", "plan.jmx", "--out", "out", "--agents", &agent.address, &port];
    let output = weir(dir.path(), &args);
    assert_eq!(target.requests(), 100, "25 times 4 users: {}", text(&output));
    let of = cell(dir.path())["agents"][0].clone();
    assert_eq!((&of["agent"], &of["samples"]), (&agent.address.as_str().into(), &100.into()));
}

#[test]
fn a_lost_agent_is_named_and_ends_the_run() {
    let target = well();
    let dir = tempfile::tempdir().unwrap();
    let (stays, mut goes) = (Agent::start(dir.path(), &[]), Agent::start(dir.path(), &[]));
    fs::write(dir.path().join("scenario.yaml"), endless(&target)).unwrap();
    let output = std::thread::scope(|scope| {
        let addresses = format!("{},{}", stays.address, goes.address);
        let run = scope.spawn(move || {
            let args = ["lab", "run", "scenario.yaml", "--out", "out", "--agents", &addresses];
            weir(dir.path(), &args)
        });
        harness::eventually("there is load", || target.requests() > 100);
        goes.process.kill().unwrap();
        run.join().unwrap()
    });
    let text = text(&output);
    assert_eq!(output.status.code(), Some(3), "{text}");
    assert!(text.contains(&format!("agent {}: it was lost", goes.address)), "{text}");
}

#[test]
fn the_load_ends_with_the_controller_and_at_its_signal() {
    let target = well();
    let dir = tempfile::tempdir().unwrap();
    let mut agent = Agent::start(dir.path(), &[]);
    fs::write(dir.path().join("scenario.yaml"), endless(&target)).unwrap();
    for signal in [Signal::KILL, Signal::INT] {
        let before = target.requests();
        let mut controller = Command::new(env!("CARGO_BIN_EXE_weir"))
            .args(["lab", "run", "scenario.yaml", "--agents", &agent.address, "--out"])
            .arg(format!("out-{}", signal.as_raw()))
            .current_dir(dir.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        harness::eventually("there is load", || target.requests() > before + 100);
        let second = run(dir.path(), &[&agent], &[]);
        assert!(text(&second).contains("the agent is part of another run"), "{}", text(&second));
        let pid = rustix::process::Pid::from_child(&controller);
        rustix::process::kill_process(pid, signal).unwrap();
        agent.note("the connection was closed");
        controller.wait().unwrap();
        std::thread::sleep(Duration::from_millis(200));
        let after = target.requests();
        std::thread::sleep(Duration::from_millis(300));
        assert_eq!(target.requests(), after, "no request after the end");
    }
}

#[test]
fn agents_are_protected_by_keys_and_certificates() {
    let target = well();
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    fs::write(path("key"), "0123456789abcdef\n").unwrap();
    fs::write(path("other"), "0123456789abcdeg\n").unwrap();
    fs::write(path("short"), "0123456789abcde\n").unwrap();
    let scenario = endless(&target).replace("60s", "1s");
    fs::write(path("scenario.yaml"), scenario).unwrap();
    certificates(dir.path());
    let refused = |args: &[&str], why: &str| {
        let output = weir(dir.path(), &[&["lab", "agent", "--listen"], args].concat());
        assert!(!output.status.success() && text(&output).contains(why), "{}", text(&output));
    };
    refused(&["0.0.0.0:0"], "is not a loopback address");
    refused(&["127.0.0.1:0", "--secret-file", "short"], "at least 16");
    let keyed = Agent::start(dir.path(), &["--secret-file", "key"]);
    let why = |agent: &Agent, args: &[&str], why: &str| {
        let output = run(dir.path(), &[agent], args);
        assert!(text(&output).contains(why), "{}", text(&output));
    };
    why(&keyed, &[], "the agent needs its key");
    why(&keyed, &["--secret-file", "other"], "the key of the controller is not the agent's");
    let own = ["--cert", "end.pem", "--key", "end-key.pem", "--ca", "ca.pem"];
    let certified = Agent::start(dir.path(), &own);
    why(&certified, &[], "agent 127.0.0.1");
    let strange = ["--cert", "strange.pem", "--key", "strange-key.pem", "--ca", "ca.pem"];
    why(&certified, &strange, "agent 127.0.0.1");
    assert_eq!(target.requests(), 0);
    let output = run(dir.path(), &[&certified], &own);
    assert!(target.requests() > 0, "{}", text(&output));
    fs::remove_dir_all(path("out")).unwrap();
    let before = target.requests();
    let output = run(dir.path(), &[&keyed], &["--secret-file", "key"]);
    assert!(target.requests() > before, "{}", text(&output));
}

/// An authority, a certificate of it, and one of another authority.
fn certificates(dir: &Path) {
    let authority = || {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, "lab");
        CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
    };
    let (known, strange) = (authority(), authority());
    fs::write(dir.join("ca.pem"), known.pem()).unwrap();
    for (name, issuer) in [("end", known), ("strange", strange)] {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &issuer).unwrap();
        fs::write(dir.join(format!("{name}.pem")), certificate.pem()).unwrap();
        fs::write(dir.join(format!("{name}-key.pem")), key.serialize_pem()).unwrap();
    }
}

#[test]
fn what_cannot_be_divided_is_an_error() {
    let target = well();
    let dir = tempfile::tempdir().unwrap();
    let agent = Agent::start(dir.path(), &[]);
    let scenario = endless(&target);
    let search = scenario.replace(
        "executor: constant-vus, vus: 4, duration: 60s",
        "executor: find-max, start: 10, slo: {errors: 0}",
    );
    fs::write(dir.path().join("scenario.yaml"), search).unwrap();
    let output = run(dir.path(), &[&agent], &[]);
    assert!(text(&output).contains("find-max"), "{}", text(&output));
    fs::create_dir(dir.path().join("inner")).unwrap();
    let outside = scenario
        .replace("{name: get, get: /}", "{name: get, get: \"/${rows.id}\"}")
        .replace("requests:", "feeders: {rows: {csv: ../rows.csv}}\nrequests:");
    fs::write(dir.path().join("rows.csv"), "id\n1\n").unwrap();
    fs::write(dir.path().join("inner/scenario.yaml"), outside).unwrap();
    let output = run(&dir.path().join("inner"), &[&agent], &[]);
    assert!(text(&output).contains("is not in the folder"), "{}", text(&output));
    assert_eq!(target.requests(), 0);
}
