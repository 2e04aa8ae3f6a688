//! JMeter as the oracle: the same plan on the same server must give the same samples.
//!
//! JMeter comes from Maven Central, by Maven, once; where that cannot be done the tests say so and
//! pass.

mod control;
mod elements;
mod http;
mod plan;
mod plugins;
mod server;
mod texts;
mod transactions;

use crate::harness::weir;
use serde_json::{Value, json};
use server::Server;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{LazyLock, Mutex};
use weir_lab::jtl;

const VERSION: &str = "5.6.3";

/// One run of JMeter at a time: a Java process takes half of a small machine.
static ONE: Mutex<()> = Mutex::new(());

/// JMeter's folder; `None` where it cannot be had.
static JMETER: LazyLock<Option<PathBuf>> = LazyLock::new(|| {
    let home = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("jmeter-{VERSION}"));
    let launcher = home.join("bin/ApacheJMeter.jar");
    if !launcher.exists() && install(&home).is_none() {
        eprintln!("SKIPPED: Maven and a JDK (by `make setup`) could not fetch JMeter {VERSION}");
        return None;
    }
    Some(home)
});

/// Plugins of JMeter that plans use, with their versions.
const PLUGINS: [(&str, &str); 4] =
    [("casutg", "2.10"), ("cmn-jmeter", "0.6"), ("dummy", "0.4"), ("tst", "2.5")];

/// JMeter's folder with the plugins; `None` where they cannot be had.
static WITH_PLUGINS: LazyLock<Option<PathBuf>> = LazyLock::new(|| {
    let home = JMETER.as_ref()?;
    let files = PLUGINS.map(|(name, version)| format!("jmeter-plugins-{name}-{version}.jar"));
    let there = || files.iter().all(|file| home.join("lib/ext").join(file).exists());
    if !there() {
        let parts = PLUGINS.map(|(name, version)| {
            dependency("kg.apc", &format!("jmeter-plugins-{name}"), version, NO_MORE)
        });
        let folder = home.join("plugins");
        fs::create_dir_all(&folder).ok()?;
        copy_dependencies(&folder, &parts.concat(), "../lib/ext");
    }
    if !there() {
        eprintln!("SKIPPED: Maven could not fetch the plugins of JMeter");
        return None;
    }
    Some(home.clone())
});

/// Without the dependencies of a dependency.
const NO_MORE: &str = "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId>\
                       </exclusion></exclusions>";

fn dependency(group: &str, artifact: &str, version: &str, more: &str) -> String {
    format!(
        "<dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId><version>{version}\
         </version>{more}</dependency>"
    )
}

/// Copies artifacts from Maven Central to a folder below `home`.
fn copy_dependencies(home: &Path, dependencies: &str, to: &str) -> Option<()> {
    const GOAL: &str = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies";
    let project = format!(
        "<project xmlns=\"http://maven.apache.org/POM/4.0.0\"><modelVersion>4.0.0</modelVersion>\
         <groupId>weir</groupId><artifactId>jmeter</artifactId><version>1</version>\
         <packaging>pom</packaging><dependencies>{dependencies}</dependencies></project>"
    );
    fs::write(home.join("pom.xml"), project).ok()?;
    let mut command = Command::new("timeout");
    command.args(["600", "mvn", "-q", "-B", GOAL, &format!("-DoutputDirectory={to}")]);
    done(command.current_dir(home))
}

fn done(command: &mut Command) -> Option<()> {
    let status = command.stdout(Stdio::null()).status();
    status.ok().filter(std::process::ExitStatus::success).map(drop)
}

/// Fetches JMeter as its own build would lay it out: `bin`, `lib` and `lib/ext`.
fn install(home: &Path) -> Option<()> {
    let parts = ["", "_http", "_functions", "_components", "_config"]
        .map(|part| dependency("org.apache.jmeter", &format!("ApacheJMeter{part}"), VERSION, ""));
    fs::create_dir_all(home.join("lib/ext")).ok()?;
    fs::create_dir_all(home.join("bin")).ok()?;
    copy_dependencies(home, &parts.concat(), "lib")?;
    let config = format!("lib/ApacheJMeter_config-{VERSION}.jar");
    done(Command::new("jar").args(["xf", &config, "bin"]).current_dir(home))?;
    for entry in fs::read_dir(home.join("lib")).ok()?.flatten() {
        let name = entry.file_name().into_string().ok()?;
        if name.starts_with("ApacheJMeter_") {
            fs::rename(entry.path(), home.join("lib/ext").join(&name)).ok()?;
        }
    }
    // Last, for it says that all of it is there.
    let launcher = home.join(format!("lib/ApacheJMeter-{VERSION}.jar"));
    fs::rename(launcher, home.join("bin/ApacheJMeter.jar")).ok()
}

/// Samples of one label.
#[derive(Debug, Default, PartialEq, Eq)]
struct Line {
    count: u64,
    errors: u64,
    bytes: u64,
    sent: u64,
    codes: BTreeMap<String, u64>,
    /// Messages of failed assertions.
    failures: BTreeSet<String>,
    urls: BTreeSet<String>,
}

type Lines = BTreeMap<String, Line>;

fn lines(text: &[u8]) -> Lines {
    let mut lines = Lines::new();
    let read = jtl::read(text, |row| {
        let line = lines.entry(row.label.to_string()).or_default();
        line.count += 1;
        line.errors += u64::from(!row.success);
        *line.codes.entry(row.code.to_string()).or_default() += 1;
        // The parser of XML has messages of its own.
        if !matches!(&*row.label, "not XML" | "no json fails")
            && !row.success
            && !row.failure.is_empty()
        {
            let failure = row.failure.split(": It took").next().unwrap_or_default();
            line.failures.insert(failure.to_owned());
        }
        line.urls.insert(row.url.to_string());
        // A boundary of JMeter has any length.
        let parts = row.label.starts_with("parts");
        // Without an answer JMeter counts the text of its exception as bytes, and the Debug Sampler
        // lists variables of JMeter itself.
        if !row.code.starts_with("Non HTTP") && !row.label.starts_with("debug") {
            line.bytes += row.bytes;
            line.sent += if parts { 0 } else { row.sent_bytes };
        }
    });
    read.expect("results");
    lines
}

/// Requests with the same boundary of their parts.
fn without_boundaries(log: &[String]) -> Vec<String> {
    let replaced = |line: &String| {
        let boundary = line.split_once("boundary=").map(|(_, rest)| rest.split([';', ' ']).next());
        boundary.flatten().map_or(line.clone(), |boundary| line.replace(boundary, "BOUNDARY"))
    };
    log.iter().map(replaced).collect()
}

fn plans() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/lab/plans")
}

/// What JMeter gives, and what reached the server.
fn by_jmeter(home: &Path, plan: &str, properties: &[(String, String)]) -> Lines {
    let _one = ONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let folder = tempfile::tempdir().expect("a folder");
    let results = folder.path().join("results.jtl");
    let mut command = Command::new("timeout");
    command.args(["120", "java", "-Xmx256m", "-XX:TieredStopAtLevel=1", "-jar"]);
    // JMeter's functions look for files where it runs.
    let file = plans().join(plan);
    command.arg(home.join("bin/ApacheJMeter.jar")).arg("-n");
    command.current_dir(file.parent().unwrap_or(&plans()));
    command.arg("-t").arg(&file).arg("-l").arg(&results);
    command.arg("-j").arg(folder.path().join("jmeter.log"));
    command.arg("-Jjmeter.save.saveservice.subresults=false");
    // Threads of the open model would keep the process for a minute.
    command.arg("-Jjmeterengine.force.system.exit=true");
    for (name, value) in properties {
        command.arg(format!("-J{name}={value}"));
    }
    let output = command.output().expect("Java runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    lines(&fs::read(results).expect("results"))
}

fn by_weir(plan: &str, properties: &[(String, String)]) -> (Lines, Value) {
    let folder = tempfile::tempdir().expect("a folder");
    let (plan, results) = (plans().join(plan), folder.path().join("results.jtl"));
    let mut args: Vec<String> =
        properties.iter().map(|(name, value)| format!("-J{name}={value}")).collect();
    let text = |path: &Path| path.to_str().expect("text").to_owned();
    args.extend(["--json".to_owned(), "--jtl".to_owned(), text(&results), text(&plan)]);
    let args: Vec<&str> =
        ["lab", "run"].into_iter().chain(args.iter().map(String::as_str)).collect();
    let output = weir(folder.path(), &args);
    let printed = String::from_utf8_lossy(&output.stdout);
    let last = printed.lines().last().unwrap_or_default();
    let result = serde_json::from_str(last);
    let result = result.unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&output.stderr)));
    (lines(&fs::read(results).expect("results")), result)
}

/// Runs a plan made in a test with both; `files` are beside it.
fn compare_files(name: &str, plan: &str, files: &[(&str, &[u8])]) {
    let folder = tempfile::tempdir().expect("a folder");
    for (file, content) in files {
        fs::write(folder.path().join(file), content).expect("written");
    }
    let path = folder.path().join(format!("{name}.jmx"));
    fs::write(&path, plan).expect("written");
    compare(path.to_str().expect("text"), &[]);
}

/// Runs a plan with both, each on a server of its own, and compares.
fn compare(plan: &str, more: &[(&str, &str)]) {
    compare_with(JMETER.as_deref(), plan, more);
}

/// Likewise, with this JMeter.
fn compare_with(home: Option<&Path>, plan: &str, more: &[(&str, &str)]) {
    let Some(home) = home else { return };
    let properties = |server: &Server| {
        let more = more.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let port = [("port".to_owned(), server.port.to_string())];
        port.into_iter().chain(more).collect::<Vec<_>>()
    };
    let (theirs, ours) = (Server::start(), Server::start());
    let expected = by_jmeter(home, plan, &properties(&theirs));
    let (found, result) = by_weir(plan, &properties(&ours));
    let mut wrong = different((&expected, &theirs), (&found, &ours));
    let log = |server: &Server| -> Vec<String> {
        let log: Vec<String> = server.take_log().iter().map(|l| without_port(server, l)).collect();
        without_boundaries(&log)
    };
    let (theirs_log, ours_log) = (log(&theirs), log(&ours));
    // The order of a single user is the same, except of random steps.
    if more.contains(&("users", "1")) {
        let fixed = |line: &&String| !line.contains("random");
        let theirs = theirs_log.iter().filter(fixed);
        let pairs = theirs.zip(ours_log.iter().filter(fixed));
        if let Some((theirs, ours)) = pairs.into_iter().find(|(theirs, ours)| theirs != ours) {
            wrong.push(format!("JMeter sent {theirs}, weir {ours}"));
        }
    }
    let is_exact = |line: &&String| !line.contains("?about") && !line.contains("/slow/");
    for line in theirs_log.iter().filter(is_exact) {
        let times = |log: &[String]| log.iter().filter(|other| *other == line).count();
        let (theirs, ours) = (times(&theirs_log), times(&ours_log));
        if theirs != ours {
            wrong.push(format!("JMeter sent {theirs}×, weir {ours}×: {line}"));
        }
    }
    for line in &ours_log {
        if !theirs_log.contains(line) {
            wrong.push(format!("only weir sent: {line}"));
        }
    }
    wrong.dedup();
    assert!(wrong.is_empty(), "{plan} {more:?}\n{}", wrong.join("\n"));
    assert_eq!(result["interrupted"], json!(0));
    assert!(result["samples"].as_u64() > Some(0), "also of a plan that ends itself: {result}");
}

/// A text without the port of the server.
fn without_port(server: &Server, text: &str) -> String {
    text.replace(&server.port.to_string(), "PORT")
}

/// Differences of samples, each with its server. Counts of labels that start with `about` depend on times.
fn different(
    (expected, theirs): (&Lines, &Server),
    (found, ours): (&Lines, &Server),
) -> Vec<String> {
    let mut wrong = Vec::new();
    for label in expected.keys().chain(found.keys().filter(|label| !expected.contains_key(*label)))
    {
        let (expected, found) = (expected.get(label), found.get(label));
        let shown = |line: Option<&Line>, server: &Server| {
            line.map(|line| without_port(server, &format!("{line:?}")))
        };
        let both = (shown(expected, theirs), shown(found, ours));
        let is_same = match (expected, found) {
            (Some(expected), Some(found)) if label.starts_with("about") => {
                found.count.abs_diff(expected.count) * 2 <= expected.count
            }
            _ => both.0 == both.1,
        };
        if !is_same {
            wrong.push(format!("{label}\n  JMeter {:?}\n  weir   {:?}", both.0, both.1));
        }
    }
    wrong
}

/// Runs a generated plan with both, with one thread and with three. Files of the plan are those of
/// the other plans.
fn compare_text(name: &str, plan: &str) {
    compare_text_with(name, plan, &[]);
}

/// Runs a plan with elements of plugins with both.
fn compare_plugins(name: &str, plan: &str) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join(format!("{name}.jmx"));
    fs::write(&path, plan).expect("written");
    compare_with(WITH_PLUGINS.as_deref(), path.to_str().expect("text"), &[("users", "2")]);
}

/// Likewise, with more files beside the plan.
fn compare_text_with(name: &str, plan: &str, more: &[(&str, &str)]) {
    let folder = tempfile::tempdir().expect("a folder");
    for entry in fs::read_dir(plans()).expect("plans").flatten() {
        fs::copy(entry.path(), folder.path().join(entry.file_name())).expect("a copy");
    }
    for (file, text) in more {
        fs::write(folder.path().join(file), text).expect("written");
    }
    let path = folder.path().join(format!("{name}.jmx"));
    fs::write(&path, plan).expect("written");
    let path = path.to_str().expect("text");
    compare(path, &[("users", "1")]);
    compare(path, &[("users", "3")]);
}

#[test]
fn a_plan_is_checked_without_a_run() {
    let folder = tempfile::tempdir().expect("a folder");
    let check = |name: &str, plan: &str, args: &[&str]| {
        fs::write(folder.path().join(name), plan).expect("written");
        let output = weir(folder.path(), &[&["lab", "check"], args, &[name]].concat());
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        (output.status.code(), text, String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let sampler = elements::get("ask");
    let fine = elements::plan(&elements::group("Users", "1", "1", &[], &sampler));
    let (code, text, _) = check("fine.jmx", &fine, &["-Jport=1"]);
    assert_eq!((code, text.trim()), (Some(0), "fine.jmx: valid, 1 thread group"));

    let script = elements::el("JSR223Sampler", "script", &[], "");
    let wrong = elements::plan(&elements::group("Users", "1", "1", &[], &script.repeat(2)));
    let (code, _, said) = check("wrong.jmx", &wrong, &[]);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("JSR223Sampler `script`") && said.contains("2 errors"), "{said}");
    let (code, text, _) = check("wrong.jmx", &wrong, &["--json"]);
    let found: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(
        (code, &found["ok"], &found["findings"][1]["severity"]),
        (Some(2), &json!(false), &json!("error"))
    );
    let (code, text, said) = check("wrong.jmx", &wrong, &["--lenient"]);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("skipped: ") && text.contains("valid"), "{said}");
}

#[test]
fn an_http_post_in_the_style_of_wso2() {
    compare("http-post.jmx", &[("users", "3"), ("loops", "20")]);
    compare("http-post.jmx", &[("size", "1024B"), ("path", "/text")]);
}

#[test]
fn a_web_shop() {
    compare("web-shop.jmx", &[]);
}

#[test]
fn every_assertion() {
    compare("assertions.jmx", &[]);
}

#[test]
fn every_element() {
    compare("elements.jmx", &[]);
}

#[test]
fn tables_are_those_that_jmeter_makes_of_its_results() {
    let folder = tempfile::tempdir().expect("a folder");
    let row = |start: u64, elapsed: u64, label: &str, success: bool| {
        format!("{start},{elapsed},{label},200,OK,T 1-1,text,{success},,1024,512,1,1,u,1,0,0\n")
    };
    let rows =
        row(1_000, 100, "a", true) + &row(1_100, 300, "b", false) + &row(1_400, 100, "a", true);
    fs::write(folder.path().join("r.jtl"), jtl::HEADER.to_owned() + &rows).expect("written");
    let print = |args: &[&str]| {
        let output = weir(folder.path(), args);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("text")
    };
    assert_eq!(
        print(&["lab", "report", "--csv", "summary", "r.jtl"]),
        "Label,# Samples,Average,Min,Max,Std. Dev.,Error %,Throughput,Received KB/sec,Sent KB/sec,\
         Avg. Bytes\na,2,100,100,100,0.00,0.000%,4.00000,4.00,2.00,1024.0\n\
         b,1,300,300,300,0.00,100.000%,3.33333,3.33,1.67,1024.0\n\
         TOTAL,3,166,100,300,94.28,33.333%,6.00000,6.00,3.00,1024.0\n"
    );
    assert!(print(&["lab", "report", "r.jtl"]).contains("90% Line"));
}

#[test]
fn all_mistakes_of_a_plan_are_reported() {
    let folder = tempfile::tempdir().expect("a folder");
    let plan = "<jmeterTestPlan><hashTree>\n<TestPlan/>\n<hashTree><ThreadGroup testname=\"T\"/>\n\
                <hashTree>\n<JDBCSampler testname=\"i\"/><hashTree/>\n<JSR223Sampler \
                testname=\"s\"/><hashTree/></hashTree></hashTree></hashTree></jmeterTestPlan>";
    fs::write(folder.path().join("p.jmx"), plan).expect("written");
    let output = weir(folder.path(), &["lab", "run", "p.jmx"]);
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(
        String::from_utf8_lossy(&output.stderr),
        "p.jmx: line 5: JDBCSampler `i`: the Lab does not support this element (`--lenient` skips it)\n\
         p.jmx: line 6: JSR223Sampler `s`: the Lab does not run scripts (`--lenient` skips it)\n"
    );
}

#[test]
fn a_plan_leaves_results_and_a_report_behind_and_can_be_compared() {
    let server = Server::start();
    let folder = tempfile::tempdir().expect("a folder");
    let plan = plans().join("http-post.jmx");
    let port = format!("-Jport={}", server.port);
    let run = |out: &str, more: &[&str]| {
        let plan = plan.to_str().expect("text");
        let args = ["lab", "run", plan, &port, "-Jusers=2", "-Jloops=50", "--out", out, "--json"];
        let output = weir(folder.path(), &[&args, more].concat());
        let last = String::from_utf8_lossy(&output.stdout).lines().last().map(str::to_owned);
        let result: Value = serde_json::from_str(&last.expect("a line")).expect("JSON");
        (output, result)
    };
    let (output, result) = run("one", &["-Jtoken.secret=hidden-value"]);
    assert_eq!(result["folder"], "one", "{}", String::from_utf8_lossy(&output.stderr));
    let read = |name: &str| fs::read_to_string(folder.path().join(name)).expect("a file");
    let summary: Value = serde_json::from_str(&read("one/summary.json")).expect("JSON");
    let total = &summary["cells"][0]["labels"][0];
    assert_eq!((&total["samples"], &summary["verdict"]), (&result["samples"], &result["verdict"]));
    assert!(read("one/report.html").contains("http-post"));
    let described = read("one/run.json");
    assert!(described.contains("-Jtoken.secret=***") && !described.contains("hidden-value"));
    assert!(read("one/events.jsonl").contains("round 1"));

    let (_, compared) = run("two", &["--baseline", "one"]);
    let summary: Value = serde_json::from_str(&read("two/summary.json")).expect("JSON");
    assert!(summary["comparison"].is_object(), "{summary}");
    assert_eq!(summary["verdict"], compared["verdict"]);
    let again = weir(folder.path(), &["lab", "run", plan.to_str().expect("text"), "--out", "one"]);
    assert_eq!(again.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&again.stderr).contains("already has results"));
}
